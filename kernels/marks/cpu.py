"""Rows with a bit for each reader: in one pass over them, the negations of all readers are checked.

A check looks for rows of a negation that lie wholly in a gap of each row, as `kernels.joins` looks
for them; what it finds rules the row out for the readers that ask for the check. It is left out
where none of these is left, and a row without readers is given up at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from kernels.joins.cpu import _holds, _place_from


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


def mark_rows(
    low: np.ndarray, high: np.ndarray, checks: Sequence[Check], asked: np.ndarray, every: np.ndarray
) -> tuple[np.ndarray, int]:
    """The readers that are left of each row, 64 to a word, and how many rows were tried for that.

    Gap g of row r is from `low[g, r]` to before `high[g, r]`. `asked[c]` are the readers that ask
    for check c, and `every` all of them. Marks are by word and then by row.
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
    tried = _mark(
        low, high,
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
    mark_rows(place, place, [check], word, word[0])


@numba.njit(nogil=True, cache=True)
def _mark(
    low: np.ndarray, high: np.ndarray, first: np.ndarray, last: np.ndarray, negated: np.ndarray,
    negated_from: np.ndarray, groups: np.ndarray, values: np.ndarray, group: np.ndarray,
    group_row: np.ndarray, tests: np.ndarray, gap: np.ndarray, begin: np.ndarray,
    grouped: np.ndarray, tested: np.ndarray, asked: np.ndarray, every: np.ndarray,
    marks: np.ndarray,
) -> int:  # fmt: skip
    tried = 0
    words, checks = every.size, gap.size
    guess = groups.copy()
    alive = every.copy()
    for r in range(low.shape[1]):
        for w in range(words):
            alive[w] = every[w]
        for c in range(checks):
            wanted = False
            for w in range(words):
                wanted |= (alive[w] & asked[c, w]) != 0
            g = group[group_row[c], r]
            if not wanted or g < 0:
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
            if found:
                left = False
                for w in range(words):
                    alive[w] &= ~asked[c, w]
                    left |= alive[w] != 0
                if not left:
                    break
        for w in range(words):
            marks[w, r] = alive[w]
    return tried
