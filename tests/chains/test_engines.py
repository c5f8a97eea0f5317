"""Queries that read one another's rows: every way to run them gives what the reference gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.live.run import LiveRun
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.chains.random_chains import chains
from tests.differential.test_continued import batches_of
from tests.differential.test_local import COLUMNS, events_of
from tests.differential.test_slices import MILLISECOND, batches, disorder_of, multiset
from tests.running import How, run_local
from tests.strategies import Row, event_rows
from workloads.errors import UnsupportedError

SIZES = st.sampled_from((1, 2, 3, 7, 4096))
TYPES = ("A", "B", "C")


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema({**dict(COLUMNS), "seq": pa.int64()}))


@given(chains(), event_rows(sequence=True, max_size=10, types=TYPES), st.booleans())
@settings(max_examples=60, deadline=None)
def test_all_events_at_once(workload: BoundWorkload, rows: list[Row], sharing: bool) -> None:
    events = events_of(workload, rows)
    found = run_local(workload, events, how=How(sharing=sharing))
    assert multiset([found]) == multiset([run_oracle(workload, events)])


@given(chains(), event_rows(sequence=True, max_size=10, types=TYPES), SIZES, SIZES)
@settings(max_examples=40, deadline=None)
def test_slices(workload: BoundWorkload, rows: list[Row], size: int, batch_rows: int) -> None:
    table = table_of(rows)
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults())
    given_ = (table.schema, workload.stream, lateness, run.reach, SliceSize(size), run.carried)
    found = [run.run(piece) for piece in cut(batches(table, batch_rows), *given_)]
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert multiset(found) == multiset([expected])


@given(
    chains(),
    event_rows(sequence=True, max_size=10, types=TYPES),
    st.lists(st.integers(-2, 14), max_size=6),
)
@settings(max_examples=30, deadline=None)
def test_live_with_restarts(workload: BoundWorkload, rows: list[Row], cuts: list[int]) -> None:
    table = table_of(rows)
    program = How().program(workload)
    live, found = LiveRun(program, MILLISECOND), []
    for part, until in batches_of(table, cuts):
        found.append(live.add(from_table(part, workload.stream), until))
        state = live.save()
        live = LiveRun(program, MILLISECOND)
        live.restore(state)
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert multiset(found) == multiset([expected])


OF_SITUATIONS = (
    "QUERY made DEFINE S OF A AS x > 1 PATTERN S {key} RETURN max(S.x) AS u WITHIN 9 ms {emit} "
    "INTO P",
    "QUERY made DEFINE S AS x > 1, T OF B AS x < 3 PATTERN S overlaps;before;meets T {key} "
    "RETURN S.start AS u WITHIN 9 ms {emit} INTO P",
    "QUERY made PATTERN SEQ(A a, B b) {key} AGG MAX(a.x) WITHIN 4 ms SLIDE 2 ms INTO P",
)
ABOUT_SITUATIONS = (
    "QUERY read PATTERN SEQ(P p, C c) {key} RETURN p.start, c.x WITHIN 6 ms",
    "QUERY read PATTERN SEQ(C c, P p) {key} RETURN p.start, c.x WITHIN 6 ms",
    "QUERY read PATTERN SEQ(P p, C c) {key} AGG COUNT(*) WITHIN 6 ms",
)
OF_COUNTS = (
    "QUERY read DEFINE S OF P AS value > 1 PATTERN S {key} RETURN S, count(S.value) AS n "
    "WITHIN 9 ms {emit}",
)


@given(
    st.data(),
    event_rows(sequence=True, max_size=10, types=TYPES),
    st.sampled_from(("", "EMIT COMPLETE")),
    st.sampled_from(("", "PARTITION BY k")),
    SIZES,
)
@settings(max_examples=30, deadline=None)
def test_situations_make_events_and_are_made_of_them(
    data: st.DataObject, rows: list[Row], emit: str, key: str, size: int
) -> None:
    made = data.draw(st.sampled_from(OF_SITUATIONS))
    read = data.draw(st.sampled_from(OF_COUNTS if "AGG" in made else ABOUT_SITUATIONS))
    texts = [text.format(emit=emit, key=key) for text in (read, made)]
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": stream, "queries": texts})
    table = table_of(rows)
    expected = multiset([run_oracle(workload, from_table(table, workload.stream))])
    assert multiset([run_local(workload, from_table(table, workload.stream))]) == expected
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults())
    given_ = (table.schema, workload.stream, lateness, run.reach, SliceSize(size), run.carried)
    assert multiset([run.run(piece) for piece in cut(batches(table, 3), *given_)]) == expected


def test_a_chain_that_needs_all_events_is_refused_live() -> None:
    made = OF_SITUATIONS[-1].format(key="")
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    read = OF_COUNTS[0].format(emit="", key="")
    workload = load_bound({"name": "w", "stream": stream, "queries": [made, read]})
    with pytest.raises(UnsupportedError, match="query read cannot run over a live stream"):
        LiveRun(How().program(workload), MILLISECOND)


def test_matches_that_skip_past_others_make_events() -> None:
    made = (
        "QUERY made PATTERN SEQ(A a, B b) STRATEGY NEXT AFTER MATCH SKIP PAST LAST EVENT "
        "RETURN a.x WITHIN 9 ms INTO P"
    )
    read = "QUERY read PATTERN SEQ(P p, C c) RETURN p.start, c.x WITHIN 9 ms"
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": stream, "queries": [made, read]})
    rows: list[Row] = [
        {"ts": time, "kind": kind, "k": 1, "x": time, "y": 0} for time, kind in enumerate("AABACBC")
    ]
    events = events_of(workload, rows)
    found = run_local(workload, events)
    assert multiset([found]) == multiset([run_oracle(workload, events)])
    assert found.matches.num_rows > 2


AT_MOMENTS = (
    "QUERY made PATTERN SEQ(A a, B b) {key} AGG COUNT(*) WITHIN 4 ms SLIDE 2 ms INTO N",
    "QUERY made PATTERN A a {key} RETURN a.x, a.y AS u WITHIN 4 ms INTO N",
)
OF_MOMENTS = (
    "PATTERN JOIN(N n WITHIN 3 ms, C c WITHIN 2 ms) {key} RETURN n.time, c.x",
    "PATTERN LEFT JOIN(N n WITHIN 3 ms, C c WITHIN 2 ms) {key} RETURN n.time, c.x",
    "PATTERN N n {key} AGG COUNT(*) WITHIN SESSION 3 ms",
    "PATTERN SEQ(N n, C c) {key} RETURN n.time, c.x WITHIN SESSION 3 ms",
    "PATTERN N n {key} AGG COUNT(*) WITHIN 4 ms SLIDE 2 ms WINDOWS FROM FIRST",
    "PATTERN N n {key} AGG COUNT(*) WITHIN 4 ms SLIDE 2 ms EMPTY ROWS",
    "PATTERN SEQ(N n, C c) WHERE c.time - n.start < 3 ms {key} RETURN n.time WITHIN 6 ms",
    "PATTERN SEQ(A a, > N n) {key} RETURN a.x, n.time WITHIN 6 ms",
    "PATTERN SEQ(ALL N n, C c) {key} RETURN count(n.time) AS m WITHIN 6 ms",
    "PATTERN SEQ(N^2 n, C c) {key} RETURN min(n.time) AS m WITHIN 6 ms",
    "PATTERN SEQ(N n, !C c) {key} RETURN n.time WITHIN 6 ms",
    "PATTERN SEQ(!N n, C c) {key} RETURN c.x WITHIN 6 ms",
    "PATTERN SEQ(N n, C c) {key} RETURN n.time LIMIT 1 WITHIN 6 ms",
    "PATTERN SEQ(N n, C c) {key} RETURN n.time SUPPRESS 3 ms WITHIN 6 ms",
)


@given(
    st.sampled_from(AT_MOMENTS),
    st.sampled_from(OF_MOMENTS),
    st.sampled_from(("", "PARTITION BY k")),
    event_rows(max_size=14, types=TYPES),
)
@settings(max_examples=40, deadline=None)
def test_events_at_moments_are_read_in_every_way(
    made: str, read: str, key: str, rows: list[Row]
) -> None:
    texts = [made.format(key=key), f"QUERY read {read.format(key=key)}"]
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": stream, "queries": texts})
    events = events_of(workload, rows)
    assert multiset([run_local(workload, events)]) == multiset([run_oracle(workload, events)])


@pytest.mark.parametrize("clause", ["SUPPRESS 3 ms", "KEEP LAST 2", "KEEP FIRST 2"])
@pytest.mark.parametrize("slice_events", [1, 3, 30])
def test_matches_of_a_chain_are_left_out_by_all_before_them(clause: str, slice_events: int) -> None:
    made = "QUERY made PATTERN SEQ(A a, B b) RETURN a.x WITHIN 4 ms INTO P"
    read = f"QUERY read PATTERN SEQ(P p, C c) RETURN p.start, c.x WITHIN 9 ms {clause}"
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": stream, "queries": [made, read]})
    rows: list[Row] = [
        {"ts": time, "kind": kind, "k": 1, "x": time, "y": 0}
        for time, kind in enumerate("AABACBCABCABCCAB" * 2)
    ]
    table = table_of(rows).drop_columns("seq")
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(0, True, MILLISECOND, "ts", Faults())
    slices = SliceSize(slice_events, grow=False)
    given_ = (table.schema, workload.stream, lateness, run.reach, slices, run.carried)
    found = [run.run(piece) for piece in cut(batches(table, 3), *given_)]
    expected = run_oracle(workload, events_of(workload, rows))
    assert expected.matches.num_rows > 1
    assert multiset(found) == multiset([expected])
