"""Stored events in blocks: of each its times, and the least and greatest values of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

ALWAYS = 2**62 - 1  # no time is further from zero than this


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of one column in each block.

    `kind` is that of the values: `int`, `float`, `bool` or `string`. Where `known`, all values that
    are neither null nor NaN lie from `least` to `greatest`. `nulls` counts nulls, -1 where nobody
    did, and `empty` is where all values are null. `sets` has the numbers of the `values` that occur
    in each block, as bits, for a column of few texts.
    """

    kind: str
    least: npt.NDArray[Any]
    greatest: npt.NDArray[Any]
    known: Mask
    nulls: Int64s
    empty: Mask
    is_exact: bool = True  # are values compared as they are stored, and not as doubles?
    values: tuple[str, ...] | None = None
    sets: npt.NDArray[np.uint64] | None = None


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of stored events: `low` and `high` are the times that their events lie between.

    `unit` is the number of the row group that has the block, among those of all files. Blocks whose
    rows may not be events are `always` read, so that a run says what is wrong with them. A column
    that is not among `columns` may have any values.
    """

    low: Int64s
    high: Int64s
    rows: Int64s
    unit: Int64s
    always: Mask
    columns: Mapping[str, Bounds] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.low)

    @cached_property
    def first(self) -> Int64s:
        """The first row of each block, among those of all files."""
        return np.cumsum(self.rows) - self.rows

    def always_units(self, units: int) -> Mask:
        """Which of so many row groups are always read."""
        found = np.zeros(units, bool)
        found[self.unit[self.always]] = True
        return found


def bounds_of(
    least: Sequence[Any], greatest: Sequence[Any], nulls: Int64s, empty: Mask, is_exact: bool
) -> Bounds | None:
    """Bounds from single values, None where nobody knows one; None for values of other kinds."""
    known = np.array([low is not None for low in least], bool)
    kinds = {type(value) for pair in (least, greatest) for value in pair if value is not None}
    arrays: list[npt.NDArray[Any]]
    if kinds <= {bool}:
        kind = "bool"
        arrays = [np.array([bool(v) for v in values], bool) for values in (least, greatest)]
    elif kinds <= {int}:
        kind = "int"
        if any(v is not None and not -(2**63) <= v < 2**63 for v in (*least, *greatest)):
            return None
        arrays = [np.array([v or 0 for v in values], np.int64) for values in (least, greatest)]
    elif kinds <= {int, float}:
        kind = "float"
        arrays = [
            np.array([0.0 if v is None else float(v) for v in values], np.float64)
            for values in (least, greatest)
        ]
        known &= ~(np.isnan(arrays[0]) | np.isnan(arrays[1]))
    elif kinds == {str}:
        kind = "string"
        arrays = [np.array([v or "" for v in values], object) for values in (least, greatest)]
    else:
        return None
    return Bounds(kind, arrays[0], arrays[1], known, nulls, empty, is_exact)


def joined_bounds(parts: Sequence[Bounds]) -> Bounds | None:
    """The bounds of blocks one after the other; None where their values are of different kinds."""
    kinds = {part.kind for part in parts if part.known.any()}
    if len(kinds) > 1 and kinds != {"int", "float"}:
        return None
    kind = "float" if len(kinds) > 1 else next(iter(kinds), "bool")

    def ends(name: str) -> npt.NDArray[Any]:
        nothing = {"string": ""}.get(kind, 0)
        types = {"bool": bool, "int": np.int64, "float": np.float64, "string": object}
        found = [
            getattr(part, name) if part.kind in kinds else np.full(len(part.known), nothing, object)
            for part in parts
        ]
        return np.concatenate([each.astype(types[kind]) for each in found])

    return Bounds(
        kind,
        ends("least"),
        ends("greatest"),
        np.concatenate([part.known for part in parts]),
        np.concatenate([part.nulls for part in parts]),
        np.concatenate([part.empty for part in parts]),
        all(part.is_exact for part in parts),
    )
