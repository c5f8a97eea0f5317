"""Many conditions on events as look-ups: a value's interval, and what holds in it."""

from __future__ import annotations

import numba
import numpy as np

from kernels.orders.cpu import read_only

_NONE = np.zeros(0, np.bool_)


def find_intervals(
    values: np.ndarray, breaks: np.ndarray, nulls: np.ndarray | None
) -> np.ndarray:  # fmt: skip
    """How many of the sorted breaks are not above each value; one more than all of them for NaN,
    and -1 for null.
    """
    found = np.empty(values.size, np.int32)
    absent = read_only(_NONE if nulls is None else nulls)
    _find_intervals(read_only(values), read_only(breaks), absent, found)
    return found


def join_sets(
    sets: np.ndarray,
    merged: np.ndarray,
    numbers: np.ndarray,
    classes: np.ndarray,
    width: int,
    counts: np.ndarray,
) -> None:
    """Number the pairs of what is known of an event and the class of one more of its attributes.

    A set s becomes `merged[s] * width + classes[number]`, of which there are so many more in
    `counts`; classes are below `width`, and the last of them is that of the number -1.
    """
    _join_sets(sets, merged, read_only(numbers), classes, width, counts)


def rows_in_sets(sets: np.ndarray, wanted: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The places of the sets that are `wanted`, in order; `rows` has room for one more than all."""
    sets = sets.astype(np.int32, copy=False)
    return rows[: _rows_in_sets(read_only(sets), wanted, rows)]


def and_words(words: np.ndarray, numbers: np.ndarray, tables: np.ndarray) -> None:
    """Clear the bits of conditions that do not hold: `words[w, i]` of 64 conditions for event i.

    `tables[w, n]` has the conditions that hold for the number n, the last those for -1.
    """
    _and_words(words, read_only(numbers), tables)


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    one = np.zeros(1, np.int32)
    for kind in (np.int64, np.float64):
        find_intervals(np.zeros(1, kind), np.zeros(1, kind), None)
    join_sets(one.copy(), one, one, one, 1, np.zeros(1, np.int64))
    for rows in (np.zeros(2, np.int32), np.zeros(2, np.int64)):
        rows_in_sets(one, np.ones(1, bool), rows)
    and_words(np.zeros((1, 1), np.uint64), one, np.zeros((1, 1), np.uint64))


@numba.njit(cache=True, nogil=True)
def _find_intervals(
    values: np.ndarray, breaks: np.ndarray, nulls: np.ndarray, found: np.ndarray
) -> None:
    for i in range(values.size):
        value = values[i]
        if nulls.size and nulls[i]:
            found[i] = -1
            continue
        if value != value:
            found[i] = breaks.size + 1
            continue
        # Without branches: whether a value is above a break cannot be foretold.
        first, size = 0, breaks.size
        while size > 1:
            half = size // 2
            first += half * (breaks[first + half - 1] <= value)
            size -= half
        if size:
            first += breaks[first] <= value
        found[i] = first


@numba.njit(cache=True, nogil=True)
def _join_sets(
    sets: np.ndarray, merged: np.ndarray, numbers: np.ndarray, classes: np.ndarray, width: int,
    counts: np.ndarray,
) -> None:  # fmt: skip
    for i in range(sets.size):
        pair = merged[sets[i]] * width + classes[numbers[i]]
        sets[i] = pair
        counts[pair] += 1


@numba.njit(cache=True, nogil=True)
def _rows_in_sets(sets: np.ndarray, wanted: np.ndarray, rows: np.ndarray) -> int:
    # Without branches: of what set an event is cannot be foretold.
    found = 0
    for i in range(sets.size):
        rows[found] = i
        found += wanted[sets[i]]
    return found


@numba.njit(cache=True, nogil=True)
def _and_words(words: np.ndarray, numbers: np.ndarray, tables: np.ndarray) -> None:
    for w in range(words.shape[0]):
        for i in range(numbers.size):
            words[w, i] &= tables[w, numbers[i]]
