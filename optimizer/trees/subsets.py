"""The best tree of a conjunction, whose parts may be put together in any order."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from optimizer.cost import trees as cost
from optimizer.trees.problem import Problem, Together
from optimizer.trees.solved import CLOSE, Shape, Solved
from optimizer.trees.tree import AndJoin

MAX_SUBSETS = 9  # parts that are tried in every order: 3^9 splits; more are merged greedily


class Subsets:
    """The best way to put some parts of an AND together, for every subset of them."""

    def __init__(
        self, problem: Problem, part: Together, items: Sequence[Solved], shape: Shape
    ) -> None:
        self.problem, self.part, self.items, self.shape = problem, part, items, shape
        self.predicates = [
            (sum(1 << i for i, item in enumerate(part.items) if item.aliases & p.aliases), p)
            for p in part.predicates
        ]
        self._known: dict[int, tuple[float, int]] = {}

    def solve(self) -> Solved:
        n = len(self.items)
        leaves = [(1 << i, item) for i, item in enumerate(self.items)]
        exact = all(item.exact for item in self.items)
        if self.shape == "left":
            return functools.reduce(self._merge, leaves)[1]._replace(exact=exact)
        if self.shape == "right":
            folded = functools.reduce(lambda found, leaf: self._merge(leaf, found), leaves[::-1])
            return folded[1]._replace(exact=exact)
        if n > MAX_SUBSETS:
            return self._greedy(leaves)._replace(exact=False)
        return self._every(n)._replace(exact=exact)

    def _every(self, n: int) -> Solved:
        best: list[Solved] = [self.items[0]] * (1 << n)
        for mask in range(1, 1 << n):
            lowest = mask & -mask
            if mask == lowest:
                best[mask] = self.items[mask.bit_length() - 1]
                continue
            total, chosen = math.inf, 0
            rest = mask ^ lowest
            some = (rest - 1) & rest  # what goes with the lowest part; all but the whole
            while True:
                left = lowest | some
                own = self._join(left, mask ^ left) + best[left].cost + best[mask ^ left].cost
                if not chosen or (
                    own * CLOSE > total if self.shape == "worst" else own < total * CLOSE
                ):
                    total, chosen = own, left
                if not some:
                    break
                some = (some - 1) & rest
            both = best[chosen].tree, best[mask ^ chosen].tree
            best[mask] = Solved(AndJoin(*both), total)
        return best[-1]

    def _greedy(self, leaves: list[tuple[int, Solved]]) -> Solved:
        """Always the cheapest pair next, or for the worst tree the dearest."""
        sign = -1 if self.shape == "worst" else 1
        while len(leaves) > 1:
            i, j = min(
                itertools.combinations(range(len(leaves)), 2),
                key=lambda pair: sign * self._join(leaves[pair[0]][0], leaves[pair[1]][0]),
            )
            merged = self._merge(leaves[i], leaves[j])
            leaves = [leaf for k, leaf in enumerate(leaves) if k not in (i, j)] + [merged]
        return leaves[0][1]

    def _merge(self, left: tuple[int, Solved], right: tuple[int, Solved]) -> tuple[int, Solved]:
        total = left[1].cost + right[1].cost + self._join(left[0], right[0])
        return left[0] | right[0], Solved(AndJoin(left[1].tree, right[1].tree), total)

    def _join(self, left: int, right: int) -> float:
        problem, model = self.problem, self.problem.model
        (left_rows, left_events), (right_rows, right_events) = self._rows(left), self._rows(right)
        pairs = left_rows * right_rows * problem.same_key(left_events, right_events)
        pairs *= cost.looked_at(model, left_events, right_events, ordered=False)
        count, equal = 0, None
        for mask, predicate in self.predicates:
            if mask & ~(left | right) or not mask & ~left or not mask & ~right:
                continue
            if predicate.equality and model.equality == "hash":
                equal = predicate.selectivity * (1.0 if equal is None else equal)
            else:
                count += 1
        made, _ = self._rows(left | right)
        return cost.join(model, pairs, left_rows + right_rows, count, equal, made)

    def _rows(self, mask: int) -> tuple[float, int]:
        """The rows and events of a subset of the parts."""
        if mask not in self._known:
            rows, events = 1.0, 0
            for i, item in enumerate(self.part.items):
                if mask >> i & 1:
                    rows *= item.rows * self.problem.same_key(events, item.events)
                    rows *= cost.meeting(self.problem.model, events, item.events, ordered=False)
                    events += item.events
            for needed, predicate in self.predicates:
                if not needed & ~mask:
                    rows *= predicate.selectivity
            self._known[mask] = rows, events
        return self._known[mask]
