"""Solvers against a plain search of all subsets, and what each promises."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.candidates import mine
from sharing.errors import BudgetError
from sharing.solvers.candidates import SOLVERS, Options, Solution
from sharing.solvers.candidates.solution import ConflictGraph, conflict_graph, upper_bound
from tests.sharing.chains import queries, random_queries

EXACT = ("exhaustive", "cpsat")
GREEDY = ("greedy", "thesis", "gwmin", "gwmin2")


@st.composite
def graphs(draw: st.DrawFn, most: int = 10, whole: bool = True) -> ConflictGraph:
    """Weighted graphs; some weights are below zero, and many are equal."""
    n = draw(st.integers(0, most))
    weight = st.integers(-3, 12).map(float) if whole else st.floats(-1, 1e6, width=32)
    weights = draw(st.lists(weight, min_size=n, max_size=n))
    pairs = list(combinations(range(n), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return ConflictGraph.of_edges(weights, edges)


@st.composite
def packings(draw: st.DrawFn, most: int = 20) -> ConflictGraph:
    """Candidates that take a few of a few cells, as those of queries do."""
    n = draw(st.integers(0, most))
    cells = st.sets(st.integers(0, 15), max_size=4)
    taken = draw(st.lists(cells, min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(-3, 100).map(float), min_size=n, max_size=n))
    return ConflictGraph.of(weights, taken)


def best(graph: ConflictGraph) -> float:
    """The weight of the heaviest independent set, by trying all."""
    near = graph.as_networkx().adj
    heaviest = 0.0
    independent: list[tuple[frozenset[int], float]] = [(frozenset(), 0.0)]
    for i, weight in enumerate(graph.weights.tolist()):
        independent += [(s | {i}, w + weight) for s, w in independent if not s & near[i].keys()]
    return max(heaviest, *(w for _, w in independent))


def check(graph: ConflictGraph, found: Solution) -> None:
    """What holds for every solver."""
    assert graph.independent(found.chosen)
    assert list(found.chosen) == sorted(set(found.chosen))
    assert all(graph.weights[i] > 0 for i in found.chosen)
    assert found.weight == pytest.approx(sum(graph.weights[i] for i in found.chosen))
    assert found.weight <= found.bound
    assert found.proven == (found.gap == 0)


@pytest.mark.parametrize("name", SOLVERS)
@settings(max_examples=60)
@given(graph=graphs())
def test_a_choice_is_independent_and_its_bound_holds(name: str, graph: ConflictGraph) -> None:
    found = SOLVERS[name](graph)
    check(graph, found)
    exact = best(graph)
    assert found.weight <= exact <= found.bound * (1 + 1e-9)
    assert not found.proven or found.weight == exact


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=60)
@given(graph=graphs(whole=False))
def test_exact_solvers_find_the_best(name: str, graph: ConflictGraph) -> None:
    found = SOLVERS[name](graph)
    check(graph, found)
    assert found.proven
    assert found.weight == pytest.approx(best(graph), rel=1e-9)


@given(packings())
def test_cpsat_and_exhaustive_agree_up_to_twenty_candidates(graph: ConflictGraph) -> None:
    one, other = (SOLVERS[name](graph) for name in EXACT)
    assert one.proven
    assert other.proven
    assert one.weight == other.weight == one.bound == other.bound


@given(packings())
def test_no_greedy_choice_is_above_the_best(graph: ConflictGraph) -> None:
    exact = SOLVERS["exhaustive"](graph).weight
    for name in GREEDY:
        found = SOLVERS[name](graph)
        check(graph, found)
        assert found.weight <= exact <= found.bound * (1 + 1e-9)


@given(packings())
def test_gwmin_and_gwmin2_keep_their_promise(graph: ConflictGraph) -> None:
    """Sakai, Togasaki and Yamazaki 2003, theorems on both; of candidates that weigh anything."""
    graph = graph.only(np.flatnonzero(graph.weights > 0))
    w = graph.weights
    near = [graph.neighbours(i) for i in range(len(graph))]
    by_degree = sum(w[i] / (len(near[i]) + 1) for i in range(len(graph)))
    by_weight = sum(w[i] ** 2 / (w[i] + w[near[i]].sum()) for i in range(len(graph)))
    assert SOLVERS["gwmin"](graph).weight >= by_degree * (1 - 1e-9)
    assert SOLVERS["gwmin2"](graph).weight >= by_weight * (1 - 1e-9)


@given(packings())
def test_the_thesis_greedy_is_figure_4_6(graph: ConflictGraph) -> None:
    near = graph.as_networkx().adj
    check_list = sorted(i for i in range(len(graph)) if graph.weights[i] > 0)
    check_list.sort(key=lambda i: -graph.weights[i])
    final_set: list[int] = []
    for x in check_list:
        if not any(s in near[x] for s in final_set):
            final_set.append(x)
    assert SOLVERS["thesis"](graph).chosen == tuple(sorted(final_set))


@given(packings())
def test_no_exchange_makes_greedy_better(graph: ConflictGraph) -> None:
    """Neither one candidate for all chosen ones in its way, nor two for a chosen one."""
    found = SOLVERS["greedy"](graph)
    assert found.weight >= SOLVERS["thesis"](graph).weight
    near, inside = graph.as_networkx().adj, set(found.chosen)
    weight = graph.weights
    for i in set(range(len(graph))) - inside:
        out = inside & near[i].keys()
        assert weight[i] <= sum(weight[j] for j in out) * (1 + 1e-9)
    for j in inside:
        alone = [i for i in near[j] if weight[i] > 0 and inside & near[i].keys() == {j}]
        heaviest = max(alone, key=lambda i: weight[i], default=None)
        for i in alone:
            if heaviest is not None and i != heaviest and i not in near[heaviest]:
                assert weight[heaviest] + weight[i] <= weight[j] * (1 + 1e-9)


def reference_by_ratio(graph: ConflictGraph, by_weight: bool) -> tuple[int, ...]:
    """GWMIN and GWMIN2 as their paper states them: all ratios anew for every choice."""
    left = {i for i in range(len(graph)) if graph.weights[i] > 0}
    near = graph.as_networkx().adj
    chosen = []
    while left:
        ratios = {}
        for i in left:
            closed = {i} | (left & near[i].keys())
            ratios[i] = graph.weights[i] / sum(graph.weights[j] if by_weight else 1 for j in closed)
        i = max(sorted(left), key=lambda i: ratios[i])
        chosen.append(i)
        left -= {i} | near[i].keys()
    return tuple(sorted(chosen))


@given(packings())
def test_gwmin_and_gwmin2_choose_as_their_paper_says(graph: ConflictGraph) -> None:
    assert SOLVERS["gwmin"](graph).chosen == reference_by_ratio(graph, by_weight=False)
    assert SOLVERS["gwmin2"](graph).chosen == reference_by_ratio(graph, by_weight=True)


def test_the_heaviest_first_can_be_wrong() -> None:
    """A path of three with the heaviest in the middle, and what each solver makes of it."""
    graph = ConflictGraph.of_edges([3.0, 4.0, 3.0], [(0, 1), (1, 2)])
    chosen = {name: solve(graph).chosen for name, solve in SOLVERS.items()}
    assert chosen == {
        "greedy": (0, 2),
        "thesis": (1,),
        "gwmin": (0, 2),
        "gwmin2": (0, 2),
        "cpsat": (0, 2),
        "exhaustive": (0, 2),
    }


@pytest.mark.parametrize("name", EXACT)
def test_parts_of_one_count(name: str) -> None:
    graph = ConflictGraph.of_edges([0.6, 1.0, 0.6], [(0, 1), (1, 2)])
    assert SOLVERS[name](graph).chosen == (0, 2)


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_worth_choosing_is_nothing_chosen(name: str) -> None:
    for graph in (ConflictGraph.of([], []), ConflictGraph.of([-1.0, 0.0], [[0], [1]])):
        found = SOLVERS[name](graph)
        assert (found.chosen, found.weight, found.bound, found.proven) == ((), 0.0, 0.0, True)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_gives_the_same_each_time(name: str) -> None:
    of = random_queries(30, types=6, length=5)
    found = mine(of)
    rng = np.random.default_rng(0)
    graph = conflict_graph(found, rng.integers(1, 100, len(found)).astype(np.float64))
    options = Options(steps=2_000_000, effort=0.5)
    assert SOLVERS[name](graph, options) == SOLVERS[name](graph, options)


def test_exhaustive_refuses_beyond_its_steps() -> None:
    found = mine(random_queries(200, types=8, length=6))
    graph = conflict_graph(found, np.arange(1.0, len(found) + 1))
    with pytest.raises(BudgetError, match=r"not done after 100 steps; take .*cpsat"):
        SOLVERS["exhaustive"](graph, Options(steps=100))


def test_exhaustive_solves_parts_without_conflicts_between_them_apart() -> None:
    """Thirty triangles: together they would have 4 to the thirtieth choices."""
    edges = [(3 * t + a, 3 * t + b) for t in range(30) for a, b in ((0, 1), (1, 2), (0, 2))]
    found = SOLVERS["exhaustive"](ConflictGraph.of_edges([1.0, 2.0, 3.0] * 30, edges))
    assert found.weight == 90
    assert found.steps < 200


def test_cpsat_reports_a_gap_where_its_budget_ends() -> None:
    found = mine(random_queries(300, types=8, length=6))
    graph = conflict_graph(found, np.sqrt(np.arange(1.0, len(found) + 1)))
    solved = SOLVERS["cpsat"](graph, Options(effort=1e-6))
    check(graph, solved)
    assert not solved.proven
    assert 0 < solved.gap < 1


@pytest.mark.parametrize("name", EXACT)
@given(graph=graphs(), start=st.sets(st.integers(0, 12)).map(tuple))
@settings(max_examples=30)
def test_where_it_starts_does_not_change_what_is_best(
    name: str, graph: ConflictGraph, start: tuple[int, ...]
) -> None:
    assert SOLVERS[name](graph, Options(start=start)).weight == best(graph)


def test_cpsat_never_ends_with_less_than_it_began_with() -> None:
    found = mine(random_queries(300, types=8, length=6))
    graph = conflict_graph(found, np.sqrt(np.arange(1.0, len(found) + 1)))
    good = SOLVERS["cpsat"](graph, Options(effort=0.2))
    again = SOLVERS["cpsat"](graph, Options(effort=1e-6, start=good.chosen))
    assert good.weight > SOLVERS["gwmin2"](graph).weight
    assert again.weight >= good.weight


@given(packings(most=10))
def test_no_choice_exceeds_the_price_of_all_cells(graph: ConflictGraph) -> None:
    assert best(graph) <= upper_bound(graph) * (1 + 1e-9)
    assert upper_bound(graph) <= graph.weights[graph.weights > 0].sum() * (1 + 1e-9) + 1e-9


def test_the_bound_is_met_where_there_are_no_conflicts() -> None:
    graph = ConflictGraph.of([1.0, 2.0, 3.0], [[0, 1], [], [2]])
    assert SOLVERS["greedy"](graph).proven


def test_a_shared_substring_is_chosen_where_it_pays() -> None:
    of = queries("A B C D", "X A B C Y", "A B Z")
    found = mine(of)
    rates = dict.fromkeys("BCDXYZ", 50.0) | {"A": 1.0}
    weights = AseqModel(rates).benefits(found)
    solved = SOLVERS["exhaustive"](conflict_graph(found, weights))
    assert [" ".join(map(str, found[i].steps)) for i in solved.chosen] == ["A B C"]
