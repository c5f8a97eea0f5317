"""Sums without rounding: doubles as whole numbers of a common unit, cut into digits.

Digits of 26 bits add up in 64-bit integers without overflow for some 10^11 terms, and what was
added can be taken away again exactly, which a running sum of doubles cannot promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.columns.vectors import Array, Vector

Int64s = npt.NDArray[np.int64]
_BITS = 26


@dataclass(frozen=True, eq=False)
class Digits:
    """Numbers as digits: each is `2**exponent * sum(digits[k] * 2**(26 * k))`.

    Infinities have no digits and are counted, the positive and the negative ones.
    """

    digits: list[Int64s]
    exponent: int
    whole: bool  # the numbers are integers
    infinite: tuple[Int64s, Int64s] | None = None

    def columns(self) -> list[Int64s]:
        """Everything that is to be added up."""
        return [*self.digits, *(self.infinite or ())]

    def total(self, sums: list[Int64s]) -> Array:
        """The numbers that sums of the columns stand for: integers exact, doubles rounded once."""
        digits = _carried(sums[: len(self.digits)])
        if self.whole:
            return _whole(digits)
        found = _rounded(digits, self.exponent)
        if self.infinite is not None:
            positive, negative = (s > 0 for s in sums[len(self.digits) :])
            found[positive] = np.inf
            found[negative] = -np.inf
            found[positive & negative] = np.nan
        return found


def digits_of(vector: Vector) -> Digits:
    """A vector of numbers as digits; nulls count as zero."""
    values = vector.values
    if vector.nulls is not None:
        values = np.where(vector.nulls, 0, values)
    if vector.kind == "float":
        return _double_digits(values)
    values = values.astype(np.int64, copy=False)
    digits = []
    while True:
        # The last digit takes the sign with it.
        small = bool(len(values) == 0 or max(abs(int(values.min())), int(values.max())) < 2**_BITS)
        digits.append(values if small else values & (2**_BITS - 1))
        if small:
            return Digits(digits, 0, True)
        values = values >> _BITS


def _double_digits(values: npt.NDArray[np.float64]) -> Digits:
    infinite = None
    if not np.isfinite(values).all():
        infinite = ((values == np.inf).astype(np.int64), (values == -np.inf).astype(np.int64))
        values = np.where(np.isfinite(values), values, 0.0)
    fraction, power = np.frexp(values)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    used = mantissa != 0
    if not used.any():
        return Digits([np.zeros(len(values), np.int64)], 0, False, infinite)
    lowest = mantissa[used] & -mantissa[used]
    exponent = int((power[used] - 53 + np.frexp(lowest.astype(np.float64))[1] - 1).min())
    count = -(-(int(power[used].max()) - exponent) // _BITS)
    digits: list[Int64s] = []
    rest = values
    for k in reversed(range(count)):
        # Exact: the digit's bits are some of the number's own.
        digit = np.trunc(np.ldexp(rest, -(_BITS * k + exponent)))
        rest = rest - np.ldexp(digit, _BITS * k + exponent)
        digits.insert(0, digit.astype(np.int64))
    return Digits(digits, exponent, False, infinite)


def _carried(sums: list[Int64s]) -> list[Int64s]:
    """The same number in digits from 0 to below 2**26, but for the last, which has the sign."""
    carried, carry = [], np.zeros_like(sums[0])
    for term in (*sums, carry, carry):
        digit = term + carry
        carried.append(digit & (2**_BITS - 1))
        carry = digit >> _BITS
    return [*carried, carry]


def _whole(digits: list[Int64s]) -> Array:
    """Integers; as Python objects where 64 bits are not enough."""
    if np.abs(_rounded(digits, 0)).max(initial=0) < 2**62:
        # What overflows on the way cancels out, for the result fits.
        found = np.zeros_like(digits[0])
        for k, digit in enumerate(digits[:3]):
            found = found + (digit << (_BITS * k))
        return found
    total = np.zeros(len(digits[0]), object)
    for k, digit in enumerate(digits):
        total = total + digit.astype(object) * 2 ** (_BITS * k)
    return total


def _rounded(digits: list[Int64s], exponent: int) -> npt.NDArray[np.float64]:
    """The nearest doubles: from the largest digit on 62 bits, and whether anything is below."""
    negative = digits[-1] < 0
    positive = _carried([np.where(negative, -d, d) for d in digits])
    # Three digits of nothing, so that there are four from the largest down.
    table = np.stack([*(np.zeros_like(digits[0]) for _ in range(3)), *positive])
    top = np.full(table.shape[1], 3)
    for k in range(3, len(table)):
        top[table[k] != 0] = k
    column = np.arange(table.shape[1])
    upper = (table[top, column] << _BITS) | table[top - 1, column]
    lower = (table[top - 2, column] << _BITS) | table[top - 3, column]
    room = 62 - _BITS - np.frexp(table[top, column].astype(np.float64))[1]
    bits = (upper << room) | (lower >> (2 * _BITS - room))
    rest = (lower & ((np.int64(1) << (2 * _BITS - room)) - 1)) != 0
    for k in range(len(table)):
        rest |= (k < top - 3) & (table[k] != 0)
    found = (bits | rest).astype(np.float64)
    with np.errstate(over="ignore"):
        # Below the smallest normal double nothing is left to round: all terms are whole there.
        found = np.ldexp(found, exponent + _BITS * (top - 4) - room)
    signed: npt.NDArray[np.float64] = np.where(negative, -found, found)
    return signed
