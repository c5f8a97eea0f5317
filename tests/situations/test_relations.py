"""Each of the thirteen relations holds where it should, and is known when it should be."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.local.run import event_chunks
from engines.program import RunContext
from engines.reference.oracle import run_oracle
from engines.results.structs import match_structs
from optimizer.bind.binder import load_bound
from tests.running import How, run_local

STREAM = {"time": "ts", "unit": "s", "type": "kind"}
# Two stretches from their first second to before another, and when the relation is certain.
RELATIONS = {
    "before": ((2, 4), (6, 8), 6),
    "meets": ((2, 5), (5, 8), 5),
    "overlaps": ((2, 6), (4, 8), 6),
    "finished by": ((2, 8), (4, 8), 8),
    "contains": ((2, 8), (4, 6), 6),
    "starts": ((2, 5), (2, 8), 5),
    "equals": ((2, 7), (2, 7), 7),
    "started by": ((2, 8), (2, 5), 5),
    "during": ((4, 6), (2, 8), 6),
    "finishes": ((4, 8), (2, 8), 8),
    "overlapped by": ((4, 8), (2, 6), 6),
    "met by": ((5, 8), (2, 5), 5),
    "after": ((6, 8), (2, 4), 6),
}


def events_of(*stretches: tuple[int, int], end: int = 11, begin: int = 0) -> pa.Table:
    """One event a second, on which as many columns say whether a stretch is on; the first is at
    the second `begin`.
    """
    table: dict[str, Any] = {"ts": list(range(begin, begin + end)), "kind": ["E"] * end}
    for name, (start, stop) in zip("abc", stretches, strict=False):
        table[name] = [int(start <= ts < stop) for ts in range(end)]
    return pa.table(table)


def found(text: str, table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a query, by both engines."""
    workload = load_bound({"name": "w", "stream": STREAM, "queries": [text]})
    events = from_table(table, workload.stream)
    rows = run_local(workload, events).matches.to_pylist()
    expected = run_oracle(workload, events).matches.to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, expected))
    return [row | {"match": json.loads(row["match"])} for row in rows]


