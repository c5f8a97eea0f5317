"""Strategies and marks: every engine gives what the reference gives, however events are cut."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.local.slices import SliceSize
from tests.differential.agreement import check_against_the_reference, check_live, is_run
from tests.differential.test_local import Case
from tests.differential.test_slices import cases, check
from tests.running import How
from tests.strategies import SHAPE, Shape, queries_with_rows

MARKED = replace(SHAPE, marks=True, types=("A", "B", "C"))
STRICT = replace(SHAPE, strategies=("strict",), types=("A", "B", "C"), max_components=4)
NEXT = replace(
    SHAPE, strategies=("next",), types=("A", "B", "C"), operators=("SEQ",), max_components=4,
    max_depth=2,
)  # fmt: skip
# What is counted without being constructed.
PLAIN: dict[str, Any] = {"ties": False, "group_conditions": False, "constants": False}
COUNTED = tuple(
    replace(shape, outputs=("trigger", "slide"), **PLAIN) for shape in (MARKED, STRICT, NEXT)
)
SHAPES = st.sampled_from([MARKED, STRICT, NEXT, *COUNTED])


def one_query(max_size: int = 8) -> st.SearchStrategy[Case]:
    return SHAPES.flatmap(lambda shape: queries_with_rows(shape, max_size)).filter(is_run)


@given(case=one_query(), small=st.booleans(), how=st.sampled_from([How(), How(sharing=False)]))
@settings(max_examples=150)
def test_any_query(case: Case, small: bool, how: How) -> None:
    check_against_the_reference(case, small, how)


def several(shape: Shape) -> st.SearchStrategy[Case]:
    return cases(shape, 10).filter(is_run)


@given(SHAPES.flatmap(several), st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=60)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, False), batch_rows)


@given(SHAPES.flatmap(several), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)
