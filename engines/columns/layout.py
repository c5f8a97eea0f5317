"""The order in which queries of one key see events: partitions, and rows of each symbol in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_table import Events
from kernels.orders.cpu import cut_order, find_blocks, number_pairs, sort_by_code
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.pattern import Symbol

if TYPE_CHECKING:
    from engines.columns.columns import Columns
from engines.columns.vectors import Vector

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows of the events that have a key, partition by partition, each in order.

    Rows of equal time and sequence form a block: they are simultaneous. `block` is a row's first
    of its block, `after` the first behind it; both have an entry for the row behind the last.
    Where each row is a block of its own, what is behind it is made when it is asked for.
    """

    order: Rows  # row of the layout -> row of the table
    partition: Rows  # of each row
    starts: Rows  # of each partition, and the end of the last
    block: Rows
    known_after: Rows | None
    ticks: Rows
    position: Rows  # time, or rank in the partition for a window counted in events

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def after(self) -> Rows:
        if self.known_after is not None:
            return self.known_after
        after = np.arange(1, len(self) + 2)
        after[-1] = len(self)
        return after

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values by row of the table, in the order of the layout."""
        return values if self.untouched and len(values) == len(self) else values[self.order]

    @cached_property
    def untouched(self) -> bool:
        """Are its rows those of the table, in their order?"""
        n = len(self.order)
        return bool(n == 0 or (self.order[-1] == n - 1 and (np.diff(self.order) == 1).all()))

    @cached_property
    def has_ties(self) -> bool:
        """Are there simultaneous rows?"""
        if self.known_after is None:
            return False
        return bool((self.known_after[:-1] - self.block[:-1] > 1).any())

    def reach(self, width: int) -> tuple[Rows, Rows]:
        """For each row, the range of rows of its partition less than `width` away."""
        low, high = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        for rows, shifted in self._comparable(width):
            low[rows] = np.searchsorted(shifted, shifted - width, "right") + rows.start
            high[rows] = np.searchsorted(shifted, shifted + width, "left") + rows.start
        return low, high

    def rows_until(self, partition: Rows, position: Rows) -> Rows:
        """The number of rows up to a position of a partition, earlier partitions included."""
        first, last = self.starts[partition], self.starts[partition + 1]
        low, high = first.copy(), last.copy()
        # Binary search in all partitions at once.
        while (searching := low < high).any():
            middle = (low + high) // 2
            right = searching & (self.position[np.minimum(middle, len(self) - 1)] <= position)
            low = np.where(right, middle + 1, low)
            high = np.where(searching & ~right, middle, high)
        return low

    def _comparable(self, width: int) -> list[tuple[slice, Rows]]:
        """Ranges of rows whose positions, shifted, keep partitions more than a width apart."""
        if not len(self):
            return []
        first = self.position[self.starts[:-1]]
        spans = self.position[self.starts[1:] - 1] - first + width + 1
        if float(spans.astype(np.float64).sum()) < 2**61:
            shift = np.concatenate([[0], np.cumsum(spans[:-1])]) - first
            return [(slice(0, len(self)), self.position + shift[self.partition])]
        return [
            (slice(start, end), self.position[start:end])
            for start, end in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        ]


def arrange(events: Events, key: tuple[str, ...], ranked: bool, settled: bool) -> Layout:
    """The layout for a partition key.

    `ranked`: positions are ranks and not times. `settled`: simultaneous rows stand in an order
    that does not depend on the order of arrival, which groups that hold several of them need.
    """
    return KeyOrders(events).layout(key, ranked, settled)


class KeyOrders:
    """The orders of events by key, each made once: windows of both kinds read the same."""

    def __init__(self, events: Events, wider: tuple[KeyOrders, int] | None = None) -> None:
        """`wider`: the orders of the events that these are a part of, and from which row."""
        self._events, self._wider = events, wider
        self._orders: dict[tuple[str, ...], tuple[Rows, Rows]] = {}
        self._layouts: dict[tuple[tuple[str, ...], bool, bool], Layout] = {}

    def layout(self, key: tuple[str, ...], ranked: bool, settled: bool) -> Layout:
        """As `arrange`."""
        place = (key, ranked, settled)
        if place not in self._layouts:
            self._layouts[place] = self._made(key, ranked, settled)
        return self._layouts[place]

    def _made(self, key: tuple[str, ...], ranked: bool, settled: bool) -> Layout:
        if ranked or settled:
            made = self.layout(key, False, False)
        elif not key and (found := _in_order(self._events, *self._order(key))) is not None:
            made = found
        else:
            order, starts = self._order(key)
            events = self._events
            partition, ticks, block, after = find_blocks(
                order, starts, events.ticks, events.sequence
            )
            made = Layout(order, partition, starts, block, after, ticks, ticks)
        if settled:
            order = settle(self._events, made.order, made.block, made.after)
            made = replace(made, order=order)
        if ranked:
            made = replace(made, position=made.block[:-1] - made.starts[made.partition] + 1)
        return made

    def _order(self, key: tuple[str, ...]) -> tuple[Rows, Rows]:
        """The rows that have a key, by key, and where those of each key begin."""
        if key not in self._orders:
            number = len(self._events)
            if not key:
                self._orders[key] = _rows(number), np.array([0, number] if number else [0])
            elif self._wider is not None:
                orders, first = self._wider
                self._orders[key] = cut_order(*orders._order(key), first, first + number)
            else:
                self._orders[key] = sort_by_code(*partition_codes(self._events, key))
        return self._orders[key]


# Rows in their order, and partitions of events that have no key: as long as any that were asked for
# yet, since memory that is new to a process costs more than what it is filled with. Never written.
_SHARED = {"rows": np.arange(1 << 12), "zeros": np.zeros(1 << 12, np.int64)}
_MOST_SHARED = 1 << 22


def _rows(number: int) -> Rows:
    return _shared("rows", number) if number <= _MOST_SHARED else np.arange(number)


def _zeros(number: int) -> Rows:
    return _shared("zeros", number) if number <= _MOST_SHARED else np.zeros(number, np.int64)


def _shared(which: str, number: int) -> Rows:
    known = _SHARED[which]
    if len(known) < number:
        size = 1 << (number - 1).bit_length()
        known = np.arange(size) if which == "rows" else np.zeros(size, np.int64)
        _SHARED[which] = known
    return known[:number]


def _in_order(events: Events, order: Rows, starts: Rows) -> Layout | None:
    """The layout of events whose times increase from row to row; None of others."""
    ticks, number = events.ticks, len(events)
    if not number or not (ticks[1:] > ticks[:-1]).all():
        return None
    if not ticks.flags.c_contiguous:
        ticks = ticks.copy()
    elif not ticks.flags.writeable:  # kernels are compiled for arrays of one sort, and only read
        ticks = np.asarray(_SameMemory(ticks))
    made = Layout(order, _zeros(number), starts, _rows(number + 1), None, ticks, ticks)
    made.__dict__.update(untouched=True)  # known, and not to be found out
    return made


class _SameMemory:
    """What numpy makes an array of that may be written, of one that may not."""

    def __init__(self, values: Rows) -> None:
        self._values = values  # which hold the memory
        given = values.__array_interface__
        self.__array_interface__ = {**given, "data": (given["data"][0], False)}


_MOST_PAIRS = 1 << 24  # of key values, that are numbered by a table


def partition_codes(events: Events, key: tuple[str, ...]) -> tuple[npt.NDArray[np.int32], int]:
    """A number for each combination of values of a key, -1 where one is null; and how many."""
    numbers, values = events.codes(key[0])
    known = len(values)
    for name in key[1:]:
        others, values = events.codes(name)
        if known * len(values) <= _MOST_PAIRS:
            numbers, known = number_pairs(numbers, others, known, len(values))
        else:
            pairs = numbers.astype(np.int64) * len(values) + others
            pairs[(numbers < 0) | (others < 0)] = -1
            found, places = np.unique(pairs, return_inverse=True)
            absent = int(found[0] < 0) if len(found) else 0
            numbers, known = (places - absent).astype(np.int32), len(found) - absent
    return numbers, known


def changes_in(values: Rows) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before; the first does."""
    found = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def blocks(changes: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """For each row the first of its block, and the first behind that; changes begin a block."""
    firsts = np.append(np.flatnonzero(changes), len(changes))
    number = np.cumsum(changes) - 1
    block = np.append(firsts[number], len(changes))
    after = np.append(firsts[number + 1], len(changes))
    return block, after


def settle(events: Events, order: Rows, block: Rows, after: Rows) -> Rows:
    """Simultaneous rows in the order of their values as Python writes them, column by column."""
    tied = np.flatnonzero(after[:-1] - block[:-1] > 1)
    if not len(tied):
        return order
    rows = events.table.take(pa.array(order[tied]))
    ranks = [_written_ranks(rows.column(name)) for name in sorted(events.names, reverse=True)]
    settled = order.copy()
    settled[tied] = order[tied[np.lexsort((*ranks, block[tied]))]]
    return settled


def _written_ranks(column: pa.ChunkedArray) -> Rows:
    """Numbers that sort rows as the texts of their values do."""
    if pa.types.is_nested(column.type):
        values, places = column.to_pylist(), np.arange(len(column))
    else:
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        values, places = encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
    # The bracket closes each value as it does in the text of the whole row: 1 before 1.5.
    texts = [f"{value!r})" for value in values]
    distinct = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([distinct[text] for text in texts], np.int64)[places]


_INDEXED = ("int", "string", "time", "bool")


@dataclass(frozen=True)
class Equality:
    """`new.attribute = bound.bound_attribute`, where `bound` is a single event."""

    attribute: str
    bound: str
    bound_attribute: str


@dataclass(frozen=True, eq=False)
class Index:
    """The candidates of a symbol by an attribute's value, and then in order.

    `keys` are sorted: the value's number times `span`, plus the row. `codes` gives the number of
    the value that each row asks for; -1 for one that no candidate has.
    """

    rows: Rows
    keys: Rows
    codes: Rows
    span: int

    def find(self, bound: Rows, low: Rows, high: Rows) -> tuple[Rows, Rows]:
        """The range of places of the candidates between two rows with a bound row's value."""
        code = self.codes[bound]
        start = np.searchsorted(self.keys, code * self.span + low)
        stop = np.searchsorted(self.keys, code * self.span + np.maximum(low, high))
        return start, np.where(code < 0, start, stop)


def index_of(candidates: Rows, values: Vector, asked: Vector) -> Index | None:
    """The index, where both columns hold values that can be looked up."""
    if values.kind != asked.kind or values.kind not in _INDEXED:
        return None
    span = len(values.values) + 1
    rows = candidates[values.present()[candidates]]
    distinct, code = np.unique(values.values[rows], return_inverse=True)
    keys = code * span + rows
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(distinct, asked.values)
    known = np.append(distinct, distinct[:1])[place] == asked.values if len(distinct) else False
    codes = np.where(known & asked.present(), place, -1)
    return Index(rows[order], keys[order], codes, span)


@dataclass(frozen=True, eq=False)
class SymbolRows:
    """The rows of a symbol in order; `before[r]` is how many of them come before row r."""

    rows: Rows
    before: Rows
    following: Rows  # of each, the place of the first that is not simultaneous with it


class ArrangedEvents:
    """The events in one layout, with the columns and candidates that queries share."""

    def __init__(self, layout: Layout, columns: Columns) -> None:
        self.layout, self.columns = layout, columns
        self._vectors: dict[str, Vector] = {}
        self._candidates: dict[Symbol, SymbolRows] = {}
        self._overlaps: dict[frozenset[Symbol], bool] = {}
        self._reach: dict[int, tuple[Rows, Rows]] = {}
        self._indexes: dict[tuple[Symbol, str, str], Index | None] = {}

    def vector(self, name: str) -> Vector:
        if name not in self._vectors:
            self._vectors[name] = self.columns.vector(name).take(self.layout.order)
        return self._vectors[name]

    def input(self, column: InputColumn) -> Vector:
        """A column that is aggregated."""
        return self.columns.input(column).take(self.layout.order)

    def candidates(self, symbol: Symbol) -> SymbolRows:
        if symbol not in self._candidates:
            mask = self.columns.instances(symbol)[self.layout.order]
            before = np.zeros(len(mask) + 1, np.int64)
            np.cumsum(mask, out=before[1:])
            rows = np.flatnonzero(mask)
            self._candidates[symbol] = SymbolRows(rows, before, before[self.layout.after[rows]])
        return self._candidates[symbol]

    def index(self, symbol: Symbol, attribute: str, asked: str) -> Index | None:
        """The symbol's candidates by an attribute, for looking up the values of another."""
        how = (symbol, attribute, asked)
        if how not in self._indexes:
            rows = self.candidates(symbol).rows
            self._indexes[how] = index_of(rows, self.vector(attribute), self.vector(asked))
        return self._indexes[how]

    def overlap(self, first: Symbol, second: Symbol) -> bool:
        """Is there an event of both symbols?"""
        both = frozenset((first, second))
        if both not in self._overlaps:
            instances = self.columns.instances
            self._overlaps[both] = bool((instances(first) & instances(second)).any())
        return self._overlaps[both]

    def reach(self, width: int) -> tuple[Rows, Rows]:
        if width not in self._reach:
            self._reach[width] = self.layout.reach(width)
        return self._reach[width]
