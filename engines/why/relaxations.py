"""A query with one thing less asked of a match: a condition, a negation, the window, the order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from optimizer.ir.keys import AddedKey
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
    positive_events,
    print_pattern,
    transform,
)
from optimizer.ir.query import ENDLESS, JoinWindows, Query, Window
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import ONE, Plus

RelaxationKind = OneOf["condition", "negation", "window", "order", "strategy", "slide"]
_WIDER = 1_000  # times the window; the events that are looked at bound it


@dataclass(frozen=True)
class Relaxation:
    """A query that asks for less; `dropped` is what it no longer asks for, as people read it."""

    kind: RelaxationKind
    dropped: str
    query: Query
    condition: ex.Expression | None = None  # with aliases
    negation: Neg | None = None


def relaxations(query: Query) -> Iterator[Relaxation]:
    """The query with one thing less, in every way."""
    if query.strategy != "any":
        name = f"STRATEGY {query.strategy.upper()}"
        yield Relaxation("strategy", name, without_strategy(query))
    for event in positive_events(query.pattern):
        for predicate in event.symbol.predicates:
            named = ex.rename(predicate, {"": event.alias})
            pattern = _without_predicate(query.pattern, event, predicate)
            relaxed = replace(query, pattern=pattern)
            yield Relaxation("condition", print_expression(named), relaxed, named)
    positive = {event.alias for event in positive_events(query.pattern)}
    for condition in query.conditions:
        if ex.aliases(condition) <= positive:
            left = tuple(c for c in query.conditions if c is not condition)
            text = print_expression(condition)
            yield Relaxation("condition", text, replace(query, conditions=left), condition)
    for negation in negations(query.pattern):
        without = _without(query.pattern, negation)
        if without is not None:
            text = ("UNTIL " if negation.until else "!") + print_pattern(negation.part)
            relaxed = replace(query, pattern=without)
            yield Relaxation("negation", text, relaxed, negation=negation)
    if (wider := _wider_query(query)) is not None:
        yield Relaxation("window", "WITHIN", wider)
    if query.strategy == "any" and isinstance(query.pattern, Seq):
        # What must not lie between two events is not asked where these have no order.
        parts = tuple(part for part in query.pattern.parts if not isinstance(part, Neg))
        if len(parts) > 1 and all(isinstance(part, Event) for part in parts):
            yield Relaxation("order", "SEQ", replace(query, pattern=And(parts)))


def searched(query: Query) -> Query:
    """The query as it is searched for: it has a match wherever the query has one.

    An aggregate is asked for at each event that can end a match, whatever its slide. For a group
    `E+` one event is enough, where no condition is about the group as a whole: what holds for each
    event of a group holds for one of them.
    """
    query = replace(query, slide=None, from_first=False, empty_rows=False)
    if query.strategy != "any":
        return query
    asked = {a for c in query.conditions if ex.has_group_call(c) for a in ex.aliases(c)}

    def change(node: Pattern) -> Pattern:
        match node:
            case Event(_, alias, Plus()) if alias not in asked:
                return replace(node, quantifier=ONE)
            case _:
                return node

    return replace(query, pattern=transform(query.pattern, change))


def without_strategy(query: Query) -> Query:
    """The query with every match; the keys of components are equalities then."""
    if query.strategy != "latest":
        return replace(query, strategy="any", skips_past=())
    whole = query.pattern.parts if isinstance(query.pattern, Seq) else (query.pattern,)
    kept = tuple(part for part in whole if not (isinstance(part, Neg) and part.until))
    pattern = Seq(kept) if len(kept) > 1 else kept[0]
    return with_equal_keys(replace(query, strategy="any", pattern=pattern))


def with_equal_keys(query: Query) -> Query:
    """The query with keys that differ by component as equalities between components."""
    if not query.tied_key or query.strategy == "latest":
        return query
    first = next(iter(positive_events(query.pattern))).alias
    tied = tuple(
        ex.Comparison(
            "=",
            ex.Attribute(first, key.column(first)),
            ex.Attribute(event.alias, key.column(event.alias)),
        )
        for key in query.tied_key
        for event in events(query.pattern)
        if event.alias != first
    )
    return replace(query, conditions=(*query.conditions, *tied), tied_key=())


def without_memberships(query: Query) -> Query:
    """The query without the conditions that say by which column an event is in a partition."""
    keys: tuple[AddedKey, ...] = (*query.tied_key, *query.groups)
    members = {key.member_column(column) for key in keys for column in key.read_columns}

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event):
            return node
        symbol = node.symbol
        left = tuple(p for p in symbol.predicates if not ex.attributes(p) & members)
        return replace(node, symbol=Symbol(symbol.type, left))

    return replace(query, pattern=transform(query.pattern, change), groups=()) if members else query


def negations(pattern: Pattern) -> Iterator[Neg]:
    """Those that are in no other negation, left to right."""
    match pattern:
        case Neg():
            yield pattern
        case Seq(parts) | And(parts) | Or(parts):
            for part in parts:
                yield from negations(part)
        case Proj(_, part):
            yield from negations(part)
        case _:
            return


def only_components(query: Query, kept: frozenset[str]) -> Query | None:
    """The query for these of its components, without negations; None where nothing is left.

    Conditions on others are not asked.
    """
    pattern = _only(query.pattern, kept)
    if pattern is None:
        return None
    conditions = tuple(c for c in query.conditions if ex.aliases(c) <= kept)
    return replace(query, pattern=pattern, conditions=conditions, join=None)


def _only(pattern: Pattern, kept: frozenset[str]) -> Pattern | None:
    match pattern:
        case Event(_, alias):
            return pattern if alias in kept else None
        case Neg():
            return None
        case Proj(_, part):
            return _only(part, kept)
        case Seq(parts) | And(parts) | Or(parts):
            left = [part for part in (_only(part, kept) for part in parts) if part is not None]
            if len(left) < 2:
                return left[0] if left else None
            return type(pattern)(tuple(left))


def _without_predicate(pattern: Pattern, event: Event, predicate: ex.Expression) -> Pattern:
    def change(node: Pattern) -> Pattern:
        if isinstance(node, Event) and node.alias == event.alias:
            left = tuple(p for p in node.symbol.predicates if p != predicate)
            return replace(node, symbol=Symbol(node.symbol.type, left))
        return node

    return transform(pattern, change)


def _without(pattern: Pattern, negation: Neg) -> Pattern | None:
    """The pattern without one of its negations."""
    match pattern:
        case Neg():
            return None if pattern is negation else pattern
        case Seq(parts) | And(parts) | Or(parts):
            left = [part for part in (_without(p, negation) for p in parts) if part is not None]
            return type(pattern)(tuple(left)) if left else None
        case Proj(keep, part):
            inner = _without(part, negation)
            return None if inner is None else Proj(keep, inner)
        case _:
            return pattern


def _wider_query(query: Query) -> Query | None:
    """The query in a window so wide that the events that are looked at fit into it."""
    if query.join is not None:
        join = query.join
        wide = JoinWindows(_wider(join.left), _wider(join.right), join.outer)
        return replace(query, join=wide)
    if query.window.is_endless or len(list(positive_events(query.pattern))) < 2:
        return None
    return replace(query, window=_wider(query.window))


def _wider(window: Window) -> Window:
    times = max(1, min(_WIDER, ENDLESS // 2 // window.size))
    if window.is_inclusive:  # a nanosecond of it says so
        return replace(window, size=(window.size - 1) * times + 1)
    return replace(window, size=window.size * times)
