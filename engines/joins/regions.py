"""Where negations and whole groups look: gaps between neighbours, and the match's window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from engines.columns.layout import Rows
from engines.joins.frame import Frame, Name, Slot
from engines.joins.scan import Scan
from optimizer.places import Gap


def gap_low(gap: Gap, scan: Scan, frame: Frame) -> Rows:
    """The first row of a gap, for each partial match."""
    if gap.before is None:
        return frame.column(Slot.OPENING)
    return scan.layout.after[reduce(np.maximum, [frame.last(alias) for alias in gap.before])]


def gap_high(gap: Gap, scan: Scan, frame: Frame) -> Rows:
    """The row behind the last of a gap."""
    if gap.after is None:
        return frame.column(Slot.LAST if gap.anywhere else Slot.CLOSING)
    return scan.layout.block[reduce(np.minimum, [frame.first(alias) for alias in gap.after])]


@dataclass(frozen=True)
class Extent:
    """The aliases that can be bound to a match's first event, and those that can to its last."""

    first: tuple[str, ...]
    last: tuple[str, ...]

    def of(self, frame: Frame) -> tuple[Rows, Rows]:
        """The first and the last row of each match."""
        return (
            reduce(np.minimum, [frame.first(alias) for alias in self.first]),
            reduce(np.maximum, [frame.last(alias) for alias in self.last]),
        )


@dataclass(frozen=True)
class MatchRegion:
    """Open the window of a match that is returned: from last - w to first + w, both exclusive."""

    extent: Extent

    def apply(self, scan: Scan, frame: Frame) -> Iterator[Frame]:
        first, last = self.extent.of(frame)
        columns: dict[Name, Rows] = {
            Slot.OPENING: scan.reach_low[last],
            Slot.CLOSING: scan.reach_high[first],
            Slot.LAST: scan.layout.after[last],
        }
        yield frame.extended(None, columns)


@dataclass(frozen=True)
class Inside:
    """Keep the matches whose merely existing components lie in the window."""

    extent: Extent

    def apply(self, scan: Scan, frame: Frame) -> Iterator[Frame]:
        first, last = self.extent.of(frame)
        inside = (first >= frame.column(Slot.OPENING)) & (last < frame.column(Slot.CLOSING))
        yield frame if inside.all() else frame.take(np.flatnonzero(inside))
