"""Events taken once for each group of aggregates that they can matter to (`GROUP BY`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.layout import Rows, partition_codes
from engines.input.event_table import Events
from engines.local.component_keys import listed_values
from engines.results.json_text import json_column
from optimizer.ir.keys import GroupKey

Codes = npt.NDArray[np.int64]


def by_group_keys(
    columns: Columns, events: Events, origin: Rows, keys: Sequence[GroupKey]
) -> Events:
    """The events, each once for each group near it, by each of the keys; they stay in order.

    `events` are those of `columns`, at the rows `origin`. A column for each key has the group's
    value, as it is written in results, and one whether the event's own value is that.
    """
    rows: Rows = np.arange(len(events))
    found: list[_Values] = []
    groups: list[Codes] = []  # of each row, by key
    for key in keys:
        values = _Values(events, key, columns.instances(key.symbol)[origin])
        parts = _partitions(events, key.by, rows, groups)
        taken, own = _around(events.ticks[rows], parts, *values.of(rows), _reach(key, events.tick))
        rows, groups = rows[taken], [*(codes[taken] for codes in groups), own]
        found.append(values)
    table = events.table.take(pa.array(rows))
    for key, values, own in zip(keys, found, groups, strict=True):
        member = pa.array(values.has(rows, own))
        table = table.append_column(key.added_column, values.texts.take(pa.array(own)))
        table = table.append_column(key.member_column(key.attribute), member)
    return replace(
        events,
        table=table,
        ticks=events.ticks[rows],
        sequence=None if events.sequence is None else events.sequence[rows],
        _part_of=None,
    )


class _Values:
    """The values of a key as numbers: pairs of a row and one of its values, in order of rows."""

    def __init__(self, events: Events, key: GroupKey, instances: npt.NDArray[np.bool_]) -> None:
        rows, values = listed_values(events, key.attribute)
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # zeros of both signs
        encoded = pc.dictionary_encode(values)
        self.texts = json_column(encoded.dictionary).cast(pa.string())
        codes = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
        known = codes >= 0
        self._number = max(len(self.texts), 1)
        # Of an event any value is its own, also where it cannot be the component.
        self._pairs = np.unique(rows[known] * self._number + codes[known])
        mine = self._pairs[instances[self._pairs // self._number]]
        self._rows, self._codes = mine // self._number, mine % self._number

    def of(self, rows: Rows) -> tuple[Rows, Codes]:
        """The places among some rows that have values, and these; of a list each."""
        first = np.searchsorted(self._rows, rows, "left")
        sizes = np.searchsorted(self._rows, rows, "right") - first
        return np.repeat(np.arange(len(rows)), sizes), self._codes[_ranges(first, sizes)]

    def has(self, rows: Rows, codes: Codes) -> npt.NDArray[np.bool_]:
        """Is a value one of a row's own?"""
        return np.isin(rows * self._number + codes, self._pairs)


def _partitions(events: Events, by: tuple[str, ...], rows: Rows, others: Sequence[Codes]) -> Codes:
    """A number for the partition of each row; -1 for one that is in none."""
    parts = np.zeros(len(rows), np.int64)
    if by:
        parts = partition_codes(events, by)[0].astype(np.int64)[rows]
    for codes in others:
        pairs = parts * (int(codes.max(initial=0)) + 1) + codes
        pairs[parts < 0] = -1
        parts = pairs
    return parts


def _reach(key: GroupKey, tick: int) -> int | None:
    """How many ticks away from an event of a group its other events are at most."""
    return None if key.within is None else -(-key.within // tick)


def _around(
    ticks: Rows, parts: Codes, places: Rows, codes: Codes, reach: int | None
) -> tuple[Rows, Codes]:
    """The rows that are near an event of a group in its partition, with the group; in order.

    Events of groups are at `places` among the rows, and have `codes`.
    """
    member = parts[places] >= 0
    places, codes = places[member], codes[member]
    if not len(places):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort((ticks, parts))
    by_group = np.lexsort((ticks[places], codes, parts[places]))
    places, codes = places[by_group], codes[by_group]
    times, part = ticks[places], parts[places]
    apart = np.ones(len(places), bool)
    apart[1:] = (part[1:] != part[:-1]) | (codes[1:] != codes[:-1])
    if reach is not None:
        apart[1:] |= times[1:] - times[:-1] > 2 * reach
    first = np.flatnonzero(apart)
    last = np.append(first[1:], len(places)) - 1
    # Places in the order of parts and times, of which each stretch of a group is a range.
    moments = np.unique(ticks)
    number = len(moments) + 1
    known = parts[order] * number + np.searchsorted(moments, ticks[order])
    if reach is None:
        low, high = np.zeros(len(first), np.int64), np.full(len(first), len(moments))
    else:
        low = np.searchsorted(moments, times[first] - reach, "left")
        high = np.searchsorted(moments, times[last] + reach, "right")
    start = np.searchsorted(known, part[first] * number + low, "left")
    stop = np.searchsorted(known, part[first] * number + high, "left")
    rows = order[_ranges(start, stop - start)]
    groups = np.repeat(codes[first], stop - start)
    settled = np.lexsort((groups, rows))
    return rows[settled], groups[settled]


def _ranges(first: Rows, sizes: Rows) -> Rows:
    """The numbers of ranges that begin at `first`, one range behind the other."""
    inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(first, sizes) + inside
