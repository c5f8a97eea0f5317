"""Groups of events of a Kleene pattern, one for each partial match, and functions over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.exact_sums import digits_of
from engines.columns.layout import Rows
from engines.columns.vectors import LARGEST_INT, Array, Mask, Vector, compute
from workloads.errors import UnsupportedError

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class EventGroups:
    """A group of events for each partial match: `rows[offsets[i] : offsets[i + 1]]`, in order.

    Events are rows of a layout, or places.
    """

    offsets: Rows
    rows: Numbers

    @property
    def sizes(self) -> Rows:
        return np.diff(self.offsets)

    @property
    def first(self) -> Numbers:
        return self.rows[self.offsets[:-1]]

    @property
    def last(self) -> Numbers:
        return self.rows[self.offsets[1:] - 1]

    @property
    def owner(self) -> Rows:
        """For each row, the number of its group."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    def take(self, index: Numbers) -> EventGroups:
        sizes = self.sizes[index]
        return EventGroups(ends(sizes), self.rows[ranges(self.offsets[index], sizes)])

    @staticmethod
    def of_matrix(columns: list[Numbers]) -> EventGroups:
        """Groups of one size, given as their first rows, their second rows and so on."""
        count = len(columns[0])
        return EventGroups(
            np.arange(count + 1) * len(columns), np.stack(columns, axis=1).reshape(-1)
        )

    @staticmethod
    def concatenated(parts: list[EventGroups]) -> EventGroups:
        sizes = np.concatenate([part.sizes for part in parts])
        return EventGroups(ends(sizes), np.concatenate([part.rows for part in parts]))


def ends(sizes: Numbers) -> Rows:
    """Offsets of consecutive ranges: 0, and where each ends."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def ranges(starts: Numbers, sizes: Numbers) -> Rows:
    """The numbers of every range `starts[i] … starts[i] + sizes[i] - 1`, one after the other."""
    offsets = ends(sizes)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)


def aggregate(function: str, values: Vector, groups: EventGroups) -> Vector:
    """An aggregate of each group's values; nulls are skipped, and nothing gives null."""
    starts = groups.offsets[:-1]
    if not len(starts):
        return Vector(values.kind, values.values[:0])
    present = values.present()
    counts = np.add.reduceat(present.astype(np.int64), starts)
    if function == "count":
        return Vector("int", counts, None, int(counts.max()))
    if values.kind == "list":
        raise UnsupportedError(f"{function} takes single values, and this is a list")
    if values.kind == "null":
        return Vector("null", np.zeros(len(starts), bool), np.ones(len(starts), bool))
    nulls = counts == 0 if not counts.all() else None
    match function:
        case "sum" | "avg":
            total = _total(values, starts, nulls)
            if function == "sum":
                return total
            return compute("/", total, Vector("int", counts, None, int(counts.max())))
        case "min" | "max":
            return _extreme(function, values, starts, nulls)
        case _:
            return _end(function, values, groups, nulls)


SELECTING = ("first", "last", "min", "max")  # the value of one event


def chosen_rows(function: str, values: Vector, groups: EventGroups) -> Numbers:
    """For each group with a value the first row that has what such a function gives."""
    found, owner = aggregate(function, values, groups), groups.owner
    own, known = values.values, found.values[owner]
    same = (own == known) | ((own != own) & (known != known))  # NaN is of no value the equal
    place = np.flatnonzero(same & values.present())
    edge = np.ones(len(place), bool)
    changes = owner[place[1:]] != owner[place[:-1]]
    (edge[:-1] if function == "last" else edge[1:])[:] = changes
    return groups.rows[place[edge]]


def _total(values: Vector, starts: Rows, nulls: Mask | None) -> Vector:
    if values.kind not in ("int", "float"):
        raise UnsupportedError(f"sum and avg take numbers, and this is a {values.kind}")
    digits = digits_of(values)
    total = digits.total([np.add.reduceat(column, starts) for column in digits.columns()])
    return number_vector(total, nulls)


def number_vector(values: Array, nulls: Mask | None) -> Vector:
    """Totals as a vector: of doubles, of integers, or of objects where those are too large."""
    if values.dtype == object:
        return Vector("object", values, nulls)
    if values.dtype == np.float64:
        return Vector("float", values, nulls)
    largest = int(np.abs(values).max(initial=0))
    return Vector("int", values, nulls, min(largest, LARGEST_INT))


def _extreme(function: str, values: Vector, starts: Rows, nulls: Mask | None) -> Vector:
    chosen = np.minimum if function == "min" else np.maximum
    known = values.values
    if values.kind == "bool":
        known = known.astype(np.int64)
    if values.nulls is not None:
        known = np.where(values.nulls, worst(function, known.dtype), known)
    found = chosen.reduceat(known, starts)
    if values.kind == "bool":
        found = found.astype(bool)
    return Vector(values.kind, found, nulls, values.bound, tick=values.tick)


def worst(function: str, dtype: np.dtype[Any]) -> float | int:
    """What loses against every value."""
    if dtype == np.float64:
        return np.inf if function == "min" else -np.inf
    limits = np.iinfo(np.int64)
    return int(limits.max if function == "min" else limits.min)


def _end(function: str, values: Vector, groups: EventGroups, nulls: Mask | None) -> Vector:
    """The first or the last value that is not null."""
    places = np.arange(len(groups.rows))
    starts = groups.offsets[:-1]
    present = values.present()
    if function == "first":
        found = np.minimum.reduceat(np.where(present, places, len(places)), starts)
    else:
        found = np.maximum.reduceat(np.where(present, places, -1), starts)
    taken = values.take(np.clip(found, 0, len(places) - 1))
    return Vector(taken.kind, taken.values, nulls, taken.bound, tick=taken.tick)
