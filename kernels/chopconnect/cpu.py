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

from kernels.counters import (
    add_counts,
    ask_at,
    ask_triggered,
    boundary_from,
    extend,
    first_after,
    first_held,
    gather,
    most_starts,
    move_down,
    sort_down,
    total_count,
    total_value,
    with_room,
)
from kernels.groups import Groups, ResultRows, Spans
from kernels.snapshots import connected_value, drop_rows, take, widened
from kernels.values import SUM, neutral


class SegmentTables(NamedTuple):
    """Segments of queries, the nodes of each one after the other, and how they are connected.

    A *link* stands for the segments of a query up to one, and is attached to that one's STARTs.
    """

    node: np.ndarray  # int64 pointers: the nodes of each segment
    segment: np.ndarray  # by node
    extended: np.ndarray  # by move letter: rows of `extends`
    extends: np.ndarray  # nodes that an event extends
    cleared: np.ndarray  # by stay letter: rows of `clears`
    clears: np.ndarray  # nodes that negated events set to zero
    gated: np.ndarray  # by stay letter: rows of `gates`
    gates: np.ndarray  # gates that negated events close
    barred: np.ndarray  # by segment: the gates before its STARTs, which stand together
    slotted: np.ndarray  # by node: its slots, values carried with its count, which stand together
    slot_kind: np.ndarray  # int64, by slot: SUM, NUMBER, MIN or MAX
    slot_source: np.ndarray  # the slot before that it goes on with, or -1: the event's own input
    slot_input: np.ndarray
    linked: np.ndarray  # by segment: its links, which stand together
    link_before: np.ndarray  # by link: the link of the segments before its last, -1 if that is one
    link_last: np.ndarray  # by link: its last segment
    link_from: np.ndarray  # by link: the segment before its last
    link_root: np.ndarray  # by link: its first segment
    link_gate: np.ndarray  # by link: the gate before its first segment, or -1
    laned: np.ndarray  # by link: its lanes, values carried with its snapshots' counts
    lane_kind: np.ndarray
    lane_slot: np.ndarray  # by lane: the slot of the segment before that it is of, or -1
    lane_before: np.ndarray  # by lane: else which of the lanes of the link before it goes on with
    triggered: np.ndarray  # by move letter: rows of `triggers`
    triggers: np.ndarray  # queries that an event triggers
    last: np.ndarray  # by query: its last segment
    link: np.ndarray  # by query: its link, or -1 where it is one segment
    gate: np.ndarray  # by query: the gate before its first segment, or -1
    read: np.ndarray  # by query: its values
    read_kind: np.ndarray
    read_slot: np.ndarray  # by value: the last segment's slot, or -1
    read_lane: np.ndarray  # by value: else which of its link's lanes


def connect(
    groups: Groups,
    segments: SegmentTables,
    spans: Spans,
    dual: bool,
    out: ResultRows,
) -> int:
    """Fill `out` with the rows of all windows; returns how many, or -1 where `out` is too small.

    As `kernels.prefixes.cpu.count_prefixes`: snapshots have rows for the widest window, and a
    smaller one is a look at a later row.
    """
    return int(_connect(*groups, *segments, *spans, spans.widest, *spans.marks[1:], dual, *out))


@numba.njit(nogil=True, cache=True)
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
        most = max(most, most_starts(run, position, event, move_letter, starts, width))
    return most


@numba.njit(cache=True, inline="always")
def _expire(
    segment: int, started: np.ndarray, head: np.ndarray, tail: np.ndarray, opening: int
) -> None:
    while head[segment] < tail[segment] and started[segment, head[segment]] <= opening:
        head[segment] += 1


@numba.njit(cache=True)
def _any_active(started: np.ndarray, head: np.ndarray, tail: np.ndarray, opening: int) -> bool:
    """Is there a START in the window? Those that have left it are forgotten."""
    found = False
    for i in range(head.size):
        _expire(i, started, head, tail, opening)
        found |= head[i] < tail[i]
    return found


