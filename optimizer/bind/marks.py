"""Marks before the parts of a SEQ, as the negations that they stand for.

`: P` is `!Any, P`: no event of the partition lies in the gap. `> E a` is `!E n, E a`: none of type
E lies there that satisfies the predicates on `a` alone, and every condition that speaks of `a` and
otherwise of components before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from optimizer.bind.conditions import canonical
from optimizer.bind.scope import QueryScope
from optimizer.ir.pattern import (
    ANY,
    And,
    Event,
    GroupWithout,
    Neg,
    Or,
    Pattern,
    Quantifier,
    Seq,
    Symbol,
)
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError
from workloads.printing import print_component

Predicates = Mapping[str, tuple[ex.Expression, ...]]


def has_strict_gaps(pattern: sx.Pattern) -> bool:
    """Does it ask for a gap without any event of the partition?"""
    return any(
        _is_consecutive(node)
        if isinstance(node, sx.Component)
        else isinstance(node, sx.Operation) and "strict" in node.marks
        for node in _nodes(pattern)
    )


def check_marks(scope: QueryScope, pattern: sx.Pattern) -> None:
    """Marks stand behind a part that occurs and before one; `>` before one component or several."""
    strategy = scope.query.strategy
    for node in _nodes(pattern):
        if isinstance(node, sx.Component):
            if _is_consecutive(node) and strategy == "next":
                sign = print_component("", None, node.quantifier, node.optional).removeprefix('""')
                scope.report(
                    QueryError(
                        f"'{sign}' stands in a query with STRATEGY NEXT",
                        node.span,
                        f"NEXT says what may lie between the events of a group: write '{sign[1:]}'",
                    )
                )
            continue
        if not isinstance(node, sx.Operation):
            continue
        occurs = False
        for mark, part in node.marked_parts:
            if mark is not None and (why := _misplaced(mark, part, occurs, strategy)):
                scope.report(QueryError(why[0], part.span, why[1]))
            occurs = occurs or not isinstance(part, sx.Negation)


def _misplaced(
    mark: sx.Mark, part: sx.Pattern, occurs: bool, strategy: sx.Strategy
) -> tuple[str, str] | None:
    """What is wrong with a mark, and what to do about it."""
    sign = sx.MARKS[mark]
    if strategy != "any":
        return (
            f"the mark '{sign}' stands in a query with STRATEGY {strategy.upper()}",
            "the strategy is about all gaps: leave one of the two out",
        )
    if isinstance(part, sx.Negation):
        return (
            f"the mark '{sign}' stands before a negation",
            "it says what may lie before an event: put it before the next part that occurs",
        )
    if not occurs:
        return (
            f"the mark '{sign}' stands before the first part that occurs",
            "it is about the gap between two parts: leave it out",
        )
    if mark == "next" and _has_and_first(part):
        return (
            "the mark '>' stands before what begins with an AND or a negation",
            "which of its events comes first is open: put marks before single components",
        )
    return None


def _is_consecutive(component: sx.Component) -> bool:
    match component.quantifier:
        case sx.ConsecutivePlus() | sx.Between(consecutive=True):
            return True
        case _:
            return False


def _has_and_first(part: sx.Pattern) -> bool:
    match part:
        case sx.Operation("AND"):
            return True
        case sx.Operation("SEQ", (first, *_)):
            return isinstance(first, sx.Negation) or _has_and_first(first)
        case sx.Operation("OR", parts):
            return any(map(_has_and_first, parts))
        case _:
            return False


def _nodes(pattern: sx.Pattern) -> Iterator[sx.Pattern]:
    yield pattern
    match pattern:
        case sx.Negation(part):
            yield from _nodes(part)
        case sx.Operation(_, parts):
            for part in parts:
                yield from _nodes(part)
        case sx.Join(left, right):
            yield from (left.component, right.component)


@dataclass
class PatternBuilder:
    """Builds the pattern of a query; `copied` are the conditions that marks ask for besides.

    `local` are the predicates of each alias, `conditions` those that tie components.
    """

    local: Predicates = field(default_factory=dict)
    conditions: tuple[ex.Expression, ...] = ()
    marked: bool = True  # are marks built, or left out?
    optional: bool = False  # may components be absent, so that a gap may be none?
    copied: list[ex.Expression] = field(default_factory=list)

    def build(self, pattern: sx.Pattern, before: frozenset[str] = frozenset()) -> Pattern:
        """The bound pattern; `before` are the components that precede it."""
        match pattern:
            case sx.Component():
                quantifier = self._quantifier(pattern)
                return Event(self._symbol(pattern), pattern.name, quantifier, pattern.optional)
            case sx.Negation(part, until=until):
                return Neg(self.build(part, before), until)
            case sx.Join(left, right):
                return And(
                    (self.build(left.component, before), self.build(right.component, before))
                )
            case sx.Operation("SEQ"):
                return Seq(tuple(self._sequence(pattern, before)))
            case sx.Operation(operator, parts):
                built = tuple(self.build(part, before) for part in parts)
                return And(built) if operator == "AND" else Or(built)

    def _symbol(self, component: sx.Component) -> Symbol:
        return Symbol(component.type, self.local.get(component.name, ()))

    def _quantifier(self, component: sx.Component) -> Quantifier:
        absent = (Neg(Event(ANY, f"{component.name}:")),)
        match component.quantifier:
            case sx.ConsecutivePlus():
                return GroupWithout(absent)
            case sx.Between(least, most, consecutive):
                return GroupWithout(absent if consecutive else (), least, most)
            case _:
                return component.quantifier

    def _sequence(self, sequence: sx.Operation, before: frozenset[str]) -> Iterator[Pattern]:
        for mark, part in sequence.marked_parts:
            if mark == "strict" and self.marked:
                yield Neg(Event(ANY, f":{_first_name(part)}"), between=self.optional)
            if mark == "next" and self.marked:
                yield self._first(part, before)
            else:
                yield self.build(part, before)
            if not isinstance(part, sx.Negation):
                before |= set(_positive_names(part))

    def _first(self, part: sx.Pattern, before: frozenset[str]) -> Pattern:
        """A part before which nothing lies that it could have begun with."""
        match part:
            case sx.Operation("SEQ", (first, *rest)):
                marks = ("next", *(part.marks or (None,) * len(part.parts))[1:])
                return self.build(sx.Operation("SEQ", (first, *rest), part.span, marks), before)
            case sx.Operation("OR", parts):
                return Or(tuple(self._first(each, before) for each in parts))
            case sx.Component():
                absent = f">{part.name}"
                self.copied += [
                    canonical(ex.rename(c, {part.name: absent}))
                    for c in self.conditions
                    if part.name in (named := ex.aliases(c))
                    and named <= before | {part.name}
                    and not _is_grouped(c, part.name)
                ]
                negation = Neg(Event(self._symbol(part), absent), between=self.optional)
                return Seq((negation, self.build(part, before)))
            case _:
                raise AssertionError(f"a mark before {part}")


def _positive_names(pattern: sx.Pattern) -> Iterator[str]:
    match pattern:
        case sx.Component():
            yield pattern.name
        case sx.Operation(_, parts):
            for part in parts:
                yield from _positive_names(part)


def _is_grouped(condition: ex.Expression, alias: str) -> bool:
    """Does it speak of a component as of a group?"""
    return any(
        isinstance(node, ex.Call) and alias in ex.aliases(node) for node in ex.walk(condition)
    )


def _first_name(part: sx.Pattern) -> str:
    return next(node.name for node in _nodes(part) if isinstance(node, sx.Component))
