"""Snapshots of Chop-Connect: the counts of what precedes a segment, when a START of it comes.

A row stands for a START of the first segment and holds the sum over it and all later ones, so that
rows can expire from the oldest on and what is left is one look at the first. Where the query begins
with a negation the sum ends before the first START that has seen one that this START has not: if
the first START of a window has none before it in the window, then those are the others like it.
"""

from __future__ import annotations

import numba
import numpy as np

from kernels.counters import clear_counts, fill
from kernels.values import NUMBER, combine, neutral


@numba.njit(cache=True)
def sums_from(counts: np.ndarray, closed: np.ndarray, sums: np.ndarray) -> None:
    """The sums of an array from each entry to the end, or to where `closed` changes, if given."""
    zero = counts[0] - counts[0]  # of their type
    total = zero
    if closed.size == 0:
        for s in range(counts.size - 1, -1, -1):
            total += counts[s]
            sums[s] = total
        return
    last = closed[closed.size - 1]
    for s in range(counts.size - 1, -1, -1):
        if closed[s] != last:
            total, last = zero, closed[s]
        total += counts[s]
        sums[s] = total


@numba.njit(cache=True)
def values_from(kind: int, values: np.ndarray, closed: np.ndarray, sums: np.ndarray) -> None:
    """The same for values."""
    total = neutral(kind)
    for s in range(values.size - 1, -1, -1):
        if closed.size > 0 and s + 1 < values.size and closed[s] != closed[s + 1]:
            total = neutral(kind)
        total = combine(kind, total, values[s])
        sums[s] = total


@numba.njit(cache=True)
def _add_times(target: np.ndarray, source: np.ndarray, times: float) -> None:
    for s in range(target.size):
        target[s] += source[s] * times


@numba.njit(cache=True, inline="always")
def _weighted(kind: int, total: float, x: float, ways: float) -> float:
    """A value that occurs in so many ways, combined with others."""
    if ways == 0.0:
        return total
    return combine(kind, total, x * ways if kind <= NUMBER else x)


@numba.njit(cache=True)
def _spread(
    kind: int, into: np.ndarray, x: float, counts: np.ndarray, floats: np.ndarray, dual: bool
) -> None:
    """A segment's value after each of the ways that a snapshot counts."""
    for s in range(into.size):
        into[s] = _weighted(kind, into[s], x, floats[s] if dual else float(counts[s]))


@numba.njit(cache=True)
def _carry(kind: int, into: np.ndarray, values: np.ndarray, ways: float) -> None:
    """A snapshot's values before each of the ways that a segment counts."""
    for s in range(into.size):
        into[s] = _weighted(kind, into[s], values[s], ways)


@numba.njit(cache=True)
def drop_rows(kept: np.ndarray, first: int, last: int) -> None:
    """Move the rows that are still needed to the front."""
    for i in range(first, last):
        kept[i - first] = kept[i]


@numba.njit(cache=True)
def widened(table: np.ndarray, size: int) -> np.ndarray:
    """A table with more columns."""
    wider = np.empty((table.shape[0], size), np.float64)
    for row in range(table.shape[0]):
        for i in range(table.shape[1]):
            wider[row, i] = table[row, i]
    return wider


@numba.njit(cache=True)
def take(
    at: int, size: int, first_root: int, kept_from: int, end: int, before: int, head: int,
    tail: int, first_lane: int, last_lane: int, lane_kind: np.ndarray, lane_slot: np.ndarray,
    lane_before: np.ndarray, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    gate: int, closed: np.ndarray, row_start: np.ndarray, row_count: np.ndarray,
    row_place: np.ndarray, kept: np.ndarray, kept_f: np.ndarray, kept_v: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    """Write the rows of a snapshot, of the segment that ends in node `end` and those before it."""
    new = kept[at : at + size]
    new_f = kept_f[at : at + size] if dual else kept_f[:0]
    if before < 0:
        # The segment is the first one: its STARTs are those that the rows are of.
        closings = row_start[0, :0] if gate < 0 else closed[gate, head:tail]
        sums_from(counts[end, head:tail], closings, new)
        if dual:
            sums_from(floats[end, head:tail], closings, new_f)
        for i in range(first_lane, last_lane):
            into = kept_v[i - first_lane, at : at + size]
            values_from(lane_kind[i], values[lane_slot[i], head:tail], closings, into)
        return
    clear_counts(new)
    fill(new_f, 0.0)
    for i in range(first_lane, last_lane):
        fill(kept_v[i - first_lane, at : at + size], neutral(lane_kind[i]))
    for s in range(head, tail):
        gone = first_root - row_start[before, s]
        left = row_count[before, s] - gone
        ways = floats[end, s] if dual else float(counts[end, s])
        if left <= 0 or ways == 0.0:
            continue
        place = row_place[before, s] - kept_from + gone
        old = kept[place : place + left]
        _add_times(new[:left], old, counts[end, s])
        if dual:
            _add_times(new_f[:left], kept_f[place : place + left], floats[end, s])
        for i in range(first_lane, last_lane):
            into = kept_v[i - first_lane, at : at + left]
            if lane_slot[i] >= 0:
                _spread(lane_kind[i], into, values[lane_slot[i], s], old, kept_f[place:], dual)
            else:
                _carry(lane_kind[i], into, kept_v[lane_before[i], place : place + left], ways)


@numba.njit(cache=True)
def connected_value(
    kind: int, slot: int, lane: int, link: int, first_root: int, kept_from: int, end: int,
    head: int, tail: int, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    row_start: np.ndarray, row_count: np.ndarray, row_place: np.ndarray, kept: np.ndarray,
    kept_f: np.ndarray, kept_v: np.ndarray, dual: bool,
) -> float:  # fmt: skip
    """A value of a connected query: of its last segment's slot, or of a lane of its snapshots."""
    total = neutral(kind)
    for s in range(head, tail):
        gone = first_root - row_start[link, s]
        if gone >= row_count[link, s]:
            continue
        place = row_place[link, s] - kept_from + gone
        if slot >= 0:
            ways = kept_f[place] if dual else float(kept[place])
            total = _weighted(kind, total, values[slot, s], ways)
        else:
            ways = floats[end, s] if dual else float(counts[end, s])
            total = _weighted(kind, total, kept_v[lane, place], ways)
    return total
