"""Which of some names each text of a column is, read from the column's own bytes."""

from __future__ import annotations

import sys

import numba
import numpy as np

_BITS = 12  # of a text's digest
_WORD = 8  # bytes


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
    short = numbers.size == 0 or int(np.diff(name_offsets).max()) <= _WORD
    if short and sys.byteorder == "little":
        words = data[: data.size // _WORD * _WORD].view(np.uint64)
        slots = np.zeros(1 << _BITS, np.uint8)
        keys = np.zeros(numbers.size + 1, np.uint64)
        lengths = np.full(numbers.size + 1, -1, np.int64)
        table = np.zeros(numbers.size + 1, np.int64)
        if _hash_names(name_offsets, name_data, numbers, slots, keys, lengths, table):
            _number_short(offsets, data, words, slots, keys, lengths, table, out)
            return
    _number_texts(offsets, data, name_offsets, name_data, numbers, out)


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    one, found = np.ones(1, np.int64), np.zeros(1, np.int32)
    for width in (np.int32, np.int64):
        for name in (b"short", b"longer than a word"):
            data = np.frombuffer(name, np.uint8)
            ends = np.array([0, len(name)])
            number_texts(ends.astype(width), data.copy(), ends, data, one, found)


@numba.njit(cache=True, inline="always")
def _slot(key: np.uint64, length: int) -> np.uint64:
    mixed = (key + np.uint64(length)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed >> np.uint64(64 - _BITS)


@numba.njit(cache=True, inline="always")
def _bytes_as_word(data: np.ndarray, start: int, length: int) -> np.uint64:
    found = np.uint64(0)
    for k in range(length):
        found |= np.uint64(data[start + k]) << np.uint64(8 * k)
    return found


@numba.njit(nogil=True, cache=True)
def _hash_names(
    name_offsets: np.ndarray, name_data: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
    keys: np.ndarray, lengths: np.ndarray, table: np.ndarray,
) -> bool:  # fmt: skip
    """Enter names of at most a word into a table; False where two would share a slot."""
    if numbers.size > 255:
        return False
    for n in range(numbers.size):
        start, length = name_offsets[n], name_offsets[n + 1] - name_offsets[n]
        key = _bytes_as_word(name_data, start, length)
        slot = _slot(key, length)
        if slots[slot]:
            return False
        slots[slot] = n + 1
        keys[n + 1], lengths[n + 1], table[n + 1] = key, length, numbers[n]
    return True


@numba.njit(nogil=True, cache=True)
def _number_short(
    offsets: np.ndarray, data: np.ndarray, words: np.ndarray, slots: np.ndarray, keys: np.ndarray,
    lengths: np.ndarray, table: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    # No branch depends on what a text is: types come in no order that could be foreseen.
    masks = np.zeros(_WORD + 1, np.uint64)
    for length in range(1, _WORD + 1):
        masks[length] = ~np.uint64(0) >> np.uint64(8 * (_WORD - length))
    last = words.size - 1
    for i in range(out.size):
        start = offsets[i]
        length = offsets[i + 1] - start
        word = np.uint64(start) >> np.uint64(3)
        if word < last:
            shift = np.uint64(8) * (np.uint64(start) & np.uint64(7))
            key = words[word] >> shift
            # Shifted twice, as a shift by all of a word's bits is none.
            key |= words[word + np.uint64(1)] << (np.uint64(63) - shift) << np.uint64(1)
            key &= masks[min(length, _WORD)]
        else:
            key = _bytes_as_word(data, start, min(length, _WORD))
        n = slots[_slot(key, length)]
        same = (keys[n] == key) & (lengths[n] == length)
        out[i] = table[n] * same


@numba.njit(cache=True)
def _digest(data: np.ndarray, start: int, stop: int) -> np.uint64:
    """From the length, the first and the last two bytes: most texts are told apart by these."""
    found = np.uint64(stop - start) << np.uint64(24)
    if stop - start > 1:
        found ^= np.uint64(data[stop - 2]) << np.uint64(8)
    if stop - start > 0:
        found ^= np.uint64(data[start]) << np.uint64(16) ^ np.uint64(data[stop - 1])
    return (found * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _BITS)


@numba.njit(nogil=True, cache=True)
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
