"""What the footers of Parquet files say of their row groups: times, and bounds of columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engines.access.blocks import ALWAYS, Int64s, Mask
from engines.input.batches import FileSource
from engines.input.event_files import ParquetFile
from engines.input.event_rows import tick_range
from engines.input.parquet_footers import FooterColumn
from engines.input.source_files import SourceFile
from workloads.workload import NANOSECONDS, Stream

_DAY = 86_400 * 10**9
_UNITS = {"milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}


class FileFooter:
    """The footer of one file."""

    def __init__(self, file: ParquetFile) -> None:
        self.file = file
        self.parsed = file.footer.parsed
        self.metadata = self.parsed.metadata
        paths = self.parsed.paths
        # A column whose name has a dot may look like a field of a struct: then neither is known.
        self._places = {p: i for i, p in enumerate(paths) if paths.count(p) == 1}
        self._tops = {path.split(".")[0] for path in paths} | set(paths)
        self._columns: dict[tuple[str, bool], FooterColumn | None] = {}

    @property
    def groups(self) -> int:
        return int(self.metadata.num_row_groups)

    @property
    def rows(self) -> list[int]:
        return self.parsed.rows

    def column(self, name: str, raw: bool = False) -> FooterColumn | None:
        """The statistics of a column; None where nothing is known of its values."""
        if (name, raw) not in self._columns:
            self._columns[name, raw] = self._column(name, raw)
        return self._columns[name, raw]

    def _column(self, name: str, raw: bool) -> FooterColumn | None:
        groups = range(self.groups)
        if name in self.file.keys:
            value = self.file.keys[name]
            none = value is None
            return FooterColumn(
                [value] * len(groups),
                [value] * len(groups),
                [rows if none else 0 for rows in self.rows],
                [none] * len(groups),
            )
        if name not in self._places:
            if name in self._tops or name.split(".")[0] in self._tops:
                return None
            nothing = [None] * len(groups)  # a file without the column has nulls
            return FooterColumn(nothing, nothing, self.rows, [True] * len(groups))
        return self.parsed.column(self._places[name], raw)

    def time_unit(self, stream: Stream) -> int | None:
        """Nanoseconds in one of the numbers that times are stored as; None where they are not."""
        if stream.time not in self._places:
            return None
        column = self.metadata.schema.column(self._places[stream.time])
        if column.physical_type not in ("INT32", "INT64"):
            return None
        kind = json.loads(column.logical_type.to_json())
        match kind.get("Type"):
            case "Timestamp":
                return _UNITS.get(kind.get("timeUnit", ""))
            case "Date":
                return _DAY
            case "None" | "Undefined":
                return None if stream.format is not None else NANOSECONDS[stream.unit]
            case "Int" if kind.get("isSigned", False):
                return None if stream.format is not None else NANOSECONDS[stream.unit]
            case _:
                return None


@dataclass(frozen=True, eq=False)
class Footers:
    """The footers of all files of a source; `reason` says why they cannot be gone by."""

    files: Sequence[FileFooter]
    reason: str | None = None

    @cached_property
    def number(self) -> int:
        return sum(file.groups for file in self.files)

    def sizes(self, columns: Sequence[str]) -> Int64s:
        """The bytes that columns have in each row group, in the order that files are read in."""
        return np.concatenate([file.parsed.sizes(columns) for file in self.files])

    def chosen(self, kept: Mask) -> Mapping[str, Sequence[int]]:
        """By file, the numbers of the row groups that are kept."""
        found: dict[str, Sequence[int]] = {}
        begin = 0
        for file in self.files:
            found[file.file.name] = np.flatnonzero(kept[begin : begin + file.groups]).tolist()
            begin += file.groups
        return found


def open_footers(source: FileSource) -> Footers:
    """The footers of a source's files, as far as these are Parquet."""
    files = []
    for file in source.files:
        if isinstance(file, SourceFile):
            return Footers((), "events of several sources are read as a whole")
        if not isinstance(file, ParquetFile):
            return Footers((), f"'{file.name}' is not Parquet, and has no statistics")
        files.append(FileFooter(file))
    return Footers(files, None if files else "there are no files")


@dataclass(frozen=True, eq=False)
class GroupTimes:
    """Of each row group the first and the last tick, and whether it is to be read anyway."""

    low: Int64s
    high: Int64s
    always: Mask


def group_times(file: FileFooter, source: FileSource, stream: Stream) -> GroupTimes:
    """The times of a file's row groups."""
    number = file.groups
    low, high = np.full(number, -ALWAYS), np.full(number, ALWAYS)
    always = np.ones(number, bool)
    unit = file.time_unit(stream)
    column = None if unit is None else file.column(stream.time, raw=True)
    if unit is None or column is None:
        return GroupTimes(low, high, always)
    known = column.are_integers
    # Numbers of Python's, which do not wrap.
    least = np.array(column.least, object)[known] * unit // source.tick
    greatest = -(-np.array(column.greatest, object)[known] * unit // source.tick)
    first, last = tick_range(source.time_type)
    inside = ((least > first) & (greatest < last)).astype(bool)
    found = np.flatnonzero(known)[inside]
    low[found], high[found] = least[inside].astype(np.int64), greatest[inside].astype(np.int64)
    # A row without a time is no event, which a run says, and stops at.
    always[found] = np.array(column.nulls, np.int64)[found] != 0
    if stream.sequence is not None:
        numbers = file.column(stream.sequence)
        always |= True if numbers is None else np.array(numbers.nulls, np.int64) != 0
    return GroupTimes(low, high, always)
