"""The light index: what is known of blocks of rows, smaller than row groups.

Of each block it has the least and the greatest value of every column of numbers, texts, truth
values and times, how many are null, the exact sum of numbers, and of columns with few texts the set
of those that occur.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.access.blocks import Bounds, Int64s, Mask
from engines.access.exact_parts import StretchSums, joined_parts, stretch_sums
from engines.access.index_files import Manifest, StaleIndexError, folder_of, open_side
from engines.access.round_times import round_starts, round_steps
from workloads.workload import NANOSECONDS

BLOCK_ROWS = 1024
MAX_VALUES = 64  # of a column whose sets of values are kept
# Much of it is read in every run.
LIGHT_FORM = {"row_group_size": 65_536, "compression": "lz4", "use_dictionary": False}
_ABOUT = b"sheaf.columns"


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """One column in the blocks of one row group."""

    least: list[Any]
    greatest: list[Any]
    nulls: Int64s
    sums: StretchSums | None
    numbers: Int64s | None  # of values that are summed up, which a NaN is not
    values: list[set[str]] | None  # of each block, while they are few


def kind_of(type_: pa.DataType) -> str | None:
    """What a column is summed up as; None for one that is not."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_signed_integer(type_):
        return "int"
    if pa.types.is_float32(type_) or pa.types.is_float64(type_):
        return "float"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "string"
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return "time"
    return None


def block_starts(rows: int) -> Int64s:
    """The first row of each block of a row group, if no time ends one."""
    return np.arange(0, rows, BLOCK_ROWS, dtype=np.int64)


def summarized(column: pa.ChunkedArray, starts: Int64s) -> ColumnSummary:
    """What is kept of a column that has a kind."""
    kind = kind_of(column.type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    valid: Mask = np.asarray(pc.is_valid(column))
    sizes = np.diff(np.append(starts, len(valid)))
    nulls = sizes - np.add.reduceat(valid.astype(np.int64), starts)
    if kind == "string":
        return _texts(column, valid, starts, nulls)
    if kind == "time":
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    if kind == "bool":
        column = column.cast(pa.int8())
    values = np.asarray(pc.fill_null(column, 0))
    sums = numbers = None
    row = np.append(starts, len(values))
    if kind == "float":
        values = values.astype(np.float64)
        valid = valid & ~np.isnan(values)
        numbers = np.add.reduceat(valid.astype(np.int64), starts)
        sums = stretch_sums(values, ~valid, row)
        low: Any = np.inf
        high: Any = -np.inf
    else:
        if kind == "int":
            sums = stretch_sums(values.astype(np.int64), ~valid, row)
        low, high = np.iinfo(values.dtype).max, np.iinfo(values.dtype).min
    some = np.logical_or.reduceat(valid, starts)
    least = np.minimum.reduceat(np.where(valid, values, low), starts).tolist()
    greatest = np.maximum.reduceat(np.where(valid, values, high), starts).tolist()
    return ColumnSummary(
        [v if any_ else None for v, any_ in zip(least, some, strict=True)],
        [v if any_ else None for v, any_ in zip(greatest, some, strict=True)],
        nulls,
        sums,
        numbers,
        None,
    )


def _texts(column: pa.ChunkedArray, valid: Mask, starts: Int64s, nulls: Int64s) -> ColumnSummary:
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = encoded.dictionary.to_pylist()
    order = sorted(range(len(texts)), key=texts.__getitem__)
    rank = np.empty(len(texts) + 1, np.int64)
    rank[order] = np.arange(len(texts))
    codes = np.asarray(pc.fill_null(encoded.indices, len(texts))).astype(np.int64)
    rank[len(texts)] = len(texts)
    ranks = rank[codes]
    least = np.minimum.reduceat(ranks, starts)
    greatest = np.maximum.reduceat(np.where(valid, ranks, -1), starts)
    shown = [*(texts[place] for place in order), None]
    values = None
    if len(texts) <= MAX_VALUES:
        ends = np.append(starts[1:], len(ranks))
        values = [
            {shown[r] for r in np.unique(ranks[a:b]) if r < len(texts)}
            for a, b in zip(starts, ends, strict=True)
        ]
    return ColumnSummary(
        [shown[r] for r in least],
        [shown[r] if r >= 0 else None for r in greatest],
        nulls,
        None,
        None,
        values,
    )


def light_table(
    file: pq.ParquetFile, progress: Callable[[float], None] = lambda part: None
) -> pa.Table:
    """The light index of a file: a row for each block, in their order."""
    names = [field.name for field in file.schema_arrow if kind_of(field.type) is not None]
    names = [name for name in names if file.schema_arrow.names.count(name) == 1]
    found: dict[str, list[ColumnSummary]] = {name: [] for name in names}
    groups: list[int] = []
    firsts: list[int] = []
    sizes: list[int] = []
    first = 0
    steps = round_steps(file.metadata, file.schema_arrow, 2 * BLOCK_ROWS)
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        starts = block_starts(rows)
        for name, own in steps.items():
            times = file.read_row_group(group, columns=[name]).column(name)
            starts = np.union1d(starts, round_starts(times, own))
        groups += [group] * len(starts)
        firsts += (starts + first).tolist()
        sizes += np.diff(np.append(starts, rows)).tolist()
        first += rows
        if rows:
            for name in names:  # one at a time, so that a row group is never in memory as a whole
                column = file.read_row_group(group, columns=[name]).column(name)
                found[name].append(summarized(column, starts))
        progress((group + 1) / file.num_row_groups)
    columns: dict[str, pa.Array] = {
        "group": pa.array(groups, pa.int32()),
        "first": pa.array(firsts, pa.int64()),
        "rows": pa.array(sizes, pa.int32()),
    }
    about: dict[str, Any] = {}
    for number, name in enumerate(names):
        columns |= _stored(number, found[name], file.schema_arrow.field(name).type)
        type_ = file.schema_arrow.field(name).type
        about[name] = {"number": number, "kind": kind_of(type_), "unit": _unit(type_)}
        values = _few(found[name])
        if values is not None:
            about[name]["values"] = values
            place = {value: bit for bit, value in enumerate(values)}
            bits = [
                sum(1 << place[value] for value in own)
                for part in found[name]
                for own in part.values or ()
            ]
            columns[f"set_{number}"] = pa.array(bits, pa.uint64())
    return pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about)})


