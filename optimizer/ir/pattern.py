"""Patterns of bound queries: nodes, scopes of aliases, the ways to choose among ORs, and the
positions of components.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from workloads.errors import TooLargeError
from workloads.expressions import Expression
from workloads.printing import print_component, print_expression
from workloads.syntax import ONE, All, Quantifier


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


Scope = tuple[int, ...]  # the path of negations from the root; () for what a match binds


def scopes(pattern: Pattern) -> dict[str, Scope]:
    """Each alias' path of negations, numbered left to right."""
    found: dict[str, Scope] = {}
    counter = 0

    def visit(node: Pattern, scope: Scope) -> None:
        nonlocal counter
        if isinstance(node, Event):
            found[node.alias] = scope
        elif isinstance(node, Neg):
            counter += 1
            visit(node.part, (*scope, counter))
        else:
            for part in parts_of(node):
                visit(part, scope)

    visit(pattern, ())
    return found


def innermost(paths: list[Scope]) -> Scope | None:
    """The deepest of scopes that lie inside one another; None where two do not."""
    deepest = max(paths, key=len, default=())
    return deepest if all(deepest[: len(p)] == p for p in paths) else None


MAX_ALTERNATIVES = 4096


@cache
def alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    """The pattern for each choice of a part of every OR outside negations, written flat."""
    if _count(pattern) > MAX_ALTERNATIVES:
        raise TooLargeError(
            f"its ORs can be read in more than {MAX_ALTERNATIVES:,} ways; split the query into "
            "several"
        )
    return tuple(_alternatives(pattern))


def _alternatives(pattern: Pattern) -> list[Pattern]:
    match pattern:
        case Event() | Neg():
            return [pattern]
        case Or(parts):
            return [choice for part in parts for choice in _alternatives(part)]
        case Proj(keep, part):
            return [Proj(keep, choice) for choice in _alternatives(part)]
        case Seq(parts):
            return [_flat(Seq, c) for c in itertools.product(*map(_alternatives, parts))]
        case And(parts):
            return [_flat(And, c) for c in itertools.product(*map(_alternatives, parts))]


def _count(pattern: Pattern) -> int:
    match pattern:
        case Event() | Neg():
            return 1
        case Or(parts):
            return sum(map(_count, parts))
        case Proj(_, part):
            return _count(part)
        case Seq(parts) | And(parts):
            return math.prod(map(_count, parts))


def _flat(kind: type[Seq] | type[And], parts: tuple[Pattern, ...]) -> Pattern:
    """Parts of the same operator written in its place; so is an AND of nothing but negations."""
    flat: list[Pattern] = []
    for part in parts:
        negations = isinstance(part, And) and all(isinstance(p, Neg) for p in part.parts)
        if isinstance(part, Seq | And) and (isinstance(part, kind) or negations):
            flat += part.parts
        else:
            flat.append(part)
    single = len(flat) == 1 and not isinstance(flat[0], Neg)
    return flat[0] if single else kind(tuple(flat))


def unkept(pattern: Pattern) -> frozenset[str]:
    """The aliases that only have to exist: those that a `Proj` does not keep."""
    match pattern:
        case Proj(keep, part):
            return _aliases(part) - keep
        case Seq(parts) | And(parts):
            return frozenset().union(*map(unkept, parts))
        case _:
            return frozenset()


def last_events(pattern: Pattern, skip: frozenset[str]) -> list[Event]:
    """The components that can be a match's last event."""
    match pattern:
        case Event(_, alias):
            return [] if alias in skip else [pattern]
        case Seq(parts):
            for part in reversed(parts):
                if found := last_events(part, skip):
                    return found
            return []
        case And(parts):
            return [event for part in parts for event in last_events(part, skip)]
        case Proj(_, part):
            return last_events(part, skip)
        case _:
            return []


def waits(pattern: Pattern) -> bool:
    """Is a match certain only when its window has closed?"""
    match pattern:
        case Event(_, _, quantifier):
            return isinstance(quantifier, All)
        case Seq(parts):
            nested = any(waits(p) for p in parts if not isinstance(p, Event))
            return nested or isinstance(parts[-1], Neg) or waits(parts[-1])
        case And(parts):
            return any(map(waits, parts))
        case Proj(_, part):
            return waits(part)
        case _:
            return False


@dataclass(frozen=True)
class PositionGap:
    """What lies between a leaf's neighbours: the aliases of the part before and after it.

    None stands for the opening or the closing of the window; a negation in an AND looks at the
    whole of it, but not past the match's last event (`anywhere`).
    """

    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    anywhere: bool = False

    @property
    def at_edge(self) -> bool:
        return self.before is None or self.after is None

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(self.before or ()) | frozenset(self.after or ())


@dataclass(frozen=True)
class Position:
    """A component or a negation, and how it stands to the rest of an OR-free pattern.

    `earlier` and `later` hold the aliases of the parts that are certainly before and after it,
    the nearest first; `rivals` those in other parts of an AND, which may not use its events. What
    only has to exist in a part of an AND may be any event.
    """

    leaf: Event | Neg
    gap: PositionGap
    earlier: tuple[tuple[str, ...], ...]
    later: tuple[tuple[str, ...], ...]
    rivals: frozenset[str]


def places(pattern: Pattern) -> list[Position]:
    """The components and negations of an OR-free pattern, left to right."""
    return list(_places(pattern, PositionGap(), (), (), {}))


AliasParts = tuple[tuple[str, ...], ...]


def _places(
    node: Pattern,
    gap: PositionGap,
    earlier: AliasParts,
    later: AliasParts,
    rivals: Mapping[str, frozenset[str]],
) -> Iterator[Position]:
    """`rivals` are by alias the others that may not use the same event."""
    match node:
        case Neg():
            yield Position(node, gap, earlier, later, frozenset())
        case Event(_, alias):
            yield Position(node, gap, earlier, later, rivals.get(alias, frozenset()))
        case Proj(_, part):
            yield from _places(part, PositionGap(), earlier, later, rivals)
        case Seq(parts):
            names = [tuple(sorted(_aliases(part))) for part in parts]
            for i, part in enumerate(parts):
                before = tuple(n for n in reversed(names[:i]) if n)
                after = tuple(n for n in names[i + 1 :] if n)
                between = PositionGap(next(iter(before), None), next(iter(after), None))
                yield from _places(part, between, before + earlier, after + later, rivals)
        case And(parts):
            used = [_aliases(part) - unkept(part) for part in parts]
            every = Counter(alias for own in used for alias in own)
            several = frozenset(alias for alias, times in every.items() if times > 1)
            both = dict(rivals)
            for own in used:
                others = (frozenset(every) - own) | (several & own)
                both |= {alias: both.get(alias, frozenset()) | others for alias in own}
            for part in parts:
                whole = PositionGap(anywhere=isinstance(part, Neg))
                yield from _places(part, whole, earlier, later, both)
        case Or():
            raise AssertionError("an OR in an OR-free pattern")


def _aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(pattern))
