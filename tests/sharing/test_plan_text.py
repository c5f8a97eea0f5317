"""What a plan says, held against the operators that it has."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.explain.text import PlanText, render_text
from optimizer.ir.pattern import Event, Seq
from optimizer.ir.query import BoundWorkload, Query
from optimizer.plan.groups import CountingGroup
from optimizer.plan.lineage import QueryOperators
from optimizer.plan.plan import CONSTRUCTING, Operator, Plan
from sharing import obstacles
from sharing.obstacles import find_obstacles
from sharing.planner import make_plan

TYPES = "ABCD"
RATES = {"A": 3.0, "B": 0.4, "C": 8.0, "D": 1.0}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Queries that have much in common, counted and constructed, in few windows and keys."""
    queries = []
    for i in range(draw(st.integers(2, 6))):
        size = draw(st.integers(2, 4))
        parts = []
        for j in range(size):
            if j and draw(st.integers(0, 5)) == 0:
                parts.append(f"!{draw(st.sampled_from(TYPES))} n{j}")
            parts.append(f"{draw(st.sampled_from(TYPES))} c{j}")
        pattern = f"{draw(st.sampled_from(('SEQ', 'SEQ', 'SEQ', 'AND')))}({', '.join(parts)})"
        where = draw(st.sampled_from(("", "", " WHERE c0.x < c1.x", " WHERE c1.x > 2")))
        key = draw(st.sampled_from(("", " PARTITION BY k")))
        window = draw(st.sampled_from(("10 s", "10 s", "20 s")))
        output = draw(
            st.sampled_from(
                (
                    f"AGG COUNT(*) WITHIN {window}",
                    f"AGG COUNT(*) WITHIN {window} SLIDE 5 s",
                    f"RETURN c0 WITHIN {window}",
                )
            )
        )
        queries.append(f"QUERY q{i} PATTERN {pattern}{where}{key} {output}")
    return {
        "name": "drawn",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "statistics": {
            "rates": RATES,
            "selectivities": {
                **{f"{a}.x < {b}.x": 0.5 for a in TYPES for b in TYPES},
                **{f"{a}.x > 2": 0.3 for a in TYPES},
            },
            "keys": {"k": {"cardinality": 5, "heaviest": 0.2}},
        },
        "queries": queries,
    }


def planned(document: dict[str, Any], **options: Any) -> tuple[BoundWorkload, Plan]:
    bound = load_bound(document)
    return bound, make_plan(bound, document, **options)


def computing(plan: Plan) -> list[Operator]:
    """The operators behind the events of symbols that compute something, but for whole queries'."""
    return [o for o in plan.operators if o.kind in (*CONSTRUCTING, "segment")]


