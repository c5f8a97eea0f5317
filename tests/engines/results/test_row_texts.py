"""Rows that are put together of pieces have each row's own texts, whatever stands around them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.results.json_lines import json_rows
from engines.results.row_texts import NumberedTexts, Piece, WholeNumbers, put_together

TEXT = st.sampled_from(["", "a", "é,", '"x":', "\U0001f600"])


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Piece], int]:
    size = draw(st.integers(0, 12))
    pieces: list[Piece] = []
    for kind in draw(st.lists(st.sampled_from("snw"), max_size=6)):
        if kind == "s":
            pieces.append(draw(TEXT))
        elif kind == "n":
            texts = draw(st.lists(TEXT, min_size=1, max_size=3))
            least = draw(st.sampled_from([-1, 0]))
            number = st.integers(least, len(texts) - 1)
            numbers = draw(st.lists(number, min_size=size, max_size=size))
            pieces.append(NumberedTexts(pa.array(texts, pa.string()), np.array(numbers, np.int32)))
        else:
            numbers = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=size, max_size=size))
            all_wanted = draw(st.booleans())
            wanted = [all_wanted or n % 2 == 0 for n in numbers]
            suffix = draw(TEXT)
            pieces.append(WholeNumbers(np.array(numbers, np.int64), np.array(wanted, bool), suffix))
    return pieces, size


def expected(pieces: Sequence[Piece], row: int) -> str:
    found = ""
    for piece in pieces:
        match piece:
            case str():
                found += piece
            case NumberedTexts(texts, numbers):
                found += texts[int(numbers[row])].as_py() if numbers[row] >= 0 else ""
            case WholeNumbers(numbers, wanted, suffix):
                found += f"{int(numbers[row])}{suffix}" if wanted[row] else ""
    return found


@given(rows())
@settings(max_examples=300, deadline=None)
def test_each_row_has_its_pieces_side_by_side(drawn: tuple[list[Piece], int]) -> None:
    pieces, size = drawn
    assert put_together(pieces, size).to_pylist() == [expected(pieces, i) for i in range(size)]


def test_structs_are_not_taken_for_texts_of_json() -> None:
    batch = pa.record_batch({"query": ["q"], "match": [{"a": 1}]})
    with pytest.raises(TypeError, match="no JSON text"):
        json_rows(batch)
