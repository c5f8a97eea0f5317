"""Secondary indexes: for one attribute of one file, its values in order with the rows they are in.

Beside the row, an entry has the values of the file's columns that are stored in order, among which
is its time: so a probe tells when events happened, and not only in which block they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.access.blocks import Int64s
from engines.access.bloom_filters import encoded
from engines.access.index_files import (
    Manifest,
    StaleIndexError,
    folder_of,
    is_of,
    open_filters,
    open_side,
)
from engines.access.light_index import kind_of
from engines.access.value_marks import ValueMarks, ValueRange, with_marks
from workloads import expressions as ex

RUN_FORM: dict[str, Any] = {"row_group_size": 65_536, "compression": "zstd"}
FEW_VALUES = (
    64  # of a row group: below, that a value lies between its ends says as much as a filter
)
WRONG_PART = 0.05  # of the values that a row group does not have, for which its filter says "maybe"
INDEXED = ("int", "float", "string", "bool")  # kinds of attributes
_LAST = "\U0010ffff"


def ranges_of(condition: ex.Expression, name: str) -> list[ValueRange] | None:
    """Ranges outside of which a condition cannot hold of an attribute; None where it can be any."""
    match condition:
        case ex.Comparison(sign, ex.Attribute(_, found), other) if found == name:
            return _compared(sign, other)
        case ex.Comparison(sign, other, ex.Attribute(_, found)) if found == name:
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            return _compared(mirrored.get(sign, sign), other)
        case ex.Membership(ex.Attribute(_, found), values, False) if found == name:
            listed = [value.value for value in values if value.value is not None]
            return [ValueRange(value, value) for value in listed]
        case ex.TextTest("STARTS WITH", ex.Attribute(_, found), patterns, False, False) if (
            found == name
        ):
            texts = [p.value for p in patterns if isinstance(p, ex.Literal)]
            if len(texts) < len(patterns) or not all(isinstance(text, str) for text in texts):
                return None
            return [ValueRange(text, f"{text}{_LAST}") for text in texts]
        case ex.Logical("OR", parts):
            each = [ranges_of(part, name) for part in parts]
            known = [ranges for ranges in each if ranges is not None]
            return [one for ranges in known for one in ranges] if len(known) == len(each) else None
        case ex.Logical("AND", parts):
            some = [r for part in parts if (r := ranges_of(part, name)) is not None]
            return min(some, key=len) if some else None
        case _:
            return None


def _compared(sign: str, other: ex.Expression) -> list[ValueRange] | None:
    value = other.value if isinstance(other, ex.Literal) else None
    if isinstance(other, ex.Negative) and isinstance(other.operand, ex.Literal):
        negated = other.operand.value
        value = -negated if isinstance(negated, int | float) else None
    if value is None:
        return None
    match sign:
        case "=":
            return [ValueRange(value, value)]
        case "<" | "<=":
            return [ValueRange(None, value, has_high=sign == "<=")]
        case ">" | ">=":
            return [ValueRange(value, None, has_low=sign == ">=")]
        case _:
            return None


def run_table(file: pq.ParquetFile, name: str, ordered: Sequence[str]) -> pa.Table:
    """The sorted run of an attribute; `ordered` are columns that are stored in order."""
    column = file.read(columns=[name]).column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.add(column.cast(pa.float64()), 0.0)  # which makes of both zeros one
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    elif pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    order = np.asarray(pc.sort_indices(column)).astype(np.int64)
    order = order[: len(column) - column.null_count]
    found = {"value": column.take(pa.array(order)), "row": pa.array(order)}
    for number, each in enumerate(ordered):
        times = file.read(columns=[each]).column(each)
        found[f"at_{number}"] = _numbers(times).take(pa.array(order))
    about = {f"at_{number}".encode(): each.encode() for number, each in enumerate(ordered)}
    return with_marks(pa.table(found).replace_schema_metadata(about))


def run_form(table: pa.Table) -> dict[str, Any]:
    """How a run is written: with filters of values where row groups have many different ones."""
    values = table.column("value")
    if not len(values) or pa.types.is_boolean(values.type):
        return RUN_FORM
    changes = np.asarray(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)))
    groups = np.arange(len(changes)) // RUN_FORM["row_group_size"]
    most = int(np.bincount(groups, changes).max(initial=0)) + 1
    if most < FEW_VALUES:
        return RUN_FORM
    return {**RUN_FORM, "bloom_filter_options": {"value": {"ndv": most, "fpp": WRONG_PART}}}


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


@dataclass(frozen=True, eq=False)
class Entries:
    """What a probe found: rows of the file in ascending order, and their times where known."""

    rows: Int64s
    times: Int64s | None


class RunFile:
    """A side file with the sorted run of one attribute, of one data file or of several."""

    def __init__(self, data: str, manifest: Manifest, name: str) -> None:
        side = manifest.on[name]
        self._path = folder_of(data) / side.name
        self._file = open_side(data, side, manifest.footer)
        footer = self._file.metadata
        self._name = name
        self._filters = open_filters(data, side, footer)
        metadata = self._file.schema_arrow.metadata or {}
        self.ordered = {
            value.decode(): key.decode() for key, value in metadata.items() if key[:3] == b"at_"
        }
        self.kind = kind_of(self._file.schema_arrow.field("value").type)
        self._marks = ValueMarks.of(metadata, footer.num_rows)
        self.is_shared = "part" in self._file.schema_arrow.names
        self.sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        self._bounds = []
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(0).statistics
            known = statistics is not None and statistics.has_min_max
            self._bounds.append((statistics.min, statistics.max) if known else None)
        self._groups: dict[tuple[ValueRange, ...], list[int]] = {}
        self._found: dict[tuple[tuple[ValueRange, ...], str | None], pa.Table] = {}

    def part_of(self, manifest: Manifest) -> SortedRun:
        """What it has of a data file whose manifest names it."""
        side = manifest.on[self._name]
        if not is_of(self._file, side, manifest.footer):
            raise StaleIndexError(f"the index file '{self._path}' is of other events")
        share = manifest.rows / max(side.rows, manifest.rows, 1) if self.is_shared else 1.0
        return SortedRun(self, side.part, share)

    def groups(self, ranges: tuple[ValueRange, ...]) -> list[int]:
        """The row groups that may have a value in one of the ranges."""
        if ranges not in self._groups:
            groups = range(len(self.sizes))
            self._groups[ranges] = [g for g in groups if any(self._may(g, r) for r in ranges)]
        return self._groups[ranges]

    def _may(self, group: int, one: ValueRange) -> bool:
        bounds = self._bounds[group]
        if bounds is None:
            return True
        if not one.meets(*bounds):
            return False
        if not one.is_single or self._filters is None:
            return True
        stored = encoded(one.low, self.kind)
        return stored is not None and self._filters.may_have(group, stored)

    def expected(self, ranges: tuple[ValueRange, ...]) -> int:
        """How many entries a probe reads."""
        return sum(self.sizes[group] for group in self.groups(ranges))

    def matching(self, ranges: tuple[ValueRange, ...]) -> float:
        """About how many entries are in one of the ranges; no more than a probe reads."""
        found = sum(self._marks.entries(each) for each in ranges)
        return min(found, float(self.expected(ranges)))

    def entries(self, ranges: tuple[ValueRange, ...], time: str) -> pa.Table:
        """The entries in one of the ranges: `row`, and where they are known `at` and `part`."""
        at = self.ordered.get(time)
        if (ranges, at) not in self._found:
            wanted = ["value", "row", *(["part"] if self.is_shared else []), *([at] if at else [])]
            try:
                table = self._file.read_row_groups(self.groups(ranges), columns=wanted)
            except (pa.ArrowException, OSError) as error:
                why = str(error).splitlines()[0]
                said = f"the index file '{self._path}' cannot be read: {why}"
                raise StaleIndexError(said) from error
            kept = table.filter(pa.array(values_inside(table.column("value"), ranges)))
            names = ["at" if name == at else name for name in wanted]
            self._found[ranges, at] = kept.rename_columns(names).drop_columns("value")
        return self._found[ranges, at]

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, eq=False)
class SortedRun:
    """What a side file has of one data file, whose part has some of all of its entries."""

    file: RunFile
    part: int
    share: float

    @property
    def kind(self) -> str | None:
        return self.file.kind

    def fits(self, ranges: Sequence[ValueRange]) -> bool:
        """Are the ranges of values such as it has?"""
        kinds: dict[str | None, tuple[type, ...]] = {
            "int": (int, float), "float": (int, float), "string": (str,), "bool": (bool,)
        }  # fmt: skip
        ends = [end for each in ranges for end in (each.low, each.high) if end is not None]
        return all(
            type(end) in kinds.get(self.kind, ())
            and not (isinstance(end, int | float) and abs(end) >= 2**53)
            for end in ends
        )

    def expected(self, ranges: tuple[ValueRange, ...]) -> float:
        """About how many entries a probe reads."""
        return self.file.expected(ranges) * self.share

    def matching(self, ranges: tuple[ValueRange, ...]) -> float:
        """About how many entries are in one of the ranges."""
        return self.file.matching(ranges) * self.share

    def probe(self, ranges: tuple[ValueRange, ...], time: str) -> Entries:
        """The entries whose values are in one of the ranges."""
        table = self.file.entries(ranges, time)
        if self.file.is_shared:
            table = table.filter(pc.equal(table.column("part"), self.part))
        rows = table.column("row").to_numpy()
        order = np.argsort(rows, kind="stable")
        has_times = "at" in table.column_names
        times = table.column("at").to_numpy()[order] if has_times else None
        return Entries(rows[order], times)


def values_inside(column: pa.ChunkedArray, ranges: Sequence[ValueRange]) -> npt.NDArray[np.bool_]:
    """Which of the values are in one of the ranges; a null is in none."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = np.zeros(len(column), bool)
    for each in ranges:
        own = np.ones(len(column), bool)
        if each.low is not None:
            test = pc.greater_equal if each.has_low else pc.greater
            own &= np.asarray(pc.fill_null(test(column, each.low), False))
        if each.high is not None:
            test = pc.less_equal if each.has_high else pc.less
            own &= np.asarray(pc.fill_null(test(column, each.high), False))
        found |= own
    return found
