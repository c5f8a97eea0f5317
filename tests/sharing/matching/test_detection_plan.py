"""What plans say of queries that construct matches: groups, candidates, costs and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from optimizer.bind.binder import bind, load_bound
from optimizer.cost.unit_costs import COMPILED, DEFAULTS
from optimizer.ir.pattern import alternatives
from optimizer.ir.query import BoundWorkload, Reading
from optimizer.plan.plan import Plan, from_json, to_json
from optimizer.rewrite.normalize import normalize_workload
from optimizer.statistics import given as given_statistics
from optimizer.statistics import with_defaults
from optimizer.trees import print_tree, steps_of
from optimizer.trees.tree import from_document, without_passing
from sharing.planner import make_plan
from tests.sharing.sequences import detection
from workloads.loading import load_workload
from workloads.workload import to_document

ROOT = Path(__file__).parents[3]
HOSPITAL = ROOT / "workloads" / "bundled" / "hospital.yaml"
NEEL = ROOT / "tests" / "plans" / "neel.yaml"


@cache
def planned(path: Path, solver: Any = "greedy", sharing: bool = True) -> Plan:
    workload = load_workload(path)
    return make_plan(bind(workload), to_document(workload), solver, "aseq", sharing=sharing)


def chosen(plan: Plan) -> dict[tuple[str, ...], Any]:
    return {c.pattern: c for c in plan.candidates if c.id in plan.chosen}


def written(queries: list[str], **more: Any) -> Plan:
    document = {
        "name": "written",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "statistics": {"rates": dict.fromkeys("ABCDE", 50.0)},
        "queries": queries,
    }
    return make_plan(load_bound(document), document, model="aseq", **more)


# --- NEEL's example ------------------------------------------------------------------------------


def test_neels_five_queries_share_their_prefix_and_their_positives() -> None:
    plan = planned(HOSPITAL)
    finder = {f"plan_finder_{i}" for i in range(1, 6)}
    (group,) = [g for g in plan.groups if finder & set(g.queries)]
    assert finder <= set(group.queries)
    assert group.engine == "trees"
    found = chosen(plan)
    assert finder <= set(found["Recycle", "Washing"].queries)
    assert found["Recycle", "Washing"].kind == "prefix"
    assert finder - set(found["Recycle", "Washing", "Disinfection"].queries) == {"plan_finder_3"}
    assert found["Recycle", "Washing", "Disinfection"].kind == "bitmark"
    assert "prefix cache: SEQ(Recycle, Washing) made once for" in group.why
    assert "bit-marking: SEQ(Recycle, Washing, Disinfection) made once for" in group.why
    assert group.cost is not None
    assert group.cost.shared < 0.7 * group.cost.separate


def test_what_is_chosen_has_no_conflicts_and_others_say_why() -> None:
    plan = planned(HOSPITAL)
    by_id = {candidate.id: candidate for candidate in plan.candidates}
    assert len(by_id) == len(plan.candidates)
    for candidate in plan.candidates:
        assert set(candidate.conflicts) <= by_id.keys()
        assert all(candidate.id in by_id[other].conflicts for other in candidate.conflicts)
        if candidate.id in plan.chosen:
            assert not set(candidate.conflicts) & set(plan.chosen)
            assert candidate.why.startswith("chosen")
        else:
            assert candidate.why.startswith("not ")
            if "overlaps" in candidate.why:
                assert set(candidate.conflicts) & set(plan.chosen)


def test_plans_with_trees_survive_json() -> None:
    plan = planned(NEEL)
    assert from_json(to_json(plan)) == plan


# --- solvers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [HOSPITAL, NEEL], ids=["hospital", "neel"])
def test_exact_solvers_agree_and_prove_it(path: Path) -> None:
    greedy, cpsat = planned(path), planned(path, "cpsat")
    exhaustive = planned(path, "exhaustive")
    assert cpsat.status == exhaustive.status == "optimal"
    assert cpsat.objective == pytest.approx(exhaustive.objective, rel=1e-9)
    assert cpsat.bound == pytest.approx(cpsat.objective, rel=1e-9)
    assert greedy.objective <= exhaustive.objective * (1 + 1e-9)
    assert exhaustive.objective <= greedy.bound * (1 + 1e-9)


def decided(plan: Plan) -> tuple[float, float]:
    """What the groups of a plan take together, and query by query."""
    costs = [group.cost for group in plan.groups if group.cost is not None]
    return sum(cost.shared for cost in costs), sum(cost.separate for cost in costs)


def test_without_sharing_each_query_is_alone() -> None:
    plan = planned(NEEL, sharing=False)
    assert all(len(group.queries) == 1 for group in plan.groups)
    assert not plan.candidates
    assert plan.objective == 0
    assert decided(plan)[0] == pytest.approx(decided(planned(NEEL))[1])
    assert "shared" not in str([group.trees for group in plan.groups])


def test_a_plan_begins_from_an_earlier_one() -> None:
    queries = [
        f"QUERY q{i} PATTERN SEQ({p}) RETURN a WITHIN 100 ms"
        for i, p in enumerate(["A a, B b, C c", "A a, B b, D d", "E a, B b, D d"])
    ]
    first = written(queries[:2])
    assert written(queries[:2], earlier=first) == first
    again = written(queries, earlier=first)
    assert again.objective >= first.objective
    assert again.objective == pytest.approx(written(queries).objective)


# --- costs ---------------------------------------------------------------------------------------


def cost_of_trees(plan: Plan, workload: BoundWorkload) -> float:
    """What a plan's trees cost without passing events, by walking each, shared subtrees once."""
    known = with_defaults(given_statistics(workload.statistics, workload.queries), workload.queries)
    seen: set[str] = set()
    total = 0.0
    for group in plan.groups:
        for name, document in group.trees.items():
            query = workload.query(name)
            patterns = alternatives(query.pattern)
            parts = document["parts"] if len(patterns) > 1 else [document]
            for pattern, part in zip(patterns, parts, strict=True):
                asked = Reading.of(query, pattern).asked
                tree, _ = without_passing(from_document(part))
                again = [without_passing(from_document(inner))[0] for inner in repeated(part, seen)]
                steps = steps_of(tree, asked, known, model=COMPILED)
                seconds = query.window.size / 1e9
                costs = {step.node: step.cost / seconds for step in steps}
                total += costs[tree] - sum(costs[inner] for inner in again)
    return total


