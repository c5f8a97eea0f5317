"""NEEL's plan finder: a choice of nodes, improved step by step against the true cost of the plan.

A set of nodes to make is a partition of the readings by what they read, as each takes what suits it
best. A step makes one node more, and gives up those that it takes the readers of, or gives one up:
merging and splitting groups (NEEL section V, figure 9). It starts from aggressive sharing, and from
others that it is given; from the best local minimum it goes on with some nodes changed at random.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from sharing.matching.nodes import NodeProblem

MIN_IMPROVEMENT = 1e-12  # part of the cost that an improvement has at the least
RESTARTS = 6


def find_plan(
    problem: NodeProblem, starts: Iterable[Collection[int]], steps: int, seed: int = 0
) -> frozenset[int]:
    """The cheapest set of nodes found in so many steps; never worse than any of the starts.

    A step is one tree that is chosen. The same for the same seed.
    """
    search = _Search(problem, steps, random.Random(seed))
    ranked = sorted(
        {problem.used(start) for start in starts}, key=lambda s: (problem.cost(s), sorted(s))
    )
    best = ranked[0]
    for start in ranked:
        best = search.better(best, search.improved(start))
    for _ in range(RESTARTS):
        if search.left <= 0 or not problem.nodes:
            break
        best = search.better(best, search.improved(search.shaken(best)))
    return best


class _Search:
    def __init__(self, problem: NodeProblem, steps: int, chance: random.Random) -> None:
        self._problem, self._chance = problem, chance
        self.left = steps

    def better(self, one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
        return other if self._problem.cost(other) < self._problem.cost(one) else one

    def shaken(self, made: frozenset[int]) -> frozenset[int]:
        """Some nodes more or less."""
        every = range(len(self._problem.nodes))
        return made ^ frozenset(self._chance.sample(every, max(1, len(every) // 10)))

    def improved(self, made: frozenset[int]) -> frozenset[int]:
        """A local minimum that is reached from here, or what the steps suffice for."""
        order = list(range(len(self._problem.nodes)))
        least = MIN_IMPROVEMENT * self._problem.separate
        going = True
        while going:
            going = False
            self._chance.shuffle(order)
            for node in order:
                if self.left <= 0:
                    return self._problem.used(made)
                changed, gained = self._without(made, node) if node in made else self._with(
                    made, node
                )  # fmt: skip
                if gained > least:
                    made, going = changed, True
        return self._problem.used(made)

    def _without(self, made: frozenset[int], node: int) -> tuple[frozenset[int], float]:
        changed = made - {node}
        return changed, self._gain(made, changed, [node])

    def _with(self, made: frozenset[int], node: int) -> tuple[frozenset[int], float]:
        """The node is made, and what nothing reads any more is not."""
        changed = made | {node}
        gained = self._gain(made, changed, [node])
        for other in self._displaced(made, changed, node):
            fewer = changed - {other}
            more = self._gain(changed, fewer, [other])
            if more > 0:
                changed, gained = fewer, gained + more
        return changed, gained

    def _displaced(self, made: frozenset[int], changed: frozenset[int], node: int) -> list[int]:
        """The nodes that a reader gave up for this one."""
        found: dict[int, None] = {}
        for number in self._problem.reading[node]:
            if not self._is_active(number, changed):
                continue
            reader = self._problem.readers[number]
            before = {reader.occurrences[i].node for i in reader.best(made).taken}
            after = {reader.occurrences[i].node for i in reader.best(changed).taken}
            found |= dict.fromkeys(sorted(before - after))
        return list(found)

    def _gain(self, made: frozenset[int], changed: frozenset[int], nodes: list[int]) -> float:
        """By how much the cost falls where only these nodes differ."""
        gained, trees = self._problem.saved(made, changed, nodes)
        self.left -= trees
        return gained

    def _is_active(self, number: int, made: frozenset[int]) -> bool:
        return number < len(self._problem.roots) or number - len(self._problem.roots) in made
