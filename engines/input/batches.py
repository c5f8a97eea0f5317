"""Events of files in batches: the columns that queries need, and how late events may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.input.event_files import (
    EventFile,
    OpenedParquet,
    ParquetFile,
    ParsedRows,
    open_lines,
    open_parquet,
    take_spent,
)
from engines.input.event_paths import EventPath, one_path, paths_by_source, shown_path
from engines.input.event_rows import check_columns, ticks_and_faults
from engines.input.event_table import (
    Events,
    Faults,
    OnError,
    column_kinds,
    find_files,
    format_of,
    from_table,
)
from engines.input.lake_tables import EventFiles
from engines.input.query_columns import named_columns
from engines.input.row_ranges import RowRanges
from engines.input.source_files import (
    SourceFile,
    as_stored,
    check_renamed,
    unlike_columns,
    with_one_time,
)
from engines.input.time_texts import time_type
from engines.limits import EventsError
from optimizer.ir.query import BoundWorkload
from workloads.errors import Diagnostic, WorkloadError
from workloads.workload import NANOSECONDS, AttributeKind, Stream, Workload

StreamFile: TypeAlias = EventFile | SourceFile

BATCH_ROWS = 131_072

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some events of a file in the order they are stored in: their ticks and row numbers."""

    table: pa.Table
    ticks: Int64s
    file: str
    rows: Int64s  # the file's first is 1
    source: int = 0  # the number of its source, where there are several
    is_last: bool = False  # of its source, as far as that is known

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, keep: Int64s) -> Batch:
        table = self.table.take(pa.array(keep))
        return replace(self, table=table, ticks=self.ticks[keep], rows=self.rows[keep])


