"""Values beside counts: sums, numbers, minima and maxima, and what they are made of."""

from __future__ import annotations

import numba
import numpy as np

SUM, NUMBER, MIN, MAX = 0, 1, 2, 3  # kinds of value counters


@numba.njit(cache=True, inline="always")
def combine(kind: int, a: float, b: float) -> float:
    if kind == MIN:
        return min(a, b)
    if kind == MAX:
        return max(a, b)
    return a + b


@numba.njit(cache=True, inline="always")
def neutral(kind: int) -> float:
    if kind == MIN:
        return np.inf
    if kind == MAX:
        return -np.inf
    return 0.0


@numba.njit(cache=True, inline="always")
def times(a: float, b: float) -> float:
    """Their product, nothing where one is nothing: a count past 2^1024 is infinite."""
    return 0.0 if a == 0.0 or b == 0.0 else a * b


@numba.njit(cache=True)
def term(kind: int, x: float, count: float) -> float:
    """What one use of an event adds to a value counter, for `count` partial matches before it."""
    if np.isnan(x):
        return neutral(kind)
    if kind == SUM:
        return times(x, count)
    if kind == NUMBER:
        return count
    return x if count > 0 else neutral(kind)
