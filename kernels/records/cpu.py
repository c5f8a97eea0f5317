"""Avro's binary records, read into columns by a small program for each schema.

A program has a step for each thing that lies in a record, one after the other: what it is, the
column that it goes to (-1 for none), and a number. A union jumps to the steps of its branch, and
the steps between BLOCK and AGAIN are done for each item of an array or a map.
"""

from __future__ import annotations

import numba
import numpy as np

# A step's kind. Its number is: of BYTES_OF the length, of UNION where its targets begin (the first
# is how many there are), of JUMP the step to go on with, of BLOCK that behind its AGAIN, and of
# AGAIN the BLOCK.
LONG, DOUBLE, FLOAT, BOOL, TEXT, BYTES_OF, UNION, JUMP, HERE, BLOCK, AGAIN = range(11)
MAX_DEPTH = 32  # of blocks in blocks
LARGEST = 2**63 - 1
# What is wrong with a record.
GOOD, TORN, NO_BRANCH, TOO_LONG, NO_LENGTH, MORE = range(6)


def read_records(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    program: np.ndarray,
    targets: np.ndarray,
    numbers: np.ndarray,
    lengths: np.ndarray,
    valid: np.ndarray,
    status: np.ndarray,
) -> None:
    """Read each record, of the bytes from its start to before its end.

    Of column c and record i, `numbers[c, i]` is its whole number, the bits of its floating-point
    one, or where its bytes begin, of which there are `lengths[c, i]`; `valid[c, i]`: there is a
    value. `status[i]` says what is wrong with the record.
    """
    _read(data, starts, ends, program, targets, numbers, lengths, valid, status)


def take_bytes(
    data: np.ndarray, starts: np.ndarray, offsets: np.ndarray, taken: np.ndarray
) -> None:
    """Copy what begins at each start to the place that its offset says, up to the next offset."""
    _take(data, starts, offsets, taken)


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    data, one = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    data.flags.writeable = False  # as Arrow's buffers are
    columns, valid = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.bool_)
    program = np.array([[LONG, 0, 0]])
    read_records(
        data, one, one + 1, program, one, columns, columns.copy(), valid, np.zeros(1, np.int8)
    )
    take_bytes(data, one, np.array([0, 1]), np.zeros(1, np.uint8))


@numba.njit(cache=True, nogil=True)
def _read(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray, program: np.ndarray,
    targets: np.ndarray, numbers: np.ndarray, lengths: np.ndarray, valid: np.ndarray,
    status: np.ndarray,
) -> None:  # fmt: skip
    items = np.zeros(MAX_DEPTH + 1, np.int64)  # that are left in each block
    for i in range(starts.size):
        at, end = starts[i], ends[i]
        bad, step, depth = GOOD, 0, 0
        while step < program.shape[0] and bad == GOOD:
            kind, column, number = program[step]
            step += 1
            value = length = 0
            if kind == JUMP:
                step = number
                continue
            if kind == AGAIN:
                items[depth] -= 1
                step = number + 1 if items[depth] > 0 else number
                if items[depth] == 0:
                    depth -= 1
                continue
            if kind in (LONG, TEXT, UNION, BLOCK):
                value, at, bad = _whole_number(data, at, end)
                if bad != GOOD:
                    break
            if kind == UNION:
                if value < 0 or value >= targets[number]:
                    bad = NO_BRANCH
                else:
                    step = targets[number + 1 + value]
                continue
            if kind == BLOCK:
                if value < 0:  # with its length in bytes
                    value = -value
                    _, at, bad = _whole_number(data, at, end)
                # An item without bytes is none of an event's.
                if bad == GOOD and not 0 <= value <= end - at:
                    bad = TORN
                depth += 1
                items[depth] = value
                if value == 0:
                    depth -= 1
                    step = number
                continue
            if kind == TEXT:
                if value < 0:
                    bad = NO_LENGTH
                    break
                length = value
            elif kind == BYTES_OF:
                length = number
            elif kind == DOUBLE:
                length = 8
            elif kind == FLOAT:
                length = 4
            elif kind == BOOL:
                length = 1
            if length > end - at:
                bad = TORN
                break
            if kind in (TEXT, BYTES_OF):
                value = at
            elif kind in (DOUBLE, FLOAT, BOOL):
                for k in range(length):
                    value |= int(data[at + k]) << (8 * k)
            at += length
            if column >= 0:
                numbers[column, i] = value
                lengths[column, i] = length
                valid[column, i] = True
        if bad == GOOD and at != end:
            bad = MORE
        status[i] = bad


@numba.njit(cache=True, nogil=True)
def _whole_number(data: np.ndarray, at: int, end: int) -> tuple[int, int, int]:
    """A zigzag number of 64 bits, the place behind it, and what is wrong with it."""
    bits = shift = 0
    while at < end:
        byte = int(data[at])
        at += 1
        if shift > 63 or (shift == 63 and byte > 1):
            return 0, at, TOO_LONG
        bits |= (byte & 127) << shift
        if byte < 128:
            # The sign is a bit like the others here, and not to be drawn along.
            return ((bits >> 1) & LARGEST) ^ -(bits & 1), at, GOOD
        shift += 7
    return 0, at, TORN


@numba.njit(cache=True, nogil=True)
def _take(
    data: np.ndarray, starts: np.ndarray, offsets: np.ndarray, taken: np.ndarray
) -> None:  # fmt: skip
    for i in range(starts.size):
        for k in range(offsets[i + 1] - offsets[i]):
            taken[offsets[i] + k] = data[starts[i] + k]
