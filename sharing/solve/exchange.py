"""A choice made better by exchanges: one candidate for several, or several for one.

Local search as in Andrade, Resende and Werneck (2012), for weights: a candidate comes in where it
weighs more than all chosen ones that it is in conflict with; and a chosen one goes where candidates
that it alone keeps out weigh more together. Either way the choice stays independent and grows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sharing.conflicts import ConflictGraph
from sharing.solve.solution import worthwhile

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
