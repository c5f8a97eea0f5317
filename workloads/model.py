"""A workload: a stream, what is known of it, and the queries over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from workloads.expressions import Expression
from workloads.syntax import Query

Kind = OneOf["int", "float", "string", "bool", "time"]
TimeUnit = OneOf["s", "ms", "us", "ns"]
NANOSECONDS: dict[str, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Stream:
    """How a table of columns is read as events.

    `types` maps a type to the condition that makes an event one of it, or to None where the type
    column says so. Where any type is listed with None, or there is no type column, the list is
    complete and a query may use no other (`closed`).
    """

    time: str
    type: str | None = None
    unit: TimeUnit = "ms"
    sequence: str | None = None
    types: Mapping[str, Expression | None] = field(default_factory=dict)
    attributes: Mapping[str, Kind] = field(default_factory=dict)
    lateness: int | None = None  # nanoseconds

    @property
    def closed(self) -> bool:
        return self.type is None or any(c is None for c in self.types.values())


@dataclass(frozen=True)
class Statistics:
    """What the author says about the stream; the planner measures what is missing."""

    rates: Mapping[str, float] = field(default_factory=dict)  # events per second, by type
    selectivities: Mapping[str, float] = field(default_factory=dict)  # by predicate as printed


NO_STATISTICS = Statistics()


@dataclass(frozen=True)
class Workload:
    """A named set of queries over one stream; every query has a name, all different."""

    name: str
    stream: Stream
    queries: tuple[Query, ...]
    statistics: Statistics = NO_STATISTICS
    file: str | None = None
    first_lines: tuple[int | None, ...] = ()  # of each query's text in the file, where known
