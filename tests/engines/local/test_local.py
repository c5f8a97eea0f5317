"""The local engine, construct by construct, on streams small enough to work out by hand."""

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest

from engines.input.event_table import Events, from_table
from engines.limits import EventsError, Limits
from engines.reference.oracle import run_oracle
from engines.results.tables import Results, sorted_results
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import positive_events
from optimizer.ir.query import BoundWorkload
from tests.oracle.notation import rows, workload
from tests.running import How, run_local
from workloads.errors import TooLargeError, UnsupportedError

SEQUENCED = {"sequence": "s"}


def both(bound: BoundWorkload, events: Events, limits: Limits | None = None) -> Results:
    """The local engine's results, which are the reference's too."""
    expected = sorted_results(run_oracle(bound, events))
    for counting in (True, False):
        found = sorted_results(run_local(bound, events, limits or Limits(), How(counting=counting)))
        assert found.aggregates.to_pylist() == expected.aggregates.to_pylist()
        assert found.matches.to_pylist() == expected.matches.to_pylist()
    return expected


def events_of(bound: BoundWorkload, stream: str) -> Events:
    return from_table(pa.Table.from_pylist(rows(stream)), bound.stream)


def matches(
    pattern: str, stream: str, within: str = "100 s", where: str = "", **kw: Any
) -> list[str]:
    """The matches of a pattern, each as its events in order, sorted."""
    condition = f"WHERE {where}" if where else ""
    head, tail = f"QUERY q PATTERN {pattern} {condition}", f"WITHIN {within}"
    bound = workload(f"{head} AGG COUNT(*) {tail}", **kw)
    names = [e.alias for e in positive_events(bound.queries[0].pattern)]
    bound = workload(f"{head} RETURN {', '.join(f'{n}.name' for n in names)} {tail}", **kw)
    found = []
    for row in both(bound, events_of(bound, stream)).matches.to_pylist():
        items = json.loads(row["match"]).values()
        events = [e for item in items for e in (item if isinstance(item, list) else [item])]
        found.append(" ".join(sorted(e["name"] for e in events)))
    return sorted(found)


def values(query: str, stream: str, **kw: Any) -> list[tuple[int, str, float | None]]:
    """Time, aggregate and value of each row."""
    bound = workload(f"QUERY q PATTERN {query}", **kw)
    found = both(bound, events_of(bound, stream)).aggregates.to_pylist()
    return [(row["time"], row["aggregate"], row["value"]) for row in found]


