"""What groups of queries take along from slice to slice: events, where no reach in time bounds
what they need of those before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from engines.columns.columns import Columns
from engines.columns.layout import Rows
from engines.input.event_table import Events
from engines.matching.situations.kept_moments import ReadValues, kept_events, values_read
from engines.matching.situations.rests import PREFIX as REST
from engines.matching.situations.runs import Derivation
from engines.program import Program
from optimizer.engines.situations import temporal_of


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
        return events_at(
            columns.events, layout.order[layout.position > last[layout.partition] - self.size]
        )

    def due(self, start: int) -> int | None:
        return None


@dataclass
class SituationGroup:
    """Units that are about situations.

    Of the events of a window it takes the moments that situations follow from, and their values;
    of each key that was in a situation when it began, the last moment before.
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

    @cached_property
    def _read(self) -> ReadValues:
        return values_read(self.program.workload.queries)

    def kept(self, columns: Columns, stop: int | None) -> Events | None:
        if stop is None:
            return None
        layout = columns.orders.layout(self.key, False, False)
        derivation = Derivation(columns, layout, self.tick)
        opens = stop - self.margin - self.width  # the last tick before the window
        rows, rests = kept_events(derivation, self._read, opens, not self.margin)
        found = events_at(columns.events, layout.order[rows])
        return found if found is None else _with_rests(found, rests, np.sort(layout.order[rows]))

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


def _with_rests(events: Events, rests: Mapping[str, pa.Array], rows: Rows) -> Events:
    """Events with what those that are let go of add to sums, in place of what they came with."""
    table = events.table
    table = table.select([name for name in table.column_names if not name.startswith(REST)])
    for name, values in rests.items():
        table = table.append_column(name, values.take(pa.array(rows)))
    return replace(events, table=table)


def _ticks(nanoseconds: int, tick: int) -> int:
    return -(-nanoseconds // tick)


def events_at(events: Events, rows: Rows) -> Events | None:
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
