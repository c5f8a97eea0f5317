"""Events that last, as conditions on events that are at one time: that of their end.

`SEQ(A a, D d)` with events of D that start before they end: `a` is before `d` where it ends before
`d` starts, which is the order of their ends and `a.$end < d.$start`; in a group `D+ d` each is
before the next where `prev(d.$end) < d.$start`. `WITHIN w` holds where `last.$end - first.$start <
w`. So every engine runs such queries as it runs others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal as OneOf

from optimizer.bind.conditions import canonical, ordered_unique
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
    transform,
)
from optimizer.ir.produced import ENDED, STARTED, is_lasting
from optimizer.ir.query import Query, SituationPattern
from workloads import expressions as ex
from workloads.syntax import One

NAME = "durations"


def with_durations(query: Query) -> Query:
    """The query with its order and window as conditions, where events may last."""
    if not query.lasting or isinstance(query.output, SituationPattern):
        return query
    asked = [
        canonical(c) for c in (*_order(query, query.pattern), *_chained(query), *_window(query))
    ]
    local: dict[str, list[ex.Expression]] = {}
    general: list[ex.Expression] = list(query.conditions)
    for condition in asked:
        named = ex.aliases(condition)
        if len(named) == 1 and not ex.has_group_call(condition):
            (alias,) = named
            local.setdefault(alias, []).append(canonical(ex.rename(condition, {alias: ""})))
        else:
            general.append(condition)

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event) or node.alias not in local:
            return node
        predicates = ordered_unique([*node.symbol.predicates, *local[node.alias]])
        return replace(node, symbol=Symbol(node.symbol.type, predicates))

    pattern = transform(query.pattern, change)
    return replace(query, pattern=pattern, conditions=ordered_unique(general))


def _order(query: Query, node: Pattern) -> Iterator[ex.Expression]:
    """What is before what, wherever a later event may last."""
    if isinstance(node, Seq):
        before: list[Event] = []
        negated: list[Event] = []  # since then
        for part in node.parts:
            inner = part.part if isinstance(part, Neg) else part
            for later in first_of(inner):
                if is_lasting(query, later):
                    earlier = before if isinstance(part, Neg) else [*before, *negated]
                    yield from (_is_before(event, later) for event in earlier)
            if isinstance(part, Neg):
                negated += last_of(inner)
            elif may_be_absent(part):  # then its neighbours are each other
                before = [*before, *last_of(inner)]
            else:
                before, negated = last_of(inner), []
    for part in parts_of(node):
        yield from _order(query, part)


def _is_before(earlier: Event, later: Event) -> ex.Expression:
    return ex.Comparison(
        "<", ex.Attribute(earlier.alias, ENDED), ex.Attribute(later.alias, STARTED)
    )


def _chained(query: Query) -> Iterator[ex.Expression]:
    """Each event of a group is before the next."""
    for event in events(query.pattern):
        if is_lasting(query, event) and not isinstance(event.quantifier, One):
            before = ex.Call(ex.PREV, ex.Attribute(event.alias, ENDED))
            yield ex.Comparison("<", before, ex.Attribute(event.alias, STARTED))


def _window(query: Query) -> Iterator[ex.Expression]:
    if not query.window.is_timed:
        return
    window = query.window
    size = window.size - 1 if window.is_inclusive else window.size
    for first in first_of(query.pattern):
        if is_lasting(query, first):
            for last in last_of(query.pattern):
                ended: ex.Expression = ex.Attribute(last.alias, ENDED)
                started: ex.Expression = ex.Attribute(first.alias, STARTED)
                if first == last and not isinstance(first.quantifier, One):
                    ended, started = ex.Call("max", ended), ex.Call("min", started)
                lasted = ex.Arithmetic("-", ended, started)
                sign: OneOf["<", "<="] = "<=" if window.is_inclusive else "<"
                yield ex.Comparison(sign, lasted, ex.Literal(size))


def may_be_absent(pattern: Pattern) -> bool:
    """May it be bound to nothing?"""
    match pattern:
        case Event(optional=optional):
            return optional
        case Seq(parts) | And(parts):
            return all(may_be_absent(part) for part in parts if not isinstance(part, Neg))
        case Or(parts):
            return any(map(may_be_absent, parts))
        case Proj(_, part):
            return may_be_absent(part)
        case Neg():
            return False


def first_of(pattern: Pattern) -> list[Event]:
    """The components that can have the first event of a match."""
    return _edge(pattern, 1)


def last_of(pattern: Pattern) -> list[Event]:
    """The components that can have the last event of a match."""
    return _edge(pattern, -1)


def _edge(pattern: Pattern, step: int) -> list[Event]:
    match pattern:
        case Event():
            return [pattern]
        case Seq(parts):
            found: list[Event] = []
            for part in parts[::step]:
                found += _edge(part, step)
                if not isinstance(part, Neg) and not may_be_absent(part):
                    break
            return found
        case And(parts) | Or(parts):
            return [event for part in parts for event in _edge(part, step)]
        case Proj(_, part):
            return _edge(part, step)
        case Neg():
            return []
