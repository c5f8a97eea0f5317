"""The reversible product as plain Python: each window multiplied from scratch, nothing undone."""

from __future__ import annotations

import numpy as np

from kernels.groups import Groups, RowSegments, Spans
from kernels.product.reference import evaluations
from kernels.reversible.cpu import Steps


def slide_reversible(
    groups: Groups, begun: np.ndarray, since: np.ndarray, steps: Steps, spans: Spans, wide: bool,
    out: RowSegments,
) -> bool:  # fmt: skip
    """As `kernels.reversible.cpu.slide_reversible`."""

    def triggered(letter: int) -> list[int]:
        found: list[int] = steps.triggers[
            steps.trigger[letter] : steps.trigger[letter + 1]
        ].tolist()
        return found

    for r in range(len(groups.run) - 1):
        for window, boundary, asked in evaluations(
            groups, r, int(begun[r]), int(since[r]), triggered, spans
        ):
            counts = _multiplied(groups, steps, window)
            for q in asked:
                finals = steps.finals[steps.final[q] : steps.final[q + 1]]
                count = sum(counts[i] for i in finals)
                if count == 0:
                    continue
                row = out.end[q]
                if row == out.room[q]:
                    return False
                out.end[q] += 1
                out.group[row], out.counts[row] = window[-1], count % 2**64
                if len(out.boundary):
                    out.boundary[row] = boundary
                if len(out.approximate):
                    out.approximate[row] = float(count % 2 ** (128 if wide else 64))
    return True


def _multiplied(groups: Groups, steps: Steps, window: list[int]) -> list[int]:
    counts = [int(n) for n in steps.start]
    for g in window:
        before = list(counts)
        for letter in groups.move_letter[groups.event[g] : groups.event[g + 1]].tolist():
            first, last = letter * steps.levels, (letter + 1) * steps.levels
            for k in range(steps.arrive[first], steps.arrive[last]):
                counts[steps.arrive_into[k]] += before[steps.arrive_of[k]]
    return counts
