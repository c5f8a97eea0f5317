"""Greedy choices: the thesis' own, with exchanges, and two that weigh a candidate's conflicts."""

from __future__ import annotations

import heapq

import numpy as np

from sharing.benefit import Floats
from sharing.conflicts import ConflictGraph
from sharing.solve.bound import upper_bound
from sharing.solve.exchange import exchanged
from sharing.solve.solution import DEFAULT, Options, Solution, solution, worthwhile


def greedy(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """What figure 4.6 chooses, made better by exchanges (`sharing.solve.exchange`).

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