# --- patterns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "stream", "expected"),
    [
        ("SEQ(A, B)", "a1 b2 a3 b4", ["a1 b2", "a1 b4", "a3 b4"]),
        ("SEQ(A, B)", "a1 b1", []),
        ("AND(A, B)", "b1 a1 a2", ["a1 b1", "a2 b1"]),
        ("AND(A x, A y)", "a1 a2", ["a1 a2", "a1 a2"]),
        ("OR(A a, SEQ(B, C))", "a1 b2 c3", ["a1", "b2 c3"]),
        ("OR(A a, A b)", "a1", ["a1", "a1"]),
        ("SEQ(A, OR(B, SEQ(!X, C)))", "a1 x2 b3 c4", ["a1 b3"]),
        ("SEQ(AND(A, B), C)", "b1 a2 c2 c3", ["a2 b1 c3"]),
        ("SEQ(A, SEQ(B, C))", "a1 b2 c3", ["a1 b2 c3"]),
        # negation: middle, first, last, nested, in AND
        ("SEQ(A, !B, C)", "a1 b2 a3 c4", ["a3 c4"]),
        ("SEQ(A, !B, C)", "a1 b1 b4 c4", ["a1 c4"]),
        ("SEQ(!B, A)", "b1 a2 a150", ["a150"]),
        ("SEQ(A, !B)", "a1 b2 a3", ["a3"]),
        ("SEQ(A, !SEQ(B, C), D)", "a1 c2 b3 d4 c5 d6", ["a1 d4"]),
        ("SEQ(A, !SEQ(B, !X, C), D)", "a1 b2 x3 c4 d5", ["a1 d5"]),
        ("SEQ(A, !SEQ(B, !X, C), D)", "a1 b2 x3 b4 c5 d6", []),
        ("SEQ(A, !SEQ(!X, C), D)", "a1 x2 c3 d4", ["a1 d4"]),
        ("SEQ(A, !OR(B, C), D)", "a1 b2 a3 d4", ["a3 d4"]),
        ("SEQ(A, !AND(B, C), D)", "a1 c2 d3 b4 d5", ["a1 d3"]),
        ("SEQ(A, AND(!B, !C), D)", "a1 b2 a3 d4", ["a3 d4"]),
        ("AND(A, !B, C)", "b1 c2 a3 a150 c151", ["a150 c151"]),
        ("AND(A, !B, C)", "c2 a3 b4", ["a3 c2"]),
        # groups
        ("A+ a", "a1 a2 a2'", ["a1", "a1 a2", "a1 a2'", "a2", "a2'"]),
        ("SEQ(A, B+ b, C)", "a1 b2 b3 c4", ["a1 b2 b3 c4", "a1 b2 c4", "a1 b3 c4"]),
        ("A^2 a", "a1 a2 a2' a3", ["a1 a2", "a1 a2'", "a2 a3", "a2' a3"]),
        ("SEQ(A, B^2 b, C)", "b1 a2 b3 b4 c5 b6", ["a2 b3 b4 c5"]),
        ("SEQ(A, ALL B b, C)", "b1 a2 b3 b3' b4 c5 b6", ["a2 b3 b3' b4 c5"]),
        ("SEQ(A, ALL B b)", "a1 b2 b3 b150", ["a1 b2 b3"]),
        ("SEQ(ALL B b, A)", "b1 b60 a120 b130", ["a120 b60"]),
        ("ALL B b", "b1 b60 b120", ["b1 b60", "b120 b60"]),
        ("AND(ALL A a, ALL B b)", "a1 b2 a3", ["a1 a3 b2"]),
        ("SEQ(ALL A a, ALL B b)", "a1 b2 a3 b4", ["a1 a3 b4", "a1 b2 b4"]),
        ("SEQ(A, !ALL B b, C)", "a1 b2 a3 c4", ["a3 c4"]),
        ("SEQ(A, !B^2 b, C)", "a1 b2 b3 a4 b5 c6", ["a4 c6"]),
    ],
)
def test_patterns(pattern: str, stream: str, expected: list[str]) -> None:
    assert matches(pattern, stream) == expected


def test_windows_are_half_open() -> None:
    assert matches("SEQ(A, B)", "a1 b10 b11", within="10 s") == ["a1 b10"]
    assert matches("SEQ(!X, A, B)", "x1 a5 b11 b12", within="10 s") == ["a5 b11", "a5 b12"]
    assert matches("SEQ(!X, A, B)", "x2 a5 b11 b12", within="10 s") == ["a5 b12"]
    assert matches("SEQ(A, B, !X)", "a1 b2 x11", within="10 s") == ["a1 b2"]
    assert matches("SEQ(A, B, !X)", "a1 b2 x10", within="10 s") == []


def test_a_sequence_column_orders_events_of_equal_time() -> None:
    stream = "a1(s=2) b1(s=1) b1'(s=3)"
    assert matches("SEQ(A, B)", stream, **SEQUENCED) == ["a1 b1'"]


def test_windows_counted_in_events() -> None:
    stream = "a1(s=1) x2(s=1) b3(s=1) x4(s=1) b5(s=1)"
    assert matches("SEQ(A, B)", stream, within="3 EVENTS", **SEQUENCED) == ["a1 b3"]
    assert matches("SEQ(A, B)", stream, within="2 EVENTS", **SEQUENCED) == []


def test_an_event_can_be_of_several_types() -> None:
    types = {"Big": "x > 5", "Even": "x % 2 = 0"}
    stream = "a1(x=6) a2(x=8) a3(x=7)"
    assert matches("SEQ(Big b, Even e)", stream, types=types) == ["a1 a2"]
    assert matches("AND(Big b, Even e)", "a1(x=6) a2(x=3)", types=types) == []