def repeated(document: Any, seen: set[str]) -> Iterator[Mapping[str, Any]]:
    """The outermost subtrees that were made before."""
    if isinstance(document, list):
        for part in document:
            yield from repeated(part, seen)
    elif isinstance(document, dict):
        mark = document.get("shared")
        if mark in seen:
            yield document
            return
        if mark is not None:
            seen.add(mark)
        yield from repeated(list(document.values()), seen)


@given(detection(most=5, queries=5))
@settings(max_examples=30)
def test_a_plan_costs_no_more_than_its_trees_do_with_shared_subtrees_once(
    workload: BoundWorkload,
) -> None:
    """Less where trees have more in common than what was chosen."""
    workload = normalize_workload(workload)
    plan = make_plan(workload, {})
    shared, separate = decided(plan)
    touched = DEFAULTS.each.joined
    assert shared <= touched * cost_of_trees(plan, workload) * (1 + 1e-6)
    assert plan.objective == pytest.approx(plan.cost.separate - plan.cost.shared, abs=1e-6)
    assert plan.objective <= plan.bound * (1 + 1e-9)
    alone = make_plan(workload, {}, sharing=False)
    assert decided(alone)[0] == pytest.approx(separate, rel=1e-9)


# --- what keeps queries from sharing -------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ("PATTERN SEQ(A a, B b, D d) PARTITION BY k RETURN a WITHIN 100 ms", "partition key"),
        ("PATTERN SEQ(A a, B+ b, D d) RETURN a WITHIN 100 ms", "groups of events"),
    ],
)
def test_an_obstacle_names_what_differs(other: str, differs: str) -> None:
    plan = written(
        ["QUERY one PATTERN SEQ(A a, B b, C c) RETURN a WITHIN 100 ms", f"QUERY two {other}"]
    )
    assert not plan.candidates
    (obstacle,) = plan.obstacles
    assert obstacle == f"A, B: one and two do not share it: they differ in {differs}"


@pytest.mark.parametrize(
    "other",
    [
        "PATTERN SEQ(A a, B b, D d) RETURN a WITHIN 90 ms",
        "PATTERN SEQ(A a, B b, D d) WHERE a.x = b.x RETURN a WITHIN 100 ms",
        "PATTERN SEQ(A a, B b, D d) WHERE b.x > 5 RETURN a WITHIN 80 ms",
    ],
)
def test_what_a_filter_bridges_is_no_obstacle(other: str) -> None:
    plan = written(
        ["QUERY one PATTERN SEQ(A a, B b, C c) RETURN a WITHIN 100 ms", f"QUERY two {other}"]
    )
    assert [(c.pattern, c.queries) for c in plan.candidates] == [(("A", "B"), ("one", "two"))]
    assert not plan.obstacles


def test_what_makes_one_tree_cheaper_is_no_sharing() -> None:
    """A negation that reads two components is pushed to both together, whoever else joins them."""
    queries = [
        "QUERY one PATTERN SEQ(A a, B b, !E n, C c, D d) WHERE a.x = n.x RETURN a WITHIN 100 ms",
        "QUERY two PATTERN SEQ(A a, B b, D f) RETURN a WITHIN 100 ms",
    ]
    plan, alone = written(queries), written(queries[:1])
    for made in (plan, alone):
        (tree,) = [g.trees["one"] for g in made.groups if "one" in g.queries]
        assert "NSEQ((a ; b) ; !n)" in print_tree(from_document(tree))
    assert all(len(c.queries) > 1 for c in plan.candidates if c.id in plan.chosen)


def test_other_negations_are_no_obstacle() -> None:
    plan = written(
        [
            "QUERY one PATTERN SEQ(A a, !C c, B b) RETURN a WITHIN 100 ms",
            "QUERY two PATTERN SEQ(A a, !D d, B b) RETURN a WITHIN 100 ms",
        ]
    )
    assert plan.obstacles == ()
    assert [c.kind for c in plan.candidates] == ["bitmark"]
