"""What keeps queries from sharing is named, for all pairs of them."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.bind.binder import load_bound
from optimizer.plan.plan import Plan
from sharing.planner import make_plan

COUNT = "AGG COUNT(*) WITHIN 1 min"


def planned(*queries: str) -> Plan:
    document: dict[str, Any] = {
        "name": "written",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "statistics": {"rates": dict.fromkeys("ABCDE", 5.0)},
        "queries": [f"QUERY q{i} PATTERN {text}" for i, text in enumerate(queries, 1)],
    }
    return make_plan(load_bound(document), document)


def test_queries_that_share_all_they_can_have_no_obstacle() -> None:
    assert planned(f"SEQ(A, B, C) {COUNT}", f"SEQ(A, B, D) {COUNT}").obstacles == ()


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (f"SEQ(A, B, D) PARTITION BY k {COUNT}", "partition key"),
        (f"SEQ(A, !E, B, D) {COUNT}", "negations"),
        (f"SEQ(A, B b, D) WHERE b.x > 1 {COUNT}", "predicates"),
        ("SEQ(A a, B, D) RETURN a WITHIN 1 min", "AGG against RETURN"),
        (f"SEQ(A, B+ b, D) {COUNT}", "groups of events"),
    ],
)
def test_what_differs_is_named(other: str, differs: str) -> None:
    plan = planned(f"SEQ(A, B, C) {COUNT}", other)
    assert plan.obstacles == (f"A, B: q1 and q2 do not share it: they differ in {differs}",)


def test_a_sequence_inside_an_and_is_a_candidate_and_no_obstacle() -> None:
    plan = planned(
        "SEQ(A a, B, C) RETURN a WITHIN 1 min", "AND(SEQ(A a, B), D) RETURN a WITHIN 1 min"
    )
    assert plan.obstacles == ()
    assert [(c.pattern, c.queries) for c in plan.candidates] == [(("A", "B"), ("q1", "q2"))]


def test_all_pairs_are_named_once() -> None:
    keys = (f"SEQ(A, B, C) PARTITION BY k{i} {COUNT}" for i in range(1, 11))
    plan = planned(*keys)
    names = ", ".join(f"q{i}" for i in range(1, 11))
    assert plan.obstacles == (f"A, B, C: no two of {names} share it: they differ in partition key",)


def test_windows_are_no_obstacle_and_candidates_say_why_they_are_apart() -> None:
    every = [f"SEQ(A, B, C) AGG COUNT(*) WITHIN {i} min" for i in (1, 2, 3)]
    plan = planned(*every)
    assert [group.queries for group in plan.groups] == [("q1", "q2", "q3")]
    assert plan.obstacles == ()
    (piece,) = (c for c in plan.candidates if c.pattern == ("A", "B", "C"))
    assert piece.queries == ("q1", "q2", "q3")
    assert "counts it once" in piece.why


def test_reasons_are_those_of_each_pair() -> None:
    plan = planned(
        f"SEQ(A, B) {COUNT}",
        "SEQ(A, B) AGG COUNT(*) WITHIN 2 min",
        f"SEQ(A, B) PARTITION BY k {COUNT}",
    )
    assert plan.obstacles == (
        "A, B: q1 and q3 do not share it: they differ in partition key",
        "A, B: q2 and q3 do not share it: they differ in partition key and window",
    )


def test_a_slide_is_no_obstacle() -> None:
    plan = planned(f"SEQ(A, B, C) {COUNT}", f"SEQ(A, B, D) {COUNT} SLIDE 7 s")
    assert [group.queries for group in plan.groups] == [("q1", "q2")]
    assert plan.obstacles == ()


def test_panes_share_whatever_windows_and_slides_are() -> None:
    every = [f"SEQ(A, B, C, D) AGG COUNT(*) WITHIN {i} s SLIDE {i} s" for i in (10, 20)]
    plan = planned(*every)
    assert [group.engine for group in plan.groups] == ["panes"]
    assert plan.obstacles == ()
    assert {c.pattern for c in plan.candidates if c.id in plan.chosen} >= {("A", "B", "C", "D")}
