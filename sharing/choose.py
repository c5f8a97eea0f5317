"""From queries to what they share: candidates, what they are worth, and the choice among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal as OneOf

import numpy as np
from numpy.typing import NDArray

from sharing.apriori import Ints
from sharing.benefit import BenefitModel, Floats, LinearModel
from sharing.candidates import SUBSTRINGS, Candidate, Candidates, Kind, Place, mine
from sharing.conflicts import ConflictGraph, cells_of_places, conflict_graph
from sharing.grouping import Chopped, chop
from sharing.serve import SERVERS, as_variants
from sharing.solve import DEFAULT, SOLVERS, Options, Solution
from sharing.steps import QuerySteps, Step
from sharing.variants import with_variants

Why = OneOf["chosen", "chosen in part", "does not pay", "conflict", "left out"]


@dataclass(frozen=True)
class Reason:
    """Why a candidate is shared or not; `other` is the chosen one that it is in conflict with."""

    why: Why
    other: int | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """Candidates, the variants that were considered after them, and which are chosen."""

    candidates: Candidates
    weights: Floats
    solution: Solution

    @cached_property
    def graph(self) -> ConflictGraph:
        """The conflicts among all of them."""
        return conflict_graph(self.candidates, self.weights)

    @cached_property
    def chopped(self) -> Chopped:
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
    kinds: Collection[Kind] = SUBSTRINGS,
    whole: bool = False,
    earlier: Iterable[Candidate] = (),
) -> Choice:
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
) -> Choice:
    """What queries share, of candidates that were mined; otherwise as `choose`."""
    known = _known_places(candidates, earlier)
    if not whole and solver in SERVERS and isinstance(model, LinearModel):
        options = replace(options, start=tuple(np.flatnonzero(known).tolist()))
        found = SERVERS[solver](candidates, model.worth(candidates), options)
        every, solution = as_variants(candidates, found)
        return Choice(every, model.benefits(every), solution)
    every = candidates
    if not whole:
        every = with_variants(candidates, model).followed_by(candidates.restricted(known))
    start = _numbers(every, candidates.restricted(known, proper=False))
    weights = model.benefits(every)
    graph = conflict_graph(every, weights)
    return Choice(every, weights, SOLVERS[solver](graph, replace(options, start=start)))


def _numbers(every: Candidates, some: Candidates) -> tuple[int, ...]:
    """Which ones of these candidates are those, as far as they are among them."""
    numbers = {every.content(i): i for i in range(len(every))} if len(some) else {}
    wanted = map(some.content, range(len(some)))
    return tuple(numbers[content] for content in wanted if content in numbers)


def _known_places(candidates: Candidates, earlier: Iterable[Candidate]) -> NDArray[np.bool_]:
    """The places that an earlier choice served with the same steps."""
    served: dict[tuple[Step, ...], set[Place]] = {}
    for old in earlier:
        served.setdefault(old.steps, set()).update(old.places)
    known = np.zeros(len(candidates.query), np.bool_)
    for i, candidate in enumerate(candidates if served else ()):
        places = served.get(candidate.steps, set())
        known[candidates.first[i] : candidates.first[i + 1]] = [
            p in places for p in candidate.places
        ]
    return known
