"""Chop-Connect (Qi's thesis, sections 4.2 to 4.4): segments counted once, connected by snapshots.

A query is chopped into segments. Each segment counts its prefixes for every active START of its
own, once for all queries that have it. The START of a segment that others precede is a CNET: when
it comes, the counts of what precedes it are written down, a row for each START of the first
segment, so that rows can expire with them. A query's count is then, summed over the last segment's
STARTs, the segment's count times what its snapshot still holds.

A row here holds the sum over its START and all later ones. Rows expire from the oldest on, so what
a snapshot still holds is one look at its first row that is left, and not a sum; and since such sums
connect as the counts themselves do, a snapshot over several connects is made of them alike.

Counts are unsigned and wrap; where they could pass 2^63 the caller asks for floating-point ones
beside them (`dual`), which tell when they did.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.aseq import (
    _add_counts,
    _clear,
    _extend,
    _fill,
    _gather,
    _most_starts,
    _total,
    _total_value,
)
from kernels.product import (
    NUMBER,
    SUM,
    Groups,
    Rows,
    _combine,
    _grown_count,
    _grown_float,
    _neutral,
)


class Segments(NamedTuple):
    """Segments of queries, the nodes of each one after the other, and how they are connected.

    A *link* stands for the segments of a query up to one, and is attached to that one's STARTs.
    """

    node: np.ndarray  # int64 pointers: the nodes of each segment
    segment: np.ndarray  # by node
    extended: np.ndarray  # by move letter: rows of `extends`
    extends: np.ndarray  # nodes that an event extends
    cleared: np.ndarray  # by stay letter: rows of `clears`
    clears: np.ndarray  # nodes that negated events set to zero
    slotted: np.ndarray  # by node: its slots, values carried with its count, which stand together
    slot_kind: np.ndarray  # int64, by slot: SUM, NUMBER, MIN or MAX
    slot_source: np.ndarray  # the slot before that it goes on with, or -1: the event's own input
    slot_input: np.ndarray
    linked: np.ndarray  # by segment: its links, which stand together
    link_before: np.ndarray  # by link: the link of the segments before its last, -1 if that is one
    link_last: np.ndarray  # by link: its last segment
    link_from: np.ndarray  # by link: the segment before its last
    link_root: np.ndarray  # by link: its first segment
    laned: np.ndarray  # by link: its lanes, values carried with its snapshots' counts
    lane_kind: np.ndarray
    lane_slot: np.ndarray  # by lane: the slot of the segment before that it is of, or -1
    lane_before: np.ndarray  # by lane: else which of the lanes of the link before it goes on with
    triggered: np.ndarray  # by move letter: rows of `triggers`
    triggers: np.ndarray  # queries that an event triggers
    last: np.ndarray  # by query: its last segment
    link: np.ndarray  # by query: its link, or -1 where it is one segment
    read: np.ndarray  # by query: its values
    read_kind: np.ndarray
    read_slot: np.ndarray  # by value: the last segment's slot, or -1
    read_lane: np.ndarray  # by value: else which of its link's lanes


def connect(groups: Groups, segments: Segments, width: int, dual: bool, out: Rows) -> int:
    """Fill `out` with a row per trigger and query that has matches; returns how many, or -1.

    -1 means that `out` is too small.
    """
    return int(_connect(*groups, *segments, width, dual, *out))


@numba.njit(cache=True)
def _most_of_any(
    run: np.ndarray, position: np.ndarray, event: np.ndarray, move_letter: np.ndarray,
    node: np.ndarray, extended: np.ndarray, extends: np.ndarray, width: int,
) -> int:  # fmt: skip
    """The largest number of groups with a START of one segment in one window."""
    most = 0
    starts = np.zeros(extended.size - 1, np.bool_)
    for segment in range(node.size - 1):
        for letter in range(starts.size):
            starts[letter] = False
            for k in range(extended[letter], extended[letter + 1]):
                starts[letter] |= extends[k] == node[segment]
        most = max(most, _most_starts(run, position, event, move_letter, starts, width))
    return most


@numba.njit(cache=True)
def _expire(
    segment: int, started: np.ndarray, head: np.ndarray, tail: np.ndarray, opening: int
) -> None:
    while head[segment] < tail[segment] and started[segment, head[segment]] <= opening:
        head[segment] += 1


@numba.njit(cache=True)
def _move_down(table: np.ndarray, first: int, last: int, head: int, tail: int) -> None:
    for row in range(first, last):
        for s in range(head, tail):
            table[row, s - head] = table[row, s]


@numba.njit(cache=True)
def _make_room(
    head: int, tail: int, own: int, node: np.ndarray, slotted: np.ndarray, linked: np.ndarray,
    counts: np.ndarray, floats: np.ndarray, values: np.ndarray, started: np.ndarray,
    row_start: np.ndarray, row_count: np.ndarray, row_place: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    """Move all that belongs to a segment's active STARTs to the front."""
    _move_down(counts, node[own], node[own + 1], head, tail)
    if dual:
        _move_down(floats, node[own], node[own + 1], head, tail)
    _move_down(values, slotted[node[own]], slotted[node[own + 1]], head, tail)
    _move_down(started, own, own + 1, head, tail)
    for table in (row_start, row_count, row_place):
        _move_down(table, linked[own], linked[own + 1], head, tail)


