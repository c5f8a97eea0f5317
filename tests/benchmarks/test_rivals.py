"""Baselines find the matches that the reference gives, as far as they take a query."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.benchmarks.rivals import Way, baseline_rows, refusal
from tests.differential.test_local import events_of
from tests.strategies import SHAPE, Row, event_rows, has_sequence, workloads
from workloads.errors import UnsupportedError

FLAT = replace(
    SHAPE,
    types=("A", "B", "C"),
    operators=("SEQ",),
    max_depth=1,
    max_components=4,
    nested_negation=False,
    kleene=False,
    groups=False,
    group_conditions=False,
    constants=False,
    outputs=("return",),
)
NESTED = replace(FLAT, types=("A", "B"), max_depth=3, nested_negation=True, max_components=5)
KLEENE = replace(FLAT, negation=False, kleene=True, ties=False, types=("A", "B"), keys=False)

Case = tuple[BoundWorkload, list[Row]]


def cases(shape, nested: bool = False, max_size: int = 9) -> st.SearchStrategy[Case]:
    return workloads(shape, max_queries=1, nested=nested).flatmap(
        lambda found: st.tuples(
            st.just(found), event_rows(has_sequence(found), shape.types, max_size=max_size)
        )
    )


def rows_of(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def check(case: Case, way: Way) -> None:
    workload, rows = case
    query = workload.queries[0]
    assume(refusal(query, way) is None)
    events = events_of(workload, rows)
    try:
        found = baseline_rows(query, Columns(workload, events), way)
    except UnsupportedError as error:
        assume("compares more than numbers" not in str(error))
        raise
    assert rows_of(found) == rows_of(run_oracle(workload, events).matches)


@given(cases(FLAT), st.sampled_from(["stacks", "configurations", "nested", "nested first"]))
@settings(max_examples=200)
def test_sequences_with_negated_events(case: Case, way: Way) -> None:
    check(case, way)


@given(cases(NESTED, nested=True), st.sampled_from(["nested", "nested first"]))
@settings(max_examples=150)
def test_sequences_with_negated_sequences(case: Case, way: Way) -> None:
    check(case, way)


@given(cases(KLEENE, max_size=7))
@settings(max_examples=80)
def test_configurations_find_groups(case: Case) -> None:
    check(case, "configurations")


REFUSED = {
    "OR(A a, B b)": "it has an OR",
    "AND(A a, B b)": "it is more than a sequence of events and negations",
    "SEQ(A a, B+ b, C c)": "b is a group of events",
    "SEQ(A a, !SEQ(B b, C c), D d)": "more than an event is negated",
    "SEQ(A a, B b, C c) WHERE a.x + b.x = c.x": "does not compare a value of one component",
    "SEQ(A a, !OR(B b, C c), D d)": "an OR is negated",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_stacks_do_not_take_has_a_reason(pattern: str) -> None:
    query = load_bound(
        {
            "name": "refused",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [f"QUERY q PATTERN {pattern} RETURN a WITHIN 9 ms"],
        }
    ).queries[0]
    reason = refusal(query, "stacks")
    assert reason is not None
    assert REFUSED[pattern] in reason
