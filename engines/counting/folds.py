"""Aggregate queries over single events: columns folded pane by pane, whatever the windows.

A query of one component has its events for matches, so nothing is multiplied: a pane of events
comes to a count, a sum, a minimum and a maximum, and a window to those of its panes
(`kernels.folds.cpu`). Queries of one symbol share its panes, which are cut where any of their
windows opens or closes, and each attribute is folded once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.columns.vectors import Vector
from engines.counting.letters import CountResult, value_columns, wanted_values
from engines.counting.pane_tables import WindowSpan, cuts_of
from kernels.folds import cpu as kernel
from kernels.folds.cpu import NO_NULLS, NONE, Digits, PaneFolds
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.pattern import Symbol, positive_events
from optimizer.ir.query import Query

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

NO_DIGITS = Digits(0, 1, 0)


class TableOrder(Layout):
    """Events without a key in the order of their table: what folds of sliding windows need.

    Which of them are simultaneous is not looked at.
    """

    @staticmethod
    def of(ticks: Int64s) -> TableOrder:
        size, none = len(ticks), np.zeros(0, np.int64)
        partition = np.broadcast_to(np.int64(0), size)
        starts = np.array([0, size])
        return TableOrder(np.arange(size), partition, starts, none, none, ticks, ticks)

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values

    @property
    def untouched(self) -> bool:
        return True


def keeps_table_order(queries: Sequence[Query]) -> bool:
    """Do queries, as a unit of folds, take events as they stand in the table?"""
    return not any(q.key or q.window.is_count or q.slide is None for q in queries)


def count_folds(
    queries: Sequence[Query],
    columns: Columns,
    layout: Layout,
    spans: Sequence[WindowSpan],
    is_count: bool,
) -> CountResult:
    """The rows of queries over single events, each with its own window and slide (0: per trigger).

    Either all of them slide or none.
    """
    by_symbol: dict[Symbol, list[int]] = {}
    for q, query in enumerate(queries):
        (event,) = positive_events(query.pattern)
        by_symbol.setdefault(event.symbol, []).append(q)
    found: dict[int, QueryRows] = {}
    events = 0
    for symbol, members in by_symbol.items():
        stream = SymbolEvents.of(columns, layout, symbol)
        events += stream.size
        panes = panes_of(stream, layout, [spans[q] for q in members])
        folded = _folds(panes, columns, [queries[q] for q in members])
        windows: dict[WindowSpan, Windows] = {}
        for q in members:
            if spans[q] not in windows:
                windows[spans[q]] = _windows(panes, layout, spans[q], is_count)
            found[q] = QueryRows(windows[spans[q]], folded)
    return joined_rows(queries, [found[q] for q in range(len(queries))], events)


@dataclass(frozen=True, eq=False)
class SymbolEvents:
    """The instances of a symbol: their rows, partition by partition; None are all of a layout."""

    rows: Int64s | None
    run: Int64s  # pointers to them by partition that has any
    partition: Int64s  # by run
    position: Int64s
    source: Int64s  # rows of the table; none where they are those of the layout

    @property
    def size(self) -> int:
        return len(self.position)

    @staticmethod
    def of(columns: Columns, layout: Layout, symbol: Symbol) -> SymbolEvents:
        mask = layout.taken(_instances(columns, symbol))
        if mask.all():
            partitions = np.arange(len(layout.starts) - 1)
            source = NONE if layout.untouched else layout.order
            return SymbolEvents(None, layout.starts, partitions, layout.position, source)
        rows = np.flatnonzero(mask)
        partition = layout.partition[rows]
        starts = np.flatnonzero(np.diff(partition, prepend=-1))
        return SymbolEvents(
            rows,
            np.append(starts, len(rows)),
            partition[starts],
            layout.position[rows],
            layout.order[rows],
        )

    def of_layout(self, places: Int64s) -> Int64s:
        """The rows of the layout of some of them."""
        return places if self.rows is None else self.rows[places]


def _instances(columns: Columns, symbol: Symbol) -> npt.NDArray[np.bool_]:
    """Which events are of a symbol; a type alone is looked up without numbering all types."""
    if symbol.predicates:
        return columns.instances(symbol)
    codes, sets = columns.symbol_sets([symbol])
    if len(sets) == 1:
        return np.full(len(codes), symbol in sets[0])
    mask: npt.NDArray[np.bool_] = np.array([symbol in found for found in sets])[codes]
    return mask


@dataclass(frozen=True, eq=False)
class Panes:
    """Stretches of a symbol's events."""

    events: SymbolEvents
    run: Int64s  # pointers to panes
    row: Int64s  # pointers to events by pane

    @cached_property
    def first(self) -> Int64s:
        return self.events.position[self.row[:-1]]

    @cached_property
    def last(self) -> Int64s:
        return self.events.position[self.row[1:] - 1]


def panes_of(events: SymbolEvents, layout: Layout, spans: Sequence[WindowSpan]) -> Panes:
    """Cut where windows open and close; without slides, one for the events of each moment."""
    if spans[0].slide:
        run, row = kernel.cut_panes(events.run, events.position, cuts_of(spans))
        return Panes(events, run, row)
    block = layout.block[:-1] if events.rows is None else layout.block[events.rows]
    changes = np.ones(len(block), bool)
    np.not_equal(block[1:], block[:-1], out=changes[1:])
    row = np.append(np.flatnonzero(changes), len(block))
    return Panes(events, np.searchsorted(row, events.run), row)