def test_conditions_tie_components_negated_ones_and_groups() -> None:
    stream = "a1(x=1) b2(x=5) b3(x=1) c4(x=1)"
    assert matches("SEQ(A a, B b)", stream, where="a.x = b.x") == ["a1 b3"]
    assert matches("SEQ(A a, !B b, C c)", stream, where="a.x != b.x AND b.x > c.x") == []
    assert matches("SEQ(A a, !B b, C c)", stream, where="a.x > b.x") == ["a1 c4"]
    assert matches("SEQ(A a, B+ b, C c)", stream, where="b.x = c.x") == ["a1 b3 c4"]
    assert matches("SEQ(A a, ALL B b, C c)", stream, where="b.x = c.x") == ["a1 b3 c4"]
    assert matches("SEQ(A a, B^2 b)", stream, where="a.x <= b.x") == ["a1 b2 b3"]
    assert matches("SEQ(A a, B+ b)", stream, where="sum(b.x) = 6") == ["a1 b2 b3"]
    assert matches("SEQ(A a, B+ b)", stream, where="first(b.x) > last(b.x)") == ["a1 b2 b3"]


def test_constant_conditions_let_all_or_nothing_through() -> None:
    assert matches("A a", "a1 a2", where="1 < 2") == ["a1", "a2"]
    assert matches("A a", "a1 a2", where="1 > 2") == []


# --- partitions --------------------------------------------------------------------------------


def test_each_key_is_a_stream_of_its_own_and_null_is_none() -> None:
    bound = workload("QUERY q PATTERN SEQ(A a, !X, B b) WHERE [k, x] RETURN b.name WITHIN 9 s")
    stream = (
        "a1(k=1,x=7) a1'(k=2,x=7) x2(k=2,x=7) b3(k=1,x=7) b4(k=2,x=7) "
        "a5(k=null,x=7) b6(k=null,x=7) a7(k=3,x=7)"
    )
    found = both(bound, events_of(bound, stream)).matches.to_pylist()
    assert [(row["key"], row["match"]) for row in found] == [
        ('{"k":1,"x":7}', '{"b":{"name":"b3"}}')
    ]


def test_keys_of_every_type_are_written_as_they_are() -> None:
    table = pa.table(
        {
            "ts": [1, 2],
            "type": ["A", "B"],
            "s": ['say "hi"'] * 2,
            "f": [0.5, 0.5],
            "b": [True, True],
            "t": pa.array([1500, 1500], pa.timestamp("ms")),
        }
    )
    bound = workload("PATTERN SEQ(A, B) WHERE [s, f, b, t] AGG COUNT(*) WITHIN 9 s")
    (row,) = both(bound, from_table(table, bound.stream)).aggregates.to_pylist()
    assert row["key"] == ('{"s":"say \\"hi\\"","f":0.5,"b":true,"t":"1970-01-01T00:00:01.500"}')


# --- aggregates --------------------------------------------------------------------------------


def test_aggregates_at_every_trigger() -> None:
    stream = "a1(x=1) b2(x=10) a3(x=2) b4(x=20) b5(x=null) b14(x=5)"
    query = "SEQ(A a, B b) AGG COUNT(*), SUM(b.x), AVG(b.x), MIN(a.x), MAX(b.x) WITHIN 10 s"
    found = values(query, stream)
    assert [v for t, _, v in found if t == 2] == [10.0, 1.0, 10.0, 1.0, 10.0]
    assert {a: v for t, a, v in found if t == 5} == {
        "COUNT(*)": 5.0,
        "SUM(b.x)": 50.0,
        "AVG(b.x)": 50 / 3,
        "MIN(a.x)": 1.0,
        "MAX(b.x)": 20.0,
    }
    assert not [t for t, _, _ in found if t == 14]


def test_nothing_to_aggregate_is_null() -> None:
    found = values("SEQ(A a, B b) AGG SUM(b.x), COUNT(*) WITHIN 9 s", "a1 b2(x=null)")
    assert found == [(2, "COUNT(*)", 1.0), (2, "SUM(b.x)", None)]


def test_aggregates_at_every_slide() -> None:
    query = "SEQ(A a, B b) AGG COUNT(*) WITHIN 4 s SLIDE 2 s"
    assert values(query, "a1 b2 b3") == [(2, "COUNT(*)", 1.0), (4, "COUNT(*)", 2.0)]


def test_slides_counted_in_events() -> None:
    stream = "a1(s=1) b2(s=1) b3(s=1) b4(s=1) b5(s=1)"
    query = "SEQ(A a, B b) AGG COUNT(*) WITHIN 4 EVENTS SLIDE 2 EVENTS"
    assert values(query, stream, **SEQUENCED) == [(2, "COUNT(*)", 1.0), (4, "COUNT(*)", 3.0)]


