"""`SlicedRun`: the queries of a workload over the slices of a stream.

What a query needs to be exact in a slice depends on its window. One of time reaches back by its
size, and ahead by as much where a match is certain only when its window has closed. One counted in
events reaches back to the last events of each key. Two kinds have no bound: a count window that
slides, or whose matches wait for its closing, as the next event of a key may never come. Those
queries run at the end, over all events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.layout import arrange
from engines.columns.needed import needed_columns
from engines.events import Events, from_table
from engines.how import USUAL, How
from engines.joins.scan import Limits
from engines.local.run import DEFAULT_LIMITS, run_local
from engines.local.slices import Reach, Slice, appended
from engines.partial import Ledger
from engines.results import Results, empty_results, joined_results
from engines.trees.adaptive import Adaptive
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Proj, walk
from optimizer.ir.query import BoundWorkload, Construction, Query
from optimizer.places import waits
from workloads.errors import TooLargeError


@dataclass
class _Ranked:
    """Queries of one key and count window, and the events that their next slice reaches back to."""

    workload: BoundWorkload
    key: tuple[str, ...]
    size: int
    carried: Events | None = None

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return f"{self.size} events by {', '.join(self.key)}"


class SlicedRun:
    """Takes the slices of a stream in order and gives the rows that are decided in each.

    `adaptive` has the plans of the queries that find matches, and when they changed; `ledger` the
    queries that were stopped at a limit, whose rows of earlier slices stand.
    """

    def __init__(
        self,
        workload: BoundWorkload,
        tick: int,
        limits: Limits = DEFAULT_LIMITS,
        how: How = USUAL,
    ) -> None:
        self._workload, self._limits, self._how = workload, limits, how
        timed: dict[Reach, list[Query]] = {}
        ranked: dict[tuple[tuple[str, ...], int], list[Query]] = {}
        unbounded: list[Query] = []
        for query in workload.queries:
            if not query.window.is_count:
                timed.setdefault(_reach(query, tick), []).append(query)
            elif query.slide is not None or _waits(query):
                unbounded.append(query)
            else:
                ranked.setdefault((query.key, query.window.size), []).append(query)
        self._timed = {reach: self._part(queries) for reach, queries in timed.items()}
        self._ranked = [
            _Ranked(self._part(queries), key, size) for (key, size), queries in ranked.items()
        ]
        self._unbounded = self._part(unbounded)
        self._kept: list[pa.Table] = []
        self.adaptive = Adaptive()
        self.ledger = Ledger()

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
        return self._workload.queries

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The queries that need all events at once."""
        return tuple(query.name for query in self._unbounded.queries)

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
            return self._run(self._workload, piece.events)
        found = [
            _decided(self._run(workload, piece.reached(reach)), piece)
            for reach, workload in self._timed.items()
        ]
        found += [self._run_ranked(group, piece) for group in self._ranked]
        if self._unbounded.queries:
            found.append(self._run_unbounded(piece))
        return joined_results([empty_results(piece.events.time_type), *found])

    def _run_ranked(self, group: _Ranked, piece: Slice) -> Results:
        events = piece.own if group.carried is None else appended(group.carried, piece.own)
        group.carried = _last_ranks(events, group.key, group.size)
        return _decided(self._run(group.workload, events), piece)

    def _run_unbounded(self, piece: Slice) -> Results:
        """Keeps the events; with the last slice, runs over all of them."""
        table = piece.own.table
        self._kept.append(table.select(needed_columns(self._unbounded, table.column_names)))
        if piece.stop is not None:
            return empty_results(piece.events.time_type)
        events = from_table(pa.concat_tables(self._kept), self._workload.stream)
        self._kept = []
        return self._run(self._unbounded, events)

    def _run(self, workload: BoundWorkload, events: Events) -> Results:
        return run_local(workload, events, self._limits, self._how, self.adaptive, self.ledger)

    def _part(self, queries: Sequence[Query]) -> BoundWorkload:
        return replace(self._workload, queries=tuple(queries))


def _reach(query: Query, tick: int) -> Reach:
    # Rounded up: a window that is no whole number of ticks is refused when the query runs.
    width = -(-query.window.size // tick)
    return Reach(width, width if _waits(query) else 0)


def _waits(query: Query) -> bool:
    """Can events after a match's last decide whether it is one?"""
    if not isinstance(query.output, Construction):
        return False
    if any(isinstance(node, Proj) for node in walk(query.pattern)):
        return True
    try:
        return any(map(waits, alternatives(query.pattern)))
    except TooLargeError:
        return True  # which is said when it runs


def _decided(results: Results, piece: Slice) -> Results:
    return Results(
        _within(results.aggregates, "time", piece), _within(results.matches, "end", piece)
    )


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
