"""SEM over machines: a vector of counters for every active START, over the states of the patterns.

A START is a time at which a match may begin. Its vector counts the ways from there to each state of
the queries' machines; each group of simultaneous events acts on the vectors of all active STARTs
with one sparse operator. A window's count is the sum of final counters over the STARTs that it
holds, so queries with different windows read the same vectors from different STARTs on, and those
that slide read them when their windows close. The counters of a state lie side by side, START by
START, so that an event adds one stretch of memory to another.

Operators are those of `kernels.product.cpu`, of ways from the start of machines alone: one counter,
always one there, stands for the start itself and is nothing in a START that has begun.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.counters import (
    add_row,
    boundary_from,
    clear_counts,
    combine_row,
    copy_row,
    first_after,
    first_held,
    most_starts,
    move_down,
)
from kernels.groups import Groups, ResultRows
from kernels.product.cpu import (
    ADDS,
    CLEARS,
    MOVE,
    MOVES,
    OPERATOR_TABLES,
    SECTIONS,
    STAY,
    STAY_SOURCES,
    STAYS,
    VALUE_MOVE,
    VALUE_MOVES,
    VALUE_STAY,
    VALUE_STAY_SOURCES,
    VALUE_STAYS,
    VALUE_TAG,
    VALUE_TAGS,
    Operators,
)
from kernels.values import combine, neutral, term

NEVER = 2**63 - 1


class StartReadings(NamedTuple):
    """What is read of the vectors, and when; `slide` 0: at the events that trigger a query."""

    starts: np.ndarray  # bool, by move letter: can the event begin a match?
    triggered: np.ndarray  # int64 pointers by move letter
    triggers: np.ndarray  # int64: queries
    width: np.ndarray  # int64, by query
    slide: np.ndarray  # int64, by query
    final: np.ndarray  # int64 pointers by query
    finals: np.ndarray  # int64: counters whose sum is the query's count
    result: np.ndarray  # int64 pointers by query: its value results
    result_kind: np.ndarray  # int64
    part: np.ndarray  # int64 pointers by value result
    parts: np.ndarray  # int64: value counters that it is put together from


def count_starts(
    groups: Groups, operators: Operators, readings: StartReadings, dual: bool, out: ResultRows
) -> int:
    """Fill `out` with the rows of all windows; returns how many, or -1 where `out` is too small.

    Only windows with a match give a row. Rows of one query come in order.
    """
    tables, start, start_values, kinds, _, _, in_place, section, sections = operators
    rows = _count(*groups, tables, start, start_values, kinds, in_place, section.astype(np.int64),
                  sections.astype(np.int64), *readings, dual, *out)  # fmt: skip
    return int(rows)


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed in several processes."""
    none, numbers, flags = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_)
    groups = Groups(none, none, none, none, none, none, np.zeros((1, 1)))
    counts, tables = np.zeros(1, np.uint64), np.full(OPERATOR_TABLES + 1, OPERATOR_TABLES, np.int32)
    kinds, sections = np.zeros(1, np.int8), np.zeros(1, np.uint32)
    operators = Operators(tables, counts, numbers, kinds, flags, flags, flags, counts, sections)
    readings = StartReadings(flags, none, none, none, none, none, none, none, none, none, none)
    rows = ResultRows(none, none, none, counts, numbers, np.zeros((1, 1)))
    count_starts(groups, operators, readings, False, rows)


@numba.njit(cache=True, nogil=True)
def _act(
    first: int, last: int, stay: int, move_letter: np.ndarray, tables: np.ndarray, head: int,
    end: int, counts: np.ndarray, work: np.ndarray, touched: np.ndarray, order: np.ndarray,
) -> None:  # fmt: skip
    """What a group does to counters, all of which are read before any changes."""
    n = 0
    base = tables[STAY] + stay
    for row in range(tables[base], tables[base + 1]):
        s = tables[STAYS] + 3 * row
        target = tables[s]
        touched[target] = True
        order[n] = target
        n += 1
        clear_counts(work[target, head:end])
        for k in range(tables[STAY_SOURCES] + tables[s + 1], tables[STAY_SOURCES] + tables[s + 2]):
            add_row(work[target, head:end], counts[tables[k], head:end])
    for e in range(first, last):
        base = tables[MOVE] + move_letter[e]
        for row in range(tables[base], tables[base + 1]):
            s = tables[MOVES] + 2 * row
            target = tables[s]
            if not touched[target]:
                touched[target] = True
                order[n] = target
                n += 1
                copy_row(work[target, head:end], counts[target, head:end])
            add_row(work[target, head:end], counts[tables[s + 1], head:end])
    for i in range(n):
        touched[order[i]] = False
        copy_row(counts[order[i], head:end], work[order[i], head:end])


