"""Where events of symbols may be among stored events, and what distances there are measured by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engines.access.blocks import Blocks, Int64s, Mask
from engines.access.chains import Spots
from engines.access.possible import PossibleEvents
from engines.access.ranks import Ranks
from optimizer.access.anchors import NeededEvents
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import ENDLESS


@dataclass(frozen=True, eq=False)
class SymbolSpots:
    """Where events of a symbol may be: of each such spot its row group, and its rows.

    These are from `first` to before `after`, among the rows of all files.
    """

    spots: Spots
    unit: Int64s
    first: Int64s
    after: Int64s

    def only(self, mask: Mask) -> SymbolSpots:
        """Some of them."""
        places = (self.unit[mask], self.first[mask], self.after[mask])
        return SymbolSpots(self.spots.only(mask), *places)

    @cached_property
    def are_blocks(self) -> bool:
        """Do most of them last, so that there is room for several events, one after the other?"""
        return 2 * int((self.spots.high > self.spots.low).sum()) > len(self.spots)


SpotsOf = Callable[[Symbol], SymbolSpots]


def spots_in_blocks(blocks: Blocks, possible: PossibleEvents) -> SpotsOf:
    """Spots by the statistics of blocks alone."""
    found: dict[Symbol, SymbolSpots] = {}
    alike: dict[bytes, SymbolSpots] = {}  # by the blocks

    def spots_of(symbol: Symbol) -> SymbolSpots:
        if symbol not in found:
            mask = possible.symbol(symbol)
            own = np.packbits(mask).tobytes()
            if own not in alike:
                spots = Spots(blocks.low[mask], blocks.high[mask])
                first = blocks.first[mask]
                after = first + blocks.rows[mask]
                alike[own] = SymbolSpots(spots, blocks.unit[mask], first, after)
            found[symbol] = alike[own]
        return found[symbol]

    return spots_of


@dataclass(frozen=True, eq=False)
class Clock:
    """What windows are measured by: ticks of so many nanoseconds, or the ranks of events.

    An event is before another where it is `step` ticks earlier.
    """

    tick: int
    step: int
    ranks: Ranks

    def window(self, needed: NeededEvents) -> int:
        """The window of a query, by its clock."""
        if needed.are_ranks or needed.window >= ENDLESS:
            return needed.window
        return -(-needed.window // self.tick)

    def placed(self, needed: NeededEvents, spots_of: SpotsOf) -> SpotsOf:
        """Spots by the clock of a query."""
        if not needed.are_ranks:
            return spots_of

        def by_ranks(symbol: Symbol) -> SymbolSpots:
            found = spots_of(symbol)
            return replace(found, spots=self.ranks.of(found.spots))

        return by_ranks
