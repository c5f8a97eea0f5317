"""STRATEGY LATEST by its definition: one partial match for each stage and key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from engines.reference.meaning import Matcher, extent
from engines.reference.values import Binding, Row, true
from optimizer.ir.latest import Absence, LatestParts, latest_parts
from optimizer.ir.pattern import Event
from optimizer.ir.query import Query
from workloads.errors import UnsupportedError
from workloads.expressions import aliases

Key = tuple[Any, ...]


def latest_matches(query: Query, matcher: Matcher) -> Iterator[tuple[Key, Binding]]:
    """The matches among the events of a partition, with the values of keys by component."""
    parts = latest_parts(query.pattern)
    stages = parts.stages
    if parts.together:
        yield from _first_together(query, matcher, stages)
        return
    waiting: dict[tuple[int, Key], list[Row]] = {}
    offered: dict[Key, Row] = {}
    for event in matcher.events:
        for place in reversed(range(len(stages))):
            for key in _keys(query, matcher, stages[place], event):
                _check_order(query, offered, key, event)
                taken = [] if place == 0 else waiting.get((place - 1, key), [])
                if place > 0:
                    if not taken or event.position - taken[0].position >= matcher.width:
                        continue
                    if not _tied(query, stages, [*taken, event]):
                        continue
                    del waiting[place - 1, key]
                bound = [*taken, event]
                if place < len(stages) - 1:
                    waiting[place, key] = bound
                    continue
                match: Binding = {
                    stage.alias: (row,) for stage, row in zip(stages, bound, strict=True)
                }
                if not any(_occurs(query, matcher, parts, a, bound, key) for a in parts.absences):
                    yield key, match
        if parts.until is not None:
            for key in _keys(query, matcher, parts.until, event):
                _check_order(query, offered, key, event)
                for place in range(len(stages)):
                    waiting.pop((place, key), None)


def _first_together(
    query: Query, matcher: Matcher, stages: Sequence[Event]
) -> Iterator[tuple[Key, Binding]]:
    """Of each key the match that is complete first; of several the one whose events come first,
    that of the first stage before that of the next.
    """
    offered: dict[Key, Row] = {}
    candidates: dict[Key, list[list[Row]]] = {}
    found: dict[Key, Binding] = {}
    for event in matcher.events:
        for place, stage in enumerate(stages):
            for key in _keys(query, matcher, stage, event):
                _check_order(query, offered, key, event)
                candidates.setdefault(key, [[] for _ in stages])[place].append(event)
        for key, rows in candidates.items():
            if key in found:
                continue
            for chosen in product(*rows):
                if len(set(chosen)) == len(stages):
                    found[key] = {s.alias: (r,) for s, r in zip(stages, chosen, strict=True)}
                    break
    yield from found.items()


def _tied(query: Query, stages: Sequence[Event], bound: list[Row]) -> bool:
    """Do the conditions hold that speak of the last of some events, and of no later ones?"""
    known: Binding = {stage.alias: (row,) for stage, row in zip(stages, bound, strict=False)}
    last = stages[len(bound) - 1].alias
    asked = (c for c in query.conditions if last in aliases(c) and aliases(c) <= known.keys())
    return all(true(condition, known) for condition in asked)


def _keys(query: Query, matcher: Matcher, component: Event, event: Row) -> set[Key]:
    """The keys under which an event takes part in a component: of a list, one for each value."""
    if event not in matcher.instances(component.symbol):
        return set()
    values = [event.values[key.column(component.alias)] for key in query.tied_key]
    listed = [value if isinstance(value, list) else [value] for value in values]
    needed = [place for place, key in enumerate(query.tied_key) if not key.optional]
    return {key for key in product(*listed) if all(key[place] is not None for place in needed)}


def _check_order(query: Query, offered: dict[Key, Row], key: Key, event: Row) -> None:
    before = offered.get(key, event)
    if before is not event and before.key == event.key:
        raise UnsupportedError(f"query {query.name}: two events of one key have no order")
    offered[key] = event


def _occurs(
    query: Query,
    matcher: Matcher,
    parts: LatestParts,
    absence: Absence,
    bound: list[Row],
    key: Key,
) -> bool:
    """Is there an event that a match must not have where the absence stands?"""
    first, last = extent({str(i): (row,) for i, row in enumerate(bound)})
    for event in matcher.events:
        if key not in _keys(query, matcher, absence.event, event):
            continue
        if absence.behind == 0:
            opened = event.position > last.position - matcher.width
        else:
            opened = event.key > bound[absence.behind - 1].key
        if absence.behind == len(parts.stages):
            closed = event.position < first.position + matcher.width
        else:
            closed = event.key < bound[absence.behind].key
        if opened and closed:
            return True
    return False
