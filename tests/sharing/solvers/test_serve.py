"""Choosing places, against a plain search of all sets of places."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.counting.benefit import Worth
from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.candidates import Candidate, Candidates, QuerySteps, mine
from sharing.errors import BudgetError
from sharing.solvers.candidates import SOLVERS, Options
from sharing.solvers.candidates.solution import conflict_graph
from sharing.solvers.placements import SERVERS, Placement, as_variants
from sharing.solvers.placements.greedy import Measure, in_all, per_step, serve_by
from sharing.solvers.placements.placement import upper_bound
from tests.sharing.chains import crowded_workloads, queries, random_queries, workloads

RATES = {"A": 1.0, "B": 2.5, "C": 0.3}
PLACES = 16  # no more, for the plain search


def worth_of(candidates: Candidates, gains: list[int], costs: list[int]) -> Worth:
    """Any worth; numbers are taken round."""
    n = len(candidates)
    return Worth(np.resize(gains, n).astype(np.float64), np.resize(costs, n).astype(np.float64))


WORTHS = st.tuples(
    st.lists(st.integers(-2, 9), min_size=1, max_size=7),
    st.lists(st.integers(0, 12), min_size=1, max_size=5),
)


def cells_of(candidates: Candidates, place: int) -> set[tuple[int, int]]:
    """The steps that a place takes."""
    i = int(candidates.holder[place])
    query, position = int(candidates.query[place]), int(candidates.position[place])
    return {(query, position + step) for step in range(int(candidates.length[i]))}


def value(candidates: Candidates, worth: Worth, kept: Collection[int]) -> float | None:
    """What places are worth, or None where they overlap or serve one query alone."""
    cells = [cell for place in kept for cell in cells_of(candidates, place)]
    if len(set(cells)) < len(cells):
        return None
    total = 0.0
    holder = candidates.holder
    for i in {int(holder[place]) for place in kept}:
        own = [place for place in kept if holder[place] == i]
        if len({int(candidates.query[place]) for place in own}) < 2:
            return None
        total += worth.gain[i] * len(own) - worth.once[i]
    return total


def best(candidates: Candidates, worth: Worth) -> float:
    """The most that any places are worth, by trying all sets of places that do not overlap."""
    cells = [cells_of(candidates, place) for place in range(len(candidates.query))]

    def search(place: int, kept: tuple[int, ...], taken: set[tuple[int, int]]) -> float:
        if place == len(cells):
            worthwhile = value(candidates, worth, kept)
            return -math.inf if worthwhile is None else worthwhile
        without = search(place + 1, kept, taken)
        if taken & cells[place]:
            return without
        return max(without, search(place + 1, (*kept, place), taken | cells[place]))

    return search(0, (), set())


def few_places(of: list[QuerySteps]) -> bool:
    return 0 < len(mine(of).query) <= PLACES


SMALL = (workloads(most_queries=4, most_steps=5) | crowded_workloads()).filter(few_places)


@settings(max_examples=80)
@given(SMALL, WORTHS)
def test_exact_solvers_find_the_best_places_and_greedy_no_better_ones(
    of: list[QuerySteps], numbers: tuple[list[int], list[int]]
) -> None:
    found = mine(of)
    worth = worth_of(found, *numbers)
    exact = best(found, worth)
    for name, serve in SERVERS.items():
        served = serve(found, worth)
        assert value(found, worth, np.flatnonzero(served.kept)) == pytest.approx(served.weight)
        assert served.weight <= exact + 1e-9
        assert exact <= served.bound * (1 + 1e-9)
        assert served.proven == (served.weight == served.bound)
        if name != "greedy":
            assert served.proven
            assert served.weight == pytest.approx(exact)
    assert exact <= upper_bound(found, worth) * (1 + 1e-9)


def greedy_anew(measure: Measure, candidates: Candidates, worth: Worth) -> list[int]:
    """The greedy choice of places with all candidates looked at for every choice."""
    kept: list[int] = []
    taken: set[tuple[int, int]] = set()
    while True:
        rated = []
        for i in range(len(candidates)):
            places = range(int(candidates.first[i]), int(candidates.first[i + 1]))
            free = [p for p in places if not taken & cells_of(candidates, p)]
            saved = value(candidates, worth, free)
            if free and saved is not None and saved > 0:
                rated.append((measure(saved, len(free) * int(candidates.length[i])), -i, free))
        if not rated:
            return sorted(kept)
        free = max(rated)[2]
        kept += free
        for place in free:
            taken |= cells_of(candidates, place)


@given(workloads() | crowded_workloads(6, 8, "ABC"), WORTHS)
def test_greedy_takes_what_saves_most_at_the_free_places(
    of: list[QuerySteps], numbers: tuple[list[int], list[int]]
) -> None:
    found = mine(of)
    worth = worth_of(found, *numbers)
    for measure in (in_all, per_step):
        kept, _ = serve_by(measure, found, worth)
        assert np.flatnonzero(kept).tolist() == greedy_anew(measure, found, worth)


def test_what_has_lost_places_is_rated_anew() -> None:
    """Z A comes first and takes an A B, so that B C, which is in another's way, is worth more."""
    found = mine(queries("Z A B", "A B C", "A B", "Z A", "B C"))
    gains = {"Z A": 50.0, "A B": 5.0, "B C": 6.0}
    worth = Worth(
        np.array([gains[" ".join(map(str, c.steps))] for c in found]), np.zeros(len(found))
    )
    kept, _ = serve_by(in_all, found, worth)
    assert value(found, worth, np.flatnonzero(kept)) == 2 * 50 + 2 * 6


