"""A plan made ready to run: its groups with bound queries and compiled trees; and what a run of it
carries from batch to batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from engines.account import Account, Fallbacks
from engines.devices import DeviceRequest
from engines.limits import Ledger, Limits, PartialLimit
from optimizer.cost.unit_costs import DEFAULTS
from optimizer.engines.situation_parts import SharedPart, shared_part
from optimizer.engines.spec import Device
from optimizer.ir.keys import AddedKey, is_added, wider_key
from optimizer.ir.pattern import Symbol, events
from optimizer.ir.produced import chains_of
from optimizer.ir.query import BoundWorkload, Query
from optimizer.plan import join_operators as joins
from optimizer.plan.chain_operators import produced
from optimizer.plan.compile_tree import ReadingTree, reading_trees
from optimizer.plan.groups import (
    CompactGroup,
    CountingGroup,
    DeferredGroup,
    PassGroup,
    StepwiseGroup,
    TreeGroup,
)
from optimizer.plan.operators import Graph
from optimizer.plan.plan import Operator, Plan, PlanError
from optimizer.plan.tree_operators import add_reading, compact_id, stepwise_id
from optimizer.rewrite.normalize import workload_in_forms
from optimizer.statistics import Statistics
from optimizer.trees.tree import from_document

if TYPE_CHECKING:
    from engines.matching.trees.adaptive import AdaptivePlans, Decision
    from engines.results.funnel_totals import FunnelTotals


@dataclass(frozen=True)
class CountingUnit:
    """Queries that one counter counts; `lengths` are those of each query's segments."""

    queries: tuple[Query, ...]
    engine: str  # of `optimizer.engines.COUNTING`
    lengths: Mapping[str, tuple[int, ...]]
    device: Device
    operator: str


@dataclass(frozen=True)
class TreeUnit:
    """Queries whose matches trees find; without `trees` these are chosen on the events."""

    queries: tuple[Query, ...]
    trees: Mapping[str, tuple[ReadingTree, ...]] | None
    device: Device


@dataclass(frozen=True)
class StepwiseUnit:
    """A query whose components are bound one after the other."""

    queries: tuple[Query, ...]


@dataclass(frozen=True)
class CompactUnit:
    """A query whose matches are listed in order."""

    queries: tuple[Query, ...]


@dataclass(frozen=True)
class PassUnit:
    """Queries that one pass over the events of each partition answers."""

    queries: tuple[Query, ...]
    engine: str  # of `optimizer.engines.PASSING`
    device: Device
    operator: str
    shared: tuple[SharedPart, ...] = ()  # parts of patterns that are joined once


Unit: TypeAlias = CountingUnit | TreeUnit | StepwiseUnit | CompactUnit | PassUnit


@dataclass(frozen=True)
class Program:
    """The units of a plan over the stream of its workload.

    `workload` has the queries of all units, and `outputs` the operator that makes the rows of each;
    `tests` is the operator that tests events against the symbols of the whole plan. Without
    `sharing` each query has its own scan, conditions, orders and buffers: its program is one of
    `separate`, together with the queries whose rows it reads.
    """

    workload: BoundWorkload
    units: tuple[Unit, ...]
    outputs: Mapping[str, str]
    tests: str
    sharing: bool = True
    planned: BoundWorkload | None = None  # with the queries of the plan, where others are run

    @property
    def conditions(self) -> str:
        """The operator that tests events against symbols."""
        return self.tests if self.sharing else self.ids.conditions

    def separate(self) -> list[Program]:
        """The programs that have nothing in common: each query's, or one of all that share."""
        if self.sharing:
            return [self]
        chains = chains_of(self.workload.queries) if self.workload.is_chained else ()
        together = {name: chain for chain in chains for name in chain}
        names = [together.get(query.name, (query.name,)) for query in self.workload.queries]
        return [self.of_queries(each) for each in dict.fromkeys(names)]

    def only(self, units: Iterable[Unit]) -> Program:
        """The program with some of its units."""
        kept = tuple(units)
        names = {query.name for unit in kept for query in unit.queries}
        queries = tuple(query for query in self.workload.queries if query.name in names)
        return replace(self, workload=replace(self.workload, queries=queries), units=kept)

    def of_queries(self, names: Iterable[str]) -> Program:
        """The program with some of its queries; what they share with others is theirs alone."""
        wanted = set(names)
        return self.only(filter(None, (_part(unit, wanted) for unit in self.units)))

    def over(self, workload: BoundWorkload) -> Program:
        """The program for what some of its queries ask; its units are those of all it asks."""
        return replace(self, workload=workload)

    @cached_property
    def by_partitions(self) -> tuple[tuple[tuple[AddedKey, ...], Program], ...]:
        """Programs by the keys for which their events are taken once for each value.

        In these programs such keys are attributes like others.
        """
        names: dict[tuple[str, ...], list[str]] = {}
        keys: dict[tuple[str, ...], tuple[AddedKey, ...]] = {}
        for query in self.workload.queries:
            names.setdefault(query.added_columns, []).append(query.name)
            known = keys.get(query.added_columns, query.added_keys)
            keys[query.added_columns] = tuple(map(wider_key, known, query.added_keys))
        if not any(names):
            return (((), self),)
        parts = {added: self.of_queries(some) for added, some in names.items()}
        return tuple((keys[added], part._with_columns(added)) for added, part in parts.items())

    def _with_columns(self, added: tuple[str, ...]) -> Program:
        """The same with columns that are added to events as further attributes of the key."""
        if not added:
            return self

        def keyed(query: Query) -> Query:
            return replace(query, key=(*query.key, *added), tied_key=(), groups=())

        units = tuple(replace(unit, queries=tuple(map(keyed, unit.queries))) for unit in self.units)
        queries = tuple(map(keyed, self.workload.queries))
        workload = replace(self.workload, queries=queries)
        planned = self.planned or self.workload
        return replace(self, workload=workload, units=units, planned=planned)

    @cached_property
    def ids(self) -> OperatorIds:
        """The ids of the operators that it runs."""
        return OperatorIds(self)


