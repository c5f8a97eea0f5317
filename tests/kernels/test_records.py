"""Records of Avro are read into columns as plain Python reads them, whole ones and torn ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

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
    TEXT,
    TOO_LONG,
    TORN,
    UNION,
)
from kernels.references import REFERENCES
from kernels.registry import KERNELS

STEP = st.tuples(st.sampled_from([LONG, DOUBLE, FLOAT, BOOL, TEXT, BYTES_OF, HERE]), st.booleans())
# Bytes of which some are numbers that are large, negative, and of too many bytes.
BYTES = st.lists(
    st.one_of(
        st.binary(max_size=9),
        st.sampled_from([b"\x00", b"\x02", b"\x03", b"\xff" * 9 + b"\x01", b"\xff" * 10 + b"\x01"]),
    ),
    max_size=8,
).map(b"".join)


def program_of(
    steps: list[tuple[int, bool]], branches: int, loop: bool = False
) -> tuple[np.ndarray, np.ndarray, int]:
    """The steps, the first few of them branches of a union, and a loop over the first two.

    Also the union's targets and the number of columns.
    """
    program: list[list[int]] = []
    targets = [branches]
    columns = 0
    if branches:
        program.append([UNION, -1, 0])
    for i, (kind, is_kept) in enumerate(steps):
        if i < branches:
            targets.append(len(program))
        program.append([kind, columns if is_kept else -1, 3 if kind == BYTES_OF else 0])
        columns += is_kept
        if i < branches:
            program.append([JUMP, -1, 2 * min(branches, len(steps)) + 1])
    if loop and steps:
        start = len(program)
        inside = program_of(steps[:2], 0, False)[0].tolist()
        program.append([BLOCK, -1, start + len(inside) + 2])
        program += [[kind, -1, number] for kind, _, number in inside]
        program.append([AGAIN, -1, start])
    targets += [len(program)] * (branches + 1 - len(targets))
    return np.array(program, np.int64).reshape(-1, 3), np.array(targets, np.int64), columns


def run(kernel: Callable[..., None], records: list[bytes], *program: Any) -> list[Any]:
    steps, targets, columns = program
    data = np.frombuffer(b"".join(records), np.uint8)
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    starts = ends - np.array([len(record) for record in records], np.int64)
    numbers, lengths = (np.zeros((columns, len(records)), np.int64) for _ in range(2))
    valid = np.zeros((columns, len(records)), np.bool_)
    status = np.full(len(records), -1, np.int8)
    kernel(data, starts, ends, steps, targets, numbers, lengths, valid, status)
    good = status == GOOD
    return [status.tolist(), *(each[:, good].tolist() for each in (numbers, lengths, valid))]


@given(
    steps=st.lists(STEP, max_size=5),
    branches=st.integers(0, 3),
    loop=st.booleans(),
    records=st.lists(BYTES, max_size=6),
)
@example(
    steps=[(LONG, True)],
    branches=0,
    loop=False,
    records=[b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02"],
)
@example(
    steps=[(TEXT, True), (FLOAT, True)],
    branches=1,
    loop=True,
    records=[
        b"\x00\x04ab\x00\x00\xc0\x7f\x00",
        b"\x00\x00\x00\x00\x00\x00\x04\x02a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ],
)
def test_any_program_over_any_bytes(
    steps: list[tuple[int, bool]], branches: int, loop: bool, records: list[bytes]
) -> None:
    program = program_of(steps, branches, loop)
    kernel, reference = KERNELS["read_records"]["numba"], REFERENCES["read_records"]
    assert run(kernel, records, *program) == run(reference, records, *program)


def test_numbers_are_those_of_the_specification() -> None:
    program = program_of([(LONG, True)], 0)
    # Zigzag, as Avro's specification lists it, and the ends of 64 bits.
    pairs = {b"\x00": 0, b"\x01": -1, b"\x02": 1, b"\x7f": -64, b"\x80\x01": 64}
    pairs |= {b"\xfe" + b"\xff" * 8 + b"\x01": 2**63 - 1, b"\xff" * 9 + b"\x01": -(2**63)}
    for kernel in (KERNELS["read_records"]["numba"], REFERENCES["read_records"]):
        status, numbers, _, _ = run(kernel, list(pairs), *program)
        assert set(status) == {GOOD}
        assert numbers == [list(pairs.values())]
        assert run(kernel, [b"\x80", b"\x80" * 10 + b"\x00"], *program)[0] == [TORN, TOO_LONG]


@given(texts=st.lists(st.binary(max_size=5), max_size=6))
def test_bytes_are_taken_to_their_places(texts: list[bytes]) -> None:
    data = np.frombuffer(b"".join(b"xx" + text for text in texts), np.uint8)
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths + 2)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    for take in (KERNELS["take_bytes"]["numba"], REFERENCES["take_bytes"]):
        taken = np.zeros(int(offsets[-1]), np.uint8)
        take(data, ends - lengths, offsets, taken)
        assert taken.tobytes() == b"".join(texts)
