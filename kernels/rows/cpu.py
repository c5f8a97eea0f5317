"""The order of rows by numbers, and texts of rows put together from those of their columns."""

from __future__ import annotations

import numba
import numpy as np

_BITS = 11  # of a digit: its counters fit into the first-level cache
_DIGIT = (1 << _BITS) - 1


def sort_places(keys: np.ndarray, places: np.ndarray) -> None:
    """Put places in the ascending order of their keys, those of one key as they are.

    Keys are not negative; `keys[p]` is that of place p. A radix sort from the last digit on.
    """
    if not _is_sorted(keys, places):
        _sort_places(keys, places, np.empty_like(places))


def add_lengths(offsets: np.ndarray, which: np.ndarray, lengths: np.ndarray) -> None:
    """Add to each row's length that of its text: number `which[row]`, none where it is negative."""
    _add_lengths(offsets, which, lengths)


def put_texts(
    offsets: np.ndarray, data: np.ndarray, which: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    """Write each row's text to `out` at `ends[row]`, and move that behind it."""
    _put_texts(offsets, data, which, ends, out)


def add_digits(
    numbers: np.ndarray, wanted: np.ndarray, suffix: np.ndarray, lengths: np.ndarray
) -> None:
    """Add to each wanted row's length that of its number in digits, and of a suffix."""
    _add_digits(numbers, wanted, suffix, lengths)


def put_digits(
    numbers: np.ndarray, wanted: np.ndarray, suffix: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    """Write each wanted row's number and the suffix to `out` at `ends[row]`, and move that."""
    _put_digits(numbers, wanted, suffix, ends, out)


def sort_ties(
    offsets: np.ndarray,
    data: np.ndarray,
    which: np.ndarray,
    behind: int,
    places: np.ndarray,
    ties: np.ndarray,
) -> None:
    """Put places that tie with the next, as `ties` say, in the order of their texts' bytes.

    Place p has text number `which[p]`, and the byte `behind` follows it; -1: none does. What still
    ties after that is left in `ties`; those that do stay as they are.
    """
    _sort_ties(offsets, data, which, behind, places, ties)


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    sort_places(np.array([1, 0]), np.arange(2, dtype=np.int32))
    # What is read is read only.
    data, out = np.frombuffer(b"a", np.uint8), np.zeros(8, np.uint8)
    which, numbers = np.frombuffer(bytes(4), np.int32), np.frombuffer(bytes(8), np.int64)
    wanted = np.frombuffer(b"\1", np.bool_)
    for width in (np.int32, np.int64):
        offsets = np.frombuffer(np.array([0, 1], width).tobytes(), width)
        add_lengths(offsets, which, np.zeros(1, np.int64))
        put_texts(offsets, data, which, np.zeros(1, np.int64), out)
        sort_ties(offsets, data, which, -1, np.zeros(1, np.int32), np.zeros(0, np.bool_))
    add_digits(numbers, wanted, data, np.zeros(1, np.int64))
    put_digits(numbers, wanted, data, np.zeros(1, np.int64), out)


@numba.njit(cache=True, nogil=True)
def _is_sorted(keys: np.ndarray, places: np.ndarray) -> bool:
    i = 1
    while i < places.size and keys[places[i - 1]] <= keys[places[i]]:
        i += 1
    return bool(i >= places.size)


@numba.njit(cache=True, nogil=True)
def _sort_places(keys: np.ndarray, places: np.ndarray, spare: np.ndarray) -> None:
    varied = np.int64(0)
    for i in range(1, places.size):
        varied |= keys[places[i]] ^ keys[places[0]]
    starts = np.empty(_DIGIT + 1, np.int64)
    given, taken = places, spare
    shift, swapped = 0, False
    while varied >> shift:
        if (varied >> shift) & _DIGIT:
            starts[:] = 0
            for i in range(given.size):
                starts[(keys[given[i]] >> shift) & _DIGIT] += 1
            total = 0
            for digit in range(_DIGIT + 1):
                count = starts[digit]
                starts[digit] = total
                total += count
            for i in range(given.size):
                place = given[i]
                digit = (keys[place] >> shift) & _DIGIT
                taken[starts[digit]] = place
                starts[digit] += 1
            given, taken = taken, given
            swapped = not swapped
        shift += _BITS
    if swapped:
        places[:] = given


@numba.njit(cache=True, nogil=True)
def _add_lengths(offsets: np.ndarray, which: np.ndarray, lengths: np.ndarray) -> None:
    for row in range(which.size):
        text = which[row]
        if text >= 0:
            lengths[row] += offsets[text + 1] - offsets[text]


@numba.njit(cache=True, nogil=True)
def _put_texts(
    offsets: np.ndarray, data: np.ndarray, which: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    for row in range(which.size):
        text = which[row]
        if text >= 0:
            start, size, end = offsets[text], offsets[text + 1] - offsets[text], ends[row]
            for k in range(size):
                out[end + k] = data[start + k]
            ends[row] = end + size


@numba.njit(cache=True, nogil=True, inline="always")
def _digits(number: np.int64) -> tuple[np.uint64, int]:
    """The size of a number, and how many characters it takes."""
    length = 1
    if number < 0:
        size = np.uint64(0) - np.uint64(number)
        length = 2
    else:
        size = np.uint64(number)
    rest = size
    while rest >= np.uint64(10):
        rest //= np.uint64(10)
        length += 1
    return size, length


@numba.njit(cache=True, nogil=True)
def _add_digits(
    numbers: np.ndarray, wanted: np.ndarray, suffix: np.ndarray, lengths: np.ndarray
) -> None:
    for row in range(numbers.size):
        if wanted[row]:
            lengths[row] += _digits(numbers[row])[1] + suffix.size


@numba.njit(cache=True, nogil=True)
def _put_digits(
    numbers: np.ndarray, wanted: np.ndarray, suffix: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    for row in range(numbers.size):
        if not wanted[row]:
            continue
        rest, length = _digits(numbers[row])
        end = ends[row]
        if numbers[row] < 0:
            out[end] = 45
        at = end + length - 1
        while rest >= np.uint64(10):
            out[at] = np.uint8(48 + rest % np.uint64(10))
            rest //= np.uint64(10)
            at -= 1
        out[at] = np.uint8(48 + rest)
        end += length
        for k in range(suffix.size):
            out[end + k] = suffix[k]
        ends[row] = end + suffix.size


@numba.njit(cache=True, nogil=True)
def _compared(
    offsets: np.ndarray, data: np.ndarray, which: np.ndarray, behind: int, one: int, other: int
) -> int:
    """Below, at or above zero as the text of one place is less than, equal to or above another."""
    a, b = which[one], which[other]
    if a == b:
        return 0
    start, size = offsets[a], offsets[a + 1] - offsets[a]
    other_start, other_size = offsets[b], offsets[b + 1] - offsets[b]
    for k in range(min(size, other_size)):
        difference = np.int64(data[start + k]) - np.int64(data[other_start + k])
        if difference:
            return int(difference)
    if size < other_size:
        return int(behind - np.int64(data[other_start + size]))
    if size > other_size:
        return int(np.int64(data[start + other_size]) - behind)
    return 0


@numba.njit(cache=True, nogil=True)
def _sort_ties(
    offsets: np.ndarray, data: np.ndarray, which: np.ndarray, behind: int, places: np.ndarray,
    ties: np.ndarray,
) -> None:  # fmt: skip
    """By merging ever longer runs; two that are in order already are left."""
    spare = np.empty_like(places)
    first = 0
    while first < ties.size:
        if not ties[first]:
            first += 1
            continue
        end = first + 1
        while end < places.size and ties[end - 1]:
            end += 1
        width = 1
        while width < end - first:
            for low in range(first, end - width, 2 * width):
                middle, high = low + width, min(low + 2 * width, end)
                last, next_one = places[middle - 1], places[middle]
                if _compared(offsets, data, which, behind, last, next_one) <= 0:
                    continue
                spare[low:high] = places[low:high]
                left, right = low, middle
                for at in range(low, high):
                    if right == high or (
                        left < middle
                        and _compared(offsets, data, which, behind, spare[left], spare[right]) <= 0
                    ):
                        places[at] = spare[left]
                        left += 1
                    else:
                        places[at] = spare[right]
                        right += 1
            width *= 2
        for at in range(first, end - 1):
            ties[at] = _compared(offsets, data, which, behind, places[at], places[at + 1]) == 0
        first = end
