"""The same as `kernels.starts.cpu`: every window multiplied from scratch."""

from __future__ import annotations

import numpy as np

from kernels.groups import Groups, ResultRows, Spans
from kernels.product.cpu import Operators
from kernels.product.reference import NEUTRAL, combined, evaluations, multiplied
from kernels.starts.cpu import StartReadings

_FROM_THE_BEGINNING = -(2**62)


def count_starts(
    groups: Groups, operators: Operators, readings: StartReadings, dual: bool, out: ResultRows
) -> int:
    """As `kernels.starts.cpu.count_starts`."""
    row = 0
    for q in range(len(readings.width)):
        span = Spans(readings.width[q : q + 1], readings.slide[q : q + 1])

        def triggered(letter: int, q: int = q) -> list[int]:
            return [0] if q in _part(readings.triggered, readings.triggers, letter) else []

        for r in range(len(groups.run) - 1):
            for window, boundary, asked in evaluations(
                groups, r, 0, _FROM_THE_BEGINNING, triggered, span
            ):
                counts, values = multiplied(groups, operators, window)
                count = sum(counts[c] for c in _part(readings.final, readings.finals, q))
                if not asked or count == 0:
                    continue
                if row < len(out.group):
                    out.group[row], out.boundary[row] = window[-1], boundary
                    out.query[row], out.counts[row] = q, count % 2**64
                    if dual:
                        out.approximate[row] = float(count)
                    for column, v in enumerate(range(*readings.result[q : q + 2])):
                        kind = int(readings.result_kind[v])
                        total = NEUTRAL[kind]
                        for c in _part(readings.part, readings.parts, v):
                            total = combined(kind, total, values[c])
                        out.values[row, column] = total
                row += 1
    return row if row <= len(out.group) else -1


def _part(at: np.ndarray, numbers: np.ndarray, i: int) -> list[int]:
    found: list[int] = numbers[int(at[i]) : int(at[i + 1])].tolist()
    return found
