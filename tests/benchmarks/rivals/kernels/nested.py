"""Iterative nested execution (NEEL, section II-E): the outer sequence first, then what is negated.

The outer sequence is found as by stacks, without its negations. For each of its matches every
negated sequence is looked for in its own gap, in the same way, with what is negated in it; the
match stands where nothing is found. As published all results of a negated sequence are found;
with `enough` the search ends with the first one.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tests.benchmarks.rivals.kernels.given import (
    Comparisons,
    Events,
    Found,
    doubled,
    first_behind,
    holds,
)


class Nodes(NamedTuple):
    """Sequences in sequences: the components of node n are `starts[n] : starts[n + 1]`.

    Node 0 is the outer one. The others are negated: in the node `parent`, in the gap before its
    component number `gap`, counted in that node; only in node 0 a gap may be at an edge. Children
    of n are `children[child_starts[n] : child_starts[n + 1]]`.
    """

    starts: np.ndarray
    parent: np.ndarray
    gap: np.ndarray
    child_starts: np.ndarray
    children: np.ndarray


def find_nested(
    events: Events, tests: Comparisons, nodes: Nodes, width: int, enough: bool
) -> Found:
    """The matches of node 0 within a window of `width`.

    Tests belong to the component that is bound last: of one node the last component is bound
    first, and outer nodes are bound before inner ones.
    """
    rows, tried = _find(*events, *tests, *nodes, width, enough)
    return Found(rows, int(tried))


@numba.njit(cache=True)
def _marks(
    moment: np.ndarray, places: np.ndarray, starts: np.ndarray, node_starts: np.ndarray
) -> np.ndarray:
    """For each event the last one of the component before that precedes it."""
    mark = np.empty(places.size, np.int64)
    for n in range(node_starts.size - 1):
        for c in range(node_starts[n] + 1, node_starts[n + 1]):
            behind = starts[c - 1]
            for k in range(starts[c], starts[c + 1]):
                while behind < starts[c] and moment[places[behind]] < moment[places[k]]:
                    behind += 1
                mark[k] = behind - 1
    return mark


@numba.njit(cache=True)
def _first_place(position: np.ndarray, key: int) -> int:
    """The first place at a position of more than `key`."""
    low, high = 0, position.size
    while low < high:
        middle = (low + high) // 2
        if position[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def _find(
    moment: np.ndarray, position: np.ndarray, places: np.ndarray, starts: np.ndarray,
    values: np.ndarray, test_starts: np.ndarray, kind: np.ndarray, other: np.ndarray,
    own: np.ndarray, their: np.ndarray, node_starts: np.ndarray, parent: np.ndarray,
    gap: np.ndarray, child_starts: np.ndarray, children: np.ndarray, width: int, enough: bool,
) -> tuple[np.ndarray, int]:  # fmt: skip
    length = node_starts[1]
    last = length - 1
    mark = _marks(moment, places, starts, node_starts)
    number = node_starts.size - 1
    low, high = np.zeros(number, np.int64), np.zeros(number, np.int64)  # moments around a gap
    results, child = np.zeros(number, np.int64), np.zeros(number, np.int64)
    chosen = np.zeros(starts.size - 1, np.int32)
    cursor = np.zeros(starts.size - 1, np.int64)
    found, count, tried = np.empty((1024, length), np.int32), 0, 0
    for trigger in range(starts[last], starts[last + 1]):
        chosen[last] = places[trigger]
        opening = position[places[trigger]] - width
        tried += 1
        node, c, bound = 0, last, last == 0
        if last > 0:
            c = last - 1
            cursor[c] = mark[trigger]
        else:
            child[0] = child_starts[0]
        while True:
            if not bound:
                if c == node_starts[node + 1] or (node == 0 and c == last):
                    if node == 0:
                        break
                    absent = results[node] == 0
                    node = parent[node]
                    c = node_starts[node]
                    if absent:
                        child[node] += 1
                        bound = True
                    continue
                k = cursor[c]
                if k < starts[c] or (
                    position[places[k]] <= opening if node == 0 else moment[places[k]] <= low[node]
                ):
                    c += 1
                    continue
                cursor[c] = k - 1
                tried += 1
                place = places[k]
                fits = True
                for t in range(test_starts[c], test_starts[c + 1]):
                    if not holds(
                        kind[t], values[own[t], place], values[their[t], chosen[other[t]]]
                    ):
                        fits = False
                        break
                if not fits:
                    continue
                chosen[c] = place
                if c > node_starts[node]:
                    c -= 1
                    cursor[c] = mark[k]
                else:
                    child[node] = child_starts[node]
                    bound = True
                continue
            # All of the node is bound: its negated sequences, one after the other.
            if child[node] < child_starts[node + 1]:
                inner = children[child[node]]
                begin = node_starts[node] + gap[inner]
                if gap[inner] > 0:
                    low[inner] = moment[chosen[begin - 1]]
                else:
                    behind = _first_place(position, opening)
                    low[inner] = moment[behind - 1] if behind > 0 else moment[0] - 1
                if begin < node_starts[node + 1]:
                    high[inner] = moment[chosen[begin]]
                else:
                    behind = _first_place(position, position[chosen[0]] + width - 1)
                    high[inner] = (
                        moment[behind] if behind < position.size else moment[position.size - 1] + 1
                    )
                node, bound = inner, False
                results[node] = 0
                c = node_starts[node + 1] - 1
                cursor[c] = (
                    first_behind(moment, places, starts[c], starts[c + 1], high[node] - 1) - 1
                )
                continue
            bound = False
            if node == 0:
                if count == found.shape[0]:
                    found = doubled(found)
                for i in range(length):
                    found[count, i] = chosen[i]
                count += 1
                c = 0
            else:
                results[node] += 1
                c = node_starts[node + 1] if enough else node_starts[node]
    return found[:count].copy(), tried
