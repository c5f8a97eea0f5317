"""Windows over single events, put together from panes: counts, sums, minima and maxima of columns.

A pane is a stretch of rows between two cuts, or the rows of one moment. One pass folds a column
over its panes, whatever windows are asked for. Windows are ranges of panes: counts and sums are
differences of running totals, minima and maxima come of one pass with a queue that only holds what
may still be the least.

Sums are exact. A double is a whole number of a unit that all values of a column have in common, cut
into digits of so many bits; digits are added up as integers, and what is added can be taken away
again. The sum of a window is rounded once, so that it depends neither on the order of events nor on
how a stream is cut. Digits of a stretch of `BLOCK` rows are added up as doubles, which hold them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from kernels.panes.cpu import Cuts

BLOCK = 1024  # rows whose digits are added up at once
MAX_BITS = 42  # of a digit: a block of them stays below 2^53
_ROUND = 1.5 * 2.0**52  # added and taken away again, it leaves the nearest whole number
NONE = np.zeros(0, np.int64)
NO_NULLS = np.zeros(0, np.bool_)
FAR = 900  # powers of two beyond which a product may leave the doubles


class Digits(NamedTuple):
    """How values of a column are cut: into `limbs` digits of `bits` bits, of units 2^exponent."""

    limbs: int
    bits: int
    exponent: int


class PaneFolds(NamedTuple):
    """What a column comes to in each pane."""

    number: np.ndarray  # int64: values that are there
    sums: np.ndarray  # int64 (digit, pane)
    low: np.ndarray  # float64; infinite where there is none
    high: np.ndarray  # float64; minus infinity where there is none


def digits_of(least: float, largest: float, rows: int) -> Digits:
    """How to cut doubles of which the largest and, but for zero, the least have these sizes."""
    bits = min(MAX_BITS, 62 - max(1, rows).bit_length())
    if largest == 0.0:
        return Digits(1, bits, 0)
    exponent = max(math.frexp(least)[1] - 53, -1074)
    wanted = math.frexp(largest)[1] - exponent
    return Digits(-(-wanted // bits), bits, exponent)


def whole_digits_of(bound: int, rows: int) -> Digits:
    """How to cut integers none of which is larger than `bound`."""
    return Digits(1, 62, 0) if bound * max(1, rows) < 2**62 else Digits(2, 32, 0)


def spread(values: np.ndarray, nulls: np.ndarray, source: np.ndarray) -> tuple[float, float]:
    """The sizes of the least number but zero, and of the largest; 0 where there is none.

    `nulls` may be empty: there are none; `source` too: all rows are meant, in their order.
    """
    least, largest = _spread(values, nulls, source)
    return float(least), float(largest)


def cut_panes(run: np.ndarray, position: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray]:
    """Where panes begin: pointers to them by run, and to rows by pane, both with the end.

    Rows of a run come in the order of their positions.
    """
    room = min(len(position), 1 << 16)
    while True:
        pane_run, row = np.zeros(len(run), np.int64), np.empty(room + 1, np.int64)
        found = int(_cut_panes(run, position, *cuts, pane_run, row))
        if found >= 0:
            return pane_run, row[: found + 1]
        room = min(len(position), 8 * room)


def fold_panes(
    values: np.ndarray,
    nulls: np.ndarray,
    source: np.ndarray,
    row: np.ndarray,
    digits: Digits,
    extremes: bool,
) -> PaneFolds:
    """A column of integers or doubles, folded over panes; `row` are pointers to rows by pane.

    As `spread`. Minima and maxima are left out without `extremes`, sums without any digits.
    """
    panes = len(row) - 1
    found = PaneFolds(
        np.empty(panes, np.int64),
        np.zeros((digits.limbs, panes), np.int64),
        np.full(panes if extremes else 0, np.inf),
        np.full(panes if extremes else 0, -np.inf),
    )
    fold = _fold_integers if values.dtype == np.int64 else _fold_doubles
    fold(values, nulls, source, row, *digits, extremes, *found)
    return found


def window_ranges(
    run: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    limit: np.ndarray,
    width: int,
    slide: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The windows that hold a pane: the first pane of each, the one behind its last, and its end.

    `run` are pointers to panes; `first` and `last` are positions of a pane's first and last row,
    `limit` by run the last boundary that is evaluated. With `slide` 0 each pane, which has one
    position then, is the last of a window; else windows end at multiples of `slide`.
    """
    if slide == 0:
        low, none = np.empty(len(first), np.int64), np.empty(0, np.int64)
        _trigger_ranges(run, first, width, low)
        return low, np.arange(1, len(first) + 1), none
    size = int(_slide_ranges(run, first, last, limit, width, slide, NONE, NONE, NONE))
    found = tuple(np.empty(size, np.int64) for _ in range(3))
    _slide_ranges(run, first, last, limit, width, slide, *found)
    return found  # type: ignore[return-value]


