"""Candidates chosen greedily, then improved by exchanges."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from sharing.counting.benefit import Floats
from sharing.solvers.candidates.solution import (
    DEFAULT,
    ConflictGraph,
    Options,
    Solution,
    solution,
    upper_bound,
    worthwhile,
)

_MORE = 1 + 1e-12  # an exchange must gain more than rounding


def exchanged(graph: ConflictGraph, chosen: Iterable[int], most: int) -> tuple[list[int], int]:
    """The choice when no exchange makes it better, or `most` steps are done; and the steps.

    A step is a candidate looked at.
    """
    weights, ranked = graph.weights, worthwhile(graph).tolist()
    taken = np.full(graph.number_of_cells, -1)
    inside = np.zeros(len(graph), np.bool_)

    def put(i: int, there: bool) -> None:
        inside[i] = there
        taken[graph.cells_of(i)] = i if there else -1

    def conflicting(i: int) -> list[int]:
        found = np.unique(taken[graph.cells_of(i)])
        return [int(j) for j in found if j >= 0]

    def one_for_several() -> bool:
        better = False
        for i in ranked:
            if not inside[i]:
                out = conflicting(i)
                if weights[i] > weights[out].sum() * _MORE:
                    for j in out:
                        put(j, False)
                    put(i, True)
                    better = True
        return better

    def several_for_one() -> bool:
        better = False
        for j in np.flatnonzero(inside).tolist():
            kept_out = [int(i) for i in graph.neighbours(j) if weights[i] > 0]
            kept_out = [i for i in kept_out if conflicting(i) == [j]]
            put(j, False)
            entering: list[int] = []
            for i in sorted(kept_out, key=lambda i: (-weights[i], i)):
                if not conflicting(i):
                    put(i, True)
                    entering.append(i)
            if weights[entering].sum() > weights[j] * _MORE:
                better = True
                continue
            for i in entering:
                put(i, False)
            put(j, True)
        return better

    for i in chosen:
        put(i, True)
    steps = 0
    while steps < most:
        steps += len(ranked)
        if not one_for_several() and not several_for_one():
            break
    return np.flatnonzero(inside).tolist(), steps


def greedy(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """What figure 4.6 chooses, made better by exchanges (`sharing.solvers.candidates.greedy`).

    Steps are candidates looked at.
    """
    chosen, steps = exchanged(graph, heaviest_first(graph), options.steps)
    steps += len(worthwhile(graph))
    return solution("greedy", graph, chosen, upper_bound(graph), steps)


def thesis(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """The heaviest candidate that is in no conflict with those chosen, again and again.

    Figure 4.6 of Qi's thesis, and nothing else. Steps are candidates looked at.
    """
    chosen = heaviest_first(graph)
    return solution("thesis", graph, chosen, upper_bound(graph), len(worthwhile(graph)))


def heaviest_first(graph: ConflictGraph) -> list[int]:
    """The numbers that `thesis` chooses, in its order."""
    taken = np.zeros(graph.number_of_cells, np.bool_)
    chosen = []
    for i in worthwhile(graph).tolist():
        cells = graph.cells_of(i)
        if not taken[cells].any():
            taken[cells] = True
            chosen.append(i)
    return chosen


def gwmin(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """The most weight for each candidate that it rules out, itself included, again and again.

    GWMIN of Sakai, Togasaki and Yamazaki (2003): at least the sum of weight / (degree + 1). Steps
    are candidates looked at.
    """
    chosen, steps = _by_ratio(graph, np.ones(len(graph)))
    return solution("gwmin", graph, chosen, upper_bound(graph), steps)


def gwmin2(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """The greatest share in the weight of itself and of what it rules out, again and again.

    GWMIN2 of the same paper: at least the sum of weight² / (weight of the closed neighbourhood).
    """
    chosen, steps = _by_ratio(graph, graph.weights)
    return solution("gwmin2", graph, chosen, upper_bound(graph), steps)


def by_share(graph: ConflictGraph) -> list[int]:
    """The numbers that `gwmin2` chooses, in its order."""
    return _by_ratio(graph, graph.weights)[0]


def _by_ratio(graph: ConflictGraph, measure: Floats) -> tuple[list[int], int]:
    """Choices by weight over the measure of what is ruled out, among what is left; and steps."""
    left = graph.weights > 0
    ruled_out = np.zeros(len(graph))
    for i in np.flatnonzero(left).tolist():
        near = graph.neighbours(i)
        ruled_out[i] = measure[i] + measure[near[left[near]]].sum()

    def entry(i: int) -> tuple[float, int]:
        return -graph.weights[i] / ruled_out[i], i

    # What is left is ruled out less and less, so a ratio only grows: a candidate's newest entry is
    # always ahead of its older ones, which find it gone.
    heap = [entry(i) for i in np.flatnonzero(left).tolist()]
    heapq.heapify(heap)
    chosen: list[int] = []
    steps = 0
    while heap:
        _, i = heapq.heappop(heap)
        steps += 1
        if not left[i]:
            continue
        chosen.append(i)
        near = graph.neighbours(i)
        gone = near[left[near]]
        left[i] = False
        left[gone] = False
        touched: set[int] = set()
        for removed in gone.tolist():
            around = graph.neighbours(removed)
            around = around[left[around]]
            ruled_out[around] -= measure[removed]
            touched.update(around.tolist())
        for j in touched:
            ruled_out[j] = max(ruled_out[j], measure[j])  # rounding must not go below
            heapq.heappush(heap, entry(j))
    return chosen, steps
