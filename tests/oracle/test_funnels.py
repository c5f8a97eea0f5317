"""Levels and steps of funnels, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from engines.reference import run
from tests.oracle.notation import rows, workload

IN_ORDER = "a1 b2 c3"
WITH_ANOTHER = "a1 x2 b3 c4"
REPEATED = "a1 a2 b3 b4 c5 c6"
OUT_OF_TURN = "a1 c2 b3"
BACKWARD = "c1 b2 a3"


def level(clauses: str, stream: str, steps: str = "A a, B b, C c", within: str = "100 s") -> Any:
    query = f"FUNNEL SEQ({steps}) {clauses} RETURN LEVELS WITHIN {within}"
    (row,) = run(workload(query), rows(stream))
    return row["value"]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("", [3, 3, 3, 2, 1]),
        ("STRICT ORDER", [3, 1, 3, 1, 1]),
        ("STRICT", [3, 3, 2, 2, 1]),
        ("STRICT STRICT ORDER", [3, 1, 2, 1, 1]),
        ("STRICT INCREASE", [3, 3, 3, 2, 1]),
    ],
)
def test_levels_by_strictness(clauses: str, expected: list[int]) -> None:
    streams = (IN_ORDER, WITH_ANOTHER, REPEATED, OUT_OF_TURN, BACKWARD)
    assert [level(clauses, stream) for stream in streams] == expected


def test_a_window_begins_with_the_first_step() -> None:
    stream = "a3 b4 c5 d6 e7"
    steps = "A a, B b, C c, D d, E e"
    inclusive = [level("", stream, steps, f"{width} s INCLUSIVE") for width in (1, 2, 3, 4)]
    assert inclusive == [2, 3, 4, 5]
    assert [level("", stream, steps, f"{width} s") for width in (1, 2, 3, 4)] == [1, 2, 3, 4]


def test_a_later_first_step_is_another_attempt() -> None:
    assert level("", "a1 b2 a50 b51 c52", within="10 s") == 3
    assert level("STRICT ORDER", "a1 x2 a3 b4 c5") == 1  # what is behind does not count


def test_simultaneous_events_go_in_the_order_of_steps() -> None:
    assert level("", "c1 b1 a1") == 3
    assert level("STRICT INCREASE", "a0 c1 b1 d2", "A a, B b, C c, D d") == 2
    assert level("STRICT INCREASE", "a0 a1 b1") == 2  # by the first of them
    assert level("", "a1", "A a, A b, A c") == 3
    assert level("STRICT INCREASE", "a1 a2", "A a, A b, A c") == 2


def test_steps_have_counts_conversions_and_times() -> None:
    query = "FUNNEL SEQ(A a, B b) RETURN STEPS WITHIN 100 s PARTITION BY k"
    stream = " ".join(f"a{n}(k={n}) b{3 * n}(k={n})" for n in range(1, 6)) + " a9(k=6) x20(k=7)"
    found = {row["aggregate"]: row for row in run(workload(query), rows(stream))}
    assert {name: row["value"] for name, row in found.items()} == {
        "STEP 1 a": 6,
        "STEP 2 b": 5,
        "STEP 2 b CONVERSION": 5 / 6,
        "STEP 2 b CONVERSION FROM a": 5 / 6,
        "STEP 2 b MEDIAN TIME FROM a": 6,  # of 2, 4, 6, 8, 10
        "STEP 2 b P90 TIME FROM a": 9.2,
    }
    assert {row["time"] for row in found.values()} == {20}
    assert found["STEP 2 b"]["count"] == 5


def test_keys_are_counted_by_their_first_event() -> None:
    query = "FUNNEL SEQ(A a, B b) BY a.x RETURN STEPS WITHIN 100 s PARTITION BY k"
    stream = "a1(k=1,x=1) a2(k=1,x=2) b3(k=1,x=3) a1(k=2,x=2) b9(k=3,x=1)"
    found = run(workload(query), rows(stream))
    counts = {(row["key"]["x"], row["aggregate"]): row["count"] for row in found if row["count"]}
    assert counts == {(1, "STEP 1 a"): 1, (1, "STEP 2 b"): 1, (2, "STEP 1 a"): 1}
