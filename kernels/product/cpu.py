"""The sliding product of counting operators: a window's aggregates without its matches.

The events of one time form a *group*. A group acts on a vector of counters linearly, and a window's
value is read off the product of its groups' operators. The window is kept as two stacks: the
*back* product grows to the right as groups arrive; when the window's oldest group must go and the
front is empty, all groups of the window are multiplied from the right to the left into the *front*,
and a log of the values that each group changed lets them be taken off again, oldest first. Both
cost a constant number of products per group, whatever the window holds.

Counters are numbered by the caller, who also gives the operators as lists of additions
(`Operators`); this file knows no pattern. Counts are unsigned and wrap; where they could pass 2^63
the caller asks for floating-point ones beside them (`dual`), which tell when they did.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.counters import grown
from kernels.groups import Groups, RowSegments, Spans
from kernels.values import NUMBER, SUM, combine, neutral, term, times

# The tables of an operator are one array of integers, which keeps compiled code small: its first
# entries say where each table begins. Tables that end in rows are pointers into their neighbours.
MOVE = 0  # by move letter: rows of MOVES
MOVES = 1  # target, source: counts[target] += counts[source]
VALUE_MOVE = 2  # by move letter: rows of VALUE_MOVES
VALUE_MOVES = 3  # target, source: values[target] (+)= values[source]
VALUE_TAG = 4  # by move letter: rows of VALUE_TAGS
VALUE_TAGS = 5  # target, source, input: values[target] (+)= input of the event * counts[source]
STAY = 6  # by stay letter: rows of STAYS
STAYS = 7  # target, first, end: counts[target] = sum of counts[STAY_SOURCES[first:end]]
STAY_SOURCES = 8
VALUE_STAY = 9
VALUE_STAYS = 10
VALUE_STAY_SOURCES = 11
OPERATOR_TABLES = 12

# The tables of the readings, likewise.
PAIR = 0  # by query: rows of PAIRS
PAIRS = 1  # front counter, back counter: their product is part of the query's count
VALUE = 2  # by query: rows of VALUE_KINDS, its value results
VALUE_KINDS = 3
VALUE_PAIR = 4  # by value result: rows of VALUE_PAIRS
VALUE_PAIRS = 5  # front value or -1, front counter, back value or -1, back counter
TRIGGER = 6  # by move letter: rows of TRIGGERS
TRIGGERS = 7  # queries that an event triggers


# Most groups are one event whose effect can be made in place, one change after the other. What a
# move letter then does, its stay letter included, stands in these sections, in this order.
VALUE_ADDS, ADD_TAGS, ADDS, CLEARS, VALUE_CLEARS = 0, 1, 2, 3, 4
SECTIONS = 5  # pairs, triples, pairs, numbers, numbers

FAR = 2**62  # behind any boundary


class Operators(NamedTuple):
    """What letters do to counters."""

    tables: np.ndarray  # int32
    start_counts: np.ndarray  # uint64: the counters of an empty stretch
    start_values: np.ndarray  # float64
    kinds: np.ndarray  # int8, of each value counter
    logged: np.ndarray  # bool: counters whose changes are logged
    logged_values: np.ndarray  # bool
    in_place: np.ndarray  # bool, by move letter: has it sections?
    section: np.ndarray  # uint64 pointers by move letter and section
    sections: np.ndarray  # uint32


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
    """Fill `out` with the rows of all runs; False where a segment of it is too small.

    Per trigger a row is made at each group for each query that one of its events triggers; per
    slide at each multiple of it. Only windows with a match give a row. All windows are of one
    width, as a front is the product of one.

    Of each run, the first `begun` groups have given their rows in an earlier call, as have the
    boundaries up to `since`: they are what is left in the window from before.
    """
    (width,), _ = spans.windows
    given = (readings, width, spans.slide, *spans.marks[1:], dual)
    return bool(_slide(*groups, begun, since, *back, *front, *given, *out))


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed in several processes."""
    none, numbers, flags = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_)
    groups = Groups(none, none, none, none, none, none, np.zeros((1, 1)))
    kinds, counts = np.zeros(1, np.int8), np.zeros(1, np.uint64)
    tables = np.full(OPERATOR_TABLES + 1, OPERATOR_TABLES, np.int32)
    section, sections = np.zeros(SECTIONS + 1, np.uint64), np.zeros(1, np.uint32)
    operators = Operators(tables, counts, numbers, kinds, flags, flags, flags, section, sections)
    rows = RowSegments(none, none, none, none, counts, numbers, np.zeros((1, 1)))
    spans = Spans(none + 1, none)
    slide_product(groups, none, none, operators, operators, tables, spans, False, rows)


