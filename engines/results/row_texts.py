"""The texts of rows, put together in one go from pieces that are told apart by numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kernels.rows.cpu import add_digits, add_lengths, put_digits, put_texts, sort_ties

ROWS_AT_ONCE = 2_000  # whose texts are written piece by piece: they are in the cache then


class NumberedTexts(NamedTuple):
    """For each row one of some texts, none of which is null; no text where the number is -1.

    Without `texts` the numbers are of those that a `KeptTexts` has.
    """

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
    folded = _folded(pieces, size)
    if len(folded) == 1 and (taken := _taken(folded[0], size)) is not None:
        return taken
    every = [_prepared(piece, size) for piece in folded]
    lengths = np.zeros(size, np.int64)
    for piece in every:
        if isinstance(piece, WholeNumbers):
            add_digits(piece.numbers, piece.wanted, _bytes(piece.suffix), lengths)
        else:
            add_lengths(_offsets(piece.texts), piece.numbers, lengths)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out, ends = np.empty(int(offsets[-1]), np.uint8), offsets[:-1].copy()
    texts = [None if isinstance(p, WholeNumbers) else offsets_and_data(p.texts) for p in every]
    for start in range(0, size, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for piece, given in zip(every, texts, strict=True):
            if isinstance(piece, WholeNumbers):
                numbers, wanted = piece.numbers[rows], piece.wanted[rows]
                put_digits(numbers, wanted, _bytes(piece.suffix), ends[rows], out)
            elif given is not None:
                put_texts(given[0], given[1], piece.numbers[rows], ends[rows], out)
    if offsets[-1] >= 2**31:
        return pa.LargeStringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(out))
    return pa.StringArray.from_buffers(
        size, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)
    )


def _taken(piece: Piece, size: int) -> pa.Array | None:
    """The rows of one piece alone, by Arrow where each has a text and all fit into one array."""
    if not isinstance(piece, NumberedTexts) or not pa.types.is_string(piece.texts.type):
        return None
    longest = int(np.diff(_offsets(piece.texts)).max(initial=0))
    if longest * size >= 2**31 or piece.numbers.min(initial=0) < 0:
        return None
    return piece.texts.take(pa.array(piece.numbers))


def order_of_ties(
    pieces: Sequence[str | NumberedTexts], ties: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32] | None:
    """The places of rows, of which those that tie with the next are in the order of their texts.

    `ties` are of neighbours; a text stands behind each piece but the last. None where no row moves.
    """
    places, ties = np.arange(len(ties) + 1, dtype=np.int32), ties.copy()
    for piece, behind in zip(pieces, (*pieces[1:], ""), strict=True):
        if isinstance(piece, str) or not ties.any():
            continue
        assert isinstance(behind, str)
        which = _fixed(piece.numbers.astype(np.int32, copy=False))
        follows = behind.encode()[0] if behind else -1
        sort_ties(*offsets_and_data(piece.texts), which, follows, places, ties)
    return None if (places[1:] > places[:-1]).all() else places


def moved(
    pieces: Sequence[str | NumberedTexts], places: npt.NDArray[np.int32]
) -> list[str | NumberedTexts]:
    """The pieces of the rows at places."""
    return [
        piece if isinstance(piece, str) else piece._replace(numbers=piece.numbers[places])
        for piece in pieces
    ]


def _folded(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """Fewer pieces: what is every row's goes along with what stands beside it."""
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


def offsets_and_data(texts: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Where texts begin and the last of them ends, and the bytes that they are in."""
    data = texts.buffers()[2]
    return _offsets(texts), _read_only(b"" if data is None else data, np.uint8)


def _read_only(buffer: pa.Buffer | bytes, kind: type[np.generic]) -> npt.NDArray[Any]:
    """The numbers in a buffer."""
    return _fixed(np.frombuffer(buffer, kind))