def test_having_chooses_windows() -> None:
    query = "SEQ(A a, B b) AGG COUNT(*) HAVING SUM(b.x) > 2 AND MAX(a.x) IS NULL WITHIN 9 s"
    assert values(query, "a1(x=null) b2(x=2) b3(x=1)") == [(3, "COUNT(*)", 2.0)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("SEQ(!X, A, B)", {11: 5.0, 14: 3.0}),
        ("SEQ(A, B, !X)", {4: 1.0, 8: 2.0, 11: 4.0, 14: 3.0}),
        ("AND(A, B, !X)", {}),
    ],
)
def test_negations_at_an_end_depend_on_the_window(pattern: str, expected: dict[int, float]) -> None:
    found = values(f"{pattern} AGG COUNT(*) WITHIN 10 s", "x1 a3 b4 a6 x7 b8 b11 b14")
    assert {time: value for time, _, value in found} == expected


def test_other_queries_change_no_slides() -> None:
    """A group in a negation is found in a tree, over the events of both queries."""
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    slides = "QUERY slides PATTERN SEQ(!D^1 d, C c) AGG COUNT(*) WITHIN 3 ms SLIDE 1 ms"
    beside = "QUERY beside PATTERN SEQ(B b, C c) RETURN b WITHIN 1 ms"
    bound = load_bound({"stream": stream, "queries": [slides, beside]})
    table = pa.table({"ts": [7, 7, 9], "kind": ["B", "D", "C"]})
    found = run_local(bound, from_table(table, bound.stream)).aggregates
    assert found.column("time").to_pylist() == [10, 11]  # (6, 9] has the D


def test_the_last_event_of_an_or_is_a_trigger_of_either_part() -> None:
    found = values("OR(A a, SEQ(A b, B c)) AGG COUNT(*) WITHIN 9 s", "a1 b2")
    assert found == [(1, "COUNT(*)", 1.0), (2, "COUNT(*)", 2.0)]


def test_sums_beyond_64_bits_are_right() -> None:
    table = pa.table({"ts": range(6), "type": list("AABBBB"), "x": [2**62] * 6})
    bound = workload("PATTERN SEQ(A a, B b) AGG SUM(b.x), AVG(b.x), MAX(b.x) WITHIN 99 s")
    found = both(bound, from_table(table, bound.stream)).aggregates
    assert max(found.column("value").to_pylist()) == float(8 * 2**62)


# --- values ------------------------------------------------------------------------------------

TYPED = pa.table(
    {
        "ts": pa.array([1000, 2500, 4000, 4000], pa.timestamp("ms")),
        "type": ["A", "B", "B", "B"],
        "s": ["m", "a", "z", None],
        "f": [0.1, 0.2, None, 0.3],
        "b": [True, False, None, True],
        "i": [2**62, 2**62, -(2**62), 3],
        "day": pa.array([0, 1, 2, 3], pa.int32()).cast(pa.date32()),
        "tags": [["u"], [], None, ["v", "w"]],
    }
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a.s > b.s", ["a"]),
        ("b.s > 'b'", ["z"]),
        ("b.s < 'zz' AND b.s >= 'a'", ["a", "z"]),
        ("b.s IN ('a', 'q')", ["a"]),
        ("b.s NOT IN ('a', 'q')", ["z"]),
        ("b.s != a.s", ["a", "z"]),
        ("NOT b.s = 'a'", ["z", None]),
        ("b.f - a.f > 0.1", [None]),
        ("b.b = TRUE", [None]),
        ("a.b != b.b", ["a"]),
        ("b.b IS NULL", ["z"]),
        ("a.i + b.i > 9223372036854775807", ["a"]),
        ("a.i * b.i < 0", ["z"]),
        ("a.i * 4 = 18446744073709551616", ["a", "z", None]),
        ("a.i = 4611686018427387904.0", ["a", "z", None]),
        ("a.i - 1 < 4611686018427387904.0", ["a", "z", None]),
        ("b.i / 2 < 2", ["z", None]),
        ("-b.i % 5 = 2", [None]),
        ("b.i % 0 IS NULL", ["a", "z", None]),
        ("a.time < b.time", ["a", "z", None]),
        ("b.time = b.ts", ["a", "z", None]),
        ("b.day > a.time", ["a", "z", None]),
        ("b.i = NULL", []),
    ],
)
def test_values_of_every_type(where: str, expected: list[str | None]) -> None:
    bound = workload(f"QUERY q PATTERN SEQ(A a, B b) WHERE {where} RETURN b.s WITHIN 9 s")
    events = from_table(TYPED, bound.stream)
    # Python compares no date with a time, so the reference has nothing to say about those.
    run = run_local if "day" in where else both
    found = sorted_results(run(bound, events)).matches.column("match").to_pylist()
    assert sorted(found) == sorted(
        json.dumps({"b": {"s": s}}, separators=(",", ":")) for s in expected
    )


