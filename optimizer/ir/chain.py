"""Queries that are one sequence of single events, with single events negated in its gaps; and with
comparisons between neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from optimizer.ir.automaton import Symbols, countable_by_counters, uncountable_value
from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Seq,
    alternatives,
)
from optimizer.ir.query import Aggregation, Query
from workloads.errors import UnsupportedError
from workloads.expressions import Attribute, Comparison, Expression
from workloads.syntax import One


@dataclass(frozen=True)
class NeighbourComparison:
    """`a.earlier < b.later`, where b is the component behind a; `<=` if not `strict`.

    `descending`: `a.earlier > b.later`, or `>=`.
    """

    earlier: str
    later: str
    strict: bool
    descending: bool

    def __str__(self) -> str:
        sign = (">" if self.descending else "<") + ("" if self.strict else "=")
        return f".{self.earlier} {sign} .{self.later}"


@dataclass(frozen=True)
class Chain:
    """`SEQ(!gate, E1, !gaps[0], E2, …, En, !gaps[n-1])`; each gap is a set of negated symbols.

    `comparisons` has one for each component with the one before it, or None; it is empty where
    nothing ties components.
    """

    components: tuple[Event, ...]
    gate: Symbols
    gaps: tuple[Symbols, ...]
    comparisons: tuple[NeighbourComparison | None, ...] = ()

    def level(self, alias: str) -> int:
        """The number of a component, by its alias."""
        return next(i for i, event in enumerate(self.components) if event.alias == alias)


@lru_cache(maxsize=16_384)  # a planner asks for each query again and again
def chain_of(query: Query) -> Chain | str:
    """The query as a chain, or why it is none."""
    reason = countable_by_counters(query)
    return _sequence(query) if reason is None else reason


@lru_cache(maxsize=16_384)
def compared_chain_of(query: Query) -> Chain | str:
    """The query as a chain whose only conditions compare neighbours, or why it is none."""
    if not isinstance(query.output, Aggregation):
        return "it returns matches"
    if (reason := uncountable_value(query.output)) is not None:
        return reason
    if query.special_windows is not None:
        return query.special_windows
    if query.strategy != "any":
        return f"of its matches only those of STRATEGY {query.strategy.upper()} count"
    if not query.conditions:
        return "nothing ties its components"
    try:
        chain = _sequence(query)
    except UnsupportedError as error:
        return str(error)
    if isinstance(chain, str):
        return chain
    if chain.gate:
        return "what it negates looks back to the opening of the window"
    places = {event.alias: i for i, event in enumerate(chain.components)}
    found: list[NeighbourComparison | None] = [None] * len(chain.components)
    for condition in query.conditions:
        compared = _comparison(condition, places)
        if compared is None:
            return "it has a condition that does not compare attributes of neighbours"
        place, comparison = compared
        if found[place] is not None:
            return "two conditions tie the same neighbours"
        found[place] = comparison
    return replace(chain, comparisons=tuple(found))


def _comparison(
    condition: Expression, places: Mapping[str, int]
) -> tuple[int, NeighbourComparison] | None:
    """A condition as a comparison of the component at a place with the one before it."""
    match condition:
        case Comparison(
            "<" | "<=" | ">" | ">=" as sign, Attribute(one, mine), Attribute(other, theirs)
        ) if one in places and other in places:
            strict, descending = len(sign) == 1, sign[0] == ">"
            if places[other] - places[one] == 1:
                return places[other], NeighbourComparison(mine, theirs, strict, descending)
            if places[one] - places[other] == 1:
                return places[one], NeighbourComparison(theirs, mine, strict, not descending)
    return None


def _sequence(query: Query) -> Chain | str:
    """The pattern as a chain, whatever its conditions, or why it is none."""
    choices = alternatives(query.pattern)
    if len(choices) != 1:
        return "it has an OR"
    gaps: list[Symbols] = [frozenset()]
    components: list[Event] = []
    for part in choices[0].parts if isinstance(choices[0], Seq) else choices:
        reason = _not_single(part)
        if reason is not None:
            return reason
        if isinstance(part, Neg):
            assert isinstance(part.part, Event)
            gaps[-1] |= {part.part.symbol}
        else:
            assert isinstance(part, Event)
            components.append(part)
            gaps.append(frozenset())
    return Chain(tuple(components), gaps[0], tuple(gaps[1:]))


def _not_single(part: Pattern) -> str | None:
    match part:
        case Event(quantifier=One()) | Neg(Event(quantifier=One())):
            return None
        case Event() | Neg(Event()):
            return "it has a group of events"
        case Neg():
            return "it negates more than a single event"
        case _:
            return "it has an AND"
