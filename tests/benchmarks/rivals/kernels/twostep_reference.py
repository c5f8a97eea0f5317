"""Counting in two steps as plain Python: all matches of every window, one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from kernels.evaluations import looks
from kernels.groups import Groups, ResultRows, Spans
from kernels.values import MAX, MIN, NUMBER, SUM
from tests.benchmarks.rivals.kernels.twostep import Stacks

Match = tuple[tuple[int, int], ...]  # (group, event) of each component


def construct(
    groups: Groups,
    stacks: Stacks,
    query: int,
    width: int,
    slide: int,
    out: ResultRows,
) -> int:
    """As `tests.benchmarks.rivals.kernels.twostep.construct`."""
    rows = 0
    last = int(stacks.components[0]) - 1

    def triggered(g: int) -> list[int]:
        events = range(groups.event[g], groups.event[g + 1])
        return [0] if any(last in _components(groups, stacks, e) for e in events) else []

    spans = Spans(np.array([width]), np.array([slide]))
    for _, g, boundary, window in looks(groups, spans, triggered):
        found = list(_matches(groups, stacks, window, ()))
        if not found:
            continue
        if rows == len(out.group):
            return -1
        out.group[rows], out.boundary[rows], out.query[rows] = g, boundary, query
        out.counts[rows] = len(found)
        for v, kind in enumerate(stacks.value_kind):
            column, component = stacks.value_input[v], stacks.value_component[v]
            inputs = [float(groups.inputs[column, match[component][1]]) for match in found]
            out.values[rows, v] = _aggregated(kind, [x for x in inputs if not math.isnan(x)])
        rows += 1
    return rows


def _components(groups: Groups, stacks: Stacks, e: int) -> list[int]:
    letter = groups.move_letter[e]
    return list(stacks.extends[stacks.extended[letter] : stacks.extended[letter + 1]])


def _matches(groups: Groups, stacks: Stacks, window: list[int], begun: Match) -> Iterator[Match]:
    """All ways to go on with a match whose first components are chosen."""
    i = len(begun)
    behind = begun[-1][0] if begun else -1
    rest = [g for g in window if g > behind]
    if i == stacks.components[0]:
        if not _is_closed(groups, stacks, rest, i - 1):
            yield begun
        return
    for k, g in enumerate(rest):
        if _is_closed(groups, stacks, rest[:k], i - 1):
            return
        for e in range(groups.event[g], groups.event[g + 1]):
            if i in _components(groups, stacks, e):
                yield from _matches(groups, stacks, window, (*begun, (g, e)))


def _is_closed(groups: Groups, stacks: Stacks, between: list[int], gap: int) -> bool:
    """Does a negated event lie in a gap? Gap -1 is the beginning."""
    for g in between:
        stay = groups.stay_letter[g]
        if gap < 0 and stacks.gated[stay]:
            return True
        if gap >= 0 and gap in stacks.clears[stacks.cleared[stay] : stacks.cleared[stay + 1]]:
            return True
    return False


def _aggregated(kind: int, inputs: list[float]) -> float:
    if kind in (SUM, NUMBER):
        return float(len(inputs)) if kind == NUMBER else math.fsum(inputs)
    neutral = {MIN: math.inf, MAX: -math.inf}[kind]
    return min(inputs, default=neutral) if kind == MIN else max(inputs, default=neutral)
