"""A-Seq: prefix counts for every active START, and a tree of them for several queries.

Dynamic prefix counting, start event marking and the recounting rule of Qi's thesis (chapter 3), and
its PreTree (section 4.1): a node of the tree stands for a prefix, and every START holds a counter
for each node. A path is A-Seq for one query. The counters of a node lie side by side, so that an
event adds one stretch of memory to another.

The events of one time act at once: a node takes its parent's count as it was before them, times
their number, and nodes are visited from the leaves to the root. An event that is negated after a
node sets it to zero first. The thesis purges a START altogether where the negation comes second;
that also loses matches whose second component has been seen, so here only its own counter goes.

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
)
from kernels.groups import Groups, ResultRows, Spans
from kernels.values import SUM, neutral


class PrefixTree(NamedTuple):
    """Counters of the queries of one START type, numbered so that parents come first.

    Tables come in pairs: pointers by letter, node or query, and the rows that they point to.
    A *slot* is a value carried along with a node's count.
    """

    parent: np.ndarray  # int64, by node; -1 for the nodes of STARTs
    extended: np.ndarray  # by move letter: rows of `extends`
    extends: np.ndarray  # nodes that an event extends
    cleared: np.ndarray  # by stay letter: rows of `clears`
    clears: np.ndarray  # nodes that negated events set to zero
    gated: np.ndarray  # by stay letter: rows of `gates`
    gates: np.ndarray  # gates that negated events close
    gate_count: np.ndarray  # int64: how many gates there are, one entry
    slotted: np.ndarray  # by node: its slots, which stand together
    slot_kind: np.ndarray  # int64, by slot: SUM, NUMBER, MIN or MAX
    slot_source: np.ndarray  # the parent's slot that it goes on with, or -1: the event's own input
    slot_input: np.ndarray
    triggered: np.ndarray  # by move letter: rows of `triggers`
    triggers: np.ndarray  # queries that an event triggers
    query: np.ndarray  # by query: the number that results bear
    final: np.ndarray  # by query: its node
    gate: np.ndarray  # by query: its gate, or -1
    read: np.ndarray  # by query: rows of `reads`
    reads: np.ndarray  # slots


def count_prefixes(
    groups: Groups,
    tree: PrefixTree,
    spans: Spans,
    dual: bool,
    out: ResultRows,
) -> int:
    """Fill `out` with the rows of all windows; returns how many, or -1 where `out` is too small.

    Per trigger a row is made at each group for each query that one of its events triggers; per
    slide at each multiple of it up to the run's limit. Only windows with a match give a row. The
    counters of a START do not depend on the window: those that the widest one holds are kept, and a
    query is read from the first one on that its own window holds.
    """
    return int(_count(*groups, *tree, *spans, spans.widest, *spans.marks[1:], dual, *out))


@numba.njit(cache=True)
def _with_start(parent: np.ndarray, extended: np.ndarray, extends: np.ndarray) -> np.ndarray:
    """By move letter: is the event a START?"""
    found = np.zeros(extended.size - 1, np.bool_)
    for letter in range(found.size):
        for k in range(extended[letter], extended[letter + 1]):
            found[letter] |= parent[extends[k]] < 0
    return found


@numba.njit(nogil=True, cache=True)
def _count(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    parent: np.ndarray, extended: np.ndarray, extends: np.ndarray, cleared: np.ndarray,
    clears: np.ndarray, gated: np.ndarray, gates: np.ndarray, gate_count: np.ndarray,
    slotted: np.ndarray, slot_kind: np.ndarray, slot_source: np.ndarray, slot_input: np.ndarray,
    triggered: np.ndarray, triggers: np.ndarray, query: np.ndarray, final: np.ndarray,
    gate: np.ndarray, read: np.ndarray, reads: np.ndarray,
    width: np.ndarray, slide: np.ndarray, widest: int, slides: np.ndarray, marked: np.ndarray,
    marks: np.ndarray, dual: bool,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    nodes, slots, many = parent.size, slot_kind.size, gate_count[0]
    plain = slots == 0 and not dual  # spares a call with many arguments
    starts = _with_start(parent, extended, extends)
    most = most_starts(run, position, event, move_letter, starts, widest)
    room = 2 * most + 2
    counts = np.zeros((nodes, room), np.uint64)
    floats = np.zeros((nodes, room if dual else 0), np.float64)
    values = np.zeros((slots, room), np.float64)
    started = np.zeros(room, np.int64)  # position of each START
    closed = np.zeros((many, room), np.int64)  # position of the last gate before it
    last_closed = np.zeros(many, np.int64)
    times, clear = np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_)
    touched = np.zeros(nodes, np.bool_)
    order = np.zeros(nodes, np.int64)
    term = np.zeros(slots, np.float64)
    stamp = np.full(final.size, -1, np.int64)
    asked = np.zeros(final.size, np.int64)
    due = np.zeros(slides.size, np.int64)  # by window and slide: the boundary that comes next
    per_trigger = slide.min() == 0
    zero = run[0] - run[0]  # a plain 0 has a type of its own, for which all would be compiled too
    rows = 0
    for r in range(run.size - 1):
        head = tail = zero  # the active STARTs
        for i in range(many):
            last_closed[i] = np.iinfo(np.int64).min
        first, last = run[r], run[r + 1]
        g = first
        while True:
            # Per slide, the boundaries before the next group come first; after the last group they
            # go on until nothing is active or the limit is reached.
            boundary = zero
            at_boundary = False
            if slides.size > 0 and head < tail:
                boundary = due.min()
                at_boundary = boundary <= (position[g] - 1 if g < last else limit[r])
            if at_boundary:
                now = boundary
                head = first_after(started, head, tail, now - widest)
                number = ask_at(boundary, due, slides, marked, marks, asked)
            elif g == last:
                break
            else:
                now = position[g]
                head = first_after(started, head, tail, now - widest)
                if head == tail:
                    for m in range(slides.size):
                        due[m] = boundary_from(now, slides[m])
                # What the group does: which nodes are extended how often, and which are cleared.
                touches = 0
                begins = False
                for e in range(event[g], event[g + 1]):
                    letter = move_letter[e]
                    begins |= starts[letter]
                    for k in range(extended[letter], extended[letter + 1]):
                        node = extends[k]
                        if not touched[node]:
                            touched[node] = True
                            order[touches] = node
                            touches += 1
                        times[node] += 1
                        if slots > 0:
                            gather(
                                e, node, slotted, slot_kind, slot_source, slot_input, inputs,
                                times[node] == 1, term,
                            )  # fmt: skip
                stay = stay_letter[g]
                for k in range(cleared[stay], cleared[stay + 1]):
                    node = clears[k]
                    clear[node] = True
                    if not touched[node]:
                        touched[node] = True
                        order[touches] = node
                        touches += 1
                if touches > 1:
                    sort_down(order, touches)  # children before parents, which read what was before
                if begins:
                    if tail == room:
                        move_down(counts, head, tail)
                        if dual:
                            move_down(floats, head, tail)
                        move_down(values, head, tail)
                        move_down(started.reshape((1, room)), head, tail)
                        move_down(closed, head, tail)
                        head, tail = zero, tail - head
                    started[tail] = now
                    for i in range(many):
                        closed[i, tail] = last_closed[i]
                    for node in range(nodes):
                        counts[node, tail] = 0
                        if dual:
                            floats[node, tail] = 0.0
                    for slot in range(slots):
                        values[slot, tail] = neutral(slot_kind[slot])
                for i in range(touches):
                    node = order[i]
                    above = parent[node]
                    n = times[node]
                    if plain and above >= 0 and n > 0:
                        add_counts(
                            counts[node, head:tail], counts[above, head:tail], n, clear[node]
                        )
                    elif above >= 0 or clear[node]:
                        extend(
                            node, above, n, clear[node], head, tail, dual, counts, floats, values,
                            slotted, slot_kind, slot_source, term,
                        )  # fmt: skip
                    if above < 0 and n > 0:
                        counts[node, tail] = n
                        if dual:
                            floats[node, tail] = n
                        for slot in range(slotted[node], slotted[node + 1]):
                            values[slot, tail] = term[slot]
                    times[node] = 0
                    clear[node] = touched[node] = False
                if begins:
                    tail += 1
                if many > 0:
                    for k in range(gated[stay], gated[stay + 1]):
                        last_closed[gates[k]] = now
                g += 1
                if not per_trigger:
                    continue
                number = ask_triggered(
                    event[g - 1], event[g], move_letter, triggered, triggers, slide, stamp, g,
                    asked,
                )  # fmt: skip
            for i in range(number):
                q = asked[i]
                opening = now - width[q]
                begin = head
                if width[q] < widest:
                    begin = first_held(started, head, tail, opening)
                end = tail
                if gate[q] >= 0:
                    end = first_after(closed[gate[q]], begin, tail, opening)
                node = final[q]
                total = total_count(counts[node, begin:end])
                approximate = 0.0
                if dual:
                    approximate = total_value(SUM, floats[node, begin:end])
                if total == 0 and approximate == 0.0:
                    continue
                if rows < out_group.size:
                    out_group[rows] = g - 1
                    out_boundary[rows] = boundary if at_boundary else 0
                    out_query[rows] = query[q]
                    out_counts[rows] = total
                    if dual:
                        out_approximate[rows] = approximate
                    for v in range(read[q], read[q + 1]):
                        slot = reads[v]
                        out_values[rows, v - read[q]] = total_value(
                            slot_kind[slot], values[slot, begin:end]
                        )
                rows += 1
            if rows > out_group.size:
                break
        if rows > out_group.size:
            return -1
    return rows
