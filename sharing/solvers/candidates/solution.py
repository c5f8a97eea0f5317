"""The conflict graph of candidates, and a choice without conflicts: its weight, a bound, and
whether it is proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sharing.counting.benefit import Floats
from sharing.counting.candidates import Candidates, Ints, pointers, ranges

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class ConflictGraph:
    """Weighted candidates 0 to n - 1; the cells of i are `cells[first[i] : first[i + 1]]`."""

    weights: Floats
    first: Ints
    cells: Ints
    number_of_cells: int

    @staticmethod
    def of(weights: Iterable[float], taken: Sequence[Iterable[int]]) -> ConflictGraph:
        """The graph of candidates that each take some cells."""
        several = [sorted(set(cells)) for cells in taken]
        cells = np.array([cell for cells in several for cell in cells], np.int64)
        first = pointers(np.array([len(cells) for cells in several], np.int64))
        number = int(cells.max()) + 1 if len(cells) else 0
        return ConflictGraph(np.array(list(weights), np.float64), first, cells, number)

    @staticmethod
    def of_edges(weights: Iterable[float], edges: Iterable[tuple[int, int]]) -> ConflictGraph:
        """Any weighted graph: each edge is a cell that both its ends take."""
        listed = list(weights)
        taken: list[list[int]] = [[] for _ in listed]
        for cell, (one, other) in enumerate(edges):
            taken[one].append(cell)
            taken[other].append(cell)
        return ConflictGraph.of(listed, taken)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def sizes(self) -> Ints:
        """How many cells each candidate takes."""
        return np.diff(self.first)

    @property
    def holder(self) -> Ints:
        """The candidate of each entry of `cells`."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def cells_of(self, i: int) -> Ints:
        """The cells that candidate i takes."""
        return self.cells[self.first[i] : self.first[i + 1]]

    @cached_property
    def _members(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.cells, kind="stable")
        sizes = np.bincount(self.cells, minlength=self.number_of_cells)
        return pointers(sizes), self.holder[order]

    def members(self, cell: int) -> Ints:
        """The candidates that take a cell, in order."""
        first, members = self._members
        return members[first[cell] : first[cell + 1]]

    def neighbours(self, i: int) -> Ints:
        """The candidates in conflict with candidate i, in order."""
        first, members = self._members
        cells = self.cells_of(i)
        found = np.unique(members[ranges(first[cells], first[cells + 1] - first[cells])])
        others: Ints = found[found != i]
        return others

    def independent(self, chosen: Iterable[int]) -> bool:
        """Whether no two of these are in conflict."""
        cells = np.concatenate([np.zeros(0, np.int64), *map(self.cells_of, chosen)])
        return len(np.unique(cells)) == len(cells)

    def cliques(self) -> list[tuple[int, ...]]:
        """Sets of which at most one candidate can be chosen; together they hold all conflicts."""
        first, members = self._members
        several = np.flatnonzero(np.diff(first) > 1)
        listed = members.tolist()
        bounds = zip(first[several].tolist(), first[several + 1].tolist(), strict=True)
        return list(dict.fromkeys(tuple(listed[begin:end]) for begin, end in bounds))

    def only(self, ids: Ints) -> ConflictGraph:
        """The graph of these candidates, numbered anew in this order."""
        sizes = self.sizes[ids]
        cells = self.cells[ranges(self.first[ids], sizes)]
        return ConflictGraph(self.weights[ids], pointers(sizes), cells, self.number_of_cells)

    def as_networkx(self) -> nx.Graph[int]:
        """The same as a graph of edges, with `weight` at its nodes; for no more than thousands."""
        import networkx as nx

        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from((i, {"weight": w}) for i, w in enumerate(self.weights.tolist()))
        for clique in self.cliques():
            graph.add_edges_from(
                (one, other) for n, one in enumerate(clique) for other in clique[n + 1 :]
            )
        return graph


def conflict_graph(candidates: Candidates, weights: Floats) -> ConflictGraph:
    """The conflicts among candidates; of one candidate's variants at most one can be chosen."""
    cells, holder = cells_of_places(candidates)
    has_variants = np.flatnonzero(np.bincount(candidates.base, minlength=1) > 1)
    related = np.flatnonzero(np.isin(candidates.base, has_variants))
    steps = int(candidates.start[-1])
    cells = np.concatenate([cells, steps + candidates.base[related]])
    holder = np.concatenate([holder, related])
    order = np.lexsort((cells, holder))
    sizes = np.bincount(holder, minlength=len(candidates))
    return ConflictGraph(weights, pointers(sizes), cells[order], steps + len(candidates))


def cells_of_places(candidates: Candidates) -> tuple[Ints, Ints]:
    """The cells of every place behind one another, and the candidate of each."""
    lengths = np.repeat(candidates.length, candidates.places)
    begin = candidates.start[candidates.query] + candidates.position
    return ranges(begin, lengths), np.repeat(candidates.holder, lengths)


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


def upper_bound(graph: ConflictGraph) -> float:
    """A price for each cell such that every candidate's cells cost at least its weight: their sum.

    A choice takes each cell once at most, so it cannot weigh more than all cells cost. This is the
    dual of the linear relaxation. Each cell begins with the highest weight per cell among its
    candidates; then cells, dearest first, are made as cheap as the candidates allow.
    """
    positive = graph.weights > 0
    free = float(graph.weights[positive & (graph.sizes == 0)].sum())
    graph = graph.only(np.flatnonzero(positive & (graph.sizes > 0)))
    if not len(graph):
        return free
    price = np.zeros(graph.number_of_cells)
    np.maximum.at(price, graph.cells, np.repeat(graph.weights / graph.sizes, graph.sizes))
    slack = np.add.reduceat(price[graph.cells], graph.first[:-1]) - graph.weights
    for cell in np.argsort(-price, kind="stable"):
        if price[cell] <= 0:
            break
        members = graph.members(cell)
        less = min(slack[members].min(), price[cell])
        if less > 0:
            price[cell] -= less
            slack[members] -= less
    return free + float(price.sum())
