"""Which of some names each text of a column is, read from the column's own bytes."""

from __future__ import annotations

import numba
import numpy as np

_BITS = 12  # of a text's digest


def number_texts(
    offsets: np.ndarray,
    data: np.ndarray,
    name_offsets: np.ndarray,
    name_data: np.ndarray,
    numbers: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the number of the name that each text is, 0 for none.

    Text i is `data[offsets[i] : offsets[i + 1]]`; names, which differ from one another, likewise.
    """
    _number_texts(offsets, data, name_offsets, name_data, numbers, out)


@numba.njit(cache=True)
def _digest(data: np.ndarray, start: int, stop: int) -> np.uint64:
    """From the length, the first and the last two bytes: most texts are told apart by these."""
    found = np.uint64(stop - start) << np.uint64(24)
    if stop - start > 1:
        found ^= np.uint64(data[stop - 2]) << np.uint64(8)
    if stop - start > 0:
        found ^= np.uint64(data[start]) << np.uint64(16) ^ np.uint64(data[stop - 1])
    return (found * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _BITS)


@numba.njit(cache=True)
def _number_texts(
    offsets: np.ndarray, data: np.ndarray, name_offsets: np.ndarray, name_data: np.ndarray,
    numbers: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    first = np.full(1 << _BITS, -1, np.int32)  # the first name of each digest, and the next ones
    following = np.empty(numbers.size, np.int32)
    for n in range(numbers.size):
        at = _digest(name_data, name_offsets[n], name_offsets[n + 1])
        following[n] = first[at]
        first[at] = n
    for i in range(out.size):
        start, stop = offsets[i], offsets[i + 1]
        n = first[_digest(data, start, stop)]
        found = 0
        while n >= 0:
            low = name_offsets[n]
            same = name_offsets[n + 1] - low == stop - start
            if same:
                for k in range(stop - start):
                    if data[start + k] != name_data[low + k]:
                        same = False
                        break
            if same:
                found = numbers[n]
                break
            n = following[n]
        out[i] = found
