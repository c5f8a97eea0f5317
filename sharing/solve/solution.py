"""What every solver takes and gives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sharing.apriori import Ints
from sharing.conflicts import ConflictGraph

# Sums of doubles in another order differ in their last digits.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Options:
    """How hard a solver may try; each reads what concerns it.

    `steps` limits the nodes of a search tree. `effort` limits CP-SAT in its deterministic time, of
    which a unit takes from some seconds to a minute or two, and with which a choice is the same on
    every machine; `seconds` limits it by the clock as well, where that matters more. `start` is a
    choice to begin from, such as that of an earlier plan: numbers of candidates, or of places where
    places are chosen.
    """

    steps: int = 200_000
    effort: float = 0.5
    seconds: float | None = None
    seed: int = 0
    start: tuple[int, ...] = ()


DEFAULT = Options()


@dataclass(frozen=True)
class Solution:
    """Candidates without conflicts, by number; no choice weighs more than `bound`.

    `proven` says that none weighs more than this one, `steps` how much was tried, in the solver's
    own measure.
    """

    solver: str
    chosen: tuple[int, ...]
    weight: float
    bound: float
    proven: bool
    steps: int

    @property
    def gap(self) -> float:
        """By what part of the bound the weight may fall short of the best."""
        return 0.0 if self.proven or not self.bound else 1.0 - self.weight / self.bound


class Solver(Protocol):
    """Chooses candidates without conflicts and of great weight, the same each time it is asked."""

    def __call__(self, graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
        """The choice, always independent; candidates that weigh nothing are never in it."""


def solution(
    solver: str, graph: ConflictGraph, chosen: Iterable[int], bound: float, steps: int
) -> Solution:
    """A solution of these candidates; proven where its weight reaches the bound."""
    listed = tuple(sorted(map(int, chosen)))
    weight = weight_of(graph, listed)
    proven = weight >= bound * (1 - _TOLERANCE)
    return Solution(solver, listed, weight, weight if proven else bound, proven, steps)


def weight_of(graph: ConflictGraph, chosen: Iterable[int]) -> float:
    """The sum of their weights."""
    return math.fsum(float(graph.weights[i]) for i in chosen)


def worthwhile(graph: ConflictGraph) -> Ints:
    """The candidates that weigh anything, heaviest first, equal ones by number."""
    order = np.argsort(-graph.weights, kind="stable")
    found: Ints = order[graph.weights[order] > 0]
    return found
