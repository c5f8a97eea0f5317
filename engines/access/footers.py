"""What the footers of Parquet files say of their row groups: times, and bounds of columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engines.access.blocks import ALWAYS, RowGroup
from engines.input.batches import FileSource
from engines.input.event_files import ParquetFile, bytes_of, places_of
from engines.input.event_rows import tick_range
from engines.input.source_files import SourceFile
from workloads.workload import NANOSECONDS, Stream

_DAY = 86_400 * 10**9
_UNITS = {"milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}


@dataclass(frozen=True, eq=False)
class FooterColumn:
    """The statistics of one column in the row groups of a file, None where there are none."""

    least: list[Any]
    greatest: list[Any]
    nulls: list[int]  # -1 where nobody counted them
    empty: list[bool]


class FileFooter:
    """The footer of one file."""

    def __init__(self, file: ParquetFile) -> None:
        self.file = file
        self.metadata = pq.read_metadata(file.name)
        schema = self.metadata.schema
        paths = [schema.column(i).path for i in range(len(schema))]
        # A column whose name has a dot may look like a field of a struct: then neither is known.
        self._places = {p: i for i, p in enumerate(paths) if paths.count(p) == 1}
        self._tops = {path.split(".")[0] for path in paths} | set(paths)

    @property
    def groups(self) -> int:
        return int(self.metadata.num_row_groups)

    @cached_property
    def rows(self) -> list[int]:
        return [self.metadata.row_group(g).num_rows for g in range(self.groups)]

    def column(self, name: str, raw: bool = False) -> FooterColumn | None:
        """The statistics of a column; None where nothing is known of its values."""
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
        place = self._places[name]
        found = FooterColumn([], [], [], [])
        for group, rows in zip(groups, self.rows, strict=True):
            least, greatest, nulls = _statistics(self.metadata, group, place, raw)
            found.least.append(least)
            found.greatest.append(greatest)
            found.nulls.append(nulls)
            found.empty.append(nulls == rows)
        return found

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


def _statistics(metadata: Any, group: int, place: int, raw: bool) -> tuple[Any, Any, int]:
    found = metadata.row_group(group).column(place).statistics
    if found is None:
        return None, None, -1
    nulls = found.null_count if found.has_null_count and found.null_count is not None else -1
    if not found.has_min_max:
        return None, None, nulls
    try:
        if raw:
            return found.min_raw, found.max_raw, nulls
        return found.min, found.max, nulls
    except (pa.ArrowException, ValueError, OverflowError, NotImplementedError):
        return None, None, nulls


@dataclass(frozen=True, eq=False)
class Footers:
    """The footers of all files of a source; `reason` says why they cannot be gone by."""

    files: Sequence[FileFooter]
    reason: str | None = None

    @cached_property
    def number(self) -> int:
        return sum(file.groups for file in self.files)

    def row_groups(self, columns: Sequence[str]) -> list[RowGroup]:
        """All row groups, in the order that files are read in."""
        found = []
        for file in self.files:
            places = places_of(file.metadata, columns)
            for group, rows in enumerate(file.rows):
                size = bytes_of(file.metadata, group, places)
                found.append(RowGroup(file.file.name, group, rows, size))
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


def group_times(
    file: FileFooter, source: FileSource, stream: Stream
) -> list[tuple[int, int, bool]]:
    """Of each row group the first and the last tick, and whether it is to be read anyway."""
    unit = file.time_unit(stream)
    column = None if unit is None else file.column(stream.time, raw=True)
    if unit is None or column is None:
        return [(-ALWAYS, ALWAYS, True)] * file.groups
    unnumbered = [False] * file.groups
    if stream.sequence is not None:
        sequence = file.column(stream.sequence)
        if sequence is None:
            unnumbered = [True] * file.groups
        else:
            unnumbered = [nulls != 0 for nulls in sequence.nulls]
    first, last = tick_range(source.time_type)
    tick = source.tick
    found = []
    for least, greatest, nulls, wrong in zip(
        column.least, column.greatest, column.nulls, unnumbered, strict=True
    ):
        if not isinstance(least, int) or not isinstance(greatest, int):
            found.append((-ALWAYS, ALWAYS, True))
            continue
        low, high = least * unit // tick, -(-greatest * unit // tick)
        outside = low <= first or high >= last
        # A row without a time is no event, which a run says, and stops at.
        always = nulls != 0 or wrong or outside
        found.append((-ALWAYS, ALWAYS, True) if outside else (low, high, always))
    return found


def chosen_groups(groups: Sequence[RowGroup], kept: Iterable[int]) -> Mapping[str, list[int]]:
    """By file, the numbers of the row groups that are kept."""
    found: dict[str, list[int]] = {group.file: [] for group in groups}
    for place in kept:
        found[groups[place].file].append(groups[place].number)
    return found
