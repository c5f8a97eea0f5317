"""What is read gives all rows of LATEST, of situations, and of queries that read rows of others."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.access.anchors import NotIndexedError, needed_events
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.test_latest import bound as latest_workload
from tests.differential.test_latest import queries as latest_queries
from tests.differential.test_latest import streams as latest_streams
from tests.engines.access.test_pruned_runs import (
    Indexes,
    check,
    groups,
    numbers_of_files,
    some_indexes,
    workload_of,
)
from tests.situations.random_situations import stream_of
from tests.situations.random_situations import streams as situation_streams
from tests.situations.random_situations import workloads as situations

MADE = (
    "PATTERN SEQ(A a, B b) WHERE a.x > 1 RETURN a.x, b.y",
    "PATTERN SEQ(A a, !C c, B b) WHERE a.x > 0 AND c.y > 0 RETURN a.x",
    "PATTERN SEQ(A a, !B b) WHERE a.x > 1 RETURN a.x",
    "PATTERN SEQ(C c, !A a) AGG COUNT(*)",
    "PATTERN A a WHERE a.x > 1 AGG COUNT(*) SLIDE 2 ms",
    "DEFINE S AS x > 1 PATTERN S RETURN S.start AS s, count(S.y) AS x",
    "DEFINE S AS x > 0 GAP 2 ms, T AS y > 1 GAP 1 ms PATTERN S before T RETURN max(T.y) AS x",
)
READ = (
    "PATTERN SEQ(Made m, C c) RETURN m.x, c.y",
    "PATTERN SEQ(B b, Made m) WHERE b.x > 0 RETURN b.y, m.x",
    "PATTERN SEQ(C c, !Made m, B b) WHERE b.y > 0 RETURN c.x, b.y",
    "PATTERN SEQ(Made m, Made n) WHERE m.x > 1 AGG COUNT(*)",
    "PATTERN AND(Made m, B b) WHERE b.x > 1 RETURN m.x",
)
values = st.sampled_from([0, 1, 1, 2, None])


@st.composite
def chains(draw: st.DrawFn) -> BoundWorkload:
    """A query that makes events, one or two that read them, and one with neither."""

    def within(query: str) -> str:
        return f"{query.replace(' SLIDE', f' WITHIN {draw(st.integers(1, 6))} ms SLIDE')}" + (
            "" if " SLIDE" in query else f" WITHIN {draw(st.integers(1, 6))} ms"
        )

    texts = [f"QUERY made {within(draw(st.sampled_from(MADE)))} INTO Made"]
    readers = draw(st.lists(st.sampled_from(READ), min_size=1, max_size=2, unique=True))
    if "AGG" in texts[0]:
        readers = [reader.replace("m.x", "m.count") for reader in readers]
    texts += [f"QUERY read{n} {within(reader)}" for n, reader in enumerate(readers)]
    if "RETURN" in texts[1] and draw(st.booleans()):
        texts[1] += " INTO Again"
        texts.append(f"QUERY last {within('PATTERN SEQ(Again g, A a) RETURN a.x')}")
    if draw(st.booleans()):
        texts.append(f"QUERY other {within('PATTERN SEQ(B b, C c) WHERE b.x > 1 RETURN c.x')}")
    return load_bound({"name": "chain", "stream": stream_of(False), "queries": texts})


@st.composite
def rows_of_chains(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows, time = [], 0
    for _ in range(draw(st.integers(0, 14))):
        time += draw(st.sampled_from([0, 1, 1, 2, 5, 9]))
        row = {"ts": time, "kind": draw(st.sampled_from("ABC")), "k": 1}
        rows.append(row | {"x": draw(values), "y": draw(values)})
    return draw(st.permutations(rows)) if draw(st.booleans()) else rows


maybe_indexes = st.one_of(st.none(), some_indexes)


@given(
    st.lists(latest_queries(bounded=False), min_size=1, max_size=2, unique=True),
    latest_streams(),
    groups,
    numbers_of_files,
    maybe_indexes,
)
@settings(max_examples=80, deadline=None)
def test_latest_keeps_the_same_whatever_is_left_out(
    texts: list[str], table: Any, group_rows: int, files: int, indexes: Indexes | None
) -> None:
    check((latest_workload(texts), table.to_pylist()), group_rows, files, indexes)


@given(
    situations(), situation_streams(most=18), st.sampled_from([1, 1, 2]), st.just(1), maybe_indexes
)
@settings(max_examples=80, deadline=None)
def test_situations_begin_and_end_as_they_do(
    workload: Any, table: Any, group_rows: int, files: int, indexes: Indexes | None
) -> None:
    check((workload, table.to_pylist()), group_rows, files, indexes)


@given(chains(), rows_of_chains(), groups, numbers_of_files, maybe_indexes)
@settings(max_examples=80, deadline=None)
def test_rows_that_are_events_for_others_are_made(
    workload: Any, rows: Any, group_rows: int, files: int, indexes: Indexes | None
) -> None:
    check((workload, rows), group_rows, files, indexes)


def stream(kinds: str, xs: str) -> list[dict[str, Any]]:
    return [
        {"ts": t, "seq": 0, "kind": kind, "k": 1, "x": int(x), "y": 0}
        for t, (kind, x) in enumerate(zip(kinds, xs, strict=True))
    ]


def test_of_a_situation_the_events_up_to_its_end_are_read() -> None:
    asked = "DEFINE S AS x > 5, T AS x > 7 PATTERN S contains T RETURN S, T WITHIN 6 ms"
    workload = workload_of(asked)
    access = check((workload, stream("A" * 16, "1119896111199911")), 1, 1)
    assert access.groups is not None
    # What holds at 3 to 6 ends at 7, and what holds at 11 to 13 ends at 14.
    assert list(access.groups.values()) == [[3, 4, 5, 6, 7, 11, 12, 13, 14]]


def test_situations_that_are_too_far_from_each_other_are_not_read() -> None:
    asked = "DEFINE S AS x = 5, T AS x = 7 PATTERN S before T RETURN S, T WITHIN 4 ms"
    access = check((workload_of(asked), stream("A" * 16, "1511111111151711")), 1, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[11, 12, 13, 14]]


def test_an_inclusive_window_is_a_tick_more() -> None:
    asked = "PATTERN SEQ(A a, B b) WHERE a.x > 5 RETURN a.x WITHIN 3 ms INCLUSIVE"
    access = check((workload_of(asked), stream("CACCBCCCCCACCCB", "090000000090000")), 1, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[1, 4]]


def test_what_follows_a_query_that_makes_events_is_read() -> None:
    made = "QUERY p PATTERN SEQ(A a, B b) WHERE a.x > 5 RETURN a.x WITHIN 3 ms INTO Made"
    read = "QUERY q PATTERN SEQ(Made m, C c) RETURN c.x WITHIN 4 ms"
    document = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": document, "queries": [made, read]})
    access = check((workload, stream("CABCCCCCCCCCABCC", "0900000000000100")), 1, 1)
    assert access.groups is not None
    (read_,) = access.groups.values()
    assert {1, 2} <= set(read_) <= set(range(9))


def test_rows_of_slides_are_events_when_their_windows_close() -> None:
    made = "QUERY p PATTERN A a WHERE a.x > 5 AGG COUNT(*) WITHIN 6 ms SLIDE 6 ms INTO Made"
    read = "QUERY q PATTERN SEQ(Made m, C c) RETURN c.ts WITHIN 4 ms"
    document = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": document, "queries": [made, read]})
    rows = stream("BABBBBBBCBBBBBBBBBBB", "09000000000000000000")
    access = check((workload, rows), 1, 1)
    # The A of time 1 is counted at time 6, and the C of time 8 is less than 4 ms from there.
    assert access.groups is not None
    assert list(access.groups.values()) == [[1, 8]]


def test_what_displaces_the_latest_need_not_meet_conditions_of_the_match() -> None:
    asked = "PATTERN SEQ(A a, B b) WHERE b.x = 1 AND b.x = a.y STRATEGY LATEST RETURN b.x"
    rows = stream("AABCC", "00100")
    rows[0]["y"], rows[1]["y"] = 1, 2
    access = check((workload_of(f"{asked} WITHIN 9 ms", sequence="seq"), rows), 1, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("DEFINE S AS x > 5 PATTERN S PARTITION BY k RETURN S WITHIN 6 ms", "of its key"),
        ("DEFINE S OF A AS x > 5 PATTERN S RETURN S WITHIN 6 ms", "of its type"),
        ("PATTERN SEQ(A a, B b) RETURN a.x WITHIN 3 EVENTS INTO Made", "rows of queries"),
    ],
)
def test_what_needs_all_events_says_why(query: str, why: str) -> None:
    with pytest.raises(NotIndexedError, match=why):
        needed_events(workload_of(query, sequence="seq").queries[0], with_blocks=True)
