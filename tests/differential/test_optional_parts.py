"""Optional parts and counted groups: every engine gives what the reference gives."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.local.slices import SliceSize
from tests.differential.agreement import check_against_the_reference, check_live, is_run
from tests.differential.test_local import Case
from tests.differential.test_selection import several
from tests.differential.test_slices import check
from tests.running import How
from tests.strategies import SHAPE, queries_with_rows

TYPES = ("A", "B", "C")
LOOSE = replace(SHAPE, optional=True, counted=True, prev=True, types=TYPES)
MARKED = replace(LOOSE, marks=True)
STRICT = replace(LOOSE, strategies=("strict",), max_components=4)
NEXT = replace(LOOSE, strategies=("next",), operators=("SEQ",), max_components=4, max_depth=2)
# What is counted without being constructed.
PLAIN: dict[str, Any] = {
    "ties": False, "group_conditions": False, "constants": False, "prev": False,
}  # fmt: skip
COUNTED = tuple(
    replace(shape, outputs=("trigger", "slide"), groups=False, **PLAIN)
    for shape in (LOOSE, MARKED, STRICT, NEXT)
)
SKIPPED = tuple(replace(shape, skips=True, outputs=("return",)) for shape in (STRICT, NEXT))
# Of so many readings that one machine passes over what is absent.
MANY = replace(
    LOOSE, outputs=("trigger", "slide"), groups=False, operators=("SEQ",), max_depth=1,
    max_components=6, nested_negation=False, **PLAIN,
)  # fmt: skip
SHAPES = st.sampled_from([MANY, LOOSE, MARKED, STRICT, NEXT, *COUNTED, *SKIPPED])


def one_query(max_size: int = 8) -> st.SearchStrategy[Case]:
    return SHAPES.flatmap(lambda shape: queries_with_rows(shape, max_size)).filter(is_run)


@given(case=one_query(), small=st.booleans(), how=st.sampled_from([How(), How(sharing=False)]))
@settings(max_examples=150)
def test_any_query(case: Case, small: bool, how: How) -> None:
    check_against_the_reference(case, small, how)


@given(SHAPES.flatmap(several), st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=50)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, False), batch_rows)


@given(SHAPES.flatmap(several), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)
