"""Negations: the moment that one next to a row names, and whether one is in a row's gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.joins.frame import ranges
from engines.trees.buffers import Buffer, Moments
from engines.trees.conditions import holds, prepare
from engines.trees.operators import Conditions, Gap
from engines.trees.picked import Picked, Places
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
        low, high = _opening(picked, part, width), _before(picked, part.first)
        found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=True)
        some = found >= 0
        moments = np.where(some, picked.moment[np.where(some, found, 0)], joins.NEVER)
        return moments, None, tried
    low, high = _behind(picked, part.last), _closing(picked, part, width)
    found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=False)
    some = found < joins.NOWHERE
    moments = np.where(some, picked.moment[np.where(some, found, 0)], joins.FOREVER)
    return None, moments, tried


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
    if gap.before is None:
        low = _opening(picked, part, width)
    else:
        low = _behind(picked, _largest([part.columns[i] for i in gap.before]))
    if gap.after is not None:
        high = _before(picked, _smallest([part.columns[i] for i in gap.after]))
    elif gap.anywhere:
        high = _behind(picked, part.last)
    else:
        high = _closing(picked, part, width)
    found, tried = _find(picked, part, negation, low, high, conditions, chunk, latest=False)
    absent = found == joins.NOWHERE
    return (part if absent.all() else part.take(np.flatnonzero(absent))), tried


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
        return joins.probe(
            ready.left, ready.groups, low, high, ready.right.values, ready.group, ready.tests,
            latest,
        )  # fmt: skip
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
    start = joins.places_from(negation.last, low).astype(np.int64)
    sizes = np.maximum(joins.places_from(negation.last, high) - start, 0)
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
    columns = (*(c[owner] for c in part.columns), *(c[rows] for c in negation.columns))
    return Buffer(columns, part.first[owner], part.last[owner])


def _opening(picked: Picked, part: Buffer, width: int) -> Places:
    """The first place in the window that ends with a row."""
    return joins.places_from(picked.position, picked.position[part.last] - width + 1)


def _closing(picked: Picked, part: Buffer, width: int) -> Places:
    """The place behind the window that starts with a row."""
    return joins.places_from(picked.position, picked.position[part.first] + width)


def _before(picked: Picked, places: Places) -> Places:
    """The place behind all that is before an event."""
    return joins.places_from(picked.moment, picked.moment[places])


def _behind(picked: Picked, places: Places) -> Places:
    """The first place of what an event is before."""
    return joins.places_from(picked.moment, picked.moment[places] + 1)


def _largest(columns: Sequence[Places]) -> Places:
    found = columns[0]
    for column in columns[1:]:
        found = np.maximum(found, column)
    return found


def _smallest(columns: Sequence[Places]) -> Places:
    found = columns[0]
    for column in columns[1:]:
        found = np.minimum(found, column)
    return found
