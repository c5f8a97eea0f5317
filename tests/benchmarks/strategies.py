"""Strict gaps and next matches: many queries in one pass, and beside queries without them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from engines.input.event_table import from_table
from engines.local.run import event_chunks
from engines.program import RunContext, bound_program
from engines.results.struct_sorting import StructRows
from engines.results.structs import match_structs
from engines.results.tables import Results, empty_results
from engines.statistics.measure import measure as measure_events
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import Plan
from tests.benchmarks.found import Found, found_results
from tests.benchmarks.measuring import Measured, Row, Size, Variant, measure
from tests.running import How, run_local

NAME = "strategies"
TYPES = tuple("ABCDEFGHIJ")
_SAMPLE = 10_000  # events that a plan is made on, as a run of files does
_COUNTED = "AGG COUNT(*) HAVING COUNT(*) > 1000000 WITHIN 100 ms"  # what it gives is not measured


def by_strategy(size: Size) -> Iterator[Row]:
    """Sequences of three of ten types, an event each millisecond; events per second of CPU.

    A hundred queries with STRATEGY STRICT are counted together and one by one; then together by a
    plan that was made before. One query is counted with gaps of each kind, and then its matches are
    returned, of which there are as many fewer, as columns of Arrow and with their texts in JSON.
    """
    events, number = (1_000_000, 100) if size == "full" else (10_000, 5)
    table = _stream(events)
    random = np.random.default_rng(3)
    patterns = [tuple(random.permutation(TYPES)[:3].tolist()) for _ in range(number)]
    strict = [f"{_sequence(parts)} STRATEGY STRICT {_COUNTED}" for parts in patterns]
    planned = _planned(table, strict)
    together = {
        "together": Variant(partial(_run, table, strict), partial(_found, number)),
        "one by one": Variant(partial(_each, table, strict), partial(_found, number)),
        "planned before": Variant(partial(_run_plan, *planned), partial(_found, number)),
    }
    seconds = measure(together, size, time.process_time)
    yield Measured(NAME, "strict", f"{number} strict sequences", events, seconds)
    gaps = {
        "any": "SEQ(A a, B b, C c)",
        ":": "SEQ(A a, : B b, : C c)",
        ">": "SEQ(A a, > B b, > C c)",
    }
    returned = "RETURN a.ts, c.ts WITHIN 100 ms"
    counted = partial(_found, 1)
    for asked, output, run, found in (
        ("counted", _COUNTED, _run, counted),
        ("returned as columns", returned, _run_to_columns, _number),
        ("returned as texts", returned, _run, counted),
    ):
        variants = {
            name: Variant(partial(run, table, [f"PATTERN {gap} {output}"]), found, name)
            for name, gap in gaps.items()
        }
        seconds = measure(variants, size, time.process_time)
        yield Measured(NAME, "gaps", asked, events, seconds)


def _stream(events: int) -> pa.Table:
    random = np.random.default_rng(2)
    codes = random.integers(0, len(TYPES), events).astype(np.int32)
    kinds = pa.DictionaryArray.from_arrays(codes, pa.array(TYPES)).cast(pa.string())
    return pa.table({"ts": np.arange(events), "kind": kinds})


def _sequence(parts: Sequence[str]) -> str:
    return f"PATTERN SEQ({', '.join(f'{kind} {kind.lower()}' for kind in parts)})"


def _run(table: pa.Table, queries: Sequence[str], first: int = 0) -> list[Results]:
    return _run_plan(*_planned(table, queries, first))


def _planned(
    table: pa.Table, queries: Sequence[str], first: int = 0
) -> tuple[BoundWorkload, Plan, pa.Table]:
    named = [f"QUERY q{first + place} {text}" for place, text in enumerate(queries)]
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    workload = load_bound({"name": NAME, "stream": stream, "queries": named})
    sample = from_table(table.slice(0, _SAMPLE), workload.stream)
    return workload, How().plan(workload, measure_events(workload, sample)), table


def _run_plan(workload: BoundWorkload, plan: Plan, table: pa.Table) -> list[Results]:
    return [run_local(workload, from_table(table, workload.stream), plan=plan)]


def _run_to_columns(table: pa.Table, queries: Sequence[str]) -> list[Results]:
    """The same with matches as structs."""
    workload, plan, _ = _planned(table, queries)
    events = from_table(table, workload.stream)
    structs = match_structs(workload, table.schema)
    assert structs is not None
    rows = StructRows(structs)
    rows.add(empty_results(events.time_type))
    for chunk in event_chunks(bound_program(plan, workload), events, RunContext()):
        rows.take(chunk)
    assert rows.first is not None
    return [rows.first]


def _each(table: pa.Table, queries: Sequence[str]) -> list[Results]:
    return [part for i, query in enumerate(queries) for part in _run(table, [query], i)]


def _found(number: int, results: list[Results]) -> Found:
    names = [f"q{place}" for place in range(number)]
    whole = Found(0, 0, 0)
    for part in results:
        whole += found_results(part, names)
    return whole


def _number(results: list[Results]) -> Found:
    return Found(sum(part.matches.num_rows for part in results), 0, 0)