def _unit(type_: pa.DataType) -> int | None:
    """Nanoseconds in one of the numbers that times are kept as."""
    if pa.types.is_timestamp(type_):
        return NANOSECONDS[type_.unit]
    return 86_400 * 10**9 if pa.types.is_date32(type_) else None


def _few(parts: list[ColumnSummary]) -> list[str] | None:
    """All texts of a column, where they are few."""
    if not parts or any(part.values is None for part in parts):
        return None
    values = sorted(set().union(*(own for part in parts for own in part.values or ())))
    return values if len(values) <= MAX_VALUES else None


def _stored(number: int, parts: list[ColumnSummary], type_: pa.DataType) -> dict[str, pa.Array]:
    kinds = {
        "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "string": pa.string(),
        "time": pa.int64(),
    }  # fmt: skip
    kind = kind_of(type_)
    assert kind is not None
    stored = kinds[kind]

    def values(name: str) -> pa.Array:
        found = [value for part in parts for value in getattr(part, name)]
        return pa.array([bool(v) if kind == "bool" and v is not None else v for v in found], stored)

    columns = {
        f"min_{number}": values("least"),
        f"max_{number}": values("greatest"),
        f"nulls_{number}": pa.array([int(n) for part in parts for n in part.nulls], pa.int64()),
    }
    found = [part.sums for part in parts if part.sums is not None]
    if found:
        unknown = ~np.concatenate([sums.known for sums in found])
        for place, sums in enumerate(joined_parts([sums.parts for sums in found])):
            columns[f"sum_{number}_{place}"] = pa.array(sums, mask=unknown)
    counted = [part.numbers for part in parts if part.numbers is not None]
    if counted:
        columns[f"number_{number}"] = pa.array(np.concatenate(counted))
    return columns