def test_a_start_that_is_not_possible_does_no_harm() -> None:
    """All places of A B, B C and A B C overlap."""
    found = mine(queries("A B C", "A B C"))
    worth = Worth(np.ones(3), np.zeros(3))
    served = SERVERS["cpsat"](found, worth, Options(start=(0, 1, 2, 3, 4, 5), effort=1e-6))
    assert value(found, worth, np.flatnonzero(served.kept)) == served.weight == 2


@pytest.mark.parametrize("name", SERVERS)
def test_what_is_left_of_one_query_alone_is_not_shared(name: str) -> None:
    """A B is twice in q1, but in q2 what is heavier takes it."""
    found = mine(queries("A B A B", "A B C D E", "B C D E"))
    gains = np.where(found.length == 4, 10.0, np.where(found.length == 2, 1.0, -1.0))
    served = SERVERS[name](found, Worth(gains, np.zeros(len(found))))
    chosen = {" ".join(map(str, found[int(i)].steps)) for i in found.holder[served.kept]}
    assert chosen == {"B C D E"}
    assert served.weight == 20


@given(workloads(), WORTHS)
def test_a_choice_of_places_is_one_of_candidates_without_conflicts(
    of: list[QuerySteps], numbers: tuple[list[int], list[int]]
) -> None:
    found = mine(of)
    worth = worth_of(found, *numbers)
    served = SERVERS["greedy"](found, worth)
    every, solution = as_variants(found, served)
    weights = worth.gain[every.base] * every.places - worth.once[every.base]
    graph = conflict_graph(every, weights)
    assert graph.independent(solution.chosen)
    assert all(weights[i] > 0 for i in solution.chosen)
    assert sum(weights[i] for i in solution.chosen) == pytest.approx(solution.weight)
    assert len({every.base[i] for i in solution.chosen}) == len(solution.chosen)
    chosen: list[Candidate] = [every[i] for i in solution.chosen]
    assert sum(len(c.places) for c in chosen) == served.kept.sum()
    assert all(len(c.queries) > 1 for c in chosen)


@given(workloads())
def test_the_thesis_model_is_linear_in_places(of: list[QuerySteps]) -> None:
    found = mine(of)
    model = AseqModel(RATES)
    worth = model.worth(found)
    assert worth.gain * found.places - worth.once == pytest.approx(model.benefits(found))
    assert (worth.once >= 0).all()


@given(workloads(), WORTHS)
def test_serving_some_places_is_never_worth_less_than_all_or_none(
    of: list[QuerySteps], numbers: tuple[list[int], list[int]]
) -> None:
    found = mine(of)
    worth = worth_of(found, *numbers)
    whole = conflict_graph(found, worth.gain * found.places - worth.once)
    assert SERVERS["cpsat"](found, worth).weight >= SOLVERS["cpsat"](whole).weight - 1e-6