class OperatorIds:
    """The ids that the operators of a program have in its plan."""

    def __init__(self, program: Program) -> None:
        workload = program.planned or program.workload
        whole = Graph(workload, Statistics(), DEFAULTS, program.sharing)
        queries = workload.queries
        self._planned = {query.name: query for query in queries}
        self._graph = whole.of(queries[0]) if queries else whole
        self._symbols: dict[Symbol, str] = {}  # asked for with every batch
        self._partitions: dict[tuple[tuple[str, ...], bool], str] = {}
        self._joins: dict[tuple[str, int], tuple[ReadingTree, dict[joins.Operator, str]]] = {}

    @property
    def operators(self) -> Mapping[str, Operator]:
        """All that have been asked for, by id."""
        return self._graph.operators

    @cached_property
    def scan(self) -> str:
        return self._graph.scan()

    @cached_property
    def conditions(self) -> str:
        return self._graph.conditions()

    def symbol(self, symbol: Symbol) -> str:
        if symbol not in self._symbols:
            self._symbols[symbol] = self._graph.symbol(symbol)
        return self._symbols[symbol]

    def partition(self, key: tuple[str, ...], ranked: bool) -> str:
        place = (tuple(name for name in key if not is_added(name)), ranked)
        if place not in self._partitions:
            self._partitions[place] = self._graph.partition(*place)
        return self._partitions[place]

    def events(self, symbol: Symbol, query: Query) -> str:
        return self._graph.events(symbol, self._planned[query.name])

    def joins(self, query: Query, reading: ReadingTree) -> dict[joins.Operator, str]:
        """The ids of the operators of a tree, also of one that the plan does not have."""
        place = (query.name, id(reading))  # of trees that are held here, and stay the same
        if place not in self._joins:
            planned = self._planned[query.name]
            self._joins[place] = (reading, add_reading(self._graph, planned, reading))
        return self._joins[place][1]

    def stepwise(self, query: Query) -> str:
        return stepwise_id(self._graph, self._planned[query.name], self._inputs(query))

    def compact(self, query: Query) -> str:
        return compact_id(self._graph, self._planned[query.name], self._inputs(query))

    def produced(self, query: Query) -> str:
        return produced(self._graph, query)

    def _inputs(self, query: Query) -> tuple[str, ...]:
        symbols = dict.fromkeys(event.symbol for event in events(query.pattern))
        return tuple(self.events(symbol, query) for symbol in symbols)


