"""What is prepared once, when Sheaf is set up: compiled kernels, and archives of Spark's classes.

`python -m api.setup` does it. Every kernel is compiled as the engines call it: by its own `warm`,
and by small runs of all engines over events of all kinds. Nothing that fails here matters:
everything works without, only later.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import kernels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.input.event_table import Events
    from engines.program import CountingUnit, Program, Unit
    from optimizer.ir.query import BoundWorkload

_STREAM = {
    "time": "ts",
    "unit": "ms",
    "type": "kind",
    "sequence": "seq",
    "attributes": {"k": "string", "n": "int", "x": "int", "y": "float"},
}
_COUNTED = (
    "SEQ(A a, B b, C c) AGG COUNT(*)",
    "SEQ(A a, !B b, C c) AGG COUNT(*)",
    "SEQ(A a, : B b, : C c) AGG COUNT(*)",
    "SEQ(A a, B b) AGG COUNT(*), SUM(a.x), MIN(b.y), MAX(a.x), AVG(b.y)",
    "SEQ(A a, !B b, C c, A d) AGG COUNT(*), SUM(d.y), MAX(a.x)",
    "SEQ(A a, B+ b, C c) AGG COUNT(*)",
    "SEQ(A a, B+ b, C c) AGG SUM(c.x)",
    "SEQ(OR(A a, B b), C c) AGG COUNT(*)",
    "SEQ(A a, !SEQ(B b, C c), A d) AGG COUNT(*)",
    "AND(A a, B b) AGG COUNT(*)",
    "SEQ(A a, B b, C c) WHERE a.y < c.y AGG COUNT(*)",
    "SEQ(A a, B b, C c) WHERE a.y < b.y AND b.x >= c.x AGG COUNT(*), MAX(b.x)",
    "A a AGG SUM(a.x), COUNT(*)",
    "A a AGG MIN(a.y), MAX(a.y), AVG(a.x)",
)
_WINDOWS = ("WITHIN 20 ms", "WITHIN 20 ms SLIDE 5 ms", "WITHIN 5 EVENTS")
_FOUND = (
    "SEQ(A a, B b, C c) WHERE a.x = c.x RETURN a, b, c",
    "SEQ(A a, B b) WHERE a.k = b.k AND a.y < b.y RETURN a.ts",
    "SEQ(A a, B b) WHERE a.x + 1 < b.x AND a.x <= b.y RETURN a.ts",
    "SEQ(A a, !B b, C c) WHERE a.x < c.x RETURN a, c",
    "SEQ(A a, !B b, C c) WHERE a.x = b.x RETURN a, c",
    "SEQ(!B b, A a, C c) RETURN a",
    "SEQ(A a, C c, !B b) RETURN a",
    "SEQ(A a, !SEQ(B b, C c), A d) RETURN a",
    "SEQ(A a, B+ b, C c) RETURN a, b",
    "SEQ(A a, B+ b, C c) WHERE b.x > a.x RETURN a, b",
    "SEQ(A a, B^2 b, C c) RETURN a, b",
    "SEQ(A a, ALL B b, C c) RETURN a, b",
    "AND(A a, B b, C c) RETURN a",
    "AND(A a, B b, !C c) WHERE a.k = b.k RETURN a",
    "SEQ(OR(A a, B b), C c) RETURN c",
)
_KEYS = ("", " PARTITION BY k, n")


def compile_kernels() -> None:
    """Compile every kernel for what engines give it, or load it from the cache."""
    for module in kernel_modules():
        _attempt(getattr(module, "warm", lambda: None))
    _attempt(_run_all_engines)


def compile_modules() -> None:
    """Compile Python's modules and the grammar, also where the user has Python write nothing."""
    import compileall

    from workloads.parser import parse_condition

    root = Path(kernels.__path__[0]).parent
    for name in ("api", "engines", "kernels", "optimizer", "sharing", "workloads"):
        compileall.compile_dir(root / name, quiet=2)
    parse_condition("x > 0")


def kernel_modules() -> Iterator[ModuleType]:
    """The modules of kernels that are compiled for the CPU."""
    for found in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        if found.name.endswith(".cpu"):
            yield importlib.import_module(found.name)


def forget_kernels(folder: Path = Path(kernels.__path__[0])) -> None:
    """Remove what was compiled: numba does not see that a function which another calls changed."""
    for pattern in ("*.nbi", "*.nbc"):
        for path in folder.rglob(f"__pycache__/{pattern}"):
            path.unlink(missing_ok=True)


def _run_all_engines() -> None:
    """Small workloads over events of all kinds, by each engine that takes them."""
    from engines.local.run import run_events
    from engines.program import RunContext

    for workload in _workloads():
        for events in _streams(workload):
            for program in _programs(workload):
                _attempt(lambda p=program, e=events: run_events(p, e, RunContext()))


