"""Plans from documents that people edited."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from optimizer.plan.load_plan import load_plan
from optimizer.plan.plan import Plan, PlanError, to_json
from tests.optimizer.plan.test_plan import SHARED, TWO, plan_of

PLAN = plan_of(SHARED)
Document = dict[str, Any]


def edited(change: Callable[[Document], None], plan: Plan = PLAN) -> Document:
    document = json.loads(json.dumps(to_json(plan)))
    change(document)
    return document  # type: ignore[no-any-return]


def with_engine(name: str, number: int = 0) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["groups"][number]["engine"] = name

    return change


def test_a_document_that_was_not_edited_is_taken_as_it_is() -> None:
    assert load_plan(to_json(PLAN)) == PLAN
    two = plan_of(TWO)
    assert load_plan(json.loads(json.dumps(to_json(two)))) == two


@pytest.mark.parametrize("name", ["product", "aseq", "pretree", "chopconnect", "trees"])
def test_a_group_that_is_given_another_engine_runs_on_it(name: str) -> None:
    before = PLAN.groups[0].engine
    plan = load_plan(edited(with_engine(name)))
    assert plan.groups[0].engine == name
    if name == before:
        assert plan == PLAN
        return
    assert plan.id != PLAN.id
    kinds = {o.kind for o in plan.operators if o.id not in {p.id for p in PLAN.operators}}
    counters = {o.detail["engine"] for o in plan.operators if o.kind == "counter"}
    assert ("join" if name == "trees" else "counter") in kinds
    assert name in counters or name == "trees"
    assert sum(o.cost for o in plan.operators) == pytest.approx(plan.cost.shared)
    assert plan.cost.shared > PLAN.cost.shared  # the planner took the cheapest
    assert load_plan(json.loads(json.dumps(to_json(plan)))) == plan


@pytest.mark.parametrize(
    ("queries", "trees"),
    [
        (["PATTERN SEQ(A a, B b) RETURN a.id WITHIN 5 s"], 1),
        (["PATTERN SEQ(A a, B b) RETURN a.id WITHIN 5 s"] * 2, 2),
        (["PATTERN JOIN(A a WITHIN 5 s, B b WITHIN 5 s) RETURN a.id"], 0),
        (["PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 5 s"], 0),
    ],
)
def test_every_group_has_segments_or_a_tree(queries: list[str], trees: int) -> None:
    named = [f"QUERY q{i} {text}" for i, text in enumerate(queries)]
    plan = plan_of({**TWO, "queries": named})
    document = json.loads(json.dumps(to_json(plan)))
    (group,) = document["groups"]
    if "segments" in group:
        assert "tree" not in group
        assert trees == 0
    elif trees == 2:
        assert set(group["tree"]) == {"q0", "q1"}
    else:
        assert bool(group["tree"]) == bool(trees)
    assert load_plan(document) == plan


def test_groups_may_be_parted() -> None:
    def part(document: Document) -> None:
        first = document["groups"][0]
        names = first["queries"]
        assert len(names) == 2
        kept = ("engine", "device", "why", "cost")
        document["groups"][:1] = [
            {**{key: first[key] for key in kept}, "queries": [name]} for name in names
        ]

    plan = load_plan(edited(part))
    assert [group.queries for group in plan.groups] == [("one",), ("two",), ("later",)]
    assert not [o for o in plan.operators if o.kind == "segment"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_engine("turbo"), r"group 1 has the engine 'turbo'; engines are product, aseq"),
        (
            with_engine("panes"),
            r"group 1 \(one, two\): products of panes cannot run one",
        ),
        (
            with_engine("stepwise"),
            r"group 1 \(one, two\): .* together: it runs one query",
        ),
        (
            lambda d: d["groups"][0].update(engine="aseq", device="opencl"),
            r"group 1 \(one, two\): A-Seq runs on cpu, and not on opencl",
        ),
        (
            lambda d: d["groups"][0].update(uses={"one": [0], "two": [0]}),
            r"group 1 \(one, two\): the segments of two do not make up its pattern",
        ),
        (
            lambda d: d["groups"][0]["queries"].append("later"),
            "exactly once: later",
        ),
        (
            lambda d: d["operators"][-1].update(cost=7.0),
            "operators were edited: they follow from its groups",
        ),
        (lambda d: d.update(version=4), r"version 4, and this Sheaf reads 5; make it again"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(
    change: Callable[[Document], None], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        load_plan(edited(change))


def test_a_query_that_an_engine_cannot_count_is_named() -> None:
    plan = plan_of(TWO)
    with pytest.raises(PlanError, match=r"group 2 \(found\): PreTree cannot run found: "):
        load_plan(edited(with_engine("pretree", 1), plan))
