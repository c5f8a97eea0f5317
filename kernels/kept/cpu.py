"""Counters of a live stream that go on from batch to batch: a batch costs what is new in it.

Groups of all runs (keys) stand in the order of time, so that those that leave the window are the
first of all. The progress of a call is an array: it stops where there is no room for further rows,
and goes on from there when it is called again. All queries of a call have one window and slide.

Counts are unsigned and wrap; the caller sees to it that none can pass 2^62.

`advance_reversible` keeps the counters of each run (`kernels.reversible`), `advance_prefixes` those
of each active START of each run (`kernels.prefixes`), linked in the order of time. What can be
kept of other counters is in `kernels.stacks`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from kernels.counters import sort_down
from kernels.prefixes.cpu import PrefixTree
from kernels.reversible.cpu import Steps
from kernels.uncounted import uncounted


class TimedGroups(NamedTuple):
    """Groups in the order of time."""

    run: np.ndarray  # int64, by group
    position: np.ndarray  # int64, by group
    event: np.ndarray  # int64 row pointers by group
    stay_letter: np.ndarray  # int64, by group
    move_letter: np.ndarray  # int64, by event
    inputs: np.ndarray  # float64 (attribute, event); NaN for null


# The entries of the progress of a call, an array of integers.
HEAD = 0  # the first group of the window
NEXT = 1  # the first group that has not arrived
END = 2  # behind the last group
BOUNDARY = 3  # per slide: what is evaluated next
ROWS = 4  # rows that were made
DONE = 5  # is there nothing left to do?
BASE = 6  # with a place among the groups, a number that stays a group's from call to call
PROGRESS = 7


class KeptRows(NamedTuple):
    """Results: the group of a row, or per slide its run and boundary; its query and count."""

    place: np.ndarray  # int64
    boundary: np.ndarray  # int64
    query: np.ndarray  # int64
    counts: np.ndarray  # uint64
    values: np.ndarray  # float64 (row, value result of the query), where there are any


class KeptStarts(NamedTuple):
    """Active STARTs in the order of time, each with the next one of its run, or -1."""

    counts: np.ndarray  # uint64 (START, node)
    started: np.ndarray  # int64
    following: np.ndarray  # int64
    first: np.ndarray  # int64, by run: its first active START, or -1
    last: np.ndarray  # int64, by run
    size: np.ndarray  # int64, one entry: how many there are


def advance_reversible(
    groups: TimedGroups, progress: np.ndarray, limit: int, counts: np.ndarray, steps: Steps,
    width: int, slide: int, out: KeptRows,
) -> bool:  # fmt: skip
    """Fill `out` with the rows of the groups that are new; True when that is done.

    `counts` has the counters of each run, for the groups from HEAD to before NEXT; `steps` are for
    queries of one window. Rows are due up
    to `limit`; in the end the groups that no later window reaches have left.
    """
    stamp = np.full(len(steps.final) - 1, -1, np.int64)
    given: tuple[Any, ...] = (
        stamp, *groups[:5], progress, limit, counts.reshape(-1), *counts.shape, steps.levels,
        *steps[3:], width, slide, *out[:4],
    )  # fmt: skip
    _reversible(*given)
    return bool(progress[DONE])


def advance_prefixes(
    groups: TimedGroups, progress: np.ndarray, limit: int, starts: KeptStarts, tree: PrefixTree,
    width: int, slide: int, out: KeptRows,
) -> bool:  # fmt: skip
    """The same with prefix counts for every active START, of a tree without gates and values.

    There has to be room for a START of each group that is new.
    """
    tables = (
        tree.parent, tree.extended, tree.extends, tree.cleared, tree.clears, tree.triggered,
        tree.triggers, tree.query, tree.final,
    )  # fmt: skip
    _prefixes(*groups[:5], progress, limit, *starts, *tables, width, slide, *out[:4])
    return bool(progress[DONE])


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    none, counts = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    real = np.zeros((1, 1))
    groups = TimedGroups(none, none, none, none, none, real)
    rows, small = KeptRows(none, none, none, counts, real), np.zeros(1, np.uint32)
    steps = Steps(counts, none, 1, counts, small, small, counts, small, small, counts, counts,
                  counts, counts)  # fmt: skip
    progress = np.zeros(PROGRESS, np.int64)
    advance_reversible(groups, progress, 0, counts.reshape(1, 1), steps, 1, 0, rows)
    starts = KeptStarts(counts.reshape(1, 1), none, none, none - 1, none, none)
    tree = PrefixTree(*[none] * len(PrefixTree._fields))
    progress[:] = 0
    advance_prefixes(groups, progress, 0, starts, tree, 1, 0, rows)


@uncounted(nogil=True)
def _change(
    counts: np.ndarray, base: int, sign: np.uint64, first: int, behind: int,
    move_letter: np.ndarray, levels: int, at: np.ndarray, into: np.ndarray, of: np.ndarray,
) -> None:  # fmt: skip
    """A group arrives (`sign` 1) or leaves (-1), its events through the levels side by side."""
    if behind - first == 1:
        k = move_letter[first] * levels
        for i in range(at[k], at[k + levels]):
            counts[base + into[i]] += sign * counts[base + of[i]]
        return
    for level in range(levels):
        for e in range(first, behind):
            k = move_letter[e] * levels + level
            for i in range(at[k], at[k + 1]):
                counts[base + into[i]] += sign * counts[base + of[i]]


@uncounted(nogil=True)
def _reversible(
    stamp: np.ndarray, run: np.ndarray, position: np.ndarray, event: np.ndarray,
    stay_letter: np.ndarray,
    move_letter: np.ndarray, progress: np.ndarray, limit: int, counts: np.ndarray, runs: int,
    size: int, levels: int, arrive: np.ndarray, arrive_into: np.ndarray,
    arrive_of: np.ndarray, leave: np.ndarray, leave_into: np.ndarray, leave_of: np.ndarray,
    trigger: np.ndarray, triggers: np.ndarray, final: np.ndarray, finals: np.ndarray,
    width: int, slide: int,
    out_place: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray, out_counts: np.ndarray,
) -> None:  # fmt: skip
    plus, minus = np.uint64(1), np.uint64(2**64 - 1)
    queries = final.size - 1
    head, g, end, boundary = progress[HEAD], progress[NEXT], progress[END], progress[BOUNDARY]
    rows = 0
    done = False
    while not done:
        if slide > 0:
            now = boundary
            while g < end and position[g] <= boundary:
                _change(counts, run[g] * size, plus, event[g], event[g + 1], move_letter, levels,
                        arrive, arrive_into, arrive_of)  # fmt: skip
                g += 1
            done = boundary > limit
        else:
            done = g == end
            now = limit if done else position[g]
        if done:
            now = limit
        while head < g and position[head] <= now - width:
            _change(counts, run[head] * size, minus, event[head], event[head + 1], move_letter,
                    levels, leave, leave_into, leave_of)  # fmt: skip
            head += 1
        if done:
            break
        if slide > 0:
            if head == g:
                done = g == end
                if not done:
                    boundary = -((-position[g]) // slide) * slide
                continue
            if rows + runs * queries > out_place.size:
                break
            for r in range(runs):
                for q in range(queries):
                    count = np.uint64(0)
                    for k in range(final[q], final[q + 1]):
                        count += counts[r * size + finals[k]]
                    if count != 0:
                        out_place[rows], out_boundary[rows] = r, boundary
                        out_query[rows], out_counts[rows] = q, count
                        rows += 1
            boundary += slide
            continue
        if rows + queries > out_place.size:
            break
        base = run[g] * size
        _change(counts, base, plus, event[g], event[g + 1], move_letter, levels, arrive,
                arrive_into, arrive_of)  # fmt: skip
        for e in range(event[g], event[g + 1]):
            for t in range(trigger[move_letter[e]], trigger[move_letter[e] + 1]):
                q = triggers[t]
                if stamp[q] == g:
                    continue
                stamp[q] = g
                count = np.uint64(0)
                for k in range(final[q], final[q + np.uint64(1)]):
                    count += counts[base + finals[k]]
                if count != 0:
                    out_place[rows], out_boundary[rows] = g, 0
                    out_query[rows], out_counts[rows] = q, count
                    rows += 1
        g += 1
    progress[HEAD], progress[NEXT], progress[BOUNDARY] = head, g, boundary
    progress[ROWS], progress[DONE] = rows, done


@numba.njit(cache=True, nogil=True)
def _total(
    counts: np.ndarray, following: np.ndarray, started: np.ndarray, s: int, opening: int, node: int
) -> np.uint64:  # fmt: skip
    """The sum over the STARTs of a run that began behind `opening`."""
    found = np.uint64(0)
    while s >= 0:
        if started[s] > opening:
            found += counts[s, node]
        s = following[s]
    return found


@numba.njit(cache=True, nogil=True)
def _prefixes(
    run: np.ndarray, position: np.ndarray, event: np.ndarray, stay_letter: np.ndarray,
    move_letter: np.ndarray, progress: np.ndarray, limit: int,
    counts: np.ndarray, started: np.ndarray, following: np.ndarray, first: np.ndarray,
    last: np.ndarray, many: np.ndarray,
    parent: np.ndarray, extended: np.ndarray, extends: np.ndarray, cleared: np.ndarray,
    clears: np.ndarray, triggered: np.ndarray, triggers: np.ndarray, query: np.ndarray,
    final: np.ndarray, width: int, slide: int,
    out_place: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray, out_counts: np.ndarray,
) -> None:  # fmt: skip
    nodes, runs, queries = parent.size, first.size, final.size
    times, clear = np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_)
    touched, order = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64)
    stamp = np.full(queries, -1, np.int64)
    head, g, end, boundary = progress[HEAD], progress[NEXT], progress[END], progress[BOUNDARY]
    rows = 0
    done = False
    while True:
        if slide > 0 and (g == end or position[g] > boundary):
            # All groups up to the boundary have arrived.
            if boundary > limit:
                done = True
                break
            while head < g and position[head] <= boundary - width:
                head += 1
            if head == g:
                if g == end:
                    done = True
                    break
                boundary = -((-position[g]) // slide) * slide
                continue
            if rows + runs * queries > out_place.size:
                break
            for r in range(runs):
                if first[r] < 0:
                    continue
                for q in range(queries):
                    count = _total(counts, following, started, first[r], boundary - width,
                                   final[q])  # fmt: skip
                    if count != 0:
                        out_place[rows], out_boundary[rows] = r, boundary
                        out_query[rows], out_counts[rows] = query[q], count
                        rows += 1
            boundary += slide
            continue
        if g == end:
            done = True
            break
        if rows + queries > out_place.size:
            break
        now, r = position[g], run[g]
        while first[r] >= 0 and started[first[r]] <= now - width:
            first[r] = following[first[r]]
        touches = 0
        begins = False
        for e in range(event[g], event[g + 1]):
            letter = move_letter[e]
            for k in range(extended[letter], extended[letter + 1]):
                node = extends[k]
                begins |= parent[node] < 0
                times[node] += 1
                if not touched[node]:
                    touched[node] = True
                    order[touches] = node
                    touches += 1
        for k in range(cleared[stay_letter[g]], cleared[stay_letter[g] + 1]):
            node = clears[k]
            clear[node] = True
            if not touched[node]:
                touched[node] = True
                order[touches] = node
                touches += 1
        if touches > 1:
            sort_down(order, touches)  # children before parents, which read what was before
        new = many[0]
        if begins:
            counts[new, :] = np.uint64(0)
            started[new], following[new] = now, -1
        for i in range(touches):
            node = order[i]
            above, n = parent[node], np.uint64(times[node])
            s = first[r]
            while s >= 0:
                if clear[node]:
                    counts[s, node] = np.uint64(0)
                if above >= 0:
                    counts[s, node] += n * counts[s, above]
                s = following[s]
            if above < 0 and times[node] > 0:
                counts[new, node] = n
            times[node] = 0
            clear[node] = touched[node] = False
        if begins:
            if first[r] < 0:
                first[r] = new
            else:
                following[last[r]] = new
            last[r] = new
            many[0] = new + 1
        g += 1
        if slide > 0:
            continue
        for e in range(event[g - 1], event[g]):
            for t in range(triggered[move_letter[e]], triggered[move_letter[e] + 1]):
                q = triggers[t]
                if stamp[q] == g:
                    continue
                stamp[q] = g
                count = _total(counts, following, started, first[r], now - width, final[q])
                if count != 0:
                    out_place[rows], out_boundary[rows] = g - 1, 0
                    out_query[rows], out_counts[rows] = query[q], count
                    rows += 1
    if done:
        while head < end and position[head] <= limit - width:
            head += 1
        for r in range(runs):
            while first[r] >= 0 and started[first[r]] <= limit - width:
                first[r] = following[first[r]]
    progress[HEAD], progress[NEXT], progress[BOUNDARY] = head, g, boundary
    progress[ROWS], progress[DONE] = rows, done
