"""`JOIN` and `LEFT JOIN`: every way to run them gives what the reference gives."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.test_local import COLUMNS, events_of
from tests.differential.test_slices import MILLISECOND, batches, disorder_of, multiset
from tests.running import How, run_local
from tests.strategies import Row, event_rows

CONDITIONS = (
    "",
    "WHERE l.x <= r.x",
    "WHERE l.x = r.y",
    "WHERE l.k = r.k AND l.x + r.x > 2",
    "WHERE l.x > 1",
    "WHERE [k]",
    "WHERE l.x = r.x AND l.y = r.y",
)
WINDOWS_IN_TIME = ("1 ms", "2 ms", "3 ms", "7 ms")


@st.composite
def joins(draw: st.DrawFn, windows: tuple[str, ...] = WINDOWS_IN_TIME) -> BoundWorkload:
    sequence = any("EVENTS" in window for window in windows)
    window, kind = st.sampled_from(windows), st.sampled_from(("A", "B"))
    queries = []
    for number in range(draw(st.integers(1, 3))):
        word = draw(st.sampled_from(("JOIN", "LEFT JOIN")))
        left = f"{draw(kind)} l WITHIN {draw(window)}"
        right = f"{draw(kind)} r WITHIN {draw(window)}"
        where = draw(st.sampled_from(CONDITIONS))
        returned = "RETURN l, r.x, l.x + r.x AS total"
        queries.append(f"QUERY q{number} PATTERN {word}({left}, {right}) {where} {returned}")
    stream: dict[str, Any] = {"time": "ts", "type": "kind", "unit": "ms"}
    if sequence:
        stream["sequence"] = "seq"
    return load_bound({"name": "w", "stream": stream, "queries": queries})


@given(joins(), event_rows(max_size=14, types=("A", "B", "C")), st.booleans())
@settings(max_examples=80)
def test_windows_in_time(workload: BoundWorkload, rows: list[Row], sharing: bool) -> None:
    events = events_of(workload, rows)
    found = run_local(workload, events, how=How(sharing=sharing))
    assert multiset([found]) == multiset([run_oracle(workload, events)])


COUNTED = ("1 EVENTS", "2 EVENTS", "3 EVENTS", "2 ms")


@given(joins(COUNTED), event_rows(sequence=True, max_size=14, types=("A", "B", "C")))
@settings(max_examples=80)
def test_windows_of_events(workload: BoundWorkload, rows: list[Row]) -> None:
    events = events_of(workload, rows)
    found = run_local(workload, events)
    assert multiset([found]) == multiset([run_oracle(workload, events)])


sizes = st.sampled_from([1, 2, 3, 7])


@given(joins(), event_rows(max_size=14, types=("A", "B")), sizes, sizes)
@settings(max_examples=60)
def test_slices(workload: BoundWorkload, rows: list[Row], size: int, batch_rows: int) -> None:
    table = pa.Table.from_pylist(rows, pa.schema(COLUMNS))
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults())
    given_ = (table.schema, workload.stream, lateness, run.reach, SliceSize(size), run.carried)
    pieces = cut(batches(table, batch_rows), *given_)
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert multiset([run.run(piece) for piece in pieces]) == multiset([expected])


def pairs(pattern: str, kinds: str, where: str = "") -> list[str]:
    """The pairs of numbered events, one a millisecond, of the types that the letters name."""
    workload = load_bound(
        {
            "stream": {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"},
            "queries": [f"QUERY q PATTERN {pattern} {where} RETURN l.ts, r.ts"],
        }
    )
    rows = [
        {"ts": time, "seq": time, "kind": kind, "k": 0, "x": time, "y": 0}
        for time, kind in enumerate(kinds, 1)
    ]
    found = run_local(workload, events_of(workload, rows)).matches.to_pylist()
    return sorted(f"{row['match']}@{row['time']}" for row in found)


def test_the_earlier_event_has_to_be_in_its_own_window() -> None:
    assert pairs("JOIN(A l WITHIN 2 ms, B r WITHIN 3 ms)", "ACBBCA") == [
        '{"l":{"ts":6},"r":{"ts":4}}@6',
    ]


def test_a_window_of_events_counts_its_own_side() -> None:
    assert pairs("JOIN(A l WITHIN 1 EVENTS, B r WITHIN 2 EVENTS)", "BBACB") == [
        '{"l":{"ts":3},"r":{"ts":1}}@3',
        '{"l":{"ts":3},"r":{"ts":2}}@3',
        '{"l":{"ts":3},"r":{"ts":5}}@5',
    ]


def test_a_left_event_without_partner_is_given_when_its_window_closes() -> None:
    assert pairs("LEFT JOIN(A l WITHIN 3 ms, B r WITHIN 3 ms)", "ACCACB") == [
        '{"l":{"ts":1}}@4',
        '{"l":{"ts":4},"r":{"ts":6}}@6',
    ]


def test_an_event_of_both_sides_is_no_partner_of_itself() -> None:
    assert pairs("JOIN(A l WITHIN 3 ms, A r WITHIN 3 ms)", "AA") == [
        '{"l":{"ts":1},"r":{"ts":2}}@2',
        '{"l":{"ts":2},"r":{"ts":1}}@2',
    ]


@pytest.mark.parametrize("kinds", ["", "A", "B", "CC"])
def test_no_pair_without_both_sides(kinds: str) -> None:
    assert pairs("JOIN(A l WITHIN 3 ms, B r WITHIN 3 ms)", kinds) == []
