"""What a plan does before and after it counts and joins, operator by operator, and how far
windows reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum
from typing import NamedTuple

from optimizer.cost.counting import CountedQueries
from optimizer.cost.substrings import Arrivals
from optimizer.cost.unit_costs import Operations, UnitCosts, group_size, nanoseconds
from optimizer.ir.pattern import Symbol, events
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnValue,
    is_unbounded,
    waits_for_window,
)
from optimizer.ir.read_columns import columns_of, conditions_with_type, constant_attribute
from optimizer.plan.groups import CountingGroup, Group, PassGroup, StepwiseGroup
from optimizer.plan.plan import CONSTRUCTING, Operator
from optimizer.statistics.statistics import MissingStatisticError, Statistics
from workloads import expressions as ex
from workloads.syntax import All, One

_WITNESS = 0.05  # of a look-up: an event of the few that the rarest condition of a symbol leaves
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
    if any(map(is_unbounded, queries)):
        return ReachClass(unbounded=True)
    if not first.window.is_count:
        return ReachClass(
            max(query.window.size for query in queries),
            max((q.window.size for q in queries if waits_for_window(q)), default=0),
        )
    return ReachClass(events=max(query.window.size for query in queries), key=first.key)


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


class PreparedEvents(NamedTuple):
    """Events that are prepared together: how often each is, and who reads them how often."""

    visits: float
    readers: list[tuple[list[Group], float]]


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


def separate_preparation(
    operators: Sequence[Operator],
    workload: BoundWorkload,
    groups: Sequence[Group],
    statistics: Statistics,
    unit_costs: UnitCosts,
) -> float:
    """What reading, testing and ordering events takes more, each query by itself, than in a plan
    that shares them.

    A counter's cost has looking up symbols in it, which is the work of the conditions.
    """
    stages = Stages(operators, workload, groups, statistics)
    more = 0.0
    for group in groups:
        asked = tuple(stages.queries[name] for name in group.queries)
        for query in asked:
            more += nanoseconds(stages.alone(query.name).prepared(), unit_costs)
        if isinstance(group, CountingGroup):
            parts = [CountedQueries((query,), statistics).seen for query in asked]
            seen = fsum(parts) - CountedQueries(asked, statistics).seen
            more -= nanoseconds(Operations(seen=seen), unit_costs)
    prepare = ("scan", "conditions", "partition")
    return more - fsum(o.cost for o in operators if o.kind in prepare)


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
    events_in_a_second: float | None = None
    _read_names: dict[str, frozenset[str]] = field(default_factory=dict)  # by query

    @cached_property
    def queries(self) -> dict[str, Query]:
        return {query.name: query for query in self.workload.queries}

    @cached_property
    def rate(self) -> float:
        """Events of the stream in a second; where that is not known, those that queries name."""
        known = self.statistics
        if self.events_in_a_second is not None:
            return self.events_in_a_second
        if known.events is not None and known.span:
            return known.total_rate
        types = {e.symbol.type for query in self.workload.queries for e in events(query.pattern)}
        return fsum(known.rates.get(name, 0.0) for name in types)

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
                    stages = self.of(operator)
                    found[operator.id] = StageOperations(
                        stages.tested(stages.classes()), stages.tested(stages.one_class())
                    )
                case "partition":
                    stages = self.of(operator)
                    place = tuple(operator.detail["key"]), stages._is_counted(operator)
                    coded = stages.coded_before(operator)
                    found[operator.id] = StageOperations(
                        stages.ordered(stages.classes(), *place, coded),
                        stages.ordered(stages.one_class(), *place, coded),
                    )
                case "counter":
                    asked = tuple(self.queries[name] for name in operator.detail["queries"])
                    seen = CountedQueries(asked, self.statistics).seen
                    found[operator.id] = _always(Operations(seen=-seen))
                case "output":
                    found[operator.id] = _always(self._made(operator, given))
                case "sink":
                    found[operator.id] = _always(self._sunk(operator, given))
                case kind if kind in CONSTRUCTING and kind not in (
                    "union",
                    "stepwise",
                    "compact",
                ):
                    taken = sum(given.get(source) or 0.0 for source in operator.inputs)
                    is_group = kind == "group"
                    found[operator.id] = _always(
                        Operations(group_rows=taken) if is_group else Operations(node_rows=taken)
                    )
                case _:
                    pass
        return found

    def of(self, operator: Operator) -> Stages:
        """The stages of the query that an operator is of, where it is of one alone."""
        name = operator.detail.get("query")
        if name is None or len(self.workload.queries) == 1:
            return self
        return self.alone(name)

    def alone(self, name: str) -> Stages:
        """The stages of one query by itself."""
        (group,) = (group for group in self.groups if name in group.queries)
        workload = replace(self.workload, queries=(self.queries[name],))
        part = group if len(group.queries) == 1 else replace(group, queries=(name,))
        found = Stages(self.operators, workload, (part,), self.statistics, self.rate)
        found._type_names, found._read_names = self._type_names, self._read_names
        return found

    def classes(self) -> list[PreparedEvents]:
        """The events of a long stream that are prepared together, and who reads them.

        All windows in time read those of the widest.
        """
        found: list[PreparedEvents] = []
        timed = [place for place in self.members if place.back]
        if timed:
            most = max(self.visits[place] for place in timed)
            found.append(PreparedEvents(most, [(self.members[p], self.visits[p]) for p in timed]))
        found += [
            PreparedEvents(self.visits[place], [(self.members[place], self.visits[place])])
            for place in self.members
            if not place.back
        ]
        return found

    def one_class(self) -> list[PreparedEvents]:
        """Those of a stream that is not cut."""
        return [PreparedEvents(1.0, [(list(self.groups), 1.0)])]

    def prepared(self) -> Operations:
        """Reading, testing and ordering events for all queries, once."""
        found = self._columns_read(self.workload.queries)
        found += self.tested(self.classes())
        coded = self._texts(self.workload.queries)
        for key, counted in self._keys():
            found += self.ordered(self.classes(), key, counted, frozenset(coded))
            coded |= set(key)
        return found

    def _keys(self) -> list[tuple[tuple[str, ...], bool]]:
        return list(dict.fromkeys((q.key, q.window.is_count) for q in self.workload.queries))

    def _is_counted(self, operator: Operator) -> bool:
        """Do the windows over a partition count events?"""
        key = tuple(operator.detail["key"])
        counted = {q.window.is_count for q in self.workload.queries if q.key == key}
        if len(counted) == 1:
            return counted.pop()
        return operator.partitioning.kind == "single"

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, scan: Operator) -> Operations:
        return self._columns_read(self.of(scan).workload.queries, dict(scan.schema))

    def _columns_read(
        self, queries: Sequence[Query], kinds: dict[str, str] | None = None
    ) -> Operations:
        """Columns that queries name, or all that the stream has where whole events are needed."""
        kinds = kinds or columns_of(replace(self.workload, queries=tuple(queries)))
        if any(map(_needs_all, queries)):
            kinds |= self.workload.stream.attributes
        texts = sum(kind == "string" for kind in kinds.values())
        return Operations(
            read_rows=self.rate,
            read_numbers=self.rate * (len(kinds) - texts),
            read_texts=self.rate * texts,
        )

    # --- testing ----------------------------------------------------------------------------------

    def tested(self, classes: Sequence[PreparedEvents]) -> Operations:
        """What it takes to tell the symbols of events: each attribute is looked up once for all
        conditions that compare it with constants, and each other condition is evaluated once. Of
        symbols that speak of texts, attributes are looked up and hardly any event is looked at."""
        long = NONE
        for prepared in classes:
            groups = [group for members, _ in prepared.readers for group in members]
            asked = [self.queries[name] for group in groups for name in group.queries]
            tested = {s for query in asked for s in _symbols(query) if self._is_tested(s)}
            types = self.workload.stream.types
            indexed = {s for s in tested if ex.speak_of_texts(conditions_with_type(s, types))}
            attributes, others = self.conditions_of(tested - indexed)
            for symbol in indexed:
                attributes.update(*map(ex.attributes, conditions_with_type(symbol, types)))
            looked = len(attributes) + len(others) + _WITNESS * len(indexed)
            long += Operations(
                text_columns=self.rate * len(self._texts(asked)),
                tested=self.rate * looked,
                numbered=self.rate * bool(tested),
            ).times(prepared.visits)
            for members, visits in prepared.readers:
                long += Operations(seen=self.rate * len(self._lookups(members))).times(visits)
        return long

    def _texts(self, queries: Sequence[Query]) -> set[str]:
        """The columns of texts that conditions read."""
        kinds = self.workload.stream.attributes
        names = self._type_names.union(*map(self._names_of, queries))
        return {name for name in names if kinds.get(name) == "string"}

    @cached_property
    def _type_names(self) -> frozenset[str]:
        """What the conditions of types read."""
        types = self.workload.stream.types.values()
        return frozenset().union(*(ex.attributes(c) for c in types if c is not None))

    def _names_of(self, query: Query) -> frozenset[str]:
        """What the expressions of a query read."""
        if query.name not in self._read_names:
            found = map(ex.attributes, _expressions(query))
            self._read_names[query.name] = frozenset().union(*found)
        return self._read_names[query.name]

    def conditions_of(self, symbols: Iterable[Symbol]) -> tuple[set[str], set[ex.Expression]]:
        """The attributes that are compared with constants, and the conditions of any other sort."""
        attributes: set[str] = set()
        others: set[ex.Expression] = set()
        for symbol in symbols:
            for test in conditions_with_type(symbol, self.workload.stream.types):
                for part in ex.conjuncts(test):
                    name = constant_attribute(part)
                    if name is None:
                        others.add(part)
                    else:
                        attributes.add(name)
        return attributes, others

    def _is_tested(self, symbol: Symbol) -> bool:
        return bool(symbol.predicates) or self.workload.stream.types.get(symbol.type) is not None

    def _lookups(self, groups: list[Group]) -> list[set[Symbol]]:
        """The symbols of each numbering of events: by each counter, and for each key of trees."""
        calls: list[set[Symbol]] = []
        trees: dict[tuple[object, ...], set[Symbol]] = {}
        for group in groups:
            asked = [self.queries[name] for name in group.queries]
            symbols = {symbol for query in asked for symbol in _symbols(query)}
            if isinstance(group, CountingGroup | StepwiseGroup | PassGroup):
                calls.append(symbols)
            else:
                first = asked[0]
                place = (first.key, first.window.is_count, group.device)
                trees.setdefault(place, set()).update(symbols)
        return [*calls, *trees.values()]

    # --- ordering ---------------------------------------------------------------------------------

    def coded_before(self, partition: Operator) -> frozenset[str]:
        """The columns that are numbers already when a key is put in order."""
        coded = self._texts(self.workload.queries)
        for operator in self.operators:
            if operator.id == partition.id:
                break
            if operator.kind == "partition" and operator.detail.get("query") == (
                partition.detail.get("query")
            ):
                coded |= set(operator.detail["key"])
        return frozenset(coded)

    def ordered(
        self,
        classes: Sequence[PreparedEvents],
        key: tuple[str, ...],
        counted: bool,
        coded: frozenset[str] = frozenset(),
    ) -> Operations:
        """What it takes to put the events of a key in order: once for the events that are prepared
        together, and again for each narrower part of them."""
        long = NONE
        for prepared in classes:
            parts = [(self._ordered(m, key, counted), visits) for m, visits in prepared.readers]
            if not any(arranged or picked for (arranged, picked), _ in parts):
                continue
            new = [name for name in key if name not in coded]
            long += Operations(
                key_columns=self.rate * len(new),
                key_pairs=self.rate * max(0, len(key) - 1),
                arranged=self.rate * any(arranged for (arranged, _), _ in parts),
            ).times(prepared.visits)
            for (arranged, picked), visits in parts:
                narrower = arranged if visits < prepared.visits else max(0, arranged - 1)
                work = Operations(arranged=self.rate * narrower, picked=picked)
                long += work.times(visits)
        return long

    def _ordered(
        self, groups: list[Group], key: tuple[str, ...], counted: bool
    ) -> tuple[int, float]:
        """How often groups that run together want a key's events laid out, and the events that
        their trees take of them."""
        arranged: set[bool] = set()
        picked: dict[str, set[Symbol]] = {}
        for group in groups:
            asked = [self.queries[name] for name in group.queries]
            if asked[0].key != key or asked[0].window.is_count != counted:
                continue
            if isinstance(group, CountingGroup | StepwiseGroup | PassGroup):
                arranged.add(any(isinstance(e.quantifier, All) for e in events(asked[0].pattern)))
            else:
                symbols = {symbol for query in asked for symbol in _symbols(query)}
                picked.setdefault(group.device, set()).update(symbols)
                if key or counted:
                    arranged.add(False)
        taken = 0.0
        for symbols in picked.values():
            taken += min(self.rate, fsum(map(self._rate_of, symbols)))
        return len(arranged), taken

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
