"""Windows of different widths and slides as plain Python: every window multiplied from scratch.

There are no panes here and nothing is carried from one to the next: the groups of a window are
applied to the counters one after the other, and a query's result is read off its own.
"""

from __future__ import annotations

import numpy as np

from kernels.groups import Groups, RowSegments, Spans
from kernels.panes.cpu import Classes, Connections, Cuts
from kernels.product.cpu import Operators
from kernels.product.reference import NEUTRAL, combined, evaluations, multiplied

_FROM_THE_BEGINNING = -(2**62)


def slide_panes(
    groups: Groups,
    operators: Operators,
    connections: Connections,
    classes: Classes,
    cuts: Cuts,
    most_panes: int,
    levels: int,
    safe: int,
    out: RowSegments,
) -> bool:
    """As `kernels.panes.cpu.slide_panes`."""
    for number, (width, slide) in enumerate(zip(classes.width, classes.slide, strict=True)):
        members = _part(classes.member, classes.members, number)
        spans = Spans(np.full(len(members), width), np.full(len(members), slide))
        for r in range(len(groups.run) - 1):
            for window, boundary, asked in evaluations(
                groups, r, 0, _FROM_THE_BEGINNING, lambda _: [], spans
            ):
                counts, values = multiplied(groups, operators, window)
                for q in (int(members[i]) for i in asked):
                    count = sum(counts[c] for c in _part(connections.final, connections.finals, q))
                    if count == 0:
                        continue
                    row = out.end[q]
                    if row == out.room[q]:
                        return False
                    out.end[q] += 1
                    out.group[row] = window[-1]
                    out.boundary[row] = boundary
                    out.counts[row] = count % 2**64
                    if classes.width.max() > safe:
                        out.approximate[row] = float(count)
                    for column, value in enumerate(_values(connections, q, values)):
                        out.values[row, column] = value
    return True


def _values(connections: Connections, q: int, values: list[float]) -> list[float]:
    found = []
    for v in range(int(connections.result[q]), int(connections.result[q + 1])):
        kind = int(connections.result_kind[v])
        total = NEUTRAL[kind]
        for c in _part(connections.part, connections.parts, v):
            total = combined(kind, total, values[c])
        found.append(total)
    return found


def _part(at: np.ndarray, numbers: np.ndarray, i: int) -> np.ndarray:
    return numbers[int(at[i]) : int(at[i + 1])]
