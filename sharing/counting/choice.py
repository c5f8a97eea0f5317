"""From queries to what they share: candidates, variants of them for some queries, and the choice
among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal as OneOf

import numpy as np
from numpy.typing import NDArray

from sharing.counting.benefit import BenefitModel, Floats, LinearModel
from sharing.counting.candidates import (
    SUBSTRINGS,
    Candidate,
    CandidateKind,
    CandidatePosition,
    Candidates,
    Ints,
    QuerySteps,
    Step,
    mine,
    pointers,
)
from sharing.counting.grouping import SegmentsByQuery, chop
from sharing.solvers.candidates import DEFAULT, SOLVERS, Options, Solution
from sharing.solvers.candidates.greedy import by_share, heaviest_first
from sharing.solvers.candidates.solution import ConflictGraph, cells_of_places, conflict_graph
from sharing.solvers.placements import SERVERS, as_variants

ROUNDS = 2


def with_variants(candidates: Candidates, model: BenefitModel, rounds: int = ROUNDS) -> Candidates:
    """The candidates, which are no variants, and after them variants that are worth something.

    There are at most `1 + 2 * rounds` for each candidate.
    """

    def added(every: Candidates, kept: NDArray[np.bool_]) -> Candidates:
        variants = candidates.restricted(kept)
        return every.followed_by(variants.only(np.flatnonzero(model.benefits(variants) > 0)))

    every = added(candidates, _lightest(candidates, model.benefits(candidates)))
    for _ in range(rounds):
        before = len(every)
        graph = conflict_graph(every, model.benefits(every))
        for chosen in (heaviest_first(graph), by_share(graph)):
            known = every.only(np.array(chosen, np.int64))
            every = added(every, _free(candidates, known))
        if len(every) == before:
            break
    return every


def _lightest(candidates: Candidates, weights: Floats) -> NDArray[np.bool_]:
    """The places where no heavier candidate takes any of the steps."""
    cells, holder = cells_of_places(candidates)
    heaviest = np.zeros(int(candidates.start[-1]))
    np.maximum.at(heaviest, cells, weights[holder])
    return _all_of_place(candidates, heaviest[cells] <= weights[holder])


def _free(candidates: Candidates, chosen: Candidates) -> NDArray[np.bool_]:
    """The places whose every step is taken by none of the chosen, or by a variant of its own."""
    taken_by = np.full(int(candidates.start[-1]), -1)
    cells, holder = cells_of_places(chosen)
    taken_by[cells] = chosen.base[holder]
    cells, holder = cells_of_places(candidates)
    by = taken_by[cells]
    return _all_of_place(candidates, (by < 0) | (by == candidates.base[holder]))


def _all_of_place(candidates: Candidates, holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each place whether something holds for all its cells."""
    lengths: Ints = np.repeat(candidates.length, candidates.places)
    found: NDArray[np.bool_] = np.logical_and.reduceat(holds, pointers(lengths)[:-1])
    return found


Why = OneOf["chosen", "chosen in part", "does not pay", "conflict", "left out"]


@dataclass(frozen=True)
class Reason:
    """Why a candidate is shared or not; `other` is the chosen one that it is in conflict with."""

    why: Why
    other: int | None = None


@dataclass(frozen=True, eq=False)
class CandidateChoice:
    """Candidates, the variants that were considered after them, and which are chosen."""

    candidates: Candidates
    weights: Floats
    solution: Solution

    @cached_property
    def graph(self) -> ConflictGraph:
        """The conflicts among all of them."""
        return conflict_graph(self.candidates, self.weights)

    @cached_property
    def chopped(self) -> SegmentsByQuery:
        """How the choice chops each query."""
        return chop(self.candidates, self.solution.chosen)

    def reason(self, i: int) -> Reason:
        """Why candidate i is chosen or not; of several conflicts the heaviest one is named."""
        if i in self._chosen:
            return Reason("chosen")
        if self.candidates.base[i] in self._chosen_bases:
            return Reason("chosen in part")
        if self.weights[i] <= 0:
            return Reason("does not pay")
        cells = self.graph.cells_of(i)  # those of steps, and after them that of its variants
        taken = self._taken_by[cells[cells < len(self._taken_by)]]
        others = np.unique(taken[taken >= 0])
        if not len(others):
            return Reason("left out")
        return Reason("conflict", int(others[np.argmax(self.weights[others])]))

    @cached_property
    def _chosen(self) -> frozenset[int]:
        return frozenset(self.solution.chosen)

    @cached_property
    def _chosen_bases(self) -> frozenset[int]:
        return frozenset(self.candidates.base[list(self.solution.chosen)].tolist())

    @cached_property
    def _taken_by(self) -> Ints:
        """The chosen candidate that takes each step of each query, or -1."""
        taken = np.full(int(self.candidates.start[-1]), -1)
        chosen = np.array(self.solution.chosen, np.int64)
        cells, holder = cells_of_places(self.candidates.only(chosen))
        taken[cells] = chosen[holder]
        return taken


def choose(
    queries: Iterable[QuerySteps],
    model: BenefitModel,
    solver: str = "greedy",
    options: Options = DEFAULT,
    kinds: Collection[CandidateKind] = SUBSTRINGS,
    whole: bool = False,
    earlier: Iterable[Candidate] = (),
) -> CandidateChoice:
    """What the queries share, by a solver of `SOLVERS`.

    A candidate may serve only some of the queries that contain it. With `whole` it serves all or
    none, as in the thesis. A bound, and what is proven, is about all choices of places where the
    model is linear; otherwise about the variants considered.
    Exact solvers begin from what an `earlier` choice shared, as far as that is still there.
    """
    return choose_among(mine(queries, kinds), model, solver, options, whole, earlier)


def choose_among(
    candidates: Candidates,
    model: BenefitModel,
    solver: str = "greedy",
    options: Options = DEFAULT,
    whole: bool = False,
    earlier: Iterable[Candidate] = (),
) -> CandidateChoice:
    """What queries share, of candidates that were mined; otherwise as `choose`."""
    known = _known_places(candidates, earlier)
    if not whole and solver in SERVERS and isinstance(model, LinearModel):
        options = replace(options, start=tuple(np.flatnonzero(known).tolist()))
        found = SERVERS[solver](candidates, model.worth(candidates), options)
        every, solution = as_variants(candidates, found)
        return CandidateChoice(every, model.benefits(every), solution)
    every = candidates
    if not whole:
        every = with_variants(candidates, model).followed_by(candidates.restricted(known))
    start = _numbers(every, candidates.restricted(known, proper=False))
    weights = model.benefits(every)
    graph = conflict_graph(every, weights)
    return CandidateChoice(every, weights, SOLVERS[solver](graph, replace(options, start=start)))


def _numbers(every: Candidates, some: Candidates) -> tuple[int, ...]:
    """Which ones of these candidates are those, as far as they are among them."""
    numbers = {every.content(i): i for i in range(len(every))} if len(some) else {}
    wanted = map(some.content, range(len(some)))
    return tuple(numbers[content] for content in wanted if content in numbers)


def _known_places(candidates: Candidates, earlier: Iterable[Candidate]) -> NDArray[np.bool_]:
    """The places that an earlier choice served with the same steps."""
    served: dict[tuple[Step, ...], set[CandidatePosition]] = {}
    for old in earlier:
        served.setdefault(old.steps, set()).update(old.places)
    known = np.zeros(len(candidates.query), np.bool_)
    for i, candidate in enumerate(candidates if served else ()):
        places = served.get(candidate.steps, set())
        known[candidates.first[i] : candidates.first[i + 1]] = [
            p in places for p in candidate.places
        ]
    return known
