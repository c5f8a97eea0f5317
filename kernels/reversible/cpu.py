"""The sliding product where every operator can be taken back: sequences without `+` and `!`.

An event adds counts to counters that lie further along, which can be undone. So the window's
product is kept as it is: a group that arrives is multiplied from the right, and one that leaves is
divided off on the left. There are no stacks, no log, and a query's count is one counter.

Queries may differ in window and slide. Each width has counters of its own and a place in the stream
up to which groups have left it; a group that arrives changes the counters of all widths in one go.
A slide only says when counts are read. What left a window is divided off when one of its queries is
read, and not before: the order of divisions and multiplications does not matter.

Each addition goes from a counter of a lower *level* to one of a higher. What arrives is added from
the highest level down, so that counts are read before they change; what leaves is subtracted from
the lowest level up, so that they are read afterwards. That holds for the events of one time
together: they go through the levels side by side.

Counts are unsigned and wrap: what is added and taken back modulo 2^64 is exact while the true count
is below. Where it may not be, the caller asks for `wide` counters, of two numbers each, which do so
modulo 2^128.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernels.groups import Groups, RowSegments, Spans
from kernels.uncounted import uncounted

FAR = 2**62  # behind any boundary
TWO_64 = 2.0**64


class Steps(NamedTuple):
    """What letters do to counters. Row pointers are by letter and level, a letter's levels in turn.

    A row is the counter that changes (`into`), and the one that is added to it (`of`). The counters
    of each width stand together, those of the smallest first; what leaves has a table of pointers
    for each width, one behind the other.
    """

    start: np.ndarray  # uint64: the counters of an empty window
    window: np.ndarray  # int64 pointers: the counters of each width
    levels: int
    arrive: np.ndarray  # uint64 pointers, the highest level first
    arrive_into: np.ndarray  # uint32
    arrive_of: np.ndarray
    leave: np.ndarray  # uint64 pointers by width, letter and level, the lowest level first
    leave_into: np.ndarray
    leave_of: np.ndarray
    trigger: np.ndarray  # uint64 pointers by letter
    triggers: np.ndarray  # uint64: queries that an event triggers
    final: np.ndarray  # uint64 pointers by query
    finals: np.ndarray  # uint64: counters whose sum is the query's count


def slide_reversible(
    groups: Groups, begun: np.ndarray, since: np.ndarray, steps: Steps, spans: Spans, wide: bool,
    out: RowSegments,
) -> bool:  # fmt: skip
    """Fill `out` with the rows of all runs; False where a segment of it is too small.

    As `kernels.product.cpu.slide_product`.
    """
    widths, window = spans.windows
    marks = spans.marks
    window[spans.slide > 0] = -1  # no event triggers them
    counters, marked = len(steps.start) * (1 + wide), len(marks.width)
    scratch = (
        np.zeros(counters, np.uint64), np.full(len(spans.width), -1, np.int64),
        np.zeros(len(widths), np.int64), np.zeros(marked, np.int64),
    )  # fmt: skip
    given: tuple[Any, ...] = (
        *scratch, groups.run, groups.limit, groups.position, groups.event, groups.move_letter,
        begun, since,
        steps.start, steps.levels, *steps[3:], widths, window,
        np.searchsorted(widths, marks.width), *marks[1:], wide, *out[:6],
    )  # fmt: skip
    return bool(_slide(*given))


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed in several processes."""
    none, counts = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    groups = Groups(none, none, none, none, none, none, np.zeros((1, 1)))
    rows = np.zeros(1, np.uint32)
    steps = Steps(
        counts, none, 1, counts, rows, rows, counts, rows, rows, counts, counts, counts, counts
    )
    out = RowSegments(none, none, none, none, counts, np.zeros(1), np.zeros((1, 1)))
    slide_reversible(groups, none, none, steps, Spans(none + 1, none), False, out)


# Row pointers are unsigned, so that no index has to be tested for being negative.
ONE = np.uint64(1)


