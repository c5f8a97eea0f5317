"""The sliding product where every operator can be taken back: sequences without `+` and `!`.

An event adds counts to counters that lie further along, which can be undone. So the window's
product is kept as it is: a group that arrives is multiplied from the right, and one that leaves is
divided off on the left. There are no stacks, no log, and a query's count is one counter. Counts are
unsigned and wrap: what is added and taken back modulo 2^64 is exact while the true count is below.

Each addition goes from a counter of a lower *level* to one of a higher. What arrives is added from
the highest level down, so that counts are read before they change; what leaves is subtracted from
the lowest level up, so that they are read afterwards. That holds for the events of one time
together: they go through the levels side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from kernels.groups import Groups, RowSegments


class Steps(NamedTuple):
    """What letters do to counters. Row pointers are by letter and level, a letter's levels in turn.

    A row is the counter that changes (`into`), and the one that is added to it (`of`).
    """

    start: np.ndarray  # uint64: the counters of an empty window
    levels: int
    arrive: np.ndarray  # uint64 pointers, the highest level first
    arrive_into: np.ndarray  # uint32
    arrive_of: np.ndarray
    leave: np.ndarray  # uint64 pointers, the lowest level first
    leave_into: np.ndarray
    leave_of: np.ndarray
    trigger: np.ndarray  # uint64 pointers by letter
    triggers: np.ndarray  # uint64: queries that an event triggers
    final: np.ndarray  # uint64 pointers by query
    finals: np.ndarray  # uint64: counters whose sum is the query's count


def slide_reversible(
    groups: Groups, begun: np.ndarray, since: np.ndarray, steps: Steps, width: int, slide: int,
    out: RowSegments,
) -> bool:  # fmt: skip
    """Fill `out` with the rows of all runs; False where a segment of it is too small.

    As `kernels.product.cpu.slide_product`.
    """
    given: tuple[Any, ...] = (*groups[:6], begun, since, *steps, width, slide, *out[:5])
    return bool(_slide(*given))


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed in several processes."""
    none, counts = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    groups = Groups(none, none, none, none, none, none, np.zeros((1, 1)))
    rows = np.zeros(1, np.uint32)
    steps = Steps(counts, 1, counts, rows, rows, counts, rows, rows, counts, counts, counts, counts)
    out = RowSegments(none, none, none, none, counts, np.zeros(1), np.zeros((1, 1)))
    slide_reversible(groups, none, none, steps, 1, 0, out)


# Row pointers are unsigned, so that no index has to be tested for being negative; and no array is
# sliced in a loop, as each slice would be counted as a reference.


@numba.njit(cache=True)
def _arrive_together(
    counts: np.ndarray, first: int, behind: int, move_letter: np.ndarray, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray,
) -> None:  # fmt: skip
    for level in range(levels):
        for e in range(first, behind):
            k = move_letter[e] * levels + level
            for i in range(at[k], at[k + 1]):
                counts[into[i]] += counts[of[i]]


@numba.njit(cache=True, inline="always")
def _arrive(
    counts: np.ndarray, g: int, event: np.ndarray, move_letter: np.ndarray, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray,
) -> None:  # fmt: skip
    """Multiply a group from the right."""
    if event[g + 1] - event[g] == 1:
        k = move_letter[event[g]] * levels
        for i in range(at[k], at[k + levels]):
            counts[into[i]] += counts[of[i]]
    else:
        _arrive_together(counts, event[g], event[g + 1], move_letter, levels, at, into, of)


@numba.njit(cache=True)
def _leave_together(
    counts: np.ndarray, first: int, behind: int, move_letter: np.ndarray, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray,
) -> None:  # fmt: skip
    for level in range(levels):
        for e in range(first, behind):
            k = move_letter[e] * levels + level
            for i in range(at[k], at[k + 1]):
                counts[into[i]] -= counts[of[i]]