class Folded:
    """Running totals of an attribute over panes, and its extremes in each."""

    def __init__(self, found: PaneFolds, digits: Digits) -> None:
        self.digits, self.low, self.high = digits, found.low, found.high
        self._number = _running(found.number)
        self._sums = [_running(digit) for digit in found.sums]

    @staticmethod
    def of(panes: Panes, vector: Vector, wanted: frozenset[str]) -> Folded:
        return Folded(*fold_column(panes, vector, wanted))

    def number(self, low: Int64s, high: Int64s) -> Int64s:
        """Values in ranges of panes."""
        return self._number[high] - self._number[low]

    def sums(self, low: Int64s, high: Int64s) -> Float64s:
        """The sums of ranges of panes."""
        differences = np.array([total[high] - total[low] for total in self._sums])
        return kernel.rounded_sums(differences, self.digits)


def fold_column(panes: Panes, vector: Vector, wanted: frozenset[str]) -> tuple[PaneFolds, Digits]:
    """What an attribute comes to in each pane, and how its sums are cut into digits."""
    values, nulls = vector.values, NO_NULLS if vector.nulls is None else vector.nulls
    source, size = panes.events.source, panes.events.size
    digits = NO_DIGITS
    if vector.kind == "null":
        values, nulls = np.zeros(len(values)), np.ones(len(values), bool)
    elif vector.kind != "float":
        values = values.astype(np.int64, copy=False)
    if "sum" in wanted and vector.kind in ("float", "null"):
        digits = kernel.digits_of(*kernel.spread(values, nulls, source), size)
    elif "sum" in wanted:
        digits = kernel.whole_digits_of(max(1, vector.bound), size)
    extremes = bool(wanted & {"min", "max"})
    return kernel.fold_panes(values, nulls, source, panes.row, digits, extremes), digits


def _running(numbers: Int64s) -> Int64s:
    totals = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=totals[1:])
    return totals


def wanted_folds(queries: Iterable[Query]) -> Mapping[InputColumn, set[str]]:
    """The columns that queries aggregate, and to what: sums, minima, maxima, distinct values."""
    wanted: dict[InputColumn, set[str]] = {}
    for query in queries:
        for part in wanted_values(query):
            wanted.setdefault(part.column, set()).add(part.kind)
    return wanted


def _folds(
    panes: Panes, columns: Columns, queries: Iterable[Query]
) -> Mapping[InputColumn, Folded | _Codes]:
    """Each column that queries aggregate, folded once."""
    wanted = wanted_folds(queries)
    return {
        column: _Codes.of(panes, columns.input(column))
        if "distinct" in kinds
        else Folded.of(panes, columns.input(column), frozenset(kinds))
        for column, kinds in wanted.items()
    }


@dataclass(frozen=True, eq=False)
class _Codes:
    """A number for the distinct values of events, in the order of panes; -1 for null."""

    numbers: Int64s
    row: Int64s  # pointers to them by pane

    @staticmethod
    def of(panes: Panes, vector: Vector) -> _Codes:
        found = np.where(vector.present(), vector.values, -1).astype(np.int64)
        source = panes.events.source
        return _Codes(found[source] if source.size else found, panes.row)

    def distinct(self, low: Int64s, high: Int64s) -> Int64s:
        """How many distinct values there are in ranges of panes."""
        return kernel.range_distinct(self.numbers, self.row[low], self.row[high])


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a width and slide that hold events: ranges of panes."""

    low: Int64s
    high: Int64s
    boundary: Int64s
    last: Int64s  # rows of the layout
    counts: Int64s


def _windows(panes: Panes, layout: Layout, span: WindowSpan, is_count: bool) -> Windows:
    ends = layout.position[layout.starts[panes.events.partition + 1] - 1]
    # A window counted in events ends with the stream; one in time is looked at until it is empty.
    limit = ends if is_count else ends + span.width
    low, high, boundary = kernel.window_ranges(panes.run, panes.first, panes.last, limit, *span)
    last = panes.events.of_layout(panes.row[high] - 1)
    if is_count and span.slide:
        # The window may end with an event that is none of the symbol's.
        last = layout.rows_until(layout.partition[last], boundary) - 1
    return Windows(low, high, boundary, last, panes.row[high] - panes.row[low])


@dataclass(frozen=True, eq=False)
class QueryRows:
    """What a query's rows are made of."""

    windows: Windows
    folded: Mapping[InputColumn, Folded | _Codes]


def joined_rows(queries: Sequence[Query], found: Sequence[QueryRows], events: int) -> CountResult:
    """The rows of all queries, one after the other."""
    ends = np.cumsum([0, *(len(rows.windows.low) for rows in found)])
    most = max(sum(2 if p.kind == "sum" else 1 for p in wanted_values(query)) for query in queries)
    values = np.empty((int(ends[-1]), most))
    for query, rows, start, end in zip(queries, found, ends[:-1], ends[1:], strict=True):
        places, (low, high) = value_columns(query), (rows.windows.low, rows.windows.high)
        for part in wanted_values(query):
            at, folded = places[part], rows.folded[part.column]
            if isinstance(folded, _Codes):
                values[start:end, at] = folded.distinct(low, high)
            elif part.kind == "sum":
                values[start:end, at] = folded.sums(low, high)
                values[start:end, at + 1] = folded.number(low, high)
            else:
                column = folded.high if part.kind == "max" else folded.low
                least = part.kind == "max"
                values[start:end, at] = kernel.range_extremes(column, low, high, least)
    counts = np.concatenate([rows.windows.counts for rows in found])
    return CountResult(
        ends,
        np.arange(len(counts)),
        np.concatenate([rows.windows.last for rows in found]),
        np.concatenate([rows.windows.boundary for rows in found]),
        counts.view(np.uint64),
        counts.astype(np.float64),
        np.ones(len(counts), np.bool_),
        values,
        events,
    )
