"""What has a tree, and what its trees cost over nodes that are made elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from optimizer.cost.trees import COMPILED
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees import Costed, Given, TreeError, best_tree
from optimizer.trees.pieces import Piece
from optimizer.trees.stretches import Stretches, stretches_of

MOST_WAYS = 256  # sets of nodes that are compared where no table does it


class Occurrence(NamedTuple):
    """Where a node stands in a reader."""

    node: int
    piece: Piece


class Way(NamedTuple):
    """A tree's cost without that of the nodes it reads, and which occurrences those are."""

    cost: float
    taken: tuple[int, ...]


class Reader:
    """A pattern with its occurrences of nodes, which are numbered in order.

    Costs are events touched in one window. `exact` turns false where there were too many sets of
    nodes to compare all.
    """

    def __init__(
        self, asked: Query, occurrences: Sequence[Occurrence], statistics: Statistics
    ) -> None:
        self.asked, self.occurrences = asked, tuple(occurrences)
        self.nodes = frozenset(occurrence.node for occurrence in occurrences)
        self.exact = True
        self._statistics = statistics
        self._costs: dict[tuple[int, ...], float] = {}
        self._best: dict[frozenset[int], Way] = {}
        self._table: Stretches | None = None
        if occurrences:
            self._table = stretches_of(asked, statistics, COMPILED)
        self._stretch = [(o.piece.first, o.piece.last) for o in occurrences]
        self._at = {stretch: i for i, stretch in enumerate(self._stretch)}
        self.alone = self.best(frozenset()).cost

    def best(self, made: frozenset[int]) -> Way:
        """The cheapest tree where some nodes are made already."""
        made &= self.nodes
        found = self._best.get(made)
        if found is None:
            free = {i: 0.0 for i, o in enumerate(self.occurrences) if o.node in made}
            found = self._best[made] = self.least(free)
        return found

    def least(self, prices: Mapping[int, float]) -> Way:
        """The cheapest tree, with what it pays, where each occurrence with a price may be had."""
        if self._table is not None:
            found = self._table.cheapest({self._stretch[i]: price for i, price in prices.items()})
            return Way(found.cost, tuple(sorted(self._at[stretch] for stretch in found.taken)))
        best = Way(math.inf, ())
        for tried, taken in enumerate(self._sets(prices)):
            if tried == MOST_WAYS:
                self.exact = False
                break
            cost = self._cost(taken) + sum(prices[i] for i in taken)
            if cost < best.cost:
                best = Way(cost, taken)
        return best

    def ways(self, limit: int) -> list[Way] | None:
        """All sets of nodes that a tree can read and that save something; None for more."""
        found: list[Way] = []
        for tried, taken in enumerate(self._sets(range(len(self.occurrences)))):
            if tried == limit:
                return None
            if (cost := self._cost(taken)) < math.inf:
                found.append(Way(cost, taken))
        cheapest = sorted(found, key=lambda way: (len(way.taken), way.cost))
        kept: list[Way] = []
        for way in cheapest:
            own = set(way.taken)
            if not any(other.cost <= way.cost and own.issuperset(other.taken) for other in kept):
                kept.append(way)
        return kept

    def tree(self, taken: Sequence[int]) -> Costed:
        """The best tree that reads these occurrences, each under its number."""
        given = [
            Given(str(i), self.occurrences[i].piece.positive, negations=not piece.bare)
            for i in taken
            for piece in [self.occurrences[i].piece]
        ]
        return best_tree(self.asked, self._statistics, given, COMPILED)

    def _cost(self, taken: tuple[int, ...]) -> float:
        """The cost of the best tree that reads exactly these; infinite where there is none."""
        found = self._costs.get(taken)
        if found is None:
            if self._table is not None:
                cost, read = self._table.cheapest({self._stretch[i]: 0.0 for i in taken})
                found = cost if len(read) == len(taken) else math.inf
            else:
                try:
                    found = self.tree(taken).cost
                except TreeError:
                    found = math.inf
            self._costs[taken] = found
        return found

    def _sets(self, offered: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Sets of these occurrences that do not overlap, small ones first."""
        offered = sorted(offered)
        level: list[tuple[int, ...]] = [()]
        while level:
            yield from level
            level = [
                (*taken, i)
                for taken in level
                for i in offered
                if (not taken or i > taken[-1]) and all(self._apart(i, j) for j in taken)
            ]

    def _apart(self, i: int, j: int) -> bool:
        one, other = self.occurrences[i].piece, self.occurrences[j].piece
        return one.last < other.first or other.last < one.first
