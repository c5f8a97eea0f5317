"""Choosing not candidates but the places that each serves: what goes in and what comes out.

In section 4.3.3 of Qi's thesis a candidate serves all queries that contain it or none. Any part of
them, of at least two queries, saves as well. Where a candidate is worth so much for each place,
less something once, as in equation 4.5 c, the best parts can be found without listing them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sharing.apriori import Ints
from sharing.benefit import Worth
from sharing.candidates import Candidates
from sharing.conflicts import cells_of_places
from sharing.solve.solution import DEFAULT, Options, Solution

_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Served:
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


class Server(Protocol):
    """Chooses places, the same each time it is asked.

    Each candidate that has any is worth something, and serves two queries or more.
    """

    def __call__(self, candidates: Candidates, worth: Worth, options: Options = DEFAULT) -> Served:
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
) -> Served:
    """A choice of places; proven where it reaches the bound."""
    weight = weight_of(candidates, worth, kept)
    proven = weight >= bound * (1 - _TOLERANCE)
    return Served(solver, kept, weight, weight if proven else bound, proven, steps)


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


def as_variants(candidates: Candidates, found: Served) -> Variants:
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