@numba.njit(cache=True)
def _drop(kept: np.ndarray, first: int, last: int) -> None:
    for i in range(first, last):
        kept[i - first] = kept[i]


@numba.njit(cache=True)
def _sums_from(counts: np.ndarray, sums: np.ndarray) -> None:
    """The sums of an array from each of its entries to the end."""
    total = counts[0] - counts[0]  # of their type
    for s in range(counts.size - 1, -1, -1):
        total += counts[s]
        sums[s] = total


@numba.njit(cache=True)
def _add_times(target: np.ndarray, source: np.ndarray, times: float) -> None:
    for s in range(target.size):
        target[s] += source[s] * times


@numba.njit(cache=True)
def _values_from(kind: int, values: np.ndarray, sums: np.ndarray) -> None:
    total = _neutral(kind)
    for s in range(values.size - 1, -1, -1):
        total = _combine(kind, total, values[s])
        sums[s] = total


@numba.njit(cache=True, inline="always")
def _weighted(kind: int, total: float, x: float, ways: float) -> float:
    """A value that occurs in so many ways, combined with others."""
    if ways == 0.0:
        return total
    return _combine(kind, total, x * ways if kind <= NUMBER else x)


@numba.njit(cache=True)
def _spread(
    kind: int, into: np.ndarray, x: float, counts: np.ndarray, floats: np.ndarray, dual: bool
) -> None:
    """A segment's value after each of the ways that a snapshot counts."""
    for s in range(into.size):
        into[s] = _weighted(kind, into[s], x, floats[s] if dual else float(counts[s]))


@numba.njit(cache=True)
def _carry(kind: int, into: np.ndarray, values: np.ndarray, ways: float) -> None:
    """A snapshot's values before each of the ways that a segment counts."""
    for s in range(into.size):
        into[s] = _weighted(kind, into[s], values[s], ways)


@numba.njit(cache=True)
def _widened(table: np.ndarray, size: int) -> np.ndarray:
    wider = np.empty((table.shape[0], size), np.float64)
    for row in range(table.shape[0]):
        for i in range(table.shape[1]):
            wider[row, i] = table[row, i]
    return wider


