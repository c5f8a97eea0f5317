"""Where chains of events can lie: one of each symbol, stage before stage, within a window.

A *spot* is a place where events of a symbol may be, between two times: a single event, or a block.
No chain of events is missed, whatever spots overlap; where a symbol's spots are blocks that follow
each other, none is kept in vain either. Each step is a running maximum or minimum, so that chains
are never enumerated: of all chains up to a spot only the latest start counts, and of all from it on
the earliest end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engines.access.blocks import ALWAYS, Mask

Int64s: TypeAlias = npt.NDArray[np.int64]
_NO_START, _NO_END = np.int64(-(2**63) + 1), np.int64(2**63 - 1)


@dataclass(frozen=True, eq=False)
class Spots:
    """Where events of a symbol may be: from `low` to `high`, both included."""

    low: Int64s
    high: Int64s

    def __len__(self) -> int:
        return len(self.low)

    def only(self, mask: Mask) -> Spots:
        """Some of them."""
        return Spots(self.low[mask], self.high[mask])


def chained(stages: Sequence[Sequence[Spots]], window: int, step: int) -> list[list[Mask]]:
    """By stage and symbol, the spots that a chain of less than `window` can go through.

    An event is before another where it is at least `step` earlier: 1, or 0 where a sequence decides
    between events of one time.
    """
    if len(stages) == 1 and len(stages[0]) == 1:  # any event is a chain
        return [[np.ones(len(stages[0][0]), bool)]]
    starts = _starts(stages, window, step)
    ends = _ends(stages, window, step, starts)
    found = []
    for spots, begin, end in zip(stages, starts, ends, strict=True):
        masks = [_close(s, e, window) for s, e in zip(begin, end, strict=True)]
        kept = [Spots(each.low[m], each.high[m]) for each, m in zip(spots, masks, strict=True)]
        for place, mask in enumerate(masks):
            for other, rival in enumerate(kept):
                if other != place:
                    mask &= within(spots[place], rival, window)
        found.append(masks)
    return found


def within(spots: Spots, others: Spots, window: int) -> Mask:
    """The spots that may have an event less than `window` from one of the others."""
    reach = min(window - 1, ALWAYS)
    begun = np.searchsorted(np.sort(others.low), spots.high + reach, "right")
    over = np.searchsorted(np.sort(others.high), spots.low - reach, "left")
    found: Mask = begun > over
    return found


def _close(start: Int64s, end: Int64s, window: int) -> Mask:
    """Where there is a start and an end, and these are less than a window apart."""
    found: Mask = (start != _NO_START) & (end != _NO_END)
    # No time is further from zero than 2^62 - 1, so that no difference wraps.
    found[found] &= end[found] - start[found] < window
    return found


def _starts(stages: Sequence[Sequence[Spots]], window: int, step: int) -> list[list[Int64s]]:
    """By stage and symbol, the latest time at which a chain up to a spot can start."""
    found: list[list[Int64s]] = []
    before: tuple[Int64s, Int64s] | None = None  # lows in order, and the latest start up to each
    for spots in stages:
        own = []
        for each in spots:
            start = each.high.copy()
            if before is not None:
                start = np.minimum(_latest(before, each.high - step), start)
            start[~_close(start, each.low, window)] = _NO_START
            own.append(start)
        found.append(own)
        done = _completed_starts(spots, own)
        lows = np.concatenate([each.low for each in spots])
        starts = np.concatenate(done)
        order = np.argsort(lows, kind="stable")
        before = (lows[order], np.maximum.accumulate(starts[order]))
    return found


def _completed_starts(spots: Sequence[Spots], starts: list[Int64s]) -> list[Int64s]:
    """The starts of chains that have all symbols of a stage when they are at a spot."""
    if len(spots) == 1:
        return starts
    tables = []
    for each, start in zip(spots, starts, strict=True):
        order = np.argsort(each.low, kind="stable")
        tables.append((each.low[order], np.maximum.accumulate(start[order])))
    found = []
    for place, (each, start) in enumerate(zip(spots, starts, strict=True)):
        done = start.copy()
        for other, table in enumerate(tables):
            if other != place:
                done = np.minimum(done, _latest(table, each.high))
        found.append(done)
    return found


def _latest(table: tuple[Int64s, Int64s], until: Int64s) -> Int64s:
    """The latest of the starts of spots that begin no later than these times."""
    lows, starts = table
    if not len(lows):
        return np.full(len(until), _NO_START)
    place = np.searchsorted(lows, until, "right")
    return np.where(place > 0, starts[np.maximum(place - 1, 0)], _NO_START)


def _ends(
    stages: Sequence[Sequence[Spots]],
    window: int,
    step: int,
    starts: list[list[Int64s]],
) -> list[list[Int64s]]:
    """By stage and symbol, the earliest time at which a chain from a spot on can end.

    It is the same as `_starts` in a time that runs backwards.
    """
    turned = [
        [
            Spots(-each.high[start != _NO_START], -each.low[start != _NO_START])
            for each, start in zip(spots, begin, strict=True)
        ]
        for spots, begin in zip(reversed(stages), reversed(starts), strict=True)
    ]
    found = []
    for spots, begin, back in zip(
        stages, starts, reversed(_starts(turned, window, step)), strict=True
    ):
        own = []
        for each, start, end in zip(spots, begin, back, strict=True):
            whole = np.full(len(each), _NO_END)
            whole[start != _NO_START] = np.where(end == _NO_START, _NO_END, -end)
            own.append(whole)
        found.append(own)
    return found
