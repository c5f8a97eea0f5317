"""The events that a query selects, and the rows of partial matches over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import (
    Layout,
    Rows,
    blocks,
    changes_in,
    settle,
)
from engines.columns.vectors import Vector
from engines.device_kernels import CPU, DeviceKernels
from kernels.predicates.cpu import rows_in_sets
from kernels.walk.cpu import Reach, reach
from optimizer.ir.pattern import Symbol
from optimizer.statistics import KeyStatistics
from workloads.errors import UnsupportedError

EventNumbers: TypeAlias = npt.NDArray[np.int32]


class TooWideError(UnsupportedError):
    """What the tree engine cannot do in bounded memory, or in 64 bits, and others can.

    `given_until` is set where all matches that end before that place have been given.
    """

    def __init__(self, why: str, given_until: int | None = None) -> None:
        super().__init__(why)
        self.given_until = given_until


class SelectedEvents:
    """Places from 0 on: `row` is the table's row of each, `moment` and `position` as in kernels.

    `width` is the longest window in which places are compared; `kernels` are what joins them.
    """

    def __init__(
        self,
        columns: Columns,
        key: tuple[str, ...],
        ranked: bool,
        symbols: Iterable[Symbol],
        width: int,
        kernels: DeviceKernels = CPU,
    ) -> None:
        self.columns, self.key, self.kernels = columns, key, kernels
        codes, self._meanings = columns.symbol_sets(list(symbols))
        wanted = np.array([bool(meaning) for meaning in self._meanings], np.bool_)
        self.layout: Layout | None = None
        self.partition: Rows | None = None
        if key or ranked:
            self._take(columns.orders.layout(key, ranked, settled=False), wanted[codes], ranked)
        else:
            self.row: Rows = rows_in_sets(codes, wanted, np.empty(len(codes) + 1, np.int64))
            self.position: Rows = columns.events.ticks[self.row]
            self.moment: Rows = self.position
            if columns.events.sequence is not None:
                sequence = columns.events.sequence[self.row]
                self.moment = np.cumsum(changes_in(self.position) | changes_in(sequence))
        self._shift(width)
        self._sets = codes[self.row]
        self._places: dict[Symbol, EventNumbers] = {}
        self._vectors: dict[str, Vector] = {}
        self._reaches: dict[int, Reach] = {}

    def _take(self, layout: Layout, wanted: npt.NDArray[np.bool_], ranked: bool) -> None:
        """The wanted rows of a layout; ranks count all events of a partition, wanted or not."""
        self.used = np.flatnonzero(layout.taken(wanted))
        self.row = layout.order[self.used]
        self.position = layout.position[self.used]
        self.moment = layout.block[self.used]
        if self.key:
            self.partition = np.cumsum(changes_in(layout.partition[self.used])) - 1
        if ranked:
            self.layout = layout

    def _shift(self, width: int) -> None:
        """Move partitions apart, so that nothing of two is in one window."""
        if self.partition is None or not len(self.row):
            return
        starts = np.flatnonzero(changes_in(self.partition))
        ends = np.append(starts[1:], len(self.row)) - 1
        first = self.position[starts]
        spans = self.position[ends] - first + width + 1
        if float(spans.astype(np.float64).sum()) >= 2**61:
            raise TooWideError("its partitions do not fit into one range of times")
        shift = np.concatenate([[0], np.cumsum(spans[:-1])]) - first
        sizes = ends - starts + 1
        self.position = self.position + np.repeat(shift, sizes)

    def __len__(self) -> int:
        return len(self.row)

    def of(self, symbol: Symbol) -> EventNumbers:
        """The places of a symbol's events."""
        if symbol not in self._places:
            has = np.array([symbol in meaning for meaning in self._meanings], np.bool_)
            room = np.empty(len(self._sets) + 1, np.int32)
            self._places[symbol] = rows_in_sets(self._sets, has, room)
        return self._places[symbol]

    def overlap(self, first: Symbol, second: Symbol) -> bool:
        """May there be an event of both symbols?"""
        return any(first in meaning and second in meaning for meaning in self._meanings)

    def vector(self, name: str) -> Vector:
        """An attribute, by place."""
        if name not in self._vectors:
            self._vectors[name] = self.columns.vector(name).take(self.row)
        return self._vectors[name]

    def reach(self, width: int) -> Reach:
        """How far windows and simultaneous events reach, by place."""
        if width not in self._reaches:
            self._reaches[width] = reach(self.moment, self.position, width)
        return self._reaches[width]

    def at(self, moments: Rows) -> EventNumbers:
        """A place of each moment; -1 for such as are before or behind all."""
        if not len(self.row):
            return np.full(len(moments), -1, np.int32)
        found = np.searchsorted(self.moment, moments)
        known = (moments >= self.moment[0]) & (moments <= self.moment[-1])
        return np.where(known, found, -1).astype(np.int32)

    def ticks(self, places: npt.NDArray[Any]) -> Rows:
        """The times of events."""
        found: Rows = self.columns.events.ticks[self.row[places]]
        return found

    @cached_property
    def settled(self) -> Rows | None:
        """Where each place stands if simultaneous events are put in an order of their own, which
        does not depend on that of their arrival; None where that changes nothing."""
        changes = changes_in(self.moment)
        if changes.all():
            return None
        rank = np.empty(len(self.columns.events), np.int64)
        rank[settle(self.columns.events, self.row, *blocks(changes))] = np.arange(len(self.row))
        return rank[self.row]

    @cached_property
    def spread(self) -> KeyStatistics:
        """How the key spreads these events."""
        if self.partition is None or not len(self.row):
            return KeyStatistics(1.0, 1.0)
        sizes = np.bincount(self.partition)
        sizes = sizes[sizes > 0]
        return KeyStatistics(float(len(sizes)), float(sizes.max() / sizes.sum()))