def bound_program(plan: Plan, workload: BoundWorkload) -> Program:
    """The program of a plan for queries that are bound already."""
    workload = workload_in_forms(workload, plan.forms)
    queries = {query.name: query for query in workload.queries}
    unfit = {rule.name for rule in workload.refused}
    if missing := [name for name in plan.queries if name not in queries and name not in unfit]:
        raise PlanError(f"the plan runs queries that its workload has not: {', '.join(missing)}")
    counters = {
        tuple(operator.detail["queries"]): operator.id
        for operator in plan.operators
        if operator.kind in ("counter", "pass")
    }
    units: list[Unit] = []
    for group in plan.groups:
        members = tuple(queries[name] for name in group.queries if name in queries)
        if not members:
            continue
        match group:
            case CountingGroup(engine=engine, device=device):
                operator = counters[tuple(group.queries)]
                units.append(CountingUnit(members, engine, group.lengths, device, operator))
            case PassGroup(engine=engine, device=device):
                operator = counters[tuple(group.queries)]
                shared = tuple(
                    shared_part(places, queries)
                    for places in group.shared
                    if unfit.isdisjoint(places)
                )
                units.append(PassUnit(members, engine, device, operator, shared))
            case TreeGroup(trees=trees, device=device):
                compiled = {q.name: reading_trees(q, from_document(trees[q.name])) for q in members}
                units.append(TreeUnit(members, compiled, device))
            case DeferredGroup(device=device):
                units.append(TreeUnit(members, None, device))
            case CompactGroup():
                units += [CompactUnit((query,)) for query in members]
            case StepwiseGroup():
                units += [StepwiseUnit((query,)) for query in members]
    outputs = {o.detail["query"]: o.id for o in plan.operators if o.kind == "output"}
    conditions = next(o.id for o in plan.operators if o.kind == "conditions")
    return Program(workload, tuple(units), outputs, conditions, plan.sharing)


def _part(unit: Unit, names: set[str]) -> Unit | None:
    kept = tuple(query for query in unit.queries if query.name in names)
    if not kept:
        return None
    return unit if len(kept) == len(unit.queries) else replace(unit, queries=kept)


@dataclass(frozen=True)
class RunOptions:
    """What a user may choose of a run apart from its plan.

    `device` takes the place of the plan's. `insist`: an OpenCL device that is missing or fails is
    an error, and not a fallback to the CPU. With `adaptive` trees change when the stream does.
    `partial` limits the partial matches that a query holds.
    """

    device: Device | None = None
    insist: bool = False
    adaptive: bool = True
    partial: PartialLimit | None = None
    row_limit: int | None = None  # rows that a query may give
    threads: int | None = None  # of the local engine; one for each processor if none is said
    limits: Limits = field(default_factory=Limits)


DEFAULT_OPTIONS = RunOptions()


@dataclass
class Counts:
    """What was done: pairs of rows that were tried, rows that were made, operators that ran, and
    buffers that were read again."""

    tried: int = 0
    made: int = 0
    ran: int = 0
    reused: int = 0


@dataclass
class RunContext:
    """The state of a run that is no operator's.

    `adaptive` has the trees of the batches before, `ledger` the queries that were stopped at a
    limit, which are left out from then on, and `given` the rows of each query so far. Matches that
    end before the time `since` are given already, and need not be found. Of events that are looked
    at those before the time `until` have come, and others may; None: there are no more.
    """

    options: RunOptions = DEFAULT_OPTIONS
    account: Account = field(default_factory=Account)
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    ledger: Ledger = field(default_factory=Ledger)
    counts: Counts = field(default_factory=Counts)
    given: Counter[str] = field(default_factory=Counter)
    since: int | None = None
    until: int | None = None
    is_whole: bool = False  # are the events that are run over all there are?
    adaptive: AdaptivePlans | None = None  # until trees are chosen on events
    funnels: FunnelTotals | None = None  # of funnels, where other parts have keys of them too

    def adaptive_plans(self) -> AdaptivePlans:
        """The trees of the batches before."""
        from engines.matching.trees.adaptive import AdaptivePlans

        if self.adaptive is None:
            self.adaptive = AdaptivePlans()
        return self.adaptive

    @property
    def decisions(self) -> list[Decision]:
        """What was done about trees, the latest."""
        return [] if self.adaptive is None else list(self.adaptive.decisions)

    @property
    def limits(self) -> Limits:
        return self.options.limits

    def take(self) -> dict[str, Any]:
        """What has been counted and found out since it was last asked, as plain values."""
        found = {
            "account": self.account.totals(),
            "fallbacks": list(self.fallbacks),
            "decisions": [asdict(decision) for decision in self.decisions],
        }
        self.account.clear()
        self.fallbacks.clear()
        if self.adaptive is not None:
            self.adaptive.decisions.clear()
        return found

    def device_of(self, planned: Device) -> DeviceRequest:
        """The device that a unit is to run on."""
        device = self.options.device or planned
        return DeviceRequest(device, self.options.insist, self.fallbacks)
