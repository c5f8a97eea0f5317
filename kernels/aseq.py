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

from kernels.product import NUMBER, SUM, Groups, Rows, _combine, _neutral


class Tree(NamedTuple):
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


def count_prefixes(groups: Groups, tree: Tree, width: int, dual: bool, out: Rows) -> int:
    """Fill `out` with a row per trigger and query that has matches; returns how many, or -1.

    -1 means that `out` is too small.
    """
    return int(_count(*groups, *tree, width, dual, *out))


@numba.njit(cache=True)
def _most_starts(
    run: np.ndarray, position: np.ndarray, event: np.ndarray, move_letter: np.ndarray,
    starts: np.ndarray, width: int,
) -> int:  # fmt: skip
    """The largest number of groups with a START in one window."""
    most = 0
    for r in range(run.size - 1):
        head = run[r]
        active = 0
        for g in range(run[r], run[r + 1]):
            if not _any(starts, move_letter, event[g], event[g + 1]):
                continue
            active += 1
            while position[head] <= position[g] - width:
                active -= _any(starts, move_letter, event[head], event[head + 1])
                head += 1
            most = max(most, active)
    return most


@numba.njit(cache=True)
def _any(marked: np.ndarray, letter: np.ndarray, first: int, last: int) -> bool:
    for e in range(first, last):  # noqa: SIM110 (compiled)
        if marked[letter[e]]:
            return True
    return False


@numba.njit(cache=True)
def _with_start(parent: np.ndarray, extended: np.ndarray, extends: np.ndarray) -> np.ndarray:
    """By move letter: is the event a START?"""
    found = np.zeros(extended.size - 1, np.bool_)
    for letter in range(found.size):
        for k in range(extended[letter], extended[letter + 1]):
            found[letter] |= parent[extends[k]] < 0
    return found


# Stretches of counters are passed as views that begin at 0: with a first and a last number instead,
# the compiler would guard against negative ones and add one counter at a time.


@numba.njit(cache=True)
def _add_counts(target: np.ndarray, source: np.ndarray, times: int, clear: bool) -> None:
    if clear:
        for s in range(target.size):
            target[s] = source[s] * np.uint64(times)
    elif times == 1:
        for s in range(target.size):
            target[s] += source[s]
    else:
        for s in range(target.size):
            target[s] += source[s] * np.uint64(times)


@numba.njit(cache=True)
def _add_floats(target: np.ndarray, source: np.ndarray, times: float, clear: bool) -> None:
    if clear:
        for s in range(target.size):
            target[s] = source[s] * times
    else:
        for s in range(target.size):
            target[s] += source[s] * times


@numba.njit(cache=True)
def _join_values(
    kind: int, target: np.ndarray, source: np.ndarray, times: int, clear: bool
) -> None:
    """A slot that goes on with its parent's."""
    if kind <= NUMBER:
        _add_floats(target, source, float(times), clear)
    else:
        for s in range(target.size):
            kept = _neutral(kind) if clear else target[s]
            target[s] = _combine(kind, kept, source[s])


@numba.njit(cache=True)
def _tag_values(
    kind: int, target: np.ndarray, counts: np.ndarray, floats: np.ndarray, term: float,
    clear: bool, dual: bool,
) -> None:  # fmt: skip
    """A slot of the events' own inputs, once for each way that leads to them."""
    for s in range(target.size):
        kept = _neutral(kind) if clear else target[s]
        ways = floats[s] if dual else float(counts[s])
        if ways > 0.0:
            kept = _combine(kind, kept, term * ways if kind <= NUMBER else term)
        target[s] = kept


@numba.njit(cache=True)
def _fill(target: np.ndarray, value: float) -> None:
    for s in range(target.size):
        target[s] = value


@numba.njit(cache=True)
def _clear(target: np.ndarray) -> None:
    for s in range(target.size):
        target[s] = 0


@numba.njit(cache=True)
def _total(counts: np.ndarray) -> np.uint64:
    total = np.uint64(0)
    for s in range(counts.size):
        total += counts[s]
    return total


@numba.njit(cache=True)
def _total_value(kind: int, values: np.ndarray) -> float:
    total = _neutral(kind)
    for s in range(values.size):
        total = _combine(kind, total, values[s])
    return total


@numba.njit(cache=True)
def _extend(
    node: int, above: int, times: int, clear: bool, head: int, tail: int, dual: bool,
    counts: np.ndarray, floats: np.ndarray, values: np.ndarray, slotted: np.ndarray,
    slot_kind: np.ndarray, slot_source: np.ndarray, term: np.ndarray,
) -> None:  # fmt: skip
    """What a group does to a node's counters of the STARTs before it.

    `above` is the node that it goes on with, -1 if it is a START's own; `term` are the group's
    inputs by slot, combined.
    """
    stays = above < 0 or times == 0
    for slot in range(slotted[node], slotted[node + 1]):
        kind, source = slot_kind[slot], slot_source[slot]
        mine = values[slot, head:tail]
        if stays and clear:
            _fill(mine, _neutral(kind))
        elif not stays and source >= 0:
            _join_values(kind, mine, values[source, head:tail], times, clear)
        elif not stays:
            ways = floats[above, head:tail]
            _tag_values(kind, mine, counts[above, head:tail], ways, term[slot], clear, dual)
    if stays and clear:
        _clear(counts[node, head:tail])
        if dual:
            _fill(floats[node, head:tail], 0.0)
    elif not stays:
        _add_counts(counts[node, head:tail], counts[above, head:tail], times, clear)
        if dual:
            _add_floats(floats[node, head:tail], floats[above, head:tail], float(times), clear)


