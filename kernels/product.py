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

from typing import Any, NamedTuple

import numba
import numpy as np

SUM, NUMBER, MIN, MAX = 0, 1, 2, 3  # kinds of value counters


class Operators(NamedTuple):
    """What letters do to counters, as lists in compressed rows.

    A *move* letter adds counters to counters: `counts[target] += counts[source]`, and for values
    `values[target] (+) values[source]` and `values[target] (+) input[attribute] * counts[source]`.
    A *stay* letter replaces counters by sums of counters (of none: by nothing).
    `in_place[letter]` says that a move letter's additions may be made in the order given.
    """

    start_counts: np.ndarray  # uint64: the counters of an empty stretch
    start_values: np.ndarray  # float64
    kinds: np.ndarray  # int8: of each value counter
    logged: np.ndarray  # bool: counters whose changes are logged
    logged_values: np.ndarray
    in_place: np.ndarray  # bool, by move letter
    move: np.ndarray  # int64 row pointers by move letter
    move_target: np.ndarray
    move_source: np.ndarray
    value_move: np.ndarray
    value_move_target: np.ndarray
    value_move_source: np.ndarray
    value_tag: np.ndarray
    value_tag_target: np.ndarray
    value_tag_source: np.ndarray
    value_tag_input: np.ndarray
    stay: np.ndarray  # int64 row pointers by stay letter
    stay_target: np.ndarray
    stay_sources: np.ndarray  # row pointers into stay_source, by position in stay_target
    stay_source: np.ndarray
    value_stay: np.ndarray
    value_stay_target: np.ndarray
    value_stay_sources: np.ndarray
    value_stay_source: np.ndarray


class Readings(NamedTuple):
    """How each query's result is read: sums of products of a front and a back counter."""

    pair: np.ndarray  # row pointers by query
    pair_front: np.ndarray
    pair_back: np.ndarray
    value: np.ndarray  # row pointers by query: its value results
    value_kind: np.ndarray
    value_pair: np.ndarray  # row pointers by value result
    value_pair_front_value: np.ndarray  # -1 where the value is the back's
    value_pair_front: np.ndarray
    value_pair_back_value: np.ndarray
    value_pair_back: np.ndarray
    trigger: np.ndarray  # row pointers by move letter: queries that an event triggers
    trigger_query: np.ndarray


class Groups(NamedTuple):
    """The groups of one or more runs (keys), in order."""

    run: np.ndarray  # int64 row pointers by run
    limit: np.ndarray  # int64, by run: the last boundary that is evaluated
    position: np.ndarray  # int64, by group: time or rank
    stay_letter: np.ndarray  # int32, by group
    event: np.ndarray  # int64 row pointers by group
    move_letter: np.ndarray  # int32, by event
    inputs: np.ndarray  # float64 (attribute, event); NaN for null


class Rows(NamedTuple):
    """Results: the group (or, per slide, the boundary) and query of each row, and its numbers."""

    group: np.ndarray
    boundary: np.ndarray
    query: np.ndarray
    counts: np.ndarray  # uint64
    approximate: np.ndarray  # float64; filled where `dual`
    values: np.ndarray  # float64 (row, value result of the query)


@numba.njit(cache=True, inline="always")
def _combine(kind: int, a: float, b: float) -> float:
    if kind == MIN:
        return min(a, b)
    if kind == MAX:
        return max(a, b)
    return a + b


@numba.njit(cache=True, inline="always")
def _neutral(kind: int) -> float:
    if kind == MIN:
        return np.inf
    if kind == MAX:
        return -np.inf
    return 0.0


@numba.njit(cache=True, inline="always")
def _term(kind: int, x: float, count: float) -> float:
    """What one use of an event adds to a value counter, for `count` partial matches before it."""
    if np.isnan(x):
        return _neutral(kind)
    if kind == SUM:
        return x * count
    if kind == NUMBER:
        return count
    return x if count > 0 else _neutral(kind)


