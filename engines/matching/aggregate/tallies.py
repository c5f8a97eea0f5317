"""Tallies of matches, and of their values, in each window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engines.columns.aggregate_inputs import PartResults, formed
from engines.columns.exact_sums import digits_of
from engines.columns.groups import number_vector, worst
from engines.columns.layout import Rows
from engines.columns.vectors import Array, Mask, Vector
from optimizer.ir.aggregates import Form
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


class Tally(Protocol):
    """Values of rows, each in a range of windows, and what they come to in each window."""

    def add(self, rows: Rows, start: Rows, stop: Rows) -> None: ...

    def result(self, kind: str) -> PartResults: ...


def tally_of(windows: int, values: Vector, kinds: Iterable[str]) -> Tally:
    """A tally of a column of numbers, or of codes of distinct values."""
    wanted = set(kinds)
    return DistinctTally(windows, values) if "distinct" in wanted else ValueTally(
        windows, values, wanted
    )  # fmt: skip


class ValueTally:
    """Sums and extremes of one column over the matches in each window."""

    def __init__(self, windows: int, values: Vector, kinds: Iterable[str]) -> None:
        self._values, self._windows = values, windows
        self._present = values.present()
        self._known = WindowTally(windows)
        self._extremes: dict[str, _Extreme] = {}
        self._digits = None
        wanted = set(kinds)
        if values.kind == "null":
            return
        if values.kind not in ("int", "float", "bool"):
            raise UnsupportedError(f"an aggregate gives a number, and this is a {values.kind}")
        for kind in sorted(wanted & {"min", "max"}):
            self._extremes[kind] = _Extreme(kind, windows, values)
        if "sum" in wanted:
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

    def result(self, kind: str) -> PartResults:
        """The part of an aggregate for each window; null where there was nothing to aggregate."""
        counts = self._known.counts()
        number = Vector("int", counts, None, int(counts.max(initial=0)))
        nulls = counts == 0
        if self._values.kind == "null":
            none = Vector("null", np.zeros(len(counts), bool), np.ones(len(counts), bool))
            return PartResults(none, number)
        if kind in self._extremes:
            return PartResults(self._extremes[kind].result(nulls))
        assert self._digits is not None
        sums = [np.cumsum(column[:-1]) for column in self._sums]
        return PartResults(number_vector(self._digits.total(sums), nulls), number)


class DistinctTally:
    """How many distinct values the matches in each window have."""

    def __init__(self, windows: int, codes: Vector) -> None:
        self._codes, self._windows = codes, windows
        self._ranges: list[npt.NDArray[np.int64]] = []

    def add(self, rows: Rows, start: Rows, stop: Rows) -> None:
        """Add the values of rows, each to a range of windows."""
        some = stop > start
        if self._codes.nulls is not None:
            some &= ~self._codes.nulls[rows]
        rows, start, stop = rows[some], start[some], stop[some]
        if len(rows):
            found = np.stack([self._codes.values[rows], start, stop])
            self._ranges.append(np.unique(found, axis=1))

    def result(self, kind: str) -> PartResults:
        """A value counts once where its ranges overlap."""
        changes = np.zeros(self._windows + 1, np.int64)
        if self._ranges and self._codes.kind != "null":
            codes, start, stop = np.unique(np.concatenate(self._ranges, axis=1), axis=1)
            # Ranges of one value as a stretch of their own, so that they end before the next's.
            base = codes * (self._windows + 1)
            reached = np.maximum.accumulate(base + stop)
            begins = np.ones(len(codes), bool)
            begins[1:] = base[1:] + start[1:] > reached[:-1]
            first = np.flatnonzero(begins)
            np.add.at(changes, start[first], 1)
            np.subtract.at(changes, np.maximum.reduceat(stop, first), 1)
        counts = np.cumsum(changes[:-1])
        return PartResults(Vector("int", counts, None, int(counts.max(initial=0))))


class CollectedValues:
    """Values of matches, each in a range of windows, until all are known."""

    def __init__(self) -> None:
        self._values: list[Vector] = []
        self._start: list[Rows] = []
        self._stop: list[Rows] = []

    def add(self, values: Vector, start: Rows, stop: Rows) -> None:
        self._values.append(values)
        self._start.append(start)
        self._stop.append(stop)

    def tally(self, windows: int, form: Form, kinds: Iterable[str]) -> Tally:
        """What the values come to, in a form of them."""
        values = formed(form, _joined(self._values))
        tally = tally_of(windows, values, kinds)
        if self._start:
            rows = np.arange(len(values.values))
            tally.add(rows, np.concatenate(self._start), np.concatenate(self._stop))
        return tally


def _joined(vectors: list[Vector]) -> Vector:
    """Vectors one after the other; a kind that all numbers have."""
    known = [vector for vector in vectors if vector.kind != "null"]
    size = sum(len(vector.values) for vector in vectors)
    if not known:
        return Vector("null", np.zeros(size, bool), np.ones(size, bool))
    kinds = {vector.kind for vector in known}
    kind = kinds.pop() if len(kinds) == 1 else "object" if "object" in kinds else "float"
    dtype: Any = {"float": np.float64, "object": object}.get(kind, known[0].values.dtype)
    values: Array = np.concatenate(
        [
            np.zeros(len(v.values), dtype) if v.kind == "null" else _as_type(v.values, dtype)
            for v in vectors
        ]
    )
    nulls: Mask = np.concatenate([~vector.present() for vector in vectors])
    return Vector(kind, values, nulls, max(vector.bound for vector in known))


def _as_type(values: Array, dtype: Any) -> Array:
    if dtype is object and values.dtype != object:
        found = np.empty(len(values), object)
        found[:] = values.tolist()
        return found
    return values.astype(dtype, copy=False)


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
