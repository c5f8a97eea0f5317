"""A bound query: what it means, with every name resolved and every default filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from optimizer.ir.pattern import Pattern
from workloads.errors import UnsupportedError
from workloads.expressions import Attribute, Expression
from workloads.model import NO_STATISTICS, Statistics, Stream

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
class Construction:
    """What a detection query gives for each match."""

    items: tuple[ReturnItem, ...]


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
