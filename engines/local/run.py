"""`run_events`: the units of a program over columns of events.

Counting units are counted (`engines.counting`), tree units joined (`engines.trees`), stepwise ones
bound one component after the other (`engines.joins`). Where the events do not allow what a unit
plans, its queries construct their matches in another way, and the run says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from engines.columns.arranged import Arranged
from engines.columns.instances import Columns
from engines.columns.keys import KeyTexts
from engines.columns.layout import arrange
from engines.context import RunContext
from engines.counting.rows import counted_rows
from engines.errors import named_error
from engines.events import Events
from engines.joins.aggregates import Found, aggregate_rows
from engines.joins.matches import match_rows
from engines.joins.scan import Scan
from engines.program import CountingUnit, Program, StepwiseUnit, TreeUnit
from engines.results import Results, aggregate_schema, match_schema
from engines.trees import tree_tables
from optimizer.engines import counting_engine
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Aggregation, Construction, Query
from optimizer.trees.refusal import refusal
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.syntax import All


def run_events(program: Program, events: Events, context: RunContext | None = None) -> Results:
    """All results of a program, in no particular order.

    `context` has what the batches before have left, where these events are one of several.
    """
    run = _Run(program, events, context or RunContext())
    aggregates = [aggregate_schema(events.time_type).empty_table()]
    matches = [match_schema(events.time_type).empty_table()]
    if len(events):
        for query, table in run.tables():
            (matches if isinstance(query.output, Construction) else aggregates).append(table)
        run.count_symbols()
    return Results(pa.concat_tables(aggregates), pa.concat_tables(matches))


@dataclass
class _Run:
    program: Program
    events: Events
    context: RunContext
    arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged] = field(default_factory=dict)

    def __post_init__(self) -> None:
        account, operator = self.context.account, self.program.conditions
        self.columns = Columns(self.program.workload, self.events, account, operator)

    def tables(self) -> Iterable[tuple[Query, pa.Table]]:
        """The rows of every query that is not stopped."""
        stopped = self.context.ledger.stopped
        counting = [unit for unit in self.program.units if isinstance(unit, CountingUnit)]
        trees = [unit for unit in self.program.units if isinstance(unit, TreeUnit)]
        stepwise = [unit for unit in self.program.units if isinstance(unit, StepwiseUnit)]
        for unit in counting:
            tables, left = self._count(unit)
            yield from tables
            for query in left:
                if refusal(query) is None:
                    trees.append(TreeUnit((query,), None, unit.device))
                else:
                    stepwise.append(StepwiseUnit((query,)))
        constructing = [
            replace(unit, queries=kept)
            for unit in trees
            if (kept := tuple(q for q in unit.queries if q.name not in stopped))
        ]
        detected = tree_tables(
            constructing, self.columns, self.program, self.context, self._aggregate
        )
        for query in (query for unit in constructing for query in unit.queries):
            if query.name in detected:
                yield query, detected[query.name]
            elif query.name not in stopped:
                stepwise.append(StepwiseUnit((query,)))
        for query in (query for unit in stepwise for query in unit.queries):
            if query.name not in stopped:
                yield query, self._bind(query)

    def _count(self, unit: CountingUnit) -> tuple[list[tuple[Query, pa.Table]], list[Query]]:
        """The rows of a unit's queries, and those of them that these events keep from counting."""
        device = self.context.device_of(unit.device)
        on_cpu = device.device == "cpu"
        if not on_cpu and device.device not in counting_engine(unit.engine).DEVICES:
            self.context.fallbacks.add(
                f"{_names(unit.queries)}: {unit.engine} has no kernel for {device.device}: "
                "computing on the CPU instead"
            )
            device = replace(device, device="cpu")
        able: list[Query] = []
        left: list[Query] = []
        for query in unit.queries:
            why = self._no_numbers(query)
            (able if why is None else left).append(query)
            if why is not None:
                self.context.fallbacks.add(f"{query.name}: constructs its matches: {why}")
        if not able:
            return [], left
        unit = replace(unit, queries=tuple(able))
        try:
            tables = counted_rows(
                unit,
                self._arranged(able[0]),
                device,
                self.context.account,
                self.program.outputs,
            )
        except UnsupportedError as error:
            raise named_error(error, able[0].name) from error
        if tables is None:
            for query in able:
                self.context.fallbacks.add(
                    f"{query.name}: constructs its matches: these events cannot be counted by "
                    f"{unit.engine} (too many combinations of symbols at one time, or an AND over "
                    "simultaneous events)"
                )
            return [], [*left, *able]
        return list(zip(able, tables, strict=True)), left

    def _no_numbers(self, query: Query) -> str | None:
        """Why its aggregates cannot be counted: they are not of finite numbers.

        Constructing its matches says what is wrong with a text, and tells an infinite minimum from
        none.
        """
        assert isinstance(query.output, Aggregation)
        read = [item.operand for item in query.output.items if item.operand is not None]
        names = {operand.name for operand in read}
        if query.output.having is not None:
            names |= ex.attributes(query.output.having)
        for name in sorted(names):
            vector = self.columns.vector(name)
            if vector.kind == "float" and np.isinf(vector.values).any():
                return f"'{name}' has an infinite value"
            if vector.kind not in ("int", "bool", "null", "float"):
                return f"'{name}' is not a number"
        return None

    def _arranged(self, query: Query) -> Arranged:
        # Only ALL puts simultaneous events into one group, whose order then shows.
        settled = any(isinstance(e.quantifier, All) for e in components(query.pattern))
        place = (query.key, query.window.is_count, settled)
        if place not in self.arrangements:
            account = self.context.account
            operator = self.program.ids.partition(query.key, query.window.is_count)
            with account.charge(operator):
                layout = arrange(self.events, *place)
            account.count(operator, len(self.events), len(layout))
            self.arrangements[place] = Arranged(layout, self.columns)
        return self.arrangements[place]

    def _bind(self, query: Query) -> pa.Table:
        """The rows of a query whose components are bound one after the other."""
        account, operator = self.context.account, self.program.ids.stepwise(query)
        try:
            with account.charge(operator):
                table = self._table(query)
        except UnsupportedError as error:
            raise named_error(error, query.name) from error
        symbols = dict.fromkeys(event.symbol for event in components(query.pattern))
        read = sum(self.columns.counts.get(symbol, 0) for symbol in symbols)
        account.count(operator, read, table.num_rows)
        account.count(self.program.outputs[query.name], table.num_rows, table.num_rows)
        return table

    def _aggregate(self, query: Query, found: Iterable[Found]) -> pa.Table:
        """The rows of a query from its matches."""
        return self._table(query, found)

    def _table(self, query: Query, found: Iterable[Found] | None = None) -> pa.Table:
        arranged = self._arranged(query)
        width = query.window.ticks(self.events.tick)
        scan = Scan(arranged, width, query.name, self.context.limits)
        keys = KeyTexts(self.events, arranged.layout, query.key)
        if isinstance(query.output, Construction):
            return match_rows(query, scan, keys)
        return aggregate_rows(query, scan, keys, found)

    def count_symbols(self) -> None:
        """Count the events that were tested, and those of each symbol."""
        account, ids, number = self.context.account, self.program.ids, len(self.events)
        account.count(self.program.conditions, number, number)
        for symbol, instances in self.columns.counts.items():
            account.count(ids.symbol(symbol), number, instances)


def _names(queries: Iterable[Query]) -> str:
    return ", ".join(query.name for query in queries)
