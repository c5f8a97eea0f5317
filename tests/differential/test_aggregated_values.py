"""Aggregates of expressions, distinct values, and values of several components."""

import math
from dataclasses import replace

import pyarrow as pa
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


def test_the_variance_of_what_is_infinite_or_too_far_apart_is_no_number():
    query = "PATTERN A a AGG VAR(a.y), STDDEV_POP(a.y), SUM(a.y) WITHIN 5 ms SLIDE 5 ms"
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    workload = load_bound({"stream": stream, "queries": [query]})
    values = [1.0, math.inf, None, None, 2.0, 1e300, -1e300]
    rows = [{"ts": t, "kind": "A", "y": y} for t, y in enumerate(values, 1)]
    events = from_table(pa.Table.from_pylist(rows), workload.stream)
    found = (run_local(workload, events).aggregates.to_pylist(), run(workload, rows))
    for given_rows in found:
        of = {(row["time"], row["aggregate"]): row["value"] for row in given_rows}
        assert of[5, "SUM(a.y)"] == math.inf
        spread = [of[t, f"{name}(a.y)"] for t in (5, 10) for name in ("VAR", "STDDEV_POP")]
        assert all(map(math.isnan, spread))


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
