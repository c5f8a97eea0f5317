"""Aggregates of expressions, distinct values, and values of several components."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.reference import run
from optimizer.bind.binder import load_bound
from tests import strategies
from tests.differential.test_counting import comparable, table_of
from tests.running import How, run_local
from workloads.errors import WorkloadError

SHAPE = replace(
    strategies.SHAPE,
    types=("A", "B"),
    max_components=3,
    nested_negation=False,
    outputs=("trigger", "slide"),
    tied_aggregates=True,
)


@settings(max_examples=40, deadline=None)
@given(
    strategies.workloads(SHAPE, max_queries=2).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=SHAPE.types, max_size=8
            ),
        )
    ),
    st.booleans(),
    st.sampled_from(["any", "stepwise"]),
)
def test_engines_agree(case, counting, detection):
    workload, rows = case
    events = from_table(table_of(rows, strategies.has_sequence(workload)), workload.stream)
    how = How(counting=counting, detection=detection)
    found = run_local(workload, events, how=how).aggregates.to_pylist()
    assert comparable(found) == comparable(run(workload, rows))


STREAM = {"time": "ts", "unit": "ms", "type": "kind", "attributes": {"x": "int", "s": "string"}}


@pytest.mark.parametrize(
    ("aggregate", "message", "hint"),
    [
        ("SUM(DISTINCT a.x)", "DISTINCT goes with COUNT", "COUNT(DISTINCT a.x)"),
        ("MEDIAN(a.x)", "unknown aggregate 'median'", "RETURN"),
        ("SUM(*)", "SUM takes a value", "a.x"),
        ("SUM(a.s)", "takes a number, not a string", None),
        ("VAR(a.s)", "takes a number, not a string", None),
        ("SUM(1)", "a constant is aggregated", "COUNT(*)"),
        ("SUM(a.x > 1)", "this is a condition", None),
        ("SUM(MAX(a.x))", "an aggregate stands inside another", None),
        ("FIRST(a.x + b.x)", "a and b have one each", "one component"),
        ("SUM(n.x)", "'n' is negated", None),
    ],
)
def test_what_cannot_be_aggregated_is_refused(aggregate, message, hint):
    query = f"QUERY q PATTERN SEQ(A a, !N n, B b) AGG {aggregate} WITHIN 1 s"
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": STREAM, "queries": [query]})
    (finding,) = caught.value.diagnostics
    assert message in finding.message
    assert hint is None or hint in (finding.hint or "")


def test_distinct_is_a_name_elsewhere():
    query = "QUERY q PATTERN A distinct AGG SUM(distinct.x) HAVING MAX(distinct.x) > 1 WITHIN 1 s"
    load_bound({"stream": STREAM, "queries": [query]})
