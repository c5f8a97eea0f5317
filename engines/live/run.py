"""Queries over events that keep coming, and the generations of them that a change of queries
leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.counting.letters import CountingPlan, wanted_values
from engines.counting.live import LiveCounter
from engines.input.event_table import Events
from engines.limits import STOPPED_TOO, StateError, row_limit_reason
from engines.live.kept_events import KeptEvents, by_wait
from engines.live.state_bytes import from_bytes, to_bytes
from engines.local.run import within_limit
from engines.local.slices import between
from engines.program import DEFAULT_OPTIONS, CountingUnit, Program, RunContext, RunOptions, Unit
from engines.results.chunks import AggregateChunk, RowChunk, collected
from engines.results.tables import Results, empty_results, joined_results
from engines.statistics.running import RunningStatistics
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.produced import chained_names
from optimizer.ir.query import Query
from workloads.errors import UnsupportedError


@dataclass(frozen=True)
class Generation:
    """A program, and the time behind which its stream begins; None: with its first event."""

    program: Program
    since: int | None = None


class StateSize(NamedTuple):
    """What a state holds: events, and bytes."""

    events: int
    bytes: int


class LiveRun:
    """Takes batches in the order of time; events of one time come in one batch.

    After `save` another `LiveRun`, of the same queries, can go on with what it gave. Events up to
    the time `since` are none of its queries': for them the stream begins behind it. `gathered`
    gets to see all events, and has their statistics.
    """

    def __init__(
        self,
        program: Program,
        tick: int,
        context: RunContext | None = None,
        since: int | None = None,
        gathered: RunningStatistics | None = None,
    ) -> None:
        self._tick, self._since = tick, since
        self._workload, self.context = program.workload, context or RunContext()
        self._gathered = gathered
        groups: dict[Hashable, list[CountingUnit]] = {}
        rest: list[Unit] = []
        chained = chained_names(program.workload.queries)
        unchained = [q.name for q in program.workload.queries if q.name not in chained]
        # Who makes events for others, or reads such, keeps the events of the stream instead.
        rest += program.of_queries(chained).units
        # What counts reads the stream's own events, which lack what others make.
        self._program = program.of_queries(unchained) if chained else program
        for unit in self._program.units:
            if isinstance(unit, CountingUnit) and continues(unit):
                first = unit.queries[0]
                groups.setdefault((first.key, first.window.is_count), []).append(unit)
            else:
                rest.append(unit)
        self._counted = {
            _name(units[0].queries[0]): LiveCounter(units, tick, self.context)
            for units in groups.values()
        }
        self._kept = by_wait(program.only(rest), tick, self.context)
        self._bytes: dict[str, int] = {}  # by group, as last saved

    @property
    def _states(self) -> tuple[LiveCounter | KeptEvents, ...]:
        return (*self._counted.values(), *self._kept.values())

    def add(self, events: Events, until: int | None) -> Results:
        """The rows that are certain once all events up to `until` have come; None: no more will."""
        if self._since is not None:
            events = between(events, self._since + 1, None)
        if self._gathered is not None:
            self._gathered.add(events)
        found = [empty_results(events.time_type)]
        if self._counted:
            chunks = within_limit(self._count(events, until), self.context)
            found.append(collected(chunks, events.time_type))
        found += [kept.add(events, until) for kept in self._kept.values()]
        return joined_results(found)

    def _count(self, events: Events, until: int | None) -> Iterator[RowChunk]:
        account = self.context.account
        for program in self._program.separate():
            columns = Columns(program.workload, events, account, program.conditions)
            layouts: dict[tuple[tuple[str, ...], bool], ArrangedEvents] = {}
            names = {query.name for query in program.workload.queries}
            for group in self._counted.values():
                first = group.queries[0]
                if first.name not in names:
                    continue
                _check_finite(group, columns)
                place = (first.key, first.window.is_count)
                if place not in layouts:
                    operator = program.ids.partition(*place)
                    with account.charge(operator):
                        layout = columns.orders.layout(*place, False)
                    account.count(operator, len(events), len(layout))
                    layouts[place] = ArrangedEvents(layout, columns)
                for queries, table in group.add(layouts[place], until, program.outputs):
                    yield AggregateChunk(queries[0].name, table)
            if layouts:
                account.count(program.conditions, len(events), len(events))
            for symbol, instances in columns.counts.items():
                account.count(program.ids.symbol(symbol), len(events), instances)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The queries that have one state together, by the name of the first of them."""
        found = [tuple(query.name for query in state.queries) for state in self._states]
        return {names[0]: names for names in found}

    @property
    def held(self) -> dict[str, StateSize]:
        """What the state of each group holds, by the group's first query; bytes as last saved."""
        sizes = [(f"counted/{n}", g.queries, g.held) for n, g in self._counted.items()]
        sizes += [(f"kept/{n}", k.queries, k.number) for n, k in self._kept.items()]
        return {
            queries[0].name: StateSize(events, self._bytes.get(name, 0))
            for name, queries, events in sizes
        }

    @property
    def is_empty(self) -> bool:
        """Nothing is held, so that going on is the same as starting afresh."""
        return all(state.is_empty for state in self._states)

    @property
    def due(self) -> int | None:
        """The first time that may give rows, or let go of state, if no further event comes."""
        times = (state.due for state in self._states)
        return min((time for time in times if time is not None), default=None)

    def save(self) -> bytes:
        """The whole state."""
        tables = {f"counted/{name}": group.save() for name, group in self._counted.items()}
        about: dict[str, Any] = {"tick": self._tick, "kept": {}}
        for wait, kept in self._kept.items():
            own, about["kept"][wait] = kept.save()
            tables |= {f"kept/{wait}/{name}": table for name, table in own.items()}
        blob, sizes = to_bytes(tables, about)
        self._bytes = {}
        for name, size in sizes.items():
            group = "/".join(name.split("/", 2)[:2])
            self._bytes[group] = self._bytes.get(group, 0) + size
        return blob

    def restore(self, blob: bytes | memoryview) -> None:
        """Go on with a saved state.

        Groups that were not there start afresh: their windows open with the next event. What this
        one held is gone.
        """
        tables, about = from_bytes(blob)
        if about["tick"] != self._tick:
            raise StateError(
                f"the saved state counts time in units of {about['tick']} ns, and the stream now "
                f"in units of {self._tick} ns; start afresh"
            )
        self.clear()
        for name, group in self._counted.items():
            if f"counted/{name}" in tables:
                group.restore(tables[f"counted/{name}"])
        for wait, kept in self._kept.items():
            if wait in about["kept"]:
                place = f"kept/{wait}/"
                own = {n.removeprefix(place): t for n, t in tables.items() if n.startswith(place)}
                kept.restore(own, about["kept"][wait])

    @property
    def memory_bytes(self) -> int:
        """How many bytes `memory` takes, about."""
        counted = sum(group.memory_bytes for group in self._counted.values())
        return counted + sum(kept.nbytes for kept in self._kept.values())

    def memory(self) -> tuple[Any, ...]:
        """All that it holds, counters that are kept too: for `recall` in the same process."""
        return self._bytes, [state.memory() for state in self._states]

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Go on with what `memory` gave."""
        self._bytes, held = memory
        for state, own in zip(self._states, held, strict=True):
            state.recall(own)

    def clear(self) -> None:
        """Start afresh."""
        self._bytes = {}
        for state in self._states:
            state.clear()


def continues(unit: CountingUnit) -> bool:
    """Can a unit be counted from batch to batch over a state of symbols?

    Not by engines whose queries have several windows or compare attributes, nor where simultaneous
    events have to be paired or a key differs by component: these keep their events instead.
    """
    if unit.engine in ("folds", "fenwick") or any(query.added_keys for query in unit.queries):
        return False
    plan = CountingPlan(unit.queries)
    if not plan.is_lasting:
        return False
    return not any(m.has_conjunction for machines in plan.machines for m in machines)


def _name(query: Query) -> str:
    """A name for the state that this query has with others: the same in every process and plan."""
    text = repr((query.key, query.window.is_count))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _check_finite(group: LiveCounter, columns: Columns) -> None:
    for column in group.inputs:
        vector = columns.input(column)
        if vector.kind not in ("int", "bool", "null", "float"):
            raise UnsupportedError(f"{_aggregating(group, column)}, which is not a number")
        if vector.kind == "float" and np.isinf(vector.values).any():
            raise UnsupportedError(
                f"{_aggregating(group, column)}, which has an infinite value; "
                "leave such events out by a condition"
            )


def _aggregating(group: LiveCounter, column: InputColumn) -> str:
    query = next(q for q in group.queries if any(p.column == column for p in wanted_values(q)))
    return f"query {query.name} aggregates '{column}'"


class LiveGenerations:
    """Like `LiveRun`, for several generations; a state is in parts, by the generation's name."""

    def __init__(
        self,
        generations: Mapping[str, Generation],
        tick: int,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.context = RunContext(options)
        self._runs = {
            name: LiveRun(generation.program, tick, self.context, generation.since)
            for name, generation in generations.items()
        }

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The queries that have one state together, by the name of the first of them."""
        return {first: names for run in self._runs.values() for first, names in run.groups.items()}

    @property
    def held(self) -> dict[str, StateSize]:
        """What the state of each group holds, by the group's first query; bytes as last saved."""
        return {name: held for run in self._runs.values() for name, held in run.held.items()}

    @property
    def due(self) -> int | None:
        """The first time that may give rows, or let go of state, if no further event comes."""
        times = (run.due for run in self._runs.values())
        return min((time for time in times if time is not None), default=None)

    def add(self, events: Events, until: int | None) -> Results:
        """The rows that are certain once all events up to `until` have come; None: no more will.

        A limit on rows is for each call: a query that reaches it goes on with the next.
        """
        context, limit = self.context, self.context.options.row_limit
        context.given.clear()
        found = [run.add(events, until) for run in self._runs.values()]
        if limit is not None:
            for name, why in list(context.ledger.stopped.items()):
                if why.endswith(STOPPED_TOO):  # for this call, like what it reads
                    del context.ledger.stopped[name]
            for name in context.given:
                if context.ledger.stopped.get(name) == row_limit_reason(name, limit):
                    del context.ledger.stopped[name]
                    context.fallbacks.add(
                        f"{name}: of a batch, rows beyond the first {limit:,} of a bucket of keys "
                        "are left out (row limit)"
                    )
        return joined_results([empty_results(events.time_type), *found])

    def save(self) -> dict[str, bytes]:
        """The state of each generation that holds anything."""
        return {name: run.save() for name, run in self._runs.items() if not run.is_empty}

    @property
    def memory_bytes(self) -> int:
        """How many bytes `memory` takes, about."""
        return sum(run.memory_bytes for run in self._runs.values())

    def memory(self) -> dict[str, Any]:
        """All that is held, by generation: for `recall` in the same process."""
        return {name: run.memory() for name, run in self._runs.items()}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on with what `memory` gave."""
        for name, run in self._runs.items():
            run.recall(memory[name])

    def restore(self, parts: Mapping[str, bytes | memoryview]) -> None:
        """Go on with a saved state; generations that it has nothing of start afresh."""
        for name, run in self._runs.items():
            if name in parts:
                run.restore(parts[name])
            else:
                run.clear()
