"""What groups of queries take along from slice to slice: events, where no reach in time bounds
what they need of those before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.columns import Columns
from engines.columns.layout import Layout, Rows
from engines.input.event_table import Events
from engines.matching.situations.runs import Derivation
from engines.program import Program
from kernels.situations.cpu import FOREVER
from optimizer.engines.situations import definitions_of, temporal_of
from optimizer.ir.query import ReturnValue, SituationPattern
from optimizer.ir.situations import Definition
from workloads.expressions import aliases


class CarriedGroup(Protocol):
    """Units of one key, and the events that their next slice needs of those before it.

    `is_ranked`: are places of events in their partition what counts? `name` tells it from others.
    """

    program: Program
    key: tuple[str, ...]
    is_ranked: bool
    carried: Events | None

    @property
    def name(self) -> str: ...

    def kept(self, columns: Columns, stop: int | None) -> Events | None:
        """The events that slices from the time `stop` on need of these."""

    def due(self, start: int) -> int | None:
        """The first time from `start` on that gives rows, or lets go of events, by itself."""


@dataclass
class RankedGroup:
    """Units whose widest windows count as many events."""

    program: Program
    key: tuple[str, ...]
    size: int
    carried: Events | None = None
    is_ranked: bool = True

    @property
    def name(self) -> str:
        return f"{self.size} events by {', '.join(self.key)}"

    def kept(self, columns: Columns, stop: int | None) -> Events | None:
        """Of each key, the events that a window with a later event can hold."""
        layout = columns.orders.layout(self.key, ranked=True, settled=False)
        last = layout.position[layout.starts[1:] - 1]
        return _of_rows(
            columns.events, layout.order[layout.position > last[layout.partition] - self.size]
        )

    def due(self, start: int) -> int | None:
        return None


@dataclass
class SituationGroup:
    """Units that are about situations.

    A situation that began a window ago is in no later match, and one event of it tells that what
    follows is no beginning. So the events of a window are kept, and of each key that was then in a
    situation the last moment before. Of a definition of whose events nothing is aggregated, and
    which silence does not end, it is only the moments at which its situations begin and end.
    """

    program: Program
    key: tuple[str, ...]
    tick: int
    own: str = ""  # the one query that it has, where queries share nothing; of a chain, its readers
    margin: int = 0  # how many ticks before a slice its rows are asked for, too
    ahead: int = 0  # and behind it
    slides: tuple[int, ...] = ()  # of those that read its rows, in ticks
    carried: Events | None = None
    is_ranked: bool = False

    @property
    def name(self) -> str:
        return f"situations by {', '.join(self.key)}" + (f" of {self.own}" if self.own else "")

    @property
    def width(self) -> int:
        """The ticks of the widest window; one that is no whole number is refused when it runs."""
        return max(_ticks(q.window.size, self.tick) for q in self.program.workload.queries)

    @property
    def _definitions(self) -> Iterable[Definition]:
        return definitions_of(self.program.workload.queries)

    @cached_property
    def _whole(self) -> frozenset[Definition]:
        """The definitions of which all events matter."""
        found = {definition for definition in self._definitions if definition.gap is not None}
        for query in self.program.workload.queries:
            output, temporal = query.output, temporal_of(query)
            assert isinstance(output, SituationPattern)
            values = [item.value for item in output.items if isinstance(item, ReturnValue)]
            read = frozenset().union(*map(aliases, (*values, *query.conditions)))
            found |= {s.definition for s in temporal.situations if s.name in read}
        return frozenset(found)

    def kept(self, columns: Columns, stop: int | None) -> Events | None:
        if stop is None:
            return None
        layout = columns.orders.layout(self.key, False, False)
        derivation = Derivation(columns, layout, self.tick)
        opens = stop - self.margin - self.width  # the last tick before the window
        wanted = np.zeros(len(layout), bool)
        last: list[Rows] = []
        going_on = np.zeros(len(layout.starts) - 1, bool)
        for definition in self._definitions:
            member = layout.taken(columns.instances(definition.member))
            if definition in self._whole:
                wanted |= member
            else:
                runs = derivation.runs(definition)
                ended = runs.end_place[runs.end_tick != FOREVER]
                wanted |= member & _in_blocks(layout, np.concatenate([runs.first, ended]))
            blocks = _last_blocks(layout, member & (layout.ticks <= opens))
            last.append(blocks)
            holds = ~member | layout.taken(columns.instances(definition.symbol))
            fails = np.concatenate([[0], np.cumsum(~holds)])
            goes_on = fails[layout.after[blocks]] == fails[blocks]
            if definition.gap is not None:
                goes_on &= layout.ticks[blocks] + _ticks(definition.gap, self.tick) >= opens
            going_on[layout.partition[blocks[goes_on]]] = True
        wanted &= layout.ticks > opens
        for blocks in last:
            wanted |= _in_blocks(layout, blocks[going_on[layout.partition[blocks]]])
        return _of_rows(columns.events, layout.order[wanted])

    def due(self, start: int) -> int | None:
        if self.carried is None:
            return None
        ticks = np.unique(self.carried.ticks)
        lengths = {self.width - 1}
        for query in self.program.workload.queries:
            for situation in temporal_of(query).situations:
                for length in (situation.at_least, situation.definition.gap):
                    if length is not None:
                        lengths.add(_ticks(length, self.tick))
        times = []
        for length in lengths | {length + self.margin for length in lengths}:
            place = int(np.searchsorted(ticks, start - length))
            if place < len(ticks):
                times.append(int(ticks[place]) + length)
        last = int(ticks[-1]) + max(lengths) + self.margin
        slid = (-(-start // slide) * slide for slide in self.slides)
        times += [time for time in slid if time <= last]
        return min(times) + self.ahead if times else None


def _ticks(nanoseconds: int, tick: int) -> int:
    return -(-nanoseconds // tick)


def _in_blocks(layout: Layout, blocks: Rows) -> npt.NDArray[np.bool_]:
    """Which rows are in blocks, given by their first rows?"""
    edges = np.zeros(len(layout) + 1, np.int64)
    np.add.at(edges, blocks, 1)
    np.add.at(edges, layout.after[blocks], -1)
    return np.cumsum(edges[:-1]) > 0


def _last_blocks(layout: Layout, some: npt.NDArray[np.bool_]) -> Rows:
    """The first row of the last moment of each partition that has any of these rows."""
    rows = np.flatnonzero(some)
    partition = layout.partition[rows]
    is_last = np.ones(len(rows), bool)
    is_last[:-1] = partition[1:] != partition[:-1]
    return layout.block[rows[is_last]]


def _of_rows(events: Events, rows: Rows) -> Events | None:
    """The events of these rows of the table, in their order; None where there are none."""
    if not len(rows):
        return None
    rows = np.sort(rows)
    return Events(
        events.table.take(pa.array(rows)),
        events.ticks[rows],
        None if events.sequence is None else events.sequence[rows],
        events.tick,
        events.time_type,
        events.time_column,
        events.ignores_missing,
    )
