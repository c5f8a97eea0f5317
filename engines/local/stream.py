"""`SlicedRun`: the units of a program over the slices of a stream.

What a query needs to be exact in a slice depends on its window. One of time reaches back by its
size, and ahead by as much where a match is certain only when its window has closed. One counted in
events reaches back to the last events of each key. Two kinds have no bound: a count window that
slides, or whose matches wait for its closing, as the next event of a key may never come. Those
queries run at the end, over all events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.layout import arrange
from engines.columns.needed import needed_columns
from engines.context import RunContext
from engines.events import Events, from_table
from engines.local.run import run_events
from engines.local.slices import Reach, Slice, appended
from engines.program import Program, Unit
from engines.results import Results, empty_results, joined_results
from optimizer.ir.query import Query
from optimizer.reach import is_unbounded, waits_for_window


@dataclass
class _Ranked:
    """Units of one key and count window, and the events that their next slice reaches back to."""

    program: Program
    key: tuple[str, ...]
    size: int
    carried: Events | None = None

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return f"{self.size} events by {', '.join(self.key)}"


class SlicedRun:
    """Takes the slices of a stream in order and gives the rows that are decided in each.

    `context` has what goes on from slice to slice: trees that changed, and the queries that were
    stopped at a limit, whose rows of earlier slices stand.
    """

    def __init__(self, program: Program, tick: int, context: RunContext | None = None) -> None:
        self._program, self.context = program, context or RunContext()
        timed: dict[Reach, list[Unit]] = {}
        ranked: dict[tuple[tuple[str, ...], int], list[Unit]] = {}
        unbounded: list[Unit] = []
        for unit in program.units:
            first = unit.queries[0]
            if not first.window.is_count:
                timed.setdefault(reach_of(unit.queries, tick), []).append(unit)
            elif any(map(is_unbounded, unit.queries)):
                unbounded.append(unit)
            else:
                ranked.setdefault((first.key, first.window.size), []).append(unit)
        self._timed = {reach: program.only(units) for reach, units in timed.items()}
        self._ranked = [
            _Ranked(program.only(units), key, size) for (key, size), units in ranked.items()
        ]
        self._unbounded = program.only(unbounded)
        self._kept: list[pa.Table] = []

    @property
    def reach(self) -> Reach:
        """What slices must be cut for."""
        return Reach(
            max((reach.back for reach in self._timed), default=1),
            max((reach.ahead for reach in self._timed), default=0),
        )

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries that it runs."""
        return self._program.workload.queries

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The queries that need all events at once."""
        return tuple(query.name for query in self._unbounded.workload.queries)

    def carried(self) -> int:
        """The events that windows counted in events take along to the next slice."""
        sizes = (0 if group.carried is None else len(group.carried) for group in self._ranked)
        return max(sizes, default=0)

    def carried_events(self) -> dict[str, Events]:
        """The same events, by key and window."""
        return {group.name: group.carried for group in self._ranked if group.carried is not None}

    def carry(self, events: Mapping[str, Events]) -> None:
        """Go on with what `carried_events` gave."""
        for group in self._ranked:
            group.carried = events.get(group.name)

    def run(self, piece: Slice) -> Results:
        """The rows that are decided in a slice."""
        if piece.start is None and piece.stop is None:
            self.context.is_whole = True  # nothing comes that trees could change for
            return self._run(self._program, piece.events)
        found = [
            self._decided(self._run(program, piece.reached(reach)), piece)
            for reach, program in self._timed.items()
        ]
        found += [self._run_ranked(group, piece) for group in self._ranked]
        if self._unbounded.units:
            found.append(self._run_unbounded(piece))
        return joined_results([empty_results(piece.events.time_type), *found])

    def _run_ranked(self, group: _Ranked, piece: Slice) -> Results:
        partition = self._program.ids.partition(group.key, True)
        with self.context.account.charge(partition):
            events = piece.own if group.carried is None else appended(group.carried, piece.own)
            group.carried = _last_ranks(events, group.key, group.size)
        return self._decided(self._run(group.program, events), piece)

    def _run_unbounded(self, piece: Slice) -> Results:
        """Keeps the events; with the last slice, runs over all of them."""
        table, workload = piece.own.table, self._unbounded.workload
        self._kept.append(table.select(needed_columns(workload, table.column_names)))
        if piece.stop is not None:
            return empty_results(piece.events.time_type)
        with self.context.account.charge(self._program.ids.scan):
            events = from_table(pa.concat_tables(self._kept), workload.stream)
        self._kept = []
        return self._run(self._unbounded, events)

    def _run(self, program: Program, events: Events) -> Results:
        return run_events(program, events, self.context)

    def _decided(self, results: Results, piece: Slice) -> Results:
        """The rows that are decided in a slice; leaving out the others is the sinks' work."""
        account, aggregates, matches = self.context.account, results.aggregates, results.matches
        if aggregates.num_rows:
            with account.charge("sink-aggregates"):
                aggregates = _within(aggregates, "time", piece)
        if matches.num_rows:
            with account.charge("sink-matches"):
                matches = _within(matches, "end", piece)
        return Results(aggregates, matches)


def reach_of(queries: Sequence[Query], tick: int) -> Reach:
    """What queries with windows in time need of the events before and behind a slice."""
    # Rounded up: a window that is no whole number of ticks is refused when the query runs.
    widths = {query: -(-query.window.size // tick) for query in queries}
    return Reach(
        max(widths.values(), default=1),
        max((width for query, width in widths.items() if waits_for_window(query)), default=0),
    )


def reach_of_program(program: Program, tick: int) -> Reach:
    """What the units of a program whose windows are in time reach of the events around a slice."""
    timed = [q for q in program.workload.queries if not q.window.is_count]
    return reach_of(timed, tick)


def unbounded_queries(queries: Iterable[Query]) -> tuple[str, ...]:
    """The queries that need all events at once, however they are cut."""
    return tuple(query.name for query in queries if is_unbounded(query))


def _within(table: pa.Table, column: str, piece: Slice) -> pa.Table:
    times = table.column(column)
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    ticks: npt.NDArray[np.int64] = times.cast(pa.int64()).to_numpy()
    inside = np.ones(len(ticks), bool)
    if piece.start is not None:
        inside &= ticks >= piece.start
    if piece.stop is not None:
        inside &= ticks < piece.stop
    return table if inside.all() else table.filter(pa.array(inside))


def _last_ranks(events: Events, key: tuple[str, ...], size: int) -> Events:
    """Of each key, the events that a window of `size` with a later event can hold."""
    if not len(events):
        return events
    layout = arrange(events, key, ranked=True, settled=False)
    last = layout.position[layout.starts[1:] - 1]
    rows = np.sort(layout.order[layout.position > last[layout.partition] - size])
    return Events(
        events.table.take(pa.array(rows)),
        events.ticks[rows],
        None if events.sequence is None else events.sequence[rows],
        events.tick,
        events.time_type,
        events.time_column,
    )
