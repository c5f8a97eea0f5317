"""Groups whose members a condition chooses, and components that only have to exist."""

from dataclasses import replace

from engines.reference import matches_of
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Proj,
    Seq,
    Symbol,
)
from tests.oracle.notation import matches, rows, workload


def test_all_leaves_out_what_its_conditions_exclude_also_from_its_middle() -> None:
    stream = "b1(x=0) b2(x=5) b3(x=1) c4(x=2)"
    assert matches("SEQ(ALL B b, C c)", stream, where="b.x < c.x") == ["b1 b3 c4"]
    assert matches("SEQ(C c, ALL B b)", "c0(x=2) " + stream, where="b.x < c.x") == ["c0 b1 b3"]


def test_what_all_leaves_out_may_be_another_part_of_an_and() -> None:
    stream = "b1(x=0) b2(x=2) b3(x=1)"
    found = matches("AND(ALL B b, B c)", stream, where="b.x < c.x")
    assert found == ["b1 b2 b3", "b1 b3"]


def test_what_only_has_to_exist_may_be_an_event_that_an_and_uses() -> None:
    a, b, c = (Event(Symbol(kind), kind.lower()) for kind in "ABC")
    copy, other = Event(Symbol("B"), "b'"), Event(Symbol("B"), "d")
    part = Proj(frozenset("ac"), Seq((a, copy, Neg(b), c)))
    bound = workload("PATTERN SEQ(A a, C c) AGG COUNT(*) WITHIN 9 s")
    for pattern in (And((part, other)), And((other, part))):
        query = replace(bound.queries[0], pattern=pattern)
        assert matches_of(query, bound.stream, rows("a1 b2 c3")) == [
            {"a": (0,), "c": (2,), "d": (1,)}
        ]
