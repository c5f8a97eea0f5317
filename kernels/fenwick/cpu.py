"""Prefix counts of sequences whose neighbours are compared: Fenwick trees over ranks, per START.

As in `kernels.prefixes.cpu`, every START has a counter for each node of a tree of prefixes. What
an event adds to a node are the partial matches before it *whose last event compares with it*: those
are the first so many in the order of their last events' keys, which a Fenwick tree over ranks sums
up in a logarithmic number of rows (GRETA keeps partial aggregates in order for the same reason). A
row has one counter for each START.

STARTs are taken in blocks. A block's events are those from its first START until the window of its
last one ends; keys are ranked among these, so that ranks are small and a block's rows stay in the
processor's cache however long the stream is. What a window holds is the sum over all blocks.

The events of one time act at once: nodes are visited from the leaves to the root, so that each
reads its parent as it was before. An event that is negated after a node empties it first.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.counters import (
    add_row,
    ask_at,
    ask_triggered,
    boundary_from,
    combine_row,
    copy_row,
    fill,
    first_after,
    first_held,
    grown,
    total_count,
    total_value,
)
from kernels.groups import Groups, ResultRows, Spans
from kernels.prefixes.cpu import PrefixTree
from kernels.values import SUM, combine, neutral, term


class Comparisons(NamedTuple):
    """How the event of each node compares with that of its parent; the tree has one root, node 0.

    It holds where the parent's key is smaller, or as small where not `strict`. Partial matches are
    stored by their last event's key in *tables*, for the nodes that ask for them in that order.
    """

    keys: np.ndarray  # float64 (key, event); NaN compares with nothing
    left: np.ndarray  # int64, by node: the key of the parent's event, or -1: any will do
    right: np.ndarray  # int64, by node: the key of its own event
    strict: np.ndarray  # bool, by node
    table: np.ndarray  # int64, by node: what it reads; -1 where it reads STARTs or all of a node
    stored: np.ndarray  # row pointers by node
    stores: np.ndarray  # tables that its partial matches are stored in
    table_key: np.ndarray  # int64, by table: the key that it is ordered by
    is_total: np.ndarray  # bool, by node: is it read without regard to keys?


def count_compared(
    groups: Groups,
    tree: PrefixTree,
    comparisons: Comparisons,
    spans: Spans,
    block: int,
    dual: bool,
    out: ResultRows,
) -> int:
    """As `kernels.prefixes.cpu.count_prefixes`, without gates; `block` STARTs are taken at once."""
    made = _count(
        *groups, *tree[:5], *tree[8:16], *tree[17:], *comparisons, *spans, spans.widest,
        *spans.marks[1:], block, dual, *out,
    )  # fmt: skip
    return int(made)


@numba.njit(nogil=True, cache=True)
def _list_evaluations(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, event: np.ndarray,
    move_letter: np.ndarray, extended: np.ndarray, extends: np.ndarray, triggered: np.ndarray,
    triggers: np.ndarray, slide: np.ndarray, widest: int, slides: np.ndarray, marked: np.ndarray,
    marks: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
) -> tuple[int, int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The rows of all windows with a START, and the STARTs: event, group, run, and first row."""
    stamp = np.full(slide.size, -1, np.int64)
    asked = np.zeros(slide.size, np.int64)
    due = np.zeros(slides.size, np.int64)
    begin_event, begin_group = np.zeros(64, np.int64), np.zeros(64, np.int64)
    begin_run, begin_row = np.zeros(64, np.int64), np.zeros(64, np.int64)
    started = np.zeros(64, np.int64)
    zero = run[0] - run[0]
    per_trigger = slide.min() == 0
    rows = 0
    tail = zero
    for r in range(run.size - 1):
        head = tail
        first, last = run[r], run[r + 1]
        g = first
        while True:
            boundary = zero
            at_boundary = False
            if slides.size > 0 and head < tail:
                boundary = due.min()
                at_boundary = boundary <= (position[g] - 1 if g < last else limit[r])
            if at_boundary:
                head = first_after(started, head, tail, boundary - widest)
                number = ask_at(boundary, due, slides, marked, marks, asked)
            elif g == last:
                break
            else:
                now = position[g]
                head = first_after(started, head, tail, now - widest)
                if head == tail:
                    for m in range(slides.size):
                        due[m] = boundary_from(now, slides[m])
                for e in range(event[g], event[g + 1]):
                    letter = move_letter[e]
                    # The root is the first of the nodes that an event extends.
                    if extended[letter] < extended[letter + 1] and extends[extended[letter]] == 0:
                        if tail == started.size:
                            started = grown(started, tail + 1)
                            begin_event, begin_group = grown(begin_event, 0), grown(begin_group, 0)
                            begin_run, begin_row = grown(begin_run, 0), grown(begin_row, 0)
                        started[tail] = now
                        begin_event[tail], begin_group[tail] = e, g
                        begin_run[tail], begin_row[tail] = r, rows
                        tail += 1
                g += 1
                if not per_trigger:
                    continue
                number = ask_triggered(
                    event[g - 1], event[g], move_letter, triggered, triggers, slide, stamp, g,
                    asked,
                )  # fmt: skip
            if head == tail:
                continue
            for i in range(number):
                if rows < out_group.size:
                    out_group[rows] = g - 1
                    out_boundary[rows] = boundary if at_boundary else 0
                    out_query[rows] = asked[i]
                rows += 1
    return rows, tail, begin_event, begin_group, begin_run, begin_row


