"""Records of Avro in plain Python."""

from __future__ import annotations

import numpy as np

from kernels.records.cpu import (
    AGAIN,
    BLOCK,
    BOOL,
    BYTES_OF,
    DOUBLE,
    FLOAT,
    GOOD,
    HERE,
    JUMP,
    LONG,
    MORE,
    NO_BRANCH,
    NO_LENGTH,
    TEXT,
    TOO_LONG,
    TORN,
    UNION,
)


class _BadRecordError(Exception):
    pass


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
    """Read each record into columns."""
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            _read(bytes(data[start:end]), start, i, program, targets, numbers, lengths, valid)
        except _BadRecordError as error:
            (status[i],) = error.args
        else:
            status[i] = GOOD


def _read(
    record: bytes,
    start: int,
    row: int,
    program: np.ndarray,
    targets: np.ndarray,
    numbers: np.ndarray,
    lengths: np.ndarray,
    valid: np.ndarray,
) -> None:
    rest, step, items = record, 0, [0]
    while step < len(program):
        kind, column, number = program[step].tolist()
        step += 1
        if kind == JUMP:
            step = number
            continue
        if kind == AGAIN:
            items[-1] -= 1
            step = number + 1 if items[-1] else number
            if not items[-1]:
                items.pop()
            continue
        if kind == BLOCK:
            count, rest = _whole_number(rest)
            if count < 0:
                _, rest = _whole_number(rest)
            if abs(count) > len(rest):
                raise _BadRecordError(TORN)
            if count:
                items.append(abs(count))
            else:
                step = number
            continue
        if kind == UNION:
            branch, rest = _whole_number(rest)
            if not 0 <= branch < targets[number]:
                raise _BadRecordError(NO_BRANCH)
            step = int(targets[number + 1 + branch])
            continue
        if kind == LONG:
            value, rest = _whole_number(rest)
            length = 0
        elif kind == HERE:
            value = length = 0
        else:
            length = {DOUBLE: 8, FLOAT: 4, BOOL: 1, BYTES_OF: number}.get(kind, 0)
            if kind == TEXT:
                length, rest = _whole_number(rest)
                if length < 0:
                    raise _BadRecordError(NO_LENGTH)
            if length > len(rest):
                raise _BadRecordError(TORN)
            value = int.from_bytes(rest[:length], "little", signed=kind == DOUBLE)
            if kind in (TEXT, BYTES_OF):
                value = start + len(record) - len(rest)
            rest = rest[length:]
        if column >= 0:
            numbers[column, row], lengths[column, row], valid[column, row] = value, length, True
    if rest:
        raise _BadRecordError(MORE)


def _whole_number(rest: bytes) -> tuple[int, bytes]:
    """A zigzag number of 64 bits, and what is behind it."""
    bits = 0
    for place in range(len(rest)):
        bits |= (rest[place] & 127) << 7 * place
        if bits >= 2**64 or (place == 9 and rest[place] > 1):
            raise _BadRecordError(TOO_LONG)
        if rest[place] < 128:
            return (bits >> 1) ^ -(bits & 1), rest[place + 1 :]
    raise _BadRecordError(TORN)


def take_bytes(
    data: np.ndarray, starts: np.ndarray, offsets: np.ndarray, taken: np.ndarray
) -> None:
    """Copy what begins at each start to the place that its offset says, up to the next offset."""
    for i, start in enumerate(starts.tolist()):
        first, end = offsets[i : i + 2].tolist()
        taken[first:end] = data[start : start + end - first]
