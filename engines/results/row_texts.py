"""The texts of rows, put together in one go from pieces that are told apart by numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kernels.rows.cpu import add_digits, add_lengths, put_digits, put_texts


class NumberedTexts(NamedTuple):
    """For each row one of some texts, none of which is null; no text where the number is -1."""

    texts: pa.Array
    numbers: npt.NDArray[Any]


class WholeNumbers(NamedTuple):
    """For each wanted row the digits of a number, and what stands behind them."""

    numbers: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.bool_]
    suffix: str = ""


Piece: TypeAlias = str | NumberedTexts | WholeNumbers


def put_together(pieces: Sequence[Piece], size: int) -> pa.Array:
    """Each row's pieces side by side; a piece that is a text is every row's."""
    every = [_prepared(piece, size) for piece in _folded(pieces, size)]
    lengths = np.zeros(size, np.int64)
    for piece in every:
        if isinstance(piece, WholeNumbers):
            add_digits(piece.numbers, piece.wanted, _bytes(piece.suffix), lengths)
        else:
            add_lengths(_offsets(piece.texts), piece.numbers, lengths)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out, ends = np.empty(int(offsets[-1]), np.uint8), offsets[:-1].copy()
    for piece in every:
        if isinstance(piece, WholeNumbers):
            put_digits(piece.numbers, piece.wanted, _bytes(piece.suffix), ends, out)
            continue
        data = piece.texts.buffers()[2]
        written = _read_only(b"" if data is None else data, np.uint8)
        put_texts(_offsets(piece.texts), written, piece.numbers, ends, out)
    if offsets[-1] >= 2**31:
        return pa.LargeStringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(out))
    return pa.StringArray.from_buffers(
        size, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)
    )


def _folded(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """The same with fewer pieces: what is every row's goes along with what stands beside it."""
    found: list[Piece] = []
    same = ""
    for piece in (*pieces, ""):
        if isinstance(piece, str) and piece:
            same += piece
            continue
        if same:
            last = found[-1] if found else None
            if isinstance(last, WholeNumbers) and last.wanted.all():
                found[-1] = last._replace(suffix=last.suffix + same)
            elif isinstance(last, NumberedTexts) and _repeats(last, size):
                texts = pc.binary_join_element_wise(last.texts, same, "")
                found[-1] = last._replace(texts=texts)
            elif isinstance(piece, NumberedTexts) and _repeats(piece, size):
                piece = piece._replace(texts=pc.binary_join_element_wise(same, piece.texts, ""))
            else:
                found.append(same)
            same = ""
        if not isinstance(piece, str):
            found.append(piece)
    return found


def _repeats(piece: NumberedTexts, size: int) -> bool:
    """Has each row one of few texts?"""
    few = 4 * len(piece.texts) <= size and pa.types.is_string(piece.texts.type)
    return bool(few and piece.numbers.min(initial=0) >= 0)


def _prepared(piece: Piece, size: int) -> NumberedTexts | WholeNumbers:
    """A piece with arrays as kernels are compiled for: such as nothing writes to."""
    match piece:
        case str():
            texts, numbers = pa.array([piece], pa.string()), np.zeros(size, np.int32)
            return NumberedTexts(texts, _fixed(numbers))
        case NumberedTexts(texts, numbers):
            return NumberedTexts(texts, _fixed(numbers.astype(np.int32, copy=False)))
        case WholeNumbers(numbers, wanted, suffix):
            return WholeNumbers(_fixed(numbers), _fixed(wanted), suffix)


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    found = np.ascontiguousarray(array).view()
    found.flags.writeable = False
    return found


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return _read_only(text.encode(), np.uint8)


def _offsets(texts: pa.Array) -> npt.NDArray[Any]:
    buffer = texts.buffers()[1]
    if buffer is None or not len(texts):
        return _read_only(bytes(4), np.int32)
    found = _read_only(buffer, np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    return found[texts.offset : texts.offset + len(texts) + 1]


def _read_only(buffer: pa.Buffer | bytes, kind: type[np.generic]) -> npt.NDArray[Any]:
    """The numbers in a buffer."""
    return _fixed(np.frombuffer(buffer, kind))
