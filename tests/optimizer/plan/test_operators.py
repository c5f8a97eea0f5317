"""The graph of a plan: what operators promise, and ids that are the same for the same content."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from engines.input.event_table import from_table
from engines.program import bound_program
from optimizer.bind.binder import bind, load_bound
from optimizer.explain.text import render_text
from optimizer.ir.query import BoundWorkload
from optimizer.plan.lineage import QueryOperators
from optimizer.plan.plan import (
    Operator,
    Plan,
    PlanError,
    from_json,
    to_json,
)
from sharing.planner import make_plan
from tests.optimizer.plan.test_plan import SHARED, TWO, plan_of
from tests.running import counting_plan, run_local
from tests.strategies import workloads
from workloads import bundled
from workloads.loading import load_workload
from workloads.workload import to_document


def of_kind(plan: Plan, kind: str) -> list[Operator]:
    return [operator for operator in plan.operators if operator.kind == kind]


def test_the_operators_lead_from_scan_to_sinks() -> None:
    plan = plan_of(TWO)
    by_id = {operator.id: operator for operator in plan.operators}
    (engine,) = of_kind(plan, "counter")
    events = [by_id[source] for source in engine.inputs]
    assert [o.detail["symbol"] for o in events] == ["A", "C", "B"]
    symbol, partition = (by_id[source] for source in events[0].inputs)
    assert (symbol.detail["symbol"], partition.detail["key"]) == ("A", ["user"])
    assert partition.inputs == (of_kind(plan, "scan")[0].id,)
    assert symbol.inputs == (of_kind(plan, "conditions")[0].id,)
    assert by_id[symbol.inputs[0]].inputs == partition.inputs
    sinks = {o.id: o for o in of_kind(plan, "sink")}
    (output,) = (by_id[source] for source in sinks["sink-aggregates"].inputs)
    assert (output.detail["query"], output.inputs) == ("counted", (engine.id,))


def test_operators_say_what_they_promise() -> None:
    attributes = {"x": "int", "user": "string", "unread": "float"}
    stream = {"time": "ts", "type": "kind", "attributes": attributes}
    plan = plan_of({**TWO, "stream": stream})
    (scan,) = of_kind(plan, "scan")
    assert scan.schema == {"ts": "time", "kind": "string", "user": "string", "x": "int"}
    assert of_kind(plan_of(TWO), "scan")[0].schema["x"] == "any"
    spread = {str(o.partitioning): o.order for o in of_kind(plan, "partition")}
    assert spread == {"by user": ("ts",), "by slices of time": ("ts",)}
    (engine,) = of_kind(plan, "counter")
    assert (str(engine.state), engine.order) == ("state of 1 min", ("end",))
    assert {str(join.state) for join in of_kind(plan, "join")} == {"state of 90 s"}


COUNT_WINDOW = {
    **TWO,
    "stream": {"time": "ts", "type": "kind", "sequence": "seq", "lateness": "3 s"},
    "queries": ["QUERY last PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 20 EVENTS"],
}


def test_a_window_of_events_needs_all_of_them_in_one_place() -> None:
    plan = plan_of(COUNT_WINDOW)
    (partition,) = of_kind(plan, "partition")
    assert (partition.partitioning.kind, partition.order) == ("single", ("ts", "seq"))
    assert str(partition.state) == "events wait 3 s for later ones"
    assert str(of_kind(plan, "counter")[0].state) == "state of 20 events of each key"


def test_the_same_operator_has_the_same_id_in_plans_of_two_workloads() -> None:
    renamed = [
        SHARED["queries"][0].replace("QUERY one", "QUERY uno"),
        SHARED["queries"][1],
        "QUERY more PATTERN SEQ(A a, E e) PARTITION BY k AGG COUNT(*) WITHIN 5 min",
    ]
    rates = {**SHARED["statistics"]["rates"], "E": 3.0}
    other = {**SHARED, "name": "other", "queries": renamed, "statistics": {"rates": rates}}
    one, two = plan_of(SHARED), plan_of(other)
    ids = {o.id for o in one.operators} & {o.id for o in two.operators}
    kept = {o.kind for o in one.operators if o.id in ids}
    assert {"scan", "symbol", "partition", "events", "segment", "counter", "output"} <= kept
    (segment,) = of_kind(one, "segment")
    assert segment.id == of_kind(two, "segment")[0].id
    assert segment.detail["steps"] == ["B", "C"]
    named = {o.detail["query"] for o in of_kind(two, "output") if o.id in ids}
    assert named == {"two"}  # the name of a query stands in its rows


def test_groups_that_count_the_same_apart_have_a_counter_each() -> None:
    counted = "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 10 s"
    queries = [f"QUERY {name} {counted}" for name in ("one", "two", "three")]
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    bound = load_bound({"stream": stream, "queries": queries})
    plan = counting_plan(bound, [(["one"], "product"), (["two"], "product"), (["three"], "aseq")])
    program = bound_program(plan, bound)
    assert [unit.queries[0].name for unit in program.units] == ["one", "two", "three"]
    assert len({unit.operator for unit in program.units}) == 3
    events = from_table(pa.table({"ts": [1, 2, 3], "kind": ["A", "B", "B"]}), bound.stream)
    found = run_local(bound, events, plan=plan).aggregates.to_pylist()
    rows = [(row["query"], row["time"], row["count"]) for row in found]
    assert sorted(rows) == [(name, t, t - 1) for name in ("one", "three", "two") for t in (2, 3)]


def test_another_window_or_key_is_another_operator() -> None:
    kinds = ("segment", "counter", "join")

    def ids(*replacements: tuple[str, str]) -> set[str]:
        queries = [*SHARED["queries"], "QUERY f PATTERN SEQ(A a, B b) RETURN a.x WITHIN 1 min"]
        for before, after in replacements:
            queries = [text.replace(before, after) for text in queries]
        plan = plan_of({**SHARED, "queries": queries})
        return {o.id for o in plan.operators if o.kind in kinds}

    assert ids() == ids()
    assert not ids() & ids(("1 min", "3 min"), ("2 min", "4 min"))
    other = (" PARTITION BY k", ""), (" AGG", " PARTITION BY l AGG")
    assert not ids() & ids(*other, (" RETURN", " PARTITION BY l RETURN"))


DETECTION = {
    **TWO,
    "statistics": {"rates": {"A": 2.0, "B": 3.0, "C": 0.5, "D": 40.0}},
    "queries": [
        "QUERY one PATTERN SEQ(A a, B b, D d) WHERE a.x < b.x RETURN a, b WITHIN 10 s",
        "QUERY two PATTERN SEQ(A first, B then, D d) WHERE then.x > first.x RETURN d WITHIN 10 s",
        "QUERY three PATTERN SEQ(A a, B b, D d) WHERE a.x > b.x RETURN a, b WITHIN 10 s",
        "QUERY four PATTERN SEQ(A a, B b, D d) WHERE a.x < b.x RETURN a, b WITHIN 20 s",
    ],
}


def test_joins_of_equal_subtrees_are_one_operator_whatever_the_aliases() -> None:
    ways = QueryOperators(plan_of(DETECTION))
    joins = {
        (join.detail["pattern"], ways.queries[join.id])
        for join in (*of_kind(ways.plan, "join"), *of_kind(ways.plan, "walk"))
        if len(ways.queries[join.id]) > 1
    }
    assert {queries for _, queries in joins} == {("one", "two")}
    assert any(all(name in pattern for name in "ABD") for pattern, _ in joins)


@pytest.mark.parametrize("name", bundled.names())
def test_the_costs_of_operators_add_up_to_the_plans_cost(name: str) -> None:
    workload = load_workload(bundled.path(name))
    plan = make_plan(bind(workload), to_document(workload))
    total = sum(operator.cost for operator in plan.operators)
    assert total == pytest.approx(plan.cost.shared, rel=1e-9)
    ways = QueryOperators(plan)
    common = ("scan", "conditions", "symbol", "partition", "events", "output", "sink")
    stages = sum(operator.cost for operator in plan.operators if operator.kind in common)
    groups = sum(map(ways.cost_of, plan.groups))
    assert groups + stages == pytest.approx(plan.cost.shared, rel=1e-9)
    saved = sum(g.cost.separate - g.cost.shared for g in plan.groups if g.cost is not None)
    assert plan.cost.separate - plan.cost.shared == pytest.approx(plan.objective, rel=1e-9)
    alone = make_plan(bind(workload), to_document(workload), sharing=False)
    assert plan.cost.separate == pytest.approx(alone.cost.shared, rel=0.01)
    assert plan.objective > saved  # by what is read, tested and ordered once
    for kind in ("scan", "conditions", "partition"):
        assert sum(operator.kind == kind for operator in alone.operators) == len(plan.queries)


@given(workloads(max_queries=4))
@settings(max_examples=40)
def test_plans_of_random_workloads_hold_together_and_survive_json(bound: BoundWorkload) -> None:
    """Making a plan checks it."""
    for sharing in (True, False):
        plan = make_plan(bound, {}, sharing=sharing)
        again = from_json(json.loads(json.dumps(to_json(plan))))
        assert again == plan
        assert again.id == plan.id
        assert all(name in render_text(plan) for name in plan.queries)


@pytest.mark.parametrize("version", [0, 1, 4, 6])
def test_a_plan_of_another_version_is_refused(version: int) -> None:
    document: dict[str, Any] = {**to_json(plan_of(TWO)), "version": version}
    message = f"version {version}, and this Sheaf reads 5; make it again"
    with pytest.raises(PlanError, match=message):
        from_json(document)
