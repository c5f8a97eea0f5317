"""Sums of stretches of values, each as a few numbers that add up to it exactly.

The sum of doubles is rarely a double. As several of them it is, and then sums of stretches can be
added up, and rounded once, to the very number that adding all values up gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from engines.access.blocks import Int64s, Mask

if TYPE_CHECKING:
    from kernels.folds.cpu import Digits

MAX_PARTS = 3  # of a sum that is stored
_WHOLE = 2**53  # up to which a double has all whole numbers
_LOW_BITS = 30


@dataclass(frozen=True, eq=False)
class StretchSums:
    """By part and stretch what adds up to the sums; of some stretches they may not be `known`."""

    parts: npt.NDArray[Any]  # (part, stretch), of integers or doubles
    known: Mask


def parts_of(sums: Int64s, digits: Digits) -> npt.NDArray[np.float64]:
    """The parts of sums of doubles whose digits are given."""
    found = []
    for number, digit in enumerate(sums):
        power = digits.exponent + digits.bits * number
        halves = [digit]
        if np.abs(digit).max(initial=0) >= _WHOLE:
            low = digit & ((1 << _LOW_BITS) - 1)
            halves = [digit - low, low]
        with np.errstate(over="ignore"):  # who asks looks whether they are finite
            found += [np.ldexp(half.astype(np.float64), power) for half in halves]
    return np.array(found) if found else np.zeros((0, sums.shape[1]))


def joined_parts(several: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The parts of stretches of several tables, one after the other."""
    most = max((len(parts) for parts in several), default=0)
    kind = next((parts.dtype for parts in several if len(parts)), np.dtype(np.float64))
    found: npt.NDArray[Any] = np.zeros((most, sum(parts.shape[1] for parts in several)), kind)
    begin = 0
    for parts in several:
        end = begin + parts.shape[1]
        found[: len(parts), begin:end] = parts
        begin = end
    return found


def stretch_sums(values: npt.NDArray[Any], nulls: Mask, row: Int64s) -> StretchSums:
    """The sums of stretches of integers or doubles; `row` are pointers to values by stretch.

    Sums that are not finite, and those that take too many parts, are not known.
    """
    from kernels.folds import cpu as kernel  # which takes a while, and plans do without

    number = len(row) - 1
    most = int(np.diff(row).max(initial=1))
    if values.dtype == np.int64:
        bound = max(abs(int(v)) for v in (values.min(initial=0), values.max(initial=0)))
        digits = kernel.whole_digits_of(bound, most)
        if digits.limbs > 1:
            return StretchSums(np.zeros((1, number), np.int64), np.zeros(number, bool))
        found = kernel.fold_panes(values, nulls, kernel.NONE, row, digits, False)
        return StretchSums(found.sums, np.ones(number, bool))
    own = _double_sums(values, nulls, row, most)
    if own is not None:
        return own
    # Values are far from each other in size: stretch by stretch they may not be.
    parts, known = np.zeros((MAX_PARTS, number)), np.zeros(number, bool)
    for place, (start, end) in enumerate(itertools.pairwise(row.tolist())):
        one = _double_sums(values[start:end], nulls[start:end], np.array([0, end - start]), most)
        if one is not None:
            parts[: len(one.parts), place], known[place] = one.parts[:, 0], one.known[0]
    return StretchSums(parts, known)


def _double_sums(
    values: npt.NDArray[Any], nulls: Mask, row: Int64s, most: int
) -> StretchSums | None:
    """None where they take too many parts, or are not finite."""
    from kernels.folds import cpu as kernel

    if not np.isfinite(values[~nulls]).all():
        return None
    digits = kernel.digits_of(*kernel.spread(values, nulls, kernel.NONE), most)
    if digits.limbs > MAX_PARTS:
        return None
    folded = kernel.fold_panes(values, nulls, kernel.NONE, row, digits, False)
    parts = parts_of(folded.sums, digits)
    if len(parts) > MAX_PARTS or not np.isfinite(parts).all():
        return None
    return StretchSums(parts, np.ones(len(row) - 1, bool))
