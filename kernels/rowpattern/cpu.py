"""Matches of a row pattern by backtracking over bitmaps, the preferred ones, compiled.

A pattern is a program of instructions. Whether the rest of it matches from an instruction and a row
on does not depend on how these were reached, as conditions are bitmaps: what has failed once is not
tried again, and the search takes no more steps than there are instructions times rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

TAKE, SPLIT, JUMP, FOUND, AT_START, AT_END, CHECK = range(7)
PAST, NEXT, FIRST, LAST = range(4)
# Why a search ended: of the variable to skip to there is no row, or it is the match's first; or a
# start took too many steps.
NO_ROW, FIRST_ROW, TOO_LONG = 1, 2, 3
MAX_STEPS = 200_000_000  # from one start, where failures are not remembered
REMEMBERS, FORGETS, PLAIN = range(3)


class PatternCode(NamedTuple):
    """The instructions of a pattern.

    TAKE maps a row to the variable `left`; SPLIT goes on at `left`, and if that fails at `right`;
    JUMP goes on at `left`; CHECK fails where no row was taken since the SPLIT at `left`, in a plain
    search. `skipped` are the instructions that AFTER MATCH SKIP asks for.
    """

    operation: np.ndarray
    left: np.ndarray
    right: np.ndarray
    skipped: np.ndarray


class FoundRows(NamedTuple):
    """Matches by their first row and length, the instruction that took each of their rows, and the
    rows that none could start from. `status` is 0, or why the search ended at `where`."""

    first: np.ndarray
    length: np.ndarray
    taken: np.ndarray
    unmatched: np.ndarray
    status: int
    where: int


def search_rows(
    code: PatternCode,
    holds: np.ndarray,
    bounds: np.ndarray,
    times: np.ndarray,
    within: int,
    skip: int,
    memory: int,
) -> FoundRows:
    """The matches in partitions that begin at `bounds`, which ends with the number of rows.

    `holds` says of each variable and row whether its condition does. With `within` from 0 on, a
    match takes less time than that. `memory`: what has failed fails from any start (REMEMBERS), or
    from this one (FORGETS), as in patterns that repeat what may be empty; or it depends on how it
    was reached (PLAIN), where such a part prefers to be empty.
    """
    if within >= 0:
        memory = max(memory, FORGETS)
    return FoundRows(*_search(*code, holds, bounds, times, int(within), skip, memory))


@njit(cache=True, nogil=True)
def grown(array: np.ndarray) -> np.ndarray:
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True, nogil=True)
def rows_ahead(skip: int, skipped: np.ndarray, taken: np.ndarray) -> int:
    """How far behind a match's start the next is looked for, by AFTER MATCH SKIP.

    `taken` are the instructions that took its rows. 0 where that is its first row, -1 where it has
    no row of the variable to skip to.
    """
    if len(taken) == 0 or skip == NEXT:
        return 1
    if skip == PAST:
        return len(taken)
    place = -1
    for k in range(len(taken)):
        if skipped[taken[k]]:
            place = k
            if skip == FIRST:
                break
    return place


@njit(cache=True, nogil=True)
def _search(
    operation: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    skipped: np.ndarray,
    holds: np.ndarray,
    bounds: np.ndarray,
    times: np.ndarray,
    within: int,
    skip: int,
    memory: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int]:
    size = len(operation)
    longest = 0
    for p in range(len(bounds) - 1):
        longest = max(longest, bounds[p + 1] - bounds[p])
    seen = np.zeros(size * (longest + 1), np.uint32)
    stamp = np.uint32(0)
    first = np.empty(64, np.int64)
    length = np.empty(64, np.int64)
    taken = np.empty(256, np.int32)
    unmatched = np.empty(64, np.int64)
    matches = rows = lone = 0
    path = np.empty(256, np.int64)  # the states that lead to where the search is
    waiting = np.empty((256, 3), np.int64)  # states to try if it fails, with the path's length
    for p in range(len(bounds) - 1):
        begin, end = bounds[p], bounds[p + 1]
        start = begin
        matched = begin  # rows before are in a match
        stamp += np.uint32(1)
        while start < end:
            if memory != REMEMBERS:
                stamp += np.uint32(1)
            if stamp >= np.uint32(0xFFFFFFF0):
                seen[:] = 0
                stamp = np.uint32(1)
            at, row, steps, open_, tried = 0, start, 0, 0, 0
            success = False
            while True:
                state = (row - begin) * size + at
                fails = memory != PLAIN and seen[state] == stamp
                tried += 1
                if memory == PLAIN and tried > MAX_STEPS:
                    return first, length, taken, unmatched, TOO_LONG, start
                if not fails:
                    seen[state] = stamp
                    if steps == len(path):
                        path = grown(path)
                    path[steps] = state
                    steps += 1
                    what = operation[at]
                    if what == TAKE:
                        fails = (
                            row >= end
                            or (within >= 0 and times[row] - times[start] >= within)
                            or not holds[left[at], row]
                        )
                        if not fails:
                            # Rows of a match follow each other: each has its place.
                            place = rows + row - start
                            while place >= len(taken):
                                taken = grown(taken)
                            taken[place] = at
                            row += 1
                            at += 1
                    elif what == SPLIT:
                        if open_ == len(waiting):
                            larger = np.empty((2 * open_, 3), np.int64)
                            larger[:open_] = waiting
                            waiting = larger
                        waiting[open_, 0] = right[at]
                        waiting[open_, 1] = row
                        waiting[open_, 2] = steps
                        open_ += 1
                        at = left[at]
                    elif what == JUMP:
                        at = left[at]
                    elif what == FOUND:
                        success = True
                        break
                    elif what == CHECK:
                        if memory == PLAIN:
                            since = steps - 1
                            while path[since] % size != left[at]:
                                since -= 1
                            fails = path[since] // size == row - begin
                        at += 1
                    elif what == AT_START:
                        fails = row != begin
                        at += 1
                    else:
                        fails = row != end
                        at += 1
                if fails:
                    if open_ == 0:
                        break
                    open_ -= 1
                    at, row, steps = waiting[open_, 0], waiting[open_, 1], waiting[open_, 2]
            if not success:
                if start >= matched:
                    if lone == len(unmatched):
                        unmatched = grown(unmatched)
                    unmatched[lone] = start
                    lone += 1
                start += 1
                continue
            for s in range(steps):
                seen[path[s]] = 0
            if matches == len(first):
                first, length = grown(first), grown(length)
            count = row - start
            first[matches], length[matches] = start, count
            matches += 1
            matched = max(matched, start + max(count, 1))
            ahead = rows_ahead(skip, skipped, taken[rows : rows + count])
            if ahead <= 0:
                status = FIRST_ROW if ahead == 0 else NO_ROW
                return first, length, taken, unmatched, status, start
            rows += count
            start += ahead
    return first[:matches], length[:matches], taken[:rows], unmatched[:lone], 0, 0


@njit(cache=True, nogil=True)
def running_totals(
    values: np.ndarray, counts: np.ndarray, begins: np.ndarray, kind: int, found: np.ndarray
) -> None:
    """Of each row of matches, the sum (0), the least (1) or the greatest (2) value so far.

    `begins` marks the first row of each match; rows that do not count leave it as it is.
    """
    total = values[0] if len(values) else found[0]
    empty = True
    for i in range(len(values)):
        if begins[i]:
            empty = True
        if counts[i]:
            if empty:
                total = values[i]
                empty = False
            elif kind == 0:
                total += values[i]
            elif kind == 1:
                total = min(total, values[i])
            else:
                total = max(total, values[i])
        found[i] = total


def warm() -> None:
    """Compile the kernels for the types that engines call them with."""
    code = PatternCode(
        np.array([TAKE, FOUND], np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.bool_),
    )
    bounds, times = np.array([0, 1]), np.zeros(1, np.int64)
    search_rows(code, np.ones((1, 1), np.bool_), bounds, times, -1, PAST, REMEMBERS)
    flags = np.ones(1, np.bool_)
    for kind in (np.int64, np.float64):
        running_totals(np.zeros(1, kind), flags, flags, 0, np.zeros(1, kind))