class FileSource:
    """The files under a path, or under a path for each source; `schema` unites their columns.

    Raises `EventsError` where a file as a whole is no stream of events; what is wrong with single
    rows goes to `faults`. `progress` hears how much has been read, from 0 to 1. Where a `schema` is
    given, columns are read as it says, whatever they look like here. Files that are `like` those of
    another source are not looked into again.
    """

    def __init__(
        self,
        path: EventPath,
        stream: Stream,
        faults: Faults,
        batch_rows: int = BATCH_ROWS,
        progress: Callable[[float], None] = lambda part: None,
        schema: pa.Schema | None = None,
        like: FileSource | None = None,
    ) -> None:
        self.place, self.path = path, shown_path(path)
        self._parquet: dict[str, OpenedParquet] = {} if like is None else dict(like._parquet)
        self._stream, self.faults = stream, faults
        self._batch_rows, self._told = batch_rows, progress
        if stream.sources:
            places = paths_by_source(path, stream.sources)
        else:
            places = {"": one_path(path)}
        listed = {name: find_files(place) for name, place in places.items()}
        files = [file for each in listed.values() for file in each.names]
        sizes = np.array([Path(file).stat().st_size for file in files], np.float64)
        before = np.cumsum(sizes) - sizes
        total = max(float(sizes.sum()), 1.0)
        self._share = {
            file: (float(start) / total, float(size) / total)
            for file, start, size in zip(files, before, sizes, strict=True)
        }
        if stream.sources:
            self._by_source: list[list[StreamFile]] = [
                self._of_source(name, places[name], each, schema is None)
                for name, each in listed.items()
            ]
        else:
            self._by_source = [[*self._opened(places[""], listed[""], stream)]]
        self._files = [file for each in self._by_source for file in each]
        self._stored = list(map(as_stored, self._files))
        self.schema = self._unified() if schema is None else schema

    def _opened(self, place: str, found: EventFiles, stream: Stream) -> list[EventFile]:
        base = place if Path(place).is_dir() else None
        if any(format_of(file) == "parquet" and file not in self._parquet for file in found.names):
            self._parquet |= open_parquet(found, base)
        return [
            ParquetFile(file, *self._parquet[file], self._progress, stream)
            if file in self._parquet
            else open_lines(file, stream, self._progress)
            for file in found.names
        ]

    def _of_source(self, name: str, place: str, files: EventFiles, check: bool) -> list[StreamFile]:
        """The files of one of several sources."""
        own = self._stream.sources[name].stream
        stored = self._opened(place, files, own)
        if check:  # else rows without a time are told of when they are met
            for file in stored:
                check_columns(file.schema, own, file.name)
            check_renamed([file.schema for file in stored], name, self._stream, place)
        return [SourceFile(file, name, self._stream) for file in stored]

    @property
    def tick(self) -> int:
        """Nanoseconds in one tick of the events' time."""
        if self._stream.time not in self.schema.names:
            return NANOSECONDS[self._stream.unit]
        kind = self.schema.field(self._stream.time).type
        if pa.types.is_timestamp(kind):
            return NANOSECONDS[kind.unit]
        return 86_400 * 10**9 if pa.types.is_date(kind) else NANOSECONDS[self._stream.unit]

    @property
    def time_type(self) -> pa.DataType:
        """The type of the events' time once it is read."""
        names = self.schema.names
        time = self._stream.time
        return self.schema.field(time).type if time in names else pa.int64()

    @property
    def kinds(self) -> dict[str, AttributeKind] | None:
        """The kind of each column; None where all files are empty, and may stand for any."""
        return column_kinds(self.schema) if any(len(f.schema) for f in self._files) else None

    def spoilt(self, workload: Workload) -> list[str]:
        """A sentence for each column that queries name and that a few texts keep from numbers."""
        from optimizer.bind.binder import bind

        bound = bind(workload)
        names = named_columns(bound)
        found = [
            (file.name, column)
            for file in self._files
            if not isinstance(file, ParquetFile)
            for column in file.spoilt(names)
        ]
        stream = bound.stream
        names -= {stream.time, stream.type or "", stream.sequence or ""}
        declared = {n: kind for n, kind in column_kinds(self.schema).items() if n in names}
        declared |= {column.name: column.kind for _, column in found}
        return [column.sentence(file, declared) for file, column in found]

    def bind(self, workload: Workload) -> BoundWorkload:
        """The workload over these columns; an error says where it is the data that do not fit."""
        from engines.input.query_columns import bind_to

        try:
            return bind_to(workload, self.schema, self.path, self.kinds)
        except WorkloadError as error:
            raise self.explained(error, workload) from error

    def explained(self, error: WorkloadError, workload: Workload) -> WorkloadError:
        """The error, or what keeps columns from being numbers where that is behind it."""
        try:
            spoilt = self.spoilt(workload)
        except WorkloadError:
            return error  # there is something wrong with it whatever the events
        if not spoilt:
            return error
        kinds = ("string", "text", "number")
        others = [
            finding
            for finding in error.diagnostics
            if not any(kind in f"{finding.message} {finding.hint}" for kind in kinds)
        ]
        return WorkloadError([*(Diagnostic(sentence) for sentence in spoilt), *others])

    def assume(self, names: Iterable[str]) -> None:
        """Take it that there are columns of these names, where all files are empty."""
        if self.kinds is None:
            more = sorted(set(names) - {*self.schema.names, "time"})
            self.schema = pa.schema([*self.schema, *((name, pa.null()) for name in more)])

    @property
    def files(self) -> Sequence[StreamFile]:
        """The files, each of which can be read in another process too."""
        return self._files

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The events, with the given columns of `schema`."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        each = [self._batches(files, schema) for files in self._by_source]
        yield from each[0] if len(each) == 1 else merged_batches(each)

    def _batches(self, files: Sequence[StreamFile], schema: pa.Schema) -> Iterator[Batch]:
        for file in files:
            pieces = file.read(schema, self._batch_rows)
            yield from checked(pieces, file.name, self._stream, self.faults, self._batch_rows)

    def only(
        self, groups: Mapping[str, Sequence[int]], rows: Mapping[str, RowRanges] | None = None
    ) -> None:
        """Read only these row groups of Parquet files, and give only these rows of them.

        Both are given by the names of files.
        """
        for file in self._files:
            if isinstance(file, ParquetFile) and file.name in groups:
                file.chosen = tuple(groups[file.name])
                file.chosen_rows = None if rows is None else rows[file.name]

    def read_in(self, threads: int) -> None:
        """Read so many parts of each Parquet file at once."""
        for file in self._stored:
            if isinstance(file, ParquetFile):
                file.threads = threads

    @property
    def read(self) -> dict[str, int]:
        """Bytes and row groups that were read, of how many; of text the bytes of whole files."""
        stored = [file for file in self._stored if isinstance(file, ParquetFile)]
        lines = [file for file in self._stored if not isinstance(file, ParquetFile)]
        size = sum(Path(file.name).stat().st_size for file in lines)
        return {
            "bytes": size + sum(file.bytes for file in stored),
            "row_groups": sum(file.row_groups for file in stored),
            "of": sum(file.all_groups for file in stored),
        }

    def take_spent(self) -> int:
        """Nanoseconds of CPU that threads have read for since it was last asked."""
        return take_spent(self._stored)

    def _progress(self, file: str, part: float) -> None:
        start, size = self._share[file]
        self._told(start + size * part)

    def _unified(self) -> pa.Schema:
        for file in self._files:
            check_columns(file.schema, self._stream, file.name)
        schemas = [file.schema for file in self._files if len(file.schema)]
        if self._stream.sources:
            schemas = self._of_one_stream()
        if not schemas:
            written = pa.int64() if self._stream.format is None else pa.string()
            roles: dict[str | None, pa.DataType] = {
                self._stream.time: time_type(written, self._stream)
            }
            roles[self._stream.type] = pa.string()
            roles[self._stream.sequence] = pa.int64()
            return pa.schema([(name, kind) for name, kind in roles.items() if name is not None])
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise EventsError(
                f"'{self.path}': a column has different types in different files: "
                f"{str(error).splitlines()[0]}; make them agree"
            ) from error
        for name in (self._stream.time, self._stream.sequence):
            # Where no row has a value, each says so.
            if name is not None and pa.types.is_null(schema.field(name).type):
                place = schema.get_field_index(name)
                is_text = name == self._stream.time and self._stream.format is not None
                kind = time_type(pa.string() if is_text else pa.int64(), self._stream)
                schema = schema.set(place, pa.field(name, kind))
        return schema

    def _of_one_stream(self) -> list[pa.Schema]:
        """The schemas of several sources' files, once times are of one type."""
        found = [
            (name, file.schema)
            for name, files in zip(self._stream.sources, self._by_source, strict=True)
            for file in files
            if len(file.schema)
        ]
        schemas = with_one_time(found, self._stream)
        names = [name for name, _ in found]
        if (wrong := unlike_columns(zip(names, schemas, strict=True))) is not None:
            raise EventsError(wrong)
        return schemas


