"""Chop-Connect as plain Python: each query whole, every window counted from scratch."""

from __future__ import annotations

from kernels.chopconnect import Segments
from kernels.product import Groups, Rows


def connect(groups: Groups, segments: Segments, width: int, dual: bool, out: Rows) -> int:
    """As `kernels.chopconnect.connect`."""
    rows = 0
    for first, last in zip(groups.run[:-1], groups.run[1:], strict=True):
        for g in range(first, last):
            low = groups.position[g] - width
            window = [h for h in range(first, g + 1) if groups.position[h] > low]
            for q in _triggered(groups, segments, g):
                count = _window(groups, segments, _nodes(segments, q), window)
                if not count:
                    continue
                if rows == len(out.group):
                    return -1
                out.group[rows], out.boundary[rows], out.query[rows] = g, 0, q
                out.counts[rows] = count % 2**64
                if dual:
                    out.approximate[rows] = float(count)
                rows += 1
    return rows


def _triggered(groups: Groups, segments: Segments, g: int) -> list[int]:
    found: dict[int, None] = {}
    for e in range(groups.event[g], groups.event[g + 1]):
        first, end = segments.triggered[groups.move_letter[e] :][:2]
        found |= dict.fromkeys(segments.triggers[first:end])
    return list(found)


def _nodes(segments: Segments, q: int) -> list[int]:
    """The nodes of all of a query's segments."""
    parts = [int(segments.last[q])]
    link = segments.link[q]
    while link >= 0:
        parts.insert(0, int(segments.link_from[link]))
        link = segments.link_before[link]
    return [n for part in parts for n in range(segments.node[part], segments.node[part + 1])]


def _window(groups: Groups, segments: Segments, nodes: list[int], window: list[int]) -> int:
    """Ways through the nodes; a segment may occur more than once."""
    counts = [1] + [0] * len(nodes)
    for g in window:
        before = list(counts)
        first, end = segments.cleared[groups.stay_letter[g] :][:2]
        for i, node in enumerate(nodes):
            if node in segments.clears[first:end]:
                counts[i + 1] = 0
        for e in range(groups.event[g], groups.event[g + 1]):
            first, end = segments.extended[groups.move_letter[e] :][:2]
            for i, node in enumerate(nodes):
                if node in segments.extends[first:end]:
                    counts[i + 1] += before[i]
    return counts[-1]
