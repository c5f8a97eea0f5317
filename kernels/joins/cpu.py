"""Joins of buffers: pairs of partial matches that follow each other, or stand in one window.

An event is a place in the order of all that is looked at. `moment` of a place is equal for
simultaneous events and grows with the order; `position` is its time, or its rank, shifted so that
partitions are more than a window apart. Both ascend with the place.

A buffer is a set of rows, each with the places of its `first` and `last` event, sorted by `last`.
The rows of the outer loop (`right`) look for those of the inner one (`left`), which may be sorted
into groups first: only the rows of one group are tried. A join is two passes: `count_pairs`, and
behind a prefix sum `fill_pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

NEVER, FOREVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NOWHERE = np.iinfo(np.int32).max
# How the value of a left row must stand to that of a right one; NaN stands to nothing.
EQUAL, DIFFERENT, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)


class Side(NamedTuple):
    """Rows of a buffer as a join sees them.

    `gate` is empty, or has for each row the moment that a negation next to it names: of a left row
    the latest that a right row may start at, of a right row the earliest that a left one may end.
    What gates of right rows rule out is not tried, nor what gates of left rows do that ascend.
    `values[t]` are what comparison t looks at; NaN for null.
    """

    first: np.ndarray
    last: np.ndarray
    gate: np.ndarray
    values: np.ndarray


class Pairs(NamedTuple):
    """What the first pass finds: for each right row where its left rows begin and end, and how
    many of them fit; and how many pairs were tried for that."""

    begin: np.ndarray
    end: np.ndarray
    counts: np.ndarray
    tried: int


def count_pairs(
    moment: np.ndarray,
    position: np.ndarray,
    left: Side,
    groups: np.ndarray,
    right: Side,
    group: np.ndarray,
    tests: np.ndarray,
    width: int,
    ordered: bool,
) -> Pairs:
    """How many left rows fit each right row.

    In the same window: the last place less the first is below `width`. With `ordered` all of the
    left row is before the right one, and the gates hold. Group g of the left rows is
    `groups[g] : groups[g + 1]`; `group` is that of each right row, negative for none.
    """
    begin, end, counts, tried = _count(
        moment, position, *left, groups, *right, group, tests, width, ordered,
        left.first is left.last,
    )  # fmt: skip
    return Pairs(begin, end, counts, int(tried))


def fill_pairs(
    moment: np.ndarray,
    position: np.ndarray,
    left: Side,
    right: Side,
    tests: np.ndarray,
    width: int,
    ordered: bool,
    pairs: Pairs,
    start: int,
    stop: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of the right rows from `start` to before `stop`, by right row and then by left."""
    total = int(pairs.counts[start:stop].sum())
    rows, others = np.empty(total, np.int32), np.empty(total, np.int32)
    _fill(
        moment, position, *left, *right, tests, width, ordered, left.first is left.last,
        pairs.begin, pairs.end, start, stop, rows, others,
    )  # fmt: skip
    return rows, others


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    place, moment = np.zeros(1, np.int32), np.zeros(1, np.int64)
    side = Side(place, place, np.zeros(0, np.int64), np.zeros((0, 1)))
    groups, tests = np.array([0, 1]), np.zeros(0, np.int8)
    pairs = count_pairs(moment, moment, side, groups, side, place, tests, 1, True)
    fill_pairs(moment, moment, side, side, tests, 1, True, pairs, 0, 1)
    probe(side, groups, place, place, side.values, place, tests, True)
    latest_starts(moment, moment, place, place, place, moment, 1)
    for keys in (place, moment):
        places_from(place, keys)
    places_from(moment, moment)
    codes, _, count = match_codes(moment, moment == 0, moment, moment == 0)
    group_rows(codes, count)


@numba.njit(cache=True, inline="always")
def _holds(test: int, a: float, b: float) -> bool:
    if test == 0:
        return a == b
    if test == 1:
        return a < b or a > b
    if test == 2:
        return a < b
    if test == 3:
        return a <= b
    if test == 4:
        return a > b
    return a >= b


