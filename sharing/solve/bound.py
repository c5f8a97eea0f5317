"""What no choice of candidates can exceed."""

from __future__ import annotations

import numpy as np

from sharing.conflicts import ConflictGraph


def upper_bound(graph: ConflictGraph) -> float:
    """A price for each cell such that every candidate's cells cost at least its weight: their sum.

    A choice takes each cell once at most, so it cannot weigh more than all cells cost. This is the
    dual of the linear relaxation. Each cell begins with the highest weight per cell among its
    candidates; then cells, dearest first, are made as cheap as the candidates allow.
    """
    positive = graph.weights > 0
    free = float(graph.weights[positive & (graph.sizes == 0)].sum())
    graph = graph.only(np.flatnonzero(positive & (graph.sizes > 0)))
    if not len(graph):
        return free
    price = np.zeros(graph.number_of_cells)
    np.maximum.at(price, graph.cells, np.repeat(graph.weights / graph.sizes, graph.sizes))
    slack = np.add.reduceat(price[graph.cells], graph.first[:-1]) - graph.weights
    for cell in np.argsort(-price, kind="stable"):
        if price[cell] <= 0:
            break
        members = graph.members(cell)
        less = min(slack[members].min(), price[cell])
        if less > 0:
            price[cell] -= less
            slack[members] -= less
    return free + float(price.sum())