@numba.njit(cache=True)
def _reset(
    counts: np.ndarray, floats: np.ndarray, values: np.ndarray, start: np.ndarray,
    start_values: np.ndarray,
) -> None:  # fmt: skip
    for i in range(counts.size):
        counts[i] = start[i]
    for i in range(floats.size):
        floats[i] = start[i]
    for i in range(values.size):
        values[i] = start_values[i]


@numba.njit(cache=True)
def _apply(
    first: int, last: int, stay: int, move_letter: np.ndarray, inputs: np.ndarray,
    tables: np.ndarray, kinds: np.ndarray, counts: np.ndarray, floats: np.ndarray,
    values: np.ndarray, dual: bool, added: np.ndarray, added_f: np.ndarray, added_v: np.ndarray,
    touched: np.ndarray, touched_v: np.ndarray, order: np.ndarray, order_v: np.ndarray,
    changed: np.ndarray, changed_f: np.ndarray, changed_v: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Work out a group's effect without writing it: everything is read before anything changes.

    The new value of counter order[i] is changed[i] for i below the first number returned, and of
    value counter order_v[i] changed_v[i] below the second.
    """
    n = 0
    nv = 0
    base = tables[STAY] + stay
    for row in range(tables[base], tables[base + 1]):
        s = tables[STAYS] + 3 * row
        target = tables[s]
        count = np.uint64(0)
        approximate = 0.0
        for k in range(tables[STAY_SOURCES] + tables[s + 1], tables[STAY_SOURCES] + tables[s + 2]):
            count += counts[tables[k]]
            if dual:
                approximate += floats[tables[k]]
        touched[target] = True
        order[n] = target
        n += 1
        added[target] = count
        added_f[target] = approximate
    base = tables[VALUE_STAY] + stay
    for row in range(tables[base], tables[base + 1]):
        s = tables[VALUE_STAYS] + 3 * row
        target = tables[s]
        total = neutral(kinds[target])
        sources = tables[VALUE_STAY_SOURCES]
        for k in range(sources + tables[s + 1], sources + tables[s + 2]):
            total = combine(kinds[target], total, values[tables[k]])
        touched_v[target] = True
        order_v[nv] = target
        nv += 1
        added_v[target] = total
    for e in range(first, last):
        letter = move_letter[e]
        base = tables[VALUE_MOVE] + letter
        for row in range(tables[base], tables[base + 1]):
            s = tables[VALUE_MOVES] + 2 * row
            target = tables[s]
            if not touched_v[target]:
                touched_v[target] = True
                order_v[nv] = target
                nv += 1
                added_v[target] = values[target]
            added_v[target] = combine(kinds[target], added_v[target], values[tables[s + 1]])
        base = tables[VALUE_TAG] + letter
        for row in range(tables[base], tables[base + 1]):
            s = tables[VALUE_TAGS] + 3 * row
            target, source = tables[s], tables[s + 1]
            if not touched_v[target]:
                touched_v[target] = True
                order_v[nv] = target
                nv += 1
                added_v[target] = values[target]
            before = floats[source] if dual else float(counts[source])
            new = term(kinds[target], inputs[tables[s + 2], e], before)
            added_v[target] = combine(kinds[target], added_v[target], new)
        base = tables[MOVE] + letter
        for row in range(tables[base], tables[base + 1]):
            s = tables[MOVES] + 2 * row
            target, source = tables[s], tables[s + 1]
            if not touched[target]:
                touched[target] = True
                order[n] = target
                n += 1
                added[target] = counts[target]
                if dual:
                    added_f[target] = floats[target]
            added[target] += counts[source]
            if dual:
                added_f[target] += floats[source]
    for i in range(n):
        changed[i] = added[order[i]]
        touched[order[i]] = False
        if dual:
            changed_f[i] = added_f[order[i]]
    for i in range(nv):
        changed_v[i] = added_v[order_v[i]]
        touched_v[order_v[i]] = False
    return n, nv


@numba.njit(cache=True)
def _read_values(
    row: int, q: int, tables: np.ndarray, front: np.ndarray, front_f: np.ndarray,
    front_v: np.ndarray, back: np.ndarray, back_f: np.ndarray, back_v: np.ndarray, dual: bool,
    out_values: np.ndarray,
) -> None:  # fmt: skip
    """A query's value results: each is carried by the front or by the back."""
    first = tables[tables[VALUE] + q]
    for v in range(first, tables[tables[VALUE] + q + 1]):
        kind = tables[tables[VALUE_KINDS] + v]
        total = neutral(kind)
        base = tables[VALUE_PAIR] + v
        for p in range(tables[base], tables[base + 1]):
            s = tables[VALUE_PAIRS] + 4 * p
            if tables[s] >= 0:
                k = tables[s + 3]
                ways = back_f[k] if dual else float(back[k])
                value = front_v[tables[s]]
            else:
                k = tables[s + 1]
                ways = front_f[k] if dual else float(front[k])
                value = back_v[tables[s + 2]]
            if ways > 0.0:
                if kind in (SUM, NUMBER):
                    value = times(value, ways)
                total = combine(kind, total, value)
        out_values[row, v - first] = total


# Section pointers are unsigned, so that no index has to be tested for being negative; and nothing
# is sliced in these loops, as each slice would be counted as a reference.
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@numba.njit(cache=True, inline="always")
def _in_place(
    letter: int, e: int, inputs: np.ndarray, section: np.ndarray, sections: np.ndarray,
    kinds: np.ndarray, counts: np.ndarray, floats: np.ndarray, values: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    """The effect of a group of one event: values first, as they read the counts before it."""
    k = SECTIONS * letter
    if kinds.size:
        _values_in_place(k, e, inputs, section, sections, kinds, counts, floats, values, dual)
    for i in range(section[k + ADDS], section[k + ADDS + 1], TWO):
        counts[sections[i]] += counts[sections[i + ONE]]
    if dual:
        for i in range(section[k + ADDS], section[k + ADDS + 1], TWO):
            floats[sections[i]] += floats[sections[i + ONE]]
    for i in range(section[k + CLEARS], section[k + CLEARS + 1]):
        counts[sections[i]] = 0
        if dual:
            floats[sections[i]] = 0.0


@numba.njit(cache=True)
def _values_in_place(
    k: int, e: int, inputs: np.ndarray, section: np.ndarray, sections: np.ndarray,
    kinds: np.ndarray, counts: np.ndarray, floats: np.ndarray, values: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    for i in range(section[k + VALUE_ADDS], section[k + VALUE_ADDS + 1], TWO):
        t = sections[i]
        values[t] = combine(kinds[t], values[t], values[sections[i + ONE]])
    for i in range(section[k + ADD_TAGS], section[k + ADD_TAGS + 1], THREE):
        t, source = sections[i], sections[i + ONE]
        before = floats[source] if dual else float(counts[source])
        new = term(kinds[t], inputs[sections[i + TWO], e], before)
        values[t] = combine(kinds[t], values[t], new)
    for i in range(section[k + VALUE_CLEARS], section[k + VALUE_CLEARS + 1]):
        values[sections[i]] = neutral(kinds[sections[i]])


@numba.njit(cache=True, inline="always")
def _log(
    letter: int, section: np.ndarray, sections: np.ndarray, counts: np.ndarray,
    floats: np.ndarray, dual: bool, logged: np.ndarray, top: int, log_key: np.ndarray,
    log_count: np.ndarray, log_float: np.ndarray,
) -> int:  # fmt: skip
    """Keep what the letter will change of the counts; returns the log's new size."""
    k = SECTIONS * letter
    for i in range(section[k + ADDS], section[k + ADDS + 1], TWO):
        t = sections[i]
        if logged[t]:
            log_key[top] = t
            log_count[top] = counts[t]
            if dual:
                log_float[top] = floats[t]
            top += 1
    for i in range(section[k + CLEARS], section[k + CLEARS + 1]):
        t = sections[i]
        if logged[t]:
            log_key[top] = t
            log_count[top] = counts[t]
            if dual:
                log_float[top] = floats[t]
            top += 1
    return top


@numba.njit(cache=True)
def _log_values(
    letter: int, section: np.ndarray, sections: np.ndarray, values: np.ndarray,
    logged: np.ndarray, top: int, log_key: np.ndarray, log_value: np.ndarray,
) -> int:  # fmt: skip
    """The same for values; a counter that changes twice is kept twice, the older below."""
    k = SECTIONS * letter
    for part in (VALUE_ADDS, ADD_TAGS, VALUE_CLEARS):
        size = TWO if part == VALUE_ADDS else (THREE if part == ADD_TAGS else ONE)
        for i in range(section[k + part], section[k + part + 1], size):
            t = sections[i]
            if logged[t]:
                log_key[top] = t
                log_value[top] = values[t]
                top += 1
    return top


@numba.njit(cache=True)
def _most_changes(section: np.ndarray, letters: int, counters: int, first: int, last: int) -> int:
    """How many changes one group can log: those of its letter's sections, or all counters."""
    most = counters
    for letter in range(letters):
        k = SECTIONS * letter
        changes = np.int64(section[k + last + 1]) - np.int64(section[k + first])
        most = max(most, int(changes))
    return most


@numba.njit(cache=True)
def _read(
    q: int, g: int, boundary: int, reading: np.ndarray, front: np.ndarray, front_f: np.ndarray,
    front_v: np.ndarray, back: np.ndarray, back_f: np.ndarray, back_v: np.ndarray, dual: bool,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> bool:  # fmt: skip
    """A query's row, if its window has a match; False where there is no room for it."""
    first, last = reading[reading[PAIR] + q], reading[reading[PAIR] + q + 1]
    pairs = reading[reading[PAIRS] + 2 * first : reading[PAIRS] + 2 * last]
    count = np.uint64(0)
    for i in range(0, pairs.size, 2):
        count += front[pairs[i]] * back[pairs[i + 1]]
    approximate = 0.0
    if dual:
        for i in range(0, pairs.size, 2):
            approximate += times(front_f[pairs[i]], back_f[pairs[i + 1]])
        if approximate == 0.0:
            return True
    elif count == 0:
        return True
    row = end[q]
    if row == room[q]:
        return False
    if dual:
        out_approximate[row] = approximate
    out_group[row] = g
    if out_boundary.size:
        out_boundary[row] = boundary
    out_counts[row] = count
    if out_values.shape[1]:
        _read_values(
            row, q, reading, front, front_f, front_v, back, back_f, back_v, dual, out_values
        )
    end[q] = row + 1
    return True


@numba.njit(nogil=True, cache=True)
def _slide(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray, begun: np.ndarray,
    since: np.ndarray,
    b: np.ndarray, b_start: np.ndarray, b_start_v: np.ndarray, b_kinds: np.ndarray,
    b_logged: np.ndarray, b_logged_v: np.ndarray, b_in_place: np.ndarray, b_section: np.ndarray,
    b_sections: np.ndarray,
    f: np.ndarray, f_start: np.ndarray, f_start_v: np.ndarray, f_kinds: np.ndarray,
    f_logged: np.ndarray, f_logged_v: np.ndarray, f_in_place: np.ndarray, f_section: np.ndarray,
    f_sections: np.ndarray,
    reading: np.ndarray, width: int, slide: np.ndarray, slides: np.ndarray, marked: np.ndarray,
    asked: np.ndarray, dual: bool,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> bool:  # fmt: skip
    nb, nf = b_start.size, f_start.size
    nbv, nfv = b_start_v.size, f_start_v.size
    n, nv = max(nb, nf), max(nbv, nfv)
    queries = end.size
    per_trigger = slide.min() == 0
    due = np.zeros(slides.size, np.int64)
    back, front = np.empty(nb, np.uint64), np.empty(nf, np.uint64)
    back_f, front_f = np.empty(nb if dual else 0), np.empty(nf if dual else 0)
    back_v, front_v = np.empty(nbv), np.empty(nfv)
    added, added_f, added_v = np.empty(n, np.uint64), np.empty(n), np.empty(nv)
    changed, changed_f, changed_v = np.empty(n, np.uint64), np.empty(n), np.empty(nv)
    touched, touched_v = np.zeros(n, np.bool_), np.zeros(nv, np.bool_)
    order, order_v = np.empty(n, np.int64), np.empty(nv, np.int64)
    stamp = np.full(queries, -1, np.int64)
    log_key, log_count = np.empty(1024, np.int64), np.empty(1024, np.uint64)
    log_float = np.empty(1024)
    log_key_v, log_value = np.empty(256, np.int64), np.empty(256)
    log_start = np.zeros(position.size + 1, np.int64)
    log_start_v = np.zeros(position.size + 1, np.int64)
    most = _most_changes(f_section, f_in_place.size, nf, ADDS, CLEARS)
    most_v = _most_changes(f_section, f_in_place.size, nfv, VALUE_ADDS, VALUE_CLEARS)
    for r in range(run.size - 1):
        first, last = run[r], run[r + 1]
        if first == last or (slides.size == 0 and begun[r] == last - first):
            continue  # nothing new
        _reset(back, back_f, back_v, b_start, b_start_v)
        _reset(front, front_f, front_v, f_start, f_start_v)
        head = first
        middle = first  # groups [head, middle) are in the front, [middle, g) in the back
        top = 0
        top_v = 0
        for m in range(slides.size):
            due[m] = -((-max(position[first], since[r] + 1)) // slides[m]) * slides[m]
        g = first
        fresh = first + begun[r]
        while True:
            # Per slide, the boundaries before the next group come first; after the last group
            # they go on until the window is empty or the limit is reached.
            at_boundary = False
            boundary = FAR
            if slides.size > 0 and g >= fresh:
                for m in range(slides.size):
                    boundary = min(boundary, due[m])
                at_boundary = boundary <= limit[r] and (
                    boundary < position[g] if g < last else head < last
                )
            if g == last and not at_boundary:
                break
            if at_boundary or (per_trigger and g >= fresh):
                now = boundary if at_boundary else position[g]
                while head < g and position[head] <= now - width:
                    if head == middle:
                        _reset(front, front_f, front_v, f_start, f_start_v)
                        top = 0
                        top_v = 0
                        for older in range(g - 1, head - 1, -1):
                            log_start[older] = top
                            log_start_v[older] = top_v
                            if log_key.size < top + most:
                                log_key = grown(log_key, top + most)
                                log_count = grown(log_count, top + most)
                                if dual:
                                    log_float = grown(log_float, log_key.size)
                            if log_key_v.size < top_v + most_v:
                                log_key_v = grown(log_key_v, top_v + most_v)
                                log_value = grown(log_value, log_key_v.size)
                            e = event[older]
                            if event[older + 1] - e == 1 and f_in_place[move_letter[e]]:
                                letter = move_letter[e]
                                top = _log(
                                    letter, f_section, f_sections, front, front_f, dual, f_logged,
                                    top, log_key, log_count, log_float,
                                )  # fmt: skip
                                if nfv:
                                    top_v = _log_values(
                                        letter, f_section, f_sections, front_v, f_logged_v, top_v,
                                        log_key_v, log_value,
                                    )  # fmt: skip
                                _in_place(
                                    letter, e, inputs, f_section, f_sections, f_kinds, front,
                                    front_f, front_v, dual,
                                )  # fmt: skip
                                continue
                            m, mv = _apply(
                                e, event[older + 1], stay_letter[older], move_letter,
                                inputs, f, f_kinds, front, front_f, front_v, dual, added, added_f,
                                added_v, touched, touched_v, order, order_v, changed, changed_f,
                                changed_v,
                            )  # fmt: skip
                            for i in range(m):
                                target = order[i]
                                if f_logged[target]:
                                    log_key[top] = target
                                    log_count[top] = front[target]
                                    if dual:
                                        log_float[top] = front_f[target]
                                    top += 1
                                front[target] = changed[i]
                                if dual:
                                    front_f[target] = changed_f[i]
                            for i in range(mv):
                                target = order_v[i]
                                if f_logged_v[target]:
                                    log_key_v[top_v] = target
                                    log_value[top_v] = front_v[target]
                                    top_v += 1
                                front_v[target] = changed_v[i]
                        middle = g
                        _reset(back, back_f, back_v, b_start, b_start_v)
                    while top > log_start[head]:
                        top -= 1
                        front[log_key[top]] = log_count[top]
                        if dual:
                            front_f[log_key[top]] = log_float[top]
                    while top_v > log_start_v[head]:
                        top_v -= 1
                        front_v[log_key_v[top_v]] = log_value[top_v]
                    head += 1
            if at_boundary and head == g:
                # Nothing is in the window: go on at the next group.
                if g == last:
                    break
                for m in range(slides.size):
                    due[m] = -((-position[g]) // slides[m]) * slides[m]
                continue
            if at_boundary:
                for m in range(slides.size):
                    if due[m] > boundary:
                        continue
                    for i in range(marked[m], marked[m + 1]):
                        if not _read(
                            asked[i], g - 1, boundary, reading, front, front_f, front_v, back,
                            back_f, back_v, dual, end, room, out_group, out_boundary, out_counts,
                            out_approximate, out_values,
                        ):  # fmt: skip
                            return False
                    due[m] += slides[m]
                continue
            e = event[g]
            if event[g + 1] - e == 1 and b_in_place[move_letter[e]]:
                _in_place(
                    move_letter[e], e, inputs, b_section, b_sections, b_kinds, back, back_f, back_v,
                    dual,
                )  # fmt: skip
            else:
                m, mv = _apply(
                    e, event[g + 1], stay_letter[g], move_letter, inputs, b, b_kinds,
                    back, back_f, back_v, dual, added, added_f, added_v, touched, touched_v,
                    order, order_v, changed, changed_f, changed_v,
                )  # fmt: skip
                for i in range(m):
                    back[order[i]] = changed[i]
                    if dual:
                        back_f[order[i]] = changed_f[i]
                for i in range(mv):
                    back_v[order_v[i]] = changed_v[i]
            g += 1
            if not per_trigger or g <= fresh:
                continue
            # Per trigger: the queries that an event of the group triggers, each once.
            several = event[g] - event[g - 1] > 1
            for e in range(event[g - 1], event[g]):
                start = reading[reading[TRIGGER] + move_letter[e]]
                stop = reading[reading[TRIGGER] + move_letter[e] + 1]
                for t in range(start, stop):
                    q = reading[reading[TRIGGERS] + t]
                    if slide[q] > 0:
                        continue
                    if several:
                        if stamp[q] == g:
                            continue
                        stamp[q] = g
                    if not _read(
                        q, g - 1, 0, reading, front, front_f, front_v, back, back_f, back_v, dual,
                        end, room, out_group, out_boundary, out_counts, out_approximate,
                        out_values,
                    ):  # fmt: skip
                        return False
    return True
