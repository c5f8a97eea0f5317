"""A stream in slices gives what it gives as a whole: any workload, any size of slice and batch."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.batches import Batch
from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.results.tables import Results
from optimizer.ir.query import BoundWorkload
from tests.running import How, run_local
from tests.strategies import SHAPE, Row, Shape, event_rows, has_sequence, workloads

COLUMNS = {"ts": pa.int64(), "kind": pa.string(), "k": pa.int64(), "x": pa.int64(), "y": pa.int64()}
MILLISECOND = 10**6

# Few types and no conditions on single events: many matches.
DENSE = replace(SHAPE, types=("A", "B"), local=False, constants=False, max_components=4)
COUNTED = replace(DENSE, outputs=("trigger", "slide"), ties=False, groups=False)
# Matches that are certain only when their window has closed.
WAITING = replace(DENSE, outputs=("return",), operators=("SEQ", "AND"), max_window=4)

Case = tuple[BoundWorkload, list[Row]]


def cases(shape: Shape, max_size: int = 12) -> st.SearchStrategy[Case]:
    return workloads(shape, max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found),
            event_rows(sequence=has_sequence(found), types=shape.types, max_size=max_size),
        )
    )


def multiset(results: list[Results]) -> tuple[Counter[Any], Counter[Any]]:
    aggregates = [row for part in results for row in part.aggregates.to_pylist()]
    matches = [row for part in results for row in part.matches.to_pylist()]
    return (
        Counter(tuple(row.values()) for row in aggregates),
        Counter(tuple(row.values()) for row in matches),
    )


def disorder_of(rows: list[Row]) -> int:
    """How much later than a later one an event comes at most."""
    latest = np.maximum.accumulate([row["ts"] for row in rows]) if rows else np.array([0])
    return int(max((m - row["ts"] for m, row in zip(latest, rows, strict=False)), default=0))


def batches(table: pa.Table, size: int) -> Iterator[Batch]:
    for start in range(0, table.num_rows, size):
        part = table.slice(start, size)
        rows = np.arange(start + 1, start + 1 + part.num_rows)
        yield Batch(part, part.column("ts").to_numpy(), "events", rows)


def check(case: Case, slicing: SliceSize, batch_rows: int) -> None:
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    whole = run_local(workload, from_table(table, workload.stream))
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults())
    pieces = cut(
        batches(table, batch_rows),
        table.schema,
        workload.stream,
        lateness,
        run.reach,
        slicing,
        run.carried,
    )
    assert multiset([run.run(piece) for piece in pieces]) == multiset([whole])


sizes = st.sampled_from([1, 1, 1, 2, 3, 5])


@given(cases(SHAPE), sizes, sizes, st.booleans())
@settings(max_examples=200)
def test_any_workload(case: Case, rows: int, batch_rows: int, grow: bool) -> None:
    check(case, SliceSize(rows, grow), batch_rows)


@given(cases(DENSE), sizes, sizes, st.booleans())
@settings(max_examples=200)
def test_many_matches(case: Case, rows: int, batch_rows: int, grow: bool) -> None:
    check(case, SliceSize(rows, grow), batch_rows)


@given(cases(COUNTED), sizes, sizes)
@settings(max_examples=150)
def test_counted_queries(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, grow=False), batch_rows)


@given(cases(WAITING), sizes, sizes)
@settings(max_examples=150)
def test_matches_that_wait(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, grow=False), batch_rows)