@numba.njit(cache=True)
def _take(
    at: int, size: int, first_root: int, kept_from: int, end: int, before: int, head: int,
    tail: int, first_lane: int, last_lane: int, lane_kind: np.ndarray, lane_slot: np.ndarray,
    lane_before: np.ndarray, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    row_start: np.ndarray, row_count: np.ndarray, row_place: np.ndarray, kept: np.ndarray,
    kept_f: np.ndarray, kept_v: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    """Write the rows of a snapshot, of the segment that ends in node `end` and those before it."""
    new = kept[at : at + size]
    new_f = kept_f[at : at + size] if dual else kept_f[:0]
    if before < 0:
        # The segment is the first one: its STARTs are those that the rows are of.
        _sums_from(counts[end, head:tail], new)
        if dual:
            _sums_from(floats[end, head:tail], new_f)
        for i in range(first_lane, last_lane):
            into = kept_v[i - first_lane, at : at + size]
            _values_from(lane_kind[i], values[lane_slot[i], head:tail], into)
        return
    _clear(new)
    _fill(new_f, 0.0)
    for i in range(first_lane, last_lane):
        _fill(kept_v[i - first_lane, at : at + size], _neutral(lane_kind[i]))
    for s in range(head, tail):
        gone = first_root - row_start[before, s]
        left = row_count[before, s] - gone
        ways = floats[end, s] if dual else float(counts[end, s])
        if left <= 0 or ways == 0.0:
            continue
        place = row_place[before, s] - kept_from + gone
        old = kept[place : place + left]
        _add_times(new[:left], old, counts[end, s])
        if dual:
            _add_times(new_f[:left], kept_f[place : place + left], floats[end, s])
        for i in range(first_lane, last_lane):
            into = kept_v[i - first_lane, at : at + left]
            if lane_slot[i] >= 0:
                _spread(lane_kind[i], into, values[lane_slot[i], s], old, kept_f[place:], dual)
            else:
                _carry(lane_kind[i], into, kept_v[lane_before[i], place : place + left], ways)


@numba.njit(cache=True)
def _read(
    kind: int, slot: int, lane: int, link: int, first_root: int, kept_from: int, end: int,
    head: int, tail: int, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    row_start: np.ndarray, row_count: np.ndarray, row_place: np.ndarray, kept: np.ndarray,
    kept_f: np.ndarray, kept_v: np.ndarray, dual: bool,
) -> float:  # fmt: skip
    """A value of a connected query: of its last segment's slot, or of a lane of its snapshots."""
    total = _neutral(kind)
    for s in range(head, tail):
        gone = first_root - row_start[link, s]
        if gone >= row_count[link, s]:
            continue
        place = row_place[link, s] - kept_from + gone
        if slot >= 0:
            ways = kept_f[place] if dual else float(kept[place])
            total = _weighted(kind, total, values[slot, s], ways)
        else:
            ways = floats[end, s] if dual else float(counts[end, s])
            total = _weighted(kind, total, kept_v[lane, place], ways)
    return total


@numba.njit(cache=True)
def _connect(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    node: np.ndarray, segment: np.ndarray, extended: np.ndarray, extends: np.ndarray,
    cleared: np.ndarray, clears: np.ndarray, slotted: np.ndarray, slot_kind: np.ndarray,
    slot_source: np.ndarray, slot_input: np.ndarray, linked: np.ndarray, link_before: np.ndarray,
    link_last: np.ndarray, link_from: np.ndarray, link_root: np.ndarray, laned: np.ndarray,
    lane_kind: np.ndarray, lane_slot: np.ndarray, lane_before: np.ndarray, triggered: np.ndarray,
    triggers: np.ndarray, last: np.ndarray, link: np.ndarray, read: np.ndarray,
    read_kind: np.ndarray, read_slot: np.ndarray, read_lane: np.ndarray,
    width: int, dual: bool,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    nodes, many, links = segment.size, node.size - 1, link_before.size
    plain = slot_kind.size == 0 and not dual  # spares a call with many arguments
    most = _most_of_any(run, position, event, move_letter, node, extended, extends, width)
    room = 2 * most + 2
    counts = np.zeros((nodes, room), np.uint64)
    floats = np.zeros((nodes, room if dual else 0), np.float64)
    values = np.zeros((slot_kind.size, room), np.float64)
    term = np.zeros(slot_kind.size, np.float64)
    started = np.zeros((many, room), np.int64)
    head, tail = np.zeros(many, np.int64), np.zeros(many, np.int64)  # active STARTs
    number = np.zeros(many, np.int64)  # of the START at place 0; STARTs are counted on
    # The snapshot of each link at each START of its last segment: its first row's START, how many
    # rows it has, and where they are. Rows are written one after the other and expire so.
    row_start = np.zeros((links, room), np.int64)
    row_count = np.zeros((links, room), np.int64)
    row_place = np.zeros((links, room), np.int64)
    lanes = 0
    for j in range(links):
        lanes = max(lanes, laned[j + 1] - laned[j])
    kept, kept_f = np.zeros(1024, np.uint64), np.zeros(1024 if dual else 0)
    kept_v = np.zeros((lanes, 1024))
    zero = run[0] - run[0]  # a plain 0 has a type of its own, for which all would be compiled too
    kept_from = kept_to = zero  # places of the first and behind the last row that is kept
    times, clear = np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_)
    touched, order = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64)
    begun = np.zeros(many, np.int64)
    stamp = np.full(last.size, -1, np.int64)
    rows = 0
    for r in range(run.size - 1):
        for i in range(many):
            head[i] = tail[i] = number[i] = 0
        kept_from = kept_to = zero
        for g in range(run[r], run[r + 1]):
            now = position[g]
            opening = now - width
            # What the group does: which nodes are extended how often, and which are cleared.
            touches = 0
            beginnings = 0
            for e in range(event[g], event[g + 1]):
                for k in range(extended[move_letter[e]], extended[move_letter[e] + 1]):
                    i = extends[k]
                    if not touched[i]:
                        touched[i] = True
                        order[touches] = i
                        touches += 1
                        if i == node[segment[i]]:
                            begun[beginnings] = segment[i]
                            beginnings += 1
                    times[i] += 1
                    if term.size > 0:
                        _gather(
                            e, i, slotted, slot_kind, slot_source, slot_input, inputs,
                            times[i] == 1, term,
                        )  # fmt: skip
            stay = stay_letter[g]
            for k in range(cleared[stay], cleared[stay + 1]):
                i = clears[k]
                clear[i] = True
                if not touched[i]:
                    touched[i] = True
                    order[touches] = i
                    touches += 1
            # CNETs: snapshots of what precedes them, before the group changes it.
            kept_before = kept_to
            for b in range(beginnings):
                own = begun[b]
                _expire(own, started, head, tail, opening)
                if tail[own] == room:
                    _make_room(
                        head[own], room, own, node, slotted, linked, counts, floats, values,
                        started, row_start, row_count, row_place, dual,
                    )  # fmt: skip
                    number[own] += head[own]
                    tail[own] -= head[own]
                    head[own] = 0
                for j in range(linked[own], linked[own + 1]):
                    root, source, before = link_root[j], link_from[j], link_before[j]
                    _expire(root, started, head, tail, opening)
                    _expire(source, started, head, tail, opening)
                    size = tail[root] - head[root]
                    if kept_to - kept_from + size > kept.size:
                        # Rows of STARTs that have left the window make room, if they are many.
                        oldest = kept_before
                        for other in range(links):
                            of = link_last[other]
                            _expire(of, started, head, tail, opening)
                            if head[of] < tail[of]:
                                oldest = min(oldest, row_place[other, head[of]])
                        _drop(kept, oldest - kept_from, kept_to - kept_from)
                        if dual:
                            _drop(kept_f, oldest - kept_from, kept_to - kept_from)
                        for i in range(lanes):
                            _drop(kept_v[i], oldest - kept_from, kept_to - kept_from)
                        kept_from = oldest
                        if 2 * (kept_to - kept_from + size) > kept.size:
                            kept = _grown_count(kept, 2 * (kept_to - kept_from + size))
                            if dual:
                                kept_f = _grown_float(kept_f, kept.size)
                            kept_v = _widened(kept_v, kept.size)
                    at = kept_to - kept_from
                    first_root = number[root] + head[root]
                    row_start[j, tail[own]] = first_root
                    row_count[j, tail[own]] = size
                    row_place[j, tail[own]] = kept_to
                    kept_to += size
                    if size == 0:
                        continue
                    _take(
                        at, size, first_root, kept_from, node[source + 1] - 1, before,
                        head[source], tail[source], laned[j], laned[j + 1], lane_kind, lane_slot,
                        lane_before, counts, floats, values, row_start, row_count, row_place,
                        kept, kept_f, kept_v, dual,
                    )  # fmt: skip
            # Later nodes before earlier ones, which read what was before the group.
            for i in range(1, touches):
                this = order[i]
                k = i
                while k > 0 and order[k - 1] < this:
                    order[k] = order[k - 1]
                    k -= 1
                order[k] = this
            for i in range(touches):
                this = order[i]
                own = segment[this]
                _expire(own, started, head, tail, opening)
                above = -1 if this == node[own] else this - 1
                h, t = head[own], tail[own]
                if plain and above >= 0 and times[this] > 0:
                    _add_counts(counts[this, h:t], counts[above, h:t], times[this], clear[this])
                elif above >= 0 or clear[this]:
                    _extend(
                        this, above, times[this], clear[this], h, t, dual, counts, floats, values,
                        slotted, slot_kind, slot_source, term,
                    )  # fmt: skip
            for b in range(beginnings):
                own = begun[b]
                t = tail[own]
                started[own, t] = now
                for this in range(node[own], node[own + 1]):
                    counts[this, t] = times[this] if this == node[own] else 0
                    if dual:
                        floats[this, t] = counts[this, t]
                    for slot in range(slotted[this], slotted[this + 1]):
                        values[slot, t] = _neutral(slot_kind[slot])
                        if this == node[own]:
                            values[slot, t] = term[slot]
                tail[own] += 1
            for i in range(touches):
                times[order[i]] = 0
                clear[order[i]] = touched[order[i]] = False
            for e in range(event[g], event[g + 1]):
                for k in range(triggered[move_letter[e]], triggered[move_letter[e] + 1]):
                    q = triggers[k]
                    if stamp[q] == g:
                        continue
                    stamp[q] = g
                    own, j = last[q], link[q]
                    root = link_root[j] if j >= 0 else own
                    _expire(own, started, head, tail, opening)
                    end = node[own + 1] - 1
                    total, approximate = np.uint64(0), 0.0
                    if j < 0:
                        h, t = head[own], tail[own]
                        total = _total(counts[end, h:t])
                        if dual:
                            approximate = _total_value(SUM, floats[end, h:t])
                    else:
                        _expire(root, started, head, tail, opening)
                        first_root = number[root] + head[root]
                        for s in range(head[own], tail[own]):
                            gone = first_root - row_start[j, s]
                            if gone < row_count[j, s]:
                                place = row_place[j, s] - kept_from + gone
                                total += counts[end, s] * kept[place]
                                if dual:
                                    approximate += floats[end, s] * kept_f[place]
                    if total == 0 and approximate == 0.0:
                        continue
                    if rows >= out_group.size:
                        return -1
                    out_group[rows] = g
                    out_boundary[rows] = 0
                    out_query[rows] = q
                    out_counts[rows] = total
                    if dual:
                        out_approximate[rows] = approximate
                    for v in range(read[q], read[q + 1]):
                        kind, slot = read_kind[v], read_slot[v]
                        if j < 0:
                            out_values[rows, v - read[q]] = _total_value(kind, values[slot, h:t])
                            continue
                        out_values[rows, v - read[q]] = _read(
                            kind, slot, read_lane[v], j, number[root] + head[root], kept_from,
                            end, head[own], tail[own], counts, floats, values, row_start,
                            row_count, row_place, kept, kept_f, kept_v, dual,
                        )  # fmt: skip
                    rows += 1
    return rows
