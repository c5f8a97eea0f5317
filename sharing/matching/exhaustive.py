"""The best choice of nodes, by branch and bound, or none at all."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sharing.errors import BudgetError
from sharing.matching.bound import best_prices
from sharing.matching.nodes import MAX_TREE_OPTIONS, NodeProblem

CLOSE = 1 - 1e-12  # what is cheaper by less than rounding is not cheaper


def best_plan(problem: NodeProblem, start: Collection[int], steps: int) -> frozenset[int]:
    """The cheapest set of nodes there is; raises BudgetError where so many steps do not suffice.

    A step is the best tree of one reader. Nodes that no reader has in common are decided each by
    itself.
    """
    search = _Search(problem, steps)
    found: set[int] = set()
    for readers, nodes in _components(problem):
        found |= search.best(readers, nodes, frozenset(start) & frozenset(nodes))
    return problem.used(found)


@dataclass
class _Search:
    problem: NodeProblem
    steps: int

    def __post_init__(self) -> None:
        if not all(reader.exact for reader in self.problem.readers):
            raise self._refused(f"more than {MAX_TREE_OPTIONS} trees of one query")
        self._prices = best_prices(self.problem).prices
        self._left = self.steps
        self._made: frozenset[int] = frozenset()
        self._cost = math.inf

    def _refused(self, takes: str) -> BudgetError:
        return BudgetError(
            f"deciding exactly about {len(self.problem.nodes)} pieces that queries construct "
            f"takes {takes}; use the solver cpsat or greedy"
        )

    def best(self, readers: list[int], nodes: list[int], start: frozenset[int]) -> frozenset[int]:
        """The best of one component, its readings by number."""
        # Those that most readers have decide the most.
        nodes = sorted(nodes, key=lambda i: (-len(self.problem.reading[i]), i))
        self._made, self._cost = start, self._total(readers, start, frozenset())
        empty = frozenset[int]()
        if (cost := self._total(readers, empty, empty)) < self._cost:
            self._made, self._cost = empty, cost
        self._branch(readers, nodes, empty)
        return self._made

    def _branch(self, readers: list[int], nodes: list[int], made: frozenset[int]) -> None:
        """Decide about the first of these nodes, where what is decided leaves a chance."""
        open_ = frozenset(nodes)
        if self._total(readers, made, open_) >= self._cost * CLOSE:
            return
        if not nodes:
            self._made, self._cost = made, self._total(readers, made, open_)
            return
        self._branch(readers, nodes[1:], made | {nodes[0]})
        self._branch(readers, nodes[1:], made)

    def _total(self, readers: list[int], made: frozenset[int], open_: frozenset[int]) -> float:
        """What it costs at the least if the open nodes may be had at their prices.

        The price of an open node has a part for what it reads: where that is made, it is paid.
        """
        own = len(self.problem.roots)
        numbers = [*readers, *(own + node for node in sorted(made))]
        paid = sum(
            self._prices[own + node][i]
            for node in sorted(open_)
            for i, inner in enumerate(self.problem.nodes[node].reader.occurrences)
            if inner.node in made
        )
        return sum(self._least(number, made, open_) for number in numbers) - paid

    def _least(self, number: int, made: frozenset[int], open_: frozenset[int]) -> float:
        self._left -= 1
        if self._left < 0:
            raise self._refused(f"more than {self.steps:,} steps")
        reader, prices = self.problem.readers[number], self._prices[number]
        offered = {
            i: 0.0 if occurrence.node in made else prices[i]
            for i, occurrence in enumerate(reader.occurrences)
            if occurrence.node in made or occurrence.node in open_
        }
        return reader.least(offered).cost


def _components(problem: NodeProblem) -> Iterator[tuple[list[int], list[int]]]:
    """Readings and nodes that have something to do with each other, directly or through others."""
    left = set(range(len(problem.nodes)))
    own = len(problem.roots)
    while left:
        nodes, roots = set[int](), set[int]()
        found = {min(left)}
        while found:
            node = found.pop()
            nodes.add(node)
            for reader in (*problem.reading[node], own + node):
                if reader < own:
                    roots.add(reader)
                else:
                    found.add(reader - own)
                found |= problem.readers[reader].nodes
            found -= nodes
        left -= nodes
        yield sorted(roots), sorted(nodes)