@uncounted(inline="always")
def _add(counts: np.ndarray, into: int, of: int, wide: bool) -> None:
    if wide:
        t, s = np.uint64(into) << ONE, np.uint64(of) << ONE
        low = counts[s]
        total = counts[t] + low
        counts[t] = total
        counts[t + ONE] += counts[s + ONE] + np.uint64(total < low)
    else:
        counts[into] += counts[of]


@uncounted(inline="always")
def _subtract(counts: np.ndarray, into: int, of: int, wide: bool) -> None:
    if wide:
        t, s = np.uint64(into) << ONE, np.uint64(of) << ONE
        before, low = counts[t], counts[s]
        counts[t] = before - low
        counts[t + ONE] -= counts[s + ONE] + np.uint64(before < low)
    else:
        counts[into] -= counts[of]


@uncounted()
def _arrive_together(
    counts: np.ndarray, first: int, behind: int, move_letter: np.ndarray, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray, wide: bool,
) -> None:  # fmt: skip
    for level in range(levels):
        for e in range(first, behind):
            k = move_letter[e] * levels + level
            for i in range(at[k], at[k + 1]):
                _add(counts, into[i], of[i], wide)


@uncounted(inline="always")
def _arrive(
    counts: np.ndarray, g: int, event: np.ndarray, move_letter: np.ndarray, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray, wide: bool,
) -> None:  # fmt: skip
    """Multiply a group from the right."""
    if event[g + 1] - event[g] == 1:
        k = move_letter[event[g]] * levels
        if wide:
            for i in range(at[k], at[k + levels]):
                _add(counts, into[i], of[i], True)
        else:
            for i in range(at[k], at[k + levels]):
                counts[into[i]] += counts[of[i]]
    else:
        _arrive_together(counts, event[g], event[g + 1], move_letter, levels, at, into, of, wide)


@uncounted()
def _leave_together(
    counts: np.ndarray, first: int, behind: int, move_letter: np.ndarray, base: int, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray, wide: bool,
) -> None:  # fmt: skip
    for level in range(levels):
        for e in range(first, behind):
            k = base + move_letter[e] * levels + level
            for i in range(at[k], at[k + 1]):
                _subtract(counts, into[i], of[i], wide)


@uncounted()
def _leave(
    counts: np.ndarray, head: int, until: int, low: int, position: np.ndarray, event: np.ndarray,
    move_letter: np.ndarray, base: int, levels: int, at: np.ndarray, into: np.ndarray,
    of: np.ndarray, wide: bool,
) -> int:  # fmt: skip
    """Divide the groups up to a position off on the left; returns the first one that is left.

    `base` is where the pointers of the window begin.
    """
    while head < until and position[head] <= low:
        if event[head + 1] - event[head] == 1:
            k = base + move_letter[event[head]] * levels
            if wide:
                for i in range(at[k], at[k + levels]):
                    _subtract(counts, into[i], of[i], True)
            else:
                for i in range(at[k], at[k + levels]):
                    counts[into[i]] -= counts[of[i]]
        else:
            _leave_together(
                counts, event[head], event[head + 1], move_letter, base, levels, at, into, of, wide
            )
        head += 1
    return head


@uncounted(inline="always")
def _read(
    q: int, g: int, boundary: int, counts: np.ndarray, final: np.ndarray, finals: np.ndarray,
    wide: bool, end: np.ndarray, room: np.ndarray, out_group: np.ndarray,
    out_boundary: np.ndarray, out_counts: np.ndarray, out_approximate: np.ndarray,
) -> bool:  # fmt: skip
    """A query's row, if its window has a match; False where there is no room for it."""
    count, high = np.uint64(0), np.uint64(0)
    for k in range(final[q], final[q + 1]):
        if wide:
            low = counts[finals[k] << ONE]
            count += low
            high += counts[(finals[k] << ONE) + ONE] + np.uint64(count < low)
        else:
            count += counts[finals[k]]
    if count == 0 and high == 0:
        return True
    row = end[q]
    if row == room[q]:
        return False
    out_group[row] = g
    out_counts[row] = count
    if out_boundary.size:
        out_boundary[row] = boundary
    if out_approximate.size:
        out_approximate[row] = float(count) + TWO_64 * float(high)
    end[q] = row + 1
    return True