@numba.njit(nogil=True, cache=True)
def _rank(keys: np.ndarray, key: float, strict: bool) -> int:
    """How many of ascending keys are below a key, or also as large where not `strict`."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key or (not strict and keys[middle] == key):
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(nogil=True, cache=True)
def _compare(ways: np.ndarray, keys: np.ndarray, key: float, strict: bool) -> None:
    """One way from each START whose key compares."""
    if strict:
        for s in range(ways.size):
            ways[s] = np.uint64(keys[s] < key)
    else:
        for s in range(ways.size):
            ways[s] = np.uint64(keys[s] <= key)


@numba.njit(nogil=True, cache=True)
def _sum_row(
    row: int, head: int, kinds: np.ndarray, planes: np.ndarray, filled: np.ndarray,
    counts: np.ndarray, floats: np.ndarray, ways: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """Add a row to what an event continues; `planes` are its numbers beside counts, by kind."""
    end = filled[row]
    if end <= head:
        return
    add_row(ways[head:end], counts[row, head:end])
    for i in range(planes.size):
        if planes[i] >= 0:
            combine_row(kinds[i], sums[i, head:end], floats[planes[i], row, head:end])


@numba.njit(nogil=True, cache=True)
def _add_row(
    row: int, head: int, tail: int, kinds: np.ndarray, filled: np.ndarray, counts: np.ndarray,
    floats: np.ndarray, ways: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """Add an event's ways to a row; its counters from `filled` on hold nothing yet."""
    end = max(head, filled[row])
    add_row(counts[row, head:end], ways[head:end])
    copy_row(counts[row, end:tail], ways[end:tail])
    for i in range(kinds.size):
        combine_row(kinds[i], floats[i, row, head:end], sums[i, head:end])
        copy_row(floats[i, row, end:tail], sums[i, end:tail])
    filled[row] = tail


