"""The walk as plain Python: every row of a level is tried for every row that is bound above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from kernels.joins.reference import TESTS
from kernels.walk.cpu import Found, Level, Reach


def reach(moment: np.ndarray, position: np.ndarray, width: int) -> Reach:
    size = len(moment)
    places = range(size)
    rows = [
        (
            sum(moment[q] <= moment[p] for q in places),
            sum(moment[q] < moment[p] for q in places),
            sum(position[q] <= position[p] - width for q in places),
            sum(position[q] < position[p] + width for q in places),
        )
        for p in places
    ]
    found = np.array(rows, np.int32).reshape(size, 4).T
    return Reach(*found)


def walk_rows(
    levels: Sequence[Level], reach: Reach, room: int, budget: int = 1 << 26
) -> Iterator[Found]:
    emitting = [i for i, level in enumerate(levels) if level.emits]
    given: dict[int, list[list[int]]] = {i: [] for i in emitting}
    counted = [0, 0]
    for root in (i for i, level in enumerate(levels) if level.parent < 0):
        _visit(levels, reach, root, {}, given, counted)
    tried, bound = counted
    for i in emitting:
        rows = np.array(given[i], np.int32)
        for start in range(0, len(rows), room):
            yield Found(i, rows[start : start + room].T, tried, bound)
            tried = bound = 0
    if tried:
        yield Found(emitting[0], np.zeros((len(_path(levels, emitting[0])), 0)), tried, bound)


def _path(levels: Sequence[Level], number: int) -> list[int]:
    parent = levels[number].parent
    return [*([] if parent < 0 else _path(levels, parent)), number]


def _visit(
    levels: Sequence[Level],
    reach: Reach,
    number: int,
    rows: dict[int, int],
    given: dict[int, list[list[int]]],
    counted: list[int],
) -> None:
    level = levels[number]
    children = [i for i, other in enumerate(levels) if other.parent == number]
    for row in range(len(level.last)):
        if not _is_near(levels, reach, level, row, rows):
            continue
        counted[0] += 1
        if not _fits(levels, reach, level, row, rows):
            continue
        bound = {**rows, number: row}
        if level.emits:
            path = [(levels[i], bound[i]) for i in _path(levels, number)]
            given[number].append([int(of.last[r]) if of.is_shown else r for of, r in path])
        counted[1] += bool(children)
        for child in children:
            _visit(levels, reach, child, bound, given, counted)


def _rises(level: Level, gate: np.ndarray) -> bool:
    ends = level.groups if level.partner >= 0 else [0, len(gate)]
    return all(
        gate[i] <= gate[i + 1] for start, end in pairwise(ends) for i in range(start, end - 1)
    )


def _is_near(
    levels: Sequence[Level], reach: Reach, level: Level, row: int, rows: dict[int, int]
) -> bool:
    """Is a row tried: by its end, by the look-up, and by what searches find?"""
    if not rows:
        return True
    end = level.last[row]
    lowest = min(int(levels[i].first[r]) for i, r in rows.items())
    highest = max(int(levels[i].last[r]) for i, r in rows.items())
    low, high = reach.opening[highest], reach.closing[lowest]
    single = level.first is level.last
    before = None if level.before < 0 else (levels[level.before], rows[level.before])
    after = None if level.after < 0 else (levels[level.after], rows[level.after])
    if before is not None:
        other, bound = before
        low = max(low, reach.following[other.last[bound]])
        if level.beside_before:
            if len(other.latest) and single:
                high = min(high, other.latest[bound])
            rises = len(level.earliest) and _rises(level, level.earliest)
            if rises and level.earliest[row] > other.last[bound]:
                return False
    if after is not None:
        other, bound = after
        high = min(high, reach.simultaneous[other.first[bound]])
        if level.beside_after:
            if len(other.earliest):
                low = max(low, other.earliest[bound])
            rises = len(level.latest) and _rises(level, level.latest)
            if rises and level.latest[row] <= other.first[bound]:
                return False
    if level.partner >= 0:
        g = level.group[rows[level.partner]]
        if g < 0 or not level.groups[g] <= row < level.groups[g + 1]:
            return False
    if any(np.isnan(test.other[rows[test.level]]) for test in level.tests):
        return False
    for test in level.tests:  # nothing is beyond the infinite
        value = test.other[rows[test.level]]
        if (test.kind == 2 and value == -np.inf) or (test.kind == 4 and value == np.inf):
            return False
    return bool(low <= end < high)


def _fits(
    levels: Sequence[Level], reach: Reach, level: Level, row: int, rows: dict[int, int]
) -> bool:
    if rows:
        start, highest = level.first[row], max(int(levels[i].last[r]) for i, r in rows.items())
        if start < reach.opening[highest]:
            return False
    if level.before >= 0:
        other, bound = levels[level.before], rows[level.before]
        if start < reach.following[other.last[bound]]:
            return False
        if level.beside_before:
            if len(other.latest) and start >= other.latest[bound]:
                return False
            if len(level.earliest) and level.earliest[row] > other.last[bound]:
                return False
    if level.after >= 0:
        other, bound = levels[level.after], rows[level.after]
        if level.beside_after and len(level.latest) and level.latest[row] <= other.first[bound]:
            return False
    return all(
        TESTS[test.kind](test.own[row], test.other[rows[test.level]]) for test in level.tests
    )
