"""Which of the matches count: STRATEGY NEXT and STRICT, and AFTER MATCH SKIP PAST LAST EVENT.

By definition: of every match, the moments between its events are looked at one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from engines.reference.meaning import Matcher, Region, extent
from engines.reference.values import Binding, Row, holds_behind, in_order, true
from engines.results.json_text import json_text
from optimizer.ir.pattern import Event, GroupWithout, Pattern, positive_events
from optimizer.ir.query import Query
from workloads import expressions as ex
from workloads.syntax import Exactly, One


def counting_matches(
    query: Query, choice: Pattern, matcher: Matcher, window: Region | None = None
) -> Iterator[Binding]:
    """The matches of an OR-free pattern that the query's strategy lets count."""
    for match in matcher.matches(choice, window):
        match query.strategy:
            case "strict":
                counts = _is_consecutive(match, matcher) and _agrees_with_previous(query, match)
            case "next":
                counts = _is_next(query, match, matcher)
            case _:
                counts = True
        if counts:
            yield match


def _is_consecutive(match: Binding, matcher: Matcher) -> bool:
    """Do its events lie in consecutive moments of the partition, one in each?"""
    moments = sorted({event.key for event in matcher.events})
    ranks = sorted(moments.index(row.key) for group in match.values() for row in group)
    return all(after == before + 1 for before, after in itertools.pairwise(ranks))


def asked_conditions(query: Query) -> tuple[ex.Expression, ...]:
    """The conditions on a match by itself: under STRICT, `prev` is about all of its events."""
    if query.strategy != "strict":
        return query.conditions
    return tuple(c for c in query.conditions if ex.prev_alias(c) is None)


def _agrees_with_previous(query: Query, match: Binding) -> bool:
    """Do the conditions with `prev` hold of each event and the one bound just before it?"""
    rows = sorted((e for group in match.values() for e in group), key=lambda e: e.key)
    before = dict(zip(rows[1:], rows, strict=False))
    return all(
        holds_behind(condition, alias, e, before[e], match)
        for condition in query.conditions
        if (alias := ex.prev_alias(condition)) is not None and ex.aliases(condition) <= match.keys()
        for e in match[alias]
        if e in before
    )


def _is_next(query: Query, match: Binding, matcher: Matcher) -> bool:
    """Is no event left out, between two of the match, that it could have taken there?"""
    components = [query.passed_over(event) for event in positive_events(query.pattern)]
    return not any(True for _ in skipped_events(components, match, matcher))


def skipped_events(components: list[Event], match: Binding, matcher: Matcher) -> Iterator[Row]:
    """The events between two of a match that it could have taken there."""
    taken = [
        (row, place)
        for place, component in enumerate(components)
        for row in in_order(match.get(component.alias, ()))
    ]
    for number, ((row, place), (following, _)) in enumerate(itertools.pairwise(taken), 1):
        bound: Binding = {}
        for earlier, at in taken[:number]:
            alias = components[at].alias
            bound[alias] = (*bound.get(alias, ()), earlier)
        between = (e for e in matcher.events if row.key < e.key < following.key)
        yield from (e for e in between if _could_take(components, place, bound, e, matcher))


def _could_take(
    components: list[Event], place: int, bound: Binding, e: Row, matcher: Matcher
) -> bool:
    """Could a match that is bound so far, up to a component, go on with an event?"""
    group = components[place]
    number = len(bound[group.alias])
    least, most = _sizes(group)
    could: list[Event] = [] if most is not None and number >= most else [group]
    if number >= least:
        for component in components[place + 1 :]:
            could.append(component)
            if not component.optional:
                break
    return any(_takes(component, bound, e, matcher) for component in could)


def _sizes(component: Event) -> tuple[int, int | None]:
    """How many events a component has at least, and at most."""
    match component.quantifier:
        case One():
            return 1, 1
        case Exactly(count):
            return count, count
        case GroupWithout(_, least, most):
            return least, most
        case _:
            return 1, None


def _takes(component: Event, bound: Binding, e: Row, matcher: Matcher) -> bool:
    alias = component.alias
    after = bound | {alias: (*bound.get(alias, ()), e)}
    return e in matcher.instances(component.symbol) and all(
        true(condition, after)
        for condition in matcher.conditions
        if ex.aliases(condition) <= after.keys() and not _is_unsettled(condition, component)
    )


def _is_unsettled(condition: ex.Expression, component: Event) -> bool:
    """Does it speak of the whole of a group that may go on?"""
    return not isinstance(component.quantifier, One) and ex.is_of_group(condition, component.alias)


def apart(query: Query, matches: Sequence[Binding], rows: Sequence[Any]) -> list[int]:
    """The numbers of the matches that are left where none may begin before an earlier one ended.

    In the order of their first, then last event; of those that begin and end alike, in that of the
    moments of their events, and then of what is returned.
    """
    aliases = [event.alias for event in positive_events(query.pattern)]

    def place(number: int) -> tuple[Any, Any, list[list[Any]], str]:
        match = matches[number]
        first, last = extent(match)
        moments = [[row.key for row in in_order(match.get(alias, ()))] for alias in aliases]
        return first.key, last.key, moments, json_text(rows[number]["match"])

    left: list[int] = []
    end: tuple[int, ...] | None = None
    for number in sorted(range(len(matches)), key=place):
        first, last = extent(matches[number])
        if end is None or first.key > end:
            left.append(number)
            end = last.key
    return sorted(left)