def related(relations: str, emit: str = "EARLY") -> str:
    return (
        f"QUERY q DEFINE A AS a = 1, B AS b = 1 PATTERN A {relations} B RETURN A, B "
        f"WITHIN 1 min EMIT {emit}"
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_relation_holds_between_its_stretches_and_no_others(relation: str) -> None:
    for other, (first, second, _) in RELATIONS.items():
        rows = found(related(relation, "COMPLETE"), events_of(first, second))
        assert len(rows) == (relation == other)
        for row in rows:
            ends = dict(zip(("start", "end"), first, strict=True))
            assert row["match"]["A"] == ends
            assert (row["start"], row["time"]) == (2, max(first[1], second[1]))


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_relation_is_given_when_it_is_certain(relation: str) -> None:
    first, second, certain = RELATIONS[relation]
    (row,) = found(related(relation), events_of(first, second))
    assert (row["start"], row["end"], row["time"]) == (2, certain, certain)
    for name, (start, end) in (("A", first), ("B", second)):
        assert row["match"][name] == {"start": start, "end": end if end <= certain else None}


def test_what_was_before_1970_is_related_like_what_came_later() -> None:
    for relation, (first, second, certain) in RELATIONS.items():
        for emit, time in (("EARLY", certain), ("COMPLETE", max(first[1], second[1]))):
            (row,) = found(related(relation, emit), events_of(first, second, begin=-100))
            assert (row["start"], row["time"]) == (2 - 100, time - 100)


@pytest.mark.parametrize(
    ("group", "times"),
    [
        ("overlaps;finished by;contains", {"overlaps": 4, "finished by": 4, "contains": 4}),
        ("overlapped by;finishes;during", {"overlapped by": 4, "finishes": 4, "during": 4}),
        ("starts;equals;started by", {"starts": 2, "equals": 2, "started by": 2}),
        # A part of a group tells nothing at the later start.
        ("overlaps;contains", {"overlaps": 6, "contains": 6}),
        ("before;meets", {"before": 6, "meets": 5}),
        ("intersects", {"overlaps": 4, "starts": 2, "during": 4}),
    ],
)
def test_a_whole_group_of_relations_is_certain_at_the_later_start(
    group: str, times: dict[str, int]
) -> None:
    for relation, certain in times.items():
        first, second, _ = RELATIONS[relation]
        (row,) = found(related(group), events_of(first, second))
        assert row["time"] == certain


def test_aggressive_drivers_are_found_as_soon_as_they_are_certain() -> None:
    text = """
        QUERY aggressive
        DEFINE A OF Car AS accel > 8 AT LEAST 5 s,
               B OF Car AS speed > 70 BETWEEN 4 s AND 30 s,
               C OF Car AS accel < -9 AT LEAST 3 s
        PATTERN A meets;overlaps;starts;during B
            AND B contains;finished by;overlaps;meets C
            AND A before C
        PARTITION BY car_id
        RETURN first(B.car_id) AS id, avg(B.speed) AS avg_speed, A, B, C
        WITHIN 5 min"""
    rows = []
    for ts in range(60):
        # Car 7 accelerates from 5 to 12, is fast from 10 to 30, and brakes from 27 to 33.
        accel = 9.0 if 5 <= ts < 12 else -10.0 if 27 <= ts < 33 else 0.0
        rows.append({"ts": ts, "kind": "Car", "car_id": 7, "accel": accel, "speed": 50.0})
        rows[-1]["speed"] = 80.0 if 10 <= ts < 30 else 50.0
        # Car 8 brakes for two seconds only.
        accel = 9.0 if 5 <= ts < 12 else -10.0 if 27 <= ts < 29 else 0.0
        rows.append(rows[-1] | {"car_id": 8, "accel": accel})
        rows.append({"ts": ts, "kind": "Bus", "car_id": 7, "accel": None, "speed": None})
    (row,) = found(text, pa.Table.from_pylist(rows))
    assert row["key"] == '{"car_id":7}'
    # B has a longest duration, so that its end must be seen; it is the last to be certain.
    assert (row["start"], row["time"]) == (5, 30)
    assert row["match"] == {
        "id": 7,
        "avg_speed": 80.0,
        "A": {"start": 5, "end": 12},
        "B": {"start": 10, "end": 30},
        "C": {"start": 27, "end": None},
    }


def test_time_alone_ends_a_situation_after_its_gap() -> None:
    text = "QUERY q DEFINE A AS a = 1 GAP 3 s PATTERN A RETURN A WITHIN 1 min EMIT COMPLETE"
    table = pa.table({"ts": [0, 2, 5, 20, 21], "kind": ["E"] * 5, "a": [1, 1, 1, 1, 0]})
    rows = found(text, table)
    assert [row["match"]["A"] for row in rows] == [
        {"start": 0, "end": 8},
        {"start": 20, "end": 21},
    ]


def test_a_long_enough_situation_counts_when_it_has_lasted() -> None:
    text = "QUERY q DEFINE A AS a = 1 AT LEAST 4 s PATTERN A RETURN A, count(A.a) AS n WITHIN 1 min"
    table = pa.table({"ts": [0, 3, 9, 10, 12], "kind": ["E"] * 5, "a": [1, 1, 1, 0, 1]})
    (first, second) = found(text, table)
    assert (first["time"], first["match"]) == (4, {"A": {"start": 0, "end": None}, "n": 2})
    assert (second["time"], second["match"]["A"]["start"]) == (16, 12)


def test_a_window_ends_before_its_width() -> None:
    text = "QUERY q DEFINE A AS a = 1 PATTERN A RETURN A WITHIN {} s EMIT COMPLETE"
    table = events_of((2, 6))
    assert found(text.format(4), table) == []
    assert len(found(text.format(5), table)) == 1


def test_simultaneous_events_must_all_satisfy_a_condition() -> None:
    text = "QUERY q DEFINE A AS a = 1 PATTERN A RETURN A WITHIN 1 min"
    table = pa.table({"ts": [0, 1, 1, 2, 3], "kind": ["E"] * 5, "a": [1, 1, None, 1, 0]})
    assert [row["match"]["A"]["start"] for row in found(text, table)] == [0, 2]


def test_one_definition_under_two_names_is_two_situations_unless_equals_is_allowed() -> None:
    text = "QUERY q DEFINE A AS a = 1, B AS a = 1 PATTERN A {} B RETURN A, B WITHIN 1 min"
    table = pa.table({"ts": range(6), "kind": ["E"] * 6, "a": [1, 0, 1, 1, 0, 0]})
    assert len(found(text.format("before;equals"), table)) == 3
    assert len(found(text.format("any"), table)) == 4
    (row,) = found(text.format("before"), table)
    assert row["match"]["B"]["start"] == 2


def test_matches_as_structs_have_the_edges_as_times() -> None:
    text = (
        "QUERY q DEFINE A AS a = 1, B AS b = 1 PATTERN A before B "
        "RETURN A, B.end AS until, count(A.a) AS n WITHIN 1 min"
    )
    workload = load_bound({"name": "w", "stream": STREAM, "queries": [text]})
    table = events_of((2, 4), (6, 8))
    structs = match_structs(workload, table.schema)
    assert structs is not None
    (chunk,) = event_chunks(
        How().program(workload), from_table(table, workload.stream), RunContext()
    )
    (rows,) = chunk.tables(structs)
    assert rows.column("match").to_pylist() == [
        {"A": {"start": 2, "end": 4}, "until": None, "n": 2}
    ]
