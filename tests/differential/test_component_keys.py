"""Keys that differ by component: every engine gives what the reference gives."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.local.slices import SliceSize
from engines.program import CountingUnit
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.differential.agreement import check_against_the_reference, check_live, is_run
from tests.differential.test_live import rows_of
from tests.differential.test_local import Case
from tests.differential.test_slices import cases, check
from tests.running import How, run_local
from tests.strategies import SHAPE, Shape, queries_with_rows
from workloads.errors import UnsupportedError, WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query

ANY = replace(
    SHAPE, types=("A", "B", "C"), component_keys=True, count_windows=False, max_components=4,
    marks=True, constants=False,
)  # fmt: skip
COUNTED = replace(
    ANY, outputs=("trigger", "slide"), marks=False, ties=False, group_conditions=False,
)  # fmt: skip
STRICT = replace(ANY, marks=False, strategies=("strict",), skips=True)
NEXT = replace(STRICT, strategies=("next",), operators=("SEQ",), max_depth=2)
SHAPES = st.sampled_from([ANY, ANY, COUNTED, replace(STRICT, outputs=("return",)), NEXT])


def _shape(shape: Shape) -> Shape:
    return replace(shape, skips=shape.skips and shape.outputs == ("return",))


@given(
    SHAPES.flatmap(lambda shape: queries_with_rows(_shape(shape), 8)).filter(is_run),
    st.booleans(),
    st.sampled_from([How(), How(sharing=False), How(counting=False)]),
)
@settings(max_examples=70)
def test_any_query(case: Case, small: bool, how: How) -> None:
    check_against_the_reference(case, small, how)


def several(shape: Shape) -> st.SearchStrategy[Case]:
    return cases(replace(_shape(shape), max_window=5), 10).filter(is_run)


@given(SHAPES.flatmap(several), st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=25, deadline=None)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, False), batch_rows)


@given(SHAPES.flatmap(several), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)


def test_a_query_is_printed_as_it_is_read() -> None:
    text = "PATTERN SEQ(A a, !B b) PARTITION BY k, (a.x, b.y) AS z OPTIONAL, (a.s.t, b.y) AS m "
    query = parse_query(text + "RETURN a WITHIN 5 ms")
    assert parse_query(print_query(query)) == query


STREAM = {"time": "ts", "unit": "ms", "type": "kind"}


def bound(text: str, **stream: Any) -> Any:
    return load_bound({"stream": STREAM | stream, "queries": [f"QUERY q PATTERN {text}"]})


def matches(text: str, table: pa.Table) -> list[tuple[Any, Any]]:
    workload = bound(text)
    events = from_table(table, workload.stream)
    found = run_local(workload, events)
    assert rows_of([found]) == rows_of([run_oracle(workload, events)])
    return sorted(
        (json.loads(row["key"]), json.loads(row["match"])) for row in found.matches.to_pylist()
    )


def test_a_process_and_its_children() -> None:
    """Each event is in the partition of its own process, and of its parent's."""
    table = pa.table(
        {
            "ts": [1, 2, 3, 4],
            "kind": ["Start", "Start", "Exit", "Start"],
            "pid": ["p", "q", "p", "r"],
            "parent": [None, "p", "q", "p"],
        }
    )
    text = "SEQ(Start a, !Exit e, Start b) PARTITION BY (a.pid, e.pid, b.parent) AS process"
    found = matches(f"{text} RETURN b.pid WITHIN 9 ms", table)
    assert found == [({"process": "p"}, {"b": {"pid": "q"}})]


def test_of_a_list_each_value_counts() -> None:
    table = pa.table(
        {
            "ts": [1, 2, 3],
            "kind": ["A", "B", "B"],
            "x": [1, None, None],
            "l": pa.array([None, [3, 1, 1], []], pa.list_(pa.int64())),
        }
    )
    text = "SEQ(A a, B b) PARTITION BY (a.x, b.l) AS k RETURN b.ts WITHIN 9 ms"
    assert matches(text, table) == [({"k": 1}, {"b": {"ts": 2}})]


def test_they_are_counted_and_not_constructed() -> None:
    workload = bound("SEQ(A a, !C c, B+ b) PARTITION BY (a.x, c.y, b.y) AS k AGG COUNT(*) "
                     "WITHIN 9 ms")  # fmt: skip
    (unit,) = How().program(workload).units
    assert isinstance(unit, CountingUnit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SEQ(A a, B b) PARTITION BY (a.x) AS k RETURN a WITHIN 9 ms",
            "the key 'k' has no column of 'b'",
        ),
        (
            "SEQ(A a, B b) PARTITION BY (a.x, b.y) AS k RETURN a WITHIN 9 EVENTS",
            "a window counted in events has one key for all components",
        ),
        (
            "SEQ(A a, B b) PARTITION BY (a.x, b.s) AS k RETURN a WITHIN 9 ms",
            "a number cannot be compared with a string",
        ),
        (
            "SEQ(A a, B b) PARTITION BY x, (a.x, b.y) AS x RETURN a WITHIN 9 ms",
            "the key has 'x' twice",
        ),
    ],
)
def test_what_is_not_taken_is_said(text: str, said: str) -> None:
    stream = {"sequence": "n", "attributes": {"x": "int", "y": "int", "s": "string", "n": "int"}}
    with pytest.raises(WorkloadError, match=said):
        bound(text, **stream)


def test_columns_that_cannot_be_compared_stop_the_run() -> None:
    table = pa.table({"ts": [1, 2], "kind": ["A", "B"], "x": [1, 2], "s": ["1", "2"]})
    workload = bound("SEQ(A a, !B b) PARTITION BY (a.x, b.s) AS k RETURN a WITHIN 9 ms")
    with pytest.raises(UnsupportedError, match="the columns of the key 'k' have types that"):
        run_local(workload, from_table(table, workload.stream))
