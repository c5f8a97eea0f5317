"""What rewrite rules work on: a pattern, and the conditions that tie its components.

The two go together: a rule that copies a component under another name copies its conditions too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    events,
    parts_of,
    positive_events,
    print_pattern,
    transform,
)
from workloads import expressions as ex
from workloads.expressions import Expression, Literal
from workloads.printing import print_expression
from workloads.syntax import ONE

FALSE = Literal(False)
_MAX_SETS = 4_096


@dataclass(frozen=True, slots=True)
class Body:
    """A query's pattern and its general conditions, in canonical order."""

    pattern: Pattern
    conditions: tuple[Expression, ...] = ()


def print_body(body: Body) -> str:
    """One line for people: `SEQ(A a, B b) WHERE a.x < b.x`."""
    where = " AND ".join(
        f"({text})" if isinstance(c, ex.Logical) else text
        for c, text in zip(body.conditions, map(print_expression, body.conditions), strict=True)
    )
    text = print_pattern(body.pattern)
    return f"{text} WHERE {where}" if where else text


# --- aliases -----------------------------------------------------------------------------------


def aliases(pattern: Pattern) -> frozenset[str]:
    """All aliases, negated ones included."""
    return frozenset(event.alias for event in events(pattern))


def positive_aliases(pattern: Pattern) -> frozenset[str]:
    """The aliases that a match binds, those included that only have to exist."""
    return frozenset(event.alias for event in positive_events(pattern))


def kept_aliases(pattern: Pattern) -> frozenset[str]:
    """The aliases that a match of an OR-free pattern reports."""
    match pattern:
        case Event(_, alias):
            return frozenset({alias})
        case Neg():
            return frozenset()
        case Proj(keep, part):
            return kept_aliases(part) & keep
        case Seq(parts) | And(parts) | Or(parts):
            return frozenset().union(*map(kept_aliases, parts))
        case _:
            assert_never(pattern)


def mandatory_events(pattern: Pattern) -> Iterator[Event]:
    """The components of every alternative, negated ones included: those in no OR."""
    if isinstance(pattern, Event):
        yield pattern
    elif not isinstance(pattern, Or):
        for part in parts_of(pattern):
            yield from mandatory_events(part)


def mandatory_positive(pattern: Pattern) -> Iterator[Event]:
    """The components that every match binds."""
    if isinstance(pattern, Event):
        yield pattern
    elif not isinstance(pattern, (Or, Neg)):
        for part in parts_of(pattern):
            yield from mandatory_positive(part)


def conditions_on(
    conditions: tuple[Expression, ...], names: frozenset[str]
) -> tuple[Expression, ...]:
    """The conditions that speak of at least one of the aliases."""
    return tuple(c for c in conditions if ex.aliases(c) & names)


# --- alternatives ------------------------------------------------------------------------------


def disjuncts(pattern: Pattern) -> tuple[Pattern, ...]:
    """The parts of an OR at the root; the pattern itself where there is none."""
    if isinstance(pattern, Or):
        return tuple(inner for part in pattern.parts for inner in disjuncts(part))
    return (pattern,)


def disjunction(parts: tuple[Pattern, ...]) -> Pattern:
    """The parts as one pattern: an OR unless there is exactly one."""
    return parts[0] if len(parts) == 1 else Or(parts)


def count_alternatives(pattern: Pattern) -> int:
    """The number of ways to choose one part of every OR outside negations."""
    match pattern:
        case Event() | Neg():
            return 1
        case Or(parts):
            return sum(map(count_alternatives, parts))
        case Seq(parts) | And(parts):
            return math.prod(map(count_alternatives, parts))
        case Proj(_, part):
            return count_alternatives(part)
        case _:
            assert_never(pattern)


def kept_sets(pattern: Pattern) -> frozenset[frozenset[str]] | None:
    """What each alternative reports; None where there are too many to list."""
    match pattern:
        case Event() | Neg():
            return frozenset({kept_aliases(pattern)})
        case Proj(keep, part):
            inner = kept_sets(part)
            return None if inner is None else frozenset(found & keep for found in inner)
        case Or(parts):
            return _bounded(found for part in parts for found in kept_sets(part) or [_TOO_MANY])
        case Seq(parts) | And(parts):
            sets: frozenset[frozenset[str]] | None = frozenset({frozenset()})
            for part in parts:
                more = kept_sets(part)
                if sets is None or more is None:
                    return None
                sets = _bounded(a | b for a, b in itertools.product(sets, more))
            return sets
        case _:
            assert_never(pattern)


