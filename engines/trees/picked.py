"""The events that some queries look at, in their order, each with a place in it.

Of a stream with hundreds of types a query reads a few: nothing here is as long as the stream but
the number of the set of symbols that each event is of, which all queries share.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.instances import Columns
from engines.columns.layout import (
    Layout,
    Rows,
    arrange,
    blocks,
    changes_in,
    partition_codes,
    settle,
)
from engines.columns.vectors import Vector
from engines.device_kernels import CPU, DeviceKernels
from optimizer.ir.pattern import Symbol
from optimizer.statistics import KeyStatistics
from workloads.errors import UnsupportedError

Places: TypeAlias = npt.NDArray[np.int32]


class TooWideError(UnsupportedError):
    """What the tree engine cannot do in bounded memory, or in 64 bits, and others can."""


class Picked:
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
        wanted = np.array([bool(meaning) for meaning in self._meanings])
        self.layout: Layout | None = None
        if ranked:
            self._rank(key, wanted[codes], width)
        else:
            self._time(key, wanted[codes], width)
        self._sets = codes[self.row]
        self._places: dict[Symbol, Places] = {}
        self._vectors: dict[str, Vector] = {}

    def _time(self, key: tuple[str, ...], wanted: npt.NDArray[np.bool_], width: int) -> None:
        events = self.columns.events
        self.row: Rows = np.flatnonzero(wanted)
        self.partition: Rows | None = None
        if key:
            codes, known = partition_codes(events, key)
            assert codes is not None
            if known is not None:
                self.row = self.row[known[self.row]]
            codes = codes[self.row]
            small = codes.astype(np.uint16) if codes.max(initial=0) < 2**16 else codes
            order = np.argsort(small, kind="stable")
            self.row, codes = self.row[order], codes[order]
            self.partition = np.cumsum(changes_in(codes)) - 1
        self.position: Rows = events.ticks[self.row]
        self.moment: Rows = self.position
        if key or events.sequence is not None:
            changes = changes_in(self.position)
            if self.partition is not None:
                changes |= changes_in(self.partition)
            if events.sequence is not None:
                changes |= changes_in(events.sequence[self.row])
            self.moment = np.cumsum(changes)
        self._shift(width)

    def _rank(self, key: tuple[str, ...], wanted: npt.NDArray[np.bool_], width: int) -> None:
        """Ranks count all events of a partition, whether a query looks at them or not."""
        self.layout = arrange(self.columns.events, key, ranked=True, settled=False)
        self.used = np.flatnonzero(wanted[self.layout.order])
        self.row = self.layout.order[self.used]
        self.partition = self.layout.partition[self.used] if key else None
        self.position = self.layout.position[self.used]
        self.moment = self.layout.block[self.used]
        self._shift(width)

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

    def of(self, symbol: Symbol) -> Places:
        """The places of a symbol's events."""
        if symbol not in self._places:
            has = np.array([symbol in meaning for meaning in self._meanings])
            self._places[symbol] = np.flatnonzero(has[self._sets]).astype(np.int32)
        return self._places[symbol]

    def overlap(self, first: Symbol, second: Symbol) -> bool:
        """May there be an event of both symbols?"""
        return any(first in meaning and second in meaning for meaning in self._meanings)

    def vector(self, name: str) -> Vector:
        """An attribute, by place."""
        if name not in self._vectors:
            self._vectors[name] = self.columns.vector(name).take(self.row)
        return self._vectors[name]

    def at(self, moments: Rows) -> Places:
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
