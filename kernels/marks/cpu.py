"""Rows with a bit for each reader: in one pass over them, the negations of all readers are checked.

A check looks for rows of a negation that lie wholly in a gap of each row, as `kernels.joins` looks
for them; what it finds rules the row out for the readers that ask for the check. It is left out
where none of these is left, and a row without readers is given up at once. Checks for single events
without comparisons are made together, by one look into the timeline of what they look for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from kernels.joins.cpu import NOWHERE, _holds, _place_from


class Check(NamedTuple):
    """The rows of a negation, sorted by `last` within each group, and which gap they may not be in.

    Group g of them is `groups[g] : groups[g + 1]`; `group` is that of each row that is checked,
    negative for none, or empty where there is one group for all. Comparison t is `tests[t]` of a
    value of the negation, `negated[t]`, with one of the row, `values[t]`; NaN for null.
    """

    first: np.ndarray
    last: np.ndarray
    negated: np.ndarray
    groups: np.ndarray
    values: np.ndarray
    group: np.ndarray
    tests: np.ndarray
    gap: int


class Timeline(NamedTuple):
    """The events that several checks of one gap look for, in order, and the check of each.

    From each of them on, and from behind the last: `following` are the checks whose events follow,
    by which comes first, and `following_place` where it does; `NOWHERE` behind these.
    """

    gap: int
    place: np.ndarray
    check: np.ndarray
    following: np.ndarray
    following_place: np.ndarray


def timeline(gap: int, checks: Sequence[int], places: Sequence[np.ndarray]) -> Timeline:
    """What some checks of a gap look for: single events in order, for each of them."""
    place = np.concatenate([np.zeros(0, np.int32), *places])
    order = np.argsort(place, kind="stable")
    place = place[order]
    check = np.repeat(np.array(checks, np.int32), [each.size for each in places])[order]
    following = np.full((place.size + 1, len(checks)), -1, np.int32)
    following_place = np.full(following.shape, NOWHERE, np.int32)
    _follow(place, check, following, following_place)
    return Timeline(gap, place, check, following, following_place)


def mark_rows(
    low: np.ndarray,
    high: np.ndarray,
    timelines: Sequence[Timeline],
    checks: Sequence[Check],
    numbers: Sequence[int],
    asked: np.ndarray,
    every: np.ndarray,
) -> tuple[np.ndarray, int]:
    """The readers that are left of each row, 64 to a word, and how many rows were tried for that.

    Gap g of row r is from `low[g, r]` to before `high[g, r]`. `asked[c]` are the readers that ask
    for check c, and `every` all of them; `numbers` are those of the checks that are in no timeline.
    Marks are by word and then by row.
    """
    rows = low.shape[1]
    marks = np.empty((every.size, rows), np.uint64)
    begin = np.cumsum([0, *(check.last.size for check in checks)])
    grouped = np.cumsum([0, *(check.groups.size for check in checks)])
    tested = np.cumsum([0, *(check.tests.size for check in checks)])
    groups = [check.groups + start for check, start in zip(checks, begin, strict=False)]
    own = [np.full((1, rows), 0, np.int32)]  # of checks with one group
    of_rows, place = [0] * len(checks), 1
    for number, check in enumerate(checks):
        if check.group.size:
            own.append(check.group.reshape(1, rows))
            of_rows[number], place = place, place + 1
    none = np.zeros(0, np.int32)
    together = [np.bitwise_or.reduce(asked[np.unique(t.check)], axis=0) for t in timelines]
    tried = _mark(
        low, high,
        np.array([t.gap for t in timelines], np.int64),
        np.cumsum([0, *(t.place.size for t in timelines)]),
        np.concatenate([none, *(t.place for t in timelines)]),
        np.cumsum([0, *(t.following.size for t in timelines)]),
        np.array([t.following.shape[1] for t in timelines], np.int64),
        np.concatenate([none, *(t.following.ravel() for t in timelines)]),
        np.concatenate([none, *(t.following_place.ravel() for t in timelines)]),
        np.array(together, np.uint64).reshape(len(timelines), every.size),
        np.array(numbers, np.int64),
        np.concatenate([none, *(check.first for check in checks)]),
        np.concatenate([none, *(check.last for check in checks)]),
        np.concatenate([np.zeros(0), *(check.negated.ravel() for check in checks)]),
        np.cumsum([0, *(check.negated.size for check in checks)]),
        np.concatenate([np.zeros(0, np.int64), *groups]),
        np.concatenate([np.zeros((0, rows)), *(check.values for check in checks)]),
        np.concatenate(own),
        np.array(of_rows, np.int64),
        np.concatenate([np.zeros(0, np.int8), *(check.tests for check in checks)]),
        np.array([check.gap for check in checks], np.int64),
        begin, grouped, tested, asked, every, marks,
    )  # fmt: skip
    return marks, int(tried)


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed."""
    place, word = np.zeros((1, 1), np.int32), np.zeros((1, 1), np.uint64)
    check = Check(
        place[0], place[0], np.zeros((0, 1)), np.array([0, 1]), np.zeros((0, 1)),
        np.zeros(0, np.int32), np.zeros(0, np.int8), 0,
    )  # fmt: skip
    mark_rows(place, place, [timeline(0, [0], [place[0]])], [check], [0], word, word[0])