Moments = npt.NDArray[np.int64]
Column: TypeAlias = EventNumbers | EventGroups


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Rows with the places of their components, their first and their last event.

    `earliest` is the moment that a row to the left must not end before, and `latest` the one that
    a row to the right must not start behind, where a negation stands there. `marks` are the readers
    that a row is left for, 64 to a word, by word and then by row.
    """

    columns: tuple[Column, ...]
    first: EventNumbers
    last: EventNumbers
    earliest: Moments | None = None
    latest: Moments | None = None
    marks: npt.NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.last)

    def take(self, rows: npt.NDArray[np.integer]) -> Buffer:
        columns = tuple(_taken(column, rows) for column in self.columns)
        return Buffer(
            columns,
            _same(self.first, self, columns, rows),
            _same(self.last, self, columns, rows),
            None if self.earliest is None else self.earliest[rows],
            None if self.latest is None else self.latest[rows],
            None if self.marks is None else self.marks[:, rows],
        )

    def sorted(self) -> Buffer:
        """The rows by their last event."""
        if (self.last[1:] >= self.last[:-1]).all():
            return self
        return self.take(np.argsort(self.last, kind="stable"))

    def gated(self, earliest: Moments | None, latest: Moments | None) -> Buffer:
        """The rows with the moments of one more negation."""
        if earliest is not None and self.earliest is not None:
            earliest = np.maximum(earliest, self.earliest)
        if latest is not None and self.latest is not None:
            latest = np.minimum(latest, self.latest)
        return replace(
            self,
            earliest=self.earliest if earliest is None else earliest,
            latest=self.latest if latest is None else latest,
        )


def fitting(picked: SelectedEvents, rows: Buffer, width: int) -> Buffer:
    """The rows that lie in a window of a width."""
    fit = picked.position[rows.last] - picked.position[rows.first] < width
    return rows if fit.all() else rows.take(np.flatnonzero(fit))


def first_of(column: Column) -> EventNumbers:
    """The first event that each row has in a column."""
    return column.first if isinstance(column, EventGroups) else column


def last_of(column: Column) -> EventNumbers:
    """The last event that each row has in a column."""
    return column.last if isinstance(column, EventGroups) else column


def of_places(places: EventNumbers) -> Buffer:
    """Single events."""
    return Buffer((places,), places, places)


def paired(
    left: Buffer,
    rows: npt.NDArray[np.integer],
    right: Buffer,
    others: npt.NDArray[np.integer],
) -> tuple[Column, ...]:
    """The columns of pairs of rows."""
    return (
        *(_taken(column, rows) for column in left.columns),
        *(_taken(column, others) for column in right.columns),
    )


def in_order(left: Buffer, rows: EventNumbers, right: Buffer, others: EventNumbers) -> Buffer:
    """Pairs of rows of which the right one follows the left one."""
    columns = paired(left, rows, right, others)
    return Buffer(
        columns,
        _same(left.first, left, columns, rows),
        _same(right.last, right, columns[len(left.columns) :], others),
        None if left.earliest is None else left.earliest[rows],
        None if right.latest is None else right.latest[others],
    )


def together(left: Buffer, rows: EventNumbers, right: Buffer, others: EventNumbers) -> Buffer:
    """Pairs of rows in any order."""
    columns = paired(left, rows, right, others)
    return Buffer(
        columns,
        np.minimum(left.first[rows], right.first[others]),
        np.maximum(left.last[rows], right.last[others]),
    )


def concatenated(parts: Sequence[Buffer], width: int) -> Buffer:
    """The rows of several buffers, one behind the other; `width` columns where there are none."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, np.int32)
        return Buffer((none,) * width, none, none)
    columns = tuple(
        _behind_each_other([part.columns[i] for part in parts])
        for i in range(len(parts[0].columns))
    )
    earliest = [part.earliest for part in parts if part.earliest is not None]
    latest = [part.latest for part in parts if part.latest is not None]
    marks = [part.marks for part in parts if part.marks is not None]
    return Buffer(
        columns,
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.last for part in parts]),
        np.concatenate(earliest) if earliest else None,
        np.concatenate(latest) if latest else None,
        np.concatenate(marks, axis=1) if marks else None,
    )


def chunks(counts: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int, int]]:
    """Ranges of rows that have no more than `most` together, and how many; one row at the least."""
    total = np.cumsum(counts)
    if not len(total) or not total[-1]:
        return
    start, done = 0, 0
    while done < total[-1]:
        stop = max(start + 1, int(np.searchsorted(total, done + most, "right")))
        many = int(total[stop - 1]) - done
        if many:
            yield start, stop, many
        start, done = stop, int(total[stop - 1])


def _behind_each_other(columns: list[Column]) -> Column:
    groups = [column for column in columns if isinstance(column, EventGroups)]
    if groups:
        return EventGroups.concatenated(groups)
    return np.concatenate([column for column in columns if not isinstance(column, EventGroups)])


def _taken(column: Column, rows: npt.NDArray[np.integer]) -> Column:
    return column.take(rows) if isinstance(column, EventGroups) else column[rows]


def _same(
    column: EventNumbers,
    buffer: Buffer,
    taken: tuple[Column, ...],
    rows: npt.NDArray[np.integer],
) -> EventNumbers:
    """A column of taken rows, which is mostly that of a component and need not be taken again."""
    for i, known in enumerate(buffer.columns):
        if column is known:
            again = taken[i]
            assert not isinstance(again, EventGroups)
            return again
    found: EventNumbers = column[rows]
    return found
