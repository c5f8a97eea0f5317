"""The sliding product of a live stream's keys: a batch costs what is new in it.

As in `kernels.product.cpu`, what is in the window of a run (key) is two stacks of groups. The back
is the product of those that came last, which grows to the right. When the oldest group must go and
no front is left, all groups of the run go to the front; in place of a log, each keeps what is read
of the product from it on. So taking the oldest off is to look at the next one. The groups of a run
are linked in the order of time, and known by numbers that stay theirs: `base` of the progress and
the place among the groups.

Counts wrap; the caller sees to it that none can pass 2^62.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from kernels.kept.cpu import (
    BASE,
    BOUNDARY,
    DONE,
    END,
    HEAD,
    NEXT,
    PROGRESS,
    ROWS,
    KeptRows,
    TimedGroups,
)
from kernels.product.cpu import (
    OPERATOR_TABLES,
    PAIR,
    PAIRS,
    TRIGGER,
    TRIGGERS,
    Operators,
    _apply,
    _in_place,
    _read,
)


class KeptStacks(NamedTuple):
    """The stacks of each run. Arrays by group are rings: of number n the entry is n modulo size.

    Their size is a power of two, and they have room for all groups of the window and the new ones.
    """

    counts: np.ndarray  # uint64 (run, counter): the product of the back
    values: np.ndarray  # float64 (run, value counter)
    first: np.ndarray  # int64, by run: its first group, or -1
    last: np.ndarray  # int64, by run
    middle: np.ndarray  # int64, by run: groups before it are in the front
    before: np.ndarray  # int64, by group: the one before it in its run
    behind: np.ndarray  # int64, by group
    front_counts: np.ndarray  # uint64 (group, counter that is read): the product from it on
    front_values: np.ndarray  # float64


def advance_stacks(
    groups: TimedGroups, progress: np.ndarray, limit: int, quiet: bool, stacks: KeptStacks,
    back: Operators, front: Operators, readings: np.ndarray, width: int, slide: int, out: KeptRows,
) -> bool:  # fmt: skip
    """Fill `out` with the rows of the groups that are new; True when that is done.

    As `kernels.kept.cpu.advance_reversible`. With `quiet` there are no rows.
    """
    read = np.flatnonzero(front.logged), np.flatnonzero(front.logged_values)
    given: tuple[Any, ...] = (
        *groups, progress, limit, quiet, *stacks, *_needed(back), *_needed(front), *read, readings,
        width, slide, *out,
    )  # fmt: skip
    _advance(*given)
    return bool(progress[DONE])


def _needed(operators: Operators) -> tuple[np.ndarray, ...]:
    o = operators
    return o.tables, o.start_counts, o.start_values, o.kinds, o.in_place, o.section, o.sections


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed."""
    none, numbers, flags = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_)
    kinds, counts = np.zeros(1, np.int8), np.zeros(1, np.uint64)
    tables = np.full(OPERATOR_TABLES + 1, OPERATOR_TABLES, np.int32)
    sections = np.zeros(1, np.uint32)
    operators = Operators(tables, counts, numbers, kinds, flags, flags, flags, counts, sections)
    groups = TimedGroups(none, none, none, none, none, numbers.reshape(1, 1))
    table, real = counts.reshape(1, 1), numbers.reshape(1, 1)
    stacks = KeptStacks(table, real, none - 1, none, none, none, none, table, real)
    out = KeptRows(none, none, none, counts, real)
    progress = np.zeros(PROGRESS, np.int64)
    advance_stacks(groups, progress, 0, True, stacks, operators, operators, tables, 1, 0, out)


@numba.njit(cache=True)
def _look(
    first: int, middle: int, ring: int, kept: np.ndarray, kept_v: np.ndarray, read: np.ndarray,
    read_v: np.ndarray, start: np.ndarray, start_v: np.ndarray, front: np.ndarray,
    front_v: np.ndarray,
) -> None:  # fmt: skip
    """What is read of a run's front: that from its first group on, or an empty one."""
    for i in range(read.size):
        front[read[i]] = kept[first & ring, i] if first < middle else start[read[i]]
    for i in range(read_v.size):
        front_v[read_v[i]] = kept_v[first & ring, i] if first < middle else start_v[read_v[i]]