@numba.njit(nogil=True, cache=True)
def _follow(
    place: np.ndarray, check: np.ndarray, following: np.ndarray, following_place: np.ndarray
) -> None:
    """From the last event on: what comes first is put before all that is known to follow."""
    many = following.shape[1]
    for m in range(place.size - 1, -1, -1):
        moved, moved_place = check[m], place[m]
        for i in range(many):
            next_, next_place = following[m + 1, i], following_place[m + 1, i]
            following[m, i], following_place[m, i] = moved, moved_place
            if next_ == check[m] or next_ < 0:
                for k in range(i + 1, many):
                    following[m, k] = following[m + 1, k]
                    following_place[m, k] = following_place[m + 1, k]
                break
            moved, moved_place = next_, next_place


@numba.njit(nogil=True, cache=True, inline="always")
def _meet(one: np.ndarray, other: np.ndarray) -> bool:
    met = False
    for w in range(one.size):
        met |= one[w] & other[w] != 0
    return met


@numba.njit(nogil=True, cache=True, inline="always")
def _clear(alive: np.ndarray, gone: np.ndarray) -> bool:
    """Take readers out; is any left?"""
    left = False
    for w in range(alive.size):
        alive[w] &= ~gone[w]
        left |= alive[w] != 0
    return left


@numba.njit(nogil=True, cache=True)
def _mark(
    low: np.ndarray, high: np.ndarray, line_gap: np.ndarray, line_begin: np.ndarray,
    line_place: np.ndarray, line_row: np.ndarray, line_checks: np.ndarray, following: np.ndarray,
    following_place: np.ndarray, together: np.ndarray, numbers: np.ndarray, first: np.ndarray,
    last: np.ndarray, negated: np.ndarray, negated_from: np.ndarray, groups: np.ndarray,
    values: np.ndarray, group: np.ndarray, group_row: np.ndarray, tests: np.ndarray,
    gap: np.ndarray, begin: np.ndarray, grouped: np.ndarray, tested: np.ndarray,
    asked: np.ndarray, every: np.ndarray, marks: np.ndarray,
) -> int:  # fmt: skip
    tried = 0
    words, checks = every.size, gap.size
    guess, line_guess = groups.copy(), line_begin.copy()
    alive = every.copy()
    for r in range(low.shape[1]):
        left = True
        for w in range(words):
            alive[w] = every[w]
        for n in range(line_gap.size):
            start, stop = low[line_gap[n], r], high[line_gap[n], r]
            if start >= stop or not _meet(alive, together[n]):
                continue
            bottom = line_begin[n]
            m = _place_from(line_place, bottom, line_begin[n + 1], line_guess[n], start)
            line_guess[n] = m
            at = line_row[n] + (m - bottom) * line_checks[n]
            for i in range(at, at + line_checks[n]):
                if following_place[i] >= stop:
                    break
                tried += 1
                left = _clear(alive, asked[following[i]])
                if not left:
                    break
            if not left:
                break
        for c in range(checks if left else 0):
            g = group[group_row[c], r]
            if g < 0 or not _meet(alive, asked[numbers[c]]):
                continue
            g += grouped[c]
            start, stop = low[gap[c], r], high[gap[c], r]
            if start >= stop:
                continue
            bottom, top = groups[g], groups[g + 1]
            size = begin[c + 1] - begin[c]
            k = _place_from(last, bottom, top, guess[g], start)
            guess[g] = k
            found = False
            while k < top and last[k] < stop:
                tried += 1
                fits = first[k] >= start
                for t in range(tested[c], tested[c + 1]):
                    if not fits:
                        break
                    at = negated_from[c] + (t - tested[c]) * size + k - begin[c]
                    fits = _holds(tests[t], negated[at], values[t, r])
                if fits:
                    found = True
                    break
                k += 1
            if found and not _clear(alive, asked[numbers[c]]):
                break
        for w in range(words):
            marks[w, r] = alive[w]
    return tried