def once_lines(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    """What is said to be computed once, and for whom."""
    found = []
    for line in list(PlanText(plan, verbose=True).once())[1:]:
        match = re.match(r"  (.*): for ((?:q\d+, )*q\d+), (?:by|joined)", line)
        assert match is not None, line
        found.append((match[1], tuple(match[2].split(", "))))
    return found


@given(documents())
@settings(max_examples=30, deadline=None)
def test_what_is_said_to_be_computed_once_is_one_operator_with_these_readers(
    document: dict[str, Any],
) -> None:
    _, plan = planned(document)
    ways = QueryOperators(plan)
    for what, names in once_lines(plan):
        same = [
            operator
            for operator in computing(plan)
            if ways.queries[operator.id] == names
            and what
            in (
                ", ".join(operator.detail.get("steps", ())),
                str(operator.detail.get("pattern")),
                str(operator.detail.get("pattern", ""))[1:-1],
            )
        ]
        assert same, (what, names)
        assert len({operator.id for operator in same if operator.kind in ("segment", "join")}) <= 1
    said = {names for _, names in once_lines(plan)}
    shared = {ways.queries[o.id] for o in computing(plan) if len(ways.queries[o.id]) > 1}
    assert said == shared


@given(documents())
@settings(max_examples=30, deadline=None)
def test_queries_that_are_said_to_be_alone_share_no_operator(document: dict[str, Any]) -> None:
    _, plan = planned(document)
    ways = QueryOperators(plan)
    lines = list(PlanText(plan, verbose=True).queries())
    alone = set(plan.queries) - {
        name for line in lines for name in re.findall(r"^  (q\d+): ", line)
    }
    for operator in computing(plan):
        assert len(ways.queries[operator.id]) == 1 or not alone & set(ways.queries[operator.id])
    for name in alone:
        assert ways.groups[name].queries == (name,)
    text = render_text(plan, verbose=True)
    if "computed once for several queries" in text:
        assert "no two queries that could run together have anything in common" not in text


@given(documents())
@settings(max_examples=30, deadline=None)
def test_costs_and_benefits_add_up(document: dict[str, Any]) -> None:
    _, plan = planned(document)
    total = sum(operator.cost for operator in plan.operators)
    assert total == pytest.approx(plan.cost.shared, rel=1e-9)
    groups = [group.cost for group in plan.groups if group.cost is not None]
    shared, separate = (sum(getattr(c, name) for c in groups) for name in ("shared", "separate"))
    assert shared <= plan.cost.shared * (1 + 1e-9)  # reading and writing come besides
    assert plan.cost.separate - plan.cost.shared == pytest.approx(plan.objective, rel=1e-6)
    chosen = set(plan.chosen)
    saved = sum(c.benefit for c in plan.candidates if c.id in chosen)
    assert saved == pytest.approx(separate - shared, rel=1e-6, abs=1e-6 * plan.cost.separate)
    assert saved >= -1e-9 * plan.cost.separate
    # Reading, testing and ordering events for each query again never takes less.
    assert plan.objective >= saved - 1e-9 * plan.cost.separate
    alone = make_plan(load_bound(document), document, sharing=False)
    costs = [group.cost for group in alone.groups if group.cost is not None]
    assert sum(cost.shared for cost in costs) == pytest.approx(separate, rel=1e-9)
    ways = QueryOperators(alone)
    assert all(len(ways.queries[o.id]) == 1 for o in computing(alone))


@given(documents())
@settings(max_examples=30, deadline=None)
def test_groups_of_trees_are_the_queries_connected_by_common_operators(
    document: dict[str, Any],
) -> None:
    _, plan = planned(document)
    ways = QueryOperators(plan)
    trees = [g.queries for g in plan.groups if not isinstance(g, CountingGroup)]
    parts = {name: {name} for names in trees for name in names}
    for operator in computing(plan):
        users = [name for name in ways.queries[operator.id] if name in parts]
        for name in users[1:]:
            both = parts[users[0]] | parts[name]
            parts |= dict.fromkeys(both, both)
    assert {frozenset(names) for names in trees} == {frozenset(part) for part in parts.values()}


@given(documents())
@settings(max_examples=30, deadline=None)
def test_no_obstacle_stands_between_queries_that_share_it(document: dict[str, Any]) -> None:
    bound, plan = planned(document)
    ways = QueryOperators(plan)
    segments = [o for o in plan.operators if o.kind == "segment"]
    for obstacle in find_obstacles(bound.queries, plan.groups, plan.candidates).obstacles:
        for names, _ in obstacle.others:
            for one in obstacle.one:
                for other in names:
                    for segment in segments:
                        steps = [re.split(r"[\[ ]", step)[0] for step in segment.detail["steps"]]
                        plain = [re.split(r"\[", text)[0] for text in obstacle.types]
                        exact = {tuple(steps[i : i + len(plain)]) for i in range(len(steps))}
                        both = {one, other} <= set(ways.queries[segment.id])
                        assert not (both and tuple(plain) in exact), (str(obstacle), segment)


@given(documents())
@settings(max_examples=30, deadline=None)
def test_any_two_with_types_in_common_could_share_them_or_are_named(
    document: dict[str, Any],
) -> None:
    bound, plan = planned(document)
    found = find_obstacles(bound.queries, plan.groups, plan.candidates)
    assert found.complete
    told = {
        frozenset((one, other))
        for obstacle in found.obstacles
        for ones, others in combinations(
            [obstacle.one, *(names for names, _ in obstacle.others)], 2
        )
        for one in ones
        for other in others
    }
    for one, other in combinations(bound.queries, 2):
        both = {one.name, other.name}
        served = any(both <= set(c.queries) for c in plan.candidates)
        counted = any(both <= set(g.queries) for g in plan.groups if isinstance(g, CountingGroup))
        if _neighbours(one) & _neighbours(other) and not served and not counted:
            assert both in told, (plan.obstacles, both)


def _neighbours(query: Query) -> set[tuple[str, str]]:
    """The types that stand one after the other in a sequence."""
    if not isinstance(query.pattern, Seq):
        return set()
    types = [part.symbol.type for part in query.pattern.parts if isinstance(part, Event)]
    return set(pairwise(types))


def test_windows_of_time_and_of_events_are_told_apart() -> None:
    found = _written(
        "SEQ(A a, B b) RETURN a WITHIN 10 s", "SEQ(A a, B b) RETURN a WITHIN 10 EVENTS"
    )
    assert found.obstacles == (
        "A, B: q0 and q1 do not share it: they differ in a window of time against one of events",
    )


def test_columns_that_engines_add_are_not_shown() -> None:
    document = {
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "queries": [
            "QUERY g PATTERN SEQ(A a, B b) WHERE a.x > 2 AGG COUNT(*) GROUP BY a.y WITHIN 10 s",
            "QUERY k PATTERN SEQ(A a, B b) PARTITION BY (a.x, b.y) AS z RETURN a WITHIN 10 s",
        ],
    }
    text = render_text(make_plan(load_bound(document), document))
    assert "g: SEQ(A[x > 2] a, B b)" in text
    assert "k: SEQ(A a, B b)" in text
    assert "#" not in text


def test_pairs_that_are_left_out_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [
        f"SEQ(A a, B b) {key} RETURN a WITHIN {window}"
        for window in ("10 s", "10 EVENTS")
        for key in ("", "PARTITION BY k", "PARTITION BY x")
    ]
    every = _written(*queries).obstacles
    assert obstacles.MORE not in every
    monkeypatch.setattr(obstacles, "MOST_KINDS", 4)
    assert _written(*queries).obstacles[-1] == obstacles.MORE


def _written(*patterns: str) -> Plan:
    document = {
        "name": "written",
        "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
        "queries": [f"QUERY q{i} PATTERN {text}" for i, text in enumerate(patterns)],
    }
    return make_plan(load_bound(document), document)


@given(documents())
@settings(max_examples=12, deadline=None)
def test_no_solver_saves_more_than_another_ones_bound(document: dict[str, Any]) -> None:
    plans = {s: planned(document, solver=s)[1] for s in ("greedy", "cpsat", "exhaustive")}
    most = max(plan.objective for plan in plans.values())
    for plan in plans.values():
        room = 1e-6 * plan.cost.separate
        assert most <= plan.bound + room
        if plan.status == "optimal":
            assert plan.objective >= most - room
        dearest = max(
            make_plan(load_bound({**document, "queries": [text]}), {}).cost.shared
            for text in document["queries"]
        )
        assert plan.cost.separate - plan.bound >= dearest - room
