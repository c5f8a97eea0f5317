"""Live streams whose windows have clocks of their own, and row patterns: as over stored events."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.reference.oracle import run_oracle
from optimizer.ir.query import BoundWorkload
from tests.differential.test_bucket import turns
from tests.differential.test_continued import batches_of
from tests.differential.test_framed_windows import framed
from tests.differential.test_joins_of_sides import COUNTED, joins
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_local import COLUMNS
from tests.differential.test_row_patterns import STREAM, clauses, outcome, streams
from tests.differential.test_slices import MILLISECOND, disorder_of, multiset
from tests.running import generation_of
from tests.sql_workloads import bound
from tests.strategies import Row, event_rows
from workloads.errors import UnsupportedError

SCHEMA = pa.schema({**COLUMNS, "seq": pa.int64()})
ROWS = event_rows(sequence=True, max_size=14, types=("A", "B", "C"))
CLOCKS = st.one_of(framed(), joins(COUNTED))


@settings(max_examples=150, deadline=None)
@given(CLOCKS, ROWS, st.lists(st.integers(-2, 20), max_size=8))
def test_a_live_stream_gives_the_rows_of_the_reference(
    workload: BoundWorkload, rows: list[Row], cuts: list[int]
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert rows_of(run_live(workload, batches_of(table, cuts))) == rows_of([expected])


@settings(max_examples=60, deadline=None)
@given(CLOCKS, ROWS, st.lists(st.integers(0, 4), max_size=6), st.integers(0, 2))
def test_any_order_of_arrival_gives_the_rows_of_the_reference(
    workload: BoundWorkload, rows: list[Row], sizes: list[int], slack: int
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    lateness = disorder_of(rows) + slack
    expected = run_oracle(workload, from_table(table, workload.stream))
    bucket = Bucket({"0": generation_of(workload)}, table.schema, MILLISECOND)
    eager, _ = turns(bucket, table, sizes, lateness, eager=True)
    lazy, state = turns(bucket, table, sizes, lateness, eager=False)
    rest = [] if state is None else [bucket.finish(state).results]
    # A turn that is not due would have given nothing.
    assert multiset(lazy) == multiset(eager)
    assert multiset(lazy + rest) == multiset([expected])


@settings(max_examples=150, deadline=None)
@given(clauses(), streams(1), st.lists(st.integers(-2, 24), max_size=8))
def test_row_patterns_of_a_live_stream_are_those_of_the_reference(
    text: str, table: pa.Table, cuts: list[int]
) -> None:
    workload = bound(text, stream=STREAM)
    expected = outcome(lambda: run_oracle(workload, from_table(table, workload.stream)))
    try:
        found = rows_of(run_live(workload, batches_of(table, cuts)))
    except UnsupportedError as error:
        assume("its pattern has $" not in str(error))
        assert expected == "refused"
        return
    assert found == expected
