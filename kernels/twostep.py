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

from kernels.aseq import _total, _total_value
from kernels.product import NUMBER, Groups, Rows, _combine, _neutral

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


def construct(groups: Groups, stacks: Stacks, query: int, width: int, out: Rows) -> int:
    """Fill `out` with a row per trigger that has matches; returns how many, or -1: too small.

    Counts are exact: nobody constructs 2^63 matches.
    """
    matches = np.empty((BATCH, int(stacks.components[0])), np.int64)
    return int(_construct(*groups, *stacks, query, width, matches, *out))


@numba.njit(cache=True)
def _sizes(
    components: int, extended: np.ndarray, extends: np.ndarray, move_letter: np.ndarray
) -> np.ndarray:
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
    matches: np.ndarray, made: int, event: np.ndarray, inputs: np.ndarray, kinds: np.ndarray,
    components: np.ndarray, columns: np.ndarray, counts: np.ndarray, values: np.ndarray,
) -> None:  # fmt: skip
    """The second step: each match is added to the accumulators of its START."""
    for m in range(made):
        start = matches[m, 0]
        counts[start] += np.uint64(1)
        for v in range(kinds.size):
            x = inputs[columns[v], event[matches[m, components[v]]]]
            if not np.isnan(x):
                x = 1.0 if kinds[v] == NUMBER else x
                values[v, start] = _combine(kinds[v], values[v, start], x)


@numba.njit(cache=True)
def _construct(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, stay_letter: np.ndarray,
    event: np.ndarray, move_letter: np.ndarray, inputs: np.ndarray,
    components: np.ndarray, extended: np.ndarray, extends: np.ndarray, cleared: np.ndarray,
    clears: np.ndarray, gated: np.ndarray, value_kind: np.ndarray, value_component: np.ndarray,
    value_input: np.ndarray, query: int, width: int, matches: np.ndarray,
    out_group: np.ndarray, out_boundary: np.ndarray, out_query: np.ndarray,
    out_counts: np.ndarray, out_approximate: np.ndarray, out_values: np.ndarray,
) -> int:  # fmt: skip
    n = components[0]
    has_gate = gated.any()
    base = _sizes(n, extended, extends, move_letter)
    instance, group = np.empty(base[n], np.int64), np.empty(base[n], np.int64)
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
        for g in range(run[r], run[r + 1]):
            now = position[g]
            stay = stay_letter[g]
            for i in range(n):
                while bottom[i] < top[i] and position[group[bottom[i]]] <= now - width:
                    bottom[i] += 1
                before[i] = top[i]
            for k in range(cleared[stay], cleared[stay + 1]):
                if clears[k] == n - 1:
                    for s in range(bottom[0], top[0]):
                        counts[s] = 0
                        for v in range(value_kind.size):
                            values[v, s] = _neutral(value_kind[v])
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
                    instance[new], group[new] = e, g
                    if i > 0:
                        end[new], low[new] = before[i - 1], last_clear[i - 1]
                    else:
                        closed[new] = last_closed
                        counts[new] = 0
                        for v in range(value_kind.size):
                            values[v, new] = _neutral(value_kind[v])
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
                                matches, made, instance, inputs, value_kind, value_component,
                                value_input, counts, values,
                            )  # fmt: skip
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
            _aggregate(
                matches, made, instance, inputs, value_kind, value_component, value_input, counts,
                values,
            )  # fmt: skip
            for k in range(cleared[stay], cleared[stay + 1]):
                last_clear[clears[k]] = g
            if gated[stay]:
                last_closed = now
            if not is_trigger:
                continue
            # A closed beginning is forgotten when it leaves the window.
            stop = top[0]
            if has_gate:
                stop = bottom[0]
                while stop < top[0] and closed[stop] <= now - width:
                    stop += 1
            total = _total(counts[bottom[0] : stop])
            if total == 0:
                continue
            if rows >= out_group.size:
                return -1
            out_group[rows], out_boundary[rows], out_query[rows] = g, 0, query
            out_counts[rows] = total
            for v in range(value_kind.size):
                out_values[rows, v] = _total_value(value_kind[v], values[v, bottom[0] : stop])
            rows += 1
    return rows
