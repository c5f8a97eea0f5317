"""A-Seq as plain Python: each query's windows are counted from scratch."""

from __future__ import annotations

import math
from functools import partial

from kernels.evaluations import looks
from kernels.groups import Groups, ResultRows, Spans
from kernels.prefixes.cpu import PrefixTree
from kernels.values import MAX, MIN, NUMBER, SUM

_NEUTRAL = {SUM: 0.0, NUMBER: 0.0, MIN: math.inf, MAX: -math.inf}


def count_prefixes(
    groups: Groups,
    tree: PrefixTree,
    spans: Spans,
    dual: bool,
    out: ResultRows,
) -> int:
    """As `kernels.prefixes.cpu.count_prefixes`."""
    rows = 0
    triggered = partial(triggered_queries, groups, tree)
    for q, g, boundary, window in looks(groups, spans, triggered):
        count, values = _window(groups, tree, q, window)
        if not count:
            continue
        if rows == len(out.group):
            return -1
        out.group[rows], out.boundary[rows], out.query[rows] = (
            g,
            boundary,
            tree.query[q],
        )
        out.counts[rows] = count % 2**64
        if dual:
            out.approximate[rows] = float(count)
        out.values[rows, : len(values)] = values
        rows += 1
    return rows


def triggered_queries(groups: Groups, tree: PrefixTree, g: int) -> list[int]:
    """The queries that an event of a group triggers."""
    found: dict[int, None] = {}
    for e in range(groups.event[g], groups.event[g + 1]):
        letter = groups.move_letter[e]
        found |= dict.fromkeys(tree.triggers[tree.triggered[letter] : tree.triggered[letter + 1]])
    return list(found)


def _window(groups: Groups, tree: PrefixTree, q: int, window: list[int]) -> tuple[int, list[float]]:
    """The count and the values of one query over a window's groups."""
    path = [int(tree.final[q])]
    while tree.parent[path[0]] >= 0:
        path.insert(0, int(tree.parent[path[0]]))
    counts = {-1: 1} | dict.fromkeys(path, 0)  # the empty prefix opens the path
    values = {
        slot: _NEUTRAL[int(tree.slot_kind[slot])]
        for node in path
        for slot in range(tree.slotted[node], tree.slotted[node + 1])
    }
    for g in window:
        stay = groups.stay_letter[g]
        cleared = tree.clears[tree.cleared[stay] : tree.cleared[stay + 1]]
        # All read the counts before the group.
        before, before_values = dict(counts), dict(values)
        for node in path:
            if node in cleared:
                counts[node] = 0
                for slot in range(tree.slotted[node], tree.slotted[node + 1]):
                    values[slot] = _NEUTRAL[int(tree.slot_kind[slot])]
        for e in range(groups.event[g], groups.event[g + 1]):
            letter = groups.move_letter[e]
            extends = tree.extends[tree.extended[letter] : tree.extended[letter + 1]]
            for node in path:
                if node not in extends:
                    continue
                ways = before[int(tree.parent[node])]
                counts[node] += ways
                for slot in range(tree.slotted[node], tree.slotted[node + 1]):
                    kind, source = int(tree.slot_kind[slot]), int(tree.slot_source[slot])
                    if source >= 0:
                        new = before_values[source]
                    else:
                        new = _term(kind, float(groups.inputs[tree.slot_input[slot], e]), ways)
                    values[slot] = _combined(kind, values[slot], new)
        if tree.gate[q] in tree.gates[tree.gated[stay] : tree.gated[stay + 1]]:
            counts[-1] = 0  # no match begins behind a closed gate
    read = tree.reads[tree.read[q] : tree.read[q + 1]]
    return counts[path[-1]], [values[int(slot)] for slot in read]


def _term(kind: int, x: float, ways: int) -> float:
    if math.isnan(x) or not ways:
        return _NEUTRAL[kind]
    return {SUM: x * ways, NUMBER: float(ways)}.get(kind, x)


def _combined(kind: int, a: float, b: float) -> float:
    return {MIN: min(a, b), MAX: max(a, b)}.get(kind, a + b)
