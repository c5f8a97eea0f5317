"""A workload: its stream, queries and statistics as values, and as a plain document."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from workloads.errors import Place
from workloads.expressions import Expression
from workloads.imported_rules import RefusedRule
from workloads.printing import print_expression, print_query
from workloads.rule_tests import RuleTest
from workloads.syntax import UNITS, Query

AttributeKind = OneOf["int", "float", "string", "bool", "time"]
MissingColumns = OneOf["error", "ignore"]
TimeUnit = OneOf["s", "ms", "us", "ns"]
NANOSECONDS: dict[str, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Stream:
    """How a table of columns is read as events.

    `types` maps a type to the condition that makes an event one of it, or to None where the type
    column says so. Where any type is listed with None, or there is no type column, the list is
    complete and a query may use no other (`closed`). `format` is how times are written, and
    `delimiter` what is between the columns of CSV; without one, that is told from the header.
    An attribute that no column has is an error, or with `missing_columns` ignored always null.
    Where there are `sources`, it is the stream that they make together (`workloads.sources`).
    """

    time: str
    type: str | None = None
    unit: TimeUnit = "ms"
    sequence: str | None = None
    types: Mapping[str, Expression | None] = field(default_factory=dict)
    attributes: Mapping[str, AttributeKind] = field(default_factory=dict)
    lateness: int | None = None  # nanoseconds
    format: str | None = None
    delimiter: str | None = None
    missing_columns: MissingColumns = "error"
    situations: Mapping[str, DefinedSituation] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    # Words of the queries, among them all names of fields that they read; None where they read all.
    words: frozenset[str] | None = field(default=frozenset(), compare=False, repr=False)

    @property
    def closed(self) -> bool:
        if self.sources:
            return all(source.stream.closed for source in self.sources.values())
        return self.type is None or any(c is None for c in self.types.values())

    @property
    def declares_columns(self) -> bool:
        """Are `attributes` all that events have?"""
        if self.sources:
            return all(source.stream.declares_columns for source in self.sources.values())
        return bool(self.attributes)


@dataclass(frozen=True)
class Source:
    """One of several sources: how its own columns are read, and what it calls otherwise than all.

    `rename` has the names that columns get, by those that they have.
    """

    stream: Stream
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DefinedSituation:
    """A situation that queries may use by its name, asked of events of a type, or of all."""

    condition: Expression
    of: str | None = None
    gap: int | None = None  # nanoseconds


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
    places: tuple[Place | None, ...] = ()  # of each query's text in the file, where known
    partial: PartialLimit | None = None
    refused: tuple[RefusedRule, ...] = ()  # of `rules`, those that no query says
    tests: tuple[RuleTest, ...] = ()
    # Queries that are left out where the events do not fit them, each with its rule's place.
    optional: Mapping[str, str] = field(default_factory=dict)


_WRITTEN: deque[tuple[dict[str, Any], Workload]] = deque(maxlen=4)


def to_document(workload: Workload, tests: bool = False) -> dict[str, Any]:
    """Plain values that JSON can hold; with its tests, `load_workload` gives the same back.

    Queries keep the text they were written in, so that errors still show it. Plans carry it
    without tests, which change nothing about how queries run.
    """
    document = _document(workload, tests)
    if tests == bool(workload.tests):
        _WRITTEN.append((document, workload))
    return document


def written_workload(document: Mapping[str, Any]) -> Workload | None:
    """The workload that `to_document` made a document of, if that is not long ago.

    A plan is made and run in one go: thousands of rules need not be parsed again for it.
    """
    for written, workload in tuple(_WRITTEN):
        if written is document and _document(workload, bool(workload.tests)) == document:
            return workload
    return None


def _document(workload: Workload, tests: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": workload.name,
        **_streams(workload.stream),
        "queries": [_query(query) for query in workload.queries],
    }
    if statistics := statistics_document(workload.statistics):
        document["statistics"] = statistics
    if workload.partial is not None:
        limit = workload.partial
        document["limits"] = {"partial_matches": limit.most, "on_limit": limit.on_limit}
    names = [query.name or "" for query in workload.queries]
    if optional := {n: workload.optional[n] for n in names if n in workload.optional}:
        is_all = len(optional) == len(names) and not any(optional.values())
        document["optional"] = is_all or optional
    if tests and workload.tests:
        document["tests"] = [dict(test.document) for test in workload.tests]
    return document


def without_tests(document: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's document as plans have it."""
    return {key: value for key, value in document.items() if key != "tests"}


def _query(query: Query) -> str | dict[str, Any]:
    """A query's text; with its name where that is not part of it."""
    if query.notation is not None:
        return {"name": query.name, query.notation: query.text}
    return query.text or print_query(query)


def statistics_document(statistics: Statistics) -> dict[str, Any]:
    """What is known of a stream, as a workload has it under `statistics`."""
    document: dict[str, Any] = {}
    for key, values in (("rates", statistics.rates), ("selectivities", statistics.selectivities)):
        if values:
            document[key] = dict(values)
    if statistics.keys:
        document["keys"] = {
            name: {"cardinality": key.cardinality, "heaviest": key.heaviest}
            for name, key in statistics.keys.items()
        }
    for name in ("ties", "events", "span"):
        if (value := getattr(statistics, name)) is not None:
            document[name] = value
    return document


def print_nanoseconds(amount: int) -> str:
    """A length of time in the largest unit that it is a whole number of: `10 min`."""
    unit = max((u for u in UNITS if amount % UNITS[u] == 0), key=lambda u: UNITS[u])
    return f"{amount // UNITS[unit]} {unit}"


def _streams(stream: Stream) -> dict[str, Any]:
    if not stream.sources:
        return {"stream": _stream(stream)}
    return {"streams": {name: _source(source) for name, source in stream.sources.items()}}


def _source(source: Source) -> dict[str, Any]:
    document = _stream(source.stream)
    return {**document, "rename": dict(source.rename)} if source.rename else document


def _stream(stream: Stream) -> dict[str, Any]:
    document: dict[str, Any] = {"time": stream.time, "unit": stream.unit}
    if stream.type is not None:
        document["type"] = stream.type
    if stream.sequence is not None:
        document["sequence"] = stream.sequence
    if stream.types:
        document["types"] = {
            name: None if condition is None else print_expression(condition)
            for name, condition in stream.types.items()
        }
    if stream.attributes:
        document["attributes"] = dict(stream.attributes)
    if stream.lateness is not None:
        document["lateness"] = print_nanoseconds(stream.lateness)
    for key in ("format", "delimiter"):
        if (value := getattr(stream, key)) is not None:
            document[key] = value
    if stream.missing_columns != "error":
        document["missing_columns"] = stream.missing_columns
    if stream.situations:
        document["situations"] = {
            name: _defined(situation) for name, situation in stream.situations.items()
        }
    return document


def _defined(situation: DefinedSituation) -> dict[str, Any]:
    document: dict[str, Any] = {"when": print_expression(situation.condition)}
    if situation.of is not None:
        document["of"] = situation.of
    if situation.gap is not None:
        document["gap"] = print_nanoseconds(situation.gap)
    return document
