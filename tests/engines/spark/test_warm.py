"""Kernels are loaded before a run, and not in the middle of it."""

import pyarrow as pa
from numba.core.dispatcher import Dispatcher

from engines.input.event_table import from_table
from kernels.chains import cpu as chains
from kernels.joins import cpu as joins
from kernels.texts import cpu as texts
from optimizer.bind.binder import load_bound
from tests.running import run_local


def test_what_a_run_needs_is_loaded_beforehand() -> None:
    compiled = [
        found
        for module in (joins, chains, texts)
        for found in vars(module).values()
        if isinstance(found, Dispatcher) and found.py_func.__module__ == module.__name__
    ]
    for module in (joins, chains, texts):
        module.warm()
    before = [len(kernel.signatures) for kernel in compiled]
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    queries = [
        "SEQ(A a, B b, C c) WHERE a.x = c.x RETURN a, b, c WITHIN 5 ms",
        "SEQ(A a, !B b, C c) WHERE a.x < c.x RETURN a, c WITHIN 5 ms",
        "SEQ(A a, B+ b, C c) RETURN a, b WITHIN 5 ms",
    ]
    workload = load_bound(
        {
            "stream": stream,
            "queries": [f"QUERY q{i} PATTERN {query}" for i, query in enumerate(queries)],
        }
    )
    rows = {"ts": range(9), "kind": list("ABCABCABC"), "x": [1, 2, 1] * 3}
    run_local(workload, from_table(pa.table(rows), workload.stream))
    assert [len(kernel.signatures) for kernel in compiled] == before
