"""Rows in the order of ORDER BY, partition by partition, and what queries read of them, once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_table import Events
from engines.sql.columns import truth
from optimizer.ir.query import whole_ticks
from optimizer.ir.recognition import OrderColumn, Recognition
from workloads.errors import UnsupportedError
from workloads.sql import expressions as ex

Rows = npt.NDArray[np.int64]
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class OrderedTable:
    """The rows of partitions in order; columns and conditions of several queries are made once."""

    def __init__(self, events: Events, rows: Rows, bounds: Rows) -> None:
        self.events, self.rows, self.bounds = events, rows, bounds
        self._columns: dict[str, pa.Array] = {}
        self._values: dict[tuple[str, int], pa.Array] = {}
        self._truths: dict[ex.Expression, npt.NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def times(self) -> Rows:
        return self.events.ticks[self.rows]

    def clock(self, clause: Recognition) -> tuple[Rows, int | None]:
        """The times that WITHIN is about, rising, and its length in them.

        They are those of ORDER BY's first column if it has any, and else those of the stream.
        """
        if clause.within is None:
            return self.times, None
        item = clause.order[0] if clause.order else None
        times, within = self.times, 0
        values = None if item is None else self.column(item.column)
        if values is not None and pa.types.is_timestamp(values.type) and not values.null_count:
            times = np.asarray(values.cast(pa.int64()))
            within = -(-clause.within // _UNITS[values.type.unit])
        else:
            within = whole_ticks(clause.within, self.events.tick, "window")
            if item is not None and item.column != self.events.time_column:
                item = None
        return (-times if item is not None and item.descending else times), within

    @cached_property
    def first_of(self) -> Rows:
        """For each row, the first of its partition."""
        return np.repeat(self.bounds[:-1], np.diff(self.bounds))

    @cached_property
    def end_of(self) -> Rows:
        """For each row, the end of its partition."""
        return np.repeat(self.bounds[1:], np.diff(self.bounds))

    def column(self, name: str) -> pa.Array:
        """A column in the order of the rows."""
        if name not in self._columns:
            self._columns[name] = plain_column(self.events, name).take(pa.array(self.rows))
        return self._columns[name]

    def shifted(self, name: str, offset: int) -> pa.Array:
        """A column's values so many rows further on in the partition."""
        place = (name, offset)
        if place not in self._values:
            if offset == 0:
                self._values[place] = self.column(name)
            else:
                at = np.arange(len(self)) + offset
                outside = (at < self.first_of) | (at >= self.end_of)
                self._values[place] = self.column(name).take(pa.array(at, mask=outside))
        return self._values[place]

    def holds(self, condition: ex.Expression) -> npt.NDArray[np.bool_]:
        """In which rows a condition holds that reads the row itself and rows around it."""
        if condition not in self._truths:
            self._truths[condition] = truth(condition, self.own, len(self))
        return self._truths[condition]

    def own(self, leaf: ex.Expression) -> pa.Array:
        """What each row holds, or a row at a fixed offset from it."""
        if isinstance(leaf, ex.Own):
            assert leaf.column is not None
            return self.column(leaf.column)
        assert isinstance(leaf, ex.RowValue)
        return self.shifted(leaf.column, leaf.pointer.physical)


def plain_column(events: Events, name: str) -> pa.Array:
    """A column in one piece, without dictionaries; unsigned and small numbers as 64 bits."""
    found = events.column(name)
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    kind = found.type
    if pa.types.is_dictionary(kind):
        return plain_kind(found.cast(kind.value_type))
    return plain_kind(found)


def plain_kind(found: pa.Array) -> pa.Array:
    kind = found.type
    if pa.types.is_integer(kind) and not pa.types.is_int64(kind):
        return found.cast(pa.int64())
    if pa.types.is_floating(kind) and not pa.types.is_float64(kind):
        return found.cast(pa.float64())
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return found.cast(pa.string())
    return found


def ordered_table(events: Events, clause: Recognition) -> OrderedTable:
    """The rows that a query reads, in its order; raises where that is not one order."""
    rows = np.arange(len(events))
    if clause.filter is not None:

        def own(leaf: ex.Expression) -> pa.Array:
            assert isinstance(leaf, ex.Own)
            assert leaf.column is not None
            return plain_column(events, leaf.column)

        rows = np.flatnonzero(truth(clause.filter, own, len(events)))
    parts = _codes(events, clause.partition)[rows]
    keys: list[npt.NDArray[Any]] = [_ranks(events, item)[rows] for item in _asked(events, clause)]
    keys += [events.ticks[rows]]
    if events.sequence is not None:
        keys.append(events.sequence[rows])
    order = np.lexsort([*reversed(keys), parts])
    parts, keys = parts[order], [key[order] for key in keys]
    begins = np.flatnonzero(np.concatenate([[True], parts[1:] != parts[:-1]]))
    tied = parts[1:] == parts[:-1]
    for key in keys:
        tied &= key[1:] == key[:-1]
    if tied.any():
        raise UnsupportedError(
            "two rows of a partition have the same place in ORDER BY; declare the stream's "
            "'sequence' column, which decides then, or order by more columns"
        )
    bounds = np.append(begins, len(rows)) if len(rows) else np.zeros(1, np.int64)
    return OrderedTable(events, rows[order], bounds.astype(np.int64))


def _asked(events: Events, clause: Recognition) -> list[OrderColumn]:
    """The columns of ORDER BY, without the time where that alone is asked for."""
    order = list(clause.order)
    if len(order) == 1 and order[0].column == events.time_column and not order[0].descending:
        return []
    return order


def _codes(events: Events, names: tuple[str, ...]) -> Rows:
    """Numbers of partitions; null is a value like others."""
    codes = np.zeros(len(events), np.int64)
    for name in names:
        encoded = plain_column(events, name).dictionary_encode(null_encoding="encode")
        codes = codes * (len(encoded.dictionary) + 1) + np.asarray(encoded.indices)
        _, codes = np.unique(codes, return_inverse=True)
    return codes


def _ranks(events: Events, item: OrderColumn) -> Rows:
    """Numbers in which rows compare as ORDER BY asks."""
    encoded = plain_column(events, item.column).dictionary_encode()
    number = len(encoded.dictionary)
    ranks = np.empty(number + 1, np.int64)
    ranks[np.asarray(pc.array_sort_indices(encoded.dictionary))] = np.arange(number)
    if item.descending:
        ranks = -ranks
    ranks[number] = -number - 1 if item.nulls_first else number + 1
    codes: Rows = np.asarray(pc.fill_null(encoded.indices, number))
    placed: Rows = ranks[codes]
    return placed
