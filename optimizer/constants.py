"""Constants that conditions give to attributes, carried to every component that must have them.

    SEQ(A[m = 't'] a, B b) WHERE a.m = b.m           ->  SEQ(A[m = 't'] a, B[m = 't'] b)
    SEQ(A[m = 't'] a, !B b, C c) PARTITION BY m, n   ->  the same with m = 't' on all of them, by n

An equality carries a constant to a component that only occurs where the first one does: into parts
of an OR and into negations, not out of them. Where a query is evaluated at each event that can end
a match, the components that can be its last event are left as they are: a predicate on them would
change when it is evaluated.

An attribute of the key is fixed where every match has a component with the constant, so that no
other partition has a match. Only for strings, whose spelling in results is certain, and not for
windows counted in events, whose ranks are those of the partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizer.body import last_events
from optimizer.canonical import ordered_unique
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    parts_of,
    transform,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import FixedAttribute, Query
from workloads import expressions as ex

NAME = "constants"
_EXACT_INTEGERS = 2**53  # below it a number is equal to itself whatever type a column has

Path = tuple[tuple[int, int], ...]  # the parts of ORs and the negations around a component
Constants = dict[tuple[str, str], ex.Literal]  # by alias and attribute
Tie = tuple[ex.Attribute, ex.Attribute]


def propagate_constants(query: Query) -> Query:
    """The query with each constant on all components that it holds for, and no key that is one."""
    return _through_equalities(_fix_key(query))


# --- keys --------------------------------------------------------------------------------------


def _fix_key(query: Query) -> Query:
    """The query without the attributes of its key that only have one value in matches."""
    if query.window.is_count:
        return query
    implied = _implied(query.pattern)
    values = {name: implied[name] for name in query.key if name in implied}
    if not values:
        return query
    named = [(name, values.get(name, value)) for name, value in query.result_key]
    return replace(
        query,
        pattern=transform(query.pattern, lambda node: _asking(node, values)),
        key=tuple(name for name, value in named if value is None),
        fixed_key=tuple(
            FixedAttribute(place, name, value)
            for place, (name, value) in enumerate(named)
            if value is not None
        ),
    )


def _asking(node: Pattern, values: dict[str, str]) -> Pattern:
    """A component that also asks for the values; any other node as it is."""
    if not isinstance(node, Event):
        return node
    return _with_constants(node, {name: ex.Literal(value) for name, value in values.items()})


def _implied(pattern: Pattern) -> dict[str, str]:
    """The texts that attributes of some component have in every match."""
    match pattern:
        case Event(symbol):
            found = dict(_given(symbol))
            return {name: v.value for name, v in found.items() if isinstance(v.value, str)}
        case Seq(parts) | And(parts):
            implied = [_implied(part) for part in parts]
            values: dict[str, set[str]] = {}
            for name, value in (item for one in implied for item in one.items()):
                values.setdefault(name, set()).add(value)
            # Two constants for one attribute: nothing matches, and nothing is gained.
            return {name: min(several) for name, several in values.items() if len(several) == 1}
        case Or(parts):
            if not parts:
                return {}
            first, *others = map(_implied, parts)
            return {n: v for n, v in first.items() if all(o.get(n) == v for o in others)}
        case Proj(_, part):
            return _implied(part)
        case Neg():
            return {}


def _given(symbol: Symbol) -> Iterator[tuple[str, ex.Literal]]:
    """The attributes that the predicates of a symbol give a constant."""
    for predicate in symbol.predicates:
        match predicate:
            case ex.Comparison("=", ex.Attribute(_, name), ex.Literal() as constant):
                if _can_be_carried(constant):
                    yield name, constant


def _can_be_carried(constant: ex.Literal) -> bool:
    """Is what is equal to something equal to it equal to the constant, whatever types there are?"""
    if isinstance(constant.value, str):
        return True
    return type(constant.value) is int and abs(constant.value) < _EXACT_INTEGERS


def _with_constants(event: Event, constants: dict[str, ex.Literal]) -> Event:
    asked = [
        ex.Comparison("=", ex.Attribute("", name), constant)
        for name, constant in sorted(constants.items())
    ]
    predicates = ordered_unique([*event.symbol.predicates, *asked])
    if predicates == event.symbol.predicates:
        return event
    return replace(event, symbol=Symbol(event.symbol.type, predicates))


# --- equalities --------------------------------------------------------------------------------


def _through_equalities(query: Query) -> Query:
    """The query with constants carried along its equalities, which then say no more."""
    ties = {c: tie for c in query.conditions if (tie := _tie(c)) is not None}
    paths = dict(_paths(query.pattern))
    if not ties or len(paths) < sum(1 for _ in components(query.pattern)):
        return query  # an alias stands for several components
    given: Constants = {
        (event.alias, name): constant
        for event in components(query.pattern)
        for name, constant in _given(event.symbol)
    }
    known = _carried(given, list(ties.values()), paths)
    settled = {e.alias for e in last_events(query.pattern)} if query.is_triggered else set()
    asked = {
        place: constant
        for place, constant in known.items()
        if place in given or place[0] not in settled
    }

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event):
            return node
        own = {name: constant for (alias, name), constant in asked.items() if alias == node.alias}
        return _with_constants(node, own)

    def says_more(condition: ex.Expression) -> bool:
        if condition not in ties:
            return True
        values = [asked.get((side.alias, side.name)) for side in ties[condition]]
        return values[0] is None or values[0] != values[1]

    conditions = tuple(filter(says_more, query.conditions))
    return replace(query, pattern=transform(query.pattern, change), conditions=conditions)


def _tie(condition: ex.Expression) -> Tie | None:
    match condition:
        case ex.Comparison("=", ex.Attribute() as left, ex.Attribute() as right):
            return (left, right) if left.alias != right.alias else None
        case _:
            return None


def _carried(given: Constants, ties: list[Tie], paths: dict[str, Path]) -> Constants:
    """All constants that follow from the given ones."""
    known = dict(given)
    grown = True
    while grown:
        grown = False
        for left, right in ties:
            for source, target in ((left, right), (right, left)):
                constant = known.get((source.alias, source.name))
                place = (target.alias, target.name)
                above = paths[source.alias]
                if constant is None or place in known:
                    continue
                if paths[target.alias][: len(above)] == above:
                    known[place] = constant
                    grown = True
    return known


def _paths(pattern: Pattern) -> Iterator[tuple[str, Path]]:
    """Each alias with the parts of ORs and the negations that it stands in, outermost first."""
    number = 0

    def visit(node: Pattern, path: Path) -> Iterator[tuple[str, Path]]:
        nonlocal number
        if isinstance(node, Event):
            yield node.alias, path
            return
        number += 1
        mine = number
        for i, part in enumerate(parts_of(node)):
            below = (*path, (mine, i)) if isinstance(node, (Or, Neg)) else path
            yield from visit(part, below)

    yield from visit(pattern, ())
