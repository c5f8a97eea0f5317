"""One bucket of keys of a live stream: events wait until their time has passed, then they run.

So events are processed in the order of time whatever order they come in. All that a bucket holds
between two turns is one sequence of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from engines.context import DEFAULT_OPTIONS, RunContext, RunOptions
from engines.events import Events, from_table
from engines.live.blob import from_bytes, joined, parted, to_bytes
from engines.live.bucketing import HOME
from engines.live.generation import Generation
from engines.live.run import Held
from engines.live.runs import LiveGenerations
from engines.local.slices import between
from engines.results import Results, empty_results

_OWN = ""  # the part of a state that is no generation's


@dataclass(frozen=True)
class Turn:
    """What comes of a turn.

    `taken` is how many events the queries were given, and `waiting` how many are not yet theirs.
    `late` are events whose time had passed before they came. `state` is None where nothing is held.
    `due` is the first time that gives rows, or lets go of state, though nothing more arrives.
    """

    results: Results
    late: pa.Table
    taken: int
    waiting: int
    held: Mapping[str, Held]
    state: bytes | None
    due: int | None


@dataclass(frozen=True)
class _Held:
    """What a bucket holds: events that wait, and the state of the queries up to a time."""

    waiting: pa.Table
    until: int | None = None
    live: Mapping[str, bytes | memoryview] = field(default_factory=dict)  # by generation
    due: int | None = None
    held: Mapping[str, Held] = field(default_factory=dict)


class Bucket:
    """Takes turns for any number of buckets with the same queries, each with its own state.

    `schema` has the columns that arrive, in types that `from_table` leaves as they are.
    """

    def __init__(
        self,
        generations: Mapping[str, Generation],
        schema: pa.Schema,
        tick: int,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        first = next(iter(generations.values()))
        self._stream, self._schema = first.program.workload.stream, schema
        self._live = LiveGenerations(generations, tick, options)
        self._time_type = self._events(schema.empty_table()).time_type

    @property
    def context(self) -> RunContext:
        """What all turns have counted and found out."""
        return self._live.context

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The queries that have one state together, by the name of the first of them."""
        return self._live.groups

    def turn(self, state: bytes | None, arrived: Sequence[pa.Table], until: int | None) -> Turn:
        """All events up to the time `until` have come; None: that is known of no time yet."""
        before = self._read(state)
        late = self._schema.empty_table()
        waiting = before.waiting
        if arrived:
            new = self._events(pa.concat_tables(arrived))
            if until is not None:
                late = self._answered_for(between(new, None, until + 1).table)
                new = between(new, until + 1, None)
            waiting = pa.concat_tables([waiting, new.table.select(self._schema.names)])
        events, taken = self._events(waiting), 0
        found = empty_results(self._time_type)
        after = replace(before, waiting=events.table)
        if until is not None and until != before.until:
            ready, events = between(events, None, until + 1), between(events, until + 1, None)
            after = replace(after, waiting=events.table, until=until)
            taken = len(ready)
            if before.live or len(ready):
                self._live.restore(before.live)
                found = self._live.add(ready, until)
                live = self._live.save()
                after = replace(after, live=live, due=self._live.due, held=self._live.held)
        state, due = _written(after), _due(after, events)
        return Turn(found, late, taken, len(events), after.held, state, due)

    def finish(self, state: bytes) -> Turn:
        """The rows that are left: no more events will come."""
        before = self._read(state)
        self._live.restore(before.live)
        left = self._events(before.waiting)
        found = self._live.add(left, None)
        return Turn(found, self._schema.empty_table(), len(left), 0, {}, None, None)

    def _events(self, table: pa.Table) -> Events:
        return from_table(table, self._stream)

    def _answered_for(self, table: pa.Table) -> pa.Table:
        if HOME in table.column_names:
            table = table.filter(table.column(HOME))
        return table.select(self._schema.names)

    def _read(self, state: bytes | None) -> _Held:
        if state is None:
            return _Held(self._schema.empty_table())
        parts = parted(state)
        tables, about = from_bytes(parts.pop(_OWN))
        none = self._schema.empty_table()
        # A column that was of no use to the queries of that time is null in what waited then.
        waiting = pa.concat_tables([none, tables["waiting"]], promote_options="default")
        return _Held(
            waiting.select(none.column_names),
            about["until"],
            parts,
            about["due"],
            {name: Held(*held) for name, held in about["held"].items()},
        )


def _written(after: _Held) -> bytes | None:
    if not after.live and not after.waiting.num_rows:
        return None
    about = {"until": after.until, "due": after.due, "held": dict(after.held)}
    own, _ = to_bytes({"waiting": after.waiting}, about)
    return joined({_OWN: own, **after.live})


def _due(after: _Held, waiting: Events) -> int | None:
    times = [] if after.due is None else [after.due]
    if len(waiting):
        times.append(int(waiting.ticks[0]))
    return min(times, default=None)