def _workloads() -> Iterator[BoundWorkload]:
    from optimizer.bind.binder import load_bound

    counted = [f"{text}{{key}} {window}" for text in _COUNTED for window in _WINDOWS]
    found = [f"{text}{{key}} {window}" for text in _FOUND for window in _WINDOWS[::2]]
    for key in _KEYS:
        texts = [text.format(key=key) for text in (*counted, *found)]
        queries = [f"QUERY q{i} PATTERN {text}" for i, text in enumerate(texts)]
        yield load_bound({"stream": _STREAM, "queries": queries})


def _streams(workload: BoundWorkload) -> Iterator[Events]:
    """Events with texts that repeat and that do not, and of types as files may have them."""
    import numpy as np
    import pyarrow as pa

    from engines.input.event_table import from_table

    number = 40
    draw = np.random.default_rng(0)
    kinds = [("A", "B", "C")[i] for i in draw.integers(0, 3, number)]
    keys = [f"key {i}" for i in draw.integers(0, 3, number)]
    table = pa.table(
        {
            "ts": np.arange(number) // 2 * 3,
            "seq": np.arange(number),
            "kind": kinds,
            "k": keys,
            "n": draw.integers(0, 3, number),
            "x": pa.array(draw.integers(0, 9, number), mask=draw.random(number) < 0.1),
            "y": draw.random(number),
        }
    )
    yield from_table(table, workload.stream)
    coded = table
    for name in ("kind", "k"):
        at = coded.column_names.index(name)
        coded = coded.set_column(at, name, coded.column(name).dictionary_encode())
    yield from_table(coded, workload.stream)


def _programs(workload: BoundWorkload) -> Iterator[Program]:
    from engines.program import CountingUnit, bound_program
    from optimizer.engines import COUNTING, takes
    from sharing.planner import make_plan

    planned = bound_program(make_plan(workload, {}, sharing=False), workload)
    counted = [unit for unit in planned.units if isinstance(unit, CountingUnit)]
    for engine in COUNTING:
        units: list[Unit] = []
        for unit in counted:
            if takes(engine, unit.queries):
                units += _by(unit, engine.NAME)
        yield planned.only(units)
    for counting in (True, False):
        yield bound_program(make_plan(workload, {}, counting=counting), workload)
    yield bound_program(make_plan(workload, {}, counting=False, shape="stepwise"), workload)
    yield bound_program(make_plan(workload, {}, counting=False, shape="walk"), workload)
    yield bound_program(make_plan(workload, {}, propagation="pass-down"), workload)


def _by(unit: CountingUnit, engine: str) -> list[CountingUnit]:
    """The unit with another engine, its queries whole and chopped into segments of two."""
    from optimizer.ir.chain import chain_of

    if engine != "chopconnect":
        return [replace(unit, engine=engine)]
    (query,) = unit.queries
    chain = chain_of(query)
    assert not isinstance(chain, str)
    steps = len(chain.components)
    chopped = tuple(min(2, steps - at) for at in range(0, steps, 2))
    return [
        replace(unit, engine=engine, lengths={query.name: lengths})
        for lengths in ((steps,), chopped)
    ]


def _attempt(prepare: object) -> None:
    assert callable(prepare)
    try:
        prepare()
    except Exception:
        traceback.print_exc()


def run_stream(session: SparkSession, folder: Path) -> None:
    """A small live stream, and that it goes on, for the archive of what Spark loads."""
    import pyarrow.parquet as pq

    from engines.program import bound_program
    from engines.spark.stream.job import StreamOptions, start_stream
    from engines.spark.stream.source import open_live_source
    from optimizer.bind.binder import load_bound
    from sharing.planner import make_plan

    queries = [
        "QUERY counted PATTERN SEQ(A a, B b) PARTITION BY n AGG COUNT(*) WITHIN 20 ms",
        "QUERY found PATTERN SEQ(A a, B b) PARTITION BY n RETURN a.ts WITHIN 20 ms",
    ]
    workload = load_bound({"stream": _STREAM, "queries": queries})
    program = bound_program(make_plan(workload, {}), workload)
    table = next(_streams(workload)).table
    (folder / "in").mkdir()
    options = StreamOptions(
        str(folder / "checkpoint"), str(folder / "out"), files_per_batch=1, once=True
    )
    for number in range(4):
        pq.write_table(table.slice(10 * number, 10), folder / "in" / f"{number}.parquet")
        if number % 2:
            source = open_live_source(str(folder / "in"), workload.stream)
            start_stream(session, program, source, options).wait()


if __name__ == "__main__":
    from engines.spark.runtime.startup import make_archives

    forget_kernels()
    _attempt(compile_modules)
    _attempt(compile_kernels)
    _attempt(lambda: make_archives(run_stream))