def test_whole_events_and_computed_values_are_returned() -> None:
    bound = workload(
        "QUERY q PATTERN SEQ(A a, ALL B b) RETURN a AS whole, b.s, b.time, a.i * 2 AS large, "
        "min(b.s) AS least, max(b.ts) AS latest, avg(b.f) AS mean, count(b.f) AS known, "
        "a.f / 0 AS nothing WITHIN 9 s"
    )
    (row,) = both(bound, from_table(TYPED, bound.stream)).matches.to_pylist()
    assert json.loads(row["match"]) == {
        "whole": {
            "ts": "1970-01-01T00:00:01",
            "type": "A",
            "s": "m",
            "f": 0.1,
            "b": True,
            "i": 2**62,
            "day": "1970-01-01",
            "tags": ["u"],
        },
        "b": [
            {"s": "a", "time": "1970-01-01T00:00:02.500"},
            {"s": "z", "time": "1970-01-01T00:00:04"},
            {"s": None, "time": "1970-01-01T00:00:04"},
        ],
        "large": 2**63,
        "least": "a",
        "latest": "1970-01-01T00:00:04",
        "mean": 0.25,
        "known": 2,
        "nothing": None,
    }
    assert row["start"] == datetime.datetime(1970, 1, 1, 0, 0, 1)
    assert row["time"] == datetime.datetime(1970, 1, 1, 0, 0, 10)


def test_a_column_called_time_is_the_attribute_time() -> None:
    table = pa.table({"ts": [1, 2], "time": ["x", "y"], "type": ["A", "B"]})
    query = "QUERY q PATTERN SEQ(A a, B b) WHERE a.time < b.time RETURN a, b.time WITHIN 9 s"
    bound = workload(query)
    (row,) = both(bound, from_table(table, bound.stream)).matches.to_pylist()
    assert row["match"] == '{"a":{"ts":1,"time":"x","type":"A"},"b":{"time":"y"}}'


def test_the_order_of_arrival_changes_no_group() -> None:
    bound = workload("QUERY q PATTERN ALL B b RETURN b.s, first(b.f) AS f WITHIN 9 s")
    reversed_rows = TYPED.take([3, 2, 1, 0])
    found = [
        both(bound, from_table(table, bound.stream)).matches.to_pylist()
        for table in (TYPED, reversed_rows)
    ]
    assert found[0] == found[1]


def test_absent_parts_of_an_or_are_left_out() -> None:
    bound = workload("QUERY q PATTERN OR(A a, B b) RETURN a.s, b.s, b.i - 1 AS less WITHIN 9 s")
    found = both(bound, from_table(TYPED, bound.stream)).matches.column("match").to_pylist()
    assert '{"a":{"s":"m"},"less":null}' in found
    assert '{"b":{"s":null},"less":2}' in found


def test_dates_are_times_of_whole_days() -> None:
    bound = workload("QUERY q PATTERN SEQ(A, B) RETURN A.day, B.day WITHIN 2 day", time="day")
    found = both(bound, from_table(TYPED, bound.stream)).matches
    assert found.column("end").to_pylist() == [datetime.date(1970, 1, 2)]
    bound = workload("PATTERN SEQ(A, B) AGG COUNT(*) WITHIN 36 hour", time="day")
    with pytest.raises(UnsupportedError, match="not a whole number"):
        run_local(bound, from_table(TYPED, bound.stream))


