"""Bound queries: what they look for, in which windows and partitions, and what they give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import NamedTuple

from optimizer.ir.pattern import Pattern, Proj, alternatives, events, waits, walk
from workloads.errors import TooLargeError, UnsupportedError
from workloads.expressions import Attribute, Expression, aliases
from workloads.syntax import Strategy
from workloads.workload import NO_STATISTICS, Statistics, Stream

AggregateFunction = OneOf["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN`: a size in nanoseconds, or in events."""

    size: int
    is_count: bool = False

    def ticks(self, tick: int) -> int:
        """The size in ticks of `tick` nanoseconds each; a count stays as it is."""
        return self.size if self.is_count else whole_ticks(self.size, tick, "window")


def whole_ticks(nanoseconds: int, tick: int, what: str) -> int:
    """Nanoseconds as ticks of the stream's time; refuses what is not a whole number of them."""
    if nanoseconds % tick:
        raise UnsupportedError(
            f"a {what} of {nanoseconds} ns is not a whole number of the stream's time unit of "
            f"{tick} ns; use a multiple of it, or declare a finer unit"
        )
    return nanoseconds // tick


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`SUM(a.x)`; `operand` is None for `COUNT(*)`, `text` is how it was written."""

    function: AggregateFunction
    operand: Attribute | None
    text: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What an aggregate query gives at each trigger or slide.

    `having` is a condition over `Call(function, operand)` and constants.
    """

    items: tuple[Aggregate, ...]
    having: Expression | None = None


@dataclass(frozen=True, slots=True)
class ReturnAlias:
    """`RETURN a`: the whole event, or the whole group, under its alias or under `name`."""

    alias: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ReturnAttribute:
    """`RETURN a.x`: one field of the alias' object."""

    alias: str
    attribute: str


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """`RETURN a.x + b.x AS total`: a value of its own."""

    value: Expression
    name: str


ReturnItem = ReturnAlias | ReturnAttribute | ReturnValue


@dataclass(frozen=True, slots=True)
class MatchLimit:
    """How many matches are given of those of one key that end at one moment.

    They are the first by the times of their events, component by component in this order.
    """

    number: int
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Construction:
    """What a detection query gives for each match."""

    items: tuple[ReturnItem, ...]
    limit: MatchLimit | None = None


@dataclass(frozen=True, slots=True)
class FixedAttribute:
    """An attribute of the key that has one value in all rows, and its place in the key."""

    place: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Query:
    """One bound query.

    `conditions` are the conjuncts that tie components, aggregate over a group, or speak of none.
    A conjunct belongs to the innermost negation among its aliases' scopes, and holds where one of
    its aliases is bound to nothing (a part of an OR that did not match).

    `key` are the attributes that partition the stream. Those of `fixed_key`, in ascending order of
    place, are part of the key of each result too, but every component asks for their one value.
    """

    name: str
    pattern: Pattern
    conditions: tuple[Expression, ...]
    key: tuple[str, ...]
    window: Window
    output: Aggregation | Construction
    slide: int | None = None  # nanoseconds, or events for a count window
    fixed_key: tuple[FixedAttribute, ...] = ()
    strategy: Strategy = "any"  # which of the matches count

    @property
    def is_triggered(self) -> bool:
        """Is it evaluated at each event that can end a match?"""
        return isinstance(self.output, Aggregation) and self.slide is None

    @property
    def result_key(self) -> tuple[tuple[str, str | None], ...]:
        """The attributes of the key as results have it, in order, each with its value if fixed."""
        found: list[tuple[str, str | None]] = [(name, None) for name in self.key]
        for fixed in self.fixed_key:
            found.insert(fixed.place, (fixed.name, fixed.value))
        return tuple(found)


@dataclass(frozen=True)
class BoundWorkload:
    """The bound queries of a workload and the stream they read."""

    name: str
    stream: Stream
    queries: tuple[Query, ...]
    statistics: Statistics = NO_STATISTICS

    def query(self, name: str) -> Query:
        """The query of that name."""
        return next(q for q in self.queries if q.name == name)


class Reading(NamedTuple):
    """One OR-free reading of a query's pattern; `asked` is the query that it makes alone."""

    query: Query
    pattern: Pattern
    asked: Query

    @staticmethod
    def of(query: Query, pattern: Pattern) -> Reading:
        named = {event.alias for event in events(pattern)}
        conditions = tuple(c for c in query.conditions if aliases(c) <= named)
        return Reading(query, pattern, replace(query, pattern=pattern, conditions=conditions))


def waits_for_window(query: Query) -> bool:
    """Can events after a match's last decide whether it is one?"""
    if not isinstance(query.output, Construction):
        return False
    if any(isinstance(node, Proj) for node in walk(query.pattern)):
        return True
    try:
        return any(map(waits, alternatives(query.pattern)))
    except TooLargeError:
        return True  # which is said when it runs


def is_unbounded(query: Query) -> bool:
    """Does it need all events at once? The next event of a key may never come."""
    return query.window.is_count and (query.slide is not None or waits_for_window(query))
