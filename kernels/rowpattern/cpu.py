"""Matches of a row pattern by backtracking over bitmaps, the preferred ones, compiled.

A pattern is a program of instructions. Whether the rest of it matches from an instruction and a row
on does not depend on how these were reached, as conditions are bitmaps: what has failed once is not
tried again, and the search takes no more steps than there are instructions times rows. It does not
begin at rows that the pattern cannot take first.
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


NO_MORE = 2**62  # a time that no row has


class KnownRows(NamedTuple):
    """How far the rows of partitions are known, where more may come.

    Of each partition: the row that the search begins at, the row before which all are in a match
    already, and the number of its next match. Rows that come have the time `until` or a later one;
    NO_MORE: none come. Conditions read up to `ahead` rows behind one, and what is given of a match
    up to `after` rows behind its last.
    """

    starts: np.ndarray
    matched: np.ndarray
    numbers: np.ndarray
    until: int = NO_MORE
    ahead: int = 0
    after: int = 0

    @classmethod
    def all_of(cls, bounds: np.ndarray) -> KnownRows:
        """That the rows between bounds are all there will be."""
        starts = bounds[:-1].astype(np.int64)
        return cls(starts, starts, np.ones(len(starts), np.int64))


class FoundRows(NamedTuple):
    """Matches by their first row and length, the instruction that took each of their rows, and the
    rows that none could start from. `status` is 0, or why the search ended at `where`.

    Of each partition, from the row `undecided` on it depends on rows to come what matches, and rows
    before `matched` are in a match.
    """

    first: np.ndarray
    length: np.ndarray
    taken: np.ndarray
    unmatched: np.ndarray
    status: int
    where: int
    undecided: np.ndarray
    matched: np.ndarray

    @classmethod
    def of_lists(
        cls,
        first: list[int],
        length: list[int],
        taken: list[int],
        unmatched: list[int],
        status: int,
        where: int,
        undecided: list[int],
        matched: list[int],
    ) -> FoundRows:
        """What a search that is written in Python found."""
        return cls(
            np.array(first, np.int64),
            np.array(length, np.int64),
            np.array(taken, np.int32),
            np.array(unmatched, np.int64),
            status,
            where,
            np.array(undecided, np.int64),
            np.array(matched, np.int64),
        )


def search_rows(
    code: PatternCode,
    holds: np.ndarray,
    bounds: np.ndarray,
    times: np.ndarray,
    within: int,
    skip: int,
    memory: int,
    known: KnownRows | None = None,
) -> FoundRows:
    """The matches in partitions that begin at `bounds`, which ends with the number of rows.

    `holds` says of each variable and row whether its condition does. With `within` from 0 on, a
    match takes less time than that. `memory`: what has failed fails from any start (REMEMBERS), or
    from this one (FORGETS), as in patterns that repeat what may be empty; or it depends on how it
    was reached (PLAIN), where such a part prefers to be empty. `known`: where more rows may come,
    matches are those that do not depend on them.
    """
    if within >= 0:
        memory = max(memory, FORGETS)
    known = KnownRows.all_of(bounds) if known is None else known
    rows, more = known[:3], (int(known.until), int(known.ahead), int(known.after))
    return FoundRows(*_search(*code, holds, bounds, times, int(within), skip, memory, *rows, *more))


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
def first_variables(
    operation: np.ndarray, left: np.ndarray, right: np.ndarray, number: int
) -> np.ndarray:
    """Which of so many variables may take a match's first row; all where it may have none."""
    found = np.zeros(number, np.bool_)
    reached = np.zeros(len(operation), np.bool_)
    waiting = np.zeros(2 * len(operation), np.int64)
    open_ = 1  # the first instruction
    while open_:
        open_ -= 1
        at = waiting[open_]
        if reached[at]:
            continue
        reached[at] = True
        what = operation[at]
        if what == FOUND:
            found[:] = True
        elif what == TAKE:
            found[left[at]] = True
        else:
            waiting[open_] = left[at] if what in (SPLIT, JUMP) else at + 1
            open_ += 1
            if what == SPLIT:
                waiting[open_] = right[at]
                open_ += 1
    return found


