"""Which blocks of stored events the rows of a query can depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engines.access.blocks import Blocks, Int64s, Mask
from engines.access.chains import Spots, chained, within
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
class Part:
    """What is needed of stored events: row groups, and about how many of their rows."""

    units: Mask
    rows: float


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


def needed_part(needed: NeededEvents, spots_of: SpotsOf, units: int, clock: Clock) -> Part:
    """Which of so many row groups a query needs, and how many rows."""
    found, rows, blocks = np.zeros(units, bool), 0, []
    for spots, mask in _needed_spots(needed, spots_of, clock):
        found[spots.unit[mask]] = True
        first, size = spots.first[mask], (spots.after - spots.first)[mask]
        single = size <= 1
        rows += int(single.sum())
        blocks.append(np.stack([first[~single], size[~single]]))
    if blocks:  # which several symbols may have
        first, size = np.concatenate(blocks, axis=1)
        rows += int(size[np.unique(first, return_index=True)[1]].sum())
    return Part(found, float(rows))


def needed_rows(
    needed: NeededEvents, spots_of: SpotsOf, clock: Clock
) -> Iterator[tuple[Int64s, Int64s]]:
    """Ranges of the rows that a query needs, which may overlap."""
    for spots, mask in _needed_spots(needed, spots_of, clock):
        yield spots.first[mask], spots.after[mask]


def come_together(
    needed: NeededEvents, spots_of: SpotsOf, kept: Mask, clock: Clock, left: Ranks
) -> bool:
    """Would events that are more than a window of events apart not be, were `kept` all there is?

    `left` are the ranks among the events of these row groups. Each event of a chain has a window's
    events around it there, so that it takes one that is in no chain of all events.
    """
    whole = clock.placed(needed, spots_of)
    for reading in needed.readings:
        stages = [[whole(symbol) for symbol in stage] for stage in reading]
        inside = [[kept[each.unit] for each in stage] for stage in stages]
        before = chained(_spots(stages), needed.window, 1)
        pruned = [
            [left.of(spots_of(symbol).spots.only(mask)) for symbol, mask in zip(s, m, strict=True)]
            for s, m in zip(reading, inside, strict=True)
        ]
        for masks, own, now in zip(before, inside, chained(pruned, needed.window, 1), strict=True):
            for mask, some, found in zip(masks, own, now, strict=True):
                if (found & ~mask[some]).any():
                    return True
    return False


def _spots(stages: Sequence[Sequence[SymbolSpots]]) -> list[list[Spots]]:
    return [[each.spots for each in stage] for stage in stages]


def _apart(stages: Sequence[Sequence[SymbolSpots]]) -> list[Sequence[SymbolSpots]]:
    """Stages without those that follow one that is in the same blocks, which say nothing more."""
    found: list[Sequence[SymbolSpots]] = []
    for stage in stages:
        same = found and len(stage) == len(found[-1]) == 1 and stage[0] is found[-1][0]
        if not (same and stage[0].are_blocks):
            found.append(stage)
    return found


def _needed_spots(
    needed: NeededEvents, spots_of: SpotsOf, clock: Clock
) -> Iterator[tuple[SymbolSpots, Mask]]:
    """The spots of symbols, and which of them a query needs."""
    window, step = clock.window(needed), 1 if needed.are_ranks else clock.step
    spots_of = clock.placed(needed, spots_of)
    hits: list[Spots] = []
    for reading in needed.readings:
        stages = _apart([[spots_of(symbol) for symbol in stage] for stage in reading])
        masks = chained(_spots(stages), window, step)
        for stage, own in zip(stages, masks, strict=True):
            for each, mask in zip(stage, own, strict=True):
                yield each, mask
                hits.append(each.spots.only(mask))
    if needed.near and hits:
        low = np.concatenate([spots.low for spots in hits])
        high = np.concatenate([spots.high for spots in hits])
        for symbol in needed.near:
            each = spots_of(symbol)
            yield each, within(each.spots, Spots(low, high), window)
