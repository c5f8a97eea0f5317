"""What a sequence costs where some of its stretches are given: one table for many questions.

The same as `best_tree` with a `Given` for each, for sequences of single events with nothing between
them: there a split costs the same whatever its two sides are made of, so that a given stretch is an
entry of algorithm 5's table that is known beforehand. With negations between them, which may be
pushed to a neighbour and cost by its rows, the table says what no tree costs less than.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from optimizer.cost.trees import Model
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees.compile import compile_query
from optimizer.trees.problem import Chain, Problem, Single
from optimizer.trees.search import solve
from optimizer.trees.segments import Segments
from optimizer.trees.solved import Solved
from optimizer.trees.tree import Leaf

Stretch: TypeAlias = tuple[int, int]  # the numbers of its first and its last item
GIVEN = -1


class Cheapest(NamedTuple):
    """The cost of a tree, and the given stretches that it is made of."""

    cost: float
    taken: tuple[Stretch, ...]


class Stretches:
    """A sequence whose trees are asked for again and again; `exact`, or a bound from below."""

    def __init__(self, problem: Problem, chain: Chain) -> None:
        leaves = [Solved(Leaf(""), 0.0) for _ in chain.items]
        found = Segments(problem, chain, leaves, solve, "bushy")
        self.size, self.exact = found.size, not any(gap.negations for gap in chain.gaps)
        # Negations at the edges filter finished rows, however these were found.
        self._on_top = solve(problem).cost - found.solve().cost if problem.top else 0.0
        inner = found.least_pushes()
        self._splits = [
            (a, b, [(r, found.split_cost(a, b, r) + inner[r - 1]) for r in range(b, a, -1)])
            for size in range(2, self.size + 1)
            for a in range(self.size - size + 1)
            for b in [a + size - 1]
        ]

    def cheapest(self, prices: Mapping[Stretch, float]) -> Cheapest:
        """The best tree in which each stretch with a price may be read instead of made."""
        n = self.size
        least = [[0.0] * n for _ in range(n)]
        roots = [[GIVEN] * n for _ in range(n)]
        for a, b, splits in self._splits:
            best, root, row = math.inf, GIVEN, least[a]
            for r, own in splits:
                total = row[r - 1] + least[r][b] + own
                if total < best:
                    best, root = total, r
            price = prices.get((a, b))
            if price is not None and price <= best:
                best, root = price, GIVEN
            row[b], roots[a][b] = best, root
        taken: list[Stretch] = []
        open_: list[Stretch] = [(0, n - 1)]
        while open_:
            a, b = open_.pop()
            if a == b:
                continue
            r = roots[a][b]
            if r == GIVEN:
                taken.append((a, b))
            else:
                open_ += [(r, b), (a, r - 1)]
        return Cheapest(least[0][n - 1] + self._on_top, tuple(taken))


def stretches_of(query: Query, statistics: Statistics, model: Model) -> Stretches | None:
    """The table of a query; None where it is no sequence of single events, has groups between
    them, or negations that read more than their neighbours."""
    problem = compile_query(query, statistics, (), model)
    chain = problem.root
    if (
        isinstance(chain, Chain)
        and all(isinstance(item, Single) for item in chain.items)
        and not any(gap.groups for gap in chain.gaps)
        and not any(_reads_far(chain, place) for place in range(len(chain.gaps)))
    ):
        return Stretches(problem, chain)
    return None


def _reads_far(chain: Chain, place: int) -> bool:
    """Does a negation of a gap need more than the items beside it?"""
    beside = chain.items[place].aliases | chain.items[place + 1].aliases
    return any(not negation.needs <= beside for negation in chain.gaps[place].negations)
