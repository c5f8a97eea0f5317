"""The graph of operators that runs: from the scan to the sinks.

Events are read once, told apart by symbol and put in order by partition key. Counting goes on with
segments that several queries have and an engine for each group; detection with joins, those of
equal subtrees once. Each query has an output, and each kind of row a sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimizer.cost.operations import UnitCosts
from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Symbol,
    events,
    parts_of,
    print_pattern,
)
from optimizer.ir.query import Aggregation, BoundWorkload, Query, ReturnAttribute, Window
from optimizer.physical.groups import (
    CountingGroup,
    DeferredGroup,
    Group,
    StepwiseGroup,
    TreeGroup,
)
from optimizer.physical.operator import (
    NONE,
    SINGLE,
    SLICES,
    Operator,
    Partitioning,
    State,
    identity,
    state_of,
)
from optimizer.statistics.known import MissingStatisticError, Statistics
from workloads import expressions as ex
from workloads.document import print_nanoseconds
from workloads.printer import print_expression

AGGREGATES = {
    "query": "string",
    "key": "json",
    "time": "time",
    "seq": "int",
    "aggregate": "string",
    "value": "float",
    "count": "int",
    "exact": "bool",
}
MATCHES = {
    "query": "string",
    "key": "json",
    "start": "time",
    "end": "time",
    "time": "time",
    "match": "json",
}


def operators(
    workload: BoundWorkload,
    groups: Sequence[Group],
    statistics: Statistics,
    unit_costs: UnitCosts,
    sharing: bool = True,
) -> tuple[Operator, ...]:
    """The operators of a plan's groups, each after those that it reads."""
    from optimizer.cost.stages import with_stage_costs
    from optimizer.physical.counting_operators import count
    from optimizer.physical.tree_operators import stepwise, tree

    graph = Graph(workload, statistics, unit_costs, sharing)
    sinks: dict[str, list[str]] = {"aggregates": [], "matches": []}
    for group in groups:
        queries = [graph.queries[name] for name in group.queries]
        match group:
            case CountingGroup():
                found = count(graph, group, queries)
            case TreeGroup(trees=trees) | DeferredGroup(trees=trees):
                found = {query.name: tree(graph, query, trees[query.name]) for query in queries}
            case StepwiseGroup():
                found = {query.name: stepwise(graph, query, group) for query in queries}
        for query in queries:
            kind = "aggregates" if isinstance(query.output, Aggregation) else "matches"
            sinks[kind].append(graph.output(query, *found[query.name]))
    for kind, inputs in sinks.items():
        if inputs:
            graph.sink(kind, inputs)
    made = tuple(graph.operators.values())
    return with_stage_costs(made, workload, groups, statistics, unit_costs)


