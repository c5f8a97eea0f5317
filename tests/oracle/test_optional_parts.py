"""Optional parts, counted groups and prev by their definition, and what others document of them."""

from __future__ import annotations

import re

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import is_passed_over
from tests.oracle.notation import workload
from tests.oracle.test_selection import LOOP, found
from workloads.errors import WorkloadError


def test_what_flink_documents_of_loops() -> None:
    relaxed = "OR(" + ", ".join(f"SEQ(C c{n}, > A^{n} a{n}, > B b{n})" for n in range(1, 5)) + ")"
    relaxed = relaxed.replace("a1,", "a,")
    assert found(relaxed, LOOP) == [
        "c1 a3 a4 a5 a7 b8",
        "c1 a3 a4 a5 b8",
        "c1 a3 a4 b8",
        "c1 a3 b8",
    ]
    assert found("SEQ(C c, > A:+ a, B b)", LOOP) == [
        "c1 a3 a4 a5 b8",
        "c1 a3 a4 b8",
        "c1 a3 b8",
    ]
    assert len(found("SEQ(C c, A{1,} a, B b)", LOOP)) == 15
    assert len(found("SEQ(C c, A* a, B b)", LOOP)) == 16
    assert len(found("SEQ(C c, A{2,3} a, B b)", LOOP)) == 6 + 4


def test_an_optional_part_is_an_or_of_nothing_and_it() -> None:
    stream = "a1 b2 x3 c4 b5 c6"
    both = found("SEQ(A a, B b, C c)", stream) + found("SEQ(A a, C c)", stream)
    assert found("SEQ(A a, B? b, C c)", stream) == sorted(both)


def test_what_is_negated_or_marked_in_both_gaps_of_an_absent_part_holds_for_the_joint_gap() -> None:
    assert found("SEQ(A a, !X x, B? b, !Y y, C c)", "a1 y2 c3") == []
    assert found("SEQ(A a, !X x, B? b, !Y y, C c)", "a1 x2 c3") == []
    assert found("SEQ(A a, !X x, B? b, !Y y, C c)", "a1 y2 b3 c4") == ["a1 b3 c4"]
    assert found("SEQ(A a, : B? b, C c)", "a1 c2 c3") == ["a1 c2"]
    assert found("SEQ(A a, B? b, > C c)", "a1 c2 b3 c4") == ["a1 b3 c4", "a1 c2"]


def test_a_mark_beside_an_absent_part_at_an_end_says_nothing() -> None:
    assert found("SEQ(B? b, : A a)", "x1 a2") == ["a2"]
    assert found("SEQ(A a, : B? b)", "a1 x2 b3") == ["a1"]


def test_next_may_take_what_follows_an_optional_part() -> None:
    assert found("SEQ(A a, B? b, C c)", "a1 b2 c3", "STRATEGY NEXT") == ["a1 b2 c3"]
    assert found("SEQ(A a, B? b, C c)", "a1 c2 b3 c4", "STRATEGY NEXT") == ["a1 c2"]
    assert found("SEQ(A a, B{2,} b, C c)", "a1 b2 c3 b4 c5", "STRATEGY NEXT") == ["a1 b2 b4 c5"]


def test_prev_looks_back_in_a_group_and_under_strict_in_the_match() -> None:
    stream = "a1(x=1) a2(x=3) a3 a4(x=2)"
    rising = "WHERE a.x > prev(a.x)"
    assert found("A{2,} a", stream, rising) == ["a1 a2", "a1 a4"]
    assert found(
        "SEQ(B b, A a)", "b1(x=3) a2(x=4) b3(x=9) a4(x=4)", f"{rising} STRATEGY STRICT"
    ) == ["b1 a2"]


def test_many_optional_parts_are_passed_over_where_they_are_counted() -> None:
    parts = "SEQ(A a, B? b, C* c, D? d, E e)"
    counted = workload(f"PATTERN {parts} AGG COUNT(*) WITHIN 10 s").queries[0]
    tied = workload(f"PATTERN {parts} WHERE a.x < e.x AGG COUNT(*) WITHIN 10 s").queries[0]
    assert is_passed_over(counted)
    assert not is_passed_over(tied)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("PATTERN A? a RETURN a WITHIN 1 s", "the component is optional"),
        ("PATTERN SEQ(A? a, !B b, C* c) RETURN a WITHIN 1 s", "every part of it is optional"),
        ("PATTERN SEQ(A a, AND(B? b, C* c)) RETURN a WITHIN 1 s", "every part of it is optional"),
        ("PATTERN SEQ(A a, OR(B? b, C c)) RETURN a WITHIN 1 s", "the component is optional"),
        ("PATTERN SEQ(A a, !B? b, C c) RETURN a WITHIN 1 s", "the component is optional"),
        ("PATTERN SEQ(A a, B? b) STRATEGY LATEST RETURN a WITHIN 1 s", "LATEST takes a SEQ of"),
        ("PATTERN SEQ(A a, B:* b) STRATEGY NEXT RETURN a WITHIN 1 s", "':*' stands in a query"),
        ("PATTERN JOIN(A? a WITHIN 1 s, B b WITHIN 1 s) RETURN a", "a side of a JOIN is one event"),
        ("PATTERN A a WHERE prev(a.x) = 1 RETURN a WITHIN 1 s", "'a' is a single event"),
        ("PATTERN A+ a WHERE prev(a.x) < sum(a.x) RETURN a WITHIN 1 s", "'sum' of a whole group"),
        ("PATTERN A+ a WHERE prev(a.x + 1) < 2 RETURN a WITHIN 1 s", "prev takes alias.attribute"),
        ("PATTERN A+ a RETURN prev(a.x) AS y WITHIN 1 s", "prev stands in conditions only"),
        (
            "PATTERN SEQ(A a, !B+ b, C c) WHERE prev(b.x) < 2 RETURN a WITHIN 1 s",
            "which is negated",
        ),
    ],
)
def test_what_is_refused(query: str, message: str) -> None:
    document = {
        "name": "w",
        "stream": {"time": "ts", "type": "kind"},
        "queries": ["QUERY q " + query],
    }
    with pytest.raises(WorkloadError, match=re.escape(message)):
        load_bound(document)
