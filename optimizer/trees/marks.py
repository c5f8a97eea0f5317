"""Negations of the readers of one piece, in names that do not depend on who reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from optimizer.bind.conditions import canonical, is_readable, read_condition
from optimizer.ir.pattern import (
    And,
    Event,
    GroupWithout,
    Neg,
    Or,
    Pattern,
    Proj,
    Quantifier,
    Seq,
    Symbol,
    events,
    rename,
    walk,
)
from optimizer.trees.errors import TreeError
from optimizer.trees.negation import depends
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)

_KINDS: Mapping[str, type[Seq] | type[And] | type[Or]] = {"SEQ": Seq, "AND": And, "OR": Or}


@dataclass(frozen=True, slots=True)
class MarkTest:
    """A negation that stands behind component `after` of a piece.

    The components of the piece are called c1, c2 and so on, those that are negated m1, m2 …
    """

    after: int
    negation: Pattern
    conditions: tuple[ex.Expression, ...] = ()

    def numbered(self, number: int) -> MarkTest:
        """The same with names that no other test of the piece has."""
        names = {event.alias: f"{event.alias}_{number}" for event in events(self.negation)}
        asked = tuple(ex.rename(condition, names) for condition in self.conditions)
        return MarkTest(self.after, rename(self.negation, names), asked)

    def to_document(self) -> dict[str, Any]:
        """The test as plain values."""
        return {
            "after": self.after,
            "negation": _to_document(self.negation),
            "conditions": list(map(print_expression, self.conditions)),
        }

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> MarkTest:
        """The test that `to_document` made these values from."""
        match document:
            case {"after": int(after), "negation": negation, "conditions": [*conditions]}:
                asked = tuple(map(read_condition, conditions))
                return MarkTest(after, _from_document(negation), asked)
            case _:
                raise TreeError(f"this is no negation of a piece: {str(document)[:80]}")


def component(number: int) -> str:
    """What a component of a piece is called in tests, counted from 1."""
    return f"c{number}"


def mark_test(
    after: int, negation: Neg, conditions: Sequence[ex.Expression], names: Mapping[str, str]
) -> MarkTest | None:
    """A negation of a query as a test; `names` are those of the components that the piece binds.

    None where it depends on more than these, or where it is not the same again when it is read.
    """
    return _mark_test(after, negation, tuple(conditions), tuple(names.items()))


@lru_cache(maxsize=65_536)
def _mark_test(
    after: int,
    negation: Neg,
    conditions: tuple[ex.Expression, ...],
    named: tuple[tuple[str, str], ...],
) -> MarkTest | None:
    own = [event.alias for event in events(negation.part)]
    names = dict(named) | {alias: f"m{i}" for i, alias in enumerate(own, 1)}
    mine = [c for c in conditions if not ex.aliases(c).isdisjoint(own)]
    if any(not ex.aliases(c) <= names.keys() for c in mine) or depends(negation, conditions):
        return None
    asked = {canonical(ex.rename(c, names)) for c in mine}
    pattern = rename(negation.part, names)
    predicates = (p for event in events(pattern) for p in event.symbol.predicates)
    if any(isinstance(part, Proj) for part in walk(pattern)):
        return None
    if not all(map(is_readable, (*asked, *predicates))):
        return None
    return MarkTest(after, pattern, tuple(sorted(asked, key=print_expression)))


def marked_document(
    part: Mapping[str, Any], aliases: Sequence[str], readers: Sequence[Sequence[MarkTest]]
) -> dict[str, Any]:
    """The rows of a tree, which is a document, marked for readers that ask for some tests each.

    What most of them ask for is tested first.
    """
    asked = Counter(test for tests in readers for test in tests)
    number = {test: i for i, (test, _) in enumerate(asked.most_common())}
    return {
        "operator": "MARKED",
        "parts": [part],
        "components": list(aliases),
        "tests": [test.to_document() for test in number],
        "readers": [sorted(number[test] for test in tests) for tests in readers],
    }


def _to_document(pattern: Pattern) -> dict[str, Any]:
    match pattern:
        case Event(symbol, alias, quantifier):
            return {
                "type": symbol.type,
                "predicates": list(map(print_expression, symbol.predicates)),
                "alias": alias,
                "quantifier": quantifier_text(quantifier),
            }
        case Neg(part):
            return {"pattern": "NOT", "parts": [_to_document(part)]}
        case Seq(parts) | And(parts) | Or(parts):
            kind = type(pattern).__name__.upper()
            return {"pattern": kind, "parts": [_to_document(part) for part in parts]}
        case Proj():
            raise TreeError("a projection is no part of a test")


def _from_document(document: Mapping[str, Any]) -> Pattern:
    match document:
        case {
            "type": str(kind),
            "predicates": [*predicates],
            "alias": str(alias),
            "quantifier": str(quantifier),
        }:
            symbol = Symbol(kind, tuple(map(read_condition, predicates)))
            return Event(symbol, alias, quantifier_of(quantifier))
        case {"pattern": "NOT", "parts": [part]}:
            return Neg(_from_document(part))
        case {"pattern": "SEQ" | "AND" | "OR" as kind, "parts": [*parts]}:
            return _KINDS[kind](tuple(map(_from_document, parts)))
        case _:
            raise TreeError(f"this is no pattern: {str(document)[:80]}")


def quantifier_text(quantifier: Quantifier) -> str:
    """A quantifier as documents have it."""
    match quantifier:
        case One():
            return "1"
        case Plus() | GroupWithout():  # which no tree runs: one only estimates its rows
            return "+"
        case Exactly(count):
            return f"^{count}"
        case All():
            return "ALL"


def quantifier_of(text: str) -> Quantifier:
    """The quantifier that a document has as a text."""
    match text:
        case "1":
            return One()
        case "+":
            return Plus()
        case "ALL":
            return All()
        case _ if text[:1] == "^" and text[1:].isdecimal():
            return Exactly(int(text[1:]))
        case _:
            raise TreeError(f"this is no quantifier: {text!r}")