_TOO_MANY = frozenset({"\0"})


def _bounded(sets: Iterator[frozenset[str]]) -> frozenset[frozenset[str]] | None:
    found: set[frozenset[str]] = set()
    for one in sets:
        found.add(one)
        if len(found) > _MAX_SETS or one is _TOO_MANY:
            return None
    return frozenset(found)


def together(pattern: Pattern, names: frozenset[str]) -> bool:
    """Is there an alternative, also of the ORs in negations, that has all of the aliases?"""
    found = _together(pattern, names)
    return found is None or names in found


def _together(pattern: Pattern, names: frozenset[str]) -> frozenset[frozenset[str]] | None:
    match pattern:
        case Event(_, alias):
            return frozenset({names & {alias}})
        case Neg(part) | Proj(_, part):
            return _together(part, names)
        case Or(parts):
            return _bounded(
                found for part in parts for found in _together(part, names) or [_TOO_MANY]
            )
        case Seq(parts) | And(parts):
            sets: frozenset[frozenset[str]] | None = frozenset({frozenset()})
            for part in parts:
                more = _together(part, names)
                if sets is None or more is None:
                    return None
                sets = _bounded(a | b for a, b in itertools.product(sets, more))
            return sets
        case _:
            assert_never(pattern)


# --- parts of SEQ and AND ----------------------------------------------------------------------


def only_negations(pattern: Pattern) -> bool:
    """A negation, or an AND of nothing but negations, which stands for its parts."""
    if isinstance(pattern, And):
        return all(map(only_negations, pattern.parts))
    return isinstance(pattern, Neg)


def gaps(parts: tuple[Pattern, ...]) -> Iterator[range]:
    """The runs of consecutive negations among the parts of a SEQ."""
    for negative, run in itertools.groupby(range(len(parts)), lambda i: isinstance(parts[i], Neg)):
        places = list(run)
        if negative:
            yield range(places[0], places[-1] + 1)


def neighbours(parts: tuple[Pattern, ...], gap: range) -> tuple[Pattern | None, Pattern | None]:
    """The parts before and after a gap, None at the end of the SEQ."""
    return (
        parts[gap.start - 1] if gap.start > 0 else None,
        parts[gap.stop] if gap.stop < len(parts) else None,
    )


# --- what never matches ------------------------------------------------------------------------


def never_symbol(symbol: Symbol) -> bool:
    """Is the constant FALSE among its predicates?"""
    return FALSE in symbol.predicates


def never_event(event: Event) -> Event:
    """The component with nothing but FALSE for a predicate."""
    return Event(Symbol(event.symbol.type, (FALSE,)), event.alias, ONE)


def never(pattern: Pattern) -> bool:
    """Does a component that never occurs keep the pattern from ever matching?"""
    match pattern:
        case Event(symbol):
            return never_symbol(symbol)
        case Seq(parts) | And(parts):
            return any(never(part) for part in parts)
        case Or(parts):
            return all(map(never, parts))
        case Proj(_, part):
            return never(part)
        case Neg():
            return False
        case _:
            assert_never(pattern)


def replace_event(pattern: Pattern, alias: str, change: Event) -> Pattern:
    """The pattern with the component of that alias replaced."""

    def swap(node: Pattern) -> Pattern:
        return change if isinstance(node, Event) and node.alias == alias else node

    return transform(pattern, swap)


def last_events(pattern: Pattern) -> Iterator[Event]:
    """The components that can be bound to the last event that a match reports."""
    match pattern:
        case Event():
            yield pattern
        case Seq(parts):
            # Parts that report nothing are negations, or only have to exist.
            for part in reversed(parts):
                if kept_aliases(part):
                    yield from last_events(part)
                    return
        case And(parts) | Or(parts):
            for part in parts:
                yield from last_events(part)
        case Proj(keep, part):
            # What is not kept neither ends a match nor counts as its last part.
            yield from last_events(_without(part, positive_aliases(part) - keep))
        case Neg():
            return
        case _:
            assert_never(pattern)


def _without(pattern: Pattern, names: frozenset[str]) -> Pattern:
    """The pattern with its positive components of those aliases left out."""
    match pattern:
        case Event(_, alias):
            return And(()) if alias in names else pattern
        case Seq(parts):
            return Seq(tuple(_without(part, names) for part in parts))
        case And(parts):
            return And(tuple(_without(part, names) for part in parts))
        case Or(parts):
            return Or(tuple(_without(part, names) for part in parts))
        case _:
            return pattern