@numba.njit(cache=True)
def _first_from(order: np.ndarray, last: np.ndarray, low: int, high: int, key: int) -> int:
    """The first row between two whose last event's `order` is `key` or more."""
    while low < high:
        middle = (low + high) // 2
        if order[last[middle]] < key:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def _gate_from(gate: np.ndarray, low: int, high: int, key: int) -> int:
    """The first row between two whose gate is `key` or more: looked for from the last one back, for
    what an event negates is mostly near."""
    step = 1
    while high - step >= low and gate[high - step] >= key:
        high -= step
        step *= 2
    low = max(low, high - step + 1)
    while low < high:
        middle = (low + high) // 2
        if gate[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(nogil=True, cache=True)
def ascends(gate: np.ndarray, groups: np.ndarray) -> bool:
    """Do the gates of left rows ascend in every group, so that a right row can look for the first
    that lets it through? They do where no condition chooses what is negated."""
    for g in range(groups.size - 1):
        for k in range(groups[g] + 1, groups[g + 1]):
            if gate[k] < gate[k - 1]:
                return False
    return True


# Arrays are passed one by one: a tuple of them handed to an inner function costs more than what
# the function does.


@numba.njit(nogil=True, cache=True)
def _count(
    moment: np.ndarray, position: np.ndarray, left_first: np.ndarray, left_last: np.ndarray,
    left_gate: np.ndarray, left_values: np.ndarray, groups: np.ndarray, right_first: np.ndarray,
    right_last: np.ndarray, right_gate: np.ndarray, right_values: np.ndarray, group: np.ndarray,
    tests: np.ndarray, width: int, ordered: bool, single: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:  # fmt: skip
    size = right_last.size
    begin, end = np.zeros(size, np.int32), np.zeros(size, np.int32)
    counts = np.zeros(size, np.int64)
    tried = 0
    # Right rows come by their end, so the left rows of a group that are too early stay so, and
    # those that end before the right row's end only become more.
    low, high = groups[:-1].copy(), groups[:-1].copy()
    gated = ordered and left_gate.size > 0
    rising = gated and ascends(left_gate, groups)
    for r in range(size):
        g = group[r] if group.size else 0
        if g < 0:
            continue
        opening = position[right_last[r]] - width
        start = moment[right_first[r]]
        bottom, top, stop = low[g], high[g], groups[g + 1]
        while bottom < stop and position[left_last[bottom]] <= opening:
            bottom += 1
        low[g] = bottom
        top = max(top, bottom)
        if ordered:
            final = moment[right_last[r]]
            while top < stop and moment[left_last[top]] < final:
                top += 1
            high[g] = top
            if start < final:
                top = _first_from(moment, left_last, bottom, top, start)
            if right_gate.size and bottom < top:
                bottom = _first_from(moment, left_last, bottom, top, right_gate[r])
            if rising and bottom < top:
                bottom = _gate_from(left_gate, bottom, top, start)
        else:
            closing = position[right_first[r]] + width
            final = position[right_last[r]] + width
            while top < stop and position[left_last[top]] < final:
                top += 1
            high[g] = top
            if closing < final:
                top = _first_from(position, left_last, bottom, top, closing)
        begin[r], end[r] = bottom, top
        tried += top - bottom
        if single and (rising or not gated) and tests.size == 0:
            counts[r] = top - bottom
            continue
        fitting = 0
        for k in range(bottom, top):
            fits = single or position[left_first[k]] > opening
            if gated and left_gate[k] < start:
                fits = False
            for t in range(tests.size):
                if not fits:
                    break
                fits = _holds(tests[t], left_values[t, k], right_values[t, r])
            fitting += fits
        counts[r] = fitting
    return begin, end, counts, tried


@numba.njit(nogil=True, cache=True)
def _fill(
    moment: np.ndarray, position: np.ndarray, left_first: np.ndarray, left_last: np.ndarray,
    left_gate: np.ndarray, left_values: np.ndarray, right_first: np.ndarray,
    right_last: np.ndarray, right_gate: np.ndarray, right_values: np.ndarray, tests: np.ndarray,
    width: int, ordered: bool, single: bool, begin: np.ndarray, end: np.ndarray, first: int,
    behind: int, rows: np.ndarray, others: np.ndarray,
) -> None:  # fmt: skip
    at = 0
    gated = ordered and left_gate.size > 0
    for r in range(first, behind):
        if begin[r] >= end[r]:
            continue
        opening = position[right_last[r]] - width
        start = moment[right_first[r]]
        for k in range(begin[r], end[r]):
            fits = single or position[left_first[k]] > opening
            if gated and left_gate[k] < start:
                fits = False
            for t in range(tests.size):
                if not fits:
                    break
                fits = _holds(tests[t], left_values[t, k], right_values[t, r])
            if fits:
                rows[at], others[at] = k, r
                at += 1


def probe(
    left: Side,
    groups: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    values: np.ndarray,
    group: np.ndarray,
    tests: np.ndarray,
    latest: bool,
) -> tuple[np.ndarray, int]:
    """For each region of places from `low` to before `high` a left row that lies wholly in it.

    With `latest` the place that the last to start of these starts at, -1 for none; else the place
    that the first to end ends at, `NOWHERE` for none. And how many rows were tried. Groups, values
    and tests are as in `count_pairs`; the regions are the right rows.
    """
    found = np.full(low.size, -1 if latest else NOWHERE, np.int32)
    tried = _probe(
        left.first, left.last, left.values, groups, low, high, values, group, tests, latest, found
    )
    return found, int(tried)


@numba.njit(cache=True)
def _place_from(last: np.ndarray, low: int, high: int, guess: int, key: int) -> int:
    """The first row between two whose last place is `key` or more, looked for around a guess."""
    guess = min(max(guess, low), high)
    step = 1
    if guess < high and last[guess] < key:
        low = guess + 1
        while low + step < high and last[low + step] < key:
            low += step + 1
            step *= 2
        high = min(high, low + step)
    else:
        high = guess
        while high - step > low and last[high - step] >= key:
            high -= step
            step *= 2
        low = max(low, high - step)
    while low < high:
        middle = (low + high) // 2
        if last[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(nogil=True, cache=True)
def _probe(
    first: np.ndarray, last: np.ndarray, left_values: np.ndarray, groups: np.ndarray,
    low: np.ndarray, high: np.ndarray, values: np.ndarray, group: np.ndarray, tests: np.ndarray,
    latest: bool, found: np.ndarray,
) -> int:  # fmt: skip
    tried = 0
    guess = groups[:-1].copy()
    for r in range(low.size):
        g = group[r] if group.size else 0
        if g < 0 or low[r] >= high[r]:
            continue
        bottom, top = groups[g], groups[g + 1]
        if latest:
            k = _place_from(last, bottom, top, guess[g], high[r])
            guess[g] = k
            best = low[r] - 1
            k -= 1
            # What ends before the best start found cannot start later.
            while k >= bottom and last[k] > best:
                tried += 1
                if first[k] > best:
                    fits = True
                    for t in range(tests.size):
                        if not _holds(tests[t], left_values[t, k], values[t, r]):
                            fits = False
                            break
                    if fits:
                        best = first[k]
                k -= 1
            if best >= low[r]:
                found[r] = best
        else:
            k = _place_from(last, bottom, top, guess[g], low[r])
            guess[g] = k
            while k < top and last[k] < high[r]:
                tried += 1
                fits = first[k] >= low[r]
                for t in range(tests.size):
                    if not fits:
                        break
                    fits = _holds(tests[t], left_values[t, k], values[t, r])
                if fits:
                    found[r] = last[k]
                    break
                k += 1
    return tried


def latest_starts(
    moment: np.ndarray,
    position: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    places: np.ndarray,
    gate: np.ndarray,
    width: int,
) -> np.ndarray:
    """For each place where the last row before it starts; -1 where that does not fit.

    Rows and places ascend, and rows that end later start no earlier. A row fits that starts in the
    window of the place, and does not end before its `gate`, where there are any.
    """
    found = np.full(places.size, -1, np.int32)
    _latest_starts(moment, position, first, last, places, gate, width, found)
    return found


@numba.njit(nogil=True, cache=True)
def _latest_starts(
    moment: np.ndarray, position: np.ndarray, first: np.ndarray, last: np.ndarray,
    places: np.ndarray, gate: np.ndarray, width: int, found: np.ndarray,
) -> None:  # fmt: skip
    behind = 0
    for i in range(places.size):
        now = moment[places[i]]
        while behind < last.size and moment[last[behind]] < now:
            behind += 1
        row = behind - 1
        if row < 0 or position[places[i]] - position[first[row]] >= width:
            continue
        if gate.size == 0 or moment[last[row]] >= gate[i]:
            found[i] = first[row]


def places_from(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """For each key the first place whose value is as large; quick where keys hardly descend."""
    found = np.empty(keys.size, np.int32)
    _places_from(values, keys, found)
    return found


@numba.njit(nogil=True, cache=True)
def _places_from(values: np.ndarray, keys: np.ndarray, found: np.ndarray) -> None:
    guess = 0
    for i in range(keys.size):
        guess = _place_from(values, 0, values.size, guess, keys[i])
        found[i] = guess


def match_codes(
    left: np.ndarray, left_known: np.ndarray, right: np.ndarray, right_known: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Numbers for the distinct known left values, as they come, and those of the right values.

    -1 for what is not known, and for right values that no left row has; and how many there are.
    """
    codes = np.empty(left.size, np.int32)
    others = np.empty(right.size, np.int32)
    count = _match_codes(left, left_known, right, right_known, codes, others)
    return codes, others, int(count)


def match_all(
    equal: Sequence[tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]],
) -> tuple[int, np.ndarray, np.ndarray]:
    """`match_codes` of several values at once: rows have one number where all are equal."""
    (left, right), *others = equal
    codes, group, count = match_codes(*left, *right)
    for left, right in others:
        more, more_group, many = match_codes(*left, *right)
        codes, group, count = match_codes(
            codes.astype(np.int64) * many + more,
            (codes >= 0) & (more >= 0),
            group.astype(np.int64) * many + more_group,
            (group >= 0) & (more_group >= 0),
        )
    return count, codes, group


@numba.njit(cache=True)
def _slot(value: int, mask: int) -> np.int64:
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@numba.njit(nogil=True, cache=True)
def _match_codes(
    left: np.ndarray, left_known: np.ndarray, right: np.ndarray, right_known: np.ndarray,
    codes: np.ndarray, others: np.ndarray,
) -> int:  # fmt: skip
    size = 16
    while size < 2 * left.size:
        size *= 2
    mask = size - 1
    keys, numbers = np.empty(size, np.int64), np.full(size, -1, np.int32)
    count = 0
    for i in range(left.size):
        codes[i] = -1
        if left_known[i]:
            at = _slot(left[i], mask)
            while numbers[at] >= 0 and keys[at] != left[i]:
                at = (at + 1) & mask
            if numbers[at] < 0:
                keys[at], numbers[at] = left[i], count
                count += 1
            codes[i] = numbers[at]
    for i in range(right.size):
        others[i] = -1
        if right_known[i]:
            at = _slot(right[i], mask)
            while numbers[at] >= 0 and keys[at] != right[i]:
                at = (at + 1) & mask
            others[i] = numbers[at]
    return count


def group_rows(codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows by code, in their order within each, and where each code's begin and end.

    Rows whose code is negative are left out.
    """
    offsets = np.zeros(count + 1, np.int64)
    rows = np.empty(codes.size, np.int32)
    kept = _group_rows(codes, offsets, rows)
    return rows[:kept], offsets


@numba.njit(nogil=True, cache=True)
def _group_rows(codes: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> int:
    for code in codes:
        if code >= 0:
            offsets[code + 1] += 1
    for i in range(1, offsets.size):
        offsets[i] += offsets[i - 1]
    place = offsets[:-1].copy()
    for i in range(codes.size):
        if codes[i] >= 0:
            rows[place[codes[i]]] = i
            place[codes[i]] += 1
    return int(offsets[-1])
