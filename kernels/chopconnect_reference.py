"""Chop-Connect as plain Python: each query whole, every window counted from scratch."""

from __future__ import annotations

import math

import numpy as np

from kernels.chopconnect import Segments
from kernels.product import MAX, MIN, NUMBER, SUM, Groups, Rows

_NEUTRAL = {SUM: 0.0, NUMBER: 0.0, MIN: math.inf, MAX: -math.inf}


def connect(groups: Groups, segments: Segments, width: int, dual: bool, out: Rows) -> int:
    """As `kernels.chopconnect.connect`."""
    rows = 0
    for first, last in zip(groups.run[:-1], groups.run[1:], strict=True):
        for g in range(first, last):
            low = groups.position[g] - width
            window = [h for h in range(first, g + 1) if groups.position[h] > low]
            for q in _triggered(groups, segments, g):
                nodes = _nodes(segments, q)
                count, _ = _window(groups, segments, nodes, window, SUM, -1, 0)
                if not count:
                    continue
                if rows == len(out.group):
                    return -1
                out.group[rows], out.boundary[rows], out.query[rows] = g, 0, q
                out.counts[rows] = count % 2**64
                if dual:
                    out.approximate[rows] = float(count)
                for v in range(segments.read[q], segments.read[q + 1]):
                    kind, (place, column) = int(segments.read_kind[v]), _origin(segments, q, v)
                    _, value = _window(groups, segments, nodes, window, kind, place, column)
                    out.values[rows, v - segments.read[q]] = value
                rows += 1
    return rows


def _triggered(groups: Groups, segments: Segments, g: int) -> list[int]:
    found: dict[int, None] = {}
    for e in range(groups.event[g], groups.event[g + 1]):
        first, end = segments.triggered[groups.move_letter[e] :][:2]
        found |= dict.fromkeys(segments.triggers[first:end])
    return list(found)


def _parts(segments: Segments, q: int) -> list[int]:
    parts = [int(segments.last[q])]
    link = segments.link[q]
    while link >= 0:
        parts.insert(0, int(segments.link_from[link]))
        link = segments.link_before[link]
    return parts


def _nodes(segments: Segments, q: int) -> list[int]:
    """The nodes of all of a query's segments."""
    node = segments.node
    return [n for part in _parts(segments, q) for n in range(node[part], node[part + 1])]


def _origin(segments: Segments, q: int, v: int) -> tuple[int, int]:
    """Which of a query's nodes a value is of, and the column of its input."""
    parts = _parts(segments, q)
    slot, part, link = segments.read_slot[v], len(parts) - 1, segments.link[q]
    if slot < 0:
        lane = segments.laned[link] + segments.read_lane[v]
        part -= 1
        while segments.lane_slot[lane] < 0:
            link, part = segments.link_before[link], part - 1
            lane = segments.laned[link] + segments.lane_before[lane]
        slot = segments.lane_slot[lane]
    while segments.slot_source[slot] >= 0:
        slot = segments.slot_source[slot]
    node = int(np.searchsorted(segments.slotted, slot, "right")) - 1
    skipped = sum(int(segments.node[p + 1] - segments.node[p]) for p in parts[:part])
    return skipped + node - int(segments.node[parts[part]]), int(segments.slot_input[slot])


def _window(
    groups: Groups,
    segments: Segments,
    nodes: list[int],
    window: list[int],
    kind: int,
    place: int,
    column: int,
) -> tuple[int, float]:
    """Ways through the nodes, and a value of the one at `place`; a segment may occur twice."""
    counts = [1] + [0] * len(nodes)
    values = [_NEUTRAL[kind]] * len(counts)
    for g in window:
        before, before_values = list(counts), list(values)
        first, end = segments.cleared[groups.stay_letter[g] :][:2]
        for i, node in enumerate(nodes):
            if node in segments.clears[first:end]:
                counts[i + 1], values[i + 1] = 0, _NEUTRAL[kind]
        for e in range(groups.event[g], groups.event[g + 1]):
            first, end = segments.extended[groups.move_letter[e] :][:2]
            for i, node in enumerate(nodes):
                if node not in segments.extends[first:end]:
                    continue
                counts[i + 1] += before[i]
                new = before_values[i]
                if i == place:
                    new = _term(kind, float(groups.inputs[column, e]), before[i])
                values[i + 1] = _combined(kind, values[i + 1], new)
    return counts[-1], values[-1]


def _term(kind: int, x: float, ways: int) -> float:
    if math.isnan(x) or not ways:
        return _NEUTRAL[kind]
    return {SUM: x * ways, NUMBER: float(ways)}.get(kind, x)


def _combined(kind: int, a: float, b: float) -> float:
    return {MIN: min(a, b), MAX: max(a, b)}.get(kind, a + b)
