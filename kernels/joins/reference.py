"""The joins of buffers as plain Python: every pair is tried."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from kernels.joins.cpu import NOWHERE, Pairs, Side

TESTS: tuple[Callable[[float, float], bool], ...] = (
    operator.eq,
    lambda a, b: a < b or a > b,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)


def _satisfied(left: Side, k: int, values: np.ndarray, r: int, tests: np.ndarray) -> bool:
    return all(TESTS[test](left.values[t, k], values[t, r]) for t, test in enumerate(tests))


def _members(groups: np.ndarray, group: np.ndarray, r: int) -> range:
    g = int(group[r]) if len(group) else 0
    return range(int(groups[g]), int(groups[g + 1])) if g >= 0 else range(0)


def _in_reach(
    moment: np.ndarray, position: np.ndarray, left: Side, k: int, right: Side, r: int, width: int,
    ordered: bool, rising: bool,
) -> bool:  # fmt: skip
    """Could left row k fit right row r, by its end and the gates, if those of left rows rise?"""
    end = left.last[k]
    if position[end] <= position[right.last[r]] - width:
        return False
    if not ordered:
        return bool(position[end] < position[right.first[r]] + width)
    late_enough = not len(right.gate) or moment[end] >= right.gate[r]
    let_through = not rising or left.gate[k] >= moment[right.first[r]]
    return bool(moment[end] < moment[right.first[r]] and late_enough and let_through)


def _fits(
    moment: np.ndarray, position: np.ndarray, left: Side, k: int, right: Side, r: int,
    tests: np.ndarray, width: int, ordered: bool,
) -> bool:  # fmt: skip
    first = min(position[left.first[k]], position[right.first[r]])
    last = max(position[left.last[k]], position[right.last[r]])
    if last - first >= width or not _satisfied(left, k, right.values, r, tests):
        return False
    return not (ordered and len(left.gate) and left.gate[k] < moment[right.first[r]])


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
    """As `kernels.joins.cpu.count_pairs`."""
    size = len(right.last)
    begin, end = np.zeros(size, np.int32), np.zeros(size, np.int32)
    counts, tried = np.zeros(size, np.int64), 0
    rising = len(left.gate) > 0 and all(
        (np.diff(left.gate[start:stop]) >= 0).all() for start, stop in pairwise(groups)
    )
    for r in range(size):
        near = [
            k
            for k in _members(groups, group, r)
            if _in_reach(moment, position, left, k, right, r, width, ordered, rising)
        ]
        if near:
            begin[r], end[r] = near[0], near[-1] + 1
        tried += len(near)
        counts[r] = sum(
            _fits(moment, position, left, k, right, r, tests, width, ordered) for k in near
        )
    return Pairs(begin, end, counts, tried)


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
    """As `kernels.joins.cpu.fill_pairs`."""
    found = [
        (k, r)
        for r in range(start, stop)
        for k in range(pairs.begin[r], pairs.end[r])
        if _fits(moment, position, left, k, right, r, tests, width, ordered)
    ]
    return (
        np.array([k for k, _ in found], np.int32),
        np.array([r for _, r in found], np.int32),
    )


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
    """As `kernels.joins.cpu.probe`, but that every row is tried."""
    found = np.full(len(low), -1 if latest else NOWHERE, np.int32)
    tried = 0
    for r in range(len(low)):
        members = _members(groups, group, r)
        tried += len(members)
        inside = [
            k
            for k in members
            if left.first[k] >= low[r]
            and left.last[k] < high[r]
            and _satisfied(left, k, values, r, tests)
        ]
        if inside:
            ends = [left.first[k] for k in inside] if latest else [left.last[k] for k in inside]
            found[r] = max(ends) if latest else min(ends)
    return found, tried


def latest_starts(
    moment: np.ndarray,
    position: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    places: np.ndarray,
    gate: np.ndarray,
    width: int,
) -> np.ndarray:
    """As `kernels.joins.cpu.latest_starts`."""
    found = []
    for i, place in enumerate(places):
        fitting = [
            start
            for start, end in zip(first, last, strict=True)
            if moment[end] < moment[place]
            and position[place] - position[start] < width
            and (not len(gate) or moment[end] >= gate[i])
        ]
        found.append(max(fitting, default=-1))
    return np.array(found, np.int32)


def places_from(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """As `kernels.joins.cpu.places_from`."""
    found = [sum(1 for value in values if value < key) for key in keys]
    return np.array(found, np.int32)


def match_codes(
    left: np.ndarray, left_known: np.ndarray, right: np.ndarray, right_known: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """As `kernels.joins.cpu.match_codes`."""
    numbers: dict[int, int] = {}
    for value, known in zip(left.tolist(), left_known.tolist(), strict=True):
        if known:
            numbers.setdefault(value, len(numbers))
    codes, others = (
        np.array(
            [
                numbers.get(value, -1) if known else -1
                for value, known in zip(values.tolist(), flags.tolist(), strict=True)
            ],
            np.int32,
        )
        for values, flags in ((left, left_known), (right, right_known))
    )
    return codes, others, len(numbers)


def group_rows(codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels.joins.cpu.group_rows`."""
    members = [[i for i, code in enumerate(codes) if code == g] for g in range(count)]
    rows = np.array([i for group in members for i in group], np.int32)
    return rows, np.cumsum([0, *map(len, members)]).astype(np.int64)
