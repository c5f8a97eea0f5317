"""The same as `kernels.folds.cpu`, in plain Python and with fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from kernels.folds.cpu import Digits, PaneFolds
from kernels.panes.cpu import Cuts


def spread(values: np.ndarray, nulls: np.ndarray, source: np.ndarray) -> tuple[float, float]:
    """As `kernels.folds.cpu.spread`."""
    sizes = [abs(float(values[r])) for r in _rows(values, source) if not _is_null(nulls, r)]
    return min((size for size in sizes if size), default=0.0), max(sizes, default=0.0)


def cut_panes(run: np.ndarray, position: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels.folds.cpu.cut_panes`."""
    pane_run: list[int] = []
    row: list[int] = []
    for start, stop in zip(run[:-1].tolist(), run[1:].tolist(), strict=True):
        pane_run.append(len(row))
        before = None
        for r in range(start, stop):
            ends = [_next_cut(int(position[r]), *cut) for cut in zip(*cuts, strict=True)]
            if min(ends) != before:
                row.append(r)
            before = min(ends)
    return np.array([*pane_run, len(row)]), np.array([*row, run[-1]])


def fold_panes(
    values: np.ndarray,
    nulls: np.ndarray,
    source: np.ndarray,
    row: np.ndarray,
    digits: Digits,
    extremes: bool,
) -> PaneFolds:
    """As `kernels.folds.cpu.fold_panes`; digits are those of the sum, and not sums of digits."""
    rows = _rows(values, source)
    number, sums, low, high = [], [], [], []
    for start, stop in zip(row[:-1].tolist(), row[1:].tolist(), strict=True):
        found = [values[r].item() for r in rows[start:stop] if not _is_null(nulls, r)]
        number.append(len(found))
        total = sum(map(Fraction, found), Fraction(0)) / Fraction(2) ** digits.exponent
        assert total.denominator == 1
        whole = [(int(total) >> digits.bits * k) % 2**digits.bits for k in range(digits.limbs)]
        if digits.limbs:
            whole[-1] = int(total) >> digits.bits * (digits.limbs - 1)
        sums.append(whole)
        low.append(min(map(float, found), default=np.inf))
        high.append(max(map(float, found), default=-np.inf))
    table = np.array(sums, np.int64).reshape(len(sums), digits.limbs).T
    none = np.zeros(0)
    ends = (np.array(low), np.array(high)) if extremes else (none, none)
    return PaneFolds(np.array(number, np.int64), table, *ends)


def window_ranges(
    run: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    limit: np.ndarray,
    width: int,
    slide: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.folds.cpu.window_ranges`."""
    found: list[tuple[int, int, int]] = []
    for r in range(len(run) - 1):
        panes = range(run[r], run[r + 1])
        ends = last[panes.start : panes.stop].tolist()
        if slide:
            inside = {b for x in ends for b in range(x, x + width) if b % slide == 0}
            ends = sorted(b for b in inside if b <= limit[r])
        for number, end in enumerate(ends):
            mine = [p for p in panes if end - width < first[p] and last[p] <= end]
            if not slide:
                mine = [p for p in mine if p <= panes[number]]
            found.append((mine[0], mine[-1] + 1, end))
    columns = np.array(found, np.int64).reshape(len(found), 3).T
    return columns[0], columns[1], columns[2] if slide else np.empty(0, np.int64)


def range_extremes(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, largest: bool
) -> np.ndarray:
    """As `kernels.folds.cpu.range_extremes`."""
    best = max if largest else min
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return np.array([best(values[start:stop].tolist()) for start, stop in ranges], np.float64)


def range_distinct(numbers: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """As `kernels.folds.cpu.range_distinct`."""
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    found = [len({n for n in numbers[start:stop].tolist() if n >= 0}) for start, stop in ranges]
    return np.array(found, np.int64)


def rounded_sums(sums: np.ndarray, digits: Digits) -> np.ndarray:
    """As `kernels.folds.cpu.rounded_sums`."""
    unit = Fraction(2) ** digits.exponent
    totals = [
        sum(int(digit) << digits.bits * k for k, digit in enumerate(column)) for column in sums.T
    ]
    return np.array([float(total * unit) for total in totals], np.float64)


def _next_cut(position: int, period: int, phase: int) -> int:
    return int(-((phase - position) // period) * period + phase)


def _rows(values: np.ndarray, source: np.ndarray) -> list[int]:
    return source.tolist() if source.size else list(range(len(values)))


def _is_null(nulls: np.ndarray, row: int) -> bool:
    return bool(nulls.size and nulls[row])
