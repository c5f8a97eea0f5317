"""What plans expect of reading, testing, ordering, making rows and writing."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.bind.binder import load_bound
from optimizer.cost.stages import ONE_SLICE, SLICE_EVENTS, ReachClass, Stages, class_of, visits
from optimizer.cost.unit_costs import DEFAULTS, NAMES, Operations, UnitCosts
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import Plan
from optimizer.statistics import given
from sharing.planner import make_plan

STREAM = {
    "time": "ts",
    "unit": "ms",
    "type": "type",
    "attributes": {"k": "int", "x": "float", "name": "string"},
}
STATISTICS = {
    "rates": {"A": 100.0, "B": 100.0, "C": 50.0},
    "events": 1000,
    "span": 1.0,
    "keys": {"k": {"cardinality": 10, "heaviest": 0.1}},
}
COUNT = "QUERY {name} PATTERN SEQ(A, B) WHERE [k] AGG COUNT(*) WITHIN {window}"
MATCH = "QUERY {name} PATTERN SEQ(A a, B b) WHERE [k] RETURN a.x, b.x WITHIN 1 s"


def planned(*queries: str, costs: UnitCosts = DEFAULTS) -> tuple[BoundWorkload, Plan]:
    document: dict[str, Any] = {
        "name": "w",
        "stream": STREAM,
        "statistics": STATISTICS,
        "queries": list(queries),
    }
    bound = load_bound(document)
    return bound, make_plan(bound, document, unit_costs=costs)


def only(**costs: float) -> UnitCosts:
    """Costs of some operations alone."""
    assert costs.keys() <= set(NAMES)
    return UnitCosts(Operations(**costs), "a test")


def cost_of(plan: Plan, kind: str) -> float:
    return sum(operator.cost for operator in plan.operators if operator.kind == kind)


def test_reading_is_paid_for_each_event_and_column():
    # The stream has 1,000 events a second; ts and k are numbers, the type is a text.
    costs = only(read_rows=1.0, read_numbers=10.0, read_texts=100.0)
    _, plan = planned(COUNT.format(name="a", window="1 s"), costs=costs)
    assert cost_of(plan, "scan") == pytest.approx(1000 * (1 + 2 * 10 + 100))
    whole = "QUERY b PATTERN SEQ(A a, B b) WHERE [k] RETURN a WITHIN 1 s"
    _, plan = planned(whole, costs=costs)  # all that the stream has: x and name too
    assert cost_of(plan, "scan") == pytest.approx(1000 * (1 + 3 * 10 + 2 * 100))


def test_looking_up_symbols_is_paid_by_the_conditions_and_not_by_the_counter():
    _, plan = planned(COUNT.format(name="a", window="1 s"), costs=only(seen=1.0))
    assert cost_of(plan, "conditions") == pytest.approx(1000, rel=0.01)
    assert cost_of(plan, "counter") == 0
    # The group is charged all of it when engines are compared.
    assert plan.groups[0].cost is not None
    assert plan.groups[0].cost.shared == pytest.approx(1000)


def test_a_group_reaches_back_as_far_as_its_widest_window():
    costs = only(arranged=1.0)
    _, one = planned(COUNT.format(name="a", window="1 s"), costs=costs)
    _, two = planned(
        COUNT.format(name="a", window="1 s"),
        COUNT.format(name="b", window="2 s"),
        costs=costs,
    )
    (alone,) = (o for o in one.operators if o.kind == "partition")
    (both,) = (o for o in two.operators if o.kind == "partition")
    # A slice of 500,000 events reaches back to 1,000 or to 2,000 of those before.
    assert alone.cost == pytest.approx(1000 * (1 + 1000 / SLICE_EVENTS))
    assert both.cost == pytest.approx(1000 * (1 + 2000 / SLICE_EVENTS))
    assert both.detail[ONE_SLICE] == pytest.approx(1000)  # one layout serves both


def test_rows_are_paid_where_they_are_made_and_where_they_are_written():
    _, plan = planned(MATCH.format(name="a"), costs=only(match_values=1.0, sunk_matches=2.0))
    (output,) = (o for o in plan.operators if o.kind == "output")
    assert output.rows
    assert output.cost == pytest.approx(2 * output.rows)  # a.x and b.x
    assert cost_of(plan, "sink") == pytest.approx(2 * output.rows)


def test_every_aggregate_is_a_row():
    one = "QUERY a PATTERN SEQ(A, B b) AGG COUNT(*) WITHIN 1 s"
    two = "QUERY a PATTERN SEQ(A, B b) AGG COUNT(*), SUM(b.x) WITHIN 1 s"
    costs = only(aggregate_rows=1.0, sunk_aggregates=1.0)
    _, single = planned(one, costs=costs)
    _, double = planned(two, costs=costs)
    for kind in ("output", "sink"):
        assert cost_of(single, kind) > 0
        assert cost_of(double, kind) == pytest.approx(2 * cost_of(single, kind))


def test_what_looks_equally_far_is_one_class():
    queries = [
        COUNT.format(name="a", window="1 s"),
        COUNT.format(name="b", window="1 s"),
        COUNT.format(name="c", window="5 EVENTS"),
        "QUERY d PATTERN SEQ(A a, !B b) WHERE [k] RETURN a.x WITHIN 1 s",
    ]
    bound = load_bound({"stream": STREAM | {"sequence": "seq"}, "queries": queries})
    a, b, c, d = (class_of([query]) for query in bound.queries)
    second = 10**9
    assert a == b == ReachClass(back=second)
    assert c == ReachClass(events=5, key=("k",))
    assert d == ReachClass(back=second, ahead=second)  # certain when its window has closed
    found = visits([a, c, d], 1000.0, {("k",): 10.0})
    assert found[a] == pytest.approx(1 + 1000 / SLICE_EVENTS)
    assert found[c] == pytest.approx(1 + 50 / SLICE_EVENTS)
    assert found[d] == pytest.approx(1 + 2000 / SLICE_EVENTS)


def test_a_slice_has_as_many_events_as_are_carried_over_to_it():
    wide = ReachClass(back=1000 * 10**9)  # a million events
    assert visits([wide], 1000.0, {}) == {wide: 2.0}


def test_every_operator_that_takes_time_has_operations():
    bound, plan = planned(COUNT.format(name="a", window="1 s"), MATCH.format(name="b"))
    known = given(bound.statistics, bound.queries)
    found = Stages(plan.operators, bound, plan.groups, known)
    kinds = {o.kind for o in plan.operators if o.id in found.operations()}
    assert kinds == {"scan", "conditions", "partition", "counter", "join", "output", "sink"}
    taking = {o.kind for o in plan.operators if o.cost > 0}
    assert taking == kinds
