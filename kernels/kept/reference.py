"""Counters that go on from batch to batch as plain Python: each window is counted from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kernels.kept.cpu import (
    BOUNDARY,
    DONE,
    END,
    HEAD,
    NEXT,
    ROWS,
    KeptRows,
    KeptStarts,
    TimedGroups,
)
from kernels.prefixes.cpu import PrefixTree
from kernels.reversible.cpu import Steps

Window = list[int]


def advance_reversible(
    groups: TimedGroups, progress: np.ndarray, limit: int, counts: np.ndarray, steps: Steps,
    width: int, slide: int, out: KeptRows,
) -> bool:  # fmt: skip
    """As `kernels.kept.cpu.advance_reversible`, for rows that find room; `counts` stay."""

    def count(q: int, window: Window) -> int:
        held = [int(n) for n in steps.start]
        for g in window:
            for level in range(steps.levels):
                for e in range(groups.event[g], groups.event[g + 1]):
                    k = groups.move_letter[e] * steps.levels + level
                    for i in range(int(steps.arrive[k]), int(steps.arrive[k + 1])):
                        held[steps.arrive_into[i]] += held[steps.arrive_of[i]]
        return sum(held[f] for f in steps.finals[int(steps.final[q]) : int(steps.final[q + 1])])

    queries = list(range(len(steps.final) - 1))
    tables = steps.trigger.astype(np.int64), steps.triggers.astype(np.int64)
    looks = looks_of(groups, progress, limit, len(counts), queries, tables, width, slide)
    return _filled(looks, count, queries, progress, out)


def advance_prefixes(
    groups: TimedGroups, progress: np.ndarray, limit: int, starts: KeptStarts, tree: PrefixTree,
    width: int, slide: int, out: KeptRows,
) -> bool:  # fmt: skip
    """As `kernels.kept.cpu.advance_prefixes`, for rows that find room; `starts` stay."""

    def count(q: int, window: Window) -> int:
        held: list[int] = [0] * len(tree.parent)
        for g in window:
            before = list(held)
            for node in tree.clears[slice(*tree.cleared[groups.stay_letter[g] :][:2])]:
                held[node] = 0
            for e in range(groups.event[g], groups.event[g + 1]):
                for node in tree.extends[slice(*tree.extended[groups.move_letter[e] :][:2])]:
                    above = tree.parent[node]
                    held[node] += before[above] if above >= 0 else 1
        return held[int(tree.final[q])]

    queries = list(range(len(tree.final)))
    tables = tree.triggered, tree.triggers
    looks = looks_of(groups, progress, limit, len(starts.first), queries, tables, width, slide)
    return _filled(looks, count, [int(q) for q in tree.query], progress, out)


def looks_of(
    groups: TimedGroups, progress: np.ndarray, limit: int, runs: int, queries: list[int],
    tables: tuple[np.ndarray, np.ndarray], width: int, slide: int,
) -> Iterator[tuple[int, int, int, Window]]:  # fmt: skip
    """The place, boundary and query of each evaluation, and the groups that its window holds."""
    end, pointers = int(progress[END]), tables[0]

    def window(run: int, until: int, behind: int) -> Window:
        return [
            g
            for g in range(behind)
            if groups.run[g] == run and until - width < groups.position[g] <= until
        ]

    if not slide:
        for g in range(int(progress[NEXT]), end):
            letters = groups.move_letter[groups.event[g] : groups.event[g + 1]]
            asked = {int(q) for a in letters for q in tables[1][pointers[a] : pointers[a + 1]]}
            for q in sorted(asked):
                yield g, 0, q, window(groups.run[g], groups.position[g], g + 1)
        return
    for boundary in range(int(progress[BOUNDARY]), limit + 1, slide):
        for run in range(runs):
            held = window(run, boundary, end)
            for q in queries if held else ():
                yield run, boundary, q, held


def _filled(
    looks: Iterator[tuple[int, int, int, Window]],
    count: Callable[[int, Window], int],
    numbers: list[int],
    progress: np.ndarray,
    out: KeptRows,
) -> bool:
    rows = 0
    for place, boundary, q, window in looks:
        found = count(q, window) % 2**64
        if found:
            out.place[rows], out.boundary[rows] = place, boundary
            out.query[rows], out.counts[rows] = numbers[q], found
            rows += 1
    progress[NEXT], progress[ROWS], progress[DONE] = progress[END], rows, 1
    progress[HEAD] = min(progress[HEAD], progress[END])
    return True
