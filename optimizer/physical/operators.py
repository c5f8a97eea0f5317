"""The graph of operators that runs: from the scan to the sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    events,
    parts_of,
    positive_events,
    print_pattern,
)
from optimizer.ir.query import Aggregation, BoundWorkload, Query, Window
from optimizer.physical.plan import Operator
from workloads.document import print_nanoseconds
from workloads.model import Stream


@dataclass(frozen=True)
class Together:
    """Queries that run as one group, by which engine, and why."""

    queries: tuple[Query, ...]
    engine: str
    why: str


def operators(workload: BoundWorkload, groups: Sequence[Together]) -> tuple[Operator, ...]:
    """Scan, symbols, one partition for each key, one engine for each group, one sink a kind."""
    used = [event.symbol for query in workload.queries for event in events(query.pattern)]
    symbols = sorted(set(map(str, used)))
    operators = [
        Operator("scan", "scan", (), _scan(workload.stream)),
        Operator("symbols", "symbols", ("scan",), {"symbols": symbols}),
    ]
    keys = sorted({query.key for query in workload.queries}, key=lambda key: (len(key), key))
    partition = {key: f"partition-{i}" for i, key in enumerate(keys, 1)}
    operators += [
        Operator(partition[key], "partition", ("symbols",), {"key": list(key)}) for key in keys
    ]
    sinks: dict[str, list[str]] = {"aggregates": [], "matches": []}
    for number, group in enumerate(groups, 1):
        first = group.queries[0]
        engine = Operator(f"group-{number}", "engine", (partition[first.key],), _engine(group))
        operators.append(engine)
        kind = "aggregates" if isinstance(first.output, Aggregation) else "matches"
        sinks[kind].append(engine.id)
    operators += [
        Operator(kind, "sink", tuple(inputs), {"rows": kind})
        for kind, inputs in sinks.items()
        if inputs
    ]
    return tuple(operators)


def _scan(stream: Stream) -> dict[str, Any]:
    columns = {"time": stream.time, "type": stream.type, "sequence": stream.sequence}
    return {key: column for key, column in columns.items() if column} | {"unit": stream.unit}


def _engine(group: Together) -> dict[str, Any]:
    patterns = [query.pattern for query in group.queries]
    positive = {event.symbol.type for p in patterns for event in positive_events(p)}
    negated = {event.symbol.type for p in patterns for event in events(p)} - positive
    first = group.queries[0]
    detail: dict[str, Any] = {
        "engine": group.engine,
        "queries": [query.name for query in group.queries],
        "patterns": [print_pattern(pattern) for pattern in patterns],
        "reads": [list(dict.fromkeys(_reads(pattern))) for pattern in patterns],
        "types": sorted(positive),
        "negated": sorted(negated),
        "window": print_window(first.window),
    }
    if first.slide is not None:
        detail["slide"] = print_window(first.window, first.slide)
    return detail


def _reads(pattern: Pattern, mark: str = "") -> Iterator[str]:
    """The types of a pattern in order, with a `!` where they are negated."""
    if isinstance(pattern, Event):
        yield mark + pattern.symbol.type
    for part in parts_of(pattern):
        yield from _reads(part, "!" if isinstance(pattern, Neg) else mark)


def print_window(window: Window, slide: int | None = None) -> str:
    """A window's size, or its slide, as people write it."""
    size = window.size if slide is None else slide
    return f"{size} events" if window.is_count else print_nanoseconds(size)
