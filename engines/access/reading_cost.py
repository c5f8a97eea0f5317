"""What reading row groups of stored events costs, and which of them a query needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engines.access.blocks import Blocks, Int64s, Mask
from engines.access.needed import Clock, SpotsOf, needed_rows, needed_units
from engines.input.row_ranges import RowRanges
from optimizer.access.anchors import NeededEvents


@dataclass(frozen=True)
class AccessCosts:
    """Nanoseconds: of a row that is read and run over, of a row group, of an index's entry.

    Of a row, the part `decoded` is for reading it.
    """

    row: float
    group: float = 60_000.0
    entry: float = 40.0
    decoded: float = 0.33

    @staticmethod
    def of(columns: int) -> AccessCosts:
        """For events of which so many columns decide about queries."""
        return AccessCosts(row=36.0 + 13.0 * max(columns, 1))


@dataclass(frozen=True, eq=False)
class ReadingCost:
    """What reading row groups costs, of which some are `always` read."""

    always: Mask
    rows: Int64s
    costs: AccessCosts
    clock: Clock

    def of(self, kept: Mask) -> float:
        """Nanoseconds that reading these row groups takes, and running over them."""
        return float(self.costs.row * self.rows[kept].sum() + self.costs.group * kept.sum())

    def units(self, needed: NeededEvents, spots_of: SpotsOf) -> Mask:
        """The row groups that a query needs."""
        return needed_units(needed, spots_of, len(self.rows), self.clock)

    def rows_of(
        self, needs: Sequence[NeededEvents], spots_of: SpotsOf, blocks: Blocks, most: float
    ) -> RowRanges | None:
        """The rows that any query needs, among those of all files; None where that is `most`."""
        always = blocks.first[blocks.always]
        found = [(always, always + blocks.rows[blocks.always])]
        for needed in needs:
            for first, after in needed_rows(needed, spots_of, self.clock):
                found.append((first, after))
                if (after - first).sum() > most:  # of spots of one symbol, which are apart
                    return None
        rows = RowRanges.union(found)
        return None if len(rows) > most else rows

    def union(self, masks: Sequence[Mask]) -> Mask:
        """The row groups that any query needs; none where there are no queries."""
        if not masks:
            return np.zeros_like(self.always)
        found: Mask = np.logical_or.reduce([self.always, *masks])
        return found
