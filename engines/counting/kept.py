"""Counters that a live stream keeps between batches: a cache of its state, which is events.

A batch then costs what is new in it, and what leaves the window: groups of all keys stand in the
order of time, and the counters of the window are changed by those that come and go. It is dropped,
and made anew of the state, when other letters come that change what counters there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.layout import ArrangedEvents
from engines.counting.kept_queue import GroupQueue, QueueLetters
from engines.counting.kept_units import LetteredUnit
from engines.counting.letters import CountingPlan, CountResult, RelevantEvents
from engines.counting.rows import Selected
from engines.program import CountingUnit
from engines.results.json_text import KeyTexts
from kernels.kept.cpu import BOUNDARY, END, HEAD, NEXT, PROGRESS, ROWS, KeptRows, TimedGroups
from optimizer.ir.automaton import Symbols

Int64s = npt.NDArray[np.int64]

# Counters are kept where they are not many more than the events they are of: of many keys with few
# events each they are counted anew, which is quick.
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
    sets: tuple[Symbols, ...]


class KeptCounters:
    """The groups of a window in the order of time, and what units keep of them.

    For a window in time, and queries of which each `can_keep` holds.
    """

    def __init__(
        self, units: Sequence[tuple[CountingPlan, CountingUnit]], width: int, slide: int
    ) -> None:
        self._width, self._slide = width, slide
        self._units = [LetteredUnit(plan, unit, width, slide) for plan, unit in units]
        self._queue = GroupQueue(len(units))
        self._runs: dict[str | None, int] = {}
        self._keys = pa.array([], pa.string())
        self._sets: list[Symbols] = []
        self._numbers: dict[Symbols, int] = {}
        self._held = np.zeros(0, np.int64)  # events in the window, by set

    @staticmethod
    def of(
        units: Sequence[tuple[CountingPlan, CountingUnit]],
        width: int,
        slide: int,
        state: TimedState,
        since: int,
    ) -> KeptCounters | None:
        """What is kept of a state; None where that does not pay, or counts might pass 2^62."""
        kept = KeptCounters(units, width, slide)
        kept._keys = state.keys
        kept._runs = {key: run for run, key in enumerate(state.keys.to_pylist())}
        event = np.append(0, np.cumsum(state.sizes))
        codes = kept._coded(state.codes, state.sets)
        if not kept._arrive(state.run, state.position, event, codes):
            return None
        if not kept._pays(_PER_EVENT // 2):
            return None
        for unit, letters in zip(kept._units, kept._queue.letters, strict=True):
            for part in unit.parts:
                out = _rows(len(unit.plan.queries))
                part.advance(*kept._given(letters), since, True, out)
        kept._queue.arrived(since - width)
        return kept

    def _pays(self, most: int) -> bool:
        counters = sum(part.size(len(self._keys)) for u in self._units for part in u.parts)
        return counters <= most * (self._queue.held + _FREE)

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
            tuple(self._sets),
        )

    def add(
        self, new: RelevantEvents, arranged: ArrangedEvents, key: tuple[str, ...], since: int,
        limit: int,
    ) -> list[CountResult] | None:  # fmt: skip
        """The rows of each unit's queries; None where it cannot go on: nothing has happened then.

        `since` is the last time that rows have been given for, and `limit` the one up to which they
        are due now.
        """
        runs = self._runs_of(new, arranged, key)
        codes = self._coded(new.codes, new.sets)
        order = np.argsort(new.position, kind="stable") if key else np.arange(len(new.position))
        sizes = np.diff(new.event)[order]
        event = np.append(0, np.cumsum(sizes))
        if key:
            starts = np.repeat(new.event[:-1][order] - event[:-1], sizes)
            codes = codes[starts + np.arange(len(codes))]
        if not self._arrive(runs[order], new.position[order], event, codes):
            return None
        if not self._pays(_PER_EVENT):
            self._queue.take_back()
            return None
        self.last_row = new.used[new.event[1:] - 1][order]
        boundary = (since // self._slide + 1) * self._slide if self._slide else 0
        self.first = self._queue.fresh
        found = [
            self._advanced(unit, letters, boundary, limit)
            for unit, letters in zip(self._units, self._queue.letters, strict=True)
        ]
        gone = self._queue.arrived(limit - self._width)
        self._held -= np.bincount(gone, minlength=len(self._sets))
        return found

    def _advanced(
        self, unit: LetteredUnit, letters: QueueLetters, boundary: int, limit: int
    ) -> CountResult:
        rows: list[KeptRows] = []
        for part in unit.parts:
            groups, progress = self._given(letters)
            progress[BOUNDARY] = boundary
            most = len(unit.plan.queries) * (len(self._keys) if self._slide else 1)
            done = False
            while not done:
                out = _rows(max(_ROWS_AT_ONCE, 2 * most))
                done = part.advance(groups, progress, limit, False, out)
                rows.append(KeptRows(*(column[: progress[ROWS]] for column in out)))
        return self._result(unit, rows)

    def _result(self, unit: LetteredUnit, parts: list[KeptRows]) -> CountResult:
        rows = parts[0]
        if len(parts) > 1:
            rows = KeptRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        many = len(unit.plan.queries)
        ends = np.append(0, np.cumsum(np.bincount(rows.query, minlength=many)))
        place, boundary, counts = rows.place, rows.boundary, rows.counts
        if many > 1:
            order = np.argsort(rows.query.astype(np.uint16), kind="stable")
            place, boundary, counts = place[order], boundary[order], counts[order]
        return CountResult(
            ends,
            place,
            place,
            boundary,
            counts,
            counts.astype(np.float64),
            np.ones(len(counts), bool),
            np.empty((len(counts), unit.plan.most_values)),
        )

    def _given(self, letters: QueueLetters) -> tuple[TimedGroups, Int64s]:
        queue, progress = self._queue, np.zeros(PROGRESS, np.int64)
        progress[HEAD], progress[NEXT], progress[END] = queue.start, queue.fresh, queue.stop
        groups = TimedGroups(queue.run, queue.position, queue.event, letters.stay, letters.move)
        return groups, progress

    def _arrive(self, run: Int64s, position: Int64s, event: Int64s, codes: Int64s) -> bool:
        """Put groups behind those that are there; False where that cannot be."""
        self._held += np.bincount(codes, minlength=len(self._sets))
        letters = []
        for unit in self._units:
            found = unit.lettered(codes, self._sets, event)
            if found is None or unit.may_overflow(self._held, self._sets):
                return False
            if not all(part.fits(unit.letters) for part in unit.parts):
                return False
            letters.append(found)
        for unit in self._units:
            for part in unit.parts:
                part.prepare(unit.letters, len(self._keys), len(position))
        self._queue.append(run, position, event, codes, letters)
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

    def places(self, arranged: ArrangedEvents, counted: CountResult) -> KeptPlaces:
        """Key, time and sequence of the rows of the last batch."""
        return KeptPlaces(arranged, counted, self, bool(self._slide))

    def run_of(self, places: Int64s) -> Int64s:
        """The runs of groups."""
        found: Int64s = self._queue.run[places]
        return found

    def position_of(self, places: Int64s) -> Int64s:
        """The times of groups."""
        found: Int64s = self._queue.position[places]
        return found

    @property
    def keys(self) -> pa.Array:
        """The key of each run."""
        return self._keys


class KeptPlaces:
    """Key, time and sequence of results."""

    def __init__(
        self, arranged: ArrangedEvents, counted: CountResult, kept: KeptCounters, by_slide: bool
    ) -> None:
        self.columns = arranged.columns
        self._arranged, self._counted, self._kept = arranged, counted, kept
        self._by_slide = by_slide

    def key(self, rows: Selected) -> pa.Array:
        place = self._counted.group[rows]
        run = place if self._by_slide else self._kept.run_of(place)
        return self._kept.keys.take(pa.array(run))

    def time(self, rows: Selected) -> pa.Array:
        events = self.columns.events
        if self._by_slide:
            return events.times(self._counted.boundary[rows])
        return events.times(self._kept.position_of(self._counted.group[rows]))

    def seq(self, rows: Selected) -> pa.Array:
        sequence, place = self.columns.events.sequence, self._counted.group[rows]
        if sequence is None or self._by_slide:
            return pa.nulls(len(place), pa.int64())
        last = self._kept.last_row[place - self._kept.first]
        return pa.array(sequence[self._arranged.layout.order[last]])


def _rows(room: int) -> KeptRows:
    return KeptRows(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
    )
