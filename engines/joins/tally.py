"""Adding up matches over windows: each match counts in a range of consecutive windows.

Counts and sums are kept as differences at the ends of the ranges, so that a match costs the same
in however many windows it lies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.columns.layout import Rows
from engines.columns.over_groups import number_vector, worst
from engines.columns.sums import digits_of
from engines.columns.vectors import Array, Vector, compute
from workloads.errors import UnsupportedError


class Tally:
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
        self._known = Tally(windows)
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
