"""The nearest miss of a query: what it fails at, and by which event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from engines.reference import matches_of
from engines.reference.rows import event_rows
from engines.reference.values import Row, true
from engines.why.failing_parts import failing_parts, numbers_failing
from engines.why.near_misses import MissSearch, NearMiss
from engines.why.relaxations import relaxations, searched, without_strategy
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events as events_of
from optimizer.ir.query import BoundWorkload, Construction, Query
from tests.oracle.notation import rows, workload
from tests.strategies import SHAPE, TIME, queries_with_rows
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.workload import NANOSECONDS

SECOND = NANOSECONDS["s"]


def _misses(query: str, stream: str, **kinds: Any) -> list[NearMiss]:
    bound = workload(query, **kinds)
    events = rows(stream)
    found = event_rows(bound.stream, events, [event["ts"] for event in events])
    return MissSearch(bound.stream, SECOND, found).near_misses(bound.queries[0])


def _names(miss: NearMiss) -> tuple[list[str], list[str]]:
    bound = [row.values["name"] for group in miss.bound.values() for row in group]
    return bound, [row.values["name"] for _, row in miss.by]


SEQ = "PATTERN SEQ(A a, B b) {} RETURN a WITHIN 10 s"


@pytest.mark.parametrize(
    ("query", "stream", "kind", "what", "events", "by"),
    [
        (SEQ.format("WHERE b.x > 5"), "a1 b2(x=3)", "condition", "b.x > 5", "a1 b2", "b2"),
        (
            SEQ.format("WHERE a.x < b.x"),
            "a1(x=4) b2(x=3)",
            "condition",
            "a.x < b.x",
            "a1 b2",
            "a1 b2",
        ),
        (SEQ.format(""), "a1 b11", "window", "WITHIN 10 s", "a1 b11", ""),
        (SEQ.format(""), "a5 b5", "order", "SEQ", "a5 b5", ""),
        (SEQ.format(""), "b1 a5", "order", "SEQ", "a5 b1", ""),
        (
            "PATTERN SEQ(A a, !C c, B b) RETURN a WITHIN 9 s",
            "a1 c2 b3",
            "negation",
            "!C c",
            "a1 b3",
            "c2",
        ),
        (
            "PATTERN SEQ(!C c, A a, B b) RETURN a WITHIN 9 s",
            "c1 a2 b3",
            "negation",
            "!C c",
            "a2 b3",
            "c1",
        ),
        (
            "PATTERN SEQ(A a, B b, !C c) RETURN a WITHIN 9 s",
            "a1 b3 c4",
            "negation",
            "!C c",
            "a1 b3",
            "c4",
        ),
        (
            "PATTERN AND(A a, B b, !C c) RETURN a WITHIN 9 s",
            "b1 c2 a3",
            "negation",
            "!C c",
            "a3 b1",
            "c2",
        ),
        (
            "PATTERN SEQ(A a, !SEQ(C c, D d), B b) RETURN a WITHIN 9 s",
            "a1 c2 d3 b4",
            "negation",
            "!SEQ(C c, D d)",
            "a1 b4",
            "c2 d3",
        ),
        (
            "PATTERN SEQ(A a, B+ b) WHERE sum(b.x) > 9 RETURN a WITHIN 9 s",
            "a1 b2(x=3) b3(x=4)",
            "condition",
            "sum(b.x) > 9",
            "a1 b2 b3",
            "b2 b3",
        ),
        (
            "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 10 s SLIDE 10 s",
            "a8 b12",
            "slide",
            "SLIDE",
            "a8 b12",
            "",
        ),
        (
            "PATTERN SEQ(A a, B b) STRATEGY STRICT RETURN a WITHIN 9 s",
            "a1 c2 b3",
            "strategy",
            "STRATEGY STRICT",
            "a1 b3",
            "c2",
        ),
        (
            "PATTERN SEQ(A a, C c, B b) STRATEGY NEXT RETURN a WITHIN 9 s",
            "a1 c2 c3 b20",
            "window",
            "WITHIN 9 s",
            "a1 c2 b20",
            "",
        ),
        (
            "PATTERN SEQ(A a, C c, D d) RETURN a WITHIN 9 s",
            "a1 c2(x=1)",
            "component",
            "D d",
            "a1 c2",
            "",
        ),
    ],
)
def test_the_nearest_miss_names_what_fails_and_by_which_event(
    query: str, stream: str, kind: str, what: str, events: str, by: str
) -> None:
    miss = _misses(query, stream)[0]
    bound, deciding = _names(miss)
    assert (miss.kind, miss.what) == (kind, what)
    assert (sorted(bound), deciding) == (sorted(events.split()), by.split())


def test_a_component_says_all_that_its_nearest_event_lacks() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE b.x > 5 AND b.y > 5 RETURN a WITHIN 10 s"
    (first, *_) = _misses(query, "a1(x=1,y=1) b2(x=3,y=4)")
    assert first.kind == "component"
    assert first.because == "b.x > 5: b.x is 3; b.y > 5: b.y is 4"


def test_latest_says_which_event_ended_what_waited() -> None:
    query = "PATTERN SEQ(A a, B b) STRATEGY LATEST UNTIL C u RETURN a WITHIN 10 s"
    miss = _misses(query, "a1 c2 b3", sequence="ts")[0]
    assert (miss.kind, miss.what, _names(miss)[1]) == ("negation", "UNTIL C u", ["c2"])


def _found(bound: BoundWorkload, query: Query, events: list[dict[str, Any]]) -> MissSearch:
    made = event_rows(bound.stream, events, [event[TIME] for event in events])
    return MissSearch(bound.stream, NANOSECONDS[bound.stream.unit], made)


@settings(max_examples=60, deadline=None)
@given(queries_with_rows(SHAPE, max_size=6))
def test_what_is_searched_for_is_there_where_the_query_matches(
    case: tuple[BoundWorkload, list[dict[str, Any]]],
) -> None:
    bound, events = case
    query = bound.queries[0]
    if not isinstance(query.output, Construction):
        return
    search = _found(bound, query, events)
    expected = bool(matches_of(query, bound.stream, events))
    assert bool(search.matches(query)) == expected
    if expected:  # one event for each group is enough
        assert search.nearest(searched(query)) is not None
    elif query.strategy == "any":
        assert search.nearest(searched(query)) is None


@settings(max_examples=60, deadline=None)
@given(queries_with_rows(SHAPE, max_size=6))
def test_a_miss_is_named_wherever_one_thing_less_would_match(
    case: tuple[BoundWorkload, list[dict[str, Any]]],
) -> None:
    bound, events = case
    query = bound.queries[0]
    if not isinstance(query.output, Construction) or matches_of(query, bound.stream, events):
        return
    search = _found(bound, query, events)
    misses = search.near_misses(query)
    single = {miss.what for miss in misses if miss.kind in ("condition", "negation")}
    plain = searched(without_strategy(query))
    for relaxation in relaxations(plain):
        if relaxation.kind in ("condition", "negation") and matches_of(
            relaxation.query, bound.stream, events
        ):
            assert relaxation.dropped in single


def test_of_conditions_that_are_joined_the_part_that_fails_is_named() -> None:
    """Of OR the nearest part: the fewest conditions that would have to hold besides."""
    where = "(a.x = 1 AND a.y = 2 AND a.z = 3) OR a.x = 9"
    text = f"QUERY q PATTERN A a WHERE {where} RETURN a WITHIN 1 s"
    (query,) = load_bound({"stream": {"time": "ts", "type": "kind"}, "queries": [text]}).queries
    (event,) = events_of(query.pattern)
    (condition,) = event.symbol.predicates

    def failing(**values: int) -> list[str]:
        row = Row((0,), 0, values)
        found = failing_parts(condition, lambda part: true(part, {"": (row,)}))
        return [print_expression(part) for part in found]

    assert failing(x=1, y=2, z=3) == []
    assert failing(x=1, y=2, z=4) == ["z = 3"]
    assert failing(x=2, y=2, z=4) == ["x = 9"]
    columns = {"x": [1, 1, 2, 1], "y": [2, 2, 2, 5], "z": [3, 4, 4, 4]}

    def test(part: ex.Expression) -> Any:
        match part:
            case ex.Comparison("=", ex.Attribute(_, name), ex.Literal(value)):
                return np.array(columns[name]) == value
        raise AssertionError(part)

    assert numbers_failing(condition, test).tolist() == [0, 1, 1, 1]
