"""Rows in the order of their keys: numbers of combined keys, a counting sort, and blocks of
simultaneous rows.
"""

from __future__ import annotations

import numba
import numpy as np

_NO_SEQUENCE = np.zeros(0, np.int64)


def read_only(values: np.ndarray) -> np.ndarray:
    """The array as one that is not written to: kernels are compiled for such alone."""
    seen = np.ascontiguousarray(values).view()
    seen.flags.writeable = False
    return seen


def number_pairs(
    first: np.ndarray, second: np.ndarray, firsts: int, seconds: int
) -> tuple[np.ndarray, int]:
    """Numbers of pairs of codes in the order in which they come, and how many there are.

    Codes are below `firsts` and `seconds`; -1, on either side, gives -1.
    """
    table = np.full(firsts * seconds, -1, np.int32)
    numbers = np.empty(first.size, np.int32)
    return numbers, int(_number_pairs(read_only(first), read_only(second), seconds, table, numbers))


def sort_by_code(codes: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that have a code, by code and in their order; where those of each code begin.

    Codes are below `number`, -1 is none; codes that no row has are left out of the starts.
    """
    codes = read_only(codes)
    counts = np.zeros(number + 1, np.int64)
    _count(codes, counts)
    order = np.empty(int(counts[:number].sum()), np.int64)
    starts = np.empty(int(np.count_nonzero(counts[:number])) + 1, np.int64)
    _scatter(codes, counts, order, starts)
    return order, starts


def cut_order(
    order: np.ndarray, starts: np.ndarray, low: int, high: int
) -> tuple[np.ndarray, np.ndarray]:
    """An order and its starts without the rows below `low` and from `high` on, numbered from `low`.

    Within a partition no such row stands between two others.
    """
    order, starts = read_only(order), read_only(starts)
    ends = np.empty((2, starts.size - 1), np.int64)
    rows, partitions = _range_in_each(order, starts, low, high, ends)
    cut = np.empty(rows, np.int64)
    begins = np.empty(partitions + 1, np.int64)
    _copy_ranges(order, ends, low, cut, begins)
    return cut, begins


def find_blocks(
    order: np.ndarray, starts: np.ndarray, ticks: np.ndarray, sequence: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The partition and the time of each row of an order, the first row of its block, and the first
    behind its block.

    Simultaneous rows of a partition are a block; blocks have an entry for the row behind the last.
    """
    size = order.size
    partition, times = np.empty(size, np.int64), np.empty(size, np.int64)
    block, after = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    numbered = _NO_SEQUENCE if sequence is None else sequence
    order, starts, ticks, numbered = map(read_only, (order, starts, ticks, numbered))
    is_numbered = sequence is not None
    _find_blocks(order, starts, ticks, numbered, is_numbered, partition, times, block, after)
    return partition, times, block, after


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    one = np.zeros(1, np.int32)
    codes, number = number_pairs(one, one, 1, 1)
    order, starts = sort_by_code(codes, number)
    order, starts = cut_order(order, starts, 0, 1)
    find_blocks(order, starts, np.zeros(1, np.int64), None)


@numba.njit(cache=True, nogil=True)
def _number_pairs(
    first: np.ndarray, second: np.ndarray, seconds: int, table: np.ndarray, numbers: np.ndarray
) -> int:
    found = 0
    for i in range(first.size):
        if first[i] < 0 or second[i] < 0:
            numbers[i] = -1
            continue
        place = np.int64(first[i]) * seconds + second[i]
        if table[place] < 0:
            table[place] = found
            found += 1
        numbers[i] = table[place]
    return found


@numba.njit(cache=True, nogil=True)
def _count(codes: np.ndarray, counts: np.ndarray) -> None:
    for i in range(codes.size):
        counts[codes[i]] += 1  # -1 is the last


@numba.njit(cache=True, nogil=True)
def _scatter(
    codes: np.ndarray, counts: np.ndarray, order: np.ndarray, starts: np.ndarray
) -> None:  # fmt: skip
    """`counts` become the place of the next row of each code."""
    total, partition = 0, 0
    for code in range(counts.size - 1):
        if counts[code]:
            starts[partition] = total
            partition += 1
        total, counts[code] = total + counts[code], total
    starts[partition] = total
    for i in range(codes.size):
        code = codes[i]
        if code >= 0:
            order[counts[code]] = i
            counts[code] += 1


@numba.njit(cache=True, nogil=True)
def _range_in_each(
    order: np.ndarray, starts: np.ndarray, low: int, high: int, ends: np.ndarray
) -> tuple[int, int]:
    rows, partitions = 0, 0
    for p in range(starts.size - 1):
        for side in range(2):
            wanted = low if side == 0 else high
            first, last = starts[p], starts[p + 1]
            while first < last:
                middle = (first + last) // 2
                if order[middle] < wanted:
                    first = middle + 1
                else:
                    last = middle
            ends[side, p] = first
        rows += ends[1, p] - ends[0, p]
        partitions += ends[1, p] > ends[0, p]
    return rows, partitions


@numba.njit(cache=True, nogil=True)
def _copy_ranges(
    order: np.ndarray, ends: np.ndarray, low: int, cut: np.ndarray, begins: np.ndarray
) -> None:
    place, partition = 0, 0
    for p in range(ends.shape[1]):
        if ends[0, p] < ends[1, p]:
            begins[partition] = place
            partition += 1
        for row in range(ends[0, p], ends[1, p]):
            cut[place] = order[row] - low
            place += 1
    begins[partition] = place


@numba.njit(cache=True, nogil=True)
def _find_blocks(
    order: np.ndarray, starts: np.ndarray, ticks: np.ndarray, sequence: np.ndarray,
    has_sequence: bool, partition: np.ndarray, times: np.ndarray, block: np.ndarray,
    after: np.ndarray,
) -> None:  # fmt: skip
    size = order.size
    for p in range(starts.size - 1):
        first = starts[p]
        before = order[first]
        for row in range(starts[p], starts[p + 1]):
            here = order[row]
            partition[row] = p
            times[row] = ticks[here]
            if ticks[here] != ticks[before] or (
                has_sequence and sequence[here] != sequence[before]
            ):
                for earlier in range(first, row):
                    after[earlier] = row
                first = row
            block[row] = first
            before = here
        for earlier in range(first, starts[p + 1]):
            after[earlier] = starts[p + 1]
    block[size] = size
    after[size] = size
