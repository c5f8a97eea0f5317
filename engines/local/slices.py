"""A stream cut into slices of time, each with as much of its neighbours as queries can reach.

A row of the result belongs to the slice in which it is decided: an aggregate's by its time, a
match's by its last event. So it comes exactly once, and is what it would be over the whole stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engines.counting.folds import keeps_table_order
from engines.input.batches import Batch, FileSource
from engines.input.event_table import Events, from_table
from engines.input.lateness import Lateness, allowed_lateness
from engines.input.query_columns import named_columns, needed_columns
from engines.program import CountingUnit, Program
from optimizer.cost.stages import SLICE_EVENTS
from optimizer.ir.query import BoundWorkload, Query, waits_for_window
from workloads.workload import Stream

if TYPE_CHECKING:
    from engines.execution import EventSource, Execution

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library


@dataclass(frozen=True)
class SliceReach:
    """How far queries look: from `start - back`, exclusive, to before `stop + ahead`."""

    back: int = 1
    ahead: int = 0


def reach_of(queries: Sequence[Query], tick: int) -> SliceReach:
    """What queries with windows in time need of the events before and behind a slice."""
    # Rounded up: a window that is no whole number of ticks is refused when the query runs.
    widths = {query: -(-query.window.size // tick) for query in queries}
    return SliceReach(
        max(widths.values(), default=1),
        max((width for query, width in widths.items() if waits_for_window(query)), default=0),
    )


@dataclass(frozen=True, eq=False)
class Slice:
    """The events that the rows decided from `start` to before `stop` can depend on.

    None stands for the beginning and for the end of the stream.
    """

    events: Events
    start: int | None
    stop: int | None

    @property
    def own(self) -> Events:
        """The events of the slice itself."""
        return between(self.events, self.start, self.stop)

    def rows(self, reach: SliceReach) -> tuple[int, int]:
        """Its rows within a reach, which may be shorter than the one it was cut for."""
        start = None if self.start is None else self.start - reach.back + 1
        stop = None if self.stop is None else self.stop + reach.ahead
        return rows_of(self.events, start, stop)


# Half as many as the cost of slices is figured with, whatever the number of threads: two that run
# at once hold as much as one of that size, and sums of doubles are the same in their last digit.
RUN_SLICE_EVENTS = SLICE_EVENTS // 2
# Of folds alone, which hold little more than the columns that they read; their sums are exact.
FOLDED_SLICE_EVENTS = 2 * SLICE_EVENTS


LARGE_SLICE = 4  # times what is asked for


@dataclass(frozen=True)
class SliceSize:
    """How a stream is cut: into slices of `rows` events, and into one if it has no more.

    With `grow` a slice has no fewer events than are carried over to it from those before, so that
    at least half of the work is new.
    """

    rows: int = SLICE_EVENTS
    grow: bool = True


def cut(
    batches: Iterator[Batch],
    schema: pa.Schema,
    stream: Stream,
    lateness: Lateness,
    reach: SliceReach,
    slicing: SliceSize,
    carried: Callable[[], int] = lambda: 0,
) -> Iterator[Slice]:
    """Slices of a stream, in order; `schema` is that of the batches.

    `carried` tells how many events are carried over to the next slice besides those in its reach.
    """
    first: list[Batch] = []
    count = 0
    for batch in batches:
        first.append(batch)
        count += len(batch)
        if count > slicing.rows:
            break
    else:
        kept = lateness.all_on_time(first) if lateness.strict else first
        tables = [schema.empty_table(), *(batch.table for batch in kept)]
        yield Slice(from_table(pa.concat_tables(tables), stream), None, None)
        return
    arriving = lateness.all_on_time(chain(first, batches))
    del first, batch
    cutter = Cutter(from_table(schema.empty_table(), stream), stream, reach, slicing, carried)
    for batch in arriving:
        yield from cutter.add(batch, lateness.complete)
    yield from cutter.finish()


class Cutter:
    """Holds the events that are not yet in a slice, and those that the next slice reaches.

    Slices are of the time from `start` to before `stop`; it is then to be given what they reach
    before and behind that too.
    """

    def __init__(
        self,
        none: Events,
        stream: Stream,
        reach: SliceReach,
        slicing: SliceSize,
        carried: Callable[[], int],
        start: int | None = None,
        stop: int | None = None,
    ) -> None:
        self._stream, self._reach = stream, reach
        self._slicing, self._carried = slicing, carried
        self._events = none
        self._start, self._stop = start, stop
        self._waiting: list[pa.Table] = []  # in the order of arrival
        self._number = 0
        self._wanted = slicing.rows

    def add(self, batch: Batch, complete: int) -> Iterator[Slice]:
        """Take events; gives the slices of which none can come any more.

        All events before the time `complete` have been taken.
        """
        self._waiting.append(batch.table)
        self._number += len(batch)
        if self._number < self._wanted:
            return
        self._sort()
        until = complete - self._reach.ahead
        yield from self._cut(self._before(until))
        # What could not be cut yet is sorted again with more: only when that is worth it.
        self._wanted = self._least(len(self._events))

    def finish(self) -> Iterator[Slice]:
        """The slices that are left; without a `stop` the last goes on for ever."""
        self._sort()
        yield from self._cut(self._before(None))
        if self._stop is None or self._start != self._stop:
            yield Slice(self._events, self._start, self._stop)

    def _before(self, time: int | None) -> int:
        """The first row that is not before a time and the end."""
        known = [bound for bound in (time, self._stop) if bound is not None]
        ticks = self._events.ticks
        return int(np.searchsorted(ticks, min(known))) if known else len(ticks)

    def _least(self, held: int) -> int:
        """The events that a slice must have to be worth it."""
        rows = self._slicing.rows
        return max(rows, held, self._carried()) if self._slicing.grow else rows

    def _first(self) -> int:
        """The events that a slice must have that has none before it.

        Where all of them would be carried over to the next one, it is cut only when it is large:
        later ones become as large as what they carry, and what is carried is run over again.
        """
        rows, ticks = self._least(0), self._events.ticks
        if not self._slicing.grow:
            return rows
        past = int(np.searchsorted(ticks, ticks[0] + self._reach.back)) + 1
        return max(rows, min(past, LARGE_SLICE * rows))

    def _sort(self) -> None:
        if self._waiting:
            new = from_table(pa.concat_tables(self._waiting), self._stream)
            if _follow(self._events, new):
                self._events = appended(self._events, new)
            else:
                self._events = from_table(_concatenated(self._events, new), self._stream)
            self._waiting, self._number = [], 0

    def _cut(self, end: int) -> Iterator[Slice]:
        """Slices of the events before the row `end`, as long as they fill one."""
        while True:
            events = self._events
            begin = 0 if self._start is None else int(np.searchsorted(events.ticks, self._start))
            wanted = self._least(begin) if begin or not end else self._first()
            if end - begin < wanted:
                return
            stop = int(events.ticks[begin + wanted - 1]) + 1
            yield Slice(between(events, None, stop + self._reach.ahead), self._start, stop)
            self._start = stop
            self._events = between(events, stop - self._reach.back + 1, None)
            end -= len(events) - len(self._events)


def give_back_memory() -> None:
    """Return to the system what a slice has left: both allocators keep it for the next one."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


