"""The graph of operators that runs, from the scan to the outputs; counters of shared segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from optimizer.cost.counting import CountedQueries
from optimizer.cost.engine_choice import Costs, PatternSteps, step_texts
from optimizer.cost.unit_costs import UnitCosts
from optimizer.engines import counting_engine, pass_engine
from optimizer.engines.situation_parts import shared_part
from optimizer.ir.fingerprint import fingerprint
from optimizer.ir.pattern import (
    Symbol,
    events,
    positive_events,
)
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Query,
    is_funnel,
    picks_matches,
)
from optimizer.ir.read_columns import columns_of, text_conditions
from optimizer.plan.groups import (
    CountingGroup,
    DeferredGroup,
    Group,
    PassGroup,
    StepwiseGroup,
    TreeGroup,
)
from optimizer.plan.lineage import shared_steps_of
from optimizer.plan.plan import (
    NO_STATE,
    SINGLE,
    SLICES,
    Operator,
    OperatorKind,
    OperatorState,
    Partitioning,
    identity,
    state_of,
)
from optimizer.plan.window_texts import (
    given_items,
    made_of_rows,
    print_picks,
    print_window,
    read_symbols,
    shown_pattern,
    shown_window,
)
from optimizer.statistics.statistics import MissingStatisticError, Statistics
from workloads import expressions as ex
from workloads.printing import print_expression

AGGREGATE_COLUMNS = {
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
    from optimizer.plan.chain_operators import in_rounds, produced
    from optimizer.plan.tree_operators import stepwise, tree

    graph = Graph(workload, statistics, unit_costs, sharing)
    sinks: dict[str, list[str]] = {"aggregates": [], "matches": []}
    read = {name for query in workload.queries for name in query.reads}
    for group in in_rounds(workload, groups) if workload.is_chained else groups:
        queries = [graph.queries[name] for name in group.queries]
        match group:
            case CountingGroup():
                found = count(graph.of(queries[0]), group, queries)
            case TreeGroup(trees=trees) | DeferredGroup(trees=trees):
                found = {q.name: tree(graph.of(q), q, trees[q.name]) for q in queries}
            case PassGroup():
                found = passed(graph.of(queries[0]), group, queries)
            case StepwiseGroup():
                found = {q.name: stepwise(graph.of(q), q, group) for q in queries}
        for query in queries:
            kind = "aggregates" if isinstance(query.output, Aggregation) else "matches"
            sinks[kind].append(graph.output(query, *found[query.name]))
            if query.into in read:
                produced(graph, query, sinks[kind][-1])
    for kind, inputs in sinks.items():
        if inputs:
            graph.sink(kind, inputs)
    made = tuple(graph.operators.values())
    return with_stage_costs(made, workload, groups, statistics, unit_costs)


@dataclass
class Graph:
    """Operators as they are added; what is there already is not added again.

    Without `sharing` each query has a graph `of` its own, from the scan on.
    """

    workload: BoundWorkload
    statistics: Statistics
    unit_costs: UnitCosts
    sharing: bool = True
    operators: dict[str, Operator] = field(default_factory=dict)
    alone: str | None = None  # the query whose graph it is
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what makes events, by type
    queries: dict[str, Query] = field(init=False)
    columns: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.queries = {query.name: query for query in self.workload.queries}
        self.columns = columns_of(self.workload)
        self._events: dict[tuple[Symbol, tuple[str, ...], bool], str] = {}
        self._symbols: dict[Symbol, str] = {}
        self._partitions: dict[tuple[tuple[str, ...], bool], str] = {}
        self._scan: str | None = None
        self._conditions: str | None = None
        self._own: dict[str, Graph] = {}

    def of(self, query: Query) -> Graph:
        """The graph that a query's operators are part of: this one, or one of its own."""
        if self.sharing or self.alone is not None:
            return self
        if query.name not in self._own:
            workload = replace(self.workload, queries=(query,))
            given = (self.statistics, self.unit_costs, False, self.operators, query.name, self.made)
            self._own[query.name] = Graph(workload, *given)
        return self._own[query.name]

    def add(self, operator: Operator) -> str:
        """The id of an operator, which the plan has from now on."""
        self.operators.setdefault(operator.id, operator)
        return operator.id

    def another(self, kind: OperatorKind, content: Any, inputs: Sequence[str]) -> str:
        """The id of one more operator, also where another group does the same by itself."""
        found, same = identity(kind, content, inputs), 0
        while found in self.operators:
            same += 1
            found = identity(kind, [content, same], inputs)
        return found

    @property
    def _mark(self) -> list[str]:
        """What tells operators of a query's own graph from those of others."""
        return [] if self.alone is None else [self.alone]

    @property
    def _reader(self) -> dict[str, Any]:
        return {} if self.alone is None else {"query": self.alone}

    def salt(self, query: Query) -> list[str]:
        """What tells operators of two queries apart that do the same, where nothing is shared."""
        return [] if self.sharing else [query.name]

    def rate(self, symbol: Symbol) -> float | None:
        """Events a second, where that is known."""
        if not self.statistics.rates:  # only ids are asked for
            return None
        try:
            return self.statistics.rate(symbol)
        except MissingStatisticError:
            return None

    def scan(self) -> str:
        """Reading the stream."""
        if self._scan is not None:
            return self._scan
        stream = self.workload.stream
        columns = {"time": stream.time, "type": stream.type, "sequence": stream.sequence}
        detail: dict[str, Any] = {key: column for key, column in columns.items() if column}
        detail["unit"] = stream.unit
        if stream.format is not None:
            detail["format"] = stream.format
        types = {
            name: None if condition is None else print_expression(condition)
            for name, condition in sorted(stream.types.items())
        }
        known = self.statistics
        rows = known.events / known.span if known.events and known.span else None
        scan = identity("scan", [detail, types, *self._mark])
        detail |= self._reader
        self._scan = self.add(Operator(scan, "scan", (), detail, self.columns, rows=rows))
        return self._scan

    def conditions(self) -> str:
        """Telling which events are of which symbols, of all queries at once."""
        if self._conditions is None:
            scan = self.scan()
            asked = {e.symbol for query in self.workload.queries for e in events(query.pattern)}
            symbols = sorted(map(str, asked))
            detail: dict[str, Any] = {"symbols": symbols, "conditions": self._tests()}
            texts = text_conditions(asked, self.workload.stream.types)
            if texts is not None:
                detail["of_texts"] = asdict(texts)
            self._conditions = self.add(
                Operator(
                    identity("conditions", symbols, (scan,)),
                    "conditions",
                    (scan,),
                    {**detail, **self._reader},
                    self.columns,
                    rows=self.operators[scan].rows,
                )
            )
        return self._conditions

    def _tests(self) -> int:
        """How many different conditions tell the symbols of events, types by name apart."""
        types = self.workload.stream.types
        found: set[ex.Expression] = set()
        for query in self.workload.queries:
            for event in events(query.pattern):
                found.update(event.symbol.predicates)
                condition = types.get(event.symbol.type)
                found.update(() if condition is None else (condition,))
        return len({part for condition in found for part in ex.conjuncts(condition)})

    def symbol(self, symbol: Symbol) -> str:
        """The events of a symbol."""
        if symbol in self._symbols:
            return self._symbols[symbol]
        conditions = self.conditions()
        condition = self.workload.stream.types.get(symbol.type)
        tests = [*symbol.predicates, *([condition] if condition is not None else [])]
        read = frozenset().union(*map(ex.attributes, tests))
        inputs = (conditions, *self.made.get(symbol.type, ()))
        detail = {"symbol": str(symbol), "columns": sorted(read & self.columns.keys())}
        self._symbols[symbol] = self.add(
            Operator(
                # Not by the conditions' id, which changes with every query that is added.
                identity("symbol", str(symbol), (self.scan(),)),
                "symbol",
                inputs,
                detail,
                self.columns,
                rows=self.rate(symbol),
            )
        )
        return self._symbols[symbol]

    def partition(self, key: tuple[str, ...], counted: bool) -> str:
        """Putting events in order, key by key; `counted` where windows count events."""
        if (key, counted) in self._partitions:
            return self._partitions[key, counted]
        scan = self.scan()
        stream = self.workload.stream
        spread = spread_of(key, counted)
        order = (stream.time, *([stream.sequence] if stream.sequence else []))
        if stream.lateness is not None:
            state = OperatorState("lateness", stream.lateness)
        else:
            state = OperatorState("slice")
        # `time` is the time column where no column has that name.
        columns = [stream.time if name == "time" else name for name in key]
        detail = {"key": list(key), "columns": columns, **self._reader}
        self._partitions[key, counted] = self.add(
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
        return self._partitions[key, counted]

    def events(self, symbol: Symbol, query: Query) -> str:
        """The events of a symbol as a query's partition has them."""
        place = (symbol, query.key, not query.is_timed)
        if place not in self._events:
            inputs = (self.symbol(symbol), self.partition(query.key, not query.is_timed))
            self._events[place] = self.add(
                Operator(
                    identity("events", None, inputs),
                    "events",
                    inputs,
                    {"symbol": str(symbol), "key": list(query.key)},
                    {"start": "time", "end": "time", "c1": "event"},
                    ("end",),
                    spread_of(query.key, not query.is_timed),
                    NO_STATE,
                    rows=self.rate(symbol),
                )
            )
        return self._events[place]

    def output(self, query: Query, source: str, rows: float | None) -> str:
        """The rows of a query as they are written."""
        is_aggregate = isinstance(query.output, Aggregation)
        if is_aggregate and rows is not None and not is_funnel(query):
            rows *= len(query.output.items)  # each aggregate is a row of its own
        detail: dict[str, Any] = {
            "query": query.name,
            "pattern": shown_pattern(query),
            "gives": given_items(query),
            "rows": "aggregates" if is_aggregate else "matches",
            "symbols": list(dict.fromkeys(str(event.symbol) for event in events(query.pattern))),
            "reads": list(dict.fromkeys(read_symbols(query.pattern))),
            "key": list(query.key),
            "window": shown_window(query),
        }
        detail |= made_of_rows(query)
        if query.slide is not None:
            detail["slide"] = print_window(query.window, query.slide)
        limit = getattr(query.output, "limit", None)
        if limit is not None:
            detail["limit"] = limit.number
        if picks_matches(query) or query.skips_past:
            detail["picks"] = print_picks(query)
        having = getattr(query.output, "having", None)
        if having is not None:
            detail["having"] = print_expression(having)
        content = [query.name, detail["gives"], detail.get("having")]
        content += [detail["limit"]] if limit is not None else []
        content += [detail["picks"]] if "picks" in detail else []
        return self.add(
            Operator(
                identity("output", content, (source,)),
                "output",
                (source,),
                detail,
                AGGREGATE_COLUMNS if is_aggregate else MATCHES,
                ("time",),
                spread_of(query.key, not query.is_timed),
                NO_STATE,
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
                AGGREGATE_COLUMNS if kind == "aggregates" else MATCHES,
                ("query", "key", "time"),
                SINGLE,
                NO_STATE,
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


def window_state(query: Query, what: str) -> OperatorState:
    """What the window of a query bounds."""
    if query.window.is_endless:  # one partial match of each stage
        stages = sum(1 for _ in positive_events(query.pattern))
        return OperatorState("events", stages * (stages - 1) // 2)
    return state_of(query.window, what)


COUNTS = {"end": "time", "count": "count"}
OutputsByQuery = dict[
    str, tuple[str, float | None]
]  # of each query: its operator, and its rows a second


def passed(
    graph: Graph, group: PassGroup, queries: Sequence[Query]
) -> dict[str, tuple[str, float | None]]:
    """The one pass that answers some queries, and the rows of each."""
    found = pass_engine(group.engine)
    assert found is not None
    made = graph.add(_pass_operator(graph, group, queries))
    if not graph.statistics.rates:  # only ids are asked for
        return {query.name: (made, None) for query in queries}
    return {query.name: (made, found.rows(query, graph.statistics)) for query in queries}


def _pass_operator(graph: Graph, group: PassGroup, queries: Sequence[Query]) -> Operator:
    first = queries[0]
    symbols = dict.fromkeys(event.symbol for query in queries for event in events(query.pattern))
    inputs = [graph.events(symbol, first) for symbol in symbols]
    if not inputs:
        inputs = [graph.partition(first.key, first.window.is_count)]
    content: list[Any] = [group.engine, *sorted(fingerprint(query) for query in queries)]
    content += [[*setting(query), query.slide] for query in queries]
    detail = {}
    if group.shared:
        named = {query.name: query for query in queries}
        parts = [shared_part(places, named) for places in group.shared]
        detail["shared"] = [
            {"pattern": list(part.texts), "queries": list(part.places)} for part in parts
        ]
        content += [list(part.texts) for part in parts]
    widest = max(queries, key=lambda query: query.window.size)
    return Operator(
        identity("pass", [*content, *graph.salt(first)], inputs),
        "pass",
        tuple(inputs),
        {
            "engine": group.engine,
            "device": group.device,
            "pattern": ", ".join(shown_pattern(query) for query in queries),
            "queries": [query.name for query in queries],
            **detail,
        },
        {"start": "time", "end": "time"},
        ("end",),
        spread_of(first.key, not first.is_timed),
        window_state(widest, "partial matches"),
        group.cost.shared if group.cost is not None else 0.0,
    )


def count(graph: Graph, group: CountingGroup, queries: Sequence[Query]) -> OutputsByQuery:
    """The segments and the engine of a group; what segments do not cost the engine does."""
    first = queries[0]
    by_text = step_texts(queries)
    parts = [_Part(group, some, by_text) for some in _by_window(group, queries)]
    counting = CountedQueries(tuple(queries), graph.statistics)
    spent = 0.0
    for part in parts:
        costs = Costs(counting, group.engine, graph.unit_costs)
        part.costs = {piece: costs.of(tuple(steps)) for piece, steps in part.known.items()}
        spent += sum(part.costs.values())
    total = group.cost.shared if group.cost is not None else spent
    less = 1.0
    if spent > total:  # both are estimates, and all operators take what the group does
        less, spent = total / spent, total
    for part in parts:
        for piece, steps in part.known.items():
            cost, readers = part.costs[piece] * less, part.pieces[piece]
            part.ids[piece] = _segment(
                graph, group, part.queries[0], piece, steps, readers, part.ids, cost
            )
    symbols = dict.fromkeys(e.symbol for query in queries for e in events(query.pattern))
    inside = {
        s
        for part in parts
        for steps in part.known.values()
        for symbol, gap in steps
        for s in (symbol, *gap)
    }
    covered = all(part.is_covered for part in parts)
    alone = [graph.events(s, first) for s in symbols if s not in inside or not covered]
    ids = sorted({number for part in parts for number in part.ids.values()})
    inputs = tuple(dict.fromkeys([*alone, *ids]))
    each = sorted([fingerprint(q), *map(str, setting(q)), str(q.slide)] for q in queries)
    content = [group.engine, group.device, each, *graph.salt(first)]
    rows = counting.rows
    engine = graph.add(
        Operator(
            graph.another("counter", content, inputs),
            "counter",
            inputs,
            {"engine": group.engine, "device": group.device, "queries": list(group.queries)},
            {"query": "string", **COUNTS},
            ("end",),
            spread_of(first.key, first.window.is_count),
            window_state(max(queries, key=lambda q: q.window.size), "counters"),
            max(0.0, total - spent),
            float(sum(rows)),
        )
    )
    return {q.name: (engine, float(row)) for q, row in zip(queries, rows, strict=True)}


def _by_window(group: CountingGroup, queries: Sequence[Query]) -> list[Sequence[Query]]:
    """The queries that have counters in common: all, or those of one window each."""
    if not counting_engine(group.engine).BY_WINDOW:
        return [queries]
    found: dict[int, list[Query]] = {}
    for query in queries:
        found.setdefault(query.window.size, []).append(query)
    return list(found.values())


class _Part:
    """Queries of a group that have counters in common, and the segments that are counted once."""

    def __init__(
        self, group: CountingGroup, queries: Sequence[Query], by_text: Mapping[str, Any]
    ) -> None:
        self.queries, self._group = queries, group
        self.pieces = shared_steps_of(group, [query.name for query in queries])
        self.known: dict[tuple[str, ...], PatternSteps] = {
            piece: [by_text[step] for step in piece]
            for piece in self.pieces
            if _all(piece, by_text)
        }
        self.costs: dict[tuple[str, ...], float] = {}
        self.ids: dict[tuple[str, ...], str] = {}

    @property
    def is_covered(self) -> bool:
        """Are all queries nothing but segments that are shared?"""
        segments, uses = self._group.segments, self._group.uses
        return bool(self.ids) and all(
            segments[number] in self.ids
            for query in self.queries
            for number in uses.get(query.name, ())
        )


def _segment(
    graph: Graph,
    group: CountingGroup,
    first: Query,
    piece: tuple[str, ...],
    steps: PatternSteps,
    queries: Sequence[str],
    before: Mapping[tuple[str, ...], str],
    cost: float,
) -> str:
    """A segment; it goes on from shorter ones that are its beginning or its end."""
    smaller = [before[part] for part in _parts(piece) if part in before]
    symbols = dict.fromkeys(s for symbol, gap in steps for s in (symbol, *sorted(gap, key=str)))
    inputs = tuple([graph.events(symbol, first) for symbol in symbols] + smaller)
    rates = [graph.rate(symbol) for symbol, _ in steps]
    content = [group.engine, list(piece), *setting(first), first.slide, *graph.salt(first)]
    return graph.add(
        Operator(
            identity("segment", content, inputs),
            "segment",
            inputs,
            {"engine": group.engine, "steps": list(piece), "queries": list(queries)},
            COUNTS,
            ("end",),
            spread_of(first.key, first.window.is_count),
            window_state(first, "counters"),
            cost,
            None if None in rates else sum(rate for rate in rates if rate is not None),
        )
    )


def _all(piece: Sequence[str], known: Mapping[str, object]) -> bool:
    return all(step in known for step in piece)


def _parts(piece: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All shorter stretches of it."""
    size = len(piece)
    return [
        piece[at : at + length]
        for length in range(size - 1, 0, -1)
        for at in range(size - length + 1)
    ]
