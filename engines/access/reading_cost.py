"""What reading row groups of stored events costs, and which of them a query needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engines.access.blocks import Int64s, Mask
from engines.access.needed import SpotsOf, needed_units
from optimizer.access.anchors import NeededEvents


@dataclass(frozen=True)
class AccessCosts:
    """Nanoseconds: of a row that is read and run over, of a row group, of an index's entry."""

    row: float
    group: float = 60_000.0
    entry: float = 60.0

    @staticmethod
    def of(columns: int) -> AccessCosts:
        """For events of which so many columns decide about queries."""
        return AccessCosts(row=60.0 + 25.0 * max(columns, 1))


@dataclass(frozen=True, eq=False)
class ReadingCost:
    """What reading row groups costs; times are in ticks of so many nanoseconds.

    Some row groups are `always` read. An event is before another where it is `step` ticks earlier.
    """

    always: Mask
    rows: Int64s
    costs: AccessCosts
    tick: int
    step: int

    def of(self, kept: Mask) -> float:
        """Nanoseconds that reading these row groups takes, and running over them."""
        return float(self.costs.row * self.rows[kept].sum() + self.costs.group * kept.sum())

    def units(self, needed: NeededEvents, spots_of: SpotsOf) -> Mask:
        """The row groups that a query needs."""
        return needed_units(needed, spots_of, len(self.rows), self.tick, self.step)

    def union(self, masks: Sequence[Mask]) -> Mask:
        """The row groups that any query needs; none where there are no queries."""
        if not masks:
            return np.zeros_like(self.always)
        found: Mask = np.logical_or.reduce([self.always, *masks])
        return found
