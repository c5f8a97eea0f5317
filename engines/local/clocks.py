"""What live streams keep of events where windows do not follow the time alone: those of sessions
that are open, the last of some types, a partition's first, the last of a join's side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, Layout, Rows
from engines.input.event_table import Events
from engines.live.query_digest import state_name
from engines.local.carried import CarriedGroup, events_at
from engines.local.component_keys import by_component_keys
from engines.matching.passes.frames import Frame, frame_of
from engines.matching.passes.joins import JoinRanges, PairedSides, SideRanks
from engines.matching.rowpattern.live_search import NUMBER, STATE, open_rows, searched
from engines.program import PassUnit, Program, Unit
from optimizer.engines import frames, joins
from optimizer.engines.joins import sides
from optimizer.ir.keys import ComponentKey
from optimizer.ir.pattern import Symbol, events
from optimizer.ir.query import Construction, Query, RowPattern, picks_matches, waits_for_window

Mask = npt.NDArray[np.bool_]
_NO_TIMES = np.zeros(0, np.int64)


@dataclass
class ClockedGroup:
    """Units of one key with one clock; the events that are kept are found partition by partition.

    `clock` tells it from other groups of the key.
    """

    program: Program
    key: tuple[str, ...]
    tick: int
    clock: str
    carried: Events | None = None
    is_ranked: bool = False
    times: Rows = field(default_factory=lambda: _NO_TIMES)  # see `due`; in ascending order

    @property
    def name(self) -> str:
        return f"{self.clock} by {', '.join(self.key)}"

    def kept(self, columns: Columns, stop: int | None) -> Events | None:
        """The events that slices from the time `stop` on need of these."""
        self.times = _NO_TIMES
        if stop is None:
            return None
        wanted = np.zeros(len(columns.events), bool)
        times = []
        for keys, program in self.program.by_partitions:
            mine, origin = columns, np.arange(len(wanted))
            if keys:
                tied = [key for key in keys if isinstance(key, ComponentKey)]
                taken, origin = by_component_keys(columns.events, tied)
                mine = Columns(program.workload, taken, operator=program.conditions)
            queries = program.workload.queries
            layout = mine.orders.layout(queries[0].key, queries[0].window.is_count, False)
            if len(layout):
                rows, due = self._needed(queries, ArrangedEvents(layout, mine), stop)
                wanted[origin[rows]] = True
                times.append(due)
        self.times = np.unique(np.concatenate([_NO_TIMES, *times]))
        return events_at(columns.events, np.flatnonzero(wanted))

    def due(self, start: int) -> int | None:
        """The first time from `start` on that gives rows, or lets go of events, by itself."""
        if self.carried is None:
            return None
        place = int(np.searchsorted(self.times, start))
        return int(self.times[place]) if place < len(self.times) else None

    def _needed(
        self, queries: Sequence[Query], arranged: ArrangedEvents, stop: int
    ) -> tuple[Rows, Rows]:
        """The rows of the table that are needed, and the times at which something is due."""
        raise NotImplementedError


class SessionGroup(ClockedGroup):
    """Queries about sessions: the events of those that are not closed."""

    def _needed(
        self, queries: Sequence[Query], arranged: ArrangedEvents, stop: int
    ) -> tuple[Rows, Rows]:
        rows, times = [], []
        for query in queries:
            frame = frame_of(query, arranged)
            layout, closes = frame.arranged.layout, frame.closes
            assert closes is not None
            is_open = closes >= stop
            rows.append(layout.order[is_open[layout.partition]])
            times.append(closes[is_open])
        return np.concatenate(rows), np.concatenate(times)


class RankedTypesGroup(ClockedGroup):
    """Queries whose windows count events of some types: those that the last windows hold.

    Places in a partition are told from what is kept. Where they are asked for themselves, as
    multiples of a slide, a multiple of it is dropped.
    """

    def _needed(
        self, queries: Sequence[Query], arranged: ArrangedEvents, stop: int
    ) -> tuple[Rows, Rows]:
        layout = frame_of(queries[0], arranged).arranged.layout
        position = layout.position
        # What waits for the end of a window looks back by one, and ahead by one.
        size = max(q.window.size * (2 if waits_for_window(q) else 1) for q in queries)
        kept = position > position[layout.starts[1:] - 1][layout.partition] - size
        slide = queries[0].slide
        if slide is not None:
            least = np.full(len(layout.starts) - 1, np.iinfo(np.int64).max)
            np.minimum.at(least, layout.partition[kept], position[kept])
            begins = ((position - 1) % slide == 0) & (position <= least[layout.partition])
            first = np.zeros(len(least), np.int64)
            np.maximum.at(first, layout.partition[begins], position[begins])
            kept = position >= first[layout.partition]
        elif queries[0].window.of:  # of a row that slides, the time is that of any event
            kept = _of_symbols(arranged, _symbols(queries), kept)
        return layout.order[kept], _NO_TIMES


class FirstEventGroup(ClockedGroup):
    """Queries whose windows begin with a partition's first event, or are given without a match:
    that event, the last one, and those in reach.
    """

    def _needed(
        self, queries: Sequence[Query], arranged: ArrangedEvents, stop: int
    ) -> tuple[Rows, Rows]:
        layout, tick = arranged.layout, self.tick
        edges = np.zeros(len(layout), bool)
        edges[layout.starts[:-1]] = True  # the first of each partition
        edges[layout.starts[1:] - 1] = True
        kept, times = edges, []
        for query in queries:
            width = query.window.ticks(tick)
            inside = layout.ticks > stop - width
            if not query.empty_rows:
                inside = _of_symbols(arranged, _symbols([query]), inside)
            kept = kept | inside
            times.append(layout.ticks[inside] + width - 1)
            if query.slide is not None:
                times.append(_next_closing(query, frame_of(query, arranged), inside, stop, tick))
        return layout.order[kept], np.concatenate(times)


def _next_closing(query: Query, frame: Frame, inside: Mask, stop: int, tick: int) -> Rows:
    """When the next windows close of partitions that have some of these rows."""
    assert query.slide is not None
    slide = query.slide // tick
    partitions = np.unique(frame.arranged.layout.partition[inside])
    shift = np.zeros(len(partitions), np.int64) if frame.shift is None else frame.shift[partitions]
    # The first window from the first event on has its end at the position 0.
    opened = stop if frame.shift is None else np.maximum(stop, shift)
    closing: Rows = shift - (shift - opened) // slide * slide
    return closing


class JoinGroup(ClockedGroup):
    """Joins of two sides of which one counts its events: those of either in windows that are open,
    and with LEFT JOIN the partners of the left ones.
    """

    def _needed(
        self, queries: Sequence[Query], arranged: ArrangedEvents, stop: int
    ) -> tuple[Rows, Rows]:
        layout = arranged.layout
        first = layout.starts[1:].copy()  # of each partition, the first row that is needed
        times = [_NO_TIMES]
        for query in queries:
            assert query.join is not None
            paired = PairedSides.of(query, arranged)
            for rows, window in (
                (paired.left, query.join.left),
                (paired.waiting, query.join.right),
            ):
                if window.is_count:
                    until = SideRanks.of(layout, rows).until
                    newest = until[layout.starts[layout.partition[rows] + 1] - 1]
                    is_open = until[rows] + window.size > newest
                else:
                    closes = layout.ticks[rows] + window.ticks(self.tick)
                    is_open = closes >= stop
                    times.append(closes[is_open])
                _lower(first, layout, rows[is_open])
                if rows is paired.left and query.join.outer:
                    found = JoinRanges.of(query, paired)
                    some = is_open & (found.low < found.high)
                    _lower(first, layout, paired.right[found.low[some]])
        kept = np.arange(len(layout)) >= layout.block[first][layout.partition]
        kept = _of_symbols(arranged, _symbols(queries), kept)
        return layout.order[kept], np.concatenate(times)


def _lower(first: Rows, layout: Layout, rows: Rows) -> None:
    np.minimum.at(first, layout.partition[rows], rows)


def _symbols(queries: Iterable[Query]) -> set[Symbol]:
    """What queries ask for, and what their windows count."""
    found = {event.symbol for query in queries for event in events(query.pattern)}
    return found | {Symbol(name) for query in queries for name in query.window.of}


def _of_symbols(arranged: ArrangedEvents, symbols: Iterable[Symbol], some: Mask) -> Mask:
    """Those of some rows that any of these symbols fits, and of their partitions the last row: what
    waits when no more events come is given with it.
    """
    layout = arranged.layout
    found = np.zeros(len(layout), bool)
    for symbol in symbols:
        found[arranged.candidates(symbol).rows] = True
    found &= some
    found[layout.starts[layout.partition[found] + 1] - 1] = True
    return found


class RowPatternGroup(ClockedGroup):
    """A query that is a clause MATCH_RECOGNIZE: rows at which a match may begin that depends on
    rows to come, and those that are read before them.
    """

    def kept(self, columns: Columns, stop: int | None) -> Events | None:
        self.times = _NO_TIMES
        if stop is None:
            return None
        (query,) = self.program.workload.queries
        assert isinstance(query.output, RowPattern)
        clause = query.output.recognition
        found = open_rows(searched(columns, clause, stop), clause)
        self.times = np.unique(found.times)
        events = columns.events
        names = [name for name in events.table.column_names if name not in (STATE, NUMBER)]
        plain = replace(events, table=events.table.select(names), _part_of=None)
        kept = events_at(plain, found.rows)
        if kept is None:
            return None
        table = kept.table.append_column(STATE, found.states)
        return replace(kept, table=table.append_column(NUMBER, found.numbers), _part_of=None)


def clocked_groups(program: Program, tick: int) -> tuple[list[CarriedGroup], Sequence[Unit]]:
    """Groups of the queries of a program that can go on without the end of the stream, though
    nothing but a clock of their own bounds what they need; and all other units.
    """
    groups: dict[tuple[type[ClockedGroup], tuple[str, ...], str], list[str]] = {}
    for unit in program.units:
        if not isinstance(unit, PassUnit):
            continue
        for query in unit.queries:
            if (found := _clock(unit, query, program.workload.stream.time)) is not None:
                groups.setdefault((found[0], query.key, found[1]), []).append(query.name)
    taken = {name for names in groups.values() for name in names}
    made: list[CarriedGroup] = [
        kind(program.of_queries(names), key, tick, clock)
        for (kind, key, clock), names in groups.items()
    ]
    if not taken:
        return [], program.units
    left = [q.name for q in program.workload.queries if q.name not in taken]
    return made, program.of_queries(left).units


def _clock(unit: PassUnit, query: Query, time: str) -> tuple[type[ClockedGroup], str] | None:
    """What keeps the events of a query, and a name for its clock; None for what is to wait."""
    if query.groups or picks_matches(query):
        return None
    if isinstance(query.output, RowPattern):
        clause = query.output.recognition
        if clause.needs_end(time) is not None:
            return None
        return RowPatternGroup, f"rows of {state_name(query)}"
    if unit.engine == joins.NAME and query.is_given_when_certain:
        left, right = sides(query)
        return JoinGroup, f"joins of {left.symbol} and {right.symbol}"
    if unit.engine != frames.NAME:
        return None
    window = query.window
    if window.session:
        return SessionGroup, "sessions"
    if not window.is_count:
        return FirstEventGroup, "first events"
    if isinstance(query.output, Construction) and query.output.limit is not None:
        return None  # which of them are first is decided at several times
    slide = "" if query.slide is None else f" by {query.slide}"
    return RankedTypesGroup, f"events of {', '.join(window.of)}{slide}"