@numba.njit(cache=True)
def _make_room(
    head: int, tail: int, own: int, node: np.ndarray, slotted: np.ndarray, linked: np.ndarray,
    barred: np.ndarray, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    started: np.ndarray, closed: np.ndarray, row_start: np.ndarray, row_count: np.ndarray,
    row_place: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    """Move all that belongs to a segment's active STARTs to the front."""
    move_down(counts[node[own] : node[own + 1]], head, tail)
    if dual:
        move_down(floats[node[own] : node[own + 1]], head, tail)
    move_down(values[slotted[node[own]] : slotted[node[own + 1]]], head, tail)
    move_down(started[own : own + 1], head, tail)
    move_down(closed[barred[own] : barred[own + 1]], head, tail)
    for table in (row_start, row_count, row_place):
        move_down(table[linked[own] : linked[own + 1]], head, tail)


@numba.njit(nogil=True, cache=True)
def _connect(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    node: np.ndarray, segment: np.ndarray, extended: np.ndarray, extends: np.ndarray,
    cleared: np.ndarray, clears: np.ndarray, gated: np.ndarray, gates: np.ndarray,
    barred: np.ndarray, slotted: np.ndarray, slot_kind: np.ndarray,
    slot_source: np.ndarray, slot_input: np.ndarray, linked: np.ndarray, link_before: np.ndarray,
    link_last: np.ndarray, link_from: np.ndarray, link_root: np.ndarray, link_gate: np.ndarray,
    laned: np.ndarray, lane_kind: np.ndarray, lane_slot: np.ndarray, lane_before: np.ndarray,
    triggered: np.ndarray, triggers: np.ndarray, last: np.ndarray, link: np.ndarray,
    gate: np.ndarray, read: np.ndarray, read_kind: np.ndarray, read_slot: np.ndarray,
    read_lane: np.ndarray, width: np.ndarray, slide: np.ndarray, widest: int, slides: np.ndarray,
    marked: np.ndarray, marks: np.ndarray, dual: bool,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    nodes, many, links, bars = segment.size, node.size - 1, link_before.size, barred[-1]
    plain = slot_kind.size == 0 and not dual  # spares a call with many arguments
    most = _most_of_any(run, position, event, move_letter, node, extended, extends, widest)
    room = 2 * most + 2
    counts = np.zeros((nodes, room), np.uint64)
    floats = np.zeros((nodes, room if dual else 0), np.float64)
    values = np.zeros((slot_kind.size, room), np.float64)
    term = np.zeros(slot_kind.size, np.float64)
    started = np.zeros((many, room), np.int64)
    closed = np.zeros((bars, room), np.int64)  # by gate: its last closing before each START
    last_closed = np.zeros(bars, np.int64)
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
    size = 1024
    kept, kept_f = np.zeros(size, np.uint64), np.zeros(size if dual else 0)
    kept_v = np.zeros((lanes, size))
    zero = run[0] - run[0]  # a plain 0 has a type of its own, for which all would be compiled too
    kept_from = kept_to = zero  # places of the first and behind the last row that is kept
    times, clear = np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_)
    touched, order = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64)
    begun = np.zeros(many, np.int64)
    stamp = np.full(last.size, -1, np.int64)
    asked = np.zeros(last.size, np.int64)
    due = np.zeros(slides.size, np.int64)  # by window and slide: the boundary that comes next
    per_trigger = slide.min() == 0
    rows = 0
    for r in range(run.size - 1):
        for i in range(many):
            head[i] = tail[i] = number[i] = 0
        for i in range(bars):
            last_closed[i] = np.iinfo(np.int64).min
        kept_from = kept_to = zero
        due[:] = 0
        first_group, last_group = run[r], run[r + 1]
        g = first_group
        while True:
            # Per slide, the boundaries before the next group come first; after the last group they
            # go on until nothing is active or the limit is reached.
            at_boundary = False
            boundary = due.min() if slides.size > 0 else zero
            if slides.size > 0 and boundary <= (position[g] - 1 if g < last_group else limit[r]):
                at_boundary = _any_active(started, head, tail, boundary - widest)
            if at_boundary:
                now = boundary
                opening = now - widest
                asking = ask_at(boundary, due, slides, marked, marks, asked)
            elif g == last_group:
                break
            else:
                now = position[g]
                opening = now - widest
                if slides.size > 0 and not _any_active(started, head, tail, opening):
                    for m in range(slides.size):
                        due[m] = boundary_from(now, slides[m])
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
                            gather(
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
                            head[own], room, own, node, slotted, linked, barred, counts, floats,
                            values, started, closed, row_start, row_count, row_place, dual,
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
                            drop_rows(kept, oldest - kept_from, kept_to - kept_from)
                            if dual:
                                drop_rows(kept_f, oldest - kept_from, kept_to - kept_from)
                            for i in range(lanes):
                                drop_rows(kept_v[i], oldest - kept_from, kept_to - kept_from)
                            kept_from = oldest
                            if 2 * (kept_to - kept_from + size) > kept.size:
                                kept = with_room(kept, 2 * (kept_to - kept_from + size))
                                if dual:
                                    kept_f = with_room(kept_f, kept.size)
                                kept_v = widened(kept_v, kept.size)
                        at = kept_to - kept_from
                        first_root = number[root] + head[root]
                        row_start[j, tail[own]] = first_root
                        row_count[j, tail[own]] = size
                        row_place[j, tail[own]] = kept_to
                        kept_to += size
                        if size == 0:
                            continue
                        take(
                            at, size, first_root, kept_from, node[source + 1] - 1, before,
                            head[source], tail[source], laned[j], laned[j + 1], lane_kind,
                            lane_slot, lane_before, counts, floats, values, link_gate[j], closed,
                            row_start, row_count, row_place, kept, kept_f, kept_v, dual,
                        )  # fmt: skip
                if touches > 1:
                    sort_down(order, touches)  # later nodes first: others read what was before
                for i in range(touches):
                    this = order[i]
                    own = segment[this]
                    _expire(own, started, head, tail, opening)
                    above = -1 if this == node[own] else this - 1
                    h, t = head[own], tail[own]
                    if plain and above >= 0 and times[this] > 0:
                        add_counts(counts[this, h:t], counts[above, h:t], times[this], clear[this])
                    elif above >= 0 or clear[this]:
                        extend(
                            this, above, times[this], clear[this], h, t, dual, counts, floats,
                            values, slotted, slot_kind, slot_source, term,
                        )  # fmt: skip
                for b in range(beginnings):
                    own = begun[b]
                    t = tail[own]
                    started[own, t] = now
                    for i in range(barred[own], barred[own + 1]):
                        closed[i, t] = last_closed[i]
                    for this in range(node[own], node[own + 1]):
                        counts[this, t] = times[this] if this == node[own] else 0
                        if dual:
                            floats[this, t] = counts[this, t]
                        for slot in range(slotted[this], slotted[this + 1]):
                            values[slot, t] = neutral(slot_kind[slot])
                            if this == node[own]:
                                values[slot, t] = term[slot]
                    tail[own] += 1
                for i in range(touches):
                    times[order[i]] = 0
                    clear[order[i]] = touched[order[i]] = False
                if bars > 0:
                    for k in range(gated[stay], gated[stay + 1]):
                        last_closed[gates[k]] = now
                g += 1
                if not per_trigger:
                    continue
                asking = ask_triggered(
                    event[g - 1], event[g], move_letter, triggered, triggers, slide, stamp, g,
                    asked,
                )  # fmt: skip
            for a in range(asking):
                q = asked[a]
                own, j = last[q], link[q]
                root = link_root[j] if j >= 0 else own
                _expire(own, started, head, tail, opening)
                if j >= 0:
                    _expire(root, started, head, tail, opening)
                end, h, t = node[own + 1] - 1, head[own], tail[own]
                begin = head[root]
                if width[q] < widest:
                    begin = first_held(started[root], begin, tail[root], now - width[q])
                    h = first_held(started[own], h, t, now - width[q])
                if gate[q] >= 0:
                    behind = first_after(closed[gate[q]], begin, tail[root], now - width[q])
                    if j < 0:
                        t = behind
                    elif behind == begin:
                        continue
                first_root = number[root] + begin
                total, approximate = np.uint64(0), 0.0
                if j < 0:
                    total = total_count(counts[end, h:t])
                    if dual:
                        approximate = total_value(SUM, floats[end, h:t])
                else:
                    for s in range(h, t):
                        gone = first_root - row_start[j, s]
                        if gone < row_count[j, s]:
                            place = row_place[j, s] - kept_from + gone
                            total += counts[end, s] * kept[place]
                            if dual:
                                approximate += floats[end, s] * kept_f[place]
                if total == 0 and approximate == 0.0:
                    continue
                rows += 1
                if rows > out_group.size:
                    break
                out_group[rows - 1] = g - 1
                out_boundary[rows - 1] = boundary if at_boundary else 0
                out_query[rows - 1] = q
                out_counts[rows - 1] = total
                if dual:
                    out_approximate[rows - 1] = approximate
                for v in range(read[q], read[q + 1]):
                    kind, slot = read_kind[v], read_slot[v]
                    if j < 0:
                        x = total_value(kind, values[slot, h:t])
                    else:
                        x = connected_value(
                            kind, slot, read_lane[v], j, first_root, kept_from, end, h, t,
                            counts, floats, values, row_start, row_count, row_place, kept,
                            kept_f, kept_v, dual,
                        )  # fmt: skip
                    out_values[rows - 1, v - read[q]] = x
            if rows > out_group.size:
                break
        if rows > out_group.size:
            return -1
    return rows
