"""What a slice held is let go of with its last reader, and not when cycles are looked for."""

import gc

import pyarrow as pa

from engines.columns.columns import Columns
from engines.input.event_table import from_table
from engines.local.run import collected, event_chunks
from engines.program import RunContext
from optimizer.bind.binder import bind
from tests.running import How
from workloads.loading import load_workload

QUERIES = [
    "QUERY counted PATTERN SEQ(A a, B b) PARTITION BY user AGG COUNT(*), SUM(b.x) WITHIN 1 s",
    "QUERY found PATTERN SEQ(A a, !C c, B b) WHERE a.name = b.name RETURN a, b.x WITHIN 1 s",
    "QUERY texts PATTERN SEQ(A a, B b) WHERE a.name LIKE 'n%' RETURN a.name WITHIN 1 s",
]


def held_columns() -> set[int]:
    # Not isinstance: it asks proxies of what is gone for their class.
    return {id(each) for each in gc.get_objects() if issubclass(type(each), Columns)}


def test_columns_are_gone_after_a_run() -> None:
    workload = bind(
        load_workload({"stream": {"time": "ts", "unit": "ms", "type": "t"}, "queries": QUERIES})
    )
    size = 60
    table = pa.table(
        {
            "ts": list(range(size)),
            "t": ["ABC"[i % 3] for i in range(size)],
            "user": [f"u{i % 4}" for i in range(size)],
            "name": [f"n{i % 2}" for i in range(size)],
            "x": [float(i) for i in range(size)],
        }
    )
    gc.collect()
    gc.disable()
    before = held_columns()
    try:
        events = from_table(table, workload.stream)
        chunks = event_chunks(How().program(workload), events, RunContext())
        found = collected(chunks, events.time_type)
        assert found.aggregates.num_rows
        assert found.matches.num_rows
        assert held_columns() <= before
    finally:
        gc.enable()