@numba.njit(nogil=True, cache=True)
def _sort_keys(
    first: int, last: int, event: np.ndarray, move_letter: np.ndarray, extended: np.ndarray,
    extends: np.ndarray, stored: np.ndarray, stores: np.ndarray, table_key: np.ndarray,
    keys: np.ndarray, table: np.ndarray, ordered: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The keys of each table's events among these groups, in order; `table` says where they are."""
    tables = table_key.size
    for t in range(tables + 1):
        table[t] = 0
    for filling in (False, True):
        if filling:
            for t in range(tables):
                table[t + 1] += table[t]
            if table[tables] > ordered.size:
                ordered = grown(ordered, table[tables])
            for t in range(tables, 0, -1):  # where the next key goes: shifted by one
                table[t] = table[t - 1]
        for e in range(event[first], event[last]):
            letter = move_letter[e]
            for k in range(extended[letter], extended[letter + 1]):
                for i in range(stored[extends[k]], stored[extends[k] + 1]):
                    t = stores[i]
                    key = keys[table_key[t], e]
                    if not np.isnan(key):
                        if filling:
                            ordered[table[t + 1]] = key
                        table[t + 1] += 1
    for t in range(tables):
        ordered[table[t] : table[t + 1]].sort()
    return ordered


@numba.njit(nogil=True, cache=True)
def _count(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    parent: np.ndarray, extended: np.ndarray, extends: np.ndarray, cleared: np.ndarray,
    clears: np.ndarray, slotted: np.ndarray, slot_kind: np.ndarray, slot_source: np.ndarray,
    slot_input: np.ndarray, triggered: np.ndarray, triggers: np.ndarray, query: np.ndarray,
    final: np.ndarray, read: np.ndarray, reads: np.ndarray,
    keys: np.ndarray, left: np.ndarray, right: np.ndarray, strict: np.ndarray, table: np.ndarray,
    stored: np.ndarray, stores: np.ndarray, table_key: np.ndarray, is_total: np.ndarray,
    width: np.ndarray, slide: np.ndarray, widest: int, slides: np.ndarray, marked: np.ndarray,
    marks: np.ndarray, block: int, dual: bool,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    rows, begun, begin_event, begin_group, begin_run, begin_row = _list_evaluations(
        run, limit, position, event, move_letter, extended, extends, triggered, triggers, slide,
        widest, slides, marked, marks, out_group, out_boundary, out_query,
    )  # fmt: skip
    if rows > out_group.size:
        return -1
    for k in range(rows):
        q = out_query[k]
        out_counts[k] = 0
        if dual:
            out_approximate[k] = 0.0
        for v in range(read[q], read[q + 1]):
            out_values[k, v - read[q]] = neutral(slot_kind[reads[v]])
    nodes = parent.size
    most = 0  # numbers beside counts: those of slots, and floating-point counts
    for node in range(nodes):
        most = max(most, slotted[node + 1] - slotted[node])
    planes = most + (1 if dual else 0)
    kinds, sources = np.zeros(planes, np.int64), np.zeros(planes, np.int64)
    zero = run[0] - run[0]
    counts = np.zeros((nodes, block), np.uint64)
    floats = np.zeros((planes, nodes, block))
    filled = np.zeros(nodes, np.int64)
    ordered, at = np.zeros(64), np.zeros(table_key.size + 1, np.int64)
    ways, sums = np.zeros(block, np.uint64), np.zeros((planes, block))
    started = np.zeros(block, np.int64)
    start_keys = np.zeros((keys.shape[0], block))
    start_values = np.zeros((slotted[1], block))
    has = np.zeros((extended.size - 1, nodes), np.bool_)
    for letter in range(extended.size - 1):
        for i in range(extended[letter], extended[letter + 1]):
            has[letter, extends[i]] = True
    next_block = zero
    while next_block < begun:
        start = next_block
        r = begin_run[start]
        end_block = min(start + block, begun)
        while begin_run[end_block - 1] != r:
            end_block -= 1
        next_block = end_block
        closes = position[begin_group[end_block - 1]] + widest
        first = begin_group[start]
        last = first + 1
        while last < run[r + 1] and position[last] < closes:
            last += 1
        ordered = _sort_keys(
            first, last, event, move_letter, extended, extends, stored, stores, table_key, keys,
            at, ordered,
        )  # fmt: skip
        size = nodes + at[table_key.size]
        if size > filled.size:
            filled = np.zeros(size + size // 4, np.int64)
            counts = np.empty((filled.size, block), np.uint64)
            floats = np.empty((planes, filled.size, block))
        for row in range(size):
            filled[row] = 0
        head = tail = alive = zero
        k = begin_row[start]
        for g in range(first, last):
            now = position[g]
            head = first_after(started, head, tail, now - widest)
            stay = stay_letter[g]
            single = event[g + 1] - event[g] == 1 and cleared[stay] == cleared[stay + 1]
            letter = move_letter[event[g]]
            steps = extended[letter + 1] - extended[letter] if single else nodes
            for step in range(steps - 1, -1, -1):
                node = extends[extended[letter] + step] if single else step
                is_cleared = False
                if not single:
                    for i in range(cleared[stay], cleared[stay + 1]):
                        is_cleared |= clears[i] == node
                if is_cleared and node > 0:
                    filled[node] = 0
                    for i in range(stored[node], stored[node + 1]):
                        t = stores[i]
                        for row in range(nodes + at[t], nodes + at[t + 1]):
                            filled[row] = 0
                elif is_cleared:
                    alive = tail
                above, own = parent[node], slotted[node]
                for i in range(planes):
                    kinds[i], sources[i] = SUM, -1
                for slot in range(own, slotted[node + 1]):
                    kinds[slot - own] = slot_kind[slot]
                    if above > 0 and slot_source[slot] >= 0:
                        sources[slot - own] = slot_source[slot] - slotted[above]
                if dual and above > 0:
                    sources[most] = most
                for e in range(event[g], event[g + 1]):
                    if not single and not has[move_letter[e], node]:
                        continue
                    if above < 0:
                        if start + tail < end_block and begin_event[start + tail] == e:
                            started[tail] = now
                            for i in range(keys.shape[0]):
                                start_keys[i, tail] = keys[i, e]
                            for slot in range(slotted[1]):
                                x = inputs[slot_input[slot], e]
                                start_values[slot, tail] = term(slot_kind[slot], x, 1.0)
                            tail += 1
                        continue
                    if head == tail:
                        continue
                    # What the event continues: ways, and sums of what is carried along.
                    key = keys[right[node], e] if left[node] >= 0 else 0.0
                    if np.isnan(key):
                        continue
                    if above == 0:
                        low = max(head, alive)
                        if low >= tail:
                            continue
                        fill(ways[head:low], 0)
                        if left[node] >= 0:
                            _compare(
                                ways[low:tail], start_keys[left[node], low:tail], key, strict[node]
                            )
                        else:
                            fill(ways[low:tail], 1)
                    else:
                        fill(ways[head:tail], 0)
                        for i in range(planes):
                            fill(sums[i, head:tail], neutral(kinds[i]))
                        t = table[node]
                        if t < 0:
                            _sum_row(
                                above, head, kinds, sources, filled, counts, floats, ways, sums
                            )
                        else:
                            rank = _rank(ordered[at[t] : at[t + 1]], key, strict[node])
                            if rank == 0:
                                continue
                            while rank > 0:
                                _sum_row(
                                    nodes + at[t] + rank - 1, head, kinds, sources, filled, counts,
                                    floats, ways, sums,
                                )  # fmt: skip
                                rank &= rank - 1
                    if dual and above == 0:
                        for s in range(head, tail):
                            sums[most, s] = float(ways[s])
                    for slot in range(own, slotted[node + 1]):
                        i, kind = slot - own, slot_kind[slot]
                        if slot_source[slot] < 0:
                            x = inputs[slot_input[slot], e]
                            for s in range(head, tail):
                                many = sums[most, s] if dual else float(ways[s])
                                sums[i, s] = term(kind, x, many)
                        elif above == 0:
                            for s in range(head, tail):
                                one = start_values[slot_source[slot], s]
                                sums[i, s] = one if ways[s] else neutral(kind)
                    if is_total[node]:
                        _add_row(node, head, tail, kinds, filled, counts, floats, ways, sums)
                    for i in range(stored[node], stored[node + 1]):
                        t = stores[i]
                        key = keys[table_key[t], e]
                        if np.isnan(key):
                            continue
                        rank = _rank(ordered[at[t] : at[t + 1]], key, True) + 1
                        while rank <= at[t + 1] - at[t]:
                            _add_row(
                                nodes + at[t] + rank - 1, head, tail, kinds, filled, counts,
                                floats, ways, sums,
                            )  # fmt: skip
                            rank += rank & -rank
            while k < rows and out_group[k] == g:
                q = out_query[k]
                closing = out_boundary[k] if slide[q] > 0 else now
                low = first_held(started, head, tail, closing - width[q])
                row, high = final[q], filled[final[q]]
                if low < high:
                    out_counts[k] += total_count(counts[row, low:high])
                    if dual:
                        out_approximate[k] += total_value(SUM, floats[most, row, low:high])
                    for v in range(read[q], read[q + 1]):
                        kind, column = slot_kind[reads[v]], v - read[q]
                        found = total_value(kind, floats[reads[v] - slotted[row], row, low:high])
                        out_values[k, column] = combine(kind, out_values[k, column], found)
                k += 1
    made = 0
    for k in range(rows):
        if out_counts[k] == 0 and (not dual or out_approximate[k] == 0.0):
            continue
        out_group[made], out_boundary[made] = out_group[k], out_boundary[k]
        out_query[made], out_counts[made] = query[out_query[k]], out_counts[k]
        if dual:
            out_approximate[made] = out_approximate[k]
        for column in range(out_values.shape[1]):
            out_values[made, column] = out_values[k, column]
        made += 1
    return made
