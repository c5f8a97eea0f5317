"""Negations: the moment that one next to a row names, and whether one is in a row's gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engines.columns.vectors import Mask
from engines.trees.buffers import Buffer, Moments, paired
from engines.trees.conditions import NO_GATE, kept
from engines.trees.picked import Picked
from engines.trees.regions import before, behind, closing, opening, region
from engines.trees.search import Found, Search, pairs_between
from kernels import joins
from optimizer.physical.joins import Gap, Inside
from optimizer.trees.tree import Side


def gates(search: Search, side: Side, width: int) -> tuple[Moments | None, Moments | None, int]:
    """What a negation to the left or right of rows leaves: the earliest moment that what is left
    of it must end at, or the latest that what is right of it can start at; and rows tried."""
    picked, part = search.picked, search.part
    # What is outside of the window rules nothing out, and is no more to look through where nothing
    # is tested; then the moments of left rows ascend with them.
    if side == "left":
        if search.conditions:
            start = opening(picked, part, width)
        else:
            start = np.zeros(len(part), np.int32)
        found, tried = search.latest(start, before(picked, part.first))
        return _moments(picked, found, latest=True), None, tried
    if search.conditions:
        end = closing(picked, part, width)
    else:
        end = np.full(len(part), len(picked), np.int32)
    found, tried = search.earliest(behind(picked, part.last), end)
    return None, _moments(picked, found, latest=False), tried


def latest_rows(picked: Picked, parts: Sequence[Buffer], width: int) -> tuple[Buffer, int]:
    """The rows of `Latest`, from single events of each part; and how many events were tried.

    One pass over each two parts: what starts latest before an event is the last that ends there.
    """
    first, last, tried = parts[0].first, parts[0].last, 0
    for part in parts[1:]:
        gate = NO_GATE if part.earliest is None else part.earliest
        found = picked.kernels.latest_starts(
            picked.moment, picked.position, first, last, part.last, gate, width
        )
        tried += len(part)
        fits = found >= 0
        first, last = found[fits], part.last[fits]
    if len(first):
        other = np.append(True, first[1:] != first[:-1])
        first, last = first[other], last[other]
    return Buffer((first, last), first, last), tried


def free(search: Search, gap: Gap, width: int) -> tuple[Buffer, int]:
    """The rows in whose gap there is nothing of a negation; and how many of its rows were tried."""
    found, tried = search.earliest(*region(search.picked, search.part, gap, width))
    return _those(search.part, found == joins.NOWHERE), tried


def followed(search: Search, width: int) -> tuple[Buffer, int]:
    """The rows that one of the others follows in their window; and how many were tried."""
    picked, part = search.picked, search.part
    found, tried = search.earliest(behind(picked, part.last), closing(picked, part, width))
    return _those(part, found < joins.NOWHERE), tried


def shortened(search: Search, gap: Gap, width: int) -> tuple[Buffer, int]:
    """Rows with the moments of the last of a negation that starts before them, and of the first
    that ends behind them; not those that every window of theirs holds. And how many were tried."""
    picked, part = search.picked, search.part
    low, high = region(picked, part, gap, width)
    if not gap.anywhere and gap.before is None:
        found, tried = search.latest(low, high)
        return part.gated(_moments(picked, found, latest=True), None), tried
    if not gap.anywhere:
        found, tried = search.earliest(low, high)
        return part.gated(None, _moments(picked, found, latest=False)), tried
    found, tried = search.latest(low, high)
    since = _moments(picked, found, latest=True)
    found, more = search.earliest(high, closing(picked, part, width))
    rows = part.gated(since, _moments(picked, found, latest=False))
    # What is simultaneous with a part of the match, or between, is in every window of it.
    return _those(rows, since < picked.moment[part.first]), tried + more


def inside(
    picked: Picked, part: Buffer, negation: Buffer | None, within: Inside, width: int, chunk: int
) -> Iterator[Buffer]:
    """The rows of `Inside`; their moments are the places that their gap begins and ends at."""
    low, high = region(picked, part, within.gap, width)
    ends = low.astype(np.int64), high.astype(np.int64)
    if negation is None:
        number = np.arange(len(part), dtype=np.int32)
        yield Buffer((*part.columns, number), part.first, part.last, *ends)
        return
    own = len(part.columns)
    for owner, rows in pairs_between(picked, negation, low, high, chunk):
        columns = paired(part, owner, negation, rows)
        pairs = Buffer(
            (*columns[:own], owner.astype(np.int32), *columns[own:]),
            negation.first[rows],
            negation.last[rows],
            ends[0][owner],
            ends[1][owner],
        )
        yield kept(within.conditions, picked, pairs)


def _moments(picked: Picked, found: Found, latest: bool) -> Moments:
    """The moments of places that a search gives."""
    some = found >= 0 if latest else found < joins.NOWHERE
    none = joins.NEVER if latest else joins.FOREVER
    return np.where(some, picked.moment[np.where(some, found, 0)], none)


def _those(rows: Buffer, kept_ones: Mask) -> Buffer:
    return rows if kept_ones.all() else rows.take(np.flatnonzero(kept_ones))