@njit(cache=True, nogil=True)
def first_rows(variables: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """The rows that any of some variables may take; every row, if those are all of them."""
    found = np.full(holds.shape[1], variables.all())
    for variable in range(len(variables)):
        if variables[variable]:
            for row in range(len(found)):
                found[row] |= holds[variable, row]
    return found


@njit(cache=True, nogil=True)
def next_start(
    possible: np.ndarray, unmatched: np.ndarray, matched: int, start: int, end: int
) -> int:
    """The first row from `start` on where a match may begin; those before it are in none.

    A loop of its own, as one that also grows arrays counts references to them.
    """
    while start < end and not possible[start]:
        unmatched[start] = start >= matched
        start += 1
    return start


# What an attempt comes to: nothing, a match, no more room for its states, too many steps, or it
# depends on rows to come.
NONE, FOUND_ONE, FULL, TOO_MANY, OPEN = range(5)


@njit(cache=True, nogil=True)
def depends_on_more(
    row: int, start: int, end: int, times: np.ndarray, within: int, until: int, ahead: int
) -> bool:
    """Does it depend on rows to come whether a match that began at `start` can take a row?"""
    if until == NO_MORE or row + ahead < end:
        return False
    time = times[row] if row < end else until
    return within < 0 or time - times[start] < within


@njit(cache=True, nogil=True)
def _attempt(
    operation: np.ndarray, left: np.ndarray, right: np.ndarray, holds: np.ndarray,
    times: np.ndarray, within: int, memory: int, stamp: np.uint32, seen: np.ndarray, begin: int,
    end: int, start: int, path: np.ndarray, waiting: np.ndarray, taken: np.ndarray, until: int,
    ahead: int, after: int,
) -> tuple[int, int, int]:  # fmt: skip
    """What comes of a match that begins at `start`, the row behind it, and how many states led
    there.
    """
    size = len(operation)
    at, row, steps, open_, tried = 0, start, 0, 0, 0
    while True:
        state = (row - begin) * size + at
        fails = memory != PLAIN and seen[state] == stamp
        tried += 1
        if memory == PLAIN and tried > MAX_STEPS:
            return TOO_MANY, row, steps
        if not fails:
            if steps == len(path) or open_ == len(waiting) or row - start >= len(taken):
                return FULL, row, steps
            seen[state] = stamp
            path[steps] = state
            steps += 1
            what = operation[at]
            if what == TAKE:
                if depends_on_more(row, start, end, times, within, until, ahead):
                    return OPEN, row, steps
                fails = (
                    row >= end
                    or (within >= 0 and times[row] - times[start] >= within)
                    or not holds[left[at], row]
                )
                if not fails:
                    taken[row - start] = at  # rows of a match follow each other
                    row += 1
                    at += 1
            elif what == SPLIT:
                waiting[open_, 0] = right[at]
                waiting[open_, 1] = row
                waiting[open_, 2] = steps
                open_ += 1
                at = left[at]
            elif what == JUMP:
                at = left[at]
            elif what == FOUND:
                if until != NO_MORE and row > start and row - 1 + after >= end:
                    return OPEN, row, steps
                return FOUND_ONE, row, steps
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
                if row == end and until != NO_MORE:
                    return OPEN, row, steps
                fails = row != end
                at += 1
        if fails:
            if open_ == 0:
                return NONE, row, steps
            open_ -= 1
            at, row, steps = waiting[open_, 0], waiting[open_, 1], waiting[open_, 2]


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
    starts: np.ndarray,
    matched_before: np.ndarray,
    numbers: np.ndarray,
    until: int,
    ahead: int,
    after: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int, np.ndarray, np.ndarray]:
    size = len(operation)
    undecided, covered = starts.copy(), matched_before.copy()
    possible = first_rows(first_variables(operation, left, right, len(holds)), holds)
    unmatched = np.zeros(len(possible), np.bool_)
    longest = 0
    for p in range(len(bounds) - 1):
        longest = max(longest, bounds[p + 1] - bounds[p])
    seen = np.zeros(size * (longest + 1), np.uint32)
    stamp = np.uint32(0)
    first = np.empty(64, np.int64)
    length = np.empty(64, np.int64)
    taken = np.empty(256, np.int32)
    matches = rows = 0
    path = np.empty(256, np.int64)  # the states that lead to where the search is
    waiting = np.empty((256, 3), np.int64)  # states to try if it fails, with the path's length
    for p in range(len(bounds) - 1):
        begin, end = bounds[p], bounds[p + 1]
        start = starts[p]
        matched = matched_before[p]  # rows before are in a match
        stamp += np.uint32(1)
        tested = end if until == NO_MORE else end - ahead  # what rows can take is known up to it
        while start < end:
            start = next_start(possible, unmatched, matched, start, tested)
            if start == end:
                break
            if memory != REMEMBERS:
                stamp += np.uint32(1)
            if stamp >= np.uint32(0xFFFFFFF0):
                seen[:] = 0
                stamp = np.uint32(1)
            while True:
                outcome, row, steps = _attempt(
                    operation, left, right, holds, times, within, memory, stamp, seen, begin, end,
                    start, path, waiting, taken[rows:], until, ahead, after,
                )  # fmt: skip
                if outcome in (FOUND_ONE, FULL):  # what led here has not failed
                    for s in range(steps):
                        seen[path[s]] = 0
                if outcome != FULL:
                    break
                if rows + row - start >= len(taken):
                    taken = grown(taken)
                else:
                    path = grown(path)
                    larger = np.empty((2 * len(waiting), 3), np.int64)
                    larger[: len(waiting)] = waiting
                    waiting = larger
            if outcome == TOO_MANY:
                return first, length, taken, first, TOO_LONG, start, undecided, covered
            if outcome == OPEN:
                break
            if outcome != FOUND_ONE:
                unmatched[start] = start >= matched
                start += 1
                continue
            if matches == len(first):
                first, length = grown(first), grown(length)
            count = row - start
            first[matches], length[matches] = start, count
            matches += 1
            matched = max(matched, start + max(count, 1))
            further = rows_ahead(skip, skipped, taken[rows : rows + count])
            if further <= 0:
                status = FIRST_ROW if further == 0 else NO_ROW
                return first, length, taken, first, status, start, undecided, covered
            rows += count
            start += further
        undecided[p], covered[p] = start, matched
    lone = np.flatnonzero(unmatched)
    return first[:matches], length[:matches], taken[:rows], lone, 0, 0, undecided, covered


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
