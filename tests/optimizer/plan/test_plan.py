"""Plans: complete, named by their content, and the same after a trip through JSON."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any, get_args

import pytest

from optimizer.bind.binder import bind, load_bound
from optimizer.cost.unit_costs import COMPILED, DEFAULTS
from optimizer.explain.svg import render_svg
from optimizer.explain.text import PlanText, render_text
from optimizer.ir.pattern import alternatives
from optimizer.ir.query import Reading
from optimizer.plan.plan import (
    Model,
    Plan,
    PlanError,
    Solver,
    from_json,
    to_json,
)
from optimizer.statistics import MissingStatisticError
from optimizer.statistics import Statistics as Known
from optimizer.trees import best_tree
from sharing.planner import CostsError, make_plan
from workloads import bundled
from workloads.loading import load_workload
from workloads.workload import KeyStatistics, Statistics, print_nanoseconds, to_document

TWO = {
    "name": "two",
    "stream": {"time": "ts", "type": "kind"},
    "statistics": {"rates": {"A": 2.0, "B": 3.0, "C": 0.5}},
    "queries": [
        "QUERY counted PATTERN SEQ(A a, !C c, B b) PARTITION BY user "
        "AGG COUNT(*) WITHIN 1 min SLIDE 5 s",
        "QUERY found PATTERN SEQ(A a, OR(B b, C c)) RETURN a.x WITHIN 90 s",
    ],
}


def plan_of(
    document: dict[str, Any], statistics: Statistics | None = None, model: Model = "measured"
) -> Plan:
    workload = load_workload(document)
    return make_plan(bind(workload), to_document(workload), statistics=statistics, model=model)


@pytest.mark.parametrize("model", ["measured", "aseq"])
def test_costs_that_no_number_can_hold_are_an_error(model: Model) -> None:
    rates = dict.fromkeys("ABC", 1e308)
    with pytest.raises(CostsError, match="narrower window"):
        plan_of({**TWO, "statistics": {"rates": rates}}, model=model)


@pytest.mark.parametrize("name", bundled.names())
def test_a_document_gives_its_workload_back(name: str) -> None:
    workload = load_workload(bundled.path(name))
    again = load_workload(json.loads(json.dumps(to_document(workload))))
    assert (again.name, again.stream, again.queries, again.statistics) == (
        workload.name,
        workload.stream,
        workload.queries,
        workload.statistics,
    )


@pytest.mark.parametrize("name", bundled.names())
def test_a_plan_survives_json(name: str) -> None:
    workload = load_workload(bundled.path(name))
    plan = make_plan(bind(workload), to_document(workload))
    again = from_json(json.loads(json.dumps(to_json(plan))))
    assert again == plan
    assert again.id == plan.id


def test_a_plan_has_what_the_interface_names() -> None:
    plan = to_json(plan_of(TWO))
    assert {
        "version", "id", "workload", "solver", "model", "status", "objective", "bound", "cost",
        "candidates", "chosen", "groups", "operators", "document",
    } <= plan.keys()  # fmt: skip
    assert [group["queries"] for group in plan["groups"]] == [["counted"], ["found"]]
    assert "segments" in plan["groups"][0]
    assert "tree" in plan["groups"][1]
    assert all(group["why"] for group in plan["groups"])


def test_costs_are_those_of_the_operators_by_either_model() -> None:
    for model in get_args(Model):
        plan = plan_of(TWO, model=model)
        assert plan.cost.unit == "nanoseconds per second of stream"
        query = load_bound(TWO).query("found")
        readings = [Reading.of(query, pattern).asked for pattern in alternatives(query.pattern)]
        known = Known(TWO["statistics"]["rates"])
        trees = sum(best_tree(reading, known, model=COMPILED).per_second for reading in readings)
        counted, found = (group.cost for group in plan.groups)
        assert counted is not None
        assert found is not None
        touched = DEFAULTS.each.joined  # ns for each event
        assert found.shared == pytest.approx(touched * trees)
        assert plan.cost.shared == pytest.approx(sum(o.cost for o in plan.operators))
        assert plan.cost.shared > counted.shared + found.shared  # reading and writing besides
        workload = load_workload(TWO)
        alone = make_plan(bind(workload), to_document(workload), model=model, sharing=False)
        assert plan.cost.separate == pytest.approx(alone.cost.shared)


def test_what_nobody_said_is_assumed_and_named_or_an_error() -> None:
    some = Statistics({"A": 2.0}, keys={"user": KeyStatistics(10, 0.1)})
    plan = plan_of(TWO, some)
    assert {"rates: B", "rates: C"} <= set(plan.assumed)
    workload = load_workload(TWO)
    with pytest.raises(MissingStatisticError, match="'B'"):
        make_plan(bind(workload), to_document(workload), statistics=some, strict=True)


SHARED = {
    **TWO,
    "statistics": {"rates": {"A": 10.0, "B": 0.01, "C": 10.0, "D": 10.0}},
    "queries": [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1 min",
        "QUERY two PATTERN SEQ(D d, B b, C c) AGG COUNT(*) WITHIN 1 min",
        "QUERY later PATTERN SEQ(D d, B b, C c) PARTITION BY k AGG COUNT(*) WITHIN 1 min",
    ],
}


def test_what_is_worth_sharing_is_chosen_and_explained() -> None:
    plan = plan_of(SHARED, model="aseq")
    (only,) = plan.candidates
    assert (only.pattern, only.queries, plan.chosen) == (("B", "C"), ("one", "two"), (only.id,))
    # Equation 4.4: N0 = 60 * 7.5025 events of a type in a window, f = 0.6 / N0.
    N0, k, length, f = 450.15, 2, 2, 0.6 / 450.15
    assert only.benefit == pytest.approx(
        N0**2 * k * (length + f) - N0**3 * f * k - N0**2 * f * length
    )
    assert only.unit == "operations per window"
    assert plan.status == "optimal"
    assert plan.groups[0].engine == "chopconnect"
    assert plan.cost.separate - plan.cost.shared == pytest.approx(plan.objective)
    assert plan.groups[0].segments == (("A",), ("B", "C"), ("D",))
    assert plan.groups[0].uses == {"one": (0, 1), "two": (2, 1)}
    assert "D, B, C: two and later do not share it: they differ in partition key" in plan.obstacles


def test_the_measured_model_says_what_the_groups_save_in_nanoseconds() -> None:
    workload = load_workload(SHARED)
    plan = make_plan(bind(workload), to_document(workload), model="measured")
    assert plan.cost.unit == "nanoseconds per second of stream"
    assert plan.objective == pytest.approx(plan.cost.separate - plan.cost.shared)
    assert 0 < plan.objective <= plan.bound
    assert "as long" in plan.groups[0].why


def test_the_product_is_taken_where_rates_are_only_assumed() -> None:
    rare = "QUERY rare PATTERN SEQ(B b, A a, C c, D d) AGG COUNT(*) WITHIN 1 min"
    known = plan_of({**SHARED, "queries": [rare]})
    assumed = plan_of({**SHARED, "queries": [rare], "statistics": {}})
    assert (known.groups[0].engine, assumed.groups[0].engine) == ("aseq", "product")


def test_queries_with_nothing_in_common_are_not_made_dearer_by_an_assumed_key() -> None:
    plan = plan_of(
        {
            "name": "apart",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "statistics": {"rates": {"A": 10, "B": 0.5, "C": 10, "D": 40, "E": 56, "F": 3, "G": 1}},
            "queries": [
                f"QUERY {name} PATTERN SEQ({parts}) PARTITION BY u AGG COUNT(*) "
                "WITHIN 2 s SLIDE 500 ms"
                for name, parts in (("one", "A, B, C"), ("two", "D, E, F, G"))
            ],
        }
    )
    assert plan.cost.shared <= plan.cost.separate
    assert {group.engine for group in plan.groups} == {"product"}


@pytest.mark.parametrize("solver", ["greedy", "cpsat", "exhaustive"])
def test_a_plan_starts_from_an_earlier_one(solver: Solver) -> None:
    first = plan_of({**SHARED, "queries": SHARED["queries"][:2]})
    workload = load_workload(SHARED)
    again = make_plan(bind(workload), to_document(workload), solver=solver, earlier=first)
    assert again.chosen == first.chosen


def test_queries_of_one_key_are_counted_together() -> None:
    document = {
        **TWO,
        "queries": [
            "QUERY one PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 1 min",
            "QUERY other_window PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 2 min SLIDE 1 s",
            "QUERY other_key PATTERN SEQ(A a, B b) PARTITION BY k AGG COUNT(*) WITHIN 1 min",
            "QUERY two PATTERN SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1 min",
            "QUERY tied PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT(*) WITHIN 1 min",
        ],
    }
    plan = plan_of(document)
    assert [(group.queries, group.engine) for group in plan.groups] == [
        (("one", "other_window", "two"), "product"),
        (("other_key",), "product"),
        (("tied",), "fenwick"),
    ]
    assert "a Fenwick tree takes" in plan.groups[2].why


def test_without_sharing_every_query_is_a_group() -> None:
    workload = load_workload(bundled.path("shop"))
    plan = make_plan(bind(workload), to_document(workload), sharing=False)
    assert [group.queries for group in plan.groups] == [(name,) for name in plan.queries]
    assert plan.objective == 0


def test_the_id_follows_from_the_content() -> None:
    plan = plan_of(TWO)
    assert plan.id == plan_of(TWO).id
    assert plan.id != replace(plan, solver="cpsat").id
    assert plan.id != plan_of({**TWO, "statistics": {"rates": {}}}).id


def test_the_id_is_the_same_in_another_process() -> None:
    program = (
        "import json, sys; from optimizer.plan.plan import from_json;"
        "print(from_json(json.load(sys.stdin)).id)"
    )
    plan = plan_of(TWO)
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(to_json(plan)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == plan.id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "version 99"),
        ({"version": None}, "version None"),
        ({"status": "perhaps"}, "status"),
        ({"groups": 7}, "groups"),
    ],
)
def test_what_is_no_plan_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        from_json({**to_json(plan_of(TWO)), **change})


def test_the_text_shows_the_graph_and_the_reasons() -> None:
    """Whole plans are golden files in tests/plans; here, what must not get lost."""
    lines = render_text(plan_of(TWO)).splitlines()
    assert lines[0].endswith(": two, 2 queries")
    assert re.fullmatch(
        r"cost +[0-9.]+ µs of CPU for each second of stream; query by query .+, about as much",
        lines[1],
    )
    assert "assumed   keys: user; give statistics or events to do better" in lines
    rows = [line for line in PlanText(plan_of(TWO)).graph() if "├─" in line or "└─" in line]
    assert all(len(line) <= 100 for line in lines)
    assert [re.sub(r"^.*[├└]─ ", "", row) for row in rows] == [
        "3 symbols, tested in one pass for 2 queries",
        "no partition",
        "found: SEQ(A a, OR(B b, C c)), 90 s → matches, by a tree of joins",
        "partition by user",
        "counted: SEQ(A a, !C c, B b), 1 min every 5 s → aggregates, by the sliding product",
        "rows of aggregates, made, sorted and written",
        "rows of matches, made, sorted and written",
    ]
    assert any(line.startswith("  counted: counted alone: no other query has") for line in lines)


@pytest.mark.parametrize("name", bundled.names())
def test_the_picture_is_valid_and_shows_every_query(name: str) -> None:
    workload = load_workload(bundled.path(name))
    plan = make_plan(bind(workload), to_document(workload))
    picture = render_svg(plan)
    texts = {element.text for element in ET.fromstring(picture).iter() if element.text}
    assert texts >= set(plan.queries)
    assert picture == render_svg(plan)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 day"), (1, "1 ns"), (90 * 10**9, "90 s"), (120 * 10**9, "2 min"), (1500, "1500 ns")],
)
def test_lengths_of_time_are_printed_in_whole_units(amount: int, text: str) -> None:
    assert print_nanoseconds(amount) == text
