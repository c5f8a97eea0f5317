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


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """How a partition key spreads its events: its distinct values, and the heaviest one's share."""

    cardinality: float
    heaviest: float

    def __post_init__(self) -> None:
        if not (self.cardinality >= 1 and 0 < self.heaviest <= 1):
            raise ValueError(f"no key has {self.cardinality} values and a share {self.heaviest}")

    def together(self, count: int) -> float:
        """The chance that `count` events have one key: the sum of the values' shares to `count`.

        As if all values but the heaviest were equally frequent, and all symbols spread alike.
        """
        others = self.cardinality - 1
        if others < 1e-9:
            return 1.0
        rest: float = (1 - self.heaviest) ** count / others ** (count - 1)
        return min(1.0, self.heaviest**count + rest)


@dataclass(frozen=True)
class Statistics:
    """What the author says about the stream; the planner measures what is missing.

    `rates` are events per second by type, `selectivities` by predicate as printed, `keys` by the
    key's attributes, joined by commas. `ties` is the share of events that are simultaneous with
    another. All types together, the stream has `events` in a `span` of seconds.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, KeyStatistics] = field(default_factory=dict)
    ties: float | None = None
    events: int | None = None
    span: float | None = None


NO_STATISTICS = Statistics()
OnLimit = OneOf["stop", "drop-oldest"]


@dataclass(frozen=True)
class PartialLimit:
    """How many partial matches of one key an operator holds, and what happens when there are more.

    `stop`: the query is stopped, and the others go on. `drop-oldest`: those that ended first are
    given up; such as ended at the same time go together.
    """

    most: int
    on_limit: OnLimit = "stop"


@dataclass(frozen=True)
class Workload:
    """A named set of queries over one stream; every query has a name, all different."""

    name: str
    stream: Stream
    queries: tuple[Query, ...]
    statistics: Statistics = NO_STATISTICS
    file: str | None = None
    first_lines: tuple[int | None, ...] = ()  # of each query's text in the file, where known
    partial: PartialLimit | None = None