@dataclass(frozen=True, eq=False)
class BlockTotals:
    """What a column comes to in each block: how many values, the parts of their sum, extremes."""

    number: Int64s
    sums: StretchSums | None
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class LightIndex:
    """The light index of one data file, as it is read."""

    def __init__(self, data: str, manifest: Manifest) -> None:
        self._file = open_side(data, manifest.light, manifest.footer)
        metadata = self._file.schema_arrow.metadata or {}
        self.about: Mapping[str, Mapping[str, Any]] = json.loads(metadata[_ABOUT])
        self._path = folder_of(data) / manifest.light.name
        self._names: list[str] = self._file.schema_arrow.names
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._totals: dict[str, BlockTotals | None] = {}
        group, first, rows = self._read("group", "first", "rows")
        self.group: Int64s = group.to_numpy().astype(np.int64)
        self.first: Int64s = first.to_numpy()
        self.rows: Int64s = rows.to_numpy().astype(np.int64)

    def __len__(self) -> int:
        return len(self.group)

    def bounds(self, name: str) -> Bounds | None:
        """What is known of a column in each block; None where it has none."""
        if name not in self.about:
            return None
        number, kind = self.about[name]["number"], self.about[name]["kind"]
        low, high, nulls = self._read(*(f"{what}_{number}" for what in ("min", "max", "nulls")))
        known: Mask = np.asarray(pc.is_valid(low))
        number_of: Int64s = nulls.to_numpy()
        least, greatest = (_filled(column, kind) for column in (low, high))
        kind = "int" if kind == "time" else kind
        return Bounds(kind, least, greatest, known, number_of, number_of == self.rows)

    def totals(self, name: str) -> BlockTotals | None:
        """What a column comes to; None where it has none. Only numbers have sums and extremes."""
        if name not in self._totals:
            self._totals[name] = self._summed(name)
        return self._totals[name]

    def _summed(self, name: str) -> BlockTotals | None:
        if name not in self.about:
            return None
        number, kind = self.about[name]["number"], self.about[name]["kind"]
        counted = [name for name in self._names if name == f"number_{number}"]
        summed = [name for name in self._names if name.startswith(f"sum_{number}_")]
        ends = [f"{what}_{number}" for what in ("min", "max")]
        self._read(*(counted or [f"nulls_{number}"]), *summed, *ends)
        if counted:
            (values,) = (column.to_numpy() for column in self._read(*counted))
        else:
            values = self.rows - self._read(f"nulls_{number}")[0].to_numpy()
        none = np.zeros(0)
        if kind not in ("int", "float"):
            return BlockTotals(values, None, none, none)
        low, high = self._read(*ends)
        known: Mask = np.asarray(pc.is_valid(low))
        least = np.where(known, _filled(low, kind).astype(np.float64), np.inf)
        greatest = np.where(known, _filled(high, kind).astype(np.float64), -np.inf)
        parts = self._read(*summed)
        sums = None
        if parts:
            whole = [np.asarray(pc.fill_null(part, 0)) for part in parts]
            sums = StretchSums(np.array(whole), np.asarray(pc.is_valid(parts[0])))
        return BlockTotals(values, sums, least, greatest)

    def sets(self, name: str) -> tuple[tuple[str, ...], npt.NDArray[np.uint64]] | None:
        """The few texts of a column, and which of them each block has."""
        about = self.about.get(name)
        if about is None or "values" not in about:
            return None
        return tuple(about["values"]), self._read(f"set_{about['number']}")[0].to_numpy()

    def _read(self, *names: str) -> list[pa.ChunkedArray]:
        """Columns of the index, each of which is read once."""
        missing = [name for name in names if name not in self._columns]
        if missing:
            try:
                found = self._file.read(columns=missing, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                why = str(error).splitlines()[0]
                said = f"the index file '{self._path}' cannot be read: {why}"
                raise StaleIndexError(said) from error
            self._columns |= {name: found.column(name) for name in missing}
        return [self._columns[name] for name in names]

    def close(self) -> None:
        self._file.close()


def _filled(column: pa.ChunkedArray, kind: str) -> npt.NDArray[Any]:
    """The values of a column of the index, with something in place of nulls."""
    if kind == "string":
        return np.array(pc.fill_null(column, "").to_pylist(), object)
    return np.asarray(pc.fill_null(column, False if kind == "bool" else 0))
