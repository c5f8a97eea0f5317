"""Folds of stretches of events that are known by what their columns come to.

A stretch lies between two cuts, and its events are of one symbol: a block of which an index has
counts, sums and extremes, or events that were read. Stretches are folded to panes as events are,
and windows put together from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.access.exact_parts import parts_of
from engines.access.stretches import ColumnStretches, Stretches
from engines.columns.columns import Columns
from engines.counting.folds import (
    Folded,
    QueryRows,
    SymbolEvents,
    TableOrder,
    Windows,
    fold_column,
    joined_rows,
    panes_of,
    wanted_folds,
)
from engines.counting.letters import CountResult
from engines.counting.pane_tables import WindowSpan, cuts_of
from kernels.folds import cpu as kernel
from kernels.folds.cpu import NO_NULLS, NONE, PaneFolds
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query

Int64s = npt.NDArray[np.int64]


def stretches_of(
    columns: Columns, symbol: Symbol, queries: Sequence[Query], spans: Sequence[WindowSpan]
) -> Stretches:
    """The stretches of events that are there; `queries` are those of the symbol."""
    events = SymbolEvents.of(columns, TableOrder.of(columns.events.ticks), symbol)
    layout = TableOrder.of(columns.events.ticks)
    panes = panes_of(events, layout, spans)
    found = {}
    for column, kinds in wanted_folds(queries).items():
        vector = columns.input(column)
        folds, digits = fold_column(panes, vector, frozenset(kinds))
        if vector.kind == "null":
            parts = np.zeros((0, len(folds.number)))
        elif vector.kind == "float":
            parts = parts_of(folds.sums, digits)
        else:
            assert digits.limbs <= 1, "integers are too large to be summed up by stretches"
            parts = folds.sums
        found[column] = ColumnStretches(folds.number, parts, folds.low, folds.high)
    return Stretches(panes.first, panes.last, np.diff(panes.row), found)


def count_stretches(
    queries: Sequence[Query],
    symbols: Sequence[Symbol],
    by_symbol: Mapping[Symbol, Stretches],
    spans: Sequence[WindowSpan],
    end: int,
) -> CountResult:
    """The rows of queries, each of the symbol and with the window and slide at its place.

    `end` is the time of the last event of the stream, whatever its symbol.
    """
    found: dict[int, QueryRows] = {}
    for symbol in dict.fromkeys(symbols):
        members = [place for place, each in enumerate(symbols) if each == symbol]
        panes = _panes(by_symbol[symbol], [spans[q] for q in members])
        kinds = wanted_folds([queries[q] for q in members])
        columns = {column: panes.folded(column, wanted) for column, wanted in kinds.items()}
        for q in members:
            found[q] = QueryRows(panes.windows(spans[q], end), columns)
    events = sum(int(stretches.rows.sum()) for stretches in by_symbol.values())
    return joined_rows(queries, [found[q] for q in range(len(queries))], events)


@dataclass(frozen=True, eq=False)
class _StretchPanes:
    """Stretches in the order of time, and pointers to them by pane."""

    stretches: Stretches
    order: Int64s
    row: Int64s

    def _folded_by(self, fold: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What values of stretches come to in each pane."""
        if not len(values) or len(self.row) == 1:
            return values[:0]
        found: npt.NDArray[Any] = fold.reduceat(values[self.order], self.row[:-1])
        return found

    def folded(self, column: InputColumn, wanted: Iterable[str]) -> Folded:
        found = self.stretches.columns[column]
        parts = np.ascontiguousarray(found.parts[:, self.order].T).reshape(-1)
        row = self.row * len(found.parts)
        if parts.dtype == np.int64:
            bound = max(abs(int(v)) for v in (parts.min(initial=0), parts.max(initial=0)))
            digits = kernel.whole_digits_of(max(1, bound), len(parts))
        else:
            digits = kernel.digits_of(*kernel.spread(parts, NO_NULLS, NONE), len(parts))
        sums = kernel.fold_panes(parts, NO_NULLS, NONE, row, digits, False).sums
        return Folded(
            PaneFolds(
                self._folded_by(np.add, found.number),
                sums,
                self._folded_by(np.minimum, found.low),
                self._folded_by(np.maximum, found.high),
            ),
            digits,
        )

    def windows(self, span: WindowSpan, end: int) -> Windows:
        first = self._folded_by(np.minimum, self.stretches.first)
        last = self._folded_by(np.maximum, self.stretches.last)
        run, limit = np.array([0, len(first)]), np.array([end + span.width])
        low, high, boundary = kernel.window_ranges(run, first, last, limit, *span)
        rows = np.append(0, np.cumsum(self._folded_by(np.add, self.stretches.rows)))
        return Windows(low, high, boundary, np.zeros(len(low), np.int64), rows[high] - rows[low])


def _panes(stretches: Stretches, spans: Sequence[WindowSpan]) -> _StretchPanes:
    order = np.argsort(stretches.first, kind="stable")
    run = np.array([0, len(order)])
    _, row = kernel.cut_panes(run, stretches.first[order], cuts_of(spans))
    return _StretchPanes(stretches, order, row)