@uncounted(nogil=True)
def _slide(
    counts: np.ndarray, stamp: np.ndarray, head: np.ndarray, due: np.ndarray,
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, event: np.ndarray,
    move_letter: np.ndarray, begun: np.ndarray, since: np.ndarray,
    start: np.ndarray, levels: int, arrive: np.ndarray, arrive_into: np.ndarray,
    arrive_of: np.ndarray, leave: np.ndarray, leave_into: np.ndarray, leave_of: np.ndarray,
    trigger: np.ndarray, triggers: np.ndarray, final: np.ndarray, finals: np.ndarray,
    widths: np.ndarray, window: np.ndarray, mark_window: np.ndarray, slides: np.ndarray,
    marked: np.ndarray, asked: np.ndarray, wide: bool,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray,
) -> bool:  # fmt: skip
    table = (trigger.size - 1) * levels  # pointers of one window
    per_trigger = False  # not by `max`, which numba cannot compile without its runtime
    for q in range(window.size):
        per_trigger |= window[q] >= 0
    for r in range(run.size - 1):
        first, last = run[r], run[r + 1]
        if first == last or (slides.size == 0 and begun[r] == last - first):
            continue  # nothing new
        for i in range(start.size):
            if wide:
                counts[2 * i], counts[2 * i + 1] = start[i], 0
            else:
                counts[i] = start[i]
        head[:] = first
        fresh = first + begun[r]
        soonest = FAR
        for m in range(slides.size):
            due[m] = -((-max(position[first], since[r] + 1)) // slides[m]) * slides[m]
            soonest = min(soonest, due[m])
        for g in range(first, last + 1):
            # The boundaries before the next group; behind the last one they go on until windows are
            # empty or the limit is reached.
            if slides.size > 0 and g >= fresh:
                until = limit[r] if g == last else min(limit[r], position[g] - 1)
                while soonest <= until:
                    later = FAR
                    for m in range(slides.size):
                        if due[m] == soonest:
                            w = mark_window[m]
                            head[w] = _leave(
                                counts, head[w], g, soonest - widths[w], position, event,
                                move_letter, w * table, levels, leave, leave_into, leave_of, wide,
                            )  # fmt: skip
                            if head[w] < g:
                                for i in range(marked[m], marked[m + 1]):
                                    if not _read(
                                        asked[i], g - 1, soonest, counts, final, finals, wide, end,
                                        room, out_group, out_boundary, out_counts, out_approximate,
                                    ):  # fmt: skip
                                        return False
                                due[m] += slides[m]
                            elif g < last:
                                due[m] = -((-position[g]) // slides[m]) * slides[m]
                            else:
                                due[m] = FAR
                        later = min(later, due[m])
                    soonest = later
            if g == last:
                break
            _arrive(counts, g, event, move_letter, levels, arrive, arrive_into, arrive_of, wide)
            if g < fresh or not per_trigger:
                continue
            several = event[g + 1] - event[g] > 1
            for e in range(event[g], event[g + 1]):
                letter = move_letter[e]
                for i in range(trigger[letter], trigger[letter + 1]):
                    q = triggers[i]
                    w = window[q]
                    if w < 0:
                        continue
                    if several:
                        if stamp[q] == g:
                            continue
                        stamp[q] = g
                    low = position[g] - widths[w]
                    if position[head[w]] <= low:
                        head[w] = _leave(
                            counts, head[w], g, low, position, event, move_letter, w * table,
                            levels, leave, leave_into, leave_of, wide,
                        )  # fmt: skip
                    if not _read(
                        q, g, 0, counts, final, finals, wide, end, room, out_group, out_boundary,
                        out_counts, out_approximate,
                    ):  # fmt: skip
                        return False
    return True
