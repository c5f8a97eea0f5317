"""The sliding product that goes on as plain Python: each window is multiplied from scratch."""

from __future__ import annotations

import numpy as np

from kernels.kept.cpu import DONE, END, HEAD, NEXT, ROWS, KeptRows, TimedGroups
from kernels.kept.reference import looks_of
from kernels.product import cpu as product
from kernels.product.cpu import Operators
from kernels.product.reference import counted_and_valued, multiplied
from kernels.stacks.cpu import KeptStacks


def advance_stacks(
    groups: TimedGroups, progress: np.ndarray, limit: int, quiet: bool, stacks: KeptStacks,
    back: Operators, front: Operators, readings: np.ndarray, width: int, slide: int, out: KeptRows,
) -> bool:  # fmt: skip
    """As `kernels.stacks.cpu.advance_stacks`, for rows that find room; `stacks` stay."""
    queries = list(range(int(readings[product.PAIRS] - readings[product.PAIR]) - 1))
    first, behind = readings[product.TRIGGER], readings[product.TRIGGERS]
    tables = readings[first:behind], readings[behind:]
    rows = 0
    for place, boundary, q, window in looks_of(
        groups, progress, limit, len(stacks.first), queries, tables, width, slide
    ):
        if quiet:
            break
        count, values = counted_and_valued(readings, q, front, *multiplied(groups, back, window))
        if count:
            out.place[rows], out.boundary[rows], out.query[rows] = place, boundary, q
            out.counts[rows] = count % 2**64
            out.values[rows, : len(values)] = values
            rows += 1
    progress[NEXT], progress[ROWS], progress[DONE] = progress[END], rows, 1
    progress[HEAD] = min(progress[HEAD], progress[END])
    return True
