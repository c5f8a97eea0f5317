"""How a stream is cut: where, and how much of it is held."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.execution import EventSource, Execution, Monitor, RowSink
from engines.input.batches import Batch
from engines.input.event_table import Faults
from engines.input.lateness import Lateness
from engines.limits import BadRowError
from engines.local.slices import Slice, SliceReach, SliceSize, cut
from engines.matching.trees.buffers import SelectedEvents
from engines.program import RunOptions
from engines.run import run
from optimizer.bind.binder import load_bound
from sharing.planner import make_plan
from workloads.workload import Stream

STREAM = Stream(time="ts", type="kind", unit="s")
SCHEMA = pa.schema([("ts", pa.int64()), ("kind", pa.string())])
SECOND = 10**9


def batches(times: list[int], size: int) -> Iterator[Batch]:
    for start in range(0, len(times), size):
        ticks = np.array(times[start : start + size])
        table = pa.table({"ts": ticks, "kind": ["A"] * len(ticks)}, SCHEMA)
        yield Batch(table, ticks, "e.csv", np.arange(start + 1, start + 1 + len(ticks)))


def slices(
    times: list[int],
    reach: SliceReach,
    slicing: SliceSize,
    size: int = 3,
    bound: int | None = None,
    faults: Faults | None = None,
) -> list[Slice]:
    lateness = Lateness(bound, False, SECOND, "ts", faults or Faults())
    return list(cut(batches(times, size), SCHEMA, STREAM, lateness, reach, slicing))


def test_a_short_stream_is_one_slice_in_any_order() -> None:
    (only,) = slices([3, 1, 2], SliceReach(), SliceSize(3))
    assert (only.start, only.stop) == (None, None)
    assert only.events.ticks.tolist() == [1, 2, 3]


def test_slices_cover_time_without_gaps_or_overlaps() -> None:
    times = sorted([i * i // 7 for i in range(40)])
    for size in (1, 4, 100):
        found = slices(times, SliceReach(6, 6), SliceSize(5, grow=False), size)
        assert found[0].start is None
        assert found[-1].stop is None
        assert [s.stop for s in found[:-1]] == [s.start for s in found[1:]]
        assert [t for s in found for t in s.own.ticks.tolist()] == times
        for piece in found:
            low = -1 if piece.start is None else piece.start - 6
            high = 10**6 if piece.stop is None else piece.stop + 6
            assert piece.events.ticks.tolist() == [t for t in times if low < t < high]


def test_simultaneous_events_stay_together() -> None:
    found = slices([1, 1, 1, 2, 2, 3], SliceReach(), SliceSize(2, grow=False), size=1)
    assert [s.own.ticks.tolist() for s in found] == [[1, 1, 1], [2, 2], [3]]


@pytest.mark.parametrize("events", [1_000, 10_000])
def test_what_is_held_depends_on_window_and_slice_and_not_on_the_stream(events: int) -> None:
    """One event a second: the window behind, the slice or as much as the window, and ahead."""
    longest = 0
    lateness = Lateness(5, False, SECOND, "ts", Faults())
    arriving = batches(list(range(events)), 7)
    for piece in cut(arriving, SCHEMA, STREAM, lateness, SliceReach(50, 50), SliceSize(20)):
        longest = max(longest, len(piece.events))
        assert piece.start is None or len(piece.own) <= 50
    assert longest <= 50 + 50 + 50


def test_disorder_within_the_bound_is_sorted() -> None:
    times = [2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10]
    for size in (1, 2, 5):
        found = slices(times, SliceReach(2, 2), SliceSize(2, grow=False), size, bound=2)
        assert [t for s in found for t in s.own.ticks.tolist()] == sorted(times)


def test_events_beyond_the_bound_are_named_or_left_out() -> None:
    times = [0, 5, 2, 6, 7, 8, 3, 9]
    with pytest.raises(
        BadRowError, match=r"'e.csv', row 3, column 'ts': the event comes 3 s after"
    ):
        slices(times, SliceReach(), SliceSize(2), bound=2)
    faults = Faults("skip")
    found = slices(times, SliceReach(), SliceSize(2), bound=2, faults=faults)
    assert [t for s in found for t in s.own.ticks.tolist()] == [0, 5, 6, 7, 8, 9]
    assert dict(faults.counts) == {"late": 2}


def test_numbers_without_a_sign_may_grow_past_integers() -> None:
    def arriving() -> Iterator[Batch]:
        for i in range(8):
            values = pa.array([2**64 - 1 if i == 5 else i], pa.uint64())
            yield Batch(
                pa.table({"ts": [i], "kind": ["A"], "x": values}),
                np.array([i]),
                "e.parquet",
                np.array([i + 1]),
            )

    schema = SCHEMA.append(pa.field("x", pa.uint64()))
    lateness = Lateness(None, False, SECOND, "ts", Faults())
    found = list(cut(arriving(), schema, STREAM, lateness, SliceReach(3), SliceSize(2, grow=False)))
    assert [x for s in found for x in s.own.column("x").to_pylist()] == [
        0, 1, 2, 3, 4, float(2**64 - 1), 6, 7,
    ]  # fmt: skip


def test_slices_are_no_shorter_than_what_is_carried_over_to_them() -> None:
    lateness = Lateness(None, False, SECOND, "ts", Faults())
    arriving = batches(list(range(100)), 1)
    found = list(cut(arriving, SCHEMA, STREAM, lateness, SliceReach(), SliceSize(5), lambda: 30))
    assert [len(piece.own) for piece in found] == [30, 30, 30, 10]


def test_no_slice_is_kept_when_it_is_done(tmp_path: Path) -> None:
    """Trees that are chosen on the events of a slice rest on its statistics, not on its events."""
    document = {
        "name": "t",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "queries": ["QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x RETURN a.x WITHIN 9 ms"],
    }
    rows = 600
    table = {"ts": range(rows), "kind": ["ABC"[i % 3] for i in range(rows)], "x": range(rows)}
    pq.write_table(pa.table({n: list(v) for n, v in table.items()}), tmp_path / "e.parquet")
    held: list[int] = []

    class Watch(Monitor):
        def on_slice(self, *told: object) -> None:
            gc.collect()
            held.append(sum(type(each) is SelectedEvents for each in gc.get_objects()))

    plan = make_plan(load_bound(document), document)
    execution = Execution(options=RunOptions(threads=1), slice_rows=100)
    source = EventSource(str(tmp_path / "e.parquet"))
    run(plan, source, RowSink(str(tmp_path / "r.parquet")), execution, Watch())
    assert len(held) > 4
    assert set(held) == {0}


def first_slice(reach: int, size: int) -> int:
    """The events of the first slice of a stream with one event a second."""
    lateness = Lateness(None, False, SECOND, "ts", Faults())
    arriving = batches(list(range(1_000)), 7)
    found = cut(arriving, SCHEMA, STREAM, lateness, SliceReach(reach), SliceSize(size))
    return len(next(found).own)


def test_the_first_slice_waits_until_not_all_of_it_is_carried_over() -> None:
    """Else the next one would run over all of it again, and so on until windows are full."""
    assert first_slice(reach=10, size=20) == 20
    assert first_slice(reach=50, size=20) == 51
    assert first_slice(reach=900, size=20) == 80
