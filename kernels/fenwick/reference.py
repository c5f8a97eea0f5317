"""The same as `kernels.fenwick.cpu`, in plain Python: all matches of each window are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from kernels.evaluations import looks
from kernels.fenwick.cpu import Comparisons
from kernels.groups import Groups, ResultRows, Spans
from kernels.prefixes.cpu import PrefixTree
from kernels.prefixes.reference import triggered_queries
from kernels.values import MAX, MIN, NUMBER, SUM

Match = tuple[tuple[int, int], ...]  # group and event of each component


def count_compared(
    groups: Groups,
    tree: PrefixTree,
    comparisons: Comparisons,
    spans: Spans,
    block: int,
    dual: bool,
    out: ResultRows,
) -> int:
    """As `kernels.fenwick.cpu.count_compared`."""
    rows = 0
    triggered = partial(triggered_queries, groups, tree)
    for q, g, boundary, window in looks(groups, spans, triggered):
        path = _path(tree, q)
        found = list(_matches(groups, tree, comparisons, path, window, ()))
        if not found:
            continue
        if rows == len(out.group):
            return -1
        out.group[rows], out.boundary[rows], out.query[rows] = g, boundary, tree.query[q]
        out.counts[rows] = len(found)
        if dual:
            out.approximate[rows] = float(len(found))
        for column, slot in enumerate(tree.reads[tree.read[q] : tree.read[q + 1]]):
            out.values[rows, column] = _value(groups, tree, path, int(slot), found)
        rows += 1
    return rows


def _path(tree: PrefixTree, q: int) -> list[int]:
    path = [int(tree.final[q])]
    while tree.parent[path[0]] >= 0:
        path.insert(0, int(tree.parent[path[0]]))
    return path


def _matches(
    groups: Groups,
    tree: PrefixTree,
    comparisons: Comparisons,
    path: list[int],
    window: list[int],
    bound: Match,
) -> Iterator[Match]:
    """The matches in a window that begin with the events bound so far."""
    later = window
    if bound:
        later = [g for g in window if g > bound[-1][0]]
        # What is negated after the last of them is not to come before the next one.
        negated = [g for g in later if _is_cleared(groups, tree, path[len(bound) - 1], g)]
        if len(bound) == len(path):
            if not negated:
                yield bound
            return
        later = [g for g in later if not negated or g <= negated[0]]
    node = path[len(bound)]
    for g in later:
        for e in range(groups.event[g], groups.event[g + 1]):
            letter = groups.move_letter[e]
            extends = tree.extends[tree.extended[letter] : tree.extended[letter + 1]]
            if node in extends and (not bound or _holds(comparisons, node, bound[-1][1], e)):
                yield from _matches(groups, tree, comparisons, path, window, (*bound, (g, e)))


def _is_cleared(groups: Groups, tree: PrefixTree, node: int, g: int) -> bool:
    stay = groups.stay_letter[g]
    return node in tree.clears[tree.cleared[stay] : tree.cleared[stay + 1]]


def _holds(comparisons: Comparisons, node: int, before: int, e: int) -> bool:
    """Does the event of a node compare with the one before it?"""
    if comparisons.left[node] < 0:
        return True
    one = float(comparisons.keys[comparisons.left[node], before])
    other = float(comparisons.keys[comparisons.right[node], e])
    return one < other or (not comparisons.strict[node] and one == other)


def _value(
    groups: Groups, tree: PrefixTree, path: list[int], slot: int, found: list[Match]
) -> float:
    """A value of the component whose own input it is."""
    while tree.slot_source[slot] >= 0:
        slot = int(tree.slot_source[slot])
    owner = max(i for i, node in enumerate(path) if tree.slotted[node] <= slot)
    numbers = [float(groups.inputs[tree.slot_input[slot], match[owner][1]]) for match in found]
    numbers = [x for x in numbers if not math.isnan(x)]
    kind = int(tree.slot_kind[slot])
    if kind == NUMBER:
        return float(len(numbers))
    if kind == SUM:
        return math.fsum(numbers)
    assert kind in (MIN, MAX)
    return min(numbers, default=math.inf) if kind == MIN else max(numbers, default=-math.inf)
