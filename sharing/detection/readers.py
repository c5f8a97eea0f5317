"""What has a tree, and what its trees cost over nodes that are made elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from optimizer.cost.trees import COMPILED
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees import Costed, Given, TreeError, best_tree
from optimizer.trees.pieces import Piece
from optimizer.trees.stretches import Stretch, Stretches, stretches_of

MOST_WAYS = 64  # sets of nodes that are compared where no table does it


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

    Costs are events touched in one window.
    """

    def __init__(
        self, asked: Query, occurrences: Sequence[Occurrence], statistics: Statistics
    ) -> None:
        self.asked, self.occurrences = asked, tuple(occurrences)
        self.nodes = frozenset(occurrence.node for occurrence in occurrences)
        self._statistics = statistics
        self._costs: dict[tuple[int, ...], float] = {}
        self._best: dict[frozenset[int], Way] = {}
        found = stretches_of(asked, statistics, COMPILED) if occurrences else None
        self._table = found if found is not None and found.exact else None
        self._floor = found
        self._stretch = [(o.piece.first, o.piece.last) for o in occurrences]
        self.alone = self.best(frozenset()).cost

    def best(self, made: frozenset[int]) -> Way:
        """The cheapest tree where some nodes are made already."""
        made &= self.nodes
        found = self._best.get(made)
        if found is None:
            free = {i: 0.0 for i, o in enumerate(self.occurrences) if o.node in made}
            found = self._best[made] = self.least(free)
        return found

    @cached_property
    def exact(self) -> bool:
        """Is the best tree found among all sets of occurrences, and not step by step?"""
        every = range(len(self.occurrences))
        return self._table is not None or self._listed(every, MOST_WAYS) is not None

    def least(self, prices: Mapping[int, float]) -> Way:
        """The cheapest tree, with what it pays, where each occurrence with a price may be had.

        Where these allow very many sets, occurrences are taken one by one as long as that helps.
        """
        if self._table is not None:
            return self._looked_up(self._table, prices)
        sets = self._listed(prices, MOST_WAYS)
        if sets is not None:
            return min((self._paid(taken, prices) for taken in sets), key=lambda way: way.cost)
        best = self._paid((), prices)
        while True:
            more = [
                tuple(sorted((*best.taken, i)))
                for i in sorted(prices)
                if all(self._apart(i, j) for j in best.taken)
            ]
            tried = [best, *(self._paid(taken, prices) for taken in more)]
            found = min(tried, key=lambda way: way.cost)
            if found.cost >= best.cost:
                return best
            best = found

    def at_least(self, prices: Mapping[int, float]) -> Way:
        """What no tree costs less than at these prices, with what would be taken for it."""
        if self._table is None and self._listed(prices, MOST_WAYS) is None:
            return Way(0.0, ()) if self._floor is None else self._looked_up(self._floor, prices)
        return self.least(prices)

    def ways(self, limit: int) -> list[Way] | None:
        """All sets of nodes that a tree can read and that save something; None for more."""
        sets = self._listed(range(len(self.occurrences)), limit)
        if sets is None:
            return None
        found = [way for taken in sets if (way := Way(self._cost(taken), taken)).cost < math.inf]
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

    def _paid(self, taken: tuple[int, ...], prices: Mapping[int, float]) -> Way:
        return Way(self._cost(taken) + sum(prices[i] for i in taken), taken)

    def _looked_up(self, table: Stretches, prices: Mapping[int, float]) -> Way:
        """The best by a table; of the occurrences at one stretch the cheapest."""
        at: dict[Stretch, int] = {}
        for i, price in prices.items():
            stretch = self._stretch[i]
            if stretch not in at or price < prices[at[stretch]]:
                at[stretch] = i
        found = table.cheapest({stretch: prices[i] for stretch, i in at.items()})
        return Way(found.cost, tuple(sorted(at[stretch] for stretch in found.taken)))

    def _listed(self, offered: Iterable[int], most: int) -> list[tuple[int, ...]] | None:
        """All sets of these occurrences that do not overlap; None where there are more."""
        found = list(islice(self._sets(offered), most + 1))
        return None if len(found) > most else found

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
