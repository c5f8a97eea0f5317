"""What the kernel of runs gives, in plain Python: each run is looked for by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kernels.groups import Groups, RowSegments
from kernels.runs.cpu import RunTables


def count_runs(
    groups: Groups, begun: np.ndarray, since: np.ndarray, tables: RunTables, out: RowSegments
) -> bool:
    """In each window all groups are tried as the first of a run."""
    lists = len(tables.room) - 1 - len(tables.slides)
    for node, run in _spelled(tables):
        for queue in _part(tables.ended, tables.ends, node):
            queries = _part(tables.asked, tables.queries, queue)
            place, width = int(tables.listed[queue]), int(tables.width[queue])
            for r, (first, stop) in enumerate(pairwise(groups.run.tolist())):
                if first == stop:
                    continue
                position = groups.position[first:stop].tolist()
                found = [_symbols(groups, tables, g) for g in range(first, stop)]
                if place < lists:
                    fresh = range(int(begun[r]), len(found))
                    asked = [(g, position[g]) for g in fresh if run[-1] in found[g]]
                else:
                    slide, after = int(tables.slides[place - lists]), int(since[r])
                    after = max(position[0] - 1, after)
                    boundaries = range(
                        (after // slide + 1) * slide, int(groups.limit[r]) + 1, slide
                    )
                    asked = [
                        (max(g for g, at in enumerate(position) if at <= b), b) for b in boundaries
                    ]
                for g, now in asked:
                    total = 0
                    for b in range(g - len(run) + 2):
                        if position[b] > now - width:
                            events = zip(found[b:], run, strict=False)
                            total += int(np.prod([symbols.count(s) for symbols, s in events]))
                    for query in queries if total else ():
                        if out.end[query] == out.room[query]:
                            return False
                        out.group[out.end[query]] = first + g
                        if place >= lists:
                            out.boundary[out.end[query]] = now
                        out.counts[out.end[query]] = total
                        out.end[query] += 1
    return True


def _spelled(tables: RunTables) -> list[tuple[int, list[int]]]:
    """The symbols that lead to each node."""
    found: dict[int, list[int]] = {0: []}
    for node, row in enumerate(tables.child.tolist()):
        found |= {to: [*found[node], symbol] for symbol, to in enumerate(row) if to}
    return sorted(found.items())


def _symbols(groups: Groups, tables: RunTables, g: int) -> list[int]:
    """The symbols that the events of a group are of, each as often as there are such events."""
    letters = groups.move_letter[groups.event[g] : groups.event[g + 1]].tolist()
    return [s for letter in letters for s in _part(tables.spelled, tables.symbols, letter)]


def _part(pointers: np.ndarray, values: np.ndarray, row: int) -> list[int]:
    found: list[int] = values[pointers[row] : pointers[row + 1]].tolist()
    return found
