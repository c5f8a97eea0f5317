"""Runs of events, each directly behind the one before, counted in windows that end at triggers or
at boundaries.

All runs are followed at once, as Aho and Corasick do with words: what runs begin with alike is one
node of a tree, and an event moves the ways that lead to a node on to its children. An event may be
of several symbols, and simultaneous events are each an alternative to the other, so that a node has
a number of ways. A match spans a fixed number of groups, so a window's count is what has ended
less what began before the window opened: only where runs began is kept, in a queue for each run
and window. Queues that hold anything are listed by what their run ends with, so that an event
costs what it moves on and the rows that it gives, however many runs there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.counters import boundary_from, grown
from kernels.groups import Groups, RowSegments


class RunTables(NamedTuple):
    """Runs as a tree over symbols, and the queues of their ends: one for each window and slide.

    `listed` is the list that a queue is in: that of the last symbol of its run if it is read at
    triggers, else that of its slide, which comes behind those of all symbols.
    """

    child: np.ndarray  # int32 (node, symbol): the node that is led to, 0 for none; 0 is the root
    depth: np.ndarray  # int64, by node
    ended: np.ndarray  # row pointers by node
    ends: np.ndarray  # the queues of runs that end there
    listed: np.ndarray  # int64, by queue
    width: np.ndarray  # int64, by queue
    asked: np.ndarray  # row pointers by queue
    queries: np.ndarray  # that are read off it
    room: np.ndarray  # row pointers by list: as many as queues may be in it
    slides: np.ndarray  # int64, of the lists behind those of symbols
    spelled: np.ndarray  # row pointers by letter
    symbols: np.ndarray  # that an event of the letter is of


def count_runs(
    groups: Groups, begun: np.ndarray, since: np.ndarray, tables: RunTables, out: RowSegments
) -> bool:
    """Rows with the number of runs in a window: at each event that may be last in a run, or at each
    boundary, where there are any.

    Of each partition the first `begun` groups, and boundaries up to `since`, give no rows. False
    where the rows of a query have no room. No number may pass 2^64.
    """
    return bool(
        _count_runs(
            groups.run, groups.limit, groups.position, groups.event, groups.move_letter, begun,
            since, *tables, out.end, out.room, out.group, out.boundary, out.counts,
        )
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _count_runs(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, event: np.ndarray,
    letter: np.ndarray, begun: np.ndarray, since: np.ndarray,
    child: np.ndarray, depth: np.ndarray, ended: np.ndarray, ends: np.ndarray, listed: np.ndarray,
    width: np.ndarray, asked: np.ndarray, queries: np.ndarray, room: np.ndarray,
    slides: np.ndarray, spelled: np.ndarray, symbols: np.ndarray,
    end: np.ndarray, out_room: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray,
    out_counts: np.ndarray,
) -> bool:  # fmt: skip
    nodes, marks = child.shape
    queues = listed.size
    one, none = np.uint64(1), np.uint64(0)
    ways, moved = np.zeros(nodes, np.uint64), np.zeros(nodes, np.uint64)
    active, reached = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    head, tail = np.zeros(queues, np.int64), np.zeros(queues, np.int64)
    total = np.zeros(queues, np.uint64)
    held = np.zeros(queues, np.bool_)
    live = np.empty(queues, np.int64)
    size = np.zeros(room.size - 1, np.int64)  # of each list
    stamp = np.full(marks, -1, np.int64)
    due = np.zeros(slides.size, np.int64)
    # Where runs began, and in how many ways, as linked cells; those left are in a list too.
    begins, number = np.empty(256, np.int64), np.empty(256, np.uint64)
    after = np.empty(256, np.int64)
    n = 0  # nodes that the group before has led to
    for r in range(run.size - 1):
        first, last = run[r], run[r + 1]
        if first == last or (slides.size == 0 and begun[r] == last - first):
            continue  # nothing new
        for k in range(size.size):
            for i in range(room[k], room[k] + size[k]):
                held[live[i]] = False
                total[live[i]] = none
            size[k] = 0
        used, free = 0, -1
        fresh = first + begun[r]
        for i in range(n):
            ways[active[i]] = none
        n = 0
        for m in range(slides.size):
            due[m] = boundary_from(max(position[first], since[r] + 1), slides[m])
        for g in range(first, last + 1):
            for m in range(slides.size):
                k = marks + m
                while due[m] < position[g] if g < last else due[m] <= limit[r]:
                    i = room[k]
                    while i < room[k] + size[k]:
                        q = live[i]
                        while total[q] != none and begins[head[q]] <= due[m] - width[q]:
                            total[q] -= number[head[q]]
                            cell = head[q]
                            head[q] = after[cell]
                            after[cell] = free
                            free = cell
                        if total[q] == none:
                            held[q] = False
                            size[k] -= 1
                            live[i] = live[room[k] + size[k]]
                            continue
                        for j in range(asked[q], asked[q + 1]):
                            row = end[queries[j]]
                            if row == out_room[queries[j]]:
                                return False
                            out_group[row] = g - 1
                            out_boundary[row] = due[m]
                            out_counts[row] = total[q]
                            end[queries[j]] = row + 1
                        i += 1
                    if size[k] == 0:  # nothing is in a window until the next event
                        if g == last:
                            break
                        due[m] = boundary_from(position[g], slides[m])
                    else:
                        due[m] += slides[m]
            if g == last:
                break
            found = 0
            for e in range(event[g], event[g + 1]):
                for k in range(spelled[letter[e]], spelled[letter[e] + 1]):
                    s = symbols[k]
                    to = child[0, s]
                    if to:
                        if moved[to] == none:
                            reached[found] = to
                            found += 1
                        moved[to] += one
                    for i in range(n):
                        to = child[active[i], s]
                        if to:
                            if moved[to] == none:
                                reached[found] = to
                                found += 1
                            moved[to] += ways[active[i]]
            for i in range(n):
                ways[active[i]] = none
            active, reached = reached, active
            ways, moved = moved, ways
            n = found
            for i in range(n):
                node = active[i]
                for j in range(ended[node], ended[node + 1]):
                    q = ends[j]
                    began = position[g - depth[node] + 1]
                    if began <= position[g] - width[q]:
                        continue
                    cell = free
                    if cell >= 0:
                        free = after[cell]
                    else:
                        cell = used
                        used += 1
                        if cell == begins.size:
                            begins, number = grown(begins, used), grown(number, used)
                            after = grown(after, used)
                    begins[cell], number[cell] = began, ways[node]
                    if total[q] == none:
                        head[q] = cell
                        if not held[q]:
                            held[q] = True
                            k = listed[q]
                            live[room[k] + size[k]] = q
                            size[k] += 1
                    else:
                        after[tail[q]] = cell
                    tail[q] = cell
                    total[q] += ways[node]
            if g < fresh:
                continue
            for e in range(event[g], event[g + 1]):
                for k in range(spelled[letter[e]], spelled[letter[e] + 1]):
                    s = symbols[k]
                    if size[s] == 0 or stamp[s] == g:
                        continue
                    stamp[s] = g
                    i = room[s]
                    while i < room[s] + size[s]:
                        q = live[i]
                        while total[q] != none and begins[head[q]] <= position[g] - width[q]:
                            total[q] -= number[head[q]]
                            cell = head[q]
                            head[q] = after[cell]
                            after[cell] = free
                            free = cell
                        if total[q] == none:
                            held[q] = False
                            size[s] -= 1
                            live[i] = live[room[s] + size[s]]
                            continue
                        for j in range(asked[q], asked[q + 1]):
                            row = end[queries[j]]
                            if row == out_room[queries[j]]:
                                return False
                            out_group[row] = g
                            out_counts[row] = total[q]
                            end[queries[j]] = row + 1
                        i += 1
    return True


def warm() -> None:
    """Compile it as engines call it."""
    none, flat = np.zeros(1, np.int64), np.array([0, 0])
    groups = Groups(flat, none, none, none, flat, none, np.zeros((1, 1)))
    tables = RunTables(
        np.zeros((1, 1), np.int32), none, flat, none, none, none, flat, none, flat, none[:0],
        flat, none,
    )  # fmt: skip
    out = RowSegments(
        none.copy(), none, none.copy(), none.copy(), np.zeros(1, np.uint64), np.zeros(0),
        np.zeros((1, 0)),
    )  # fmt: skip
    count_runs(groups, none, none, tables, out)
