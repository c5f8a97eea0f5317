"""`ANY a`: any event of the stream, of whatever type and of none, on every engine."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.differential.test_slices import multiset
from tests.running import How, run_local
from workloads.errors import WorkloadError

QUERIES = (
    "PATTERN SEQ(A a, ANY b) RETURN a, b WITHIN 4 ms",
    "PATTERN ANY b WHERE b.x > 1 RETURN * WITHIN 4 ms",
    "PATTERN ANY b AGG COUNT(*), SUM(b.x) WITHIN 4 ms SLIDE 2 ms",
    "PATTERN SEQ(A a, !ANY n, B b) RETURN a, b WITHIN 6 ms",
    "PATTERN SEQ(A a, !ANY n, B b) WHERE n.x > 1 AGG COUNT(*) WITHIN 6 ms",
    "PATTERN SEQ(A a, ANY+ n, B b) AGG COUNT(*) WITHIN 6 ms",
    "PATTERN AND(any a, ANY b) WHERE a.x < b.x RETURN a.ts, b.ts WITHIN 3 ms",
    "PATTERN SEQ(A a, ANY b, ANY c) WHERE [x] AGG COUNT(*), MAX(c.ts) WITHIN 6 ms",
    "PATTERN SEQ(A a, > ANY b) RETURN a, b WITHIN 6 ms",
    "PATTERN JOIN(A a WITHIN 3 ms, ANY b WITHIN 2 ms) RETURN a.ts, b.ts",
    "PATTERN SEQ(A a, ALL ANY b) RETURN a, b.ts WITHIN 4 ms",
)
rows = st.lists(
    st.tuples(
        st.integers(0, 8), st.sampled_from(["A", "B", "Zed", "ANY", None]), st.integers(0, 3)
    ),
    max_size=9,
)


@settings(max_examples=60)
@given(
    rows,
    st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3, unique=True),
    st.sampled_from(({"type": "kind"}, {"types": {"A": "x = 1", "B": "x > 1"}})),
    st.booleans(),
)
def test_engines_agree(found, queries, typed, counting):
    stream = {"time": "ts", "unit": "ms", **typed}
    named = [f"QUERY q{i} {query}" for i, query in enumerate(queries)]
    workload = load_bound({"name": "w", "stream": stream, "queries": named})
    table = pa.table(
        {
            "ts": pa.array([t for t, _, _ in found], pa.int64()),
            "kind": pa.array([k for _, k, _ in found], pa.string()),
            "x": pa.array([x for _, _, x in found], pa.int64()),
        }
    )
    events = from_table(table, workload.stream)
    given_ = run_local(workload, events, how=How(counting=counting))
    assert multiset([given_]) == multiset([run_oracle(workload, events)])


def test_every_event_counts_by_hand():
    workload = load_bound(
        {"stream": {"time": "ts"}, "queries": ["PATTERN SEQ(ANY a, ANY b) RETURN * WITHIN 2 ms"]}
    )
    events = from_table(pa.table({"ts": [1, 2, 2, 3]}), workload.stream)
    assert run_oracle(workload, events).matches["start"].to_pylist() == [1, 1, 2, 2]


def test_a_type_of_that_name_stays_one():
    stream = {"time": "ts", "type": "kind", "types": {"ANY": "x > 1"}}
    query = "PATTERN ANY a RETURN a.x WITHIN 1 s"
    workload = load_bound({"stream": stream, "queries": [query]})
    table = pa.table({"ts": [1, 2], "kind": ["A", "A"], "x": [1, 2]})
    assert run_oracle(workload, from_table(table, workload.stream)).matches.num_rows == 1


def test_a_stream_without_types_has_no_other_types():
    with pytest.raises(WorkloadError, match="unknown type 'A'"):
        load_bound(
            {"stream": {"time": "ts"}, "queries": ["PATTERN SEQ(A a, ANY b) RETURN * WITHIN 1 s"]}
        )


def test_it_is_refused_beside_events_that_queries_make():
    queries = [
        "QUERY p PATTERN A a RETURN a.x WITHIN 1 s INTO Made",
        "QUERY r PATTERN SEQ(Made m, ANY b) RETURN m.x, b.x WITHIN 1 s",
        "QUERY s PATTERN Made m RETURN * WITHIN 1 s",
    ]
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": {"time": "ts", "type": "kind"}, "queries": queries})
    messages = [finding.message for finding in caught.value.diagnostics]
    assert len(messages) == 2
    assert "ANY stands in a query that reads Made" in messages[0]
    assert "a whole event is returned" in messages[1]
