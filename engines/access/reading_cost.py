"""What reading row groups of stored events costs, and which of them a query needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from engines.access.blocks import Blocks, Int64s, Mask
from engines.access.needed import Part, needed_part, needed_rows
from engines.access.symbol_spots import Clock, SpotsOf
from engines.input.row_ranges import RowRanges
from optimizer.access.anchors import NeededEvents
from optimizer.ir.pattern import Event
from optimizer.ir.query import Query


@dataclass(frozen=True)
class AccessCosts:
    """Nanoseconds of CPU: of decoding a row, of running over one, and of opening a row group.

    A probe costs an `entry` for each entry of an index that is read, and for each that it finds,
    `found`, as these are sorted and chains looked for among them.
    """

    decode: float
    run: float
    group: float = 60_000.0
    entry: float = 55.0
    found: float = 220.0

    @staticmethod
    def of(columns: int, queries: Iterable[Query]) -> AccessCosts:
        """For events of so many columns that are read for these queries."""
        run = sum(8.0 if isinstance(query.pattern, Event) else 45.0 for query in queries)
        return AccessCosts(6.0 + 9.0 * columns, 26.0 + run)


@dataclass(frozen=True, eq=False)
class ReadingCost:
    """What reading row groups costs, of which some are `always` read.

    Where it can be told which rows queries need, only these are gone on with.
    """

    always: Mask
    rows: Int64s
    costs: AccessCosts
    clock: Clock
    leaves_rows: bool = True

    def of(self, units: Mask, rows: float = float("inf")) -> float:
        """Nanoseconds that reading these row groups takes, and running over so many rows."""
        own = float(self.rows[units].sum())
        gone_on = min(own, rows) if self.leaves_rows else own
        decoding = self.costs.decode * own + self.costs.group * float(units.sum())
        return decoding + self.costs.run * gone_on

    def part(self, needed: NeededEvents, spots_of: SpotsOf) -> Part:
        """The row groups that a query needs, and how many of their rows."""
        return needed_part(needed, spots_of, len(self.rows), self.clock)

    def of_parts(self, parts: Sequence[Part]) -> float:
        """Nanoseconds for what several queries need."""
        return self.of(self.union([part.units for part in parts]), sum(p.rows for p in parts))

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
