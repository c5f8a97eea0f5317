"""Matches of a row pattern by backtracking, with conditions that read the match so far, compiled.

A condition is a program over a stack of numbers that may be null: texts are numbers by their order,
and truth values are 0 and 1. Of each set of variables that conditions ask about, the rows mapped to
it so far are at hand, as are running totals of them: asking takes no longer in long matches.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from kernels.rowpattern.cpu import (
    AT_START,
    CHECK,
    FIRST_ROW,
    FOUND,
    JUMP,
    NO_MORE,
    NO_ROW,
    PAST,
    SPLIT,
    TAKE,
    TOO_LONG,
    FoundRows,
    KnownRows,
    PatternCode,
    depends_on_more,
    grown,
    rows_ahead,
)

# What puts a value on the stack, and what takes one or two from it.
CONSTANT, NULL, COLUMN, ROW, LABEL, NUMBER, COUNT, COUNTED, TOTAL, MEAN = range(10)
NOT, NEGATE, IS_NULL, AND, OR, ADD, SUBTRACT, MULTIPLY, DIVIDE, DIVIDE_WHOLE, REST = range(10, 21)
EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(21, 27)
SUM, LEAST, GREATEST = range(3)
MAX_ASKED = 2_000_000_000  # steps of a search


class ConditionCode(NamedTuple):
    """The conditions of variables.

    That of variable v is the instructions from `begins[v]` to `begins[v + 1]`: `operation` with
    `first` and `second`, a constant, column, pointer, set or total. A pointer leads to the row
    that is `pointers[p, 2]` rows from the first (`pointers[p, 1]` is 1) or the last of the set
    `pointers[p, 0]`, and `pointers[p, 3]` rows further on. A set has `members` among variables, a
    total is of a set and a column: `totals[t]` is these and SUM, LEAST or GREATEST. `labels` are
    the variables' names as numbers.
    """

    begins: np.ndarray
    operation: np.ndarray
    first: np.ndarray
    second: np.ndarray
    constants: np.ndarray
    values: np.ndarray
    nulls: np.ndarray
    pointers: np.ndarray
    members: np.ndarray
    totals: np.ndarray
    labels: np.ndarray


def search_asking(
    code: PatternCode,
    conditions: ConditionCode,
    holds: np.ndarray,
    bounds: np.ndarray,
    times: np.ndarray,
    within: int,
    skip: int,
    known: KnownRows | None = None,
) -> FoundRows:
    """As `search_rows`, where a row that `holds` allows must also satisfy its condition."""
    known = KnownRows.all_of(bounds) if known is None else known
    rows, more = known[:3], (int(known.until), int(known.ahead), int(known.after))
    return FoundRows(
        *_search(*code, *conditions, holds, bounds, times, int(within), skip, *rows, *more)
    )


@njit(cache=True, nogil=True)
def _wider(array: np.ndarray) -> np.ndarray:
    wider = np.empty((array.shape[0], 2 * array.shape[1]), array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


@njit(cache=True, nogil=True)
def _compared(what: int, x: float, y: float) -> bool:
    if what == EQUAL:
        return x == y
    if what == UNEQUAL:
        return x != y
    if what == LESS:
        return x < y
    if what == LESS_EQUAL:
        return x <= y
    if what == GREATER:
        return x > y
    return x >= y


@njit(cache=True, nogil=True)
def _is_true(
    begin: int,
    end: int,
    operation: np.ndarray,
    first: np.ndarray,
    constants: np.ndarray,
    second: np.ndarray,
    values: np.ndarray,
    nulls: np.ndarray,
    pointers: np.ndarray,
    totals: np.ndarray,
    labels: np.ndarray,
    taken: np.ndarray,
    variables: np.ndarray,
    base: int,
    start: int,
    row: int,
    low: int,
    high: int,
    number: int,
    counts: np.ndarray,
    places: np.ndarray,
    counted: np.ndarray,
    summed: np.ndarray,
    stack: np.ndarray,
    unknown: np.ndarray,
) -> bool:
    """Is a condition true of a row that is mapped already?"""
    top = -1
    for i in range(begin, end):
        what, a = operation[i], first[i]
        if what < NOT:
            top += 1
            value, null = 0.0, False
            if what == CONSTANT:
                value = constants[a]
            elif what == COLUMN:
                value, null = values[a, row], nulls[a, row]
            elif what in (ROW, LABEL):
                p = second[i]
                held, logical = counts[pointers[p, 0]], pointers[p, 2]
                null = logical >= held
                if not null:
                    place = places[
                        pointers[p, 0], logical if pointers[p, 1] else held - 1 - logical
                    ]
                    place += pointers[p, 3]
                    if what == LABEL:
                        null = place < 0 or place > row - start
                        if not null:
                            value = labels[variables[taken[base + place]]]
                    else:
                        at = start + place
                        null = at < low or at >= high
                        if not null:
                            value, null = values[a, at], nulls[a, at]
            elif what == NUMBER:
                value = float(number)
            elif what == COUNT:
                value = float(counts[a])
            elif what == NULL:
                null = True
            else:
                held = counts[totals[a, 0]]
                present = counted[a, held - 1] if held > 0 else 0
                if what == COUNTED:
                    value = float(present)
                else:
                    null = present == 0
                    if not null:
                        value = summed[a, held - 1]
                        if what == MEAN:
                            value = value / present
            stack[top], unknown[top] = value, null
        elif what == NOT:
            stack[top] = 1.0 - stack[top]
        elif what == NEGATE:
            stack[top] = -stack[top]
        elif what == IS_NULL:
            stack[top] = 1.0 if unknown[top] else 0.0
            unknown[top] = False
        else:
            top -= 1
            x, y = stack[top], stack[top + 1]
            null = unknown[top] or unknown[top + 1]
            if what in (AND, OR):
                decides = 0.0 if what == AND else 1.0
                if (x == decides and not unknown[top]) or (y == decides and not unknown[top + 1]):
                    x, null = decides, False
                else:
                    x = 1.0 - decides
            elif null:
                x = 0.0
            elif what == ADD:
                x = x + y
            elif what == SUBTRACT:
                x = x - y
            elif what == MULTIPLY:
                x = x * y
            elif what < EQUAL:
                if y == 0.0:
                    null = True
                elif what == DIVIDE:
                    x = x / y
                elif what == DIVIDE_WHOLE:
                    x = float(math.trunc(x / y))
                else:
                    x = np.fmod(x, y)
            else:
                x = 1.0 if _compared(what, x, y) else 0.0
            stack[top], unknown[top] = x, null
    return top < 0 or (stack[0] == 1.0 and not unknown[0])


@njit(cache=True, nogil=True)
def _search(
    operation: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    skipped: np.ndarray,
    asked_from: np.ndarray,
    asked: np.ndarray,
    asked_first: np.ndarray,
    asked_second: np.ndarray,
    constants: np.ndarray,
    values: np.ndarray,
    nulls: np.ndarray,
    pointers: np.ndarray,
    members: np.ndarray,
    totals: np.ndarray,
    labels: np.ndarray,
    holds: np.ndarray,
    bounds: np.ndarray,
    times: np.ndarray,
    within: int,
    skip: int,
    starts: np.ndarray,
    matched_before: np.ndarray,
    numbers: np.ndarray,
    until: int,
    ahead: int,
    after: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int, np.ndarray, np.ndarray]:
    undecided, covered = starts.copy(), matched_before.copy()
    first = np.empty(64, np.int64)
    length = np.empty(64, np.int64)
    taken = np.empty(256, np.int32)
    unmatched = np.empty(64, np.int64)
    matches = rows = lone = 0
    path = np.empty((2, 256), np.int64)  # the splits that lead to where the search is, their rows
    waiting = np.empty((3, 256), np.int64)  # what to try if it fails, with the path's length
    sets, slots = len(members), len(totals)
    counts = np.zeros(sets, np.int64)
    places = np.empty((sets, 64), np.int64)
    counted = np.empty((slots, 64), np.int64)
    summed = np.empty((slots, 64), np.float64)
    stack = np.empty(len(asked) + 1, np.float64)
    unknown = np.empty(len(asked) + 1, np.bool_)
    tried = 0
    for p in range(len(bounds) - 1):
        begin, end = bounds[p], bounds[p + 1]
        start, matched, number = starts[p], matched_before[p], numbers[p]
        while start < end:
            at, row, steps, open_ = 0, start, 0, 0
            success = is_open = False
            counts[:] = 0
            while True:
                tried += 1
                if tried > MAX_ASKED:
                    return first, length, taken, unmatched, TOO_LONG, start, undecided, covered
                fails = False
                what = operation[at]
                if what == TAKE:
                    if depends_on_more(row, start, end, times, within, until, ahead):
                        is_open = True
                        break
                    variable = left[at]
                    fails = (
                        row >= end
                        or (within >= 0 and times[row] - times[start] >= within)
                        or not holds[variable, row]
                    )
                    if not fails:
                        place = row - start
                        while rows + place >= len(taken):
                            taken = grown(taken)
                        taken[rows + place] = at
                        for s in range(sets):
                            if members[s, variable]:
                                if counts[s] == places.shape[1]:
                                    places, counted = _wider(places), _wider(counted)
                                    summed = _wider(summed)
                                places[s, counts[s]] = place
                                counts[s] += 1
                        for t in range(slots):
                            if members[totals[t, 0], variable]:
                                i = counts[totals[t, 0]] - 1
                                before = counted[t, i - 1] if i > 0 else 0
                                total = summed[t, i - 1] if i > 0 else 0.0
                                if not nulls[totals[t, 1], row]:
                                    value = values[totals[t, 1], row]
                                    if before == 0:
                                        total = value
                                    elif totals[t, 2] == SUM:
                                        total += value
                                    elif totals[t, 2] == LEAST:
                                        total = min(total, value)
                                    else:
                                        total = max(total, value)
                                    before += 1
                                counted[t, i], summed[t, i] = before, total
                        if asked_from[variable] < asked_from[variable + 1]:
                            fails = not _is_true(
                                asked_from[variable],
                                asked_from[variable + 1],
                                asked,
                                asked_first,
                                constants,
                                asked_second,
                                values,
                                nulls,
                                pointers,
                                totals,
                                labels,
                                taken,
                                left,
                                rows,
                                start,
                                row,
                                begin,
                                end,
                                number,
                                counts,
                                places,
                                counted,
                                summed,
                                stack,
                                unknown,
                            )
                        row += 1
                        at += 1
                elif what == SPLIT:
                    if open_ == waiting.shape[1]:
                        waiting = _wider(waiting)
                    if steps == path.shape[1]:
                        path = _wider(path)
                    path[0, steps], path[1, steps] = at, row
                    steps += 1
                    waiting[0, open_], waiting[1, open_] = right[at], row
                    waiting[2, open_] = steps
                    open_ += 1
                    at = left[at]
                elif what == JUMP:
                    at = left[at]
                elif what == FOUND:
                    is_open = until != NO_MORE and row > start and row - 1 + after >= end
                    success = not is_open
                    break
                elif what == CHECK:
                    since = steps - 1
                    while path[0, since] != left[at]:
                        since -= 1
                    fails = path[1, since] == row
                    at += 1
                else:
                    if what != AT_START and row == end and until != NO_MORE:
                        is_open = True
                        break
                    fails = row != (begin if what == AT_START else end)
                    at += 1
                if fails:
                    if open_ == 0:
                        break
                    open_ -= 1
                    at, row, steps = waiting[0, open_], waiting[1, open_], waiting[2, open_]
                    for s in range(sets):
                        while counts[s] > 0 and places[s, counts[s] - 1] >= row - start:
                            counts[s] -= 1
            if is_open:
                break
            if not success:
                if start >= matched:
                    if lone == len(unmatched):
                        unmatched = grown(unmatched)
                    unmatched[lone] = start
                    lone += 1
                start += 1
                continue
            number += 1
            if matches == len(first):
                first, length = grown(first), grown(length)
            count = row - start
            first[matches], length[matches] = start, count
            matches += 1
            matched = max(matched, start + max(count, 1))
            further = rows_ahead(skip, skipped, taken[rows : rows + count])
            if further <= 0:
                status = FIRST_ROW if further == 0 else NO_ROW
                return first, length, taken, unmatched, status, start, undecided, covered
            rows += count
            start += further
        undecided[p], covered[p] = start, matched
    lone_rows = unmatched[:lone]
    return first[:matches], length[:matches], taken[:rows], lone_rows, 0, 0, undecided, covered


def warm() -> None:
    """Compile the kernel for the types that engines call it with."""
    code = PatternCode(
        np.array([TAKE, FOUND], np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.bool_),
    )
    no_code = np.zeros(0, np.int64)
    conditions = ConditionCode(
        np.zeros(2, np.int64),
        *(no_code, no_code, no_code, np.zeros(0)),
        *(np.zeros((1, 1)), np.zeros((1, 1), np.bool_)),
        *(np.zeros((0, 4), np.int64), np.ones((1, 1), np.bool_), np.zeros((0, 3), np.int64)),
        np.zeros(1),
    )
    bounds, times = np.array([0, 1]), np.zeros(1, np.int64)
    search_asking(code, conditions, np.ones((1, 1), np.bool_), bounds, times, -1, PAST)