def read_events(path: EventPath, stream: Stream, on_error: OnError = "stop") -> Events:
    """All events of files, of a folder or a glob, in memory."""
    source = FileSource(path, stream, Faults(on_error))
    found = [batch.table for batch in source.batches(source.schema.names)]
    whole = pa.concat_tables([source.schema.empty_table(), *found])
    return from_table(whole, stream, source.path)


def merged_batches(sources: Sequence[Iterator[Batch]]) -> Iterator[Batch]:
    """Batches of several sources: next comes always that of the one that is furthest behind."""
    coming = [next(source, None) for source in sources]
    reached: list[float] = [-math.inf] * len(sources)
    while any(batch is not None for batch in coming):
        number = min(
            (number for number, batch in enumerate(coming) if batch is not None),
            key=reached.__getitem__,
        )
        batch, coming[number] = coming[number], next(sources[number], None)
        assert batch is not None
        reached[number] = max(reached[number], int(batch.ticks.max()))
        yield replace(batch, source=number, is_last=coming[number] is None)


def checked(
    pieces: Iterable[ParsedRows], file: str, stream: Stream, faults: Faults, batch_rows: int
) -> Iterator[Batch]:
    """Pieces of a file as batches of events; what is wrong with rows goes to `faults`."""
    read = 0
    for table, rows, wrong in pieces:
        faults.report(file, [replace(f, row=f.row + read) for f in wrong])
        for start in range(0, table.num_rows, batch_rows):
            part = table.slice(start, batch_rows)
            numbers = rows[start : start + batch_rows] + read + 1
            batch = _timed(part, file, numbers, stream, faults)
            if len(batch):
                yield batch
        read += table.num_rows + len(wrong)


def _timed(table: pa.Table, file: str, rows: Int64s, stream: Stream, faults: Faults) -> Batch:
    """The rows that are events."""
    ticks, bad, wrong = ticks_and_faults(table, rows, stream)
    batch = Batch(table, ticks, file, rows)
    if not bad.any():
        return batch
    faults.report(file, wrong)
    return batch.take(np.flatnonzero(~bad))
