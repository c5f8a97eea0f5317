"""Bound workload to physical plan: one group a query, nothing shared yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.cost.visits import unit, visits
from optimizer.ir.pattern import Event, Pattern, events, parts_of, positive_events, print_pattern
from optimizer.ir.query import Aggregation, BoundWorkload, Query, Window
from optimizer.physical.plan import Cost, Group, Model, Operator, Plan, Solver
from workloads.document import print_nanoseconds
from workloads.model import Statistics, Stream

ENGINE = "joins"  # what the local engine does, for aggregates too
ALONE = "runs alone: this planner does not look for sharing yet"


def make_plan(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    solver: Solver = "greedy",
    model: Model = "aseq",
    statistics: Statistics | None = None,
) -> Plan:
    """A plan for the workload, whose document it carries along.

    `statistics` take the place of the workload's own.
    """
    rates = dict((statistics or workload.statistics).rates)
    counted_in = unit(workload.queries, rates)
    separate = sum(visits(query, rates, counted_in) for query in workload.queries)
    return Plan(
        workload=workload.name,
        queries=tuple(query.name for query in workload.queries),
        solver=solver,
        model=model,
        status="feasible",
        objective=0.0,
        bound=separate,  # nothing can save more than all there is
        cost=Cost(separate, separate, counted_in),
        candidates=(),
        chosen=(),
        groups=tuple(map(_group, workload.queries)),
        operators=_operators(workload),
        rates=rates,
        document=document,
    )


def _group(query: Query) -> Group:
    if isinstance(query.output, Aggregation):
        segment = tuple(str(event.symbol) for event in positive_events(query.pattern))
        return Group((query.name,), ENGINE, ALONE, segments=(segment,))
    return Group((query.name,), ENGINE, ALONE, tree=_tree(query.pattern))


def _tree(pattern: Pattern) -> dict[str, Any]:
    """The pattern's own nesting, as the tree that will be evaluated."""
    if isinstance(pattern, Event):
        return {"event": print_pattern(pattern)}
    parts = [_tree(part) for part in parts_of(pattern)]
    return {"operator": type(pattern).__name__.upper(), "parts": parts}


def _operators(workload: BoundWorkload) -> tuple[Operator, ...]:
    """Scan, symbols, one partition for each key, one engine for each query, one sink a kind."""
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
    for number, query in enumerate(workload.queries, 1):
        engine = Operator(f"group-{number}", "engine", (partition[query.key],), _engine(query))
        operators.append(engine)
        kind = "aggregates" if isinstance(query.output, Aggregation) else "matches"
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


def _engine(query: Query) -> dict[str, Any]:
    positive = {event.symbol.type for event in positive_events(query.pattern)}
    negated = {event.symbol.type for event in events(query.pattern)} - positive
    detail: dict[str, Any] = {
        "engine": ENGINE,
        "queries": [query.name],
        "pattern": print_pattern(query.pattern),
        "types": sorted(positive),
        "negated": sorted(negated),
        "window": print_window(query.window),
    }
    if query.slide is not None:
        detail["slide"] = print_window(query.window, query.slide)
    return detail


def print_window(window: Window, slide: int | None = None) -> str:
    """A window's size, or its slide, as people write it."""
    size = window.size if slide is None else slide
    return f"{size} events" if window.is_count else print_nanoseconds(size)
