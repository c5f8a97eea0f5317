"""Durations in conditions: as they are defined, over every kind of time, on every engine."""

import json
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.input.event_table import column_kinds, from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.differential.test_slices import multiset
from tests.running import How, run_local
from workloads.errors import WorkloadError
from workloads.syntax import UNITS
from workloads.workload import Stream

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
MILLISECOND = 10**6
TIMES = (pa.int64(), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"))
SIGNS = {"<": int.__lt__, "<=": int.__le__, "=": int.__eq__, ">": int.__gt__, ">=": int.__ge__}

rows = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from("AB"), st.none() | st.integers(0, 3)), max_size=9
)
amounts = st.sampled_from(["2 ms", "0.003 s", "1500 us", "0 ns", "2500001 ns", "0.0001 min"])


def table_of(found, kind, first=0):
    ticks = pa.array([first + t for t, _, _ in found], pa.int64())
    times = ticks if kind == pa.int64() else ticks.cast(pa.timestamp("ms")).cast(kind)
    kinds, values = [k for _, k, _ in found], [x for _, _, x in found]
    return pa.table({"ts": times, "kind": kinds, "x": pa.array(values, pa.int64())})


def workload_of(events, *queries):
    return load_bound(
        {"name": "w", "stream": STREAM, "queries": list(queries)}, column_kinds(events.table.schema)
    )


@settings(max_examples=40)
@given(rows, amounts, st.sampled_from(sorted(SIGNS)), st.sampled_from(TIMES), st.booleans())
def test_a_difference_of_times_is_compared_exactly(found, amount, sign, kind, recent):
    first = 1_700_000_000_000 if recent else 0
    table = table_of(found, kind, first)
    events = from_table(table, Stream("ts", "kind", "ms"))
    where = f"b.time - a.ts {sign} {amount}"
    query = f"PATTERN SEQ(A a, B b) WHERE {where} RETURN a.x AS one, b.x AS two WITHIN 1 day"
    workload = workload_of(events, f"QUERY q {query}")
    number, unit = amount.split()
    limit = Fraction(number) * UNITS[unit]
    expected = [
        (x, y)
        for s, k, x in found
        for t, m, y in found
        if k == "A" and m == "B" and s < t and SIGNS[sign]((t - s) * MILLISECOND, int(limit))
    ]
    for results in (run_oracle(workload, events), run_local(workload, events)):
        matches = [json.loads(m) for m in results.matches["match"].to_pylist()]
        assert sorted(map(str, expected)) == sorted(str((m["one"], m["two"])) for m in matches)


CONDITIONS = (
    "b.time - a.time < 2 ms",
    "2 ms <= b.ts - a.ts",
    "b.time < a.time + 2 * 1 ms",
    "b.time - a.time < a.x + 1 ms",
    "(b.time - a.time) / 1 ms > a.x",
    "NOT b.time - a.time > 2 ms OR a.x = 1",
    "b.time - 3 ms > a.time AND b.time - a.time < 1 hour",
    "(b.time - a.time) % 2 ms = 1 ms",
)
SHAPES = (
    "PATTERN SEQ(A a, B b) WHERE {} RETURN a.ts, b.ts, (b.time - a.time) / 1 s AS s WITHIN 6 ms",
    "PATTERN AND(A a, B b) WHERE {} AGG COUNT(*), SUM(a.x) WITHIN 6 ms",
    "PATTERN SEQ(A a, !B b, A c) WHERE {} RETURN a, c WITHIN 6 ms",
    "PATTERN SEQ(A a, B+ b) WHERE {} RETURN a, b.ts WITHIN 6 ms",
    "PATTERN SEQ(A a, B+ b) WHERE last(b.time) - first(b.time) > 1 ms AND {} RETURN a, b.ts "
    "WITHIN 6 ms",
    "PATTERN JOIN(A a WITHIN 5 ms, B b WITHIN 3 ms) WHERE {} RETURN a, b",
    "PATTERN SEQ(A a, B b) WHERE {} STRATEGY NEXT RETURN a, b WITHIN 6 ms",
)


@settings(max_examples=40)
@given(
    rows,
    st.lists(
        st.tuples(st.sampled_from(SHAPES), st.sampled_from(CONDITIONS)), min_size=1, max_size=3
    ),
    st.sampled_from(TIMES),
    st.booleans(),
)
def test_engines_agree(found, asked, kind, counting):
    events = from_table(table_of(found, kind), Stream("ts", "kind", "ms"))
    queries = [f"QUERY q{i} {shape.format(where)}" for i, (shape, where) in enumerate(asked)]
    try:
        workload = workload_of(events, *queries)
    except WorkloadError as error:  # a value in RETURN or AGG that a group has many of
        assert "is a group with a value for each of its events" in str(error)  # noqa: PT017
        assume(False)
    given_ = run_local(workload, events, how=How(counting=counting))
    assert multiset([given_]) == multiset([run_oracle(workload, events)])


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ("b.time - a.time < 5 sek", "unknown unit 'sek'", "'sec'"),
        ("b.time - a.time < 5 events", "an amount of time", "hour"),
        ("b.time < 5 s", "a time with a duration", "difference"),
        ("b.time - a.time < 5 s + 3", "3 has no unit", "3 s"),
        ("b.time - a.time < 0.5 ns", "fraction of a nanosecond", "whole"),
        ("b.time + a.time < 5 s", "of a time and a time", "subtracted"),
        ("b.x LIKE 5 s", "a duration is compared", "5 s"),
        ("b.time - a.time < 5", "takes a number, not a time", "5 s"),
    ],
)
def test_what_has_no_meaning_is_refused(where, message, hint):
    query = f"QUERY q PATTERN SEQ(A a, B b) WHERE {where} RETURN a WITHIN 1 s"
    stream = STREAM | {"attributes": {"ts": "time", "x": "string"}}
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": stream, "queries": [query]})
    (finding,) = caught.value.diagnostics
    assert message in finding.message
    assert hint in (finding.hint or "")


def test_a_returned_duration_needs_a_unit_and_types_take_none():
    query = "QUERY q PATTERN SEQ(A a, B b) RETURN b.time - a.time + 1 s AS gap WITHIN 1 s"
    with pytest.raises(WorkloadError, match="numbers of some unit"):
        load_bound({"stream": STREAM, "queries": [query]})
    stream = STREAM | {"types": {"C": "ts < 5 s"}}
    with pytest.raises(WorkloadError, match="comparisons of the event's own"):
        load_bound({"stream": stream, "queries": ["QUERY q PATTERN C c RETURN c WITHIN 1 s"]})
