"""What the kernel for marks gives, in plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from kernels.marks.cpu import Check, Timeline

TESTS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def mark_rows(
    low: np.ndarray,
    high: np.ndarray,
    timelines: Sequence[Timeline],
    checks: Sequence[Check],
    numbers: Sequence[int],
    asked: np.ndarray,
    every: np.ndarray,
) -> tuple[np.ndarray, int]:
    """As `kernels.marks.cpu.mark_rows`, but that every check is made, and every row tried."""
    marks = np.empty((every.size, low.shape[1]), np.uint64)
    tried = 0
    for r in range(low.shape[1]):
        found = []
        for line in timelines:
            inside = (line.place >= low[line.gap, r]) & (line.place < high[line.gap, r])
            found += line.check[inside].tolist()
            tried += line.place.size
        for number, check in zip(numbers, checks, strict=True):
            tried += check.last.size
            if any(_lies(check, k, low[check.gap, r], high[check.gap, r], r)
                   for k in range(check.last.size)):  # fmt: skip
                found.append(number)
        left = [int(word) for word in every]
        for number in found:
            gone = asked[number].tolist()
            left = [word & ~int(each) for word, each in zip(left, gone, strict=True)]
        marks[:, r] = left
    return marks, tried


def _lies(check: Check, k: int, low: int, high: int, r: int) -> bool:
    """Is a row of the negation in a gap of a row, and do the two fit together?"""
    if not low <= check.first[k] <= check.last[k] < high:
        return False
    group = check.group[r] if check.group.size else 0
    if group < 0 or not check.groups[group] <= k < check.groups[group + 1]:
        return False
    pairs = zip(check.tests, check.negated[:, k], check.values[:, r], strict=True)
    return all(
        not math.isnan(one) and not math.isnan(other) and TESTS[test](one, other)
        for test, one, other in pairs
    )