@dataclass
class Graph:
    """Operators as they are added; what is there already is not added again."""

    workload: BoundWorkload
    statistics: Statistics
    unit_costs: UnitCosts
    sharing: bool = True
    operators: dict[str, Operator] = field(default_factory=dict)
    queries: dict[str, Query] = field(init=False)
    columns: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.queries = {query.name: query for query in self.workload.queries}
        self.columns = _columns(self.workload)
        self._events: dict[tuple[Symbol, tuple[str, ...], bool], str] = {}
        self._conditions: str | None = None

    def add(self, operator: Operator) -> str:
        """The id of an operator, which the plan has from now on."""
        self.operators.setdefault(operator.id, operator)
        return operator.id

    def salt(self, query: Query) -> list[str]:
        """What tells operators of two queries apart that do the same, where nothing is shared."""
        return [] if self.sharing else [query.name]

    def rate(self, symbol: Symbol) -> float | None:
        """Events a second, where that is known."""
        try:
            return self.statistics.rate(symbol)
        except MissingStatisticError:
            return None

    def scan(self) -> str:
        """Reading the stream."""
        stream = self.workload.stream
        columns = {"time": stream.time, "type": stream.type, "sequence": stream.sequence}
        detail: dict[str, Any] = {key: column for key, column in columns.items() if column}
        detail["unit"] = stream.unit
        types = {
            name: None if condition is None else print_expression(condition)
            for name, condition in sorted(stream.types.items())
        }
        known = self.statistics
        rows = known.events / known.span if known.events and known.span else None
        scan = identity("scan", [detail, types])
        return self.add(Operator(scan, "scan", (), detail, self.columns, rows=rows))

    def conditions(self) -> str:
        """Telling which events are of which symbols, of all queries at once."""
        if self._conditions is None:
            scan = self.scan()
            symbols = sorted(
                {str(e.symbol) for query in self.workload.queries for e in events(query.pattern)}
            )
            self._conditions = self.add(
                Operator(
                    identity("conditions", symbols, (scan,)),
                    "conditions",
                    (scan,),
                    {"symbols": symbols},
                    self.columns,
                    rows=self.operators[scan].rows,
                )
            )
        return self._conditions

    def symbol(self, symbol: Symbol) -> str:
        """The events of a symbol."""
        conditions = self.conditions()
        condition = self.workload.stream.types.get(symbol.type)
        tests = [*symbol.predicates, *([condition] if condition is not None else [])]
        read = frozenset().union(*map(ex.attributes, tests))
        detail = {"symbol": str(symbol), "columns": sorted(read & self.columns.keys())}
        return self.add(
            Operator(
                # Not by the conditions' id, which changes with every query that is added.
                identity("symbol", str(symbol), (self.scan(),)),
                "symbol",
                (conditions,),
                detail,
                self.columns,
                rows=self.rate(symbol),
            )
        )

    def partition(self, key: tuple[str, ...], counted: bool) -> str:
        """Putting events in order, key by key; `counted` where windows count events."""
        scan = self.scan()
        stream = self.workload.stream
        spread = spread_of(key, counted)
        order = (stream.time, *([stream.sequence] if stream.sequence else []))
        if stream.lateness is not None:
            state = State("lateness", stream.lateness)
        else:
            state = State("slice")
        # `time` is the time column where no column has that name.
        columns = [stream.time if name == "time" else name for name in key]
        detail = {"key": list(key), "columns": columns}
        return self.add(
            Operator(
                identity("partition", [list(key), spread.kind], (scan,)),
                "partition",
                (scan,),
                detail,
                self.columns,
                order,
                spread,
                state,
                rows=self.operators[scan].rows,
            )
        )

    def events(self, symbol: Symbol, query: Query) -> str:
        """The events of a symbol as a query's partition has them."""
        place = (symbol, query.key, query.window.is_count)
        if place not in self._events:
            inputs = (self.symbol(symbol), self.partition(query.key, query.window.is_count))
            self._events[place] = self.add(
                Operator(
                    identity("events", None, inputs),
                    "events",
                    inputs,
                    {"symbol": str(symbol), "key": list(query.key)},
                    {"start": "time", "end": "time", "c1": "event"},
                    ("end",),
                    spread_of(query.key, query.window.is_count),
                    NONE,
                    rows=self.rate(symbol),
                )
            )
        return self._events[place]

    def output(self, query: Query, source: str, rows: float | None) -> str:
        """The rows of a query as they are written."""
        is_aggregate = isinstance(query.output, Aggregation)
        if is_aggregate and rows is not None:
            rows *= len(query.output.items)  # each aggregate is a row of its own
        detail: dict[str, Any] = {
            "query": query.name,
            "pattern": print_pattern(query.pattern),
            "gives": _gives(query),
            "rows": "aggregates" if is_aggregate else "matches",
            "symbols": list(dict.fromkeys(str(event.symbol) for event in events(query.pattern))),
            "reads": list(dict.fromkeys(_reads(query.pattern))),
            "key": list(query.key),
            "window": print_window(query.window),
        }
        if query.slide is not None:
            detail["slide"] = print_window(query.window, query.slide)
        having = getattr(query.output, "having", None)
        if having is not None:
            detail["having"] = print_expression(having)
        content = [query.name, detail["gives"], detail.get("having")]
        return self.add(
            Operator(
                identity("output", content, (source,)),
                "output",
                (source,),
                detail,
                AGGREGATES if is_aggregate else MATCHES,
                ("time",),
                spread_of(query.key, query.window.is_count),
                NONE,
                rows=rows,
            )
        )

    def sink(self, kind: str, inputs: Sequence[str]) -> str:
        """Where all rows of a kind go."""
        found = [self.operators[source].rows for source in inputs]
        return self.add(
            Operator(
                f"sink-{kind}",
                "sink",
                tuple(inputs),
                {"rows": kind},
                AGGREGATES if kind == "aggregates" else MATCHES,
                ("query", "key", "time"),
                SINGLE,
                NONE,
                rows=None if None in found else sum(row for row in found if row is not None),
            )
        )


def spread_of(key: tuple[str, ...], counted: bool) -> Partitioning:
    """How the events of a key are spread; ranks of events need all of them in one place."""
    if key:
        return Partitioning("key", key)
    return SINGLE if counted else SLICES


def setting(query: Query) -> list[Any]:
    """The window that two operators must agree in to be one, besides what they compute."""
    return [query.window.size, query.window.is_count]


def window_state(query: Query, what: str) -> State:
    """What the window of a query bounds."""
    return state_of(query.window, what)


def _columns(workload: BoundWorkload) -> dict[str, str]:
    """The columns of the stream that the queries read, with their kinds where these are known."""
    stream = workload.stream
    found = {stream.time: "time"}
    if stream.type is not None:
        found[stream.type] = "string"
    if stream.sequence is not None:
        found[stream.sequence] = "int"
    read: set[str] = set()
    for query in workload.queries:
        read.update(query.key)
        expressions = list(query.conditions)
        expressions += [p for event in events(query.pattern) for p in event.symbol.predicates]
        expressions += [
            condition
            for event in events(query.pattern)
            if (condition := stream.types.get(event.symbol.type)) is not None
        ]
        for item in query.output.items:
            operand = getattr(item, "operand", None) or getattr(item, "value", None)
            if operand is not None:
                expressions.append(operand)
            if isinstance(item, ReturnAttribute):
                read.add(item.attribute)
        read.update(*map(ex.attributes, expressions))
    for name in sorted(read - found.keys() - {"time"}):
        found[name] = stream.attributes.get(name, "any")
    return found


def _gives(query: Query) -> list[str]:
    """What stands in the rows of a query."""
    if isinstance(query.output, Aggregation):
        return [item.text for item in query.output.items]
    found = []
    for item in query.output.items:
        if isinstance(item, ReturnAttribute):
            found.append(f"{item.alias}.{item.attribute}")
        else:
            value = getattr(item, "value", None)
            text = getattr(item, "alias", "") if value is None else print_expression(value)
            found.append(f"{text} AS {item.name}" if item.name else text)
    return found


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