@numba.njit(cache=True)
def _gather(
    e: int, node: int, slotted: np.ndarray, slot_kind: np.ndarray, slot_source: np.ndarray,
    slot_input: np.ndarray, inputs: np.ndarray, is_first: bool, term: np.ndarray,
) -> None:  # fmt: skip
    """Combine an event's inputs with those of its group's other events that extend a node."""
    for slot in range(slotted[node], slotted[node + 1]):
        if is_first:
            term[slot] = _neutral(slot_kind[slot])
        x = inputs[slot_input[slot], e]
        if slot_source[slot] < 0 and not np.isnan(x):
            x = 1.0 if slot_kind[slot] == NUMBER else x
            term[slot] = _combine(slot_kind[slot], term[slot], x)


@numba.njit(cache=True)
def _move_down(table: np.ndarray, head: int, tail: int) -> None:
    for row in range(table.shape[0]):
        for s in range(head, tail):
            table[row, s - head] = table[row, s]


@numba.njit(cache=True)
def _count(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    parent: np.ndarray, extended: np.ndarray, extends: np.ndarray, cleared: np.ndarray,
    clears: np.ndarray, gated: np.ndarray, gates: np.ndarray, gate_count: np.ndarray,
    slotted: np.ndarray, slot_kind: np.ndarray, slot_source: np.ndarray, slot_input: np.ndarray,
    triggered: np.ndarray, triggers: np.ndarray, query: np.ndarray, final: np.ndarray,
    gate: np.ndarray, read: np.ndarray, reads: np.ndarray,
    width: int, dual: bool,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    nodes, slots = parent.size, slot_kind.size
    plain = slots == 0 and not dual  # spares a call with many arguments
    starts = _with_start(parent, extended, extends)
    room = 2 * _most_starts(run, position, event, move_letter, starts, width) + 2
    counts = np.zeros((nodes, room), np.uint64)
    floats = np.zeros((nodes, room if dual else 0), np.float64)
    values = np.zeros((slots, room), np.float64)
    started = np.zeros((1, room), np.int64)  # position of each START
    closed = np.zeros((gate_count[0], room), np.int64)  # position of the last gate before it
    last_closed = np.zeros(gate_count[0], np.int64)
    times, clear = np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_)
    touched = np.zeros(nodes, np.bool_)
    order = np.zeros(nodes, np.int64)
    term = np.zeros(slots, np.float64)
    stamp = np.full(final.size, -1, np.int64)
    zero = run[0] - run[0]  # a plain 0 has a type of its own, for which all would be compiled too
    rows = 0
    for r in range(run.size - 1):
        head = tail = zero  # the active STARTs
        for i in range(gate_count[0]):
            last_closed[i] = np.iinfo(np.int64).min
        for g in range(run[r], run[r + 1]):
            now = position[g]
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
                        _gather(
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
            if touches > 0:
                while head < tail and started[0, head] <= now - width:
                    head += 1
                # Children before parents, which read what was before the group.
                for i in range(1, touches):
                    node = order[i]
                    k = i
                    while k > 0 and order[k - 1] < node:
                        order[k] = order[k - 1]
                        k -= 1
                    order[k] = node
                if begins and tail == room:
                    _move_down(counts, head, tail)
                    if dual:
                        _move_down(floats, head, tail)
                    _move_down(values, head, tail)
                    _move_down(started, head, tail)
                    _move_down(closed, head, tail)
                    head, tail = zero, tail - head
                if begins:
                    started[0, tail] = now
                    for i in range(gate_count[0]):
                        closed[i, tail] = last_closed[i]
                    for node in range(nodes):
                        counts[node, tail] = 0
                        if dual:
                            floats[node, tail] = 0.0
                    for slot in range(slots):
                        values[slot, tail] = _neutral(slot_kind[slot])
            for i in range(touches):
                node = order[i]
                above = parent[node]
                n = times[node]
                if plain and above >= 0 and n > 0:
                    _add_counts(counts[node, head:tail], counts[above, head:tail], n, clear[node])
                elif above >= 0 or clear[node]:
                    _extend(
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
            for k in range(gated[stay], gated[stay + 1]):
                last_closed[gates[k]] = now
            for e in range(event[g], event[g + 1]):
                for t in range(triggered[move_letter[e]], triggered[move_letter[e] + 1]):
                    q = triggers[t]
                    if stamp[q] == g:
                        continue
                    stamp[q] = g
                    end = tail
                    if gate[q] >= 0:
                        # A closed gate before a START is forgotten when it leaves the window.
                        end = head
                        while end < tail and closed[gate[q], end] <= now - width:
                            end += 1
                    node = final[q]
                    total = _total(counts[node, head:end])
                    if dual:
                        approximate = _total_value(SUM, floats[node, head:end])
                        if approximate == 0.0:
                            continue
                        if rows < out_group.size:
                            out_approximate[rows] = approximate
                    elif total == 0:
                        continue
                    if rows >= out_group.size:
                        return -1
                    out_group[rows] = g
                    out_boundary[rows] = 0
                    out_query[rows] = query[q]
                    out_counts[rows] = total
                    for i in range(read[q], read[q + 1]):
                        slot = reads[i]
                        out_values[rows, i - read[q]] = _total_value(
                            slot_kind[slot], values[slot, head:end]
                        )
                    rows += 1
    return rows
