"""What detection queries make once: candidates, bounds and solvers against counting all choices."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.query import BoundWorkload
from optimizer.statistics import Statistics, with_defaults
from optimizer.statistics import given as given_statistics
from optimizer.trees import GivenFragment, best_tree
from optimizer.trees.problem import fragments_of
from sharing.errors import BudgetError
from sharing.matching import nodes as readers
from sharing.matching.bound import least_cost
from sharing.matching.build_nodes import problem_of
from sharing.matching.choice import benefit, choose, readings_of
from sharing.matching.cpsat import jointly
from sharing.matching.exhaustive import best_plan
from sharing.matching.improve import find_plan
from sharing.matching.nodes import At, NodePlacement, NodeProblem, conflicts, everywhere
from sharing.solvers.candidates import Options
from tests.sharing.sequences import detection

FEW = 8  # nodes of which all sets are tried


def known(workload: BoundWorkload) -> Statistics:
    return with_defaults(given_statistics(workload.statistics, workload.queries), workload.queries)


def problem(workload: BoundWorkload) -> NodeProblem:
    (readings,) = readings_of(workload.queries).values()
    return problem_of(readings, known(workload))


def of(*patterns: str, rates: dict[str, float] | None = None) -> NodeProblem:
    types = rates or dict.fromkeys("ABCDEFG", 100.0)
    return problem(
        load_bound(
            {
                "name": "written",
                "stream": {"time": "ts", "unit": "ms", "type": "kind"},
                "statistics": {"rates": types},
                "queries": [
                    f"QUERY q{i} PATTERN {pattern} RETURN a WITHIN 100 ms"
                    for i, pattern in enumerate(patterns)
                ],
            }
        )
    )


def shown(found: NodeProblem) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return {(found.kind(n.places), n.steps, found.queries(n.places)) for n in found.nodes}


# --- candidates ----------------------------------------------------------------------------------


def test_prefixes_suffixes_and_middles_are_found_whatever_their_aliases() -> None:
    found = of("SEQ(A a, B b, C c)", "SEQ(A x, B a, D d)", "SEQ(D a, B b, C z)")
    assert shown(found) == {
        ("prefix", ("A", "B"), ("q0", "q1")),
        ("suffix", ("B", "C"), ("q0", "q2")),
    }
    middle = of("SEQ(D a, A e, B b, C c)", "SEQ(C a, A e, B b, D d)")
    assert shown(middle) == {("substring", ("A", "B"), ("q0", "q1"))}


def test_negations_and_conditions_inside_a_piece_belong_to_it() -> None:
    one = "SEQ(A a, !C n, B b, D d) WHERE a.x < b.x"
    same = of(one, "SEQ(A a, !C o, B p, E e) WHERE p.x > a.x")
    assert shown(same) == {("prefix", ("A !C", "B WHERE c1.x < c3.x"), ("q0", "q1"))}
    less = of(one, "SEQ(A a, B b, E e) WHERE a.x = b.x")
    assert shown(less) == {("bitmark", ("A", "B"), ("q0", "q1"))}


def test_the_same_positives_with_other_negations_are_marked_bits() -> None:
    found = of("SEQ(A a, !C n, B b)", "SEQ(A a, !D n, B b)", "SEQ(A a, B b)")
    assert shown(found) == {("bitmark", ("A", "B"), ("q0", "q1", "q2"))}
    again = of("SEQ(A a, !C n, B b)", "SEQ(A a, !C m, B b)")
    assert shown(again) == {("prefix", ("A !C", "B"), ("q0", "q1"))}


def test_a_negation_that_reads_what_is_outside_is_left_to_the_query() -> None:
    tied = "SEQ(A a, !C n, B b, D d) WHERE n.x = d.x"
    found = of(tied, "SEQ(A a, !C n, B b, E e)")
    assert ("bitmark", ("A", "B"), ("q0", "q1")) in shown(found)
    assert not any("!C" in step for node in found.nodes for step in node.steps)


def test_negations_of_one_gap_have_no_order() -> None:
    found = of("SEQ(A a, !C n, !D m, B b)", "SEQ(A a, !D n, !C m, B b)")
    assert shown(found) == {("prefix", ("A !C !D", "B"), ("q0", "q1"))}


def test_types_with_strange_names_are_not_taken_for_patterns() -> None:
    rates = dict.fromkeys(("A", "B", "C", "A, !B"), 1.0)
    found = of('SEQ("A, !B" a, C c, C d)', "SEQ(A a, !B n, C c, C d)", rates=rates)
    assert shown(found) == {("suffix", ("C", "C"), ("q0", "q1"))}


# --- conflicts -----------------------------------------------------------------------------------


def test_stretches_that_cross_conflict_and_a_piece_of_another_does_not() -> None:
    found = of("SEQ(A a, B b, C c, D d)", "SEQ(A a, B b, C c, D e)")
    by_steps = {node.steps: i for i, node in enumerate(found.nodes)}
    pairs = set(conflicts(found, everywhere(found)))

    def cross(one: str, other: str) -> bool:
        i, j = sorted((by_steps[tuple(one)], by_steps[tuple(other)]))
        return (i, j) in pairs

    assert cross("AB", "BC")
    assert cross("ABC", "BCD")
    assert not cross("AB", "CD")
    assert not cross("AB", "ABC")
    assert not cross("BC", "ABCD")


def test_a_bare_piece_conflicts_with_one_that_has_its_negation() -> None:
    found = of("SEQ(A a, !C n, B b, D d)", "SEQ(A a, !E n, B b, D d)", "SEQ(A a, !C n, B b, E e)")
    by_steps = {node.steps: i for i, node in enumerate(found.nodes)}
    bare, full = by_steps["A", "B", "D"], by_steps["A !C", "B"]
    assert tuple(sorted((bare, full))) in conflicts(found, everywhere(found))
    elsewhere = NodePlacement(full, frozenset({At(2, 0)}))
    assert conflicts(found, [NodePlacement(bare, everywhere(found)[bare].places), elsewhere]) == []


# --- costs ---------------------------------------------------------------------------------------


@given(detection(most=5), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_readers_best_tree_is_the_cheapest_over_all_sets_of_given_pieces(
    workload: BoundWorkload, chance: random.Random
) -> None:
    """The table that answers for plain sequences agrees with the search, set by set."""
    found = problem(workload)
    statistics = known(workload)
    for root, reading in zip(found.roots, found.readings, strict=True):
        nodes = frozenset(chance.sample(sorted(root.nodes), min(3, len(root.nodes))))
        offered = [o for o in root.occurrences if o.node in nodes]
        costs = []
        for size in range(len(offered) + 1):
            for some in itertools.combinations(offered, size):
                bound = [alias for o in some for alias in o.piece.positive]
                if len(bound) == len(set(bound)):
                    given_ = [
                        GivenFragment(str(i), o.piece.positive, negations=not o.piece.bare)
                        for i, o in enumerate(some)
                    ]
                    tree = best_tree(reading.asked, statistics, given_, COMPILED)
                    costs.append(tree.per_second + sum(o.filtering for o in some))
        best = root.best(nodes)
        assert best.cost == pytest.approx(min(costs), rel=1e-9)
        filtering = sum(root.occurrences[i].filtering for i in best.taken)
        paid = root.tree(best.taken).per_second + filtering
        assert paid == pytest.approx(min(costs), rel=1e-9)


@given(detection(most=5, queries=3), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_no_tree_costs_less_than_the_floor_of_too_many(
    workload: BoundWorkload, chance: random.Random
) -> None:
    """Where sets of pieces are too many to compare, a table bounds what the best of them costs."""
    found = problem(workload)
    for root in found.roots:
        prices = {i: chance.choice((0.0, 1.0, 50.0)) for i in range(len(root.occurrences))}
        with pytest.MonkeyPatch.context() as few:
            few.setattr(readers, "MAX_TREE_OPTIONS", 10_000)
            best = root.least(prices).cost
            few.setattr(readers, "MAX_TREE_OPTIONS", 0)
            assert root.at_least(prices).cost <= best * (1 + 1e-9)
            assert root.least(prices).cost >= best * (1 - 1e-9)


@given(detection())
@settings(max_examples=40)
def test_equal_pieces_cost_the_same_in_every_query(workload: BoundWorkload) -> None:
    found, statistics = problem(workload), known(workload)
    for node in found.nodes:
        costs = {
            round(
                best_tree(
                    place.piece.asked(found.readings[place.reading].query),
                    statistics,
                    model=COMPILED,
                ).cost,
                6,
            )
            for place in node.places
            if place.piece.key == node.piece.key
        }
        assert len(costs) <= 1


# --- solvers -------------------------------------------------------------------------------------


def every_choice(found: NodeProblem) -> float:
    """The least cost over all sets of nodes, one by one."""
    nodes = range(len(found.nodes))
    return min(
        found.cost(made)
        for size in range(len(found.nodes) + 1)
        for made in itertools.combinations(nodes, size)
    )


@given(detection(most=4, queries=4))
@settings(max_examples=60)
def test_exact_solvers_agree_with_trying_every_choice(workload: BoundWorkload) -> None:
    found = problem(workload)
    assume(0 < len(found.nodes) <= FEW)
    least = every_choice(found)
    exhaustive = found.cost(best_plan(found, (), 100_000))
    joint = jointly(found, (), Options(effort=2.0))
    assert exhaustive == pytest.approx(least, rel=1e-9)
    assert found.cost(joint.made) == pytest.approx(least, rel=1e-9)
    assert joint.bound == pytest.approx(least, rel=1e-9)
    assert least_cost(found) <= least * (1 + 1e-9)


@given(detection(most=6, queries=4, ties=False, types=("A", "B")))
@settings(max_examples=15)
def test_joint_and_exhaustive_agree_on_more(workload: BoundWorkload) -> None:
    found = problem(workload)
    assume(0 < len(found.nodes) <= 20)
    try:
        exhaustive = found.cost(best_plan(found, (), 20_000))
    except BudgetError:
        return
    joint = jointly(found, (), Options(effort=2.0))
    assert joint.bound <= exhaustive * (1 + 1e-9)
    assert found.cost(joint.made) >= exhaustive * (1 - 1e-9)
    if joint.bound >= found.cost(joint.made) * (1 - 1e-9):
        assert found.cost(joint.made) == pytest.approx(exhaustive, rel=1e-9)


@given(detection(most=6, queries=6), st.integers(0, 9), st.sampled_from((0, 20, 2_000)))
@settings(max_examples=30)
def test_the_plan_finder_is_never_worse_than_its_start_and_the_same_for_a_seed(
    workload: BoundWorkload, seed: int, steps: int
) -> None:
    found = problem(workload)
    starts = [(), range(len(found.nodes)), range(0, len(found.nodes), 2)]
    made = find_plan(found, starts, steps, seed)
    assert made == find_plan(problem(workload), starts, steps, seed)
    assert found.used(made) == made
    assert found.cost(made) <= min(map(found.cost, starts)) * (1 + 1e-9)
    assert found.cost(made) >= least_cost(found) * (1 - 1e-9)


@given(detection(most=5, queries=5), st.sampled_from(("greedy", "cpsat")))
@settings(max_examples=40)
def test_a_choice_says_what_it_saves_and_what_could_be_saved(
    workload: BoundWorkload, solver: str
) -> None:
    (readings,) = readings_of(workload.queries).values()
    choice = choose(readings, known(workload), solver)
    assert choice.saved >= 0
    assert choice.most >= choice.saved
    assert choice.cost == pytest.approx(choice.problem.cost(choice.made))
    missing = choice.cost - choice.bound  # of what all cost one by one
    assert choice.proven == (missing <= 1e-9 * choice.problem.separate)
    assert not conflicts(choice.problem, choice.served)
    for served in choice.served:
        without = choice.made - {served.node}
        dearer = choice.problem.saved(choice.made, without, [served.node])[0] < 0
        assert len(served.places) > 1 or dearer


def test_exhaustive_refuses_what_takes_too_long() -> None:
    found = of("SEQ(A a, B b, C c, D d)", "SEQ(A a, B b, C c, D d, E e)", "SEQ(F a, B b, C c, D d)")
    with pytest.raises(BudgetError, match="use the solver cpsat or greedy"):
        best_plan(found, (), 1)


def test_a_node_that_makes_trees_dearer_is_not_made() -> None:
    """Joining the frequent two first costs more than either query does from its rare end."""
    rates = {"A": 1000.0, "B": 1000.0, "C": 0.1, "D": 0.1}
    found = of("SEQ(A a, B b, C c)", "SEQ(A a, B b, D d)", rates=rates)
    assert len(found.nodes) == 1
    assert benefit(found, everywhere(found)[0]) < 0
    assert best_plan(found, (), 1_000) == frozenset()


def test_readings_of_one_or_share_too() -> None:
    found = of("SEQ(A a, B b, OR(C c, D d))")
    assert shown(found) == {("prefix", ("A", "B"), ("q0",))}


def test_pieces_end_with_single_events() -> None:
    """A group is bounded by its neighbours, and so has both of them in its piece."""
    workload = load_bound(
        {
            "name": "groups",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": ["QUERY q PATTERN SEQ(A a, B b, C+ c, D d, E e) RETURN a WITHIN 9 ms"],
        }
    )
    (query,) = workload.queries
    spans = {(p.first, p.last) for p in fragments_of(query.pattern, query.conditions)}
    assert spans == {(0, 1), (3, 4), (1, 3), (0, 3), (1, 4), (0, 4)}
