"""The engine `compact`: matches of a sequence in the order of their events' times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engines.account import Account
from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import changes_in
from engines.limits import Limits, refuse
from engines.matching.trees.buffers import Buffer, Column, SelectedEvents, first_of, last_of
from engines.matching.trees.run import MatchReading, TreeMatches
from kernels.compact.cpu import LAST, STATE_SIZE, list_matches
from optimizer.engines.compact import components
from optimizer.ir.query import Construction, Query
from workloads.syntax import Plus

# Matches that are listed at once, and events of their groups for each of them.
ROWS_AT_ONCE = 1 << 16
EVENTS_OF_MATCH = 16


def listed_matches(
    query: Query, columns: Columns, limits: Limits, account: Account, operator: str, output: str
) -> Iterator[TreeMatches]:
    """The matches of a query, chunk by chunk; finding them is charged to the operator.

    With a limit, those of each last moment up to it, and such as are at the same moments.
    """
    output_of = query.output
    assert isinstance(output_of, Construction)
    parts = components(query)
    assert parts is not None
    with account.charge(operator):
        width = query.window.ticks(columns.events.tick)
        symbols = dict.fromkeys(part.symbol for part in parts)
        picked = SelectedEvents(columns, query.key, query.window.is_count, symbols, width)
        listing = _Listing(picked, [picked.of(part.symbol) for part in parts])
        listing.is_group = np.array([isinstance(part.quantifier, Plus) for part in parts])
    account.count(operator, sum(len(picked.of(symbol)) for symbol in symbols))
    aliases = tuple(part.alias for part in parts)
    reading = MatchReading(query.pattern, aliases, picked, width)
    limit = 0 if output_of.limit is None else output_of.limit.number
    rows = min(ROWS_AT_ONCE, limits.chunk)
    number = 0
    while not listing.is_done:
        with account.charge(operator):
            found = listing.next(width, limit, rows)
        number += len(found)
        if number > limits.listed:
            refuse(query.name, f"it has more than {limits.listed:,} matches; give it a LIMIT")
        if len(found):
            yield TreeMatches(query, reading, found, account, output)
        elif not listing.is_done:
            rows *= 2  # so many are at the same moments


class _Listing:
    """Where listing is, in the moments of each component."""

    def __init__(self, picked: SelectedEvents, places: list[np.ndarray]) -> None:
        changes = [changes_in(picked.moment[own]) for own in places]
        starts = [np.flatnonzero(change) for change in changes]
        self._start = np.cumsum([0, *map(len, starts)])
        self._places = np.concatenate(places)
        before = np.cumsum([0, *map(len, places)])
        firsts = [start + at for start, at in zip(starts, before, strict=False)]
        self._first = np.append(np.concatenate(firsts), len(self._places))
        events = self._places[self._first[:-1]]
        self._moment, self._position = picked.moment[events], picked.position[events]
        self._state = np.zeros(STATE_SIZE, np.int64)
        self._latest = self._start[:-1] - 1
        most = len(self._moment) + len(places) + 1
        self._components, self._chosen = np.zeros(most, np.int64), np.zeros(most, np.int64)
        self.is_group = np.zeros(len(places), np.bool_)

    @property
    def is_done(self) -> bool:
        return bool(self._state[LAST] >= self._start[-1] - self._start[-2])

    def next(self, width: int, limit: int, rows: int) -> Buffer:
        """Some more matches, as many as there is room for."""
        number = len(self.is_group)
        sizes = np.empty((number, rows), np.int32)
        most = max(EVENTS_OF_MATCH * rows, len(self._moment)) if self.is_group.any() else rows
        events = np.empty((number, most), np.int32)
        found = list_matches(
            self._start, self._moment, self._position, self._first, self._places, self.is_group,
            width, limit, self._state, self._latest, self._components, self._chosen, sizes, events,
        )  # fmt: skip
        columns: list[Column] = []
        for p in range(number):
            if self.is_group[p]:
                offsets = np.zeros(found + 1, np.int64)
                np.cumsum(sizes[p, :found], out=offsets[1:])
                columns.append(EventGroups(offsets, events[p, : offsets[-1]].copy()))
            else:
                columns.append(events[p, :found].copy())
        return Buffer(tuple(columns), first_of(columns[0]), last_of(columns[-1]))
