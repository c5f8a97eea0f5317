"""Which ranks events can have: how many events are before them, by the times and rows of blocks."""

from __future__ import annotations

import numpy as np

from engines.access.blocks import Blocks, Int64s, Mask
from engines.access.chains import Spots


class Ranks:
    """The ranks among all events of some blocks."""

    def __init__(self, blocks: Blocks, kept: Mask | None = None) -> None:
        some = slice(None) if kept is None else kept
        low, high, rows = blocks.low[some], blocks.high[some], blocks.rows[some]
        self._low, self._until = _summed(low, rows)
        self._high, self._before = _summed(high, rows)

    def of(self, spots: Spots) -> Spots:
        """From the least rank that an event of each spot can have to the greatest."""
        least = self._before[np.searchsorted(self._high, spots.low, "left")]
        greatest = self._until[np.searchsorted(self._low, spots.high, "right")] - 1
        return Spots(least, np.maximum(least, greatest))


def _summed(times: Int64s, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Times in order, and how many rows the blocks before each have."""
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate([[0], np.cumsum(rows[order])]).astype(np.int64)
