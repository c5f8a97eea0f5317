"""Where events may be that queries make of their rows: around the events that rows are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engines.access.blocks import ALWAYS
from engines.access.chains import Spots
from engines.access.needed import chain_spots
from engines.access.symbol_spots import Clock, SpotsOf, SymbolSpots
from optimizer.access.anchors import NeededEvents
from optimizer.ir.pattern import Symbol


@dataclass(frozen=True, eq=False)
class MadeSpots:
    """By the type of the events what makes them; its rows are less than a window from its events.

    So the reach of a chain of queries is the sum of theirs.
    """

    makers: Mapping[str, NeededEvents]
    clock: Clock

    @staticmethod
    def of(needs: Sequence[NeededEvents], clock: Clock) -> MadeSpots:
        """Of the queries of a workload."""
        return MadeSpots({n.made: n for n in needs if n.made is not None}, clock)

    def besides(self, stored: SpotsOf) -> SpotsOf:
        """Spots of stored events, and of those that are made."""
        if not self.makers:
            return stored

        def spots_of(symbol: Symbol) -> SymbolSpots:
            maker, own = self.makers.get(symbol.type), stored(symbol)
            if maker is None:
                return own
            wide = min(self.clock.window(maker), ALWAYS)
            each = [s.only(mask) for s, mask in chain_spots(maker, spots_of, self.clock)]
            low = np.concatenate([own.spots.low, *(s.spots.low - wide for s in each)])
            high = np.concatenate([own.spots.high, *(s.spots.high + wide for s in each)])
            spots = Spots(np.maximum(low, -ALWAYS), np.minimum(high, ALWAYS))
            all_ = [own, *each]
            return SymbolSpots(
                spots,
                np.concatenate([s.unit for s in all_]),
                np.concatenate([s.first for s in all_]),
                np.concatenate([s.after for s in all_]),
            )

        return spots_of
