"""The windows of a stream that are evaluated, as plain Python: for references of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kernels.groups import Groups, Spans


class Look(NamedTuple):
    """An evaluation of a query: the last group of its window, its boundary if per slide, and its
    groups.
    """

    query: int
    group: int
    boundary: int
    window: list[int]


def looks(groups: Groups, spans: Spans, triggered: Callable[[int], list[int]]) -> Iterator[Look]:
    """Every group that triggers a query, and per slide every boundary up to the limit whose window
    holds a group.

    `triggered` gives the queries that a group triggers, if they have no slide.
    """
    for r, limit in enumerate(groups.limit):
        run = range(groups.run[r], groups.run[r + 1])
        for g in run:
            for q in triggered(g):
                low = groups.position[g] - spans.width[q]
                if not spans.slide[q]:
                    yield Look(q, g, 0, [h for h in run if low < groups.position[h] and h <= g])
        for q in np.flatnonzero(spans.slide).tolist() if len(run) else ():
            width, slide = int(spans.width[q]), int(spans.slide[q])
            begin = int(groups.position[run[0]])
            end = min(int(limit), int(groups.position[run[-1]]) + width)
            for boundary in range(-(-begin // slide) * slide, end + 1, slide):
                window = [g for g in run if boundary - width < groups.position[g] <= boundary]
                if window:
                    yield Look(q, window[-1], boundary, window)