@numba.njit(cache=True, nogil=True)
def _act_on_values(
    first: int, last: int, stay: int, move_letter: np.ndarray, inputs: np.ndarray,
    tables: np.ndarray, kinds: np.ndarray, head: int, end: int, counts: np.ndarray,
    floats: np.ndarray, dual: bool, values: np.ndarray, work: np.ndarray, touched: np.ndarray,
    order: np.ndarray,
) -> None:  # fmt: skip
    """The same for values, by counts as they were before the group."""
    n = 0
    base = tables[VALUE_STAY] + stay
    for row in range(tables[base], tables[base + 1]):
        s = tables[VALUE_STAYS] + 3 * row
        target = tables[s]
        touched[target] = True
        order[n] = target
        n += 1
        mine = work[target, head:end]
        for i in range(mine.size):
            mine[i] = neutral(kinds[target])
        sources = tables[VALUE_STAY_SOURCES]
        for k in range(sources + tables[s + 1], sources + tables[s + 2]):
            combine_row(kinds[target], mine, values[tables[k], head:end])
    for e in range(first, last):
        base = tables[VALUE_MOVE] + move_letter[e]
        for row in range(tables[base], tables[base + 1]):
            s = tables[VALUE_MOVES] + 2 * row
            target = tables[s]
            if not touched[target]:
                touched[target] = True
                order[n] = target
                n += 1
                copy_row(work[target, head:end], values[target, head:end])
            combine_row(kinds[target], work[target, head:end], values[tables[s + 1], head:end])
        base = tables[VALUE_TAG] + move_letter[e]
        for row in range(tables[base], tables[base + 1]):
            s = tables[VALUE_TAGS] + 3 * row
            target, source = tables[s], tables[s + 1]
            if not touched[target]:
                touched[target] = True
                order[n] = target
                n += 1
                copy_row(work[target, head:end], values[target, head:end])
            kind, x = kinds[target], inputs[tables[s + 2], e]
            for i in range(head, end):
                ways = floats[source, i] if dual else float(counts[source, i])
                work[target, i] = combine(kind, work[target, i], term(kind, x, ways))
    for i in range(n):
        touched[order[i]] = False
        copy_row(values[order[i], head:end], work[order[i], head:end])


