"""The driver checks what rules do, names the one that is wrong, and stops what never ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
)
from optimizer.rewrite.body import print_body
from optimizer.rewrite.driver import RewriteError, apply, check, rewrite
from optimizer.rewrite.rule import Edit, NodeContext
from optimizer.rewrite.rules import RULES, canonical_order, flatten
from tests.optimizer.rewriting import body_of
from workloads import expressions as ex

A, B, C = (Event(Symbol(kind), kind.lower()) for kind in "ABC")


@dataclass(frozen=True)
class Made:
    """A rule for one test."""

    NAME: str
    result: Any

    def rewrite(self, node: Pattern, place: NodeContext) -> Pattern | Edit | None:
        return self.result(node, place) if place.is_root else None


def broken(pattern: Pattern) -> Made:
    return Made("broken", lambda node, place: pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (Or((A, Neg(B))), "a negation stands outside SEQ and AND"),
        (Seq((Neg(A), Neg(B))), "Seq without a positive part"),
        (Seq((A, A)), "the alias 'a' stands for two components at once"),
        (Seq((A, Proj(frozenset("b"), B))), "a Proj stands inside SEQ"),
        (Seq((A, B, C)), "matches report other components than before"),
        (Proj(frozenset("a"), Seq((A, B))), "matches report other components than before"),
    ],
)
def test_a_rule_that_breaks_an_invariant_is_named(pattern: Pattern, message: str) -> None:
    with pytest.raises(RewriteError, match=f"after broken: .*{message}"):
        rewrite(body_of("SEQ(A a, B b)"), phases=[[broken(pattern)]])


def test_a_condition_across_two_negations_is_found() -> None:
    body = body_of("SEQ(A a, !SEQ(B b, C c)) WHERE b.x < c.x")
    crossing = broken(Seq((A, Neg(B), Neg(C))))
    with pytest.raises(RewriteError, match="ties components of two negations"):
        apply(crossing, body)


def test_a_condition_on_nothing_is_found() -> None:
    condition = ex.Comparison("<", ex.Attribute("a", "x"), ex.Attribute("z", "x"))
    with pytest.raises(RewriteError, match="speaks of 'z', which is no component"):
        check(body_of("A a").__class__(A, (condition,)), "a test")


def test_conditions_go_with_their_components() -> None:
    body = body_of("SEQ(A a, !B b, C c) WHERE a.x < b.x AND a.x < c.x")
    after = apply(broken(Seq((A, C))), body)
    assert after is not None
    assert print_body(after) == "SEQ(A a, C c) WHERE a.x < c.x"


def test_rules_that_undo_each_other_are_stopped_and_named() -> None:
    def turn(node: Pattern, place: NodeContext) -> Pattern | None:
        return And(tuple(reversed(node.parts))) if isinstance(node, And) else None

    with pytest.raises(RewriteError, match="goes on after 10,000 steps; the last rules were turn"):
        rewrite(body_of("AND(A a, B b)"), phases=[[Made("turn", turn)]])


def test_an_unknown_rule_cannot_be_switched_off() -> None:
    with pytest.raises(RewriteError, match="no rewrite rule is called 'flaten'; known are"):
        rewrite(body_of("A a"), off=["flaten"])


def test_every_rule_can_be_switched_off() -> None:
    body = body_of("SEQ(A a, SEQ(B b, !OR(D d, C c)))")
    assert rewrite(body, off=[rule.NAME for rule in RULES]).body == body
    without = rewrite(body, off=[flatten.NAME, canonical_order.NAME])
    assert [step.rule for step in without.trace] == ["split-negation"]


def test_the_trace_ends_in_the_result() -> None:
    found = rewrite(body_of("SEQ(A a, SEQ(B b, OR(D d, C c)))"))
    assert found.trace[-1].body == found.body
    assert [step.rule for step in found.trace] == [
        "flatten",
        "distribute",
        "canonical-order",
    ]
