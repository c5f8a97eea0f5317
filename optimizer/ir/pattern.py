"""Patterns as the optimizer sees them: frozen trees with no positions and no statistics.

A component's own predicates live in its symbol; predicates that tie components stand beside the
pattern, in the query. Aliases are unique within every OR-free alternative of a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from workloads.expressions import Expression
from workloads.printer import print_component, print_expression
from workloads.syntax import ONE, Quantifier


@dataclass(frozen=True, slots=True)
class Symbol:
    """A type plus canonical local predicates: what makes two components interchangeable.

    The predicates are conjuncts over `Attribute("", name)`, in canonical order.
    """

    type: str
    predicates: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        inner = " AND ".join(print_expression(p) for p in self.predicates)
        return f"{self.type}[{inner}]" if inner else self.type


@dataclass(frozen=True, slots=True)
class Event:
    """The leaf: one event, or a group of them, of a symbol, bound to an alias."""

    symbol: Symbol
    alias: str
    quantifier: Quantifier = ONE


@dataclass(frozen=True, slots=True)
class Seq:
    """`SEQ(P1, …, Pn)`: each positive part wholly before the next."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class And:
    """`AND(P1, …, Pn)`: a match of each positive part in any order, no event used twice."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """`OR(P1, …, Pn)`: a match of one of the parts; without parts it never matches."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Neg:
    """`!P`, a part of a `Seq` or `And` only."""

    part: Pattern


@dataclass(frozen=True, slots=True)
class Proj:
    """`Proj_{a, d} P` (NEEL section III): matches of P as far as the kept aliases go, each once.

    The other positive components only have to exist: they lie in the match's window but do not
    count for its start, its end, its triggers or its result.
    """

    keep: frozenset[str]
    part: Pattern


Pattern: TypeAlias = Event | Seq | And | Or | Neg | Proj
NEVER = Or(())


def parts_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """The direct sub-patterns."""
    match pattern:
        case Event():  # first, as most nodes are leaves
            return ()
        case Seq(parts) | And(parts) | Or(parts):
            return parts
        case Neg(part) | Proj(_, part):
            return (part,)


def with_parts(pattern: Pattern, parts: tuple[Pattern, ...]) -> Pattern:
    """The same node over other sub-patterns."""
    match pattern:
        case Seq():
            return Seq(parts)
        case And():
            return And(parts)
        case Or():
            return Or(parts)
        case Neg():
            return Neg(parts[0])
        case Proj(keep):
            return Proj(keep, parts[0])
        case Event():
            return pattern


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and everything below it, parents first."""
    yield pattern
    for part in parts_of(pattern):
        yield from walk(part)


def events(pattern: Pattern) -> Iterator[Event]:
    """All components, negated ones included, left to right."""
    return (node for node in walk(pattern) if isinstance(node, Event))


def positive_events(pattern: Pattern) -> Iterator[Event]:
    """The components that a match binds."""
    if isinstance(pattern, Event):
        yield pattern
    elif not isinstance(pattern, Neg):
        for part in parts_of(pattern):
            yield from positive_events(part)


def transform(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """Apply `change` to every node, children first."""
    parts = parts_of(pattern)
    changed = tuple(transform(part, change) for part in parts)
    return change(pattern if changed == parts else with_parts(pattern, changed))


def rename(pattern: Pattern, names: dict[str, str]) -> Pattern:
    """The same pattern with aliases replaced."""

    def change(node: Pattern) -> Pattern:
        if isinstance(node, Event):
            return Event(node.symbol, names.get(node.alias, node.alias), node.quantifier)
        if isinstance(node, Proj):
            return Proj(frozenset(names.get(a, a) for a in node.keep), node.part)
        return node

    return transform(pattern, change)


def print_pattern(pattern: Pattern) -> str:
    """One line for people: `Proj[a, d] SEQ(A a, !B b, C[x > 1] c, D d)`."""
    match pattern:
        case Event(symbol, alias, quantifier):
            shown = None if alias == symbol.type and not symbol.predicates else alias
            return print_component(str(symbol), shown, quantifier).replace('"', "")
        case Seq(parts):
            return f"SEQ({', '.join(map(print_pattern, parts))})"
        case And(parts):
            return f"AND({', '.join(map(print_pattern, parts))})"
        case Or(()):
            return "NEVER"
        case Or(parts):
            return f"OR({', '.join(map(print_pattern, parts))})"
        case Neg(part):
            return "!" + print_pattern(part)
        case Proj(keep, part):
            return f"Proj[{', '.join(sorted(keep))}] {print_pattern(part)}"
