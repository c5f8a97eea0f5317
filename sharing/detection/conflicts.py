"""Which nodes no tree can have both.

Two nodes conflict where their stretches of one reading overlap, unless one is a piece of the other:
then the tree of the larger one can read the smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sharing.detection.problem import Problem


class At(NamedTuple):
    """A place of a node: the number of a reading, and the positive part that it begins with."""

    reading: int
    first: int


@dataclass(frozen=True)
class Served:
    """A node, and the places that it serves."""

    node: int
    places: frozenset[At]


def everywhere(problem: Problem) -> list[Served]:
    """Each node with all its places."""
    return [
        Served(i, frozenset(At(place.reading, place.piece.first) for place in node.places))
        for i, node in enumerate(problem.nodes)
    ]


def conflicts(problem: Problem, served: Sequence[Served]) -> list[tuple[int, int]]:
    """The pairs of these, by number, that are in conflict; the smaller number first."""
    inside = [
        {(o.node, o.piece.first, o.piece.last) for o in node.reader.occurrences}
        for node in problem.nodes
    ]
    spans: dict[int, list[tuple[int, int, int, int]]] = {}
    for number, (node, places) in enumerate((s.node, s.places) for s in served):
        more = problem.nodes[node].piece.size - 1
        for reading, first in places:
            spans.setdefault(reading, []).append((first, first + more, node, number))
    found: set[tuple[int, int]] = set()
    seen: set[tuple[tuple[int, int, int, int], ...]] = set()
    for listed in spans.values():
        several = tuple(sorted(listed))
        if several in seen:  # readings of one pattern have the same conflicts
            continue
        seen.add(several)
        for i, (first, last, node, number) in enumerate(several):
            for start, end, other, another in several[i + 1 :]:
                if start > last:
                    break
                if node == other:
                    continue
                within = (other, start - first, end - first) in inside[node]
                around = (node, first - start, last - start) in inside[other]
                if not within and not around:
                    found.add((min(number, another), max(number, another)))
    return sorted(found)
