"""Negations at the ends of a pattern, where a match lies in a range of windows.

What is negated and follows a match ends the range: later windows hold it too. What precedes it
delays the range's start, until it has left the window. So no window is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engines.columns.layout import Rows
from engines.joins.frame import Frame, Slot
from engines.joins.negation import earliest_end, found_in, latest_start
from engines.joins.regions import Extent, gap_high, gap_low
from engines.joins.scan import Scan
from engines.joins.steps import Plan
from engines.joins.windows import Windows, somewhere
from optimizer.places import Gap


@dataclass(frozen=True, eq=False)
class Shorten:
    """`!N` first, last or in an AND: leave the windows in which it is absent.

    N's matches must not depend on the window themselves, and in an AND be single events: of two,
    one could precede the match and one follow it, and windows on either side hold only one.
    """

    gap: Gap
    plans: tuple[Plan, ...]
    windows: Windows
    extent: Extent

    def apply(self, scan: Scan, frame: Frame) -> Iterator[Frame]:
        for plan in self.plans:
            if frame.size:
                frame = somewhere(self._shortened(plan, scan, frame))
        yield frame

    def _shortened(self, plan: Plan, scan: Scan, frame: Frame) -> Frame:
        start, stop = frame.column(Slot.START), frame.column(Slot.STOP)
        if self.gap.anywhere:
            first, last = self.extent.of(frame)
            behind = scan.layout.after[last]
            # What is simultaneous with a part of the match, or between, is in every window of it.
            before = self._latest(plan, scan, frame, frame.column(Slot.OPENING), behind)
            after = self._earliest(plan, scan, frame, behind, frame.column(Slot.CLOSING))
            stop = np.where(before >= scan.layout.block[first], start, stop)
        elif self.gap.before is None:
            low, high = frame.column(Slot.OPENING), gap_high(self.gap, scan, frame)
            before = self._latest(plan, scan, frame, low, high)
            after = np.full(frame.size, len(scan.layout))
        else:
            low, high = gap_low(self.gap, scan, frame), frame.column(Slot.CLOSING)
            before = np.full(frame.size, -1)
            after = self._earliest(plan, scan, frame, low, high)
        some = np.flatnonzero(before >= 0)
        start = start.copy()
        start[some] = np.maximum(start[some], self.windows.left(before[some]))
        some = np.flatnonzero(after < len(scan.layout))
        stop = stop.copy()
        stop[some] = np.minimum(stop[some], self.windows.entered(after[some]))
        return frame.extended(None, {Slot.START: start, Slot.STOP: stop})

    def _earliest(self, plan: Plan, scan: Scan, frame: Frame, low: Rows, high: Rows) -> Rows:
        """The end of the match of N in a range that ends first; past all rows for none."""
        none = len(scan.layout)
        if plan.chain is not None:
            end = earliest_end(plan.chain, scan, low)
            return np.where(end < high, end, none)
        ends = np.full(frame.size, none)
        for found in found_in(plan, scan, frame, np.arange(frame.size), low, high):
            np.minimum.at(ends, found.column(Slot.SEED), plan.extent.of(found)[1])
        return ends

    def _latest(self, plan: Plan, scan: Scan, frame: Frame, low: Rows, high: Rows) -> Rows:
        """The start of the match of N in a range that starts last; -1 for none."""
        if plan.chain is not None:
            start = latest_start(plan.chain, scan, high)
            return np.where(start >= low, start, -1)
        starts = np.full(frame.size, -1)
        for found in found_in(plan, scan, frame, np.arange(frame.size), low, high):
            np.maximum.at(starts, found.column(Slot.SEED), plan.extent.of(found)[0])
        return starts
