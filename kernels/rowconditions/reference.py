"""What the kernel for conditions that read the match so far gives, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kernels.rowconditions import cpu
from kernels.rowconditions.cpu import ConditionCode
from kernels.rowpattern.cpu import (
    AT_START,
    CHECK,
    FIRST,
    FIRST_ROW,
    FOUND,
    JUMP,
    NEXT,
    NO_ROW,
    PAST,
    SPLIT,
    TAKE,
    FoundRows,
    KnownRows,
    PatternCode,
)
from kernels.rowpattern.more_rows import MoreRowsError, needs_end, needs_row, needs_values

_PAIRS: Mapping[int, Callable[[float, float], Any]] = {
    cpu.ADD: lambda x, y: x + y,
    cpu.SUBTRACT: lambda x, y: x - y,
    cpu.MULTIPLY: lambda x, y: x * y,
    cpu.DIVIDE: lambda x, y: None if y == 0 else x / y,
    cpu.DIVIDE_WHOLE: lambda x, y: None if y == 0 else math.trunc(x / y),
    cpu.REST: lambda x, y: None if y == 0 else math.fmod(x, y),
    cpu.EQUAL: lambda x, y: x == y,
    cpu.UNEQUAL: lambda x, y: x != y,
    cpu.LESS: lambda x, y: x < y,
    cpu.LESS_EQUAL: lambda x, y: x <= y,
    cpu.GREATER: lambda x, y: x > y,
    cpu.GREATER_EQUAL: lambda x, y: x >= y,
}


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
    """As `kernels.rowconditions.cpu.search_asking`, with every question asked from scratch."""
    known = KnownRows.all_of(bounds) if known is None else known
    undecided, covered = known.starts.tolist(), known.matched.tolist()
    first: list[int] = []
    length: list[int] = []
    taken: list[int] = []
    unmatched: list[int] = []
    for p, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        start, matched, number = undecided[p], covered[p], int(known.numbers[p])

        def ways(
            at: int, rows: tuple[int, ...], since: dict[int, int]
        ) -> Iterator[tuple[int, ...]]:
            row = start + len(rows)  # noqa: B023
            match int(code.operation[at]):
                case take if take == TAKE:
                    needs_row(known, row, start, end, times, within)  # noqa: B023
                    late = within >= 0 and row < end and times[row] - times[start] >= within  # noqa: B023
                    if row >= end or late or not holds[code.left[at], row]:  # noqa: B023
                        return
                    mapped = [int(code.left[i]) for i in (*rows, at)]
                    if _is_true(conditions, mapped, start, begin, end, number):  # noqa: B023
                        yield from ways(at + 1, (*rows, at), since)
                case split if split == SPLIT:
                    here = since | {at: row}
                    yield from ways(int(code.left[at]), rows, here)
                    yield from ways(int(code.right[at]), rows, here)
                case jump if jump == JUMP:
                    yield from ways(int(code.left[at]), rows, since)
                case done if done == FOUND:
                    needs_values(known, row, start, end)  # noqa: B023
                    yield rows
                case check if check == CHECK:
                    if since[int(code.left[at])] < row:
                        yield from ways(at + 1, rows, since)
                case anchor:
                    if anchor != AT_START:
                        needs_end(known, row, end)  # noqa: B023
                    if row == (begin if anchor == AT_START else end):  # noqa: B023
                        yield from ways(at + 1, rows, since)

        while start < end:
            try:
                found = next(ways(0, (), {}), None)
            except MoreRowsError:
                break
            if found is None:
                if start >= matched:
                    unmatched.append(start)
                start += 1
                continue
            number += 1
            first.append(start)
            length.append(len(found))
            taken += found
            matched = max(matched, start + max(len(found), 1))
            if not found or skip == NEXT:
                start += 1
            elif skip == PAST:
                start += len(found)
            else:
                marked = [k for k, at in enumerate(found) if code.skipped[at]]
                place = -1 if not marked else marked[0 if skip == FIRST else -1]
                if place <= 0:
                    status = NO_ROW if place < 0 else FIRST_ROW
                    parts = (first, length, taken, unmatched, status, start)
                    return FoundRows.of_lists(*parts, undecided, covered)
                start += place
        undecided[p], covered[p] = start, matched
    return FoundRows.of_lists(first, length, taken, unmatched, 0, 0, undecided, covered)


def _is_true(
    code: ConditionCode, mapped: list[int], start: int, low: int, high: int, number: int
) -> bool:
    """Is the condition of the variable that the last row is mapped to true?"""
    row, variable = start + len(mapped) - 1, mapped[-1]

    def column(name: int, at: int) -> Any:
        return None if code.nulls[name, at] else float(code.values[name, at])

    def members(place: int) -> list[int]:
        return [k for k, v in enumerate(mapped) if code.members[place, v]]

    def pointed(pointer: int) -> int | None:
        of, from_first, logical, physical = code.pointers[pointer].tolist()
        found = members(of)
        if logical >= len(found):
            return None
        return int(found[logical if from_first else -1 - logical]) + int(physical)

    def leaf(what: int, a: int, b: int) -> Any:
        if what == cpu.CONSTANT:
            return float(code.constants[a])
        if what == cpu.COLUMN:
            return column(a, row)
        if what in (cpu.ROW, cpu.LABEL):
            place = pointed(b)
            if place is None:
                return None
            if what == cpu.LABEL:
                return float(code.labels[mapped[place]]) if 0 <= place < len(mapped) else None
            return column(a, start + place) if low <= start + place < high else None
        if what == cpu.NUMBER:
            return float(number)
        if what == cpu.COUNT:
            return float(len(members(a)))
        if what == cpu.NULL:
            return None
        of, name, kind = code.totals[a].tolist()
        present = [v for k in members(of) if (v := column(name, start + k)) is not None]
        if what == cpu.COUNTED:
            return float(len(present))
        if not present:
            return None
        total = (sum, min, max)[kind](present)
        return total / len(present) if what == cpu.MEAN else total

    stack: list[Any] = []
    for i in range(int(code.begins[variable]), int(code.begins[variable + 1])):
        what = int(code.operation[i])
        if what < cpu.NOT:
            stack.append(leaf(what, int(code.first[i]), int(code.second[i])))
            continue
        last = stack.pop()
        if what == cpu.NOT:
            stack.append(None if last is None else not last)
        elif what == cpu.NEGATE:
            stack.append(None if last is None else -last)
        elif what == cpu.IS_NULL:
            stack.append(last is None)
        elif what in (cpu.AND, cpu.OR):
            both = (stack.pop(), last)
            decides = what == cpu.OR
            settled = any(one is not None and bool(one) == decides for one in both)
            stack.append(decides if settled else None if None in both else not decides)
        else:
            other = stack.pop()
            stack.append(None if other is None or last is None else _PAIRS[what](other, last))
    return not stack or bool(stack[0])