def test_a_candidate_serves_what_a_heavier_one_leaves() -> None:
    """Both B C D, in q1 and q2, and A B, in q3 and q4, pay; A B cannot serve q1 as well."""
    of = queries("A B C D", "B C D", "A B", "A B X")
    found = mine(of)
    worth = Worth((found.length**2).astype(np.float64), np.ones(len(found)))
    every, solution = as_variants(found, SERVERS["cpsat"](found, worth))
    shown = {(" ".join(map(str, every[i].steps)), every[i].queries) for i in solution.chosen}
    assert shown == {("B C D", ("q1", "q2")), ("A B", ("q3", "q4"))}
    assert solution.weight == (2 * 9 - 1) + (2 * 4 - 1)


@pytest.mark.parametrize("name", SERVERS)
def test_nothing_to_serve_is_nothing_served(name: str) -> None:
    empty = mine([])
    served = SERVERS[name](empty, Worth(np.zeros(0), np.zeros(0)))
    assert (served.weight, served.bound, served.proven) == (0.0, 0.0, True)
    found = mine(queries("A B", "A B"))
    for worth in (Worth(np.array([-1.0]), np.array([0.0])), Worth(np.ones(1), np.array([2.0]))):
        served = SERVERS[name](found, worth)
        assert not served.kept.any()
        assert served.proven


@settings(max_examples=25)
@given(st.integers(0, 999), st.integers(4, 14))
def test_exact_solvers_agree_where_all_sets_are_too_many(seed: int, number: int) -> None:
    found = mine(random_queries(number, types=10, seed=seed))
    rates = np.random.default_rng(seed).lognormal(0, 1, 10).tolist()
    worth = AseqModel({f"T{i}": rate for i, rate in enumerate(rates)}).worth(found)
    weight = SERVERS["exhaustive"](found, worth).weight
    assert SERVERS["cpsat"](found, worth).weight == pytest.approx(weight, rel=1e-9)
    assert SERVERS["greedy"](found, worth).weight <= weight * (1 + 1e-9)


def test_what_saves_nothing_but_rounding_is_not_served() -> None:
    """Equation 4.4 gives 0 for A B: k (l + f) = N0 f k + f l, by 4.5 c it is 2e-15."""
    found = mine(queries("A B", "C A B"))
    model = AseqModel({"A": 1.0, "B": 3.0, "C": 1.0})
    for name, serve in SERVERS.items():
        for window in (1.0, 2.0, 3.0):
            rates = {t: rate * window for t, rate in model.rates.items()}
            worth = AseqModel(rates).worth(found)
            served = serve(found, worth)
            assert served.weight == 0.0 or served.weight > 1e-9, name


def test_exhaustive_refuses_what_takes_too_long() -> None:
    found = mine(random_queries(300, types=8))
    worth = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(8)}).worth(found)
    with pytest.raises(BudgetError, match="after 5,000 steps; take the solver cpsat or greedy"):
        SERVERS["exhaustive"](found, worth, Options(steps=5_000))


@pytest.mark.parametrize("name", SERVERS)
def test_a_choice_of_places_is_the_same_each_time(name: str) -> None:
    found = mine(random_queries(20 if name == "exhaustive" else 60, types=8))
    worth = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(8)}).worth(found)
    one, other = (SERVERS[name](found, worth, Options(effort=0.05)) for _ in range(2))
    assert (one.kept == other.kept).all()
    assert (one.weight, one.bound, one.steps) == (other.weight, other.bound, other.steps)


def test_cpsat_without_time_gives_the_greedy_choice_and_a_gap() -> None:
    found = mine(random_queries(300, types=8))
    worth = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(8)}).worth(found)
    served: Placement = SERVERS["cpsat"](found, worth, Options(effort=1e-6))
    assert served.weight >= SERVERS["greedy"](found, worth).weight > 0
    assert not served.proven
    assert served.weight < served.bound
