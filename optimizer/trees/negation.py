"""What a negation says is absent: its readings, with single events where groups say no more."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Seq,
    alternatives,
    events,
    parts_of,
    places,
    positive_events,
    with_parts,
)
from optimizer.rewrite.rule import Names, NodeContext
from optimizer.rewrite.rules import single_in_negation
from workloads import expressions as ex
from workloads.syntax import All, One, Plus

Above = tuple[Pattern, ...]


@cache
def negated_choices(negation: Neg, conditions: tuple[ex.Expression, ...]) -> tuple[Pattern, ...]:
    """The patterns that must all be absent, each without ORs.

    A group is a single event where that is absent whenever the group is.
    """
    found = []
    for choice in alternatives(negation.part):
        pattern, simpler = choice, _simplified(choice, choice, conditions)
        while simpler != pattern:
            pattern, simpler = simpler, _simplified(simpler, simpler, conditions)
        found.append(pattern)
    return tuple(found)


def _simplified(
    node: Pattern, choice: Pattern, conditions: tuple[ex.Expression, ...], above: Above = ()
) -> Pattern:
    """The pattern with the first group made single that can be."""
    if isinstance(node, Neg):
        return node  # has its own readings
    if isinstance(node, Event):
        place = NodeContext((Neg(choice), *above), conditions, Names(set()), 1)
        single = single_in_negation.rewrite(node, place)
        return node if single is None else single
    for i, part in enumerate(parts_of(node)):
        simpler = _simplified(part, choice, conditions, (*above, node))
        if simpler != part:
            parts = parts_of(node)
            return with_parts(node, (*parts[:i], simpler, *parts[i + 1 :]))
    return node


class Link(NamedTuple):
    """An event of a sequence, and what is negated between it and the one before it."""

    event: Event
    absent: tuple[Neg, ...]


@cache
def links(pattern: Pattern, conditions: tuple[ex.Expression, ...]) -> tuple[Link, ...] | None:
    """The events of a negated sequence that one pass decides; None where it takes more.

    Whether a gap holds such a sequence is decided by its latest: the last event of the last
    component in the gap, the last of the one before it before that, and so on. Not so where
    conditions tie its components to each other, or to what is around it, or with groups in it.
    """
    if not isinstance(pattern, Seq) or depends(Neg(pattern), conditions):
        return None
    named = {event.alias for event in events(pattern)}
    if any(len(tied := ex.aliases(c)) > 1 and tied & named for c in conditions):
        return None
    found: list[Link] = []
    absent: list[Neg] = []
    for part in pattern.parts:
        if isinstance(part, Neg):
            absent.append(part)
        elif isinstance(part, Event) and isinstance(part.quantifier, One):
            found.append(Link(part, tuple(absent)))
            absent = []
        else:
            return None
    return tuple(found) if len(found) > 1 else None


@cache
def depends(negation: Neg, conditions: tuple[ex.Expression, ...]) -> bool:
    """Does it depend on what is around it whether something in it is there, or in a group?

    If not, what is negated can be found by itself, and then be looked for in a gap.
    """
    for choice in negated_choices(negation, conditions):
        own = frozenset(event.alias for event in positive_events(choice))
        for place in places(choice):
            if isinstance(place.leaf, Neg):
                names = own.union(event.alias for event in events(place.leaf))
                tied = any(
                    ex.aliases(c) & (names - own) and not ex.aliases(c) <= names for c in conditions
                )
                if place.gap.at_edge or tied:
                    return True
            elif not isinstance(place.leaf.quantifier, One | Plus):
                whole = isinstance(place.leaf.quantifier, All) and place.gap.at_edge
                if whole or _is_chosen_outside(place.leaf.alias, own, conditions):
                    return True
    return False


def _is_chosen_outside(
    alias: str, own: frozenset[str], conditions: tuple[ex.Expression, ...]
) -> bool:
    """Do conditions on other components choose the events of a group?"""
    return any(
        alias in (named := ex.aliases(c)) and not named <= own and not ex.has_group_call(c)
        for c in conditions
    )
