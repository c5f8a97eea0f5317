"""What a plan does before and after it counts and joins, operator by operator, and how far
windows reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from optimizer.cost.counting import CountedQueries
from optimizer.cost.substrings import Arrivals
from optimizer.cost.unit_costs import Operations, UnitCosts, group_size, nanoseconds
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnValue,
    Symbol,
    events,
    is_unbounded,
    waits_for_window,
)
from optimizer.plan.plan import CONSTRUCTING, CountingGroup, Group, Operator, StepwiseGroup
from optimizer.statistics.statistics import MissingStatisticError, Statistics
from workloads import syntax as ex
from workloads.syntax import All, One

SLICE_EVENTS = 500_000  # of a slice; a stream that has no more is not cut


class ReachClass(NamedTuple):
    """What groups of queries must agree in to run over the same events of a slice.

    `back` and `ahead` are nanoseconds; `events` and `key` are those of windows counted in events.
    """

    back: int = 0
    ahead: int = 0
    events: int = 0
    key: tuple[str, ...] = ()
    unbounded: bool = False


def class_of(queries: Sequence[Query]) -> ReachClass:
    """The class of queries that run as one group."""
    first = queries[0]
    if not first.window.is_count:
        return ReachClass(
            max(query.window.size for query in queries),
            max((q.window.size for q in queries if waits_for_window(q)), default=0),
        )
    if any(map(is_unbounded, queries)):
        return ReachClass(unbounded=True)
    return ReachClass(events=first.window.size, key=first.key)


def visits(
    classes: Iterable[ReachClass], rate: float, values: dict[tuple[str, ...], float]
) -> dict[ReachClass, float]:
    """How often each class visits an event of a long stream, in which so many come in a second.

    Events that slices reach back to are visited again. `values` are numbers of values of keys.
    """
    found = list(dict.fromkeys(classes))
    counted = {c: c.events * values.get(c.key, 1.0) for c in found}
    reached = {c: rate * (c.back + c.ahead) / 1e9 + counted[c] for c in found}
    held = max((rate * c.back / 1e9 + counted[c] for c in found), default=0.0)
    step = max(SLICE_EVENTS, held)  # a slice has no fewer events than are carried over to it
    return {c: 1 + reached[c] / step for c in found}


NONE = Operations()
ONE_SLICE = "cost_of_one_slice"  # in an operator's detail
_Work: TypeAlias = Callable[[list[Group]], Operations]


class StageOperations(NamedTuple):
    """Operations of an operator over a long stream, and over one that is not cut."""

    long: Operations
    one_slice: Operations


def with_stage_costs(
    operators: Sequence[Operator],
    workload: BoundWorkload,
    groups: Sequence[Group],
    statistics: Statistics,
    unit_costs: UnitCosts,
) -> tuple[Operator, ...]:
    """The operators with what their stages take added to their costs.

    A counter's cost has looking up symbols in it, which is the work of the conditions: it is
    charged there.
    """
    found = Stages(operators, workload, groups, statistics).operations()
    return tuple(_charged(operator, found, unit_costs) for operator in operators)


def stages_cost(
    operators: Sequence[Operator],
    workload: BoundWorkload,
    groups: Sequence[Group],
    statistics: Statistics,
    unit_costs: UnitCosts,
) -> float:
    """What stages add to the costs of a plan's groups: nanoseconds for a second of stream."""
    found = Stages(operators, workload, groups, statistics).operations()
    return sum(nanoseconds(each.long, unit_costs) for each in found.values())


def _charged(
    operator: Operator, found: Mapping[str, StageOperations], unit_costs: UnitCosts
) -> Operator:
    if operator.id not in found:
        return operator
    own = found[operator.id]
    long, one_slice = (max(0.0, operator.cost + nanoseconds(each, unit_costs)) for each in own)
    detail = operator.detail
    if own.long != own.one_slice:
        detail = {**detail, ONE_SLICE: one_slice}
    return replace(operator, cost=long, detail=detail)


