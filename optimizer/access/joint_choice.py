"""Which probes of indexes are made for a whole workload: the problem, and three ways to solve it.

A query goes by some of the probes of its symbols, or by none, and then needs some row groups, and
some rows of them. A probe is paid once, whoever goes by it, and a row group once, whoever needs it:
so a probe that helps one query alone is worth nothing where another one reads all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.bool_]

MOST_EXCHANGED = 16  # probes of which pairs are exchanged
STARTS = 3  # from which probes are exchanged
MOST_EXHAUSTIVE = 14  # probes of which all sets are tried
SCALE = 2.0**40  # the largest cost that CP-SAT gets, as a whole number
CPSAT_SECONDS = 1.0
NEGLIGIBLE_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class ProbeOption:
    """Outside of which row groups a query needs nothing, where it goes by some probes.

    Of these it needs so many `rows` at most.
    """

    probes: frozenset[int]
    units: Mask
    rows: float = float("inf")


@dataclass(frozen=True, eq=False)
class ProbeProblem:
    """Costs in nanoseconds: of each probe, of each row group that is read, and of all its rows.

    Where queries need fewer rows together, only these are paid, `row` each. The first option of
    each query is that without probes.
    """

    prices: Sequence[float]
    weights: npt.NDArray[np.float64]
    always: Mask  # row groups that are read whatever is chosen
    queries: Sequence[Sequence[ProbeOption]]
    rows: npt.NDArray[np.float64]
    row: float = 0.0
    _found: dict[tuple[int, frozenset[int]], ProbeOption] = field(default_factory=dict)

    def only(self, places: Collection[int]) -> ProbeProblem:
        """The same for some of the queries; without any nothing is read."""
        queries = [options for place, options in enumerate(self.queries) if place in places]
        always = self.always if queries else np.zeros_like(self.always)
        return ProbeProblem(self.prices, self.weights, always, queries, self.rows, self.row)

    @cached_property
    def small(self) -> ProbeProblem:
        """The same with one row group for all that the same options need."""
        every = [option.units for options in self.queries for option in options]
        table = np.packbits(np.array([self.always, *every]), axis=0)
        _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
        place, number = which.reshape(-1), len(first)
        weights = np.bincount(place, self.weights, number).astype(np.float64)
        rows = np.bincount(place, self.rows, number).astype(np.float64)
        queries = [
            [replace(option, units=option.units[first]) for option in options]
            for options in self.queries
        ]
        return ProbeProblem(self.prices, weights, self.always[first], queries, rows, self.row)

    def cost(self, made: frozenset[int]) -> float:
        """What a set of probes costs with the row groups that are left to be read."""
        left = [self._left(place, made) for place in range(len(self.queries))]
        return sum(self.prices[p] for p in made) + self._reading(left)

    def _reading(self, left: Sequence[ProbeOption]) -> float:
        read = np.logical_or.reduce([self.always, *(each.units for each in left)])
        rows = min(sum(each.rows for each in left), float(self.rows[read].sum()))
        return float(self.weights[read].sum()) + self.row * rows

    def _left(self, place: int, made: frozenset[int]) -> ProbeOption:
        """What a query needs where these probes are made."""
        asked = (place, made & self.own[place])
        if asked not in self._found:
            own = [option for option in self.queries[place] if option.probes <= made]
            units = np.logical_and.reduce([option.units for option in own])
            self._found[asked] = ProbeOption(asked[1], units, min(option.rows for option in own))
        return self._found[asked]

    @cached_property
    def own(self) -> list[frozenset[int]]:
        """The probes of each query."""
        return [frozenset().union(*(o.probes for o in options)) for options in self.queries]

    @cached_property
    def floor(self) -> float:
        """Below this no choice gets: what is left to be read if probes cost nothing.

        Any probe costs something, so that it is that much more, or what it is without any.
        """
        every = frozenset(range(len(self.prices)))
        left = [self._left(place, every) for place in range(len(self.queries))]
        least = min(self.prices, default=0.0) + self._reading(left)
        return min(least, self.cost(frozenset()))


@dataclass(frozen=True)
class ProbeSet:
    """Probes that are made; no set costs less than `bound`."""

    made: frozenset[int]
    cost: float
    bound: float

    @property
    def proven(self) -> bool:
        """Does no set cost less?"""
        return self.cost - self.bound <= NEGLIGIBLE_SHARE * max(self.cost, 1.0)


def greedy(problem: ProbeProblem) -> ProbeSet:
    """Begins with none, all, and what single queries can go by, and exchanges from the best."""
    small = problem.small
    every = frozenset(range(len(problem.prices)))
    single = (option.probes for options in small.queries for option in options)
    starts = sorted({frozenset[int](), every, *single}, key=lambda made: _rank(small, made))
    best = min(
        (_improved(small, start) for start in starts[:STARTS]), key=lambda made: _rank(small, made)
    )
    return ProbeSet(best, small.cost(best), small.floor)


def _improved(problem: ProbeProblem, made: frozenset[int]) -> frozenset[int]:
    """A set that no probe more or fewer makes cheaper, nor of a few another one instead."""
    every = frozenset(range(len(problem.prices)))
    cost = problem.cost(made)
    going = True
    while going:
        going = False
        near = [frozenset({p}) for p in sorted(every)]
        if len(every) <= MOST_EXCHANGED:
            near += [frozenset({p, q}) for p in sorted(made) for q in sorted(every - made)]
        for change in near:
            other = made ^ change
            less = problem.cost(other)
            if less < cost:
                made, cost, going = other, less, True
    return made


def _rank(problem: ProbeProblem, made: frozenset[int]) -> tuple[float, list[int]]:
    return problem.cost(made), sorted(made)


def exhaustive(problem: ProbeProblem) -> ProbeSet:
    """All sets, where they are few enough; else as `greedy` does."""
    small, number = problem.small, len(problem.prices)
    if number > MOST_EXHAUSTIVE:
        return greedy(problem)
    every = [frozenset(s) for size in range(number + 1) for s in combinations(range(number), size)]
    best = min(every, key=lambda made: _rank(small, made))
    cost = small.cost(best)
    return ProbeSet(best, cost, cost)


def cpsat(problem: ProbeProblem) -> ProbeSet:
    """By CP-SAT, from what `greedy` finds; with a proof where it ends in time."""
    from ortools.sat.python import cp_model

    start, small = greedy(problem), problem.small
    if start.proven:
        return start
    total = float(small.weights.sum()) + small.row * float(small.rows.sum()) + sum(small.prices)
    total = max(total, 1.0)
    scale = SCALE / total
    model = cp_model.CpModel()
    made = [model.new_bool_var("") for _ in small.prices]
    read = [model.new_bool_var("") for _ in small.weights]
    for probe, variable in enumerate(made):
        model.add_hint(variable, probe in start.made)
    for unit in np.flatnonzero(small.always).tolist():
        model.add(read[unit] == 1)
    most = int(small.row * float(small.rows.sum()) * scale)
    gone_on, few = [], model.new_bool_var("")  # with rows, by query; with fewer than all?
    for options in small.queries:
        taken = [model.new_bool_var("") for _ in options]
        least = [model.new_bool_var("") for _ in options]  # by which the fewest rows are left
        model.add_exactly_one(least)
        for variable, other, option in zip(least, taken, options, strict=True):
            model.add_implication(variable, other)
            rows = min(option.rows, float(small.rows.sum()))
            gone_on.append(int(rows * small.row * scale) * variable)
        for variable, option in zip(taken, options, strict=True):
            for probe in option.probes:
                model.add_implication(variable, made[probe])
        left_out = np.array([~option.units for option in options])
        for unit, variable in enumerate(read):
            without = [t for t, out in zip(taken, left_out[:, unit], strict=True) if out]
            if not left_out[0, unit]:  # of the option without probes
                model.add_bool_or([variable, *without])
    # Rounded down, so that a bound on the rounded costs is one on the costs.
    terms = [int(price * scale) * v for price, v in zip(small.prices, made, strict=True)]
    terms += [int(w * scale) * v for w, v in zip(small.weights.tolist(), read, strict=True)]
    run = model.new_int_var(0, most, "")
    model.add(run >= sum(gone_on)).only_enforce_if(few)
    own = [int(r * small.row * scale) * v for r, v in zip(small.rows.tolist(), read, strict=True)]
    model.add(run >= sum(own)).only_enforce_if(~few)
    model.minimize(sum(terms) + run)
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = 0
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = CPSAT_SECONDS
    status = solver.solve(model)
    bound = max(start.bound, solver.best_objective_bound / scale)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    found = frozenset(p for p, variable in enumerate(made) if solver.boolean_value(variable))
    best = min(found, start.made, key=lambda some: _rank(small, some))
    cost = small.cost(best)
    if status == cp_model.OPTIMAL:
        return ProbeSet(best, cost, cost)  # up to the rounding
    return ProbeSet(best, cost, min(bound, cost))


SOLVERS: dict[str, Callable[[ProbeProblem], ProbeSet]] = {
    "greedy": greedy,
    "cpsat": cpsat,
    "exhaustive": exhaustive,
}
