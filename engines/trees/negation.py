"""Negations: the moment that one next to a row names, and whether one is in a row's gap."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engines.columns.grouped import ranges
from engines.trees.buffers import Buffer, Moments, paired
from engines.trees.conditions import holds, prepare
from engines.trees.operators import Conditions, Gap
from engines.trees.picked import Picked, Places
from engines.trees.regions import before, behind, closing, opening, region
from kernels import joins
from optimizer.trees.tree import Side

Found = npt.NDArray[Any]


def gates(
    picked: Picked,
    part: Buffer,
    negation: Buffer,
    side: Side,
    conditions: Conditions,
    width: int,
    chunk: int,
) -> tuple[Moments | None, Moments | None, int]:
    """What a negation to the left or right of rows leaves: the earliest moment that what is left
    of it must end at, or the latest that what is right of it can start at; and rows tried."""
    if side == "left":
        low, high = opening(picked, part, width), before(picked, part.first)
        found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=True)
        return _moments(picked, found, latest=True), None, tried
    low, high = behind(picked, part.last), closing(picked, part, width)
    found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=False)
    return None, _moments(picked, found, latest=False), tried


def free(
    picked: Picked,
    part: Buffer,
    negation: Buffer,
    gap: Gap,
    conditions: Conditions,
    width: int,
    chunk: int,
) -> tuple[Buffer, int]:
    """The rows in whose gap there is nothing of a negation; and how many of its rows were tried."""
    low, high = region(picked, part, gap, width)
    found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=False)
    absent = found == joins.NOWHERE
    return (part if absent.all() else part.take(np.flatnonzero(absent))), tried


def shortened(
    picked: Picked,
    part: Buffer,
    negation: Buffer,
    gap: Gap,
    conditions: Conditions,
    width: int,
    chunk: int,
) -> tuple[Buffer, int]:
    """Rows with the moments of the last of a negation that starts before them, and of the first
    that ends behind them; not those that every window of theirs holds. And how many were tried."""
    low, high = region(picked, part, gap, width)
    if not gap.anywhere:
        latest = gap.before is None
        found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest)
        moments = _moments(picked, found, latest)
        return part.gated(*((moments, None) if latest else (None, moments))), tried
    before, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=True)
    after, more = _find(
        picked, part, negation, high, closing(picked, part, width), conditions, chunk, latest=False
    )
    since = _moments(picked, before, latest=True)
    rows = part.gated(since, _moments(picked, after, latest=False))
    # What is simultaneous with a part of the match, or between, is in every window of it.
    held = since >= picked.moment[part.first]
    return (rows.take(np.flatnonzero(~held)) if held.any() else rows), tried + more


def _moments(picked: Picked, found: Found, latest: bool) -> Moments:
    """The moments of places that `_find` gives."""
    some = found >= 0 if latest else found < joins.NOWHERE
    none = joins.NEVER if latest else joins.FOREVER
    return np.where(some, picked.moment[np.where(some, found, 0)], none)


def followed(
    picked: Picked, part: Buffer, last: Buffer, conditions: Conditions, width: int, chunk: int
) -> tuple[Buffer, int]:
    """The rows that one of `last` follows in their window; and how many of those were tried."""
    low, high = behind(picked, part.last), closing(picked, part, width)
    found, tried = _find(picked, part, last, low, high, conditions, chunk, latest=False)
    there = found < joins.NOWHERE
    return (part if there.all() else part.take(np.flatnonzero(there))), tried


def _find(
    picked: Picked,
    part: Buffer,
    negation: Buffer,
    low: Places,
    high: Places,
    conditions: Conditions,
    chunk: int,
    latest: bool,
) -> tuple[Found, int]:
    """As `kernels.joins.probe`, under any conditions."""
    if not len(part) or not len(negation):
        return np.full(len(part), -1 if latest else joins.NOWHERE, np.int32), 0
    ready = prepare(picked, negation, part, conditions, swapped=True)
    if not ready.rest:
        found: tuple[Found, int] = picked.kernels.probe(
            ready.left, ready.groups, low, high, ready.right.values, ready.group, ready.tests,
            latest,
        )  # fmt: skip
        return found
    return _find_by_pairs(picked, part, negation, low, high, conditions, chunk, latest)


def _find_by_pairs(
    picked: Picked,
    part: Buffer,
    negation: Buffer,
    low: Places,
    high: Places,
    conditions: Conditions,
    chunk: int,
    latest: bool,
) -> tuple[Found, int]:
    found = np.full(len(part), -1 if latest else joins.NOWHERE, np.int32)
    start = picked.kernels.places_from(negation.last, low).astype(np.int64)
    sizes = np.maximum(picked.kernels.places_from(negation.last, high) - start, 0)
    total = np.cumsum(sizes)
    first, done = 0, 0
    while first < len(part):
        behind = max(first + 1, int(np.searchsorted(total, done + chunk, "right")))
        owner = np.repeat(np.arange(first, behind), sizes[first:behind])
        rows = ranges(start[first:behind], sizes[first:behind])
        inside = negation.first[rows] >= low[owner]
        owner, rows = owner[inside], rows[inside]
        for condition in conditions:
            if len(owner):
                pairs = _paired(part, owner, negation, rows)
                fits = holds(condition, picked, pairs)
                owner, rows = owner[fits], rows[fits]
        if latest:
            np.maximum.at(found, owner, negation.first[rows])
        else:
            np.minimum.at(found, owner, negation.last[rows])
        first, done = behind, int(total[behind - 1])
    return found, int(total[-1])


def _paired(part: Buffer, owner: Found, negation: Buffer, rows: Found) -> Buffer:
    columns = paired(part, owner, negation, rows)
    return Buffer(columns, part.first[owner], part.last[owner])
