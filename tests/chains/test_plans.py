"""Plans of queries that read one another's rows."""

from __future__ import annotations

import pytest

from optimizer.bind.binder import load_bound
from optimizer.explain.svg import render_svg
from optimizer.explain.text import render_text
from optimizer.plan.chain_operators import in_rounds
from optimizer.plan.groups import StepwiseGroup
from optimizer.plan.load_plan import load_plan
from optimizer.plan.plan import Plan, PlanError, to_json
from sharing.planner import make_plan

DOCUMENT = {
    "name": "w",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        "QUERY many PATTERN SEQ(N n, A a) WHERE n.value > 2 RETURN a.x WITHIN 9 s",
        "QUERY counted PATTERN P p AGG COUNT(*) WITHIN 20 s SLIDE 10 s INTO N",
        "QUERY after PATTERN SEQ(P p, C c) RETURN p.start, c.x WITHIN 30 s",
        "QUERY pairs PATTERN SEQ(A a, B b) RETURN a.x WITHIN 9 s INTO P",
    ],
}


@pytest.fixture(params=[True, False])
def plan(request: pytest.FixtureRequest) -> Plan:
    return make_plan(load_bound(DOCUMENT), DOCUMENT, sharing=request.param)


def test_rows_are_an_operator_with_readers(plan: Plan) -> None:
    made = {o.detail["type"]: o for o in plan.operators if o.kind == "into"}
    assert made["P"].detail["query"] == "pairs"
    read = [o for o in plan.operators if made["P"].id in o.inputs]
    assert {o.kind for o in read} == {"symbol"}
    place = {o.id: number for number, o in enumerate(plan.operators)}
    assert all(place[source] < place[o.id] for o in plan.operators for source in o.inputs)


def test_no_group_has_queries_of_two_rounds(plan: Plan) -> None:
    rounds = {"pairs": 1, "counted": 2, "after": 2, "many": 3}
    for group in plan.groups:
        assert len({rounds[name] for name in group.queries}) == 1
        assert f"in round {rounds[group.queries[0]]} of 3" in group.why


def test_a_plan_is_shown_and_read_again(plan: Plan) -> None:
    assert "INTO P" in render_text(plan)
    assert render_svg(plan).startswith("<svg")
    assert load_plan(to_json(plan)) == plan


def test_a_group_across_rounds_is_refused() -> None:
    group = StepwiseGroup(("pairs", "after"), "as the plan's document says")
    with pytest.raises(PlanError, match="read the rows of others"):
        in_rounds(load_bound(DOCUMENT), [group])
