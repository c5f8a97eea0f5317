"""Counters that a live stream keeps between batches: a cache of its state, which is events.

A batch then costs what is new in it, and what leaves the window: groups of all keys stand in the
order of time, and the counters of each window are changed by those that come and go. It is dropped,
and made anew of the state, when anything comes that it does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.account import Account
from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.counting.kept_queue import GroupQueue, NewGroups, QueueLetters
from engines.counting.kept_units import KeptPart, LetteredUnit
from engines.counting.letters import CountingPlan, CountResult, RelevantEvents
from engines.counting.product import CompiledTables
from engines.counting.rows import Selected
from engines.program import CountingUnit
from engines.results.json_text import KeyTexts
from kernels.groups import Spans
from kernels.kept.cpu import BASE, BOUNDARY, END, HEAD, NEXT, PROGRESS, ROWS, KeptRows, TimedGroups
from optimizer.ir.automaton import Symbols
from optimizer.ir.query import Query

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

# Counters are kept where they are not many more than the events they are of: of many keys with few
# events each they are counted anew, which is quick. Keys that never come back are left out then.
_PER_EVENT, _FREE = 8, 2**13
_ROWS_AT_ONCE = 2**12


@dataclass(frozen=True)
class TimedState:
    """The groups that a window holds, in the order of time, and the keys of their runs."""

    keys: pa.Array
    run: Int64s
    position: Int64s
    sizes: Int64s
    codes: Int64s
    inputs: Float64s  # (attribute, event)
    sets: tuple[Symbols, ...]

    def where(self, mask: npt.NDArray[np.bool_]) -> TimedState:
        """Some of the groups."""
        events = np.repeat(mask, self.sizes)
        return replace(
            self,
            run=self.run[mask],
            position=self.position[mask],
            sizes=self.sizes[mask],
            codes=self.codes[events],
            inputs=self.inputs[:, events],
        )


class KeptUnit(NamedTuple):
    """A unit, what is known of its queries, and where its tables are kept."""

    plan: CountingPlan
    unit: CountingUnit
    spans: Spans
    compiled: CompiledTables


@dataclass
class KeptPlaces:
    """Key, time and sequence of results, a row each."""

    columns: Columns
    keys: pa.Array
    run: Int64s
    ticks: Int64s
    last: Int64s  # rows of the table; -1 where there is none

    def key(self, rows: Selected) -> pa.Array:
        return self.keys.take(pa.array(self.run[rows]))

    def time(self, rows: Selected, query: Query) -> pa.Array:
        return self.columns.events.times(self.ticks[rows])

    def seq(self, rows: Selected, query: Query) -> pa.Array:
        sequence, last = self.columns.events.sequence, self.last[rows]
        if sequence is None or query.slide is not None:
            return pa.nulls(len(last), pa.int64())
        return pa.array(sequence[last])


class KeptCounters:
    """The groups of the widest window in the order of time, and what units keep of them.

    For windows in time, and queries of which each `can_keep` holds.
    """

    def __init__(self, units: Sequence[KeptUnit]) -> None:
        self._units = [LetteredUnit(*unit) for unit in units]
        self._width = max(unit.spans.widest for unit in units)
        self._queue = GroupQueue(len(units), len(units[0].plan.inputs))
        self._runs: dict[str | None, int] = {}
        self._keys = pa.array([], pa.string())
        self._sets: list[Symbols] = []
        self._numbers: dict[Symbols, int] = {}
        self._held = np.zeros(0, np.int64)  # events in the window, by set
        self._by_run = np.zeros(0, np.int64)  # and by run

    @staticmethod
    def of(units: Sequence[KeptUnit], state: TimedState, since: int) -> KeptCounters | None:
        """What is kept of a state; None where that does not pay, or counts might pass 2^62."""
        kept = KeptCounters(units)
        kept._keys = state.keys
        kept._runs = {key: run for run, key in enumerate(state.keys.to_pylist())}
        event = np.append(0, np.cumsum(state.sizes))
        codes = kept._coded(state.codes, state.sets)
        arrived = NewGroups(state.run, state.position, event, codes, state.inputs)
        if not kept._arrive(arrived, _PER_EVENT // 2):
            return None
        for unit, letters in zip(kept._units, kept._queue.letters, strict=True):
            for part in unit.parts:
                groups, progress = kept._given(part, letters)
                part.advance(groups, progress, since, True, _rows(len(unit.plan.queries), 0))
                part.head = kept._queue.base + int(progress[HEAD])
        kept._let_go(since)
        return kept

    def _pays(self, events: int, most: int) -> bool:
        """Are there at most so many counters for each event?"""
        counters = sum(part.size(len(self._keys)) for u in self._units for part in u.parts)
        return counters <= most * (self._queue.held + events + _FREE)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes, about."""
        counters = sum(part.nbytes for unit in self._units for part in unit.parts)
        return counters + self._queue.nbytes + 200 * len(self._runs)

    @property
    def held(self) -> int:
        """How many events the window holds."""
        return self._queue.held

    @property
    def last(self) -> int | None:
        """The time of the last event in the window."""
        queue = self._queue
        return int(queue.position[queue.stop - 1]) if queue.stop > queue.start else None

    def state(self) -> TimedState:
        """What the window holds."""
        queue = self._queue
        groups = slice(queue.start, queue.stop)
        event = queue.event[queue.start : queue.stop + 1]
        codes = queue.codes[event[0] : event[-1]]
        return TimedState(
            self._keys,
            queue.run[groups].copy(),
            queue.position[groups].copy(),
            np.diff(event),
            codes.copy(),
            queue.inputs[:, event[0] : event[-1]].copy(),
            tuple(self._sets),
        )

    def add(
        self, new: RelevantEvents, arranged: ArrangedEvents, key: tuple[str, ...], since: int,
        limit: int, account: Account,
    ) -> list[tuple[CountResult, KeptPlaces]] | None:  # fmt: skip
        """The rows of each unit's queries; None where it cannot go on: it is not to be used then,
        but its state is what it was.

        `since` is the last time that rows have been given for, and `limit` the one up to which they
        are due now.
        """
        runs = self._runs_of(new, arranged, key)
        codes = self._coded(new.codes, new.sets)
        order = np.argsort(new.position, kind="stable") if key else np.arange(len(new.position))
        sizes = np.diff(new.event)[order]
        event = np.append(0, np.cumsum(sizes))
        inputs = new.inputs
        if key:
            events = np.repeat(new.event[:-1][order] - event[:-1], sizes) + np.arange(len(codes))
            codes, inputs = codes[events], inputs[:, events]
        arrived = NewGroups(runs[order], new.position[order], event, codes, inputs)
        if not self._arrive(arrived, _PER_EVENT):
            return None
        last = arranged.layout.order[new.used[new.event[1:] - 1][order]]
        found = []
        for unit, letters in zip(self._units, self._queue.letters, strict=True):
            with account.charge(unit.unit.operator):
                rows = [
                    self._advanced(part, unit.plan.most_values, letters, since, limit, last)
                    for part in unit.parts
                ]
                found.append(self._result(unit, rows, arranged.columns))
        self._let_go(limit)
        return found

    def _let_go(self, limit: int) -> None:
        """Of groups that no window reaches any more."""
        run, codes = self._queue.arrived(limit - self._width)
        self._held -= np.bincount(codes, minlength=len(self._sets))
        self._by_run -= np.bincount(run, minlength=len(self._by_run))

    def _advanced(
        self, part: KeptPart, values: int, letters: QueueLetters, since: int, limit: int,
        last: Int64s,
    ) -> list[npt.NDArray[Any]]:  # fmt: skip
        """The query, run, tick, last row, boundary, count and values of each row of a part."""
        queue = self._queue
        groups, progress = self._given(part, letters)
        if part.slide:
            progress[BOUNDARY] = (since // part.slide + 1) * part.slide
        made: list[KeptRows] = []
        room = max(_ROWS_AT_ONCE, 2 * part.most_rows(len(self._keys)))
        done = False
        while not done:
            out = _rows(room, values)
            done = part.advance(groups, progress, limit, False, out)
            made.append(KeptRows(*(column[: progress[ROWS]] for column in out)))
        part.head = queue.base + int(progress[HEAD])
        rows = made[0]
        if len(made) > 1:
            rows = KeptRows(*(np.concatenate(columns) for columns in zip(*made, strict=True)))
        if part.slide:
            none = np.full(len(rows.place), -1, np.int64)
            return [rows.query, rows.place, rows.boundary, none, rows.boundary, rows.counts,
                    rows.values]  # fmt: skip
        place = rows.place
        ticks = queue.position[place]
        own = last[place - queue.fresh]
        return [rows.query, queue.run[place], ticks, own, rows.boundary, rows.counts,
                rows.values]  # fmt: skip

    def _result(
        self, unit: LetteredUnit, parts: list[list[npt.NDArray[Any]]], columns: Columns
    ) -> tuple[CountResult, KeptPlaces]:
        rows = parts[0]
        if len(parts) > 1:
            rows = [np.concatenate(several) for several in zip(*parts, strict=True)]
        many = len(unit.plan.queries)
        ends = np.append(0, np.cumsum(np.bincount(rows[0], minlength=many)))
        if many > 1:
            order = np.argsort(rows[0].astype(np.uint16 if many < 2**16 else np.int64),
                               kind="stable")  # fmt: skip
            rows = [column[order] for column in rows]
        _, run, ticks, last, boundary, numbers, values = rows
        counts = numbers.view(np.uint64)
        result = CountResult(
            ends,
            np.arange(len(run)),
            last,
            boundary,
            counts,
            counts.astype(np.float64),
            np.ones(len(counts), bool),
            values,
        )
        return result, KeptPlaces(columns, self._keys, run, ticks, last)

    def _given(self, part: KeptPart, letters: QueueLetters) -> tuple[TimedGroups, Int64s]:
        queue, progress = self._queue, np.zeros(PROGRESS, np.int64)
        head = max(part.head - queue.base, queue.start)
        progress[HEAD], progress[NEXT], progress[END] = head, queue.fresh, queue.stop
        progress[BASE] = queue.base
        groups = TimedGroups(
            queue.run, queue.position, queue.event, letters.stay, letters.move, queue.inputs
        )
        return groups, progress

    def _arrive(self, new: NewGroups, most_counters: int) -> bool:
        """Put groups behind those that are there; False where that cannot be, or does not pay."""
        codes, event = new.codes, new.event
        self._held += np.bincount(codes, minlength=len(self._sets))
        grown = np.zeros(len(self._keys), np.int64)
        grown[: len(self._by_run)] = self._by_run
        self._by_run = grown
        self._by_run += np.bincount(np.repeat(new.run, np.diff(event)), minlength=len(grown))
        most = int(self._by_run.max(initial=0))
        letters = []
        for unit in self._units:
            found = unit.lettered(codes, self._sets, event)
            if found is None or unit.may_overflow(self._held, self._sets, most):
                return False
            if not all(part.fits(unit.letters) for part in unit.parts):
                return False
            letters.append(found)
            for part in unit.parts:
                part.compile(unit.letters)
        if not self._pays(len(codes), most_counters):
            return False
        for part in (part for unit in self._units for part in unit.parts):
            part.make_room(len(self._keys), len(new.position))
        self._queue.append(new, letters)
        return True

    def _coded(self, codes: Int64s, sets: Sequence[Symbols]) -> Int64s:
        """Codes of a batch as those of all batches."""
        for symbols in sets:
            if symbols not in self._numbers:
                self._numbers[symbols] = len(self._sets)
                self._sets.append(symbols)
        if len(self._held) < len(self._sets):
            self._held = np.append(
                self._held, np.zeros(len(self._sets) - len(self._held), np.int64)
            )
        if not len(codes):
            return codes
        found: Int64s = np.array([self._numbers[symbols] for symbols in sets], np.int64)[codes]
        return found

    def _runs_of(
        self, new: RelevantEvents, arranged: ArrangedEvents, key: tuple[str, ...]
    ) -> Int64s:
        """The run of each group; keys that are new get one."""
        if not key:
            if not len(self._keys):
                self._keys = pa.nulls(1, pa.string())
            return np.zeros(len(new.position), np.int64)
        if not len(new.partition):
            return new.partition
        changes = np.append(True, new.partition[1:] != new.partition[:-1])
        partitions = new.partition[changes]
        texts = KeyTexts(arranged.columns.events, arranged.layout, key).of(partitions)
        runs, fresh = self._runs, []
        found = []
        for text in texts.to_pylist():
            run = runs.get(text)
            if run is None:
                run = runs[text] = len(runs)
                fresh.append(text)
            found.append(run)
        if fresh:
            self._keys = pa.concat_arrays([self._keys, pa.array(fresh, pa.string())])
        by_group: Int64s = np.array(found, np.int64)[np.cumsum(changes) - 1]
        return by_group


def _rows(room: int, values: int) -> KeptRows:
    return KeptRows(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
        np.empty((room, values)),
    )
