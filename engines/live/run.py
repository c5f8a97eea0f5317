"""Queries over events that keep coming, and the generations of them that a change of queries
leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.counting.letters import CountingPlan, wanted_values
from engines.counting.live import LiveCounter
from engines.input.batches import needed_columns
from engines.input.event_table import Events, from_table
from engines.limits import STOPPED_TOO, StateError, row_limit_reason
from engines.live.state_bytes import from_bytes, to_bytes
from engines.local.news import of_symbols
from engines.local.run import SlicedRun, within_limit
from engines.local.slices import Slice, appended, between
from engines.program import DEFAULT_OPTIONS, CountingUnit, Program, RunContext, RunOptions, Unit
from engines.results.chunks import AggregateChunk, RowChunk, collected
from engines.results.tables import Results, empty_results, joined_results
from engines.statistics.running import RunningStatistics
from optimizer.ir.pattern import events as components
from optimizer.ir.produced import chained_names
from optimizer.ir.query import BoundWorkload, Query, is_cut_by_time, is_unbounded, unbounded_reason
from workloads.errors import UnsupportedError


@dataclass(frozen=True)
class Generation:
    """A program, and the time behind which its stream begins; None: with its first event."""

    program: Program
    since: int | None = None


_PIECES = 4  # of a table
_REST = "matches"  # the group of all queries that are not counted


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
        self._program, self._tick, self._since = program, tick, since
        self._workload, self.context = program.workload, context or RunContext()
        self._gathered = gathered
        groups: dict[Hashable, list[CountingUnit]] = {}
        rest: list[Unit] = []
        chained = chained_names(program.workload.queries)
        unchained = [q.name for q in program.workload.queries if q.name not in chained]
        # Who makes events for others, or reads such, keeps the events of the stream instead.
        rest += program.of_queries(chained).units
        for unit in program.of_queries(unchained).units if chained else program.units:
            if isinstance(unit, CountingUnit) and continues(unit):
                first = unit.queries[0]
                groups.setdefault((first.key, first.window.is_count), []).append(unit)
            else:
                rest.append(unit)
        self._counted = {
            _name(units[0].queries[0]): LiveCounter(units, tick, self.context)
            for units in groups.values()
        }
        self._rest = program.only(rest)
        asked = self._rest.workload.of_stream
        self._asked = self._rest.over(asked)
        self._symbols = {e.symbol for q in asked.queries for e in components(q.pattern)}
        self._sliced = SlicedRun(self._rest, tick, self.context)
        if self._sliced.unbounded:
            raise _unbounded_error(self._rest.workload, self._sliced.unbounded)
        self._has_rest = bool(rest)
        self._bytes: dict[str, int] = {}  # by group, as last saved
        self._kept: Events | None = None
        self._start: int | None = None  # matches that end before are given

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
        if self._has_rest:
            found.append(self._add_rest(events, until))
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
                _check_finite(group.queries, columns)
                place = (first.key, first.window.is_count)
                if place not in layouts:
                    operator = program.ids.partition(*place)
                    with account.charge(operator):
                        layout = columns.orders.layout(*place, False)
                    account.count(operator, len(events), len(layout))
                    layouts[place] = ArrangedEvents(layout, columns)
                for query, table in group.add(layouts[place], until, program.outputs):
                    yield AggregateChunk(query.name, table)
            if layouts:
                account.count(program.conditions, len(events), len(events))
            for symbol, instances in columns.counts.items():
                account.count(program.ids.symbol(symbol), len(events), instances)

    def _add_rest(self, events: Events, until: int | None) -> Results:
        if self._sliced.is_timed:
            events = of_symbols(self._asked, events, self._symbols, self.context.account)
        kept = events if self._kept is None else appended(self._kept, events)
        reach = self._sliced.reach
        if until is None:
            self._kept = None
            return self._sliced.run(Slice(kept, self._start, None))
        stop = until + 1 - reach.ahead
        if self._start is not None and stop <= self._start:
            self._kept = kept
            return empty_results(events.time_type)
        found = self._sliced.run(Slice(between(kept, None, stop + reach.ahead), self._start, stop))
        self._start = stop
        self._kept = _in_few_pieces(between(kept, stop - reach.back + 1, None))
        return found

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The queries that have one state together, by the name of the first of them."""
        found = [tuple(q.name for q in group.queries) for group in self._counted.values()]
        found.append(tuple(query.name for query in self._sliced.queries))
        return {names[0]: names for names in found if names}

    @property
    def held(self) -> dict[str, StateSize]:
        """What the state of each group holds, by the group's first query; bytes as last saved."""
        sizes = {
            group.queries[0].name: StateSize(group.held, self._bytes.get(name, 0))
            for name, group in self._counted.items()
        }
        if self._has_rest:
            carried = sum(map(len, self._sliced.carried_events().values()))
            events = carried + (0 if self._kept is None else len(self._kept))
            sizes[self._sliced.queries[0].name] = StateSize(events, self._bytes.get(_REST, 0))
        return sizes

    @property
    def is_empty(self) -> bool:
        """Nothing is held, so that going on is the same as starting afresh."""
        if not all(group.is_empty for group in self._counted.values()):
            return False
        return not self._kept and not self._sliced.carried_events()

    @property
    def due(self) -> int | None:
        """The first time that may give rows, or let go of state, if no further event comes."""
        times = [group.due for group in self._counted.values()] + [self._rest_due()]
        if self._start is not None:
            times.append(self._sliced.due(self._start))
        return min((time for time in times if time is not None), default=None)

    def _rest_due(self) -> int | None:
        if not self._kept:
            return None
        reach, ticks = self._sliced.reach, self._kept.ticks
        # Then all that is kept is out of reach.
        due = int(ticks[-1]) + reach.back + reach.ahead - 1
        if self._start is None:
            return due
        undecided = int(np.searchsorted(ticks, self._start))
        if undecided < len(ticks):
            due = min(due, int(ticks[undecided]) + reach.ahead)
        for query in self._sliced.queries:
            if query.slide is not None:
                slide = max(query.slide // self._tick, 1)
                due = min(due, -(-self._start // slide) * slide + reach.ahead)
        return due

    def save(self) -> bytes:
        """The whole state."""
        tables = {f"counted/{name}": group.save() for name, group in self._counted.items()}
        if self._kept is not None:
            tables["kept"] = self._trimmed(self._kept.table)
        for name, events in self._sliced.carried_events().items():
            tables[f"carried/{name}"] = self._trimmed(events.table)
        about: dict[str, Any] = {"tick": self._tick, "start": self._start}
        if self._sliced.ends:
            about["ends"] = self._sliced.ends
        blob, sizes = to_bytes(tables, about)
        self._bytes = {name: sizes[f"counted/{name}"] for name in self._counted}
        self._bytes[_REST] = sum(sizes.values()) - sum(self._bytes.values())
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
        self._start = about["start"]
        self._sliced.ends = {
            query: {key: (time, sequence) for key, (time, sequence) in ends.items()}
            for query, ends in about.get("ends", {}).items()
        }
        for name, group in self._counted.items():
            if f"counted/{name}" in tables:
                group.restore(tables[f"counted/{name}"])
        if "kept" in tables and self._has_rest:
            self._kept = from_table(tables["kept"], self._workload.stream)
        self._sliced.carry(
            {
                name.removeprefix("carried/"): from_table(table, self._workload.stream)
                for name, table in tables.items()
                if name.startswith("carried/")
            }
        )

    @property
    def memory_bytes(self) -> int:
        """How many bytes `memory` takes, about."""
        held = [*self._sliced.carried_events().values()]
        held += [] if self._kept is None else [self._kept]
        kept = sum(int(events.table.nbytes) for events in held)
        return kept + sum(group.memory_bytes for group in self._counted.values())

    def memory(self) -> tuple[Any, ...]:
        """All that it holds, counters that are kept too: for `recall` in the same process."""
        counted = [group.memory() for group in self._counted.values()]
        carried, ends = self._sliced.carried_events(), self._sliced.ends
        return self._start, self._kept, self._bytes, counted, carried, deepcopy(ends)

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Go on with what `memory` gave."""
        self._start, self._kept, self._bytes, counted, carried, ends = memory
        self._sliced.ends = ends
        for group, held in zip(self._counted.values(), counted, strict=True):
            group.recall(held)
        self._sliced.carry(carried)

    def clear(self) -> None:
        """Start afresh."""
        self._start, self._kept, self._bytes = None, None, {}
        self._sliced.ends = {}
        for group in self._counted.values():
            group.clear()
        self._sliced.carry({})

    def _trimmed(self, table: pa.Table) -> pa.Table:
        return table.select(needed_columns(self._workload, table.column_names))


def _unbounded_error(workload: BoundWorkload, names: Sequence[str]) -> UnsupportedError:
    """That a query needs all events at once, and why."""
    queries = [workload.query(name) for name in names]
    for query in queries:
        if is_unbounded(query):
            return UnsupportedError(
                f"query {query.name} cannot run over a live stream: {unbounded_reason(query)}"
            )
    # A chain of which some query is cut by something else than time.
    other = next(q for q in queries if not is_cut_by_time(q) or q.skips_past)
    return UnsupportedError(
        f"query {other.name} cannot run over a live stream: it makes events for other queries, or "
        "reads such, and no stretch of time bounds what its matches depend on (situations, windows "
        "counted in events, AFTER MATCH SKIP PAST LAST EVENT); leave INTO out, or run it over "
        "stored events, with 'sheaf run'"
    )


def _in_few_pieces(events: Events) -> Events:
    """The same events; each batch adds a piece, and each piece takes its time with every batch."""
    if not events.table.num_columns or events.table.column(0).num_chunks <= _PIECES:
        return events
    return replace(events, table=events.table.combine_chunks())


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


def _check_finite(queries: Sequence[Query], columns: Columns) -> None:
    for query in queries:
        for part in wanted_values(query):
            vector = columns.input(part.column)
            if vector.kind not in ("int", "bool", "null", "float"):
                raise UnsupportedError(
                    f"query {query.name} aggregates '{part.column}', which is not a number"
                )
            if vector.kind == "float" and np.isinf(vector.values).any():
                raise UnsupportedError(
                    f"query {query.name} aggregates '{part.column}', which has an infinite value; "
                    "leave such events out by a condition"
                )


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