def between(events: Events, start: int | None, stop: int | None) -> Events:
    """The events from a time to before another."""
    return rows_between(events, *rows_of(events, start, stop))


def rows_of(events: Events, start: int | None, stop: int | None) -> tuple[int, int]:
    """The first row from a time on, and the first that is not before another."""
    low = 0 if start is None else int(np.searchsorted(events.ticks, start))
    high = len(events) if stop is None else int(np.searchsorted(events.ticks, stop))
    return low, max(low, high)


def rows_between(events: Events, low: int, high: int) -> Events:
    """The events from a row to before another."""
    if low == 0 and high == len(events):
        return events
    return Events(
        events.table.slice(low, high - low),
        events.ticks[low:high],
        None if events.sequence is None else events.sequence[low:high],
        events.tick,
        events.time_type,
        events.time_column,
        events.ignores_missing,
    )


def _follow(first: Events, second: Events) -> bool:
    """Do all of the second come after those of the first, or with the last of them?"""
    if not len(first) or not len(second):
        return True
    last, next_ = int(first.ticks[-1]), int(second.ticks[0])
    if last == next_ and first.sequence is not None and second.sequence is not None:
        return bool(first.sequence[-1] <= second.sequence[0])
    return last <= next_


def appended(first: Events, second: Events) -> Events:
    """Events, and others that come after them."""
    sequence = None
    if first.sequence is not None and second.sequence is not None:
        sequence = np.concatenate([first.sequence, second.sequence])
    return Events(
        _concatenated(first, second),
        np.concatenate([first.ticks, second.ticks]),
        sequence,
        first.tick,
        first.time_type,
        first.time_column,
        first.ignores_missing,
    )


def _concatenated(first: Events, second: Events) -> pa.Table:
    # An unsigned column is one of integers or of doubles, by what its largest value is.
    return pa.concat_tables([first.table, second.table], promote_options="permissive")


def folds_only(program: Program) -> bool:
    """Does a program fold columns, and nothing else, without putting events in order?"""
    return all(
        isinstance(unit, CountingUnit)
        and unit.engine == "folds"
        and keeps_table_order(unit.queries)
        for unit in program.units
    )


def slices_of(
    events: FileSource,
    program: Program,
    read: BoundWorkload,
    source: EventSource,
    execution: Execution,
) -> Callable[[Any], Iterator[Any]]:
    """What cuts the events of a source into slices; of the columns that queries read."""
    stream = program.workload.stream
    events.assume(named_columns(read))
    columns = needed_columns(read, events.schema.names)
    lateness = allowed_lateness(events, stream, source.disorder)
    schema = events.schema.empty_table().select(columns).schema
    usual = FOLDED_SLICE_EVENTS if folds_only(program) else RUN_SLICE_EVENTS
    slicing = SliceSize(execution.slice_rows or usual)

    def slices(run: Any) -> Iterator[Any]:
        batches = events.batches(columns)
        return cut(batches, schema, stream, lateness, run.reach, slicing, run.carried)

    return slices
