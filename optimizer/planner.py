"""Bound workload to physical plan: which queries run together, and on which engine."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.automaton import countable
from optimizer.cost.visits import counted, joined, unit
from optimizer.ir.pattern import Event, Pattern, events, parts_of, positive_events, print_pattern
from optimizer.ir.query import Aggregation, BoundWorkload, Query, Window
from optimizer.physical.plan import Cost, Group, Model, Operator, Plan, Solver
from workloads.document import print_nanoseconds
from workloads.model import Statistics, Stream

JOINS, PRODUCT = "joins", "product"
ALONE = "runs alone: sharing among queries that return matches is not looked for yet"


@dataclass(frozen=True)
class _Together:
    """Queries that run as one group, by which engine, and why."""

    queries: tuple[Query, ...]
    engine: str
    why: str


def make_plan(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    solver: Solver = "greedy",
    model: Model = "aseq",
    statistics: Statistics | None = None,
    sharing: bool = True,
) -> Plan:
    """A plan for the workload, whose document it carries along.

    `statistics` take the place of the workload's own. Without `sharing` each query is a group.
    """
    rates = dict((statistics or workload.statistics).rates)
    counted_in = unit(workload.queries, rates)
    groups = _grouped(workload.queries, sharing)
    alone = _grouped(workload.queries, sharing=False)
    separate = sum(_cost(group, rates, counted_in) for group in alone)
    shared = sum(_cost(group, rates, counted_in) for group in groups)
    return Plan(
        workload=workload.name,
        queries=tuple(query.name for query in workload.queries),
        solver=solver,
        model=model,
        status="feasible",
        objective=separate - shared,
        bound=separate,  # nothing can save more than all there is
        cost=Cost(separate, shared, counted_in),
        candidates=(),
        chosen=(),
        groups=tuple(map(_group, groups)),
        operators=_operators(workload, groups),
        rates=rates,
        document=document,
    )


def _grouped(queries: Sequence[Query], sharing: bool) -> list[_Together]:
    """Queries that are counted and have one key, window and slide run together, others alone."""
    found: dict[Hashable, list[Query]] = {}
    reasons: dict[str, str | None] = {}
    for query in queries:
        reasons[query.name] = countable(query)
        together = sharing and reasons[query.name] is None
        place = (query.key, query.window, query.slide) if together else query.name
        found.setdefault(place, []).append(query)
    return [_together(tuple(group), reasons[group[0].name], sharing) for group in found.values()]


def _together(queries: tuple[Query, ...], reason: str | None, sharing: bool) -> _Together:
    if reason is not None:
        aggregates = isinstance(queries[0].output, Aggregation)
        why = f"constructs its matches to count them: {reason}" if aggregates else ALONE
        return _Together(queries, JOINS, why)
    if len(queries) > 1:
        why = (
            "counted together: they have one key, window and slide, so each distinct piece of "
            "their patterns is counted once"
        )
    elif sharing:
        why = "counted alone: no other query has its key, window and slide"
    else:
        why = "counted alone: sharing is switched off"
    return _Together(queries, PRODUCT, why)


def _cost(group: _Together, rates: Mapping[str, float], counted_in: str) -> float:
    if group.engine == PRODUCT:
        return counted(group.queries, rates, counted_in)
    return sum(joined(query, rates, counted_in) for query in group.queries)


def _group(group: _Together) -> Group:
    names = tuple(query.name for query in group.queries)
    if isinstance(group.queries[0].output, Aggregation):
        segments = tuple(
            tuple(str(event.symbol) for event in positive_events(query.pattern))
            for query in group.queries
        )
        return Group(names, group.engine, group.why, segments=segments)
    return Group(names, group.engine, group.why, tree=_tree(group.queries[0].pattern))


def _tree(pattern: Pattern) -> dict[str, Any]:
    """The pattern's own nesting, as the tree that will be evaluated."""
    if isinstance(pattern, Event):
        return {"event": print_pattern(pattern)}
    parts = [_tree(part) for part in parts_of(pattern)]
    return {"operator": type(pattern).__name__.upper(), "parts": parts}


def _operators(workload: BoundWorkload, groups: list[_Together]) -> tuple[Operator, ...]:
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


def _engine(group: _Together) -> dict[str, Any]:
    patterns = [query.pattern for query in group.queries]
    positive = {event.symbol.type for p in patterns for event in positive_events(p)}
    negated = {event.symbol.type for p in patterns for event in events(p)} - positive
    first = group.queries[0]
    detail: dict[str, Any] = {
        "engine": group.engine,
        "queries": [query.name for query in group.queries],
        "patterns": [print_pattern(pattern) for pattern in patterns],
        "types": sorted(positive),
        "negated": sorted(negated),
        "window": print_window(first.window),
    }
    if first.slide is not None:
        detail["slide"] = print_window(first.window, first.slide)
    return detail


def print_window(window: Window, slide: int | None = None) -> str:
    """A window's size, or its slide, as people write it."""
    size = window.size if slide is None else slide
    return f"{size} events" if window.is_count else print_nanoseconds(size)
