"""Which candidates cannot be chosen together.

A query's step can be served by one candidate only. So the conflict graph of section 4.3.3 of Qi's
thesis is kept as what it comes from: a *cell* for each step of each query, and for each candidate
the cells that it takes. Candidates conflict where they take a cell in common, which is exactly
where their places in a query that both serve overlap. The candidates of one cell are a clique, so
cells are also a clique cover of the edges. Millions of conflicts need no memory this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sharing.apriori import Ints, pointers
from sharing.benefit import Floats
from sharing.candidates import Candidates, ranges

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
