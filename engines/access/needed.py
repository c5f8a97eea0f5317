"""Which blocks of stored events the rows of a query can depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engines.access.blocks import Int64s, Mask
from engines.access.chains import Spots, chained, within
from engines.access.lasting_spots import lasting_spots
from engines.access.ranks import Ranks
from engines.access.symbol_spots import Clock, SpotsOf, SymbolSpots
from optimizer.access.anchors import NeededEvents


@dataclass(frozen=True, eq=False)
class Part:
    """What is needed of stored events: row groups, and about how many of their rows."""

    units: Mask
    rows: float


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
    hits: list[Spots] = []
    for each, mask in chain_spots(needed, spots_of, clock):
        yield each, mask
        hits.append(each.spots.only(mask))
    if needed.near and hits:
        spots_of = clock.placed(needed, spots_of)
        low = np.concatenate([spots.low for spots in hits])
        high = np.concatenate([spots.high for spots in hits])
        for symbol in needed.near:
            each = spots_of(symbol)
            yield each, within(each.spots, Spots(low, high), clock.window(needed))


def chain_spots(
    needed: NeededEvents, spots_of: SpotsOf, clock: Clock
) -> Iterator[tuple[SymbolSpots, Mask]]:
    """The spots of symbols, and which of them events of a match may have."""
    if needed.lasting is not None:
        yield lasting_spots(needed, needed.lasting, spots_of, clock)
        return
    window, step = clock.window(needed), 1 if needed.are_ranks else clock.step
    spots_of = clock.placed(needed, spots_of)
    for reading in needed.readings:
        stages = _apart([[spots_of(symbol) for symbol in stage] for stage in reading])
        masks = chained(_spots(stages), window, step)
        for stage, own in zip(stages, masks, strict=True):
            yield from zip(stage, own, strict=True)