@dataclass
class Stages:
    """The operations of a graph's stages."""

    operators: Sequence[Operator]
    workload: BoundWorkload
    groups: Sequence[Group]
    statistics: Statistics

    @cached_property
    def queries(self) -> dict[str, Query]:
        return {query.name: query for query in self.workload.queries}

    @cached_property
    def rate(self) -> float:
        """Events of the stream in a second; where that is not known, those that queries name."""
        known = self.statistics
        if known.events is not None and known.span:
            return known.total_rate
        types = {e.symbol.type for query in self.workload.queries for e in events(query.pattern)}
        return sum(known.rates.get(name, 0.0) for name in types)

    @cached_property
    def members(self) -> dict[ReachClass, list[Group]]:
        """The groups of each class of reach."""
        found: dict[ReachClass, list[Group]] = {}
        for group in self.groups:
            for part in _units(group):
                place = class_of([self.queries[name] for name in part.queries])
                found.setdefault(place, []).append(part)
        return found

    @cached_property
    def visits(self) -> dict[ReachClass, float]:
        """How often each class visits an event."""
        values = {}
        for place in self.members:
            try:
                values[place.key] = self.statistics.key(place.key).cardinality
            except MissingStatisticError:
                values[place.key] = 1.0
        return visits(self.members, self.rate, values)

    def operations(self) -> dict[str, StageOperations]:
        """By operator, what it does besides what its cost has already."""
        found: dict[str, StageOperations] = {}
        given = {operator.id: operator.rows for operator in self.operators}
        for operator in self.operators:
            match operator.kind:
                case "scan":
                    found[operator.id] = _always(self._read(operator))
                case "conditions":
                    found[operator.id] = StageOperations(
                        self._each_visit(self._tested), self._tested(list(self.groups))
                    )
                case "partition":
                    place = tuple(operator.detail["key"]), self._is_counted(operator)
                    one = self._ordered(list(self.groups), *place)
                    long = NONE
                    for members, times in self._classes():
                        long += self._ordered(members, *place).times(times)
                    found[operator.id] = StageOperations(long, one)
                case "counter":
                    asked = tuple(self.queries[name] for name in operator.detail["queries"])
                    seen = CountedQueries(asked, self.statistics).seen
                    found[operator.id] = _always(Operations(seen=-seen))
                case "output":
                    found[operator.id] = _always(self._made(operator, given))
                case "sink":
                    found[operator.id] = _always(self._sunk(operator, given))
                case kind if kind in CONSTRUCTING and kind not in ("union", "stepwise"):
                    taken = sum(given.get(source) or 0.0 for source in operator.inputs)
                    is_group = kind == "group"
                    found[operator.id] = _always(
                        Operations(group_rows=taken) if is_group else Operations(node_rows=taken)
                    )
                case _:
                    pass
        return found

    def _classes(self) -> list[tuple[list[Group], float]]:
        return [(members, self.visits[place]) for place, members in self.members.items()]

    def _each_visit(self, work: _Work) -> Operations:
        long = NONE
        for members, times in self._classes():
            long += work(members).times(times)
        return long

    def _is_counted(self, operator: Operator) -> bool:
        """Do the windows over a partition count events?"""
        key = tuple(operator.detail["key"])
        counted = {q.window.is_count for q in self.workload.queries if q.key == key}
        if len(counted) == 1:
            return counted.pop()
        return operator.partitioning.kind == "single"

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, scan: Operator) -> Operations:
        """Columns that queries name, or all that the stream has where whole events are needed."""
        kinds = dict(scan.schema)
        if any(map(_needs_all, self.workload.queries)):
            kinds |= self.workload.stream.attributes
        texts = sum(kind == "string" for kind in kinds.values())
        return Operations(
            read_rows=self.rate,
            read_numbers=self.rate * (len(kinds) - texts),
            read_texts=self.rate * texts,
        )

    # --- testing ----------------------------------------------------------------------------------

    def _tested(self, groups: list[Group]) -> Operations:
        """What it takes to tell the symbols of events for groups that run together."""
        asked = [self.queries[name] for group in groups for name in group.queries]
        stream = self.workload.stream
        expressions: list[ex.Expression] = [c for c in stream.types.values() if c is not None]
        for query in asked:
            expressions += _expressions(query)
        names = frozenset().union(*map(ex.attributes, expressions))
        texts = sum(stream.attributes.get(name) == "string" for name in names)
        tested = {s for query in asked for s in _symbols(query) if self._is_tested(s)}
        predicates = {predicate for symbol in tested for predicate in symbol.predicates}
        conditions = {s.type for s in tested if stream.types.get(s.type) is not None}
        calls = self._lookups(groups)
        return Operations(
            seen=self.rate * len(calls),
            text_columns=self.rate * texts,
            tested=self.rate * (len(predicates) + len(conditions)),
            numbered=self.rate * sum(len(call & tested) for call in calls),
        )

    def _is_tested(self, symbol: Symbol) -> bool:
        return bool(symbol.predicates) or self.workload.stream.types.get(symbol.type) is not None

    def _lookups(self, groups: list[Group]) -> list[set[Symbol]]:
        """The symbols of each numbering of events: by each counter, and for each key of trees."""
        calls: list[set[Symbol]] = []
        trees: dict[tuple[object, ...], set[Symbol]] = {}
        for group in groups:
            asked = [self.queries[name] for name in group.queries]
            symbols = {symbol for query in asked for symbol in _symbols(query)}
            if isinstance(group, CountingGroup | StepwiseGroup):
                calls.append(symbols)
            else:
                first = asked[0]
                place = (first.key, first.window.is_count, group.device)
                trees.setdefault(place, set()).update(symbols)
        return [*calls, *trees.values()]

    # --- ordering ---------------------------------------------------------------------------------

    def _ordered(self, groups: list[Group], key: tuple[str, ...], counted: bool) -> Operations:
        """What it takes to put the events of a key in order for groups that run together."""
        arranged: set[bool] = set()
        picked: dict[str, set[Symbol]] = {}
        for group in groups:
            asked = [self.queries[name] for name in group.queries]
            if asked[0].key != key or asked[0].window.is_count != counted:
                continue
            if isinstance(group, CountingGroup | StepwiseGroup):
                arranged.add(any(isinstance(e.quantifier, All) for e in events(asked[0].pattern)))
            else:
                symbols = {symbol for query in asked for symbol in _symbols(query)}
                picked.setdefault(group.device, set()).update(symbols)
        whole = len(arranged) + (len(picked) if counted else 0)
        if counted and (arranged or picked):
            whole += 1  # to know which events the next slice still needs
        encoded = whole + (0 if counted else len(picked))
        taken = 0.0
        for symbols in picked.values():
            taken += min(self.rate, sum(map(self._rate_of, symbols)))
        return Operations(
            key_columns=self.rate * encoded * len(key),
            key_pairs=self.rate * encoded * max(0, len(key) - 1),
            arranged=self.rate * whole,
            picked=taken,
        )

    def _rate_of(self, symbol: Symbol) -> float:
        try:
            return self.statistics.rate(symbol)
        except MissingStatisticError:
            return 0.0

    # --- rows -------------------------------------------------------------------------------------

    def _made(self, output: Operator, given: Mapping[str, float | None]) -> Operations:
        """Making the rows of a query."""
        query, rows = self.queries[output.detail["query"]], given.get(output.id) or 0.0
        if isinstance(query.output, Aggregation):
            (source,) = output.inputs
            constructed = next(o for o in self.operators if o.id == source).kind != "counter"
            from_matches = (given.get(source) or 0.0) if constructed else 0.0
            return Operations(aggregate_rows=rows, match_rows=from_matches)
        return Operations(
            output_events=self.rate,
            match_rows=rows,
            match_values=rows * self.values_of(query),
        )

    def _sunk(self, sink: Operator, given: Mapping[str, float | None]) -> Operations:
        """Sorting and writing the rows of all queries."""
        by_id = {operator.id: operator for operator in self.operators}
        found = NONE
        for source in sink.inputs:
            rows = given.get(source) or 0.0
            query = self.queries[by_id[source].detail["query"]]
            if isinstance(query.output, Aggregation):
                found += Operations(sunk_aggregates=rows)
            else:
                found += Operations(sunk_matches=rows, sunk_values=rows * self.values_of(query))
        return found

    def values_of(self, query: Query) -> float:
        """How many values a match row of a query has."""
        if isinstance(query.output, Aggregation):
            return 0.0
        stream = self.workload.stream
        columns = {stream.time, *stream.attributes}
        columns |= {name for name in (stream.type, stream.sequence) if name is not None}
        by_alias = {event.alias: event for event in events(query.pattern)}
        found = 0.0
        for item in query.output.items:
            match item:
                case ReturnValue():
                    found += 1
                case ReturnAlias(alias) | ReturnAttribute(alias):
                    each = len(columns) if isinstance(item, ReturnAlias) else 1
                    event = by_alias.get(alias)
                    size = 1.0
                    if event is not None and not isinstance(event.quantifier, One):
                        size = group_size(event.quantifier, self._between(query, event.symbol))
                    found += each * size
        return found

    def _between(self, query: Query, symbol: Symbol) -> float:
        """The events of a symbol that stand between two others in a window."""
        try:
            return Arrivals(self.statistics, query.key, query.window).met(symbol) / 2
        except MissingStatisticError:
            return 1.0


def _always(operations: Operations) -> StageOperations:
    return StageOperations(operations, operations)


def _units(group: Group) -> list[Group]:
    """The parts of a group that run by themselves."""
    if isinstance(group, StepwiseGroup) and len(group.queries) > 1:
        return [replace(group, queries=(name,)) for name in group.queries]
    return [group]


def _symbols(query: Query) -> set[Symbol]:
    return {event.symbol for event in events(query.pattern)}


def _expressions(query: Query) -> list[ex.Expression]:
    """All that a query computes of events."""
    found = list(query.conditions)
    found += [p for event in events(query.pattern) for p in event.symbol.predicates]
    for item in query.output.items:
        operand = getattr(item, "operand", None) or getattr(item, "value", None)
        if operand is not None:
            found.append(operand)
    return found


def _needs_all(query: Query) -> bool:
    """Does it need whole events?"""
    if any(isinstance(event.quantifier, All) for event in events(query.pattern)):
        return True
    return not isinstance(query.output, Aggregation) and any(
        isinstance(item, ReturnAlias) for item in query.output.items
    )
