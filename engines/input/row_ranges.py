"""Ranges of rows, in order and apart: what of row groups is gone on with once it is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowRanges:
    """Rows from each `begin` to before the `end` beside it; ranges neither touch nor overlap."""

    begin: Int64s
    end: Int64s

    def __len__(self) -> int:
        """How many rows they have together."""
        return int((self.end - self.begin).sum())

    @staticmethod
    def union(several: Sequence[tuple[Int64s, Int64s]]) -> RowRanges:
        """All rows of ranges in any order, which may overlap."""
        begin = np.concatenate([np.zeros(0, np.int64), *(begin for begin, _ in several)])
        end = np.concatenate([np.zeros(0, np.int64), *(end for _, end in several)])
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], np.maximum.accumulate(end[order])
        starts = np.ones(len(begin), bool)
        starts[1:] = begin[1:] > end[:-1]
        return RowRanges(begin[starts], end[np.append(starts[1:], True)] if len(end) else end)

    def between(self, low: int, high: int) -> RowRanges:
        """Those from a row to before another, counted from there."""
        first = int(np.searchsorted(self.end, low, "right"))
        last = int(np.searchsorted(self.begin, high, "left"))
        begin, end = self.begin[first:last], self.end[first:last]
        return RowRanges(np.maximum(begin, low) - low, np.minimum(end, high) - low)

    def rows(self) -> Int64s:
        """Each row of them, in order."""
        sizes = self.end - self.begin
        before = np.cumsum(sizes) - sizes
        found: Int64s = np.arange(len(self), dtype=np.int64)
        found += np.repeat(self.begin - before, sizes)
        return found
