"""What events that are kept no longer add to counts and sums of their situations.

The first event of a situation has it, in columns beside the attributes: how many values of an
attribute there were, and doubles that together are exactly their sum. So state has a situation and
not its events, and sums are rounded once, whenever and however often events were let go of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.groups import EventGroups, aggregate
from engines.columns.layout import Rows
from engines.columns.vectors import Vector, compute
from optimizer.ir.situations import Definition

PREFIX = "$rest "  # of the columns
SUMMING = ("sum", "avg", "count")
_LARGEST = 2.0**62  # of integers that are summed
_DIGIT_BITS = 26


@dataclass(frozen=True, eq=False)
class Rests:
    """For each event a number of values, and the parts of their sum; mostly nothing."""

    counts: Rows
    parts: tuple[npt.NDArray[np.float64], ...]

    @staticmethod
    def of(columns: Columns, definition: Definition, attribute: str) -> Rests | None:
        """Those that the events of a slice came with, if any."""
        names = _names(definition, attribute)
        if not columns.events.has(count := next(names)):
            return None
        parts = []
        for name in names:
            if not columns.events.has(name):
                break
            parts.append(_numbers(columns, name))
        return Rests(_numbers(columns, count), tuple(parts))

    def take(self, rows: Rows) -> Rests:
        """Those of some events."""
        return Rests(self.counts[rows], tuple(part[rows] for part in self.parts))


def aggregate_all(
    function: str, values: Vector, rests: Rests | None, groups: EventGroups
) -> Vector:
    """As `aggregate`, also of the events that are kept no longer."""
    if rests is None or function not in SUMMING:
        return aggregate(function, values, groups)
    counts = _counts(values, rests, groups)
    counted = Vector("int", counts, None, int(counts.max(initial=0)))
    if function == "count":
        return counted
    found = _total(values, rests, groups)
    known = np.where(found.present(), found.values, 0)  # what is let go of may add up to nothing
    total = Vector(found.kind, known, None if counts.all() else counts == 0, found.bound)
    return total if function == "sum" else compute("/", total, counted)


def may_let_go(values: Vector, rests: Rests | None) -> bool:
    """Are values numbers whose sums doubles can hold?"""
    if values.kind not in ("int", "float") or values.values.dtype == object:
        return False
    known = np.abs(np.where(values.present(), values.values, 0).astype(np.float64))
    if not np.isfinite(known).all():
        return False
    parts = () if rests is None else rests.parts
    most = known.sum() + sum(float(np.abs(part).sum()) for part in parts)
    return bool(np.isfinite(most) and (values.kind == "float" or most < _LARGEST))


def let_go(
    values: Vector, rests: Rests | None, dropped: npt.NDArray[np.bool_], groups: EventGroups
) -> tuple[Rows, list[npt.NDArray[np.float64]]]:
    """Counts, and parts of sums, of the values of each group that are dropped, and of its rests."""
    nulls = ~(values.present() & dropped)
    some = Vector(values.kind, values.values, nulls)
    if rests is None:
        rests = Rests(np.zeros(len(dropped), np.int64), ())
    counts = _counts(some, rests, groups)
    if values.kind not in ("int", "float"):
        return counts, []
    return counts, list(_parts(some, rests, groups))


def named_columns(
    definition: Definition, attribute: str, values: Sequence[npt.NDArray[Any]]
) -> Iterator[tuple[str, pa.Array]]:
    """The columns that counts and parts of sums are kept in."""
    yield from zip(_names(definition, attribute), map(pa.array, values), strict=False)


def _parts(values: Vector, rests: Rests, groups: EventGroups) -> Iterator[npt.NDArray[np.float64]]:
    """Doubles that add up to the sum of each group, without rounding."""
    first = groups.offsets[:-1]
    if values.kind == "int":
        found = _total(values, rests, groups)
        total = np.where(found.present(), found.values, 0).astype(np.int64)
        yield ((total >> _DIGIT_BITS) << _DIGIT_BITS).astype(np.float64)
        yield (total & (2**_DIGIT_BITS - 1)).astype(np.float64)
        return
    while True:
        found = _total(values, rests, groups)
        part = np.where(found.present(), found.values, 0.0)
        if not part.any():
            return
        yield part
        less = np.zeros(len(rests.counts))
        less[first] = -part
        rests = Rests(np.maximum(rests.counts, less != 0), (*rests.parts, less))


def _counts(values: Vector, rests: Rests, groups: EventGroups) -> Rows:
    found: Rows = np.add.reduceat(values.present() + rests.counts, groups.offsets[:-1])
    return found


def _total(values: Vector, rests: Rests, groups: EventGroups) -> Vector:
    """The sum of values and rests: each event has a column of them."""
    kind = np.int64 if values.kind == "int" else np.float64
    columns = [column.astype(kind) for column in (values.values, *rests.parts)]
    nulls = [~values.present(), *[rests.counts == 0] * len(rests.parts)]
    table = Vector(values.kind, np.stack(columns, axis=1).ravel(), np.stack(nulls, axis=1).ravel())
    wide = EventGroups(groups.offsets * len(columns), np.arange(len(table.values)))
    return aggregate("sum", table, wide)


def _names(definition: Definition, attribute: str) -> Iterator[str]:
    """The name of the column of counts, and those of the parts of sums."""
    digest = hashlib.sha256(f"{attribute} of {definition}".encode()).hexdigest()[:16]
    yield f"{PREFIX}{digest}"
    number = 0
    while True:
        yield f"{PREFIX}{digest} {number}"
        number += 1


def _numbers(columns: Columns, name: str) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = pc.fill_null(columns.events.column(name), 0).to_numpy()
    return found
