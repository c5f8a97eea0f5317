"""Live streams whose windows have clocks of their own, and row patterns: as over stored events."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.live.run import LiveRun
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.test_bucket import turns
from tests.differential.test_continued import batches_of
from tests.differential.test_framed_windows import framed
from tests.differential.test_joins_of_sides import COUNTED, joins
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_live_memory import going_on, restarts
from tests.differential.test_local import COLUMNS
from tests.differential.test_row_patterns import STREAM, clauses, outcome, streams
from tests.differential.test_slices import MILLISECOND, disorder_of, multiset
from tests.running import How, generation_of
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
    expected = reference(workload, table)
    try:
        found = rows_of(run_live(workload, batches_of(table, cuts)))
    except UnsupportedError as error:
        assume("its pattern has $" not in str(error))
        assert expected == "refused"
        return
    assert found == expected


@settings(max_examples=60, deadline=None)
@given(CLOCKS, ROWS, st.lists(st.integers(-2, 20), min_size=2, max_size=8), restarts, st.booleans())
def test_another_plan_and_what_is_kept_in_memory_change_no_row(
    workload: BoundWorkload, rows: list[Row], cuts: list[int], restarted: list[bool], alone: bool
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    expected = run_oracle(workload, from_table(table, workload.stream))
    programs = [How().program(workload), How(sharing=not alone).program(workload)]
    assert rows_of(going_on(programs, batches_of(table, cuts), restarted)) == rows_of([expected])


@settings(max_examples=60, deadline=None)
@given(clauses(), streams(1), streams(1), st.lists(st.integers(-2, 24), min_size=2, max_size=8))
def test_row_patterns_of_buckets_that_take_turns_are_those_of_each(
    text: str, one: pa.Table, other: pa.Table, cuts: list[int]
) -> None:
    """One worker remembers both buckets."""
    workload = bound(text, stream=STREAM)
    try:
        bucket = Bucket({"0": generation_of(workload)}, one.schema, MILLISECOND)
    except UnsupportedError:
        assume(False)
    expected = [reference(workload, table) for table in (one, other)]
    assume("refused" not in expected)
    states: list[bytes | None] = [None, None]
    found: list[list[Results]] = [[], []]
    until = None  # of a batch's events it is known with the next that all have come
    for parts in zip(*(batches_of(table, cuts) for table in (one, other)), strict=True):
        for place, (part, _) in enumerate(parts):
            turn = bucket.turn(states[place], [part] if part.num_rows else [], until, place)
            states[place] = turn.state
            found[place].append(turn.results)
        until = parts[0][1]
    for place, state in enumerate(states):
        found[place] += [] if state is None else [bucket.finish(state).results]
    assert [rows_of(each) for each in found] == expected


def reference(workload: BoundWorkload, table: pa.Table) -> Any:
    """The rows of the reference, or that it refuses where the search goes on."""
    return outcome(lambda: run_oracle(workload, from_table(table, workload.stream)))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SEQ(A a, !B b) RETURN a.x WITHIN 2 EVENTS OF (A) SUPPRESS 1 ms", "SUPPRESS cannot go by"),
        ("SEQ(A a, B b) RETURN a.x WITHIN 2 EVENTS OF (A) LIMIT 2", "taken live without LIMIT"),
        (
            "SEQ(A a, B b) AGG COUNT(*) GROUP BY b.y WITHIN SESSION 3 ms",
            "taken live without GROUP BY",
        ),
    ],
)
def test_what_no_live_stream_can_tell_is_refused_with_a_remedy(query: str, why: str) -> None:
    stream = {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"}
    workload = load_bound({"stream": stream, "queries": [f"QUERY q PATTERN {query}"]})
    with pytest.raises(UnsupportedError, match=why):
        LiveRun(How().program(workload), MILLISECOND)


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("ORDER BY ts PATTERN (A $)", r"its pattern has \$"),
        ("ORDER BY x, ts PATTERN (A)", "its ORDER BY does not begin with 'ts'"),
    ],
)
def test_a_row_pattern_that_needs_the_last_row_is_refused(clause: str, why: str) -> None:
    workload = bound(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", stream=STREAM)
    with pytest.raises(UnsupportedError, match=why):
        LiveRun(How().program(workload), MILLISECOND)
