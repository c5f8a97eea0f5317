"""AFTER MATCH SKIP PAST LAST EVENT: what the reference gives, however events are cut."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import Limits
from engines.local.slices import SliceSize
from engines.reference.oracle import run_oracle
from engines.results import skipped_matches
from optimizer.bind.binder import load_bound
from tests.differential.agreement import check_live, is_run
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_local import Case, events_of, multiset
from tests.differential.test_slices import cases
from tests.differential.test_slices import check as check_slices
from tests.differential.test_threads import check as check_threads
from tests.running import How, run_local
from tests.strategies import SHAPE, Shape, queries_with_rows
from workloads.errors import WorkloadError

STRICT = replace(
    SHAPE, strategies=("strict",), skips=True, outputs=("return",), types=("A", "B"), limit=True,
    max_components=4, constants=False,
)  # fmt: skip
NEXT = replace(STRICT, strategies=("next",), operators=("SEQ",), max_depth=2)
SHAPES = st.sampled_from([STRICT, NEXT])


@given(
    SHAPES.flatmap(lambda shape: queries_with_rows(shape, 9)).filter(is_run),
    st.booleans(),
    st.sampled_from([How(), How(sharing=False)]),
)
@settings(max_examples=60)
def test_any_query(case: Case, small: bool, how: How) -> None:
    workload, rows = case
    events = events_of(workload, rows)
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(skipped_matches, "MOST_HELD", 2)
        found = run_local(workload, events, Limits(chunk=2, search=0) if small else None, how)
    assert multiset(found) == multiset(run_oracle(workload, events))


def several(shape: Shape) -> st.SearchStrategy[Case]:
    return cases(replace(shape, max_window=5), 12).filter(is_run)


@given(SHAPES.flatmap(several), st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=30, deadline=None)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check_slices(case, SliceSize(rows, False), batch_rows)


@given(SHAPES.flatmap(several), st.sampled_from([1, 3]), st.sampled_from([2, 3]))
@settings(max_examples=10, deadline=None)
def test_threads(case: Case, rows: int, threads: int) -> None:
    check_threads(case, SliceSize(rows, False), threads)


@given(SHAPES.flatmap(several), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)


def _bound(text: str) -> Any:
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    return load_bound({"stream": stream, "queries": [f"QUERY q PATTERN {text}"]})


def test_what_overlaps_a_match_of_a_slice_before_is_skipped() -> None:
    """Over many slices each match leaves its end to the next."""
    workload = _bound(
        "SEQ(A a, A b, A c) PARTITION BY k STRATEGY STRICT AFTER MATCH SKIP PAST LAST EVENT "
        "RETURN a.ts WITHIN 9 ms"
    )
    rows = [{"ts": i, "kind": "A", "k": i % 2, "x": 0, "y": 0} for i in range(60)]
    table = pa.Table.from_pylist(rows)
    found = rows_of(run_live(workload, batches_of(table, list(range(60)))))
    assert found == rows_of([run_oracle(workload, from_table(table, workload.stream))])
    assert len(found) == 20


def test_aggregates_are_refused_with_the_reason() -> None:
    with pytest.raises(WorkloadError, match="would depend on matches outside of it"):
        _bound(
            "SEQ(A a, B b) STRATEGY NEXT AFTER MATCH SKIP PAST LAST EVENT AGG COUNT(*) WITHIN 9 ms"
        )


def test_the_plan_says_it() -> None:
    workload = _bound(
        "SEQ(A a, B b) STRATEGY NEXT AFTER MATCH SKIP PAST LAST EVENT RETURN a WITHIN 9 ms"
    )
    plan = How().plan(workload)
    (output,) = [o for o in plan.operators if o.kind == "output"]
    assert output.detail["picks"] == "AFTER MATCH SKIP PAST LAST EVENT"
