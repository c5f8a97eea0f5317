"""The windows that a match counts in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from engines.columns.groups import ranges
from engines.columns.layout import Layout, Rows, changes_in
from engines.matching.stepwise.steps import Extent, Frame, Name, QueryScan, Slot
from optimizer.ir.pattern import Event, Symbol


class Windows(Protocol):
    """What the two kinds of window have in common; all arguments and results are by row."""

    def __len__(self) -> int: ...

    def entered(self, rows: Rows) -> Rows:
        """The first window that holds a row."""
        ...

    def left(self, rows: Rows) -> Rows:
        """The first window after those that hold a row."""
        ...

    def regions(self, windows: Rows) -> tuple[Rows, Rows]:
        """The ranges of rows in windows."""
        ...

    def reports(self, windows: Rows, most: int) -> Iterator[Reports]:
        """What is reported for windows, in parts of so many rows at the most."""
        ...


@dataclass(frozen=True, eq=False)
class Reports:
    """When windows are reported: for each report its window, partition, time and sequence row."""

    window: Rows
    partition: Rows
    ticks: Rows
    row: Rows | None  # whose sequence number goes with it


class TriggerWindows:
    """A window that closes at each event that can be a match's last.

    It holds events from the position `opens` on, where that is not their own.
    """

    def __init__(self, scan: QueryScan, last: Iterable[Event], opens: Rows | None = None) -> None:
        self._scan, self._opens = scan, opens
        layout = scan.layout
        triggers = np.zeros(len(layout), bool)
        for event in last:
            triggers[layout.block[scan.arranged.candidates(event.symbol).rows]] = True
        self._rows = np.flatnonzero(triggers)
        self._before = np.zeros(len(layout) + 1, np.int64)
        np.cumsum(triggers, out=self._before[1:])

    def __len__(self) -> int:
        return len(self._rows)

    def entered(self, rows: Rows) -> Rows:
        return self._before[self._scan.layout.block[rows]]

    def left(self, rows: Rows) -> Rows:
        if self._opens is None:
            return self._before[self._scan.reach_high[rows]]
        layout, held = self._scan.layout, self._opens[rows] + self._scan.width - 1
        return self._before[layout.rows_until(layout.partition[rows], held)]

    def regions(self, windows: Rows) -> tuple[Rows, Rows]:
        rows = self._rows[windows]
        return self._scan.reach_low[rows], self._scan.layout.after[rows]

    def reports(self, windows: Rows, most: int) -> Iterator[Reports]:
        layout = self._scan.layout
        for start in range(0, len(windows), most):
            some = windows[start : start + most]
            rows = self._rows[some]
            yield Reports(some, layout.partition[rows], layout.ticks[rows], rows)


@dataclass(frozen=True, eq=False)
class WindowEdges:
    """Between which multiples of the slide the windows of each partition close, the end excluded.

    `shift` is the time of each partition that has the position 0. With `empty` windows without
    events are reported too.
    """

    begin: Rows
    end: Rows
    shift: Rows | None = None
    empty: bool = False


class SessionWindows:
    """A window for each partition of a layout: its sessions, and when each of them closes."""

    def __init__(self, layout: Layout, closes: Rows) -> None:
        self._layout, self._closes = layout, closes

    def __len__(self) -> int:
        return len(self._closes)

    def entered(self, rows: Rows) -> Rows:
        return self._layout.partition[rows]

    def left(self, rows: Rows) -> Rows:
        return self._layout.partition[rows] + 1

    def regions(self, windows: Rows) -> tuple[Rows, Rows]:
        return self._layout.starts[windows], self._layout.starts[windows + 1]

    def reports(self, windows: Rows, most: int) -> Iterator[Reports]:
        for start in range(0, len(windows), most):
            some = windows[start : start + most]
            yield Reports(some, some, self._closes[some], None)


class SlideWindows:
    """A window that closes at every multiple of the slide, as far as `edges` let it."""

    def __init__(
        self,
        scan: QueryScan,
        symbols: Iterable[Symbol],
        slide: int,
        ranked: bool,
        edges: WindowEdges | None = None,
        opens: Rows | None = None,
    ) -> None:
        self._scan, self._slide, self._ranked = scan, slide, ranked
        self._shift = None if edges is None else edges.shift
        layout = scan.layout
        relevant = np.zeros(len(layout), bool)
        for symbol in symbols:
            relevant[scan.arranged.candidates(symbol).rows] = True
        # An event may be known by another of its time, which is of no type that is asked for.
        same = np.cumsum(changes_in(layout.partition) | changes_in(layout.position))
        rows = np.flatnonzero(np.isin(same, same[relevant]))
        position, partition = layout.position[rows], layout.partition[rows]
        entered = -(-position // slide)
        began = position if opens is None else opens[rows]
        left = np.maximum(-(-(began + scan.width) // slide), entered)
        if ranked:
            # Past the partition's last event there is no event whose rank could be the multiple.
            most = layout.position[layout.starts[partition + 1] - 1] // slide + 1
            left = np.maximum(np.minimum(left, most), entered)
        if edges is not None:
            begin, end = edges.begin[partition], edges.end[partition]
            entered = np.clip(entered, begin, end)
            left = np.clip(left, entered, end)
        changes = np.concatenate([entered, left])
        owners = np.concatenate([partition, partition])
        if edges is not None and edges.empty:
            every = np.arange(len(edges.begin))
            changes = np.concatenate([changes, edges.begin, edges.end])
            owners = np.concatenate([owners, every, every])
        order = np.lexsort((changes, owners))
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(changes[order]) != 0) | (np.diff(owners[order]) != 0)
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(new) - 1
        self._multiple, self._partition = changes[order][new], owners[order][new]
        self._entered, self._left = (np.full(len(layout), -1) for _ in range(2))
        self._entered[rows], self._left[rows] = (
            number[: len(rows)],
            number[len(rows) : 2 * len(rows)],
        )

    def __len__(self) -> int:
        return len(self._multiple)

    def entered(self, rows: Rows) -> Rows:
        return self._entered[rows]

    def left(self, rows: Rows) -> Rows:
        return self._left[rows]

    def regions(self, windows: Rows) -> tuple[Rows, Rows]:
        low, high = self._regions
        return low[windows], high[windows]

    @cached_property
    def _regions(self) -> tuple[Rows, Rows]:
        end = self._multiple * self._slide
        until = self._scan.layout.rows_until
        return until(self._partition, end - self._scan.width), until(self._partition, end)

    def reports(self, windows: Rows, most: int) -> Iterator[Reports]:
        following = np.minimum(windows + 1, len(self) - 1)
        same = (self._partition[following] == self._partition[windows]) & (following > windows)
        sizes = np.where(same, self._multiple[following] - self._multiple[windows], 0)
        ends = np.cumsum(sizes)
        # Report r is of the first window that ends behind it.
        for start in range(0, int(ends[-1]) if len(ends) else 0, most):
            report = np.arange(start, min(start + most, int(ends[-1])))
            place = np.searchsorted(ends, report, "right")
            window = windows[place]
            number = report - (ends[place] - sizes[place])
            end = (self._multiple[window] + number) * self._slide
            partition = self._partition[window]
            if self._ranked:
                layout = self._scan.layout
                end = layout.ticks[layout.rows_until(partition, end) - 1]
            if self._shift is not None:
                end = end + self._shift[partition]
            yield Reports(window, partition, end, None)


@dataclass(frozen=True, eq=False)
class InRanges:
    """Find the range of windows that hold each match; its region is all that they hold."""

    windows: Windows
    extent: Extent

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        first, last = self.extent.of(frame)
        columns: dict[Name, Rows] = {
            Slot.START: self.windows.entered(last),
            Slot.STOP: self.windows.left(first),
            Slot.OPENING: scan.reach_low[last],
            Slot.CLOSING: scan.reach_high[first],
        }
        yield somewhere(frame.extended(None, columns))


def somewhere(frame: Frame) -> Frame:
    """The matches that are in any window."""
    found = frame.column(Slot.START) < frame.column(Slot.STOP)
    return frame if found.all() else frame.take(np.flatnonzero(found))


@dataclass(frozen=True, eq=False)
class InWindows:
    """Look at each partial match in every window that holds it."""

    windows: Windows
    extent: Extent  # of what is bound so far

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        first, last = self.extent.of(frame)
        start, stop = self.windows.entered(last), self.windows.left(first)
        sizes = np.maximum(stop - start, 0)
        for part in scan.chunks(sizes, "its windows"):
            index = np.repeat(np.arange(part.start, part.stop), sizes[part])
            window = ranges(start[part], sizes[part])
            yield frame.extended(index, window_columns(self.windows, window))


def window_columns(windows: Windows, window: Rows) -> dict[Name, Rows]:
    """The region that a window opens."""
    low, high = windows.regions(window)
    return {
        Slot.START: window,
        Slot.STOP: window + 1,
        Slot.OPENING: low,
        Slot.CLOSING: high,
        Slot.LAST: high,
    }
