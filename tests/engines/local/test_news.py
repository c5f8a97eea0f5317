"""Of a slice of which little is new: whose key is among those that are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engines.local.news import _LARGEST_TABLE, _among

SMALLEST, LARGEST = -(2**63), 2**63 - 1
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(
        [SMALLEST, SMALLEST + 1, LARGEST - 1, LARGEST, _LARGEST_TABLE - 1, _LARGEST_TABLE]
    ),
)


@given(st.lists(NUMBERS), st.lists(NUMBERS))
def test_whole_numbers_are_among_others_as_in_a_set(found: list[int], values: list[int]) -> None:
    mask = _among(pa.array(found, pa.int64()), pa.array(values, pa.int64()))
    assert mask.tolist() == [number in set(values) for number in found]


@given(st.integers(SMALLEST, LARGEST - 10), st.lists(NUMBERS))
def test_numbers_that_lie_close_are_looked_up_wherever_they_lie(
    first: int, found: list[int]
) -> None:
    values = np.arange(first, first + 10, 2)
    some = np.array([*found, first, first + 1, first + 8, first + 9], np.int64)
    mask = _among(pa.array(some), pa.array(values))
    assert mask.tolist() == [number in set(values.tolist()) for number in some.tolist()]


def test_texts_and_numbers_that_are_missing_are_looked_up_too() -> None:
    texts = _among(pa.array(["a", None, "b"]), pa.array(["b"]))
    assert texts.tolist() == [False, False, True]
    numbers = _among(pa.array([1, None, 2]), pa.array([2, None]))
    assert numbers.tolist()[::2] == [False, True]
