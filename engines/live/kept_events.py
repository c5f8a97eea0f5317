"""Live queries that keep the events of the stream, where no counters stand for them.

A row is given when nothing that comes can change it any more: that is how long its query waits.
Queries that wait equally long run together, so that none waits for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from engines.input.event_table import Events, from_table
from engines.input.query_columns import needed_columns
from engines.live.query_digest import state_name
from engines.live.suppression import Suppression, unsuppressed
from engines.local.news import of_symbols
from engines.local.run import SlicedRun, within_limit
from engines.local.slices import Slice, appended, between, reach_of
from engines.matching.situations.rests import PREFIX as REST
from engines.program import Program, RunContext
from engines.results.chunks import collected
from engines.results.tables import Results, empty_results
from optimizer.ir.keys import is_added
from optimizer.ir.pattern import events as components
from optimizer.ir.produced import chained_names, is_chain_sliced
from optimizer.ir.query import (
    BoundWorkload,
    Query,
    is_row_pattern,
    is_unbounded,
    unbounded_reason,
)
from workloads.errors import UnsupportedError

_PIECES = 4  # of a table
_CHAINED, _CARRIED, _OPEN = "chained", "carried/", "open/"


def by_wait(program: Program, tick: int, context: RunContext) -> dict[str, KeptEvents]:
    """The queries of a program by how long they wait, under names that no other plan changes.

    Those that make events for others, or read such, wait for each other.
    """
    queries = program.workload.queries
    chained = chained_names(queries)
    names: dict[str, list[str]] = {}
    for query in queries:
        wait = _CHAINED if query.name in chained else str(_wait(query, tick))
        names.setdefault(wait, []).append(query.name)
    return {
        wait: KeptEvents(program.of_queries(some), tick, context) for wait, some in names.items()
    }


def _wait(query: Query, tick: int) -> int:
    if query.window.is_count or query.is_given_when_certain or is_row_pattern(query):
        return 0
    return reach_of([query], tick).ahead


class KeptEvents:
    """Queries over the events that they can still reach, from batch to batch."""

    def __init__(self, program: Program, tick: int, context: RunContext) -> None:
        self._suppression = Suppression(program.workload.queries, tick)
        self._names = {q.name: state_name(q) for q in program.workload.queries if q.skips_past}
        program = unsuppressed(program)
        self._workload, self._tick, self._context = program.workload, tick, context
        self._outputs = program.outputs
        asked = program.workload.of_stream
        self._asked = program.over(asked)
        self._symbols = {e.symbol for q in asked.queries for e in components(q.pattern)}
        self._sliced = SlicedRun(program, tick, context, endless=True)
        if self._sliced.unbounded:
            raise _unbounded_error(program.workload, self._sliced.unbounded)
        self._kept: Events | None = None
        self._start: int | None = None  # matches that end before are given

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries that it runs."""
        return self._workload.queries

    @property
    def number(self) -> int:
        """How many events it keeps."""
        return sum(map(len, self._all_kept()))

    @property
    def nbytes(self) -> int:
        """How many bytes these take, about."""
        tables = [events.table for events in self._all_kept()]
        return sum(int(table.nbytes) for table in [*tables, *self._suppression.held.values()])

    def _all_kept(self) -> list[Events]:
        held = [*self._sliced.carried_events().values()]
        return held if self._kept is None else [*held, self._kept]

    @property
    def is_empty(self) -> bool:
        """Nothing is held, so that going on is the same as starting afresh."""
        held = self._sliced.carried_events() or self._suppression.held
        return not self._kept and not held

    def add(self, events: Events, until: int | None) -> Results:
        """The rows that are certain once all events up to `until` have come; None: no more will."""
        if self._sliced.is_timed:
            events = of_symbols(self._asked, events, self._symbols, self._context.account)
        kept = events if self._kept is None else appended(self._kept, events)
        reach = self._sliced.reach
        if until is None:
            self._kept = None
            return self._given(Slice(kept, self._start, None))
        stop = until + 1 - reach.ahead
        if self._start is not None and stop <= self._start:
            self._kept = kept
            return empty_results(events.time_type)
        found = self._given(Slice(between(kept, None, stop + reach.ahead), self._start, stop))
        self._start = stop
        self._kept = _in_few_pieces(between(kept, stop - reach.back + 1, None))
        return found

    def _given(self, piece: Slice) -> Results:
        """The rows of a slice that are certain."""
        context = self._context
        found = self._sliced.apart(self._sliced.job(piece).chunks(context), piece)
        found = self._suppression.given(found, piece.stop, context.account, self._outputs)
        return collected(within_limit(found, context), piece.events.time_type)

    @property
    def due(self) -> int | None:
        """The first time that may give rows, or let go of state, if no further event comes."""
        times = [self._kept_due()]
        if (certain := self._suppression.due) is not None:
            times.append(certain + self._sliced.reach.ahead - 1)
        if self._start is not None:
            times.append(self._sliced.due(self._start))
        return min((time for time in times if time is not None), default=None)

    def _kept_due(self) -> int | None:
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

    def save(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """The whole state: tables by name, and what is said of them."""
        tables = {f"{_CARRIED}{n}": e.table for n, e in self._sliced.carried_events().items()}
        if self._kept is not None:
            tables["kept"] = self._kept.table
        about: dict[str, Any] = {"start": self._start}
        if self._sliced.ends:
            about["ends"] = {self._names[n]: by_key for n, by_key in self._sliced.ends.items()}
        tables = {name: self._trimmed(table) for name, table in tables.items()}
        return tables | {f"{_OPEN}{n}": t for n, t in self._suppression.held.items()}, about

    def restore(self, tables: Mapping[str, pa.Table], about: Mapping[str, Any]) -> None:
        """Go on with what `save` gave."""
        stream = self._workload.stream
        self._start = about["start"]
        ends = about.get("ends", {})
        self._sliced.ends = {
            query: {key: (time, sequence) for key, (time, sequence) in ends[name].items()}
            for query, name in self._names.items()
            if name in ends
        }
        given = {n.removeprefix(_OPEN): t for n, t in tables.items() if n.startswith(_OPEN)}
        self._suppression.hold(given)
        held = {n: from_table(t, stream) for n, t in tables.items() if not n.startswith(_OPEN)}
        self._kept = held.pop("kept", None)
        self._sliced.carry({name.removeprefix(_CARRIED): each for name, each in held.items()})

    def memory(self) -> tuple[Any, ...]:
        """All that it holds, for `recall` in the same process."""
        ends = deepcopy(self._sliced.ends)
        carried, matches = self._sliced.carried_events(), self._suppression.held
        return self._start, self._kept, carried, ends, matches

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Go on with what `memory` gave."""
        self._start, self._kept, carried, self._sliced.ends, matches = memory
        self._sliced.carry(carried)
        self._suppression.hold(matches)

    def clear(self) -> None:
        """Start afresh."""
        self._start, self._kept, self._sliced.ends = None, None, {}
        self._sliced.carry({})
        self._suppression.hold({})

    def _trimmed(self, table: pa.Table) -> pa.Table:
        needed = set(needed_columns(self._workload, table.column_names))
        names = table.column_names
        return table.select([n for n in names if n in needed or is_added(n) or n.startswith(REST)])


def _unbounded_error(workload: BoundWorkload, names: Sequence[str]) -> UnsupportedError:
    """That a query needs all events at once, and why."""
    queries = [workload.query(name) for name in names]
    for query in queries:
        if is_unbounded(query):
            return UnsupportedError(
                f"query {query.name} cannot run over a live stream: "
                f"{unbounded_reason(query, workload.stream.time)}"
            )
    # A chain of which some query is cut by something else than time.
    other = next(q for q in queries if not is_chain_sliced((q,)))
    return UnsupportedError(
        f"query {other.name} cannot run over a live stream: it makes events for other queries, or "
        "reads such, and no stretch of time bounds what its matches depend on (situations of such "
        "events, windows counted in events, AFTER MATCH SKIP PAST LAST EVENT); leave INTO out, or "
        "run it over stored events, with 'sheaf run'"
    )


def _in_few_pieces(events: Events) -> Events:
    """The same events; each batch adds a piece, and each piece takes its time with every batch."""
    if not events.table.num_columns or events.table.column(0).num_chunks <= _PIECES:
        return events
    return replace(events, table=events.table.combine_chunks())
