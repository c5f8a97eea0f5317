"""Which blocks of stored events the rows of a query can depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engines.access.blocks import Blocks, Int64s, Mask
from engines.access.chains import Spots, chained, within
from engines.access.possible import PossibleEvents
from optimizer.access.anchors import NeededEvents
from optimizer.ir.pattern import Symbol


@dataclass(frozen=True, eq=False)
class SymbolSpots:
    """Where events of a symbol may be, and the row group of each such spot."""

    spots: Spots
    unit: Int64s


SpotsOf = Callable[[Symbol], SymbolSpots]


def spots_in_blocks(blocks: Blocks, possible: PossibleEvents) -> SpotsOf:
    """Spots by the statistics of blocks alone."""
    found: dict[Symbol, SymbolSpots] = {}

    def spots_of(symbol: Symbol) -> SymbolSpots:
        if symbol not in found:
            mask = possible.symbol(symbol)
            spots = Spots(blocks.low[mask], blocks.high[mask])
            found[symbol] = SymbolSpots(spots, blocks.unit[mask])
        return found[symbol]

    return spots_of


def needed_units(needed: NeededEvents, spots_of: SpotsOf, units: int, tick: int, step: int) -> Mask:
    """Which of so many row groups a query needs; times are in ticks of so many nanoseconds."""
    window = -(-needed.window // tick)
    found = np.zeros(units, bool)
    hits: list[Spots] = []
    for reading in needed.readings:
        stages = [[spots_of(symbol) for symbol in stage] for stage in reading]
        masks = chained([[each.spots for each in stage] for stage in stages], window, step)
        for stage, own in zip(stages, masks, strict=True):
            for each, mask in zip(stage, own, strict=True):
                found[each.unit[mask]] = True
                hits.append(Spots(each.spots.low[mask], each.spots.high[mask]))
    if needed.near and hits:
        low = np.concatenate([spots.low for spots in hits])
        high = np.concatenate([spots.high for spots in hits])
        for symbol in needed.near:
            each = spots_of(symbol)
            found[each.unit[within(each.spots, Spots(low, high), window)]] = True
    return found