@numba.njit(cache=True, nogil=True)
def _read(
    q: int, g: int, boundary: int, low: int, tail: int, dual: bool, counts: np.ndarray,
    floats: np.ndarray, values: np.ndarray, final: np.ndarray, finals: np.ndarray,
    result: np.ndarray, result_kind: np.ndarray, part: np.ndarray, parts: np.ndarray, row: int,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    """A query's row, if its window has a match; returns the number of the next row."""
    count = np.uint64(0)
    approximate = 0.0
    for i in range(final[q], final[q + 1]):
        mine = counts[finals[i], low:tail]
        for s in range(mine.size):
            count += mine[s]
        if dual:
            for s in range(low, tail):
                approximate += floats[finals[i], s]
    if count == 0 and approximate == 0.0:
        return row
    if row < out_group.size:
        out_group[row] = g
        out_boundary[row] = boundary
        out_query[row] = q
        out_counts[row] = count
        if dual:
            out_approximate[row] = approximate
        for v in range(result[q], result[q + 1]):
            total = neutral(result_kind[v])
            for i in range(part[v], part[v + 1]):
                for s in range(low, tail):
                    total = combine(result_kind[v], total, values[parts[i], s])
            out_values[row, v - result[q]] = total
    return row + 1


@numba.njit(cache=True, nogil=True)
def _count(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    tables: np.ndarray, start: np.ndarray, start_values: np.ndarray, kinds: np.ndarray,
    in_place: np.ndarray, section: np.ndarray, sections: np.ndarray,
    starts: np.ndarray, triggered: np.ndarray, triggers: np.ndarray, width: np.ndarray,
    slide: np.ndarray, final: np.ndarray, finals: np.ndarray, result: np.ndarray,
    result_kind: np.ndarray, part: np.ndarray, parts: np.ndarray, dual: bool,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    n, nv, queries = start.size, start_values.size, width.size
    zero = run[0] - run[0]  # a plain 0 has a type of its own, for which all would be compiled too
    widest = zero
    slides = False
    for q in range(queries):
        widest = max(widest, width[q])
        slides |= slide[q] > 0
    plain = nv == 0 and not dual
    room = 2 * most_starts(run, position, event, move_letter, starts, widest) + 2
    counts, work = np.zeros((n, room), np.uint64), np.zeros((n, room), np.uint64)
    floats, work_f = np.zeros((n, room if dual else 0)), np.zeros((n, room if dual else 0))
    values, work_v = np.zeros((nv, room)), np.zeros((nv, room))
    started = np.zeros(room, np.int64)
    touched, order = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    touched_v, order_v = np.zeros(nv, np.bool_), np.zeros(nv, np.int64)
    stamp = np.full(queries, -1, np.int64)
    following = np.full(queries, NEVER, np.int64)  # the next boundary of queries that slide
    rows = 0
    for r in range(run.size - 1):
        first, last = run[r], run[r + 1]
        head = tail = zero
        earliest = zero + NEVER
        for g in range(first, last + 1):
            # The boundaries before the next group come first; after the last group they go on
            # until nothing is active or the limit is reached.
            before = position[g] if g < last else limit[r] + 1
            while slides and head < tail and earliest < before:
                head = first_after(started, head, tail, earliest - widest)
                boundary, earliest = earliest, zero + NEVER
                for q in range(queries):
                    if slide[q] == 0:
                        continue
                    if following[q] == boundary:
                        low = first_held(started, head, tail, boundary - width[q])
                        rows = _read(
                            q, g - 1, boundary, low, tail, dual, counts, floats, values, final,
                            finals, result, result_kind, part, parts, rows, out_group,
                            out_boundary, out_query, out_counts, out_approximate, out_values,
                        )  # fmt: skip
                        following[q] += slide[q]
                    earliest = min(earliest, following[q])
            if g == last:
                break
            now = position[g]
            head = first_after(started, head, tail, now - widest)
            begins = False
            for e in range(event[g], event[g + 1]):
                begins |= starts[move_letter[e]]
            if slides and head == tail and begins:
                earliest = zero + NEVER
                for q in range(queries):
                    if slide[q] > 0:
                        following[q] = boundary_from(now, slide[q])
                        earliest = min(earliest, following[q])
            if begins and tail == room:
                move_down(counts, head, tail)
                move_down(values, head, tail)
                if dual:
                    move_down(floats, head, tail)
                move_down(started.reshape((1, room)), head, tail)
                head, tail = zero, tail - head
            end = tail
            if begins:
                started[tail] = now
                for c in range(n):
                    counts[c, tail] = start[c]
                    if dual:
                        floats[c, tail] = start[c]
                for v in range(nv):
                    values[v, tail] = start_values[v]
                end += 1
            if head < end:
                first_event, last_event = event[g], event[g + 1]
                letter = move_letter[first_event]
                if plain and last_event - first_event == 1 and in_place[letter]:
                    k = SECTIONS * letter
                    for i in range(section[k + ADDS], section[k + ADDS + 1], 2):
                        add_row(counts[sections[i], head:end], counts[sections[i + 1], head:end])
                    for i in range(section[k + CLEARS], section[k + CLEARS + 1]):
                        clear_counts(counts[sections[i], head:end])
                else:
                    if nv:
                        _act_on_values(
                            first_event, last_event, stay_letter[g], move_letter, inputs, tables,
                            kinds, head, end, counts, floats, dual, values, work_v, touched_v,
                            order_v,
                        )  # fmt: skip
                    _act(
                        first_event, last_event, stay_letter[g], move_letter, tables, head, end,
                        counts, work, touched, order,
                    )  # fmt: skip
                    if dual:
                        _act(
                            first_event, last_event, stay_letter[g], move_letter, tables, head,
                            end, floats, work_f, touched, order,
                        )  # fmt: skip
            if begins:
                for c in range(n):
                    if start[c]:
                        counts[c, tail] = 0
                        if dual:
                            floats[c, tail] = 0.0
                tail = end
            if head == tail:
                continue
            for e in range(event[g], event[g + 1]):
                for t in range(triggered[move_letter[e]], triggered[move_letter[e] + 1]):
                    q = triggers[t]
                    if slide[q] > 0 or stamp[q] == g:
                        continue
                    stamp[q] = g
                    low = first_held(started, head, tail, now - width[q])
                    rows = _read(
                        q, g, zero, low, tail, dual, counts, floats, values, final, finals, result,
                        result_kind, part, parts, rows, out_group, out_boundary, out_query,
                        out_counts, out_approximate, out_values,
                    )  # fmt: skip
            if rows > out_group.size:
                return -1
        if rows > out_group.size:
            return -1
    return rows
