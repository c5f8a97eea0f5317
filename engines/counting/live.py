"""Aggregate queries counted batch by batch, with a state that can be saved between any two.

The state is what the window still holds: of each key the groups of events that a later window can
reach, as the symbols they are instances of and the values that are aggregated. It knows nothing of
counters, so it is the same for every engine, device and plan. As an Arrow table it has one row for
each key.

Where an engine has a form that goes on (`engines.counting.kept`), its counters are kept from batch
to batch, as a cache of the state. Else, and in the first batch behind a restart, the plan's engine
makes the counters of the keys that a batch brings news of anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.layout import ArrangedEvents
from engines.counting import runs
from engines.counting.chopconnect import connected_rows
from engines.counting.joint_tables import JointTables
from engines.counting.kept import KeptCounters, KeptPlaces, KeptUnit
from engines.counting.kept_units import can_keep
from engines.counting.letters import (
    CountBounds,
    CountingPlan,
    CountResult,
    LetterGroups,
    RelevantEvents,
    counted,
    counted_by_query,
    joined_queries,
    nothing,
    spans_of,
    spoken,
    with_letters,
)
from engines.counting.live_state import (
    NEVER,
    LiveCounterState,
    by_key,
    by_time,
    int32,
    lists,
    small,
    strings,
)
from engines.counting.panes import pane_counts
from engines.counting.pretree import tree_rows
from engines.counting.product import (
    CompiledTables,
    needs_floats,
    parts_of,
    room_for,
    run_product,
)
from engines.counting.rows import ResultColumns, Selected, result_tables
from engines.counting.sem import start_rows, window_spans
from engines.device_kernels import DeviceKernels
from engines.devices import DeviceRequest
from engines.limits import StateError
from engines.program import CountingUnit, RunContext
from engines.results.json_text import KeyTexts
from kernels.groups import Groups, ResultRows
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.automaton import Symbols
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query
from workloads.errors import TooLargeError

Int64s = npt.NDArray[np.int64]
STATE_VERSION = b"2"
_PATIENCE = 16  # batches until counters that could not be kept are tried again


class _Counter:
    """A unit that counts over the state, with tables that are kept while its letters stay."""

    def __init__(self, unit: CountingUnit, inputs: Mapping[InputColumn, int], tick: int) -> None:
        self.spans = spans_of(unit.queries, tick)
        self.unit, self.compiled = unit, CompiledTables()
        self.plan = CountingPlan(unit.queries, inputs)
        self._bounds, self.symbols = CountBounds(self.plan), frozenset(self.plan.symbols)
        self.joint = JointTables(unit.queries)

    def read(self, new: RelevantEvents) -> int:
        """How many events of a batch it speaks of."""
        sizes = np.bincount(new.codes, minlength=len(new.sets))
        return sum(int(n) for n, s in zip(sizes, new.sets, strict=True) if s & self.symbols)

    def count(self, prepared: LetterGroups, batch: _Arrived, device: DeviceRequest) -> CountResult:
        """The rows that no earlier batch has given."""
        plan, unit, spans = self.plan, self.unit, self.spans
        bits = self._bounds.of_groups(prepared, spans)
        dual = needs_floats(bits)
        match unit.engine:
            case "runs" if runs.fits(plan, prepared):
                begun, since = batch.begun, batch.since
                return runs.counted_runs(plan, prepared, None, begun, since, spans, False)
            case "product" | "runs":
                return self._product(prepared, batch, bits, device)
            case "panes":
                return self._panes(prepared, batch)
            case "aseq":
                rows = tree_rows(plan, prepared, spans, dual, None)
            case "pretree":
                rows = tree_rows(plan, prepared, spans, dual)
            case "sem":
                rows = start_rows(plan, prepared, window_spans(spans), dual)
            case "chopconnect":
                rows = connected_rows(plan, prepared, spans, dual, unit.lengths)
            case _:
                raise AssertionError(f"{unit.engine} has no state of symbols")
        run = batch.group_run[rows.group]
        new = np.where(
            spans.slide[rows.query] > 0,
            rows.boundary > batch.since[run],
            rows.group >= batch.run[run] + batch.begun[run],
        )
        return counted(prepared, None, ResultRows(*(column[new] if len(column) else column
                                              for column in rows)), dual)  # fmt: skip

    def _panes(self, prepared: LetterGroups, batch: _Arrived) -> CountResult:
        widths, slides = (numbers.tolist() for numbers in self.spans)
        found = pane_counts(self.plan, prepared, None, widths, slides)
        return found.where(found.boundary > batch.since[batch.group_run[found.group]])

    def _product(
        self,
        prepared: LetterGroups,
        batch: _Arrived,
        bits: npt.NDArray[np.float64],
        device: DeviceRequest,
    ) -> CountResult:
        plan, kernels, dual = self.plan, DeviceKernels(device), needs_floats(bits)
        found = []
        room = room_for(plan, prepared, batch.since, self.spans, self.compiled)
        for part in parts_of(room):
            start, rows = run_product(
                plan,
                prepared,
                part,
                batch.begun,
                batch.since,
                self.spans,
                bits,
                room,
                self.compiled,
                kernels,
            )
            found.append(counted_by_query(prepared, None, start, rows, dual))
        return found[0] if len(found) == 1 else joined_queries(found)


class LiveCounter:
    """Units of one key, with windows in time or in events, counted over one state.

    Batches come in the order of time, and events of one time in one batch.
    """

    def __init__(
        self, units: Sequence[CountingUnit], tick: int, context: RunContext | None = None
    ) -> None:
        self.queries = tuple(query for unit in units for query in unit.queries)
        self._is_count = self.queries[0].window.is_count
        spans = spans_of(self.queries, tick)
        self._width = spans.widest
        self._slides = [int(slide) for slide in np.unique(spans.slide) if slide]
        self._plan = CountingPlan(self.queries)
        self._reach: dict[Symbol, int] = {}  # how long an event of each symbol is needed
        for machines, width in zip(self._plan.machines, spans.width.tolist(), strict=True):
            for symbol in {s for machine in machines for s in machine.symbols}:
                self._reach[symbol] = max(width, self._reach.get(symbol, 0))
        self._counters = [_Counter(unit, self._plan.inputs, tick) for unit in units]
        self._context = context or RunContext()
        self._keeping, self._others = self._counters[:0], self._counters
        if not self._is_count:
            self._keeping = [c for c in self._counters if can_keep(c.plan)]
            self._others = [c for c in self._counters if c not in self._keeping]
        pairs = {tuple(pair) for c in self._keeping for pair in np.stack(c.spans, 1).tolist()}
        self._windows = len(pairs)  # with slides: what is kept by itself
        self.clear()

    def clear(self) -> None:
        """Start afresh."""
        self._kept: KeptCounters | None = None
        self._wait = 1  # batches before counters are kept: a saved state may go on elsewhere
        self._since = NEVER  # the last time that rows have been given for, where counters are kept
        none = np.zeros(0, np.int64)
        start = np.zeros(1, np.int64)
        inputs = np.zeros((len(self._plan.inputs), 0))
        keys = pa.array([], pa.string())
        self._state = LiveCounterState(keys, none, none, none, start, none, start, none, inputs, ())

    @property
    def inputs(self) -> Iterable[InputColumn]:
        """What its queries aggregate."""
        return self._plan.inputs

    @property
    def state(self) -> LiveCounterState:
        """What is left of earlier batches."""
        if self._kept is None or self._others:
            return self._state
        state = self._kept.state()
        held = self._held(state.sets, state.codes, np.append(0, np.cumsum(state.sizes)))
        return by_key(state.where(state.position + held > self._since), self._since)

    @property
    def held(self) -> int:
        """How many events the state holds; maybe also some that only narrower windows speak of."""
        return len(self._state.codes) if self._kept is None or self._others else self._kept.held

    @property
    def is_empty(self) -> bool:
        """Is nothing left of earlier batches?"""
        return not (self.held if self._kept is not None else len(self._state))

    @property
    def memory_bytes(self) -> int:
        """How many bytes `memory` takes, about."""
        return 64 * len(self._state.codes) + (0 if self._kept is None else self._kept.nbytes)

    def memory(self) -> tuple[Any, ...]:
        """All that it holds, for `recall`; it is not to be used any further until then."""
        return self._state, self._kept, self._since, self._wait

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Go on with what `memory` gave, in the same process and with the same queries."""
        self._state, self._kept, self._since, self._wait = memory

    @property
    def due(self) -> int | None:
        """The first time that may give rows, or let go of all state, if no further event comes."""
        if self._is_count or not self.held:
            return None
        if self._kept is not None and not self._others:
            gone, since = (self._kept.last or self._since) + self._width, self._since
        else:
            s = self._state
            gone = int((s.position + self._held(s.sets, s.codes, s.event)).max())
            since = int(s.since.min())
        return min([gone, *((since // slide + 1) * slide for slide in self._slides)])

    def add(
        self, arranged: ArrangedEvents, until: int | None, outputs: Mapping[str, str] | None = None
    ) -> list[tuple[tuple[Query, ...], pa.Table]]:
        """The rows that are certain once all events up to `until` have come, and whose they are.

        None means that no more will come. A table is of one query where their rows are limited.
        `outputs` are the operators that rows are charged to.
        """
        account = self._context.account
        found: list[tuple[_Counter, CountResult, ResultColumns]] = []
        with account.charge(self._counters[0].unit.operator):
            new = spoken(self._plan, arranged.columns, arranged.layout)
            kept = self._going_on(new, arranged, until)
        if kept is not None:
            found += ((c, *rows) for c, rows in zip(self._keeping, kept, strict=True))
        anew = self._counters if kept is None else self._others
        if anew:
            with account.charge(anew[0].unit.operator):
                batch = _Arrived(self._state, new, arranged, self.queries[0].key, self._is_count)
            limit = self._limit(batch, until)
            for counter in anew:
                with account.charge(counter.unit.operator):
                    rows = self._count(counter, batch, limit)
                found.append((counter, rows, _Places(batch, rows, self._is_count)))
            self._state = batch.left(self._held(batch.sets, batch.codes, batch.event), limit)
            self._wait = max(self._wait - 1, 0)
        tables: list[tuple[tuple[Query, ...], pa.Table]] = []
        is_limited = self._context.options.row_limit is not None
        for counter, rows, places in found:
            account.count(counter.unit.operator, counter.read(new), len(rows.group))
            given = (rows, places, account, outputs)
            if is_limited:
                found_rows = result_tables(counter.unit.queries, *given)
                tables += (((query,), table) for query, table in found_rows)
            else:
                tables += counter.joint.tables(*given)
        return tables

    def _going_on(
        self, new: RelevantEvents, arranged: ArrangedEvents, until: int | None
    ) -> list[tuple[CountResult, KeptPlaces]] | None:
        """The rows by counters that are kept; None where they have to be made anew."""
        if not self._keeping or not self._on_cpu():
            return None
        # Where much is new, one go over all events takes no longer, and all windows share it.
        is_little = len(new.codes) * self._windows <= self.held
        if self._kept is None and not self._wait and is_little:
            self._since = int(self._state.since.max(initial=NEVER))
            units = [KeptUnit(c.plan, c.unit, c.spans, c.compiled) for c in self._keeping]
            self._kept = KeptCounters.of(units, by_time(self._state), self._since)
            self._wait = _PATIENCE
        kept = self._kept
        if kept is None:
            return None
        if until is None:
            last = self._since if kept.last is None else kept.last
            until = int(arranged.layout.ticks.max(initial=last)) + self._width
        found = None
        if is_little:
            key, account = self.queries[0].key, self._context.account
            found = kept.add(new, arranged, key, self._since, until, account)
        if found is None:
            # As if they had not been: the state is what it was before these events.
            self._state, self._kept, self._wait = self.state, None, 1
        else:
            self._since = until
        return found

    def _on_cpu(self) -> bool:
        return all(
            self._context.device_of(counter.unit.device).device == "cpu"
            for counter in self._keeping
        )

    def _held(self, sets: Sequence[Symbols], codes: Int64s, event: Int64s) -> Int64s:
        """For how long each group is needed: as long as the widest window that speaks of it."""
        reach = np.array([max(map(self._reach.__getitem__, s), default=0) for s in sets], np.int64)
        held = np.zeros(len(event) - 1, np.int64)
        if len(held):
            held = np.maximum.reduceat(reach[codes], event[:-1])
        return held

    def save(self) -> pa.Table:
        """The state, a row for each key."""
        s = self.state
        runs, events = int32(s.run), int32(s.event[s.run])
        inputs = {
            f"input_{i}": pa.ListArray.from_arrays(events, pa.array(values))
            for i, values in enumerate(s.inputs)
        }
        numbers = {
            "events": s.events,
            "last": s.last,
            "since": s.since,
            "position": s.position,
            "size": np.diff(s.event),
            "code": s.codes,
        }
        least = {name: int(values.min()) if len(values) else 0 for name, values in numbers.items()}
        columns = {name: small(values, least[name]) for name, values in numbers.items()}
        for name, pointers in (("position", runs), ("size", runs), ("code", events)):
            columns[name] = pa.ListArray.from_arrays(pointers, columns[name])
        names = [sorted(map(str, symbols)) for symbols in s.sets]
        about = {
            "version": STATE_VERSION,
            "sets": json.dumps(names),
            "inputs": json.dumps(self._inputs),
            "least": json.dumps(least),
        }
        return pa.table({"key": s.keys, **columns, **inputs}).replace_schema_metadata(about)

    def restore(self, table: pa.Table) -> None:
        """Go on with a saved state, of these queries or of others over the same key and window.

        What the state does not know, a query that was not there or a value that was not aggregated,
        counts from here on.
        """
        about = table.schema.metadata or {}
        if about.get(b"version") != STATE_VERSION:
            raise StateError(
                f"the state has version {about.get(b'version')!r}, and this Sheaf reads "
                f"{STATE_VERSION!r}; start afresh, or go on with the Sheaf that wrote it"
            )
        known = {str(symbol): symbol for symbol in self._plan.symbols}
        names = json.loads(about[b"sets"])
        sets = tuple(frozenset(known[n] for n in found if n in known) for found in names)
        table = table.combine_chunks()

        least = json.loads(about[b"least"])

        def whole(column: str) -> Int64s:
            values: Int64s = table.column(column).to_numpy().astype(np.int64) + least[column]
            return values

        def flat(column: str) -> Int64s:
            values: Int64s = lists(table, column).flatten().to_numpy().astype(np.int64)
            values += least[column]
            return values

        sizes = flat("size")
        kept = json.loads(about[b"inputs"])
        codes = flat("code")
        inputs = np.full((len(self._inputs), len(codes)), np.nan)
        for i, name in enumerate(self._inputs):
            if name in kept:
                inputs[i] = lists(table, f"input_{kept.index(name)}").flatten().to_numpy()
        self.clear()
        self._state = LiveCounterState(
            strings(table.column("key")),
            whole("events"),
            whole("last"),
            whole("since"),
            lists(table, "position").offsets.to_numpy().astype(np.int64),
            flat("position"),
            np.append(0, np.cumsum(sizes)),
            codes,
            inputs,
            sets,
        )

    @property
    def _inputs(self) -> list[str]:
        return list(map(str, self._plan.inputs))

    def _count(self, counter: _Counter, batch: _Arrived, limit: Int64s) -> CountResult:
        plan = counter.plan
        # Of what the state holds for all counters, the symbols that this one speaks of.
        sets = [symbols & counter.symbols for symbols in batch.sets]
        named = with_letters(plan, batch.codes, sets, batch.event)
        if named is None:
            raise TooLargeError(
                "too many different sets of symbols occur at one time to be counted batch by "
                "batch; run over all events at once"
            )
        letters, stay_letter, move_letter = named
        groups = Groups(
            run=batch.run,
            limit=limit,
            position=batch.position,
            stay_letter=stay_letter,
            event=batch.event,
            move_letter=move_letter,
            inputs=batch.inputs,
        )
        prepared = LetterGroups(len(plan.queries), batch.last_row, groups, letters)
        if not len(groups.position):
            return nothing(plan)
        unit = counter.unit
        device = self._context.device_of(unit.device)
        return counter.count(prepared, batch, device)

    def _limit(self, batch: _Arrived, until: int | None) -> Int64s:
        """Up to which boundary rows are due, by run."""
        if self._is_count:
            return batch.rank
        if until is not None:
            return np.full(len(batch.run) - 1, until, np.int64)
        return np.full(len(batch.run) - 1, batch.latest + self._width, np.int64)


class _Arrived:
    """A batch appended to what was left of earlier ones: runs of groups, old ones first in each.

    A run is there for every key that is known or new.
    """

    def __init__(
        self,
        state: LiveCounterState,
        new: RelevantEvents,
        arranged: ArrangedEvents,
        key: tuple[str, ...],
        is_count: bool,
    ) -> None:
        layout = arranged.layout
        self.arranged, self._is_count = arranged, is_count
        # Ranks count all events of a key; for times, only keys that queries speak of matter.
        partitions = np.arange(len(layout.starts) - 1) if is_count else _distinct(new.partition)
        texts = KeyTexts(arranged.columns.events, layout, key).of(partitions)
        place = _places(state.keys, texts)
        fresh = place < 0
        place[fresh] = len(state) + np.arange(int(fresh.sum()))
        self.keys = pa.concat_arrays([state.keys, texts.filter(pa.array(fresh))])
        self.partition_run = np.full(len(layout.starts) - 1, -1, np.int64)
        self.partition_run[partitions] = place
        self.run_partition = np.full(len(self.keys), -1, np.int64)
        self.run_partition[place] = partitions
        grown = len(self.keys) - len(state)
        self.before = np.append(state.events, np.zeros(grown, np.int64))
        self.last = np.append(state.last, np.full(grown, NEVER, np.int64))
        self.since = np.append(state.since, np.full(grown, NEVER, np.int64))
        ends = layout.starts[partitions + 1]
        self.events = self.before.copy()
        self.events[place] += ends - layout.starts[partitions]
        self.rank = np.maximum(self.since, 0)
        position = new.position
        if is_count:
            self.rank[place] = layout.position[ends - 1] + self.before[place]
            position = position + self.before[self.partition_run[new.partition]]
        self.latest = int(layout.ticks.max(initial=NEVER))
        if not is_count:
            self.latest = max(self.latest, int(state.position.max(initial=NEVER)))
        self.last_before = self.last.copy()
        self.last[place] = layout.ticks[ends - 1]
        self._append(state, new, position)

    def _append(self, state: LiveCounterState, new: RelevantEvents, position: Int64s) -> None:
        old_run = np.repeat(np.arange(len(state)), np.diff(state.run))
        run = np.append(old_run, self.partition_run[new.partition])
        # Numbers of 16 bits are sorted by their bits.
        is_short = len(self.keys) < 2**16
        order = np.argsort(run.astype(np.uint16) if is_short else run, kind="stable")
        sizes = np.append(np.diff(state.event), np.diff(new.event))[order]
        starts = np.append(state.event[:-1], new.event[:-1] + len(state.codes))[order]
        self.event = np.append(0, np.cumsum(sizes))
        events = np.repeat(starts - self.event[:-1], sizes) + np.arange(int(self.event[-1]))
        sets = list(state.sets)
        numbers = {symbols: i for i, symbols in enumerate(sets)}
        for symbols in new.sets:
            if symbols not in numbers:
                numbers[symbols] = len(sets)
                sets.append(symbols)
        self.sets = tuple(sets)
        renumbered = [numbers[symbols] for symbols in new.sets]
        codes = np.array(renumbered, np.int64)[new.codes] if len(renumbered) else new.codes
        self.codes = np.append(state.codes, codes)[events]
        self.inputs = np.append(state.inputs, new.inputs, axis=1)[:, events]
        self.position = np.append(state.position, position)[order]
        self.run = np.searchsorted(run[order], np.arange(len(self.keys) + 1))
        self.begun = np.append(np.diff(state.run), np.zeros(len(self.keys) - len(state), np.int64))
        self.group_run = run[order]
        # The last layout row of each group; those of earlier batches have none.
        last = np.append(np.full(len(old_run), -1), new.used[new.event[1:] - 1])[order]
        self.last_row = np.repeat(last, sizes)

    def left(self, held: Int64s, since: Int64s) -> LiveCounterState:
        """What later windows can reach: the groups that are not yet held for as long as needed."""
        kept = self.position + held > since[self.group_run]
        runs = np.bincount(self.group_run[kept], minlength=len(self.keys))
        # A key that holds nothing is forgotten, unless its ranks go on.
        stays = np.ones(len(runs), bool) if self._is_count else runs > 0
        sizes = np.diff(self.event)
        events = np.repeat(kept, sizes)
        return LiveCounterState(
            self.keys.filter(pa.array(stays)),
            self.events[stays],
            self.last[stays],
            since[stays],
            np.append(0, np.cumsum(runs[stays])),
            self.position[kept],
            np.append(0, np.cumsum(sizes[kept])),
            self.codes[events],
            self.inputs[:, events],
            self.sets,
        )


class _Places:
    """Key, time and sequence of results: of this batch's events, or of boundaries."""

    def __init__(self, batch: _Arrived, counted: CountResult, is_count: bool) -> None:
        self.columns = batch.arranged.columns
        self._batch, self._counted, self._is_count = batch, counted, is_count

    def key(self, rows: Selected) -> pa.Array:
        group = self._counted.group[rows]
        return self._batch.keys.take(pa.array(self._batch.group_run[group]))

    def time(self, rows: Selected, query: Query) -> pa.Array:
        events, layout = self.columns.events, self._batch.arranged.layout
        counted, batch = self._counted, self._batch
        if query.slide is None:
            return events.times(layout.ticks[counted.last[counted.group[rows]]])
        if not self._is_count:
            return events.times(counted.boundary[rows])
        run = batch.group_run[counted.group[rows]]
        partition = batch.run_partition[run]
        here = counted.boundary[rows] - batch.before[run]
        row = layout.rows_until(partition, here) - 1
        # The last event up to the boundary may be one of an earlier batch.
        earlier = row < layout.starts[partition]
        ticks = np.where(earlier, batch.last_before[run], layout.ticks[np.maximum(row, 0)])
        return events.times(ticks)

    def seq(self, rows: Selected, query: Query) -> pa.Array:
        sequence = self.columns.events.sequence
        group = self._counted.group[rows]
        if sequence is None or query.slide is not None:
            return pa.nulls(len(group), pa.int64())
        return pa.array(sequence[self._batch.arranged.layout.order[self._counted.last[group]]])


def _distinct(ordered: Int64s) -> Int64s:
    """Each number of those that are in order, once."""
    found: Int64s = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def _places(known: pa.Array, keys: pa.Array) -> Int64s:
    """Where each key stands among the known ones; -1 where it does not."""
    if pa.types.is_string(keys.type) and keys.null_count:  # the one run of a stream without a key
        return np.zeros(len(keys), np.int64) if len(known) else np.full(len(keys), -1, np.int64)
    found = pc.fill_null(pc.index_in(keys, value_set=known), -1)
    places: Int64s = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places
