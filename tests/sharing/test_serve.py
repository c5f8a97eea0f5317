"""Choosing places, against a plain search of all sets of places."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.benefit import Worth
from sharing.benefit.aseq import AseqModel
from sharing.candidates import Candidate, Candidates, mine
from sharing.conflicts import conflict_graph
from sharing.serve import SERVERS, Served, as_variants
from sharing.serve.bound import upper_bound
from sharing.solve import SOLVERS, Options
from sharing.steps import QuerySteps
from tests.sharing.chains import queries, random_queries, workloads

RATES = {"A": 1.0, "B": 2.5, "C": 0.3}
PLACES = 13  # no more, for the plain search


def worth_of(candidates: Candidates, gains: list[int], costs: list[int]) -> Worth:
    """Any worth; numbers are taken round."""
    n = len(candidates)
    return Worth(np.resize(gains, n).astype(np.float64), np.resize(costs, n).astype(np.float64))


WORTHS = st.tuples(
    st.lists(st.integers(-2, 9), min_size=1, max_size=7),
    st.lists(st.integers(0, 12), min_size=1, max_size=5),
)


def value(candidates: Candidates, worth: Worth, kept: np.ndarray) -> float | None:
    """What places are worth, or None where they overlap or serve one query alone."""
    taken: set[tuple[int, int]] = set()
    total = 0.0
    for i in range(len(candidates)):
        mine_ = [p for p in range(candidates.first[i], candidates.first[i + 1]) if kept[p]]
        if not mine_:
            continue
        if len({candidates.query[p] for p in mine_}) < 2:
            return None
        total += worth.gain[i] * len(mine_) - worth.once[i]
        for p in mine_:
            for step in range(candidates.length[i]):
                cell = (int(candidates.query[p]), int(candidates.position[p]) + step)
                if cell in taken:
                    return None
                taken.add(cell)
    return total


def best(candidates: Candidates, worth: Worth) -> float:
    sets = product([False, True], repeat=len(candidates.query))
    values = (value(candidates, worth, np.array(kept, np.bool_)) for kept in sets)
    return max(v for v in values if v is not None)


def few_places(of: list[QuerySteps]) -> bool:
    return len(mine(of).query) <= PLACES


SMALL = workloads(most_queries=4, most_steps=5).filter(few_places)


@settings(max_examples=40)
@given(SMALL, WORTHS)
def test_cpsat_finds_the_best_places_and_greedy_no_better_ones(
    of: list[QuerySteps], numbers: tuple[list[int], list[int]]
) -> None:
    found = mine(of)
    worth = worth_of(found, *numbers)
    exact = best(found, worth)
    for name, serve in SERVERS.items():
        served = serve(found, worth)
        assert value(found, worth, served.kept) == pytest.approx(served.weight)
        assert served.weight <= exact + 1e-9
        assert exact <= served.bound * (1 + 1e-9)
        assert served.proven == (served.weight == served.bound)
        if name == "cpsat":
            assert served.proven
            assert served.weight == pytest.approx(exact)
    assert exact <= upper_bound(found, worth) * (1 + 1e-9)


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


@pytest.mark.parametrize("name", SERVERS)
def test_a_choice_of_places_is_the_same_each_time(name: str) -> None:
    found = mine(random_queries(60, types=8))
    worth = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(8)}).worth(found)
    one, other = (SERVERS[name](found, worth, Options(effort=0.05)) for _ in range(2))
    assert (one.kept == other.kept).all()
    assert (one.weight, one.bound, one.steps) == (other.weight, other.bound, other.steps)


def test_cpsat_without_time_gives_the_greedy_choice_and_a_gap() -> None:
    found = mine(random_queries(300, types=8))
    worth = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(8)}).worth(found)
    served: Served = SERVERS["cpsat"](found, worth, Options(effort=1e-6))
    assert served.weight >= SERVERS["greedy"](found, worth).weight > 0
    assert not served.proven
    assert served.weight < served.bound
