"""The windows of a stream that are evaluated, as plain Python: for references of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernels.groups import Groups


class Look(NamedTuple):
    """An evaluation: the last group of the window, its boundary if per slide, and its groups."""

    group: int
    boundary: int
    window: list[int]


def looks(groups: Groups, width: int, slide: int) -> Iterator[Look]:
    """Every group, or per slide every boundary up to the limit whose window holds a group."""
    for r, limit in enumerate(groups.limit):
        run = range(groups.run[r], groups.run[r + 1])
        if slide == 0:
            for g in run:
                low = groups.position[g] - width
                yield Look(g, 0, [h for h in run if low < groups.position[h] and h <= g])
        elif len(run):
            begin = int(groups.position[run[0]])
            end = min(int(limit), int(groups.position[run[-1]]) + width)
            for boundary in range(-(-begin // slide) * slide, end + 1, slide):
                window = [g for g in run if boundary - width < groups.position[g] <= boundary]
                if window:
                    yield Look(window[-1], boundary, window)