def range_extremes(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, largest: bool
) -> np.ndarray:
    """The least or the largest value of each range; both ends of ranges only go up."""
    found = np.empty(len(low))
    _range_extremes(values, low, high, -1.0 if largest else 1.0, found)
    return found


def range_distinct(numbers: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many distinct numbers from 0 on each range has; both ends of ranges only go up."""
    found = np.empty(len(low), np.int64)
    most = int(numbers.max()) + 1 if len(numbers) else 0
    _range_distinct(numbers, low, high, np.zeros(most, np.int64), found)
    return found


def rounded_sums(sums: np.ndarray, digits: Digits) -> np.ndarray:
    """The doubles nearest to numbers whose digits are given, (digit, number)."""
    found = np.empty(sums.shape[1])
    _rounded_sums(sums, digits.bits, digits.exponent, found)
    return found


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    run, cuts = np.array([0, 1]), Cuts(np.ones(1, np.int64), np.zeros(1, np.int64))
    _, row = cut_panes(run, run[:1], cuts)
    for values in (np.ones(1), np.ones(1, np.int64)):
        digits = digits_of(*spread(np.ones(1), NO_NULLS, NONE), 1)
        found = fold_panes(values, NO_NULLS, NONE, row, digits, True)
    for slide in (0, 1):
        low, high, _ = window_ranges(run, run[:1], run[:1], run[:1], 1, slide)
    range_extremes(found.low, low, high, False)
    range_distinct(np.zeros(1, np.int64), low, high)
    rounded_sums(found.sums, digits)


@numba.njit(cache=True, nogil=True)
def _spread(values: np.ndarray, nulls: np.ndarray, source: np.ndarray) -> tuple[float, float]:
    least, largest = np.inf, 0.0
    for i in range(source.size if source.size else values.size):
        r = source[i] if source.size else i
        size = abs(values[r])
        if nulls.size and nulls[r]:
            size = 0.0
        largest = size if size > largest else largest
        size = np.inf if size == 0.0 else size
        least = size if size < least else least
    return (0.0 if largest == 0.0 else least), largest


@numba.njit(cache=True, nogil=True)
def _cut_panes(
    run: np.ndarray, position: np.ndarray, period: np.ndarray, phase: np.ndarray,
    pane_run: np.ndarray, row: np.ndarray,
) -> int:  # fmt: skip
    """How many panes there are, or -1 where there is no room for them."""
    found = 0
    cuts = np.empty(period.size, np.int64)
    for r in range(run.size - 1):
        pane_run[r] = found
        g, last = run[r], run[r + 1]
        for i in range(period.size):
            cuts[i] = np.iinfo(np.int64).min
        while g < last:
            stop = np.iinfo(np.int64).max
            for i in range(period.size):
                if cuts[i] < position[g]:
                    cuts[i] = -((phase[i] - position[g]) // period[i]) * period[i] + phase[i]
                stop = min(stop, cuts[i])
            if found + 1 >= row.size:
                return -1
            row[found] = g
            found += 1
            # The first row behind the cut: in steps that double, and then by halves.
            step = 1
            while g + step < last and position[g + step] <= stop:
                g += step
                step *= 2
            end = min(last, g + step)
            while g + 1 < end:
                middle = (g + end) // 2
                if position[middle] <= stop:
                    g = middle
                else:
                    end = middle
            g += 1
    pane_run[run.size - 1] = found
    row[found] = run[run.size - 1]
    return found


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _total(values: np.ndarray, size: int) -> float:
    """A sum that is exact in any order."""
    total = 0.0
    for i in range(size):
        total += values[i]
    return total


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _least(values: np.ndarray, size: int, sign: float) -> float:
    """The least value, or with a negative sign the largest, which comes with its sign changed."""
    found = np.inf
    if sign > 0:
        for i in range(size):
            found = values[i] if values[i] < found else found
        return found
    found = -np.inf
    for i in range(size):
        found = values[i] if values[i] > found else found
    return found


@numba.njit(cache=True, nogil=True)
def _digits(block: np.ndarray, size: int, up: float, down: float, digits: np.ndarray) -> None:
    """Of each number the digit from a unit on; the number keeps what is left."""
    for i in range(size):
        digit = (block[i] * up + _ROUND) - _ROUND
        block[i] -= digit * down
        digits[i] = digit


@numba.njit(cache=True, nogil=True)
def _far_digits(block: np.ndarray, size: int, power: int, digits: np.ndarray) -> None:
    """The same for units whose inverse is no double."""
    for i in range(size):
        digit = (math.ldexp(block[i], -power) + _ROUND) - _ROUND
        if abs(math.ldexp(digit, power)) == np.inf:  # rounded up, beyond the largest double
            digit -= math.copysign(1.0, digit)
        block[i] -= math.ldexp(digit, power)
        digits[i] = digit


@numba.njit(cache=True, nogil=True)
def _fold_doubles(
    values: np.ndarray, nulls: np.ndarray, source: np.ndarray, row: np.ndarray, limbs: int,
    bits: int, exponent: int, extremes: bool, number: np.ndarray, sums: np.ndarray,
    lows: np.ndarray, highs: np.ndarray,
) -> None:  # fmt: skip
    block, digits = np.empty(BLOCK), np.empty(BLOCK)
    for p in range(row.size - 1):
        count = row[p + 1] - row[p]
        low, high = np.inf, -np.inf
        start = row[p]
        while start < row[p + 1]:
            size = min(BLOCK, row[p + 1] - start)
            if nulls.size:
                kept = 0
                for i in range(start, start + size):
                    r = source[i] if source.size else i
                    block[kept] = values[r]
                    kept += not nulls[r]
                count -= size - kept
            elif source.size:
                kept = size
                for i in range(size):
                    block[i] = values[source[start + i]]
            else:
                kept = size
                for i in range(size):
                    block[i] = values[start + i]
            if extremes:
                low = min(low, _least(block, kept, 1.0))
                high = max(high, _least(block, kept, -1.0))
            for k in range(limbs - 1, -1, -1):
                power = exponent + bits * k
                if abs(power) < FAR:
                    _digits(block, kept, 2.0**-power, 2.0**power, digits)
                else:
                    _far_digits(block, kept, power, digits)
                sums[k, p] += np.int64(_total(digits, kept))
            start += size
        number[p] = count
        if extremes:
            lows[p], highs[p] = low, high


@numba.njit(cache=True, nogil=True)
def _fold_integers(
    values: np.ndarray, nulls: np.ndarray, source: np.ndarray, row: np.ndarray, limbs: int,
    bits: int, exponent: int, extremes: bool, number: np.ndarray, sums: np.ndarray,
    lows: np.ndarray, highs: np.ndarray,
) -> None:  # fmt: skip
    block = np.empty(BLOCK, np.int64)
    for p in range(row.size - 1):
        count = row[p + 1] - row[p]
        low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        start = row[p]
        while start < row[p + 1]:
            size = min(BLOCK, row[p + 1] - start)
            kept = 0
            if nulls.size:
                for i in range(start, start + size):
                    r = source[i] if source.size else i
                    block[kept] = values[r]
                    kept += not nulls[r]
                count -= size - kept
            else:
                kept = size
                for i in range(size):
                    block[i] = values[source[start + i] if source.size else start + i]
            if extremes:
                for i in range(kept):
                    low, high = min(low, block[i]), max(high, block[i])
            if limbs == 1:
                for i in range(kept):
                    sums[0, p] += block[i]
            elif limbs == 2:
                for i in range(kept):
                    sums[0, p] += block[i] & ((1 << bits) - 1)
                    sums[1, p] += block[i] >> bits
            start += size
        number[p] = count
        if extremes and count:
            lows[p], highs[p] = low, high


@numba.njit(cache=True, nogil=True)
def _trigger_ranges(run: np.ndarray, position: np.ndarray, width: int, low: np.ndarray) -> None:
    for r in range(run.size - 1):
        head = run[r]
        for p in range(run[r], run[r + 1]):
            while position[head] <= position[p] - width:
                head += 1
            low[p] = head


@numba.njit(cache=True, nogil=True)
def _slide_ranges(
    run: np.ndarray, first: np.ndarray, last: np.ndarray, limit: np.ndarray, width: int, slide: int,
    lows: np.ndarray, highs: np.ndarray, boundaries: np.ndarray,
) -> int:  # fmt: skip
    """How many windows there are; they are written where there is room for any."""
    found = 0
    for r in range(run.size - 1):
        low = high = run[r]
        end = run[r + 1]
        if low == end:
            continue
        boundary = -(-first[low] // slide) * slide
        while boundary <= limit[r]:
            while high < end and last[high] <= boundary:
                high += 1
            while low < high and first[low] <= boundary - width:
                low += 1
            if low == high:  # an empty window: on to the next pane, if there is one
                if high == end:
                    break
                boundary = -(-first[high] // slide) * slide
                continue
            if lows.size:
                lows[found], highs[found], boundaries[found] = low, high, boundary
            found += 1
            boundary += slide
    return found


@numba.njit(cache=True, nogil=True)
def _range_extremes(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, sign: float, found: np.ndarray
) -> None:
    if not low.size:
        return
    queue = np.empty(values.size, np.int64)  # places of values, each less than those behind it
    head = tail = 0
    taken = low[0]
    for w in range(low.size):
        taken = max(taken, low[w])
        while taken < high[w]:
            while tail > head and sign * values[queue[tail - 1]] >= sign * values[taken]:
                tail -= 1
            queue[tail] = taken
            tail += 1
            taken += 1
        while head < tail and queue[head] < low[w]:
            head += 1
        found[w] = values[queue[head]]


@numba.njit(cache=True, nogil=True)
def _range_distinct(
    numbers: np.ndarray, low: np.ndarray, high: np.ndarray, held: np.ndarray, found: np.ndarray
) -> None:
    """`held` is how often the range so far has each number."""
    first = behind = distinct = 0
    for w in range(low.size):
        while behind < high[w]:
            number = numbers[behind]
            if number >= 0:
                distinct += held[number] == 0
                held[number] += 1
            behind += 1
        while first < low[w]:
            number = numbers[first]
            if number >= 0:
                held[number] -= 1
                distinct -= held[number] == 0
            first += 1
        found[w] = distinct


@numba.njit(cache=True, nogil=True)
def _rounded_sums(sums: np.ndarray, bits: int, exponent: int, found: np.ndarray) -> None:
    limbs = sums.shape[0]
    places = limbs + 63 // bits + 2
    digits = np.empty(places, np.int64)
    mask = (1 << bits) - 1
    for n in range(found.size):
        if limbs == 1:
            found[n] = math.ldexp(float(sums[0, n]), exponent)
            continue
        # The same number in digits from 0 to below 2^bits, with a sign of its own.
        for sign in (1, -1):
            carry = np.int64(0)
            for k in range(places):
                digit = carry + (sign * sums[k, n] if k < limbs else 0)
                digits[k] = digit & mask
                carry = digit >> bits
            if carry == 0:
                break
        top = places - 1
        while top > 0 and digits[top] == 0:
            top -= 1
        # The first bits from the top, as many as surely are more than a double has, and whether
        # anything is below them.
        taken = digits[top]
        k = top - 1
        while k >= 0 and taken < 1 << (62 - bits):
            taken = (taken << bits) | digits[k]
            k -= 1
        power = exponent + bits * (k + 1)
        if k >= 0:
            room = 0
            while taken < 1 << 61:
                taken <<= 1
                room += 1
            taken |= digits[k] >> (bits - room)
            power -= room
            rest = digits[k] & ((1 << (bits - room)) - 1)
            k -= 1
            while k >= 0 and rest == 0:
                rest = digits[k]
                k -= 1
            taken |= rest != 0
        found[n] = math.ldexp(sign * float(taken), power)
