"""Where conditions hold for a while that can be related: whole stretches of blocks with their ends.

A stretch has blocks in which one of a query's conditions may hold, as long as nothing surely ends
it: an event of a block in which none can hold, or silence. What holds in one stretch has ended
before the next, so that the stretches of a match are looked for like events of a pattern `AND`, and
the others need not be read.
"""

from __future__ import annotations

import numpy as np

from engines.access.blocks import ALWAYS, Int64s, Mask
from engines.access.chains import Spots, chained
from engines.access.symbol_spots import Clock, SpotsOf, SymbolSpots
from optimizer.access.anchors import Lasting, NeededEvents
from optimizer.ir.pattern import ANY


def lasting_spots(
    needed: NeededEvents, lasting: Lasting, spots_of: SpotsOf, clock: Clock
) -> tuple[SymbolSpots, Mask]:
    """All blocks, and which of them are in stretches of a match or have what ends these."""
    every = spots_of(ANY)
    ((stage,),) = needed.readings
    held = {symbol: _blocks(every, spots_of(symbol)) for symbol in stage}
    live = np.logical_or.reduce([*held.values()])
    found = np.zeros(len(live), bool)
    order = np.flatnonzero(live)
    if not len(order):
        return every, found
    low, high = every.spots.low, every.spots.high
    order = order[np.argsort(low[order], kind="stable")]
    last = np.maximum.accumulate(high[order])
    reach = _reach(every.spots.only(~live), last, lasting, clock.tick)
    starts = np.ones(len(order), bool)
    starts[1:] = low[order][1:] > reach[:-1]
    begin = np.flatnonzero(starts)
    end = np.append(begin[1:], len(order)) - 1
    stretches = Spots(low[order][begin], last[end])
    inside = {symbol: np.logical_or.reduceat(held[symbol][order], begin) for symbol in stage}
    masks = chained(
        [[stretches.only(inside[symbol]) for symbol in stage]], clock.window(needed), clock.step
    )
    hits = np.zeros(len(begin), bool)
    for symbol, mask in zip(stage, masks[0], strict=True):
        hits[np.flatnonzero(inside[symbol])[mask]] = True
    if hits.any():
        first, until = stretches.low[hits], reach[end][hits]
        place = np.searchsorted(first, high, "right") - 1
        found = (place >= 0) & (until[np.maximum(place, 0)] >= low)
    return every, found


def _blocks(every: SymbolSpots, spots: SymbolSpots) -> Mask:
    """Which of all blocks have one of the spots."""
    found = np.zeros(len(every.spots), bool)
    found[np.searchsorted(every.first, spots.first, "right") - 1] = True
    return found


def _reach(dead: Spots, last: Int64s, lasting: Lasting, tick: int) -> Int64s:
    """The time up to which something ends what held up to a `last` time at the latest.

    `dead` are blocks whose events end all that holds.
    """
    found = np.minimum(last + min(-(-lasting.gap // tick), ALWAYS), ALWAYS)
    if not lasting.by_next:
        return found
    order = np.argsort(dead.low, kind="stable")
    earliest = np.minimum.accumulate(dead.high[order][::-1])[::-1]
    place = np.searchsorted(dead.low[order], last, "right")
    ends = np.append(earliest, ALWAYS)[place]
    latest: Int64s = np.maximum(found, ends)
    return latest
