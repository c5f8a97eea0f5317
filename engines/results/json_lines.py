"""Rows as JSON objects, a text for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.results.json_text import distinct_texts, encoded, json_text
from engines.results.kept_texts import KeptTexts
from engines.results.row_texts import NumberedTexts, Piece, WholeNumbers, put_together

_LEAST_ROUNDED = 1e15  # whole numbers below are written with all their digits


def json_rows(
    batch: pa.RecordBatch,
    before: str = "{",
    after: str = "}",
    ready: Sequence[str] = ("key", "match"),
    kept: KeptTexts | None = None,
) -> pa.Array:
    """Each row as a JSON object; columns that are `ready` are JSON already.

    With `kept` matches are numbers of texts there.
    """
    pieces: list[Piece] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces.append(f"{',' if pieces else before}{json_text(name)}:")
        if kept is not None and name == "match":
            pieces += kept.pieces(column)
        else:
            pieces += _pieces(column, name in ready)
    return put_together([*pieces, after], batch.num_rows)


def _pieces(column: pa.Array, is_ready: bool) -> list[Piece]:
    kind = column.type
    if is_ready and not pa.types.is_dictionary(kind):
        if not pa.types.is_string(kind):
            raise TypeError(f"a column of {kind} is no JSON text")
        texts = pc.fill_null(column, "null") if column.null_count else column
        return [NumberedTexts(texts, np.arange(len(column), dtype=np.int32))]
    if pa.types.is_signed_integer(kind):
        valid = _valid(column)
        numbers = np.asarray(pc.fill_null(column, 0).cast(pa.int64()))
        return [WholeNumbers(numbers, valid), *_nulls(valid)]
    if pa.types.is_float64(kind):
        return _doubles(column)
    if pa.types.is_null(kind):
        return ["null"]
    return [_coded(column, is_ready)]


def _doubles(column: pa.Array) -> list[Piece]:
    """Whole numbers by their digits; the others as they are spelled, each once."""
    valid = _valid(column)
    numbers = np.asarray(pc.fill_null(column, np.nan))
    whole = (np.abs(numbers) < _LEAST_ROUNDED) & (numbers == np.floor(numbers))
    whole &= (numbers != 0) | ~np.signbit(numbers)
    pieces: list[Piece] = []
    if whole.any():
        pieces.append(WholeNumbers(np.where(whole, numbers, 0).astype(np.int64), whole, ".0"))
    rest = valid & ~whole
    if rest.any():
        texts, found = _coded(column.filter(pa.array(rest)), False)
        which = np.full(len(column), -1, np.int32)
        which[rest] = found
        pieces.append(NumberedTexts(texts, which))
    return [*pieces, *_nulls(valid)]


def _coded(column: pa.Array, is_ready: bool) -> NumberedTexts:
    """Each distinct value is written once; `null` stands behind them."""
    codes = encoded(column)
    texts = codes.dictionary if is_ready else distinct_texts(codes.dictionary)
    texts = pa.concat_arrays([pc.fill_null(texts, "null"), pa.array(["null"])])
    numbers = np.asarray(pc.fill_null(codes.indices.cast(pa.int32()), len(texts) - 1))
    return NumberedTexts(texts, numbers)


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_valid())


def _nulls(valid: npt.NDArray[np.bool_]) -> list[Piece]:
    """The word `null` in the rows that have no value."""
    if valid.all():
        return []
    return [NumberedTexts(pa.array(["null"]), -valid.astype(np.int32))]
