"""Optional parts and counted groups: every engine gives what the reference gives."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import Limits
from engines.local.slices import SliceSize
from engines.reference.oracle import run_oracle
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_local import Case, events_of, multiset
from tests.differential.test_selection import several
from tests.differential.test_slices import COLUMNS, check
from tests.running import How, run_local
from tests.strategies import SHAPE, has_sequence, queries_with_rows
from workloads.errors import UnsupportedError

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


def _is_run(case: Case) -> bool:
    try:
        How().program(case[0])
    except UnsupportedError:
        return False
    return True


def one_query(max_size: int = 8) -> st.SearchStrategy[Case]:
    return SHAPES.flatmap(lambda shape: queries_with_rows(shape, max_size)).filter(_is_run)


@given(case=one_query(), small=st.booleans(), how=st.sampled_from([How(), How(sharing=False)]))
@settings(max_examples=150)
def test_any_query(case: Case, small: bool, how: How) -> None:
    workload, rows = case
    events = events_of(workload, rows)
    limits = Limits(chunk=2, search=0) if small else Limits()
    found = run_local(workload, events, limits, how)
    assert multiset(found) == multiset(run_oracle(workload, events))


@given(SHAPES.flatmap(several), st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=50)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, False), batch_rows)


@given(SHAPES.flatmap(several), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})
    try:
        found = run_live(workload, batches_of(table, cuts))
    except UnsupportedError:
        return
    assert rows_of(found) == rows_of([run_local(workload, from_table(table, workload.stream))])
