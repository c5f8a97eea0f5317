"""Windows of different widths and slides over one stream, put together from panes.

The stream is cut wherever a window of any query opens or closes; a *pane* is what lies between two
cuts. The product of its groups' operators is made once, for all queries. Products are associative:
two neighbouring panes are multiplied to a node of the next level, two of those to one of the next,
and so on, as often as that pays. At a boundary, nodes are multiplied from the newest to the oldest,
and only the columns that lead to a query's final states: after the nodes of a window they hold the
window's value, and after more of them that of a longer one. So queries with different windows share
the panes, and where their patterns end alike also the way back through them.

Cutting at the edges of windows is from Krishnamurthy, Wu and Franklin, On-the-Fly Sharing for
Streamed Aggregation (SIGMOD 2006); panes as wide as the greatest common divisor of windows and
slides can be many more.

Counters are numbered by the caller, as in `kernels.product.cpu`; this file knows no pattern.
`Connections` says how a counter of two stretches together is summed up from theirs. Counts are
unsigned and wrap; floating-point ones are kept beside those of stretches that are wider than what
the caller calls `safe`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.groups import Groups, RowSegments
from kernels.product.cpu import ADDS, CLEARS, SECTIONS, Operators, _apply, _in_place, _reset
from kernels.values import NUMBER, SUM, combine, neutral

NEVER = 2**63 - 1  # the next boundary of queries whose windows are all done


class Connections(NamedTuple):
    """What is summed into the counters of a stretch from those of its left and its right part.

    A counter is one of the left part, plus one of the right part, plus products of the two. A value
    counter is the sum of value counters times counters. The number of counters stands for none.
    """

    left_alone: np.ndarray  # uint32, by counter
    right_alone: np.ndarray  # uint32, by counter
    term: np.ndarray  # uint64 pointers by counter
    term_left: np.ndarray  # uint32: counters of the left part
    term_right: np.ndarray  # uint32: counters of the right part
    ahead: np.ndarray  # uint64 pointers by value counter: the value lies in the left part
    ahead_left: np.ndarray  # uint32: value counters
    ahead_right: np.ndarray  # uint32: counters
    behind: np.ndarray  # uint64 pointers by value counter: the value lies in the right part
    behind_left: np.ndarray  # uint32: counters
    behind_right: np.ndarray  # uint32: value counters
    final: np.ndarray  # uint64 pointers by query
    finals: np.ndarray  # uint32: counters whose sum is the query's count
    result: np.ndarray  # uint64 pointers by query: its value results
    result_kind: np.ndarray  # int64
    part: np.ndarray  # uint64 pointers by value result
    parts: np.ndarray  # uint32: value counters that it is put together from


class Classes(NamedTuple):
    """The queries by window and slide, the shortest windows first, and the columns they need.

    The counters of a class are its queries' final ones, and all counters of the right part that
    these are summed up from.
    """

    width: np.ndarray  # int64
    slide: np.ndarray  # int64
    member: np.ndarray  # uint64 pointers
    members: np.ndarray  # int64: queries
    used: np.ndarray  # uint64 pointers
    counters: np.ndarray  # uint32
    used_value: np.ndarray  # uint64 pointers
    value_counters: np.ndarray  # uint32


class Cuts(NamedTuple):
    """Where panes end: at each `phase` plus a multiple of its `period`."""

    period: np.ndarray  # int64
    phase: np.ndarray  # int64


def slide_panes(
    groups: Groups,
    operators: Operators,
    connections: Connections,
    classes: Classes,
    cuts: Cuts,
    most_panes: int,
    levels: int,
    safe: int,
    out: RowSegments,
) -> bool:
    """Fill `out` with the rows of all runs; False where a segment of it is too small.

    Each query gives a row at each multiple of its slide whose window has a match, as with
    `kernels.product.cpu.slide_product`. `operators` multiply groups from the right. No window
    holds more than `most_panes` panes; nodes are made of up to 2^`levels` of them. No stretch of
    the width `safe` holds 2^63 matches; `out.approximate` is filled where a window is wider.
    """
    none = np.zeros(1, np.uint64)
    dual = bool(classes.width.max() > safe)
    dual_panes = dual and bool(classes.slide.min() > safe)  # no pane is wider than a slide
    return bool(
        _slide(
            *groups, operators.tables, np.append(operators.start_counts, none),
            operators.start_values, operators.kinds, operators.in_place, operators.section,
            operators.sections, operators.section.astype(np.uint64), *connections, *classes, *cuts,
            most_panes, levels, safe, dual_panes, dual, *out,
        )
    )  # fmt: skip


def panes_of(run: np.ndarray, position: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray]:
    """The panes that have a group in them: row pointers by run, and where each ends.

    As `kernels.groups.Groups`. A window holds a pane if it holds the pane's end.
    """
    pane, stop = np.zeros(run.size, np.int64), np.empty(position.size, np.int64)
    panes = _panes_of(run, position, *cuts, pane, stop)
    return pane, stop[:panes]


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed in several processes."""
    none, numbers, flags = np.zeros(1, np.int64), np.zeros(0), np.zeros(1, np.bool_)
    groups = Groups(none, none, none, none, none, none, np.zeros((1, 1)))
    at, rows = np.zeros(1, np.uint64), np.zeros(0, np.uint32)
    operators = Operators(
        np.zeros(1, np.int32), np.zeros(0, np.uint64), numbers, np.zeros(0, np.int8), flags, flags,
        flags, none, rows,
    )  # fmt: skip
    connections = Connections(
        rows, rows, at, rows, rows, at, rows, rows, at, rows, rows, at, rows, at, none, at, rows
    )
    one = np.ones(1, np.int64)
    classes = Classes(one, one, at, none, at, rows, at, rows)
    out = RowSegments(none, none, none, none, np.zeros(1, np.uint64), numbers, np.zeros((1, 1)))
    slide_panes(groups, operators, connections, classes, Cuts(one, none), 1, 0, 1, out)
    panes_of(none, none, Cuts(one, none))


