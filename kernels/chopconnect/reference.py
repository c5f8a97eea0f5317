"""Chop-Connect as plain Python: each query whole, every window counted from scratch."""

from __future__ import annotations

import numpy as np

from kernels.chopconnect.cpu import SegmentTables
from kernels.evaluations import looks
from kernels.groups import Groups, ResultRows, Spans
from kernels.prefixes.reference import _NEUTRAL, _combined, _term
from kernels.values import SUM


def connect(
    groups: Groups,
    segments: SegmentTables,
    spans: Spans,
    dual: bool,
    out: ResultRows,
) -> int:
    """As `kernels.chopconnect.cpu.connect`."""
    rows = 0
    for q, g, boundary, window in looks(groups, spans, lambda g: _triggered(groups, segments, g)):
        count, _ = _window(groups, segments, q, window, SUM, -1, 0)
        if not count:
            continue
        if rows == len(out.group):
            return -1
        out.group[rows], out.boundary[rows], out.query[rows] = g, boundary, q
        out.counts[rows] = count % 2**64
        if dual:
            out.approximate[rows] = float(count)
        for v in range(segments.read[q], segments.read[q + 1]):
            kind, (place, column) = int(segments.read_kind[v]), _origin(segments, q, v)
            _, value = _window(groups, segments, q, window, kind, place, column)
            out.values[rows, v - segments.read[q]] = value
        rows += 1
    return rows


def _triggered(groups: Groups, segments: SegmentTables, g: int) -> list[int]:
    found: dict[int, None] = {}
    for e in range(groups.event[g], groups.event[g + 1]):
        first, end = segments.triggered[groups.move_letter[e] :][:2]
        found |= dict.fromkeys(segments.triggers[first:end])
    return list(found)


def _parts(segments: SegmentTables, q: int) -> list[int]:
    parts = [int(segments.last[q])]
    link = segments.link[q]
    while link >= 0:
        parts.insert(0, int(segments.link_from[link]))
        link = segments.link_before[link]
    return parts


def _nodes(segments: SegmentTables, q: int) -> list[int]:
    """The nodes of all of a query's segments."""
    node = segments.node
    return [n for part in _parts(segments, q) for n in range(node[part], node[part + 1])]


def _origin(segments: SegmentTables, q: int, v: int) -> tuple[int, int]:
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
    segments: SegmentTables,
    q: int,
    window: list[int],
    kind: int,
    place: int,
    column: int,
) -> tuple[int, float]:
    """Ways through a query, and a value of its node at `place`; a segment may occur twice."""
    nodes, gate = _nodes(segments, q), segments.gate[q]
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
        first, end = segments.gated[groups.stay_letter[g] :][:2]
        if gate in segments.gates[first:end]:
            counts[0] = 0  # no match begins behind a closed gate
    return counts[-1], values[-1]