@numba.njit(cache=True, nogil=True)
def _advance(
    run: np.ndarray, position: np.ndarray, event: np.ndarray, stay_letter: np.ndarray,
    move_letter: np.ndarray, inputs: np.ndarray, progress: np.ndarray, limit: int, quiet: bool,
    back: np.ndarray, back_v: np.ndarray, first: np.ndarray, last: np.ndarray, middle: np.ndarray,
    before: np.ndarray, behind: np.ndarray, kept: np.ndarray, kept_v: np.ndarray,
    b: np.ndarray, b_start: np.ndarray, b_start_v: np.ndarray, b_kinds: np.ndarray,
    b_in_place: np.ndarray, b_section: np.ndarray, b_sections: np.ndarray,
    f: np.ndarray, f_start: np.ndarray, f_start_v: np.ndarray, f_kinds: np.ndarray,
    f_in_place: np.ndarray, f_section: np.ndarray, f_sections: np.ndarray,
    read: np.ndarray, read_v: np.ndarray, reading: np.ndarray, width: int, slide: int,
    out_place: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray, out_counts: np.ndarray,
    out_values: np.ndarray,
) -> None:  # fmt: skip
    n, nv = max(b_start.size, f_start.size), max(b_start_v.size, f_start_v.size)
    front, front_v = f_start.copy(), f_start_v.copy()
    none = np.empty(0)
    added, added_f, added_v = np.empty(n, np.uint64), np.empty(n), np.empty(nv)
    changed, changed_f, changed_v = np.empty(n, np.uint64), np.empty(n), np.empty(nv)
    touched, touched_v = np.zeros(n, np.bool_), np.zeros(nv, np.bool_)
    order, order_v = np.empty(n, np.int64), np.empty(nv, np.int64)
    queries = max(0, reading[PAIRS] - reading[PAIR] - 1)
    end, room = np.zeros(queries, np.int64), np.full(queries, out_place.size, np.int64)
    stamp = np.full(queries, -1, np.int64)
    ring, base = before.size - 1, progress[BASE]
    head, g, stop, boundary = progress[HEAD], progress[NEXT], progress[END], progress[BOUNDARY]
    rows = 0
    done = False
    while True:
        # Before a time at which queries are read, what has left the window by then goes.
        leaving = slide == 0 or g == stop or position[g] > boundary
        if leaving:
            done = boundary > limit if slide > 0 else g == stop
            now = limit
            if not done:
                now = boundary if slide > 0 else position[g]
            while head < g and position[head] <= now - width:
                r = run[head]
                if first[r] >= middle[r]:
                    # No front is left: it is made of all groups of the run.
                    front[:] = f_start
                    front_v[:] = f_start_v
                    older = last[r]
                    while older != first[r]:
                        place = older - base
                        e = event[place]
                        if event[place + 1] - e == 1 and f_in_place[move_letter[e]]:
                            _in_place(
                                move_letter[e], e, inputs, f_section, f_sections, f_kinds, front,
                                none, front_v, False,
                            )  # fmt: skip
                        else:
                            m, mv = _apply(
                                e, event[place + 1], stay_letter[place], move_letter, inputs, f,
                                f_kinds, front, none, front_v, False, added, added_f, added_v,
                                touched, touched_v, order, order_v, changed, changed_f, changed_v,
                            )  # fmt: skip
                            for i in range(m):
                                front[order[i]] = changed[i]
                            for i in range(mv):
                                front_v[order_v[i]] = changed_v[i]
                        for i in range(read.size):
                            kept[older & ring, i] = front[read[i]]
                        for i in range(read_v.size):
                            kept_v[older & ring, i] = front_v[read_v[i]]
                        older = before[older & ring]
                    middle[r] = last[r] + 1
                    back[r] = b_start
                    back_v[r] = b_start_v
                first[r] = -1 if first[r] == last[r] else behind[first[r] & ring]
                head += 1
            if done:
                break
        if slide > 0 and leaving:
            if head == g:
                # Nothing is in any window: go on at the next group.
                if g == stop:
                    boundary = limit + 1
                else:
                    boundary = -((-position[g]) // slide) * slide
                continue
            if not quiet:
                if rows + first.size * queries > out_place.size:
                    break
                for r in range(first.size):
                    if first[r] < 0:
                        continue
                    _look(first[r], middle[r], ring, kept, kept_v, read, read_v, f_start, f_start_v,
                          front, front_v)  # fmt: skip
                    for q in range(queries):
                        end[q] = rows
                        _read(
                            q, r, boundary, reading, front, none, front_v, back[r], none, back_v[r],
                            False, end, room, out_place, out_boundary, out_counts, none, out_values,
                        )  # fmt: skip
                        if end[q] > rows:
                            out_query[rows] = q
                            rows += 1
            boundary += slide
            continue
        if slide == 0 and not quiet and rows + queries > out_place.size:
            break
        r, e = run[g], event[g]
        if first[r] < 0:
            first[r] = base + g
        else:
            behind[last[r] & ring] = base + g
            before[(base + g) & ring] = last[r]
        last[r] = base + g
        if event[g + 1] - e == 1 and b_in_place[move_letter[e]]:
            _in_place(
                move_letter[e], e, inputs, b_section, b_sections, b_kinds, back[r], none, back_v[r],
                False,
            )  # fmt: skip
        else:
            m, mv = _apply(
                e, event[g + 1], stay_letter[g], move_letter, inputs, b, b_kinds, back[r], none,
                back_v[r], False, added, added_f, added_v, touched, touched_v, order, order_v,
                changed, changed_f, changed_v,
            )  # fmt: skip
            for i in range(m):
                back[r, order[i]] = changed[i]
            for i in range(mv):
                back_v[r, order_v[i]] = changed_v[i]
        if slide == 0 and not quiet:
            looked = False
            for e in range(event[g], event[g + 1]):
                asked = reading[TRIGGER] + move_letter[e]
                for t in range(reading[asked], reading[asked + 1]):
                    q = reading[reading[TRIGGERS] + t]
                    if stamp[q] == g:
                        continue
                    stamp[q] = g
                    if not looked:
                        _look(first[r], middle[r], ring, kept, kept_v, read, read_v, f_start,
                              f_start_v, front, front_v)  # fmt: skip
                        looked = True
                    end[q] = rows
                    _read(
                        q, g, 0, reading, front, none, front_v, back[r], none, back_v[r], False,
                        end, room, out_place, out_boundary, out_counts, none, out_values,
                    )  # fmt: skip
                    if end[q] > rows:
                        out_query[rows] = q
                        rows += 1
        g += 1
    progress[HEAD], progress[NEXT], progress[BOUNDARY] = head, g, boundary
    progress[ROWS], progress[DONE] = rows, done
