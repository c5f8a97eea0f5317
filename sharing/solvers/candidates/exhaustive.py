"""The best choice, by branch and bound, or none at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sharing.errors import BudgetError
from sharing.solvers.candidates.greedy import heaviest_first
from sharing.solvers.candidates.solution import (
    DEFAULT,
    ConflictGraph,
    Options,
    Solution,
    solution,
    weight_of,
    worthwhile,
)


def exhaustive(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """The heaviest choice there is. Steps are nodes of the search tree.

    Parts of the graph without conflicts between them are solved each by itself. Raises BudgetError
    where `options.steps` do not suffice.
    """
    ids = worthwhile(graph)
    part = graph.only(ids)
    number = {int(i): n for n, i in enumerate(ids)}
    known = [number[i] for i in options.start if i in number]
    search = _Search(part, options.steps)
    chosen: list[int] = []
    for component in search.components():
        inside = set(component)
        start = [i for i in known if i in inside]
        chosen += search.best(component, start if part.independent(start) else [])
    listed = [int(ids[i]) for i in chosen]
    return solution("exhaustive", graph, listed, weight_of(graph, listed), search.steps)


class _Search:
    """A graph whose nodes are numbered from heavy to light; sets of them are bits of integers."""

    def __init__(self, graph: ConflictGraph, budget: int) -> None:
        self._graph, self._budget = graph, budget
        self._weights = graph.weights.tolist()
        self._near = [sum(1 << j for j in graph.neighbours(i).tolist()) for i in range(len(graph))]
        self.steps = 0
        self._best: list[int] = []
        self._weight = 0.0

    def components(self) -> Iterator[list[int]]:
        """The nodes of each connected part, parts by their heaviest node."""
        left = (1 << len(self._near)) - 1
        while left:
            part = found = left & -left
            while found:
                reached = 0
                for i in _bits(found):
                    reached |= self._near[i]
                found = reached & ~part
                part |= found
            left &= ~part
            yield list(_bits(part))

    def best(self, nodes: list[int], start: list[int]) -> list[int]:
        """The heaviest independent set of these nodes."""
        simple = [nodes[i] for i in heaviest_first(self._graph.only(np.array(nodes)))]
        self._best = max(simple, start, key=lambda chosen: weight_of(self._graph, chosen))
        self._weight = weight_of(self._graph, self._best)
        self._branch(sum(1 << i for i in nodes), [], 0.0)
        return self._best

    def _branch(self, left: int, chosen: list[int], weight: float) -> None:
        self.steps += 1
        if self.steps > self._budget:
            raise BudgetError(
                f"the exhaustive search among {len(self._near):,} candidates is not done after "
                f"{self._budget:,} steps; take the solver cpsat or greedy"
            )
        if weight > self._weight:
            self._best, self._weight = list(chosen), weight
        order, bounds = self._covered(left)
        for i, bound in zip(reversed(order), reversed(bounds), strict=True):
            if weight + bound <= self._weight:
                return  # neither i nor any node before it leads further
            left &= ~(1 << i)
            chosen.append(i)
            self._branch(left & ~self._near[i], chosen, weight + self._weights[i])
            chosen.pop()

    def _covered(self, left: int) -> tuple[list[int], list[float]]:
        """The nodes, clique by clique, and for each the most that it and those before it can give.

        Of a clique one node at most is chosen, and its first is its heaviest. A node that comes
        later is worth less than that first one, so the bound need not grow by it.
        """
        order: list[int] = []
        bounds: list[float] = []
        total = 0.0
        while left:
            common = left
            first = True
            while common:
                lowest = common & -common
                i = lowest.bit_length() - 1
                if first:
                    total += self._weights[i]
                    first = False
                order.append(i)
                bounds.append(total)
                left &= ~lowest
                common &= self._near[i]
        return order, bounds


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask &= ~lowest
