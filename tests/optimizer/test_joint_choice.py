"""Probes for a workload: no solver misses the best by more than it says."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.access.joint_choice import (
    ProbeOption,
    ProbeProblem,
    cpsat,
    exhaustive,
    greedy,
)

UNITS = 6


@st.composite
def problems(draw: st.DrawFn) -> ProbeProblem:
    """Where more probes leave less to be read."""
    number = draw(st.integers(0, 4))
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    queries = []
    for _ in range(draw(st.integers(1, 3))):
        own = [p for p in range(number) if random.random() < 0.6]
        left = {p: random.random(UNITS) < 0.5 for p in own}
        whole = random.random(UNITS) < 0.9
        rows = {p: float(random.integers(0, 40)) for p in own}
        queries.append(
            [
                ProbeOption(
                    frozenset(some),
                    np.logical_and.reduce([whole, *(left[p] for p in some)]),
                    min([60.0, *(rows[p] for p in some)]),
                )
                for size in range(len(own) + 1)
                for some in combinations(own, size)
            ]
        )
    return ProbeProblem(
        random.integers(1, 20, number).astype(float).tolist(),
        random.integers(1, 20, UNITS).astype(float),
        random.random(UNITS) < 0.1,
        queries,
        random.integers(1, 20, UNITS).astype(float),
        draw(st.sampled_from([0.0, 1.0, 3.0])),
    )


def cheapest(problem: ProbeProblem) -> float:
    """By definition: each set of probes, and each way for every query to go by it."""
    found = []
    number = len(problem.prices)
    for made in (set(s) for size in range(number + 1) for s in combinations(range(number), size)):
        read, rows = problem.always.copy(), 0.0
        for options in problem.queries:
            read |= np.logical_and.reduce([o.units for o in options if o.probes <= made])
            rows += min(o.rows for o in options if o.probes <= made)
        rows = min(rows, problem.rows[read].sum())
        cost = problem.weights[read].sum() + problem.row * rows
        found.append(sum(problem.prices[p] for p in made) + cost)
    return float(min(found))


@given(problems())
@settings(max_examples=60)
def test_all_sets_and_cpsat_find_the_best(problem: ProbeProblem) -> None:
    best = cheapest(problem)
    for solver in (exhaustive, cpsat):
        found = solver(problem)
        assert abs(found.cost - best) < 1e-6
        assert found.cost == problem.small.cost(found.made)
        assert found.bound <= best + 1e-6


@given(problems())
@settings(max_examples=60)
def test_exchanges_say_how_far_from_the_best_they_can_be(problem: ProbeProblem) -> None:
    found, best = greedy(problem), cheapest(problem)
    assert found.bound - 1e-6 <= best <= found.cost + 1e-6
    if found.proven:
        assert abs(found.cost - best) < 1e-6


def test_a_probe_is_not_made_where_another_query_reads_all() -> None:
    all_, one = np.ones(UNITS, bool), np.arange(UNITS) == 2
    selective = [ProbeOption(frozenset(), all_), ProbeOption(frozenset({0}), one)]
    weights, none = np.full(UNITS, 100.0), np.zeros(UNITS, bool)
    alone = ProbeProblem([5.0], weights, none, [selective], weights)
    assert greedy(alone).made == {0}
    both = [selective, [ProbeOption(frozenset(), all_)]]
    beside = ProbeProblem([5.0], weights, none, both, weights)
    for solver in (greedy, exhaustive, cpsat):
        found = solver(beside)
        assert found.made == frozenset()
        assert found.proven


def test_probes_are_found_that_only_help_together() -> None:
    """None of them alone, and one of all too many costs."""
    all_, none = np.ones(UNITS, bool), np.zeros(UNITS, bool)
    options = [ProbeOption(frozenset(range(size)), all_) for size in range(3)]
    options += [ProbeOption(frozenset(range(3)), none), ProbeOption(frozenset(range(8)), none)]
    weights = np.full(UNITS, 10.0)
    found = greedy(ProbeProblem([5.0] * 8, weights, none, [options], weights))
    assert found.made == {0, 1, 2}


def test_rows_that_are_left_out_are_not_paid() -> None:
    """Where each row group is read all the same."""
    all_, none = np.ones(UNITS, bool), np.zeros(UNITS, bool)
    options = [ProbeOption(frozenset(), all_, 60.0), ProbeOption(frozenset({0}), all_, 2.0)]
    weights = np.full(UNITS, 10.0)
    for solver in (greedy, exhaustive, cpsat):
        found = solver(ProbeProblem([5.0], weights, none, [options], weights, 1.0))
        assert found.made == {0}
        assert found.cost == 5 + 60 + 2