@numba.njit(cache=True, inline="always")
def _leave(
    counts: np.ndarray, g: int, event: np.ndarray, move_letter: np.ndarray, levels: int,
    at: np.ndarray, into: np.ndarray, of: np.ndarray,
) -> None:  # fmt: skip
    """Divide a group off on the left."""
    if event[g + 1] - event[g] == 1:
        k = move_letter[event[g]] * levels
        for i in range(at[k], at[k + levels]):
            counts[into[i]] -= counts[of[i]]
    else:
        _leave_together(counts, event[g], event[g + 1], move_letter, levels, at, into, of)


@numba.njit(cache=True, inline="always")
def _read(
    asked: np.ndarray, first: np.uint64, behind: np.uint64, once: bool, stamp: np.ndarray,
    counts: np.ndarray, final: np.ndarray, finals: np.ndarray, g: int, boundary: int,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray,
) -> bool:  # fmt: skip
    """The rows of the queries asked[first:behind]; False where there is no room for one.

    `once`: a query may have been asked for another event of the group.
    """
    for i in range(first, behind):
        q = asked[i]
        if once:
            if stamp[q] == g:
                continue
            stamp[q] = g
        count = np.uint64(0)
        for k in range(final[q], final[q + np.uint64(1)]):
            count += counts[finals[k]]
        if count == 0:
            continue
        row = end[q]
        if row == room[q]:
            return False
        out_group[row] = g
        out_counts[row] = count
        if out_boundary.size:
            out_boundary[row] = boundary
        end[q] = row + 1
    return True


@numba.njit(cache=True)
def _slide(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, begun: np.ndarray, since: np.ndarray,
    start: np.ndarray, levels: int, arrive: np.ndarray, arrive_into: np.ndarray,
    arrive_of: np.ndarray, leave: np.ndarray, leave_into: np.ndarray, leave_of: np.ndarray,
    trigger: np.ndarray, triggers: np.ndarray, final: np.ndarray, finals: np.ndarray,
    width: int, slide: int,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray,
) -> bool:  # fmt: skip
    counts = start.copy()
    everyone = np.arange(final.size - 1).astype(np.uint64)
    stamp = np.full(final.size - 1, -1, np.int64)
    for r in range(run.size - 1):
        first, last = run[r], run[r + 1]
        if first == last or (slide == 0 and begun[r] == last - first):
            continue  # nothing new
        counts[:] = start
        head = first
        g = first
        while g < first + begun[r]:
            _arrive(counts, g, event, move_letter, levels, arrive, arrive_into, arrive_of)
            g += 1
        if slide == 0:
            while g < last:
                low = position[g] - width
                while head < g and position[head] <= low:
                    _leave(counts, head, event, move_letter, levels, leave, leave_into, leave_of)
                    head += 1
                _arrive(counts, g, event, move_letter, levels, arrive, arrive_into, arrive_of)
                several = event[g + 1] - event[g] > 1
                for e in range(event[g], event[g + 1]):
                    letter = move_letter[e]
                    if not _read(
                        triggers, trigger[letter], trigger[letter + 1], several, stamp, counts,
                        final, finals, g, 0, end, room, out_group, out_boundary, out_counts,
                    ):  # fmt: skip
                        return False
                g += 1
            continue
        # Per slide: a boundary is looked at when all groups up to it have arrived; behind the last
        # group they go on until the window is empty or the limit is reached.
        boundary = max(position[first], since[r] + 1)
        boundary = -((-boundary) // slide) * slide
        while True:
            while g < last and position[g] <= boundary:
                _arrive(counts, g, event, move_letter, levels, arrive, arrive_into, arrive_of)
                g += 1
            if boundary > limit[r]:
                break
            while head < g and position[head] <= boundary - width:
                _leave(counts, head, event, move_letter, levels, leave, leave_into, leave_of)
                head += 1
            if head == g:
                if g == last:
                    break
                boundary = -((-position[g]) // slide) * slide
                continue
            if not _read(
                everyone, np.uint64(0), np.uint64(everyone.size), False, stamp, counts, final,
                finals, g - 1, boundary, end, room, out_group, out_boundary, out_counts,
            ):  # fmt: skip
                return False
            boundary += slide
    return True
