"""Queries about situations give what their definition says, on every engine, slice and batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.live.run import LiveRun
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.local.threads import SliceThreads
from engines.reference.oracle import run_oracle
from engines.results.chunks import collected
from optimizer.bind.binder import load_bound
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_slices import MILLISECOND, batches
from tests.running import How, run_local
from tests.situations.random_situations import (
    long_lasting,
    stream_of,
    streams,
    workloads,
)


@settings(max_examples=250, deadline=None)
@given(workloads(), streams())
def test_one_pass_gives_what_the_definition_says(workload: Any, table: pa.Table) -> None:
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected
    assert rows_of([run_local(workload, events, how=How(sharing=False))]) == expected


@settings(max_examples=25, deadline=None)
@given(workloads(most=4, size=1), streams(most=10))
def test_four_situations_are_related_as_defined(workload: Any, table: pa.Table) -> None:
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected


@settings(max_examples=120, deadline=None)
@given(workloads(), streams(most=24), st.integers(1, 7), st.integers(1, 5), st.booleans())
def test_slices_and_threads_give_what_the_whole_stream_does(
    workload: Any, table: pa.Table, slice_events: int, batch: int, sharing: bool
) -> None:
    in_slices_as_whole(workload, table, slice_events, batch, sharing)


def in_slices_as_whole(
    workload: Any, table: pa.Table, slice_events: int, batch: int, sharing: bool
) -> None:
    expected = run_local(workload, from_table(table, workload.stream))
    run = SlicedRun(How(sharing=sharing).program(workload), MILLISECOND)
    ordered = table.sort_by([("ts", "ascending"), ("seq", "ascending")])
    pieces = cut(
        batches(ordered, batch),
        table.schema,
        workload.stream,
        Lateness(0, True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_events, grow=False),
        run.carried,
    )
    with SliceThreads(run, 1 + slice_events % 2) as threads:
        found = [
            collected(threads.chunks(piece), piece.events.time_type)
            for piece in threads.ahead(pieces)
        ]
    assert rows_of(found) == rows_of([expected])


@settings(max_examples=120, deadline=None)
@given(workloads(), streams(most=20), st.lists(st.integers(-2, 50), max_size=6))
def test_a_live_stream_restarted_after_each_batch_gives_the_same(
    workload: Any, table: pa.Table, cuts: list[int]
) -> None:
    expected = run_local(workload, from_table(table, workload.stream))
    assert rows_of(run_live(workload, batches_of(table, cuts))) == rows_of([expected])


@settings(max_examples=60, deadline=None)
@given(
    long_lasting(), st.integers(1, 20), st.booleans(), st.lists(st.integers(-30, 90), max_size=9)
)
def test_what_lasts_for_long_is_found_though_few_of_its_events_are_kept(
    case: tuple[Any, pa.Table], slice_events: int, sharing: bool, cuts: list[int]
) -> None:
    workload, table = case
    in_slices_as_whole(workload, table, slice_events, 3, sharing)
    expected = rows_of([run_local(workload, from_table(table, workload.stream))])
    assert rows_of(run_live(workload, batches_of(table, cuts))) == expected


@pytest.mark.parametrize("slice_events", [1, 2, 3, 4])
def test_of_simultaneous_events_all_are_kept_or_none(slice_events: int) -> None:
    # T is of A alone, and S of both: at 7 only A satisfies its condition.
    text = "DEFINE S AS x > 0, T OF A AS x > 0 {} PATTERN S any T RETURN S, T WITHIN 30 ms"
    times, kinds, x = [0, 5, 7, 7, 9, 11, 12, 13], "ABABAABA", [1, 0, 1, 0, 1, 1, 1, 0]
    table = pa.table({"ts": times, "seq": range(8), "kind": list(kinds), "x": x})
    for gap in ("", "GAP 5 ms"):
        workload = load_bound(
            {"name": "w", "stream": stream_of(False), "queries": [text.format(gap)]}
        )
        in_slices_as_whole(workload, table, slice_events, 1, True)
        expected = rows_of([run_oracle(workload, from_table(table, workload.stream))])
        assert rows_of(run_live(workload, batches_of(table, [slice_events, 8, 10]))) == expected


@settings(max_examples=60, deadline=None)
@given(workloads(size=2), streams(most=8), st.integers(0, 12))
def test_rows_that_time_alone_brings_come_when_they_are_due(
    workload: Any, table: pa.Table, until: int
) -> None:
    program = How().program(workload)
    live = LiveRun(program, MILLISECOND)
    (first, _), *_ = batches_of(table, [until])
    live.add(from_table(first, workload.stream), until)
    for time in range(until + 1, until + 30):
        due = live.due
        came = live.add(from_table(first.slice(0, 0), workload.stream), time)
        assert came.matches.num_rows == 0 or (due is not None and due <= time)
    assert live.due is None


def test_state_has_situations_and_not_their_events() -> None:
    def carried(returned: str, gap: str = "") -> int:
        text = f"DEFINE A AS x > 0 {gap} PATTERN A PARTITION BY k RETURN {returned} WITHIN 900 ms"
        stream = {"time": "ts", "unit": "ms", "type": "kind"}
        workload = load_bound({"name": "w", "stream": stream, "queries": [text]})
        live = LiveRun(How().program(workload), MILLISECOND)
        numbers = range(1_000)
        columns = {"ts": numbers, "kind": ["A"] * 1_000, "k": [n % 2 for n in numbers]}
        table = pa.table({**columns, "x": [n // 100 % 2 for n in numbers], "y": numbers})
        live.add(from_table(table, workload.stream), 999)
        return sum(size.events for size in live.held.values())

    assert carried("A.start, A.end") <= 2 * 2 * 5
    # Of each situation and key some moments that keep silence from ending it.
    assert carried("A.start, A.end", "GAP 20 ms") <= 2 * 5 * (2 + 2 * 100 // 20)
    assert carried("A.start, sum(A.x) AS t, avg(A.x) AS a, count(A.y) AS n") <= 2 * 5 * 3
    assert carried("A.start, max(A.x) AS most, min(A.k) AS least, last(A.ts) AS t") <= 2 * 5 * 6