@numba.njit(cache=True)
def _cut(position: int, period: np.ndarray, phase: np.ndarray) -> int:
    """The first cut from a position on."""
    found = NEVER
    for i in range(period.size):
        found = min(found, -((phase[i] - position) // period[i]) * period[i] + phase[i])
    return found


@numba.njit(nogil=True, cache=True)
def _panes_of(
    run: np.ndarray, position: np.ndarray, period: np.ndarray, phase: np.ndarray,
    pane: np.ndarray, stop: np.ndarray,
) -> int:  # fmt: skip
    found = 0
    for r in range(run.size - 1):
        g = run[r]
        while g < run[r + 1]:
            end = _cut(position[g], period, phase)
            stop[found] = end
            found += 1
            while g < run[r + 1] and position[g] <= end:
                g += 1
        pane[r + 1] = found
    return found


@numba.njit(cache=True)
def _multiply(
    left: np.ndarray, right: np.ndarray, new: np.ndarray, active: np.ndarray, number: int,
    left_alone: np.ndarray, right_alone: np.ndarray, term: np.ndarray, term_left: np.ndarray,
    term_right: np.ndarray,
) -> None:  # fmt: skip
    """Some counters of two stretches together; `new` is neither of them."""
    for i in range(number):
        c = active[i]
        count = left[left_alone[c]] + right[right_alone[c]]
        for t in range(term[c], term[c + np.uint64(1)]):
            count += left[term_left[t]] * right[term_right[t]]
        new[c] = count


@numba.njit(cache=True)
def _multiply_floats(
    left: np.ndarray, right: np.ndarray, new: np.ndarray, active: np.ndarray, number: int,
    left_alone: np.ndarray, right_alone: np.ndarray, term: np.ndarray, term_left: np.ndarray,
    term_right: np.ndarray,
) -> None:  # fmt: skip
    """The same in floating point; what is infinite times nothing is nothing."""
    for i in range(number):
        c = active[i]
        count = left[left_alone[c]] + right[right_alone[c]]
        for t in range(term[c], term[c + np.uint64(1)]):
            a, b = left[term_left[t]], right[term_right[t]]
            if a > 0.0 and b > 0.0:
                count += a * b
        new[c] = count


@numba.njit(cache=True, inline="always")
def _times(kind: int, value: float, ways: float) -> float:
    """A value along several ways."""
    if ways > 0.0 and value != 0.0:
        return value * ways if kind in (SUM, NUMBER) else value
    return value if ways > 0.0 else neutral(kind)


@numba.njit(cache=True)
def _multiply_values(
    left: np.ndarray, left_f: np.ndarray, left_v: np.ndarray, right: np.ndarray,
    right_f: np.ndarray, right_v: np.ndarray, new: np.ndarray, dual: bool, active: np.ndarray,
    number: int, kinds: np.ndarray, ahead: np.ndarray, ahead_left: np.ndarray,
    ahead_right: np.ndarray, behind: np.ndarray, behind_left: np.ndarray, behind_right: np.ndarray,
) -> None:  # fmt: skip
    """Some value counters of two stretches together."""
    one = np.uint64(1)
    for i in range(number):
        c = active[i]
        kind = kinds[c]
        total = neutral(kind)
        for t in range(ahead[c], ahead[c + one]):
            k = ahead_right[t]
            ways = right_f[k] if dual else float(right[k])
            total = combine(kind, total, _times(kind, left_v[ahead_left[t]], ways))
        for t in range(behind[c], behind[c + one]):
            k = behind_left[t]
            ways = left_f[k] if dual else float(left[k])
            total = combine(kind, total, _times(kind, right_v[behind_right[t]], ways))
        new[c] = total


@numba.njit(cache=True)
def _read(
    q: int, g: int, boundary: int, dual: bool, counts: np.ndarray, floats: np.ndarray,
    values: np.ndarray, final: np.ndarray, finals: np.ndarray, result: np.ndarray,
    result_kind: np.ndarray, part: np.ndarray, parts: np.ndarray,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> bool:  # fmt: skip
    """A query's row, if its window has a match; False where there is no room for it."""
    count = np.uint64(0)
    for i in range(final[q], final[q + 1]):
        count += counts[finals[i]]
    approximate = float(count)
    if dual:
        approximate = 0.0
        for i in range(final[q], final[q + 1]):
            approximate += floats[finals[i]]
    if approximate == 0.0:
        return True
    row = end[q]
    if row == room[q]:
        return False
    if out_approximate.size:
        out_approximate[row] = approximate
    out_group[row] = g
    out_boundary[row] = boundary
    out_counts[row] = count
    for v in range(result[q], result[q + 1]):
        total = neutral(result_kind[v])
        for i in range(part[v], part[v + np.uint64(1)]):
            total = combine(result_kind[v], total, values[parts[i]])
        out_values[row, v - result[q]] = total
    end[q] = row + 1
    return True


@numba.njit(cache=True)
def _union(
    first: int, due: np.ndarray, at: np.ndarray, numbers: np.ndarray, stamp: np.ndarray, mark: int,
    active: np.ndarray,
) -> int:  # fmt: skip
    """What the classes from `first` on that are due need, each once; returns how many."""
    found = 0
    for c in range(first, due.size):
        if due[c]:
            for i in range(at[c], at[c + 1]):
                e = numbers[i]
                if stamp[e] != mark:
                    stamp[e] = mark
                    active[found] = e
                    found += 1
    return found


@numba.njit(nogil=True, cache=True)
def _slide(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    tables: np.ndarray, start: np.ndarray, start_v: np.ndarray, kinds: np.ndarray,
    in_place: np.ndarray, section: np.ndarray, sections: np.ndarray, section_u: np.ndarray,
    left_alone: np.ndarray, right_alone: np.ndarray, term: np.ndarray, term_left: np.ndarray,
    term_right: np.ndarray, ahead: np.ndarray, ahead_left: np.ndarray, ahead_right: np.ndarray,
    behind: np.ndarray, behind_left: np.ndarray, behind_right: np.ndarray,
    final: np.ndarray, finals: np.ndarray, result: np.ndarray, result_kind: np.ndarray,
    part: np.ndarray, parts: np.ndarray,
    width: np.ndarray, slide: np.ndarray, member: np.ndarray, members: np.ndarray,
    used: np.ndarray, counters: np.ndarray, used_value: np.ndarray, value_counters: np.ndarray,
    period: np.ndarray, phase: np.ndarray,
    most_panes: int, levels: int, safe: int, dual_panes: bool, dual: bool,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> bool:  # fmt: skip
    n, nv = start.size, start_v.size  # the last counter is always zero
    # The nodes of the longest window: a ring for each level, one behind the other.
    room_of, ring_at = np.empty(levels + 1, np.int64), np.empty(levels + 2, np.int64)
    ring_at[0] = 0
    for level in range(levels + 1):
        room_of[level] = most_panes // (1 << level) + 1
        ring_at[level + 1] = ring_at[level] + room_of[level]
    nodes = ring_at[levels + 1]
    ring, ring_v = np.empty((nodes, n), np.uint64), np.empty((nodes, nv))
    ring_f = np.empty((nodes, n if dual else 0))
    opens, closes = np.empty(nodes, np.int64), np.empty(nodes, np.int64)  # first and last position
    stops = np.empty(room_of[0], np.int64)  # where panes end
    # What `_apply` works with.
    added, added_f, added_v = np.empty(n, np.uint64), np.empty(n), np.empty(nv)
    changed, changed_f, changed_v = np.empty(n, np.uint64), np.empty(n), np.empty(nv)
    touched, touched_v = np.zeros(n, np.bool_), np.zeros(nv, np.bool_)
    order, order_v = np.empty(n, np.int64), np.empty(nv, np.int64)
    no_floats = np.empty(0)
    # The columns, before and after a node: those in use, the others are left as they are.
    u, u_new = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    f, f_new = np.zeros(n if dual else 0), np.zeros(n if dual else 0)
    v, v_new = np.empty(nv), np.empty(nv)
    active, active_v = np.empty(n, np.uint64), np.empty(nv, np.uint64)
    everyone, everyone_v = np.arange(n - 1).astype(np.uint64), np.arange(nv).astype(np.uint64)
    stamp, stamp_v = np.zeros(n, np.int64), np.zeros(nv, np.int64)
    mark = 0
    following = np.empty(width.size, np.int64)  # the next boundary of each class
    due = np.zeros(width.size, np.bool_)
    for r in range(run.size - 1):
        first, last = run[r], run[r + 1]
        if first == last:
            continue
        for c in range(width.size):
            following[c] = -((-position[first]) // slide[c]) * slide[c]
        g = first
        made = 0
        while True:
            boundary = following.min()
            if boundary > limit[r] or boundary == NEVER:
                break
            # The panes up to the boundary.
            while g < last and position[g] <= boundary:
                slot = made % room_of[0]
                counts, floats, values = ring[slot], ring_f[slot], ring_v[slot]
                if not dual_panes:
                    floats = no_floats
                _reset(counts, floats, values, start, start_v)
                stop = _cut(position[g], period, phase)
                stops[slot] = stop
                opens[slot] = position[g]
                while g < last and position[g] <= stop:
                    e = event[g]
                    letter = move_letter[e]
                    if event[g + 1] - e == 1 and in_place[letter]:
                        if nv or dual_panes:
                            _in_place(
                                letter, e, inputs, section, sections, kinds, counts, floats,
                                values, dual_panes,
                            )  # fmt: skip
                        else:
                            k = SECTIONS * letter
                            for i in range(
                                section_u[k + ADDS], section_u[k + ADDS + 1], np.uint64(2)
                            ):
                                counts[sections[i]] += counts[sections[i + np.uint64(1)]]
                            for i in range(section_u[k + CLEARS], section_u[k + CLEARS + 1]):
                                counts[sections[i]] = 0
                    else:
                        m, mv = _apply(
                            e, event[g + 1], stay_letter[g], move_letter, inputs, tables, kinds,
                            counts, floats, values, dual_panes, added, added_f, added_v, touched,
                            touched_v, order, order_v, changed, changed_f, changed_v,
                        )  # fmt: skip
                        for i in range(m):
                            counts[order[i]] = changed[i]
                            if dual_panes:
                                floats[order[i]] = changed_f[i]
                        for i in range(mv):
                            values[order_v[i]] = changed_v[i]
                    g += 1
                closes[slot] = position[g - 1]
                if dual and not dual_panes:
                    for i in range(n):
                        ring_f[slot, i] = counts[i]
                made += 1
                # The nodes that are complete with it.
                level = 1
                while level <= levels and made % (1 << level) == 0:
                    index = made // (1 << level) - 1
                    slot = ring_at[level] + index % room_of[level]
                    a = ring_at[level - 1] + 2 * index % room_of[level - 1]
                    b = ring_at[level - 1] + (2 * index + 1) % room_of[level - 1]
                    opens[slot], closes[slot] = opens[a], closes[b]
                    _multiply(
                        ring[a], ring[b], ring[slot], everyone, everyone.size, left_alone,
                        right_alone, term, term_left, term_right,
                    )  # fmt: skip
                    ring[slot, n - 1] = 0
                    if dual and closes[slot] - opens[slot] < safe:
                        for i in range(n):
                            ring_f[slot, i] = ring[slot, i]
                    elif dual:
                        _multiply_floats(
                            ring_f[a], ring_f[b], ring_f[slot], everyone, everyone.size,
                            left_alone, right_alone, term, term_left, term_right,
                        )  # fmt: skip
                        ring_f[slot, n - 1] = 0.0
                    if nv:
                        _multiply_values(
                            ring[a], ring_f[a], ring_v[a], ring[b], ring_f[b], ring_v[b],
                            ring_v[slot], dual, everyone_v, nv, kinds, ahead, ahead_left,
                            ahead_right, behind, behind_left, behind_right,
                        )  # fmt: skip
                    level += 1
            # The classes that are due; where a window is empty they go on at the next group.
            newest = stops[(made - 1) % room_of[0]]
            dual_now = False
            for c in range(width.size):
                due[c] = False
                if following[c] == boundary:
                    if newest > boundary - width[c]:
                        due[c] = True
                        dual_now = width[c] > safe
                        following[c] = boundary + slide[c]
                    elif g < last:
                        following[c] = -((-position[g]) // slide[c]) * slide[c]
                    else:
                        following[c] = NEVER
            # The way back, from window to longer window.
            oldest = max(0, made - most_panes)
            at = made
            for c in range(width.size):
                if not due[c]:
                    continue
                mark += 1
                number = _union(c, due, used, counters, stamp, mark, active)
                number_v = _union(c, due, used_value, value_counters, stamp_v, mark, active_v)
                low = boundary - width[c]
                while at > oldest and stops[(at - 1) % room_of[0]] > low:
                    level = levels
                    while (
                        at % (1 << level) != 0
                        or at - (1 << level) < oldest
                        or stops[(at - (1 << level)) % room_of[0]] <= low
                    ):
                        level -= 1
                    slot = ring_at[level] + (at // (1 << level) - 1) % room_of[level]
                    if at == made:
                        for i in range(number):
                            u[active[i]] = ring[slot, active[i]]
                            if dual_now:
                                f[active[i]] = ring_f[slot, active[i]]
                        for i in range(number_v):
                            v[active_v[i]] = ring_v[slot, active_v[i]]
                        at -= 1 << level
                        continue
                    at -= 1 << level
                    if number_v:
                        _multiply_values(
                            ring[slot], ring_f[slot], ring_v[slot], u, f, v, v_new, dual_now,
                            active_v, number_v, kinds, ahead, ahead_left, ahead_right, behind,
                            behind_left, behind_right,
                        )  # fmt: skip
                        v, v_new = v_new, v
                    if dual_now:
                        _multiply_floats(
                            ring_f[slot], f, f_new, active, number, left_alone, right_alone, term,
                            term_left, term_right,
                        )  # fmt: skip
                        f, f_new = f_new, f
                    _multiply(
                        ring[slot], u, u_new, active, number, left_alone, right_alone, term,
                        term_left, term_right,
                    )  # fmt: skip
                    u, u_new = u_new, u
                for i in range(member[c], member[c + 1]):
                    if not _read(
                        members[i], g - 1, boundary, dual_now, u, f, v, final, finals, result,
                        result_kind, part, parts, end, room, out_group, out_boundary, out_counts,
                        out_approximate, out_values,
                    ):  # fmt: skip
                        return False
    return True
