"""Candidates that serve only some of the queries that contain them.

Any subset of a candidate's places is a candidate too; there are far too many. Variants are made
where they can pay, at most a few for each candidate:

- without the places where a heavier candidate is in conflict: what stays if those are all chosen;
- in each of some rounds, with the places that the greedy choices so far leave free: what a
  candidate that was not chosen can still serve, and where one that was chosen can serve more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharing.apriori import Ints, pointers
from sharing.benefit import BenefitModel, Floats
from sharing.candidates import Candidates
from sharing.conflicts import cells_of_places, conflict_graph
from sharing.solve.greedy import by_share, heaviest_first

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
