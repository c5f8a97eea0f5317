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
from engines.access.index_files import Manifest, StaleIndexError, folder_of, open_side
from engines.access.light_index import kind_of
from workloads import expressions as ex

RUN_GROUP_ROWS = 65_536
TEXT_PART = 0.1  # of the entries of a row group, of which only the first and the last are known
INDEXED = ("int", "float", "string", "bool")  # kinds of attributes
_LAST = "\U0010ffff"


@dataclass(frozen=True)
class ValueRange:
    """Values from `low` to `high`; None is no bound."""

    low: Any = None
    high: Any = None
    has_low: bool = True  # is `low` itself one of them?
    has_high: bool = True

    def meets(self, least: Any, greatest: Any) -> bool:
        """Can a value from least to greatest be in it?"""
        below = self.high is not None and (
            least > self.high or (least == self.high and not self.has_high)
        )
        above = self.low is not None and (
            greatest < self.low or (greatest == self.low and not self.has_low)
        )
        return not below and not above

    def part(self, least: Any, greatest: Any) -> float:
        """The part of values from least to greatest that is in it, if they lie evenly."""
        if not self.meets(least, greatest):
            return 0.0
        ends = (least, greatest)
        if any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends):
            return 1.0 if least == greatest else TEXT_PART
        if least == greatest:
            return 1.0
        low = least if self.low is None else max(self.low, least)
        high = greatest if self.high is None else min(self.high, greatest)
        step = 1 if isinstance(least, int) else 0  # a single integer is a value among others
        return float(min((high - low + step) / (greatest - least + step), 1.0))


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
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    order = np.asarray(pc.sort_indices(column)).astype(np.int64)
    order = order[: len(column) - column.null_count]
    found = {"value": column.take(pa.array(order)), "row": pa.array(order)}
    for number, each in enumerate(ordered):
        times = file.read(columns=[each]).column(each)
        found[f"at_{number}"] = _numbers(times).take(pa.array(order))
    about = {f"at_{number}".encode(): each.encode() for number, each in enumerate(ordered)}
    return pa.table(found).replace_schema_metadata(about)


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


@dataclass(frozen=True, eq=False)
class Entries:
    """What a probe found: rows of the file in ascending order, and their times where known."""

    rows: Int64s
    times: Int64s | None


class SortedRun:
    """The sorted run of one attribute of one data file, as it is probed."""

    def __init__(self, data: str, manifest: Manifest, name: str) -> None:
        self._path = folder_of(data) / manifest.on[name].name
        self._file = open_side(data, manifest.on[name], manifest.footer)
        metadata = self._file.schema_arrow.metadata or {}
        self._ordered = {
            value.decode(): key.decode() for key, value in metadata.items() if key[:3] == b"at_"
        }
        self.kind = kind_of(self._file.schema_arrow.field("value").type)
        self._bounds = []
        for group in range(self._file.num_row_groups):
            statistics = self._file.metadata.row_group(group).column(0).statistics
            known = statistics is not None and statistics.has_min_max
            self._bounds.append((statistics.min, statistics.max) if known else None)

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

    def expected(self, ranges: Sequence[ValueRange]) -> int:
        """About how many entries a probe reads."""
        rows = [self._file.metadata.row_group(g).num_rows for g in self._groups(ranges)]
        return sum(rows)

    def matching(self, ranges: Sequence[ValueRange]) -> float:
        """About how many entries are in one of the ranges, as if values lay evenly."""
        found = 0.0
        for group in self._groups(ranges):
            rows, bounds = self._file.metadata.row_group(group).num_rows, self._bounds[group]
            part = 1.0 if bounds is None else sum(each.part(*bounds) for each in ranges)
            found += rows * min(part, 1.0)
        return found

    def _groups(self, ranges: Sequence[ValueRange]) -> list[int]:
        return [
            group
            for group, bounds in enumerate(self._bounds)
            if bounds is None or any(each.meets(*bounds) for each in ranges)
        ]

    def probe(self, ranges: Sequence[ValueRange], time: str) -> Entries:
        """The entries whose values are in one of the ranges."""
        at = self._ordered.get(time)
        wanted = ["value", "row", *([] if at is None else [at])]
        groups = self._groups(ranges)
        try:
            table = self._file.read_row_groups(groups, columns=wanted)
        except (pa.ArrowException, OSError) as error:
            why = str(error).splitlines()[0]
            raise StaleIndexError(f"the index file '{self._path}' cannot be read: {why}") from error
        keep = values_inside(table.column("value"), ranges)
        rows = table.column("row").to_numpy()[keep]
        order = np.argsort(rows, kind="stable")
        times = None if at is None else table.column(at).to_numpy()[keep][order]
        return Entries(rows[order], times)

    def close(self) -> None:
        self._file.close()


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
