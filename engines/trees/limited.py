"""Keeping to a limit on partial matches: how many there are at once, and which are the oldest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engines.columns.vectors import Mask
from engines.trees.buffers import Buffer, Moments
from engines.trees.picked import Picked
from kernels import joins


def most_at_once(picked: Picked, rows: Buffer, width: int) -> int:
    """How many rows of one partition there are at the same time: from their last event until
    their window has closed."""
    if not len(rows):
        return 0
    # Positions of partitions are more than a window apart, so a row of another has left.
    leaving = np.sort(picked.position[rows.first] + width)
    left = np.searchsorted(leaving, picked.position[rows.last], "right")
    return int((np.arange(1, len(rows) + 1) - left).max())


def kept_since(picked: Picked, held: Buffer, comers: Buffer, most: int) -> Moments:
    """For each row that comes the moment at which the oldest row that is still held ended.

    Held are the latest `most` rows of those that end before it.
    """
    ended = picked.moment[held.last]
    before = np.searchsorted(ended, picked.moment[comers.last]) - most
    # The row may be one of another partition, and is then before all that matters.
    return np.where(before < 0, joins.NEVER, ended[np.maximum(before, 0)])


def gone(
    picked: Picked,
    held: Buffer,
    rows: npt.NDArray[np.integer],
    comers: Buffer,
    others: npt.NDArray[np.integer],
    most: int,
) -> Mask:
    """The pairs whose row of `held` was given up before the other one came."""
    ended, came = picked.moment[held.last[rows]], picked.moment[comers.last[others]]
    since = kept_since(picked, held, comers, most)[others]
    found: Mask = (ended < came) & (ended < since)
    return found


def dropped(picked: Picked, held: Buffer, width: int, most: int, since: int) -> int:
    """How many rows are given up for later ones, from a place on, while their window is open."""
    if len(held) <= most:
        return 0
    old_last, new_last = held.last[:-most], held.last[most:]
    given_up = picked.position[new_last] < picked.position[held.first[:-most]] + width
    given_up &= picked.moment[old_last] < picked.moment[new_last]
    given_up &= new_last >= since
    return int(np.count_nonzero(given_up))