@numba.njit(cache=True)
def _grown(log: np.ndarray, size: int) -> np.ndarray:
    larger = np.empty(max(size, 2 * log.size), log.dtype)
    larger[: log.size] = log
    return larger


@numba.njit(cache=True)
def _room(pointers: np.ndarray, counters: int) -> int:
    """How many changes one group can log: one for each addition of its letter, or each counter."""
    most = counters
    for letter in range(pointers.size - 1):
        most = max(most, pointers[letter + 1] - pointers[letter])
    return most


@numba.njit(cache=True)
def _read(q: int, r: Any, front: np.ndarray, back: np.ndarray) -> np.uint64:
    total = np.uint64(0)
    for p in range(r.pair[q], r.pair[q + 1]):
        total += front[r.pair_front[p]] * back[r.pair_back[p]]
    return total


@numba.njit(cache=True)
def _read_float(q: int, r: Any, front: np.ndarray, back: np.ndarray) -> float:
    total = 0.0
    for p in range(r.pair[q], r.pair[q + 1]):
        total += front[r.pair_front[p]] * back[r.pair_back[p]]
    return total


@numba.njit(cache=True)
def slide_product(
    groups: Any,
    back_ops: Any,
    front_ops: Any,
    readings: Any,
    width: int,
    slide: int,
    dual: bool,
    out: Any,
) -> int:
    """Fill `out` with the rows of all runs; returns how many, or -1 where `out` is too small.

    Per trigger (`slide` 0) a row is made at each group for each query that one of its events
    triggers; per slide at each multiple of `slide`. Only windows with a match give a row.
    """
    n_back, n_front = back_ops.start_counts.size, front_ops.start_counts.size
    nv_back, nv_front = back_ops.start_values.size, front_ops.start_values.size
    back = np.empty(n_back, np.uint64)
    front = np.empty(n_front, np.uint64)
    back_f = np.empty(n_back if dual else 0, np.float64)
    front_f = np.empty(n_front if dual else 0, np.float64)
    back_v = np.empty(nv_back, np.float64)
    front_v = np.empty(nv_front, np.float64)
    scratch = _scratch(max(n_back, n_front), max(nv_back, nv_front))
    stamp = np.full(readings.pair.size, -1, np.int64)
    log_key = np.empty(1024, np.int64)
    log_count = np.empty(1024, np.uint64)
    log_float = np.empty(1024 if dual else 0, np.float64)
    log_value_key = np.empty(256, np.int64)
    log_value = np.empty(256, np.float64)
    log_start = np.zeros(groups.position.size + 1, np.int64)
    log_value_start = np.zeros(groups.position.size + 1, np.int64)
    room = _room(front_ops.move, n_front)
    room_v = _room(front_ops.value_move, nv_front) + _room(front_ops.value_tag, nv_front)
    rows = 0
    n_queries = readings.pair.size - 1
    for run in range(groups.run.size - 1):
        first, last = groups.run[run], groups.run[run + 1]
        if first == last:
            continue
        _reset(back, back_f, back_v, back_ops, dual)
        _reset(front, front_f, front_v, front_ops, dual)
        head = first
        middle = first  # groups [head, middle) are in the front, [middle, g) in the back
        top = 0
        top_v = 0
        boundary = 0
        if slide > 0:
            boundary = -((-groups.position[first]) // slide) * slide
        g = first
        while True:
            # In slide mode the boundaries before the next group come first; after the last group
            # they go on until the window is empty.
            at_boundary = False
            if slide > 0:
                if g < last:
                    at_boundary = boundary < groups.position[g]
                else:
                    at_boundary = head < last and boundary <= groups.limit[run]
                if not at_boundary and g == last:
                    break
            elif g == last:
                break
            now = boundary if at_boundary else groups.position[g]
            if not (slide > 0 and not at_boundary):
                while head < g and groups.position[head] <= now - width:
                    if head == middle:
                        _reset(front, front_f, front_v, front_ops, dual)
                        top = 0
                        top_v = 0
                        for older in range(g - 1, head - 1, -1):
                            log_start[older] = top
                            log_value_start[older] = top_v
                            need = top + room
                            if log_key.size < need:
                                log_key = _grown(log_key, need)
                                log_count = _grown(log_count, need)
                                if dual:
                                    log_float = _grown(log_float, need)
                            need = top_v + room_v
                            if log_value_key.size < need:
                                log_value_key = _grown(log_value_key, need)
                                log_value = _grown(log_value, need)
                            top, top_v = _apply(
                                older, groups, front_ops, front, front_f, front_v, dual, scratch,
                                True, top, log_key, log_count, log_float,
                                top_v, log_value_key, log_value,
                            )  # fmt: skip
                        middle = g
                        _reset(back, back_f, back_v, back_ops, dual)
                    while top > log_start[head]:
                        top -= 1
                        front[log_key[top]] = log_count[top]
                        if dual:
                            front_f[log_key[top]] = log_float[top]
                    while top_v > log_value_start[head]:
                        top_v -= 1
                        front_v[log_value_key[top_v]] = log_value[top_v]
                    head += 1
            if at_boundary:
                if head < g:
                    for q in range(n_queries):
                        made = _emit(
                            rows, g - 1, boundary, q, readings, front, front_f, front_v,
                            back, back_f, back_v, dual, out,
                        )  # fmt: skip
                        if made < 0:
                            return -1
                        rows += made
                    boundary += slide
                elif g < last:
                    # Nothing in the window until the next group: go on there.
                    boundary = -((-groups.position[g]) // slide) * slide
                else:
                    break
                continue
            _apply(
                g, groups, back_ops, back, back_f, back_v, dual, scratch,
                False, 0, log_key, log_count, log_float, 0, log_value_key, log_value,
            )  # fmt: skip
            if slide == 0:
                for e in range(groups.event[g], groups.event[g + 1]):
                    letter = groups.move_letter[e]
                    for t in range(readings.trigger[letter], readings.trigger[letter + 1]):
                        q = readings.trigger_query[t]
                        if stamp[q] != g:
                            stamp[q] = g
                            made = _emit(
                                rows, g, groups.position[g], q, readings, front, front_f, front_v,
                                back, back_f, back_v, dual, out,
                            )  # fmt: skip
                            if made < 0:
                                return -1
                            rows += made
            g += 1
    return rows


@numba.njit(cache=True)
def _reset(
    counts: np.ndarray, floats: np.ndarray, values: np.ndarray, ops: Any, dual: bool
) -> None:
    counts[:] = ops.start_counts
    values[:] = ops.start_values
    if dual:
        for i in range(floats.size):
            floats[i] = ops.start_counts[i]


@numba.njit(cache=True)
def _scratch(n: int, nv: int) -> Any:
    return (
        np.zeros(n, np.uint64),
        np.zeros(n, np.float64),
        np.zeros(nv, np.float64),
        np.zeros(n, np.bool_),
        np.zeros(nv, np.bool_),
        np.empty(n, np.int64),
        np.empty(nv, np.int64),
        np.zeros(n, np.uint64),
        np.zeros(n, np.float64),
        np.zeros(nv, np.float64),
    )


@numba.njit(cache=True)
def _apply(
    g: int, groups: Any, ops: Any, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    dual: bool, scratch: Any, log: bool, top: int, log_key: np.ndarray, log_count: np.ndarray,
    log_float: np.ndarray, top_v: int, log_value_key: np.ndarray, log_value: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Multiply a group's operator into the counters; with `log`, remember what it replaced."""
    first, last = groups.event[g], groups.event[g + 1]
    stay = groups.stay_letter[g]
    stays = ops.stay[stay + 1] > ops.stay[stay] or ops.value_stay[stay + 1] > ops.value_stay[stay]
    letter = groups.move_letter[first]
    if last - first == 1 and not stays and ops.in_place[letter]:
        # Values first: they read the counts before this event.
        for k in range(ops.value_move[letter], ops.value_move[letter + 1]):
            target = ops.value_move_target[k]
            if log and ops.logged_values[target]:
                log_value_key[top_v] = target
                log_value[top_v] = values[target]
                top_v += 1
            values[target] = _combine(
                ops.kinds[target], values[target], values[ops.value_move_source[k]]
            )
        for k in range(ops.value_tag[letter], ops.value_tag[letter + 1]):
            target, source = ops.value_tag_target[k], ops.value_tag_source[k]
            if log and ops.logged_values[target]:
                log_value_key[top_v] = target
                log_value[top_v] = values[target]
                top_v += 1
            before = floats[source] if dual else float(counts[source])
            kind = ops.kinds[target]
            x = groups.inputs[ops.value_tag_input[k], first]
            values[target] = _combine(kind, values[target], _term(kind, x, before))
        for k in range(ops.move[letter], ops.move[letter + 1]):
            target, source = ops.move_target[k], ops.move_source[k]
            if log and ops.logged[target]:
                log_key[top] = target
                log_count[top] = counts[target]
                if dual:
                    log_float[top] = floats[target]
                top += 1
            counts[target] += counts[source]
            if dual:
                floats[target] += floats[source]
        return top, top_v
    return _apply_together(
        g, groups, ops, counts, floats, values, dual, scratch, log, top, log_key, log_count,
        log_float, top_v, log_value_key, log_value,
    )  # fmt: skip


@numba.njit(cache=True)
def _apply_together(
    g: int, groups: Any, ops: Any, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    dual: bool, scratch: Any, log: bool, top: int, log_key: np.ndarray, log_count: np.ndarray,
    log_float: np.ndarray, top_v: int, log_value_key: np.ndarray, log_value: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """The general case: everything is read before anything is written."""
    added, added_f, added_v, touched, touched_v, order, order_v, new, new_f, new_v = scratch
    n = 0
    nv = 0
    for e in range(groups.event[g], groups.event[g + 1]):
        letter = groups.move_letter[e]
        for k in range(ops.value_move[letter], ops.value_move[letter + 1]):
            target = ops.value_move_target[k]
            kind = ops.kinds[target]
            if not touched_v[target]:
                touched_v[target] = True
                order_v[nv] = target
                nv += 1
                added_v[target] = _neutral(kind)
            added_v[target] = _combine(kind, added_v[target], values[ops.value_move_source[k]])
        for k in range(ops.value_tag[letter], ops.value_tag[letter + 1]):
            target, source = ops.value_tag_target[k], ops.value_tag_source[k]
            kind = ops.kinds[target]
            if not touched_v[target]:
                touched_v[target] = True
                order_v[nv] = target
                nv += 1
                added_v[target] = _neutral(kind)
            before = floats[source] if dual else float(counts[source])
            x = groups.inputs[ops.value_tag_input[k], e]
            added_v[target] = _combine(kind, added_v[target], _term(kind, x, before))
        for k in range(ops.move[letter], ops.move[letter + 1]):
            target, source = ops.move_target[k], ops.move_source[k]
            if not touched[target]:
                touched[target] = True
                order[n] = target
                n += 1
                added[target] = np.uint64(0)
                added_f[target] = 0.0
            added[target] += counts[source]
            if dual:
                added_f[target] += floats[source]
    stay = groups.stay_letter[g]
    for s in range(ops.value_stay[stay], ops.value_stay[stay + 1]):
        kind = ops.kinds[ops.value_stay_target[s]]
        total = _neutral(kind)
        for k in range(ops.value_stay_sources[s], ops.value_stay_sources[s + 1]):
            total = _combine(kind, total, values[ops.value_stay_source[k]])
        new_v[s - ops.value_stay[stay]] = total
    for s in range(ops.stay[stay], ops.stay[stay + 1]):
        count = np.uint64(0)
        approximate = 0.0
        for k in range(ops.stay_sources[s], ops.stay_sources[s + 1]):
            count += counts[ops.stay_source[k]]
            if dual:
                approximate += floats[ops.stay_source[k]]
        new[s - ops.stay[stay]] = count
        new_f[s - ops.stay[stay]] = approximate
    # Write: replaced counters first, then what was added. Each is logged once, before its change.
    for s in range(ops.value_stay[stay], ops.value_stay[stay + 1]):
        target = ops.value_stay_target[s]
        if log and ops.logged_values[target]:
            log_value_key[top_v] = target
            log_value[top_v] = values[target]
            top_v += 1
        value = new_v[s - ops.value_stay[stay]]
        if touched_v[target]:
            touched_v[target] = False
            value = _combine(ops.kinds[target], value, added_v[target])
        values[target] = value
    for i in range(nv):
        target = order_v[i]
        if touched_v[target]:
            touched_v[target] = False
            if log and ops.logged_values[target]:
                log_value_key[top_v] = target
                log_value[top_v] = values[target]
                top_v += 1
            values[target] = _combine(ops.kinds[target], values[target], added_v[target])
    for s in range(ops.stay[stay], ops.stay[stay + 1]):
        target = ops.stay_target[s]
        if log and ops.logged[target]:
            log_key[top] = target
            log_count[top] = counts[target]
            if dual:
                log_float[top] = floats[target]
            top += 1
        counts[target] = new[s - ops.stay[stay]]
        if dual:
            floats[target] = new_f[s - ops.stay[stay]]
        if touched[target]:
            touched[target] = False
            counts[target] += added[target]
            if dual:
                floats[target] += added_f[target]
    for i in range(n):
        target = order[i]
        if touched[target]:
            touched[target] = False
            if log and ops.logged[target]:
                log_key[top] = target
                log_count[top] = counts[target]
                if dual:
                    log_float[top] = floats[target]
                top += 1
            counts[target] += added[target]
            if dual:
                floats[target] += added_f[target]
    return top, top_v


@numba.njit(cache=True)
def _emit(
    row: int, group: int, boundary: int, q: int, readings: Any, front: np.ndarray,
    front_f: np.ndarray, front_v: np.ndarray, back: np.ndarray, back_f: np.ndarray,
    back_v: np.ndarray, dual: bool, out: Any,
) -> int:  # fmt: skip
    """Write one query's row if the window holds a match: 1, else 0; -1 where there is no room."""
    count = _read(q, readings, front, back)
    approximate = 0.0
    if dual:
        approximate = _read_float(q, readings, front_f, back_f)
        if approximate == 0.0:
            return 0
    elif count == 0:
        return 0
    if row >= out.group.size:
        return -1
    out.group[row] = group
    out.boundary[row] = boundary
    out.query[row] = q
    out.counts[row] = count
    if dual:
        out.approximate[row] = approximate
    for v in range(readings.value[q], readings.value[q + 1]):
        kind = readings.value_kind[v]
        total = _neutral(kind)
        for p in range(readings.value_pair[v], readings.value_pair[v + 1]):
            fv, bv = readings.value_pair_front_value[p], readings.value_pair_back_value[p]
            if fv >= 0:
                k = readings.value_pair_back[p]
                other = back_f[k] if dual else float(back[k])
                value = front_v[fv]
            else:
                k = readings.value_pair_front[p]
                other = front_f[k] if dual else float(front[k])
                value = back_v[bv]
            if kind in (SUM, NUMBER):
                if other != 0.0:
                    total += value * other
            elif other > 0.0:
                total = _combine(kind, total, value)
        out.values[row, v - readings.value[q]] = total
    return 1