# --- sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["", "a1", "b1", "x1", "a1 b2"])
@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, B b) RETURN a.ts WITHIN 9 s",
        "SEQ(!X, A a, B b) WHERE [k] RETURN a.ts WITHIN 9 s",
        "SEQ(A+ a, ALL B b) RETURN a.ts WITHIN 9 s",
        "SEQ(A a, B b, !X) AGG COUNT(*), SUM(a.x) WITHIN 9 s",
        "AND(A a, ALL B b) AGG COUNT(*), MIN(b.x) WITHIN 9 s SLIDE 3 s",
        "SEQ(ALL B b) AGG COUNT(*) WITHIN 9 s",
    ],
)
def test_no_event_and_one_event(query: str, stream: str) -> None:
    bound = workload(f"QUERY q PATTERN {query}")
    columns = {"ts": pa.int64(), "type": pa.string(), "k": pa.int64(), "x": pa.int64()}
    listed = [{"ts": r["ts"], "type": r["type"], "k": 1, "x": 1} for r in rows(stream)]
    events = from_table(pa.Table.from_pylist(listed, pa.schema(columns)), bound.stream)
    both(bound, events)


def test_many_keys_that_never_return() -> None:
    count = 2000
    table = pa.table({"ts": range(count), "type": ["A"] * count, "k": range(count)})
    bound = workload(
        "QUERY p PATTERN SEQ(A a, A b) WHERE [k] RETURN a.k WITHIN 99 s",
        "QUERY q PATTERN A a WHERE [k] AGG COUNT(*) WITHIN 99 s",
    )
    found = run_local(bound, from_table(table, bound.stream))
    assert (found.matches.num_rows, found.aggregates.num_rows) == (0, count)


def test_partitions_far_apart_in_time() -> None:
    table = pa.table(
        {
            "ts": [-(2**61), -(2**61) + 1, 2**61, 2**61 + 1] * 3,
            "type": ["A", "B", "A", "B"] * 3,
            "k": [1] * 4 + [2] * 4 + [3] * 4,
        }
    )
    bound = workload("QUERY q PATTERN SEQ(A a, B b) WHERE [k] RETURN a.k WITHIN 9 s")
    assert both(bound, from_table(table, bound.stream)).matches.num_rows == 6


def test_too_many_groups_are_refused_by_name() -> None:
    stream = " ".join(f"a{i}" for i in range(40))
    bound = workload("QUERY greedy PATTERN A+ a RETURN a.ts WITHIN 99 s")
    with pytest.raises(
        TooLargeError, match=r"query greedy is too large .* give it a LIMIT; shorten"
    ):
        run_local(bound, events_of(bound, stream), Limits(join=1000, listed=1000, chunk=100))


def test_too_many_partial_matches_are_refused() -> None:
    stream = " ".join(f"a{i} b{i}" for i in range(40))
    bound = workload("QUERY q PATTERN SEQ(A a, B b) RETURN a.ts WITHIN 99 s")
    with pytest.raises(TooLargeError, match="partial matches"):
        run_local(bound, events_of(bound, stream), Limits(work=100))


def test_values_that_cannot_be_compared_are_refused_by_query() -> None:
    bound = workload("QUERY q PATTERN SEQ(A a, B b) WHERE a.s < b.i RETURN a.s WITHIN 9 s")
    with pytest.raises(UnsupportedError, match="query q: '<' compares a string with a int"):
        run_local(bound, from_table(TYPED, bound.stream))
    bound = workload("QUERY q PATTERN SEQ(A a, B b) WHERE [tags] RETURN a.s WITHIN 9 s")
    with pytest.raises(UnsupportedError, match="column 'tags' has type list"):
        run_local(bound, from_table(TYPED, bound.stream))
    bound = workload("QUERY q PATTERN A a AGG MIN(a.s) WITHIN 9 s")
    with pytest.raises(UnsupportedError, match="an aggregate gives a number"):
        run_local(bound, from_table(TYPED, bound.stream))


def test_columns_that_are_missing_are_said() -> None:
    bound = workload("QUERY q PATTERN A a WHERE a.nope = 1 RETURN a.s WITHIN 9 s")
    with pytest.raises(EventsError, match="no column 'nope'"):
        run_local(bound, from_table(TYPED, bound.stream))


def test_several_queries_of_both_kinds() -> None:
    document = {
        "stream": {"time": "ts", "type": "type"},
        "queries": [
            "QUERY m PATTERN SEQ(A a, B b) RETURN a.s WITHIN 2 s",
            "QUERY c PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 9 s",
            "QUERY d PATTERN SEQ(B a, B b) WHERE [s] AGG COUNT(*) WITHIN 9 s",
        ],
    }
    bound = load_bound(document)
    found = both(bound, from_table(TYPED, bound.stream))
    assert set(found.matches.column("query").to_pylist()) == {"m"}
    assert set(found.aggregates.column("query").to_pylist()) == {"c"}
