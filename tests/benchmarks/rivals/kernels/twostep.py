"""Counting in two steps: construct every match, then aggregate. The baseline for the others.

Construction is SASE's: a stack of instances for each component, every instance pointing at the top
that the stack before it had when it came, so that a search backwards through the pointers visits
matches only. The window and the negations are pushed into the search: instances that have left the
window are taken off the bottoms of the stacks, and of a gap that a negated event has closed only
what is above it is visited. The second step folds a batch of constructed matches into one
accumulator for each START, whose matches leave the window with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kernels.counters import boundary_from, first_after, total_count, total_value
from kernels.groups import Groups, ResultRows
from kernels.values import NUMBER, combine, neutral

BATCH = 4096  # matches that are constructed before they are aggregated


class Stacks(NamedTuple):
    """One query: its components are numbered from 0; gap i is the one behind component i."""

    components: np.ndarray  # int64: how many there are, one entry
    extended: np.ndarray  # by move letter: rows of `extends`
    extends: np.ndarray  # components that an event is an instance of
    cleared: np.ndarray  # by stay letter: rows of `clears`
    clears: np.ndarray  # gaps that negated events close; the last is the end
    gated: np.ndarray  # bool, by stay letter: does a negated event close the beginning?
    value_kind: np.ndarray  # int64, by value
    value_component: np.ndarray
    value_input: np.ndarray


def construct(
    groups: Groups,
    stacks: Stacks,
    query: int,
    width: int,
    slide: int,
    out: ResultRows,
) -> int:
    """Fill `out` with the rows of all windows; returns how many, or -1 where `out` is too small.

    As `kernels.prefixes.cpu.count_prefixes`; a row is made per trigger at each group with a last
    event of the pattern. Counts are exact: nobody constructs 2^63 matches.
    """
    matches = np.empty((BATCH, int(stacks.components[0])), np.int64)
    return int(_construct(*groups, *stacks, query, width, slide, matches, *out))


@numba.njit(cache=True)
def _sizes(
    components: int, extended: np.ndarray, extends: np.ndarray, move_letter: np.ndarray
) -> np.ndarray:  # fmt: skip
    """Where the stack of each component begins, if each were to hold all its instances."""
    first = np.zeros(components + 1, np.int64)
    for e in range(move_letter.size):
        for k in range(extended[move_letter[e]], extended[move_letter[e] + 1]):
            first[extends[k] + 1] += 1
    for i in range(components):
        first[i + 1] += first[i]
    return first


@numba.njit(cache=True)
def _aggregate(
    matches: np.ndarray, made: int, kinds: np.ndarray, components: np.ndarray, held: np.ndarray,
    counts: np.ndarray, values: np.ndarray,
) -> None:  # fmt: skip
    """The second step: each match is added to the accumulators of its START."""
    for m in range(made):
        start = matches[m, 0]
        counts[start] += np.uint64(1)
        for v in range(kinds.size):
            x = held[v, matches[m, components[v]]]
            if not np.isnan(x):
                x = 1.0 if kinds[v] == NUMBER else x
                values[v, start] = combine(kinds[v], values[v, start], x)


@numba.njit(cache=True)
def _row(
    row: int, g: int, boundary: int, query: int, bottom: int, top: int, has_gate: bool,
    opening: int, value_kind: np.ndarray, counts: np.ndarray, values: np.ndarray,
    closed: np.ndarray, out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    """Write a row if there are matches and there is room; returns 1 if there are, else 0."""
    stop = first_after(closed, bottom, top, opening) if has_gate else top
    total = total_count(counts[bottom:stop])
    if total == 0:
        return 0
    if row < out_group.size:
        out_group[row], out_boundary[row], out_query[row] = g, boundary, query
        out_counts[row] = total
        for v in range(value_kind.size):
            out_values[row, v] = total_value(value_kind[v], values[v, bottom:stop])
    return 1


@numba.njit(cache=True)
def _construct(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    components: np.ndarray, extended: np.ndarray, extends: np.ndarray, cleared: np.ndarray,
    clears: np.ndarray, gated: np.ndarray, value_kind: np.ndarray, value_component: np.ndarray,
    value_input: np.ndarray, query: int, width: int, slide: int,
    matches: np.ndarray,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    n = components[0]
    base = _sizes(n, extended, extends, move_letter)
    group = np.empty(base[n], np.int64)  # by instance
    held = np.empty((value_kind.size, base[n]))  # by value: the input of each instance
    came = np.empty(base[n], np.int64)  # position of each instance
    end = np.zeros(base[n], np.int64)  # of what an instance can follow: its pointer
    low = np.zeros(base[n], np.int64)  # the first group that it can follow
    bottom, top = np.zeros(n, np.int64), np.zeros(n, np.int64)
    before = np.zeros(n, np.int64)
    counts = np.zeros(base[1], np.uint64)  # by START
    values = np.zeros((value_kind.size, base[1]))
    closed = np.zeros(base[1], np.int64)
    last_clear = np.zeros(n, np.int64)
    cursor, chosen = np.zeros(n, np.int64), np.zeros(n, np.int64)
    rows = 0
    for r in range(run.size - 1):
        last_closed = np.iinfo(np.int64).min
        for i in range(n):
            bottom[i] = top[i] = base[i]
            last_clear[i] = -1
        boundary = run[0] - run[0]
        has_gate = bool(gated.any())
        first, last = run[r], run[r + 1]
        for g in range(first, last + 1):
            if slide > 0:
                # The boundaries before this group, or those behind the last one.
                until = position[g] - 1 if g < last else limit[r]
                while bottom[0] < top[0] and boundary <= until:
                    opening = boundary - width
                    bottom[0] = first_after(came, bottom[0], top[0], opening)
                    rows += _row(
                        rows, g - 1, boundary, query, bottom[0], top[0], has_gate, opening,
                        value_kind, counts, values, closed, out_group, out_boundary, out_query,
                        out_counts, out_values,
                    )  # fmt: skip
                    boundary += slide
            if g == last:
                break
            now = position[g]
            opening = now - width
            stay = stay_letter[g]
            for i in range(n):
                bottom[i] = first_after(came, bottom[i], top[i], opening)
                before[i] = top[i]
            if slide > 0 and bottom[0] == top[0]:
                boundary = boundary_from(now, slide)
            for k in range(cleared[stay], cleared[stay + 1]):
                if clears[k] == n - 1:
                    for s in range(bottom[0], top[0]):
                        counts[s] = 0
                        for v in range(value_kind.size):
                            values[v, s] = neutral(value_kind[v])
            is_trigger = False
            made = 0
            for e in range(event[g], event[g + 1]):
                for k in range(extended[move_letter[e]], extended[move_letter[e] + 1]):
                    i = extends[k]
                    is_trigger |= i == n - 1
                    if i > 0 and before[i - 1] == bottom[i - 1]:
                        continue
                    new = top[i]
                    top[i] += 1
                    group[new], came[new] = g, now
                    for v in range(value_kind.size):
                        if value_component[v] == i:
                            held[v, new] = inputs[value_input[v], e]
                    if i > 0:
                        end[new], low[new] = before[i - 1], last_clear[i - 1]
                    else:
                        closed[new] = last_closed
                        counts[new] = 0
                        for v in range(value_kind.size):
                            values[v, new] = neutral(value_kind[v])
                    if i < n - 1:
                        continue
                    # The first step: search backwards from the last event, latest first.
                    chosen[i] = new
                    depth = i - 1
                    if i > 0:
                        cursor[depth] = end[new] - 1
                    else:
                        depth = i
                        matches[made, 0] = new
                        made += 1
                    while depth < i or made == matches.shape[0]:
                        if made == matches.shape[0]:
                            _aggregate(
                                matches, made, value_kind, value_component, held, counts, values
                            )
                            made = 0
                            continue
                        at = cursor[depth]
                        if at < bottom[depth] or group[at] < low[chosen[depth + 1]]:
                            depth += 1
                            continue
                        cursor[depth] -= 1
                        chosen[depth] = at
                        if depth > 0:
                            depth -= 1
                            cursor[depth] = end[at] - 1
                        else:
                            for j in range(n):
                                matches[made, j] = chosen[j]
                            made += 1
            _aggregate(matches, made, value_kind, value_component, held, counts, values)
            for k in range(cleared[stay], cleared[stay + 1]):
                last_clear[clears[k]] = g
            if gated[stay]:
                last_closed = now
            if is_trigger and slide == 0:
                rows += _row(
                    rows, g, boundary, query, bottom[0], top[0], has_gate, opening, value_kind,
                    counts, values, closed, out_group, out_boundary, out_query, out_counts,
                    out_values,
                )  # fmt: skip
            if rows > out_group.size:
                break
        if rows > out_group.size:
            return -1
    return rows
