"""A choice of the positions that each candidate serves: its worth, and a bound on any choice's
worth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sharing.counting.benefit import Worth
from sharing.counting.candidates import Candidates, Ints
from sharing.solvers.candidates.solution import DEFAULT, Options, Solution, cells_of_places

_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Placement:
    """The places that are served, no two of which overlap.

    No choice of places is worth more than `bound`. `proven` says that none is worth more than this
    one, `steps` how much was tried.
    """

    solver: str
    kept: NDArray[np.bool_]
    weight: float
    bound: float
    proven: bool
    steps: int


class PlacementSolver(Protocol):
    """Chooses places, the same each time it is asked.

    Each candidate that has any is worth something, and serves two queries or more.
    """

    def __call__(
        self, candidates: Candidates, worth: Worth, options: Options = DEFAULT
    ) -> Placement:
        """The choice for candidates that are no variants."""


class Variants(NamedTuple):
    """The candidates and then the variants that a choice made of them, and which are chosen."""

    candidates: Candidates
    solution: Solution


def served(
    solver: str,
    candidates: Candidates,
    worth: Worth,
    kept: NDArray[np.bool_],
    bound: float,
    steps: int,
) -> Placement:
    """A choice of places; proven where it reaches the bound."""
    weight = weight_of(candidates, worth, kept)
    proven = weight >= bound * (1 - _TOLERANCE)
    return Placement(solver, kept, weight, weight if proven else bound, proven, steps)


def weight_of(candidates: Candidates, worth: Worth, kept: NDArray[np.bool_]) -> float:
    """What serving these places is worth."""
    number = np.bincount(candidates.holder[kept], minlength=len(candidates))
    chosen = np.flatnonzero(number)
    return math.fsum((number[chosen] * worth.gain[chosen] - worth.once[chosen]).tolist())


def worthwhile(candidates: Candidates, worth: Worth) -> Ints:
    """The candidates that can be worth anything: those that are, by more than rounding, at all
    their places. A place more is worth its gain, so the others serve none in the best choice."""
    most = worth.gain * candidates.places - worth.once
    found: Ints = np.flatnonzero(most > _TOLERANCE * worth.once)
    return found


def possible(candidates: Candidates, kept: NDArray[np.bool_]) -> bool:
    """Whether these places do not overlap, and each candidate that has any serves two queries."""
    parts = candidates.restricted(kept, proper=False)
    cells, _ = cells_of_places(parts)
    return len(parts.query) == kept.sum() and len(np.unique(cells)) == len(cells)


def as_variants(candidates: Candidates, found: Placement) -> Variants:
    """The same choice in terms of candidates and variants of them."""
    number = np.bincount(candidates.holder[found.kept], minlength=len(candidates))
    whole = np.flatnonzero((number == candidates.places) & (number > 0))
    every = candidates.followed_by(candidates.restricted(found.kept))
    chosen = (*whole.tolist(), *range(len(candidates), len(every)))
    solution = Solution(found.solver, chosen, found.weight, found.bound, found.proven, found.steps)
    return Variants(every, solution)


def begins(candidates: Candidates) -> Ints:
    """The first cell of each place, where cells are the steps of all queries in order."""
    found: Ints = candidates.start[candidates.query] + candidates.position
    return found


def upper_bound(candidates: Candidates, worth: Worth) -> float:
    """The best choice of places in each query by itself, with what is paid once shared out.

    A place is worth no more than if all the candidate's places were served: its gain less an equal
    part of what is paid once. In one query, places are intervals, and the best that do not overlap
    follow from those that end earlier.
    """
    most = worth.gain - worth.once / np.maximum(candidates.places, 1)
    holder = candidates.holder
    pays = np.flatnonzero(most[holder] > 0)
    starts = begins(candidates)[pays]
    ends = (starts + candidates.length[holder[pays]]).tolist()
    ending: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for start, end, value in zip(starts.tolist(), ends, most[holder[pays]].tolist(), strict=True):
        ending[end].append((start, value))
    best = [0.0] * (int(candidates.start[-1]) + 1)  # up to each cell, of all queries in a row
    for end in range(1, len(best)):
        values = [best[start] + value for start, value in ending.get(end, ())]
        best[end] = max(best[end - 1], *values) if values else best[end - 1]
    return best[-1]
