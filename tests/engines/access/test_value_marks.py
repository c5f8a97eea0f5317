"""How many entries of a sorted run are in a range: exactly where values are few, else about."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.access.value_marks import (
    LEAST_STEP,
    MARKED_LETTERS,
    ValueMarks,
    ValueRange,
    with_marks,
)


def marks_of(values: list[Any], kind: pa.DataType) -> ValueMarks:
    run = with_marks(pa.table({"value": pa.chunked_array([pa.array(values, kind)])}))
    return ValueMarks.of(run.schema.metadata, len(values))


ends = st.one_of(st.none(), st.integers(-1, 7))
ranges = st.builds(ValueRange, ends, ends, st.booleans(), st.booleans())


def inside(value: int, one: ValueRange) -> bool:
    above = one.low is None or value > one.low or (value == one.low and one.has_low)
    below = one.high is None or value < one.high or (value == one.high and one.has_high)
    return above and below


@given(st.lists(st.integers(0, 6), max_size=40), ranges)
def test_of_few_values_entries_are_counted(values: list[int], one: ValueRange) -> None:
    found = marks_of(sorted(values), pa.int64()).entries(one)
    assert found == sum(inside(value, one) for value in values)


def test_a_value_that_is_not_there_has_no_entries() -> None:
    marks = marks_of([0.1] * 5_000 + [0.2] * 5_000, pa.float64())
    assert marks.entries(ValueRange(0.12, 0.18)) == 0
    assert marks.entries(ValueRange(0.2, 0.2)) == 5_000


def test_of_many_values_entries_are_estimated() -> None:
    values = np.sort(np.random.default_rng(1).random(400_000))
    marks = marks_of(values.tolist(), pa.float64())
    for low, high in ((0.0, 0.5), (0.3, 0.301), (0.9, 0.95)):
        wanted = int(((values > low) & (values < high)).sum())
        assert marks.entries(ValueRange(low, high, False, False)) == pytest.approx(
            wanted, abs=LEAST_STEP
        )


def test_long_texts_are_told_apart_by_their_beginnings_only() -> None:
    begin = "x" * MARKED_LETTERS
    marks = marks_of(sorted(f"{begin}{n}" for n in (1, 2, 2)), pa.string())
    assert marks.entries(ValueRange(f"{begin}2", f"{begin}2")) > 0
    short = marks_of(["a", "b", "b"], pa.string())
    assert short.entries(ValueRange("b", "b")) == 2
