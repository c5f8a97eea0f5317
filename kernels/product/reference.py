"""The sliding product as plain Python: every window multiplied from scratch.

Nothing slides here: the window's groups are applied to the back's counters one after the other, and
the front stays empty. So this says what a window's value is, and `kernels.product.cpu` must find
the same with a front that is built backwards and taken off group by group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from kernels.groups import Groups, RowSegments, Spans
from kernels.kept.cpu import TimedGroups
from kernels.product import cpu as kernel
from kernels.product.cpu import Operators
from kernels.values import MAX, MIN, NUMBER, SUM

NEUTRAL = {SUM: 0.0, NUMBER: 0.0, MIN: math.inf, MAX: -math.inf}


def slide_product(
    groups: Groups,
    begun: np.ndarray,
    since: np.ndarray,
    back: Operators,
    front: Operators,
    readings: np.ndarray,
    spans: Spans,
    dual: bool,
    out: RowSegments,
) -> bool:
    """As `kernels.product.cpu.slide_product`."""

    def triggered(letter: int) -> list[int]:
        return [q for (q,) in _rows(readings, kernel.TRIGGER, kernel.TRIGGERS, letter, 1)]

    for r in range(len(groups.run) - 1):
        for window, boundary, asked in evaluations(
            groups, r, int(begun[r]), int(since[r]), triggered, spans
        ):
            counts, values = multiplied(groups, back, window)
            for q in asked:
                count, found = counted_and_valued(readings, q, front, counts, values)
                if count == 0:
                    continue
                row = out.end[q]
                if row == out.room[q]:
                    return False
                out.end[q] += 1
                out.group[row] = window[-1]
                if len(out.boundary):
                    out.boundary[row] = boundary
                out.counts[row] = count % 2**64
                if dual:
                    out.approximate[row] = float(count)
                for column, value in enumerate(found):
                    out.values[row, column] = value
    return True


def counted_and_valued(
    readings: np.ndarray, q: int, front: Operators, counts: list[int], values: list[float]
) -> tuple[int, list[float]]:
    """A query's count and its values, of the counters of a window's groups."""
    count = sum(
        int(front.start_counts[a]) * counts[b]
        for a, b in _rows(readings, kernel.PAIR, kernel.PAIRS, q, 2)
    )
    return count, list(_values(readings, q, front, counts, values))


def evaluations(
    groups: Groups,
    r: int,
    begun: int,
    since: int,
    triggered: Callable[[int], list[int]],
    spans: Spans,
) -> Iterator[tuple[list[int], int, list[int]]]:
    """The groups of each window of a run that is looked at, its boundary, and the queries asked.

    Each query's windows come in order.
    """
    first, last = int(groups.run[r]), int(groups.run[r + 1])
    for width in map(int, np.unique(spans.width)):
        for g in range(first + begun, last):
            asked: dict[int, None] = {}
            for e in range(groups.event[g], groups.event[g + 1]):
                asked |= dict.fromkeys(triggered(int(groups.move_letter[e])))
            mine = [q for q in asked if spans.width[q] == width and not spans.slide[q]]
            low = groups.position[g] - width
            yield [h for h in range(first, g + 1) if groups.position[h] > low], 0, mine
    if first == last:
        return
    for q in np.flatnonzero(spans.slide).tolist():
        width, slide = int(spans.width[q]), int(spans.slide[q])
        boundary = -(-max(int(groups.position[first]), since + 1) // slide) * slide
        # Behind the last group the windows go on until they are empty or the limit is reached.
        end = min(int(groups.limit[r]), int(groups.position[last - 1]) + width - 1)
        while boundary <= end:
            inside = [
                g for g in range(first, last) if boundary - width < groups.position[g] <= boundary
            ]
            if inside:
                yield inside, boundary, [q]
            boundary += slide


def _rows(tables: np.ndarray, by: int, of: int, i: int, size: int) -> list[tuple[int, ...]]:
    """The records of a table that belong to number i of another."""
    first, end = tables[tables[by] + i], tables[tables[by] + i + 1]
    start = tables[of]
    return [
        tuple(int(n) for n in tables[start + size * k : start + size * (k + 1)])
        for k in range(first, end)
    ]


def multiplied(
    groups: Groups | TimedGroups, operators: Operators, window: list[int]
) -> tuple[list[int], list[float]]:
    """The counters and value counters after the groups of a window."""
    tables, kinds = operators.tables, [int(kind) for kind in operators.kinds]
    counts = [int(n) for n in operators.start_counts]
    values = [float(x) for x in operators.start_values]
    for g in window:
        # Everything is read before anything changes.
        before, before_values = list(counts), list(values)
        stay = groups.stay_letter[g]
        for target, first, end in _rows(tables, kernel.STAY, kernel.STAYS, stay, 3):
            sources = tables[tables[kernel.STAY_SOURCES] :][first:end]
            counts[target] = sum(before[s] for s in sources)
        for target, first, end in _rows(tables, kernel.VALUE_STAY, kernel.VALUE_STAYS, stay, 3):
            sources = tables[tables[kernel.VALUE_STAY_SOURCES] :][first:end]
            values[target] = NEUTRAL[kinds[target]]
            for s in sources:
                values[target] = combined(kinds[target], values[target], before_values[s])
        for e in range(groups.event[g], groups.event[g + 1]):
            letter = groups.move_letter[e]
            for target, source in _rows(tables, kernel.MOVE, kernel.MOVES, letter, 2):
                counts[target] += before[source]
            for target, source in _rows(tables, kernel.VALUE_MOVE, kernel.VALUE_MOVES, letter, 2):
                new = before_values[source]
                values[target] = combined(kinds[target], values[target], new)
            for target, source, column in _rows(
                tables, kernel.VALUE_TAG, kernel.VALUE_TAGS, letter, 3
            ):
                new = _term(kinds[target], float(groups.inputs[column, e]), before[source])
                values[target] = combined(kinds[target], values[target], new)
    return counts, values


def _values(
    readings: np.ndarray, q: int, front: Operators, counts: list[int], values: list[float]
) -> Iterator[float]:
    """A query's value results: each is carried by the front or by the back."""
    first, end = readings[readings[kernel.VALUE] + q], readings[readings[kernel.VALUE] + q + 1]
    for v in range(first, end):
        kind = int(readings[readings[kernel.VALUE_KINDS] + v])
        total = NEUTRAL[kind]
        for in_front, a, in_back, b in _rows(readings, kernel.VALUE_PAIR, kernel.VALUE_PAIRS, v, 4):
            if in_front >= 0:
                value, ways = float(front.start_values[in_front]), counts[b]
            else:
                value, ways = values[in_back], int(front.start_counts[a])
            if ways > 0:
                total = combined(kind, total, value * ways if kind in (SUM, NUMBER) else value)
        yield total


def _term(kind: int, x: float, ways: int) -> float:
    if math.isnan(x) or not ways:
        return NEUTRAL[kind]
    return {SUM: x * ways, NUMBER: float(ways)}.get(kind, x)


def combined(kind: int, a: float, b: float) -> float:
    return {MIN: min(a, b), MAX: max(a, b)}.get(kind, a + b)
