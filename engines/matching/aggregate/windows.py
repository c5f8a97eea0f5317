"""The windows that a match counts in, and tallies of matches in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engines.columns.exact_sums import digits_of
from engines.columns.groups import number_vector, ranges, worst
from engines.columns.layout import Rows, changes_in
from engines.columns.vectors import Array, Vector, compute
from engines.matching.stepwise.steps import Extent, Frame, Name, QueryScan, Slot
from optimizer.ir.pattern import Event, Symbol
from workloads.errors import UnsupportedError


class WindowTally:
    """The number of matches in each window."""

    def __init__(self, windows: int) -> None:
        self._changes = np.zeros(windows + 1, np.int64)

    def add(self, start: Rows, stop: Rows) -> None:
        np.add.at(self._changes, start, 1)
        np.subtract.at(self._changes, stop, 1)

    def counts(self) -> Rows:
        return np.cumsum(self._changes[:-1])


class ValueTally:
    """Aggregates of one attribute over the matches in each window."""

    def __init__(self, windows: int, values: Vector, functions: Iterable[str]) -> None:
        self._values, self._windows = values, windows
        self._present = values.present()
        self._known = WindowTally(windows)
        self._extremes: dict[str, _Extreme] = {}
        self._digits = None
        wanted = set(functions)
        if values.kind == "null":
            return
        if values.kind not in ("int", "float", "bool"):
            raise UnsupportedError(f"an aggregate gives a number, and this is a {values.kind}")
        for function in sorted(wanted & {"min", "max"}):
            self._extremes[function] = _Extreme(function, windows, values)
        if wanted & {"sum", "avg"}:
            self._digits = digits_of(values)
            self._columns = self._digits.columns()
            self._sums = [np.zeros(windows + 1, np.int64) for _ in self._columns]

    def add(self, rows: Rows, start: Rows, stop: Rows) -> None:
        """Add the values of rows, each to a range of windows."""
        if self._values.nulls is not None:
            known = self._present[rows]
            rows, start, stop = rows[known], start[known], stop[known]
        self._known.add(start, stop)
        if self._digits is not None:
            for column, sums in zip(self._columns, self._sums, strict=True):
                terms = column[rows]
                np.add.at(sums, start, terms)
                np.subtract.at(sums, stop, terms)
        for extreme in self._extremes.values():
            extreme.add(rows, start, stop)

    def result(self, function: str) -> Vector:
        """The aggregate for each window; null where there was nothing to aggregate."""
        counts = self._known.counts()
        nulls = counts == 0
        if self._values.kind == "null":
            return Vector("null", np.zeros(len(counts), bool), np.ones(len(counts), bool))
        if function in self._extremes:
            return self._extremes[function].result(nulls)
        assert self._digits is not None
        sums = [np.cumsum(column[:-1]) for column in self._sums]
        total = number_vector(self._digits.total(sums), nulls)
        if function == "sum":
            return total
        return compute("/", total, Vector("int", counts, None, int(counts.max(initial=0))))


class _Extreme:
    """The smallest or largest of values that each stand for a range of windows.

    A range is covered by two overlapping ranges whose length is a power of two; each power has
    its row of a table, and in the end the rows are handed down to that of length one.
    """

    def __init__(self, function: str, windows: int, values: Vector) -> None:
        self._function, self._windows, self._kind = function, windows, values.kind
        self._values: Array = values.values
        self._bound = values.bound
        if values.kind == "bool":
            self._values = self._values.astype(np.int64)
        self._pick: Any = np.minimum if function == "min" else np.maximum
        self._worst = worst(function, self._values.dtype)
        self._rows: dict[int, Array] = {}

    def add(self, rows: Rows, start: Rows, stop: Rows) -> None:
        values = self._values[rows]
        power: npt.NDArray[Any] = np.frexp((stop - start).astype(np.float64))[1] - 1
        for k in np.unique(power).tolist():
            chosen = power == k
            row = self._row(k)
            self._pick.at(row, start[chosen], values[chosen])
            self._pick.at(row, stop[chosen] - 2**k, values[chosen])

    def _row(self, power: int) -> Array:
        if power not in self._rows:
            self._rows[power] = np.full(self._windows, self._worst, self._values.dtype)
        return self._rows[power]

    def result(self, nulls: npt.NDArray[np.bool_]) -> Vector:
        for k in range(max(self._rows, default=0), 0, -1):
            row, below, half = self._row(k), self._row(k - 1), 2 ** (k - 1)
            self._pick(below, row, out=below)
            self._pick(below[half:], row[:-half], out=below[half:])
        found = np.where(nulls, 0, self._row(0))
        kind = "int" if self._kind == "bool" else self._kind
        return Vector(kind, found, nulls, max(1, self._bound))


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
    """A window that closes at each event that can be a match's last."""

    def __init__(self, scan: QueryScan, last: Iterable[Event]) -> None:
        self._scan = scan
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
        return self._before[self._scan.reach_high[rows]]

    def regions(self, windows: Rows) -> tuple[Rows, Rows]:
        rows = self._rows[windows]
        return self._scan.reach_low[rows], self._scan.layout.after[rows]

    def reports(self, windows: Rows, most: int) -> Iterator[Reports]:
        layout = self._scan.layout
        for start in range(0, len(windows), most):
            some = windows[start : start + most]
            rows = self._rows[some]
            yield Reports(some, layout.partition[rows], layout.ticks[rows], rows)


class SlideWindows:
    """A window that closes at every multiple of the slide."""

    def __init__(
        self, scan: QueryScan, symbols: Iterable[Symbol], slide: int, ranked: bool
    ) -> None:
        self._scan, self._slide, self._ranked = scan, slide, ranked
        layout = scan.layout
        relevant = np.zeros(len(layout), bool)
        for symbol in symbols:
            relevant[scan.arranged.candidates(symbol).rows] = True
        # An event may be known by another of its time, which is of no type that is asked for.
        same = np.cumsum(changes_in(layout.partition) | changes_in(layout.position))
        rows = np.flatnonzero(np.isin(same, same[relevant]))
        position, partition = layout.position[rows], layout.partition[rows]
        entered = -(-position // slide)
        left = -(-(position + scan.width) // slide)
        if ranked:
            # Past the partition's last event there is no event whose rank could be the multiple.
            most = layout.position[layout.starts[partition + 1] - 1] // slide + 1
            left = np.maximum(np.minimum(left, most), entered)
        changes = np.concatenate([entered, left])
        owners = np.concatenate([partition, partition])
        order = np.lexsort((changes, owners))
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(changes[order]) != 0) | (np.diff(owners[order]) != 0)
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(new) - 1
        self._multiple, self._partition = changes[order][new], owners[order][new]
        self._entered, self._left = (np.full(len(layout), -1) for _ in range(2))
        self._entered[rows], self._left[rows] = number[: len(rows)], number[len(rows) :]

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
