"""Files of events of every format, each read in pieces, whole or in part."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from engines.input.column_types import SpoiltColumn
from engines.input.event_table import Fault, format_of
from engines.input.line_files import CsvFile, JsonFile
from engines.input.text_bytes import ReadProgress, untold
from engines.input.time_texts import time_reader, time_type
from engines.limits import EventsError
from workloads.workload import Stream

Int64s: TypeAlias = npt.NDArray[np.int64]
ParsedRows = tuple[pa.Table, Int64s, list[Fault]]  # rows, their numbers from 0, and faults from 1
ParsedKeys = dict[str, Any]  # values that a file's folders are named for


class LinesFile:
    """CSV or JSON lines; `part` is from a byte to before another."""

    def __init__(self, name: str, lines: CsvFile | JsonFile) -> None:
        self.name, self._lines = name, lines
        self.schema = lines.schema

    def spoilt(self, names: set[str]) -> Iterator[SpoiltColumn]:
        """Those of the columns that a few texts keep from being numbers."""
        return self._lines.spoilt(names)

    def is_splittable(self) -> bool:
        """Can it be read in parts?"""
        return self._lines.is_splittable()

    def rows_before(self, start: int) -> int:
        """How many data rows begin before a byte."""
        blocks = self._lines.blocks(0, start) if start else ()
        return sum(self._lines.count_rows(block) for block in blocks)

    def read(
        self, schema: pa.Schema, batch_rows: int, part: tuple[int, int] | None = None
    ) -> Iterator[ParsedRows]:
        if len(self.schema):
            try:
                for block in filter(bytes.strip, self._lines.blocks(*(part or ()))):
                    yield self._lines.parse(block, schema)
            except UNREADABLE as error:
                raise _unreadable(self.name, error) from error


class ParquetFile:
    """Parquet; `part` is from a row group to before another."""

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: ParsedKeys,
        progress: ReadProgress,
        stream: Stream,
    ) -> None:
        self.name = name
        self.schema = schema = pa.schema([(f.name, _flat_type(f.type)) for f in schema])
        place = schema.get_field_index(stream.time)
        if place >= 0:
            kind = time_type(schema.types[place], stream)
            self.schema = schema.set(place, pa.field(stream.time, kind))
        self.keys, self._progress, self._stream = keys, progress, stream
        self.spent = 0  # nanoseconds of CPU, of the thread that reads ahead
        self.chosen: tuple[int, ...] | None = None  # row groups that are to be read; None for all
        self.row_groups = self.all_groups = self.bytes = 0  # that have been read, and are there

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_progress": untold}  # nobody listens where it is read elsewhere

    def _spend(self, nanoseconds: int) -> None:
        self.spent += nanoseconds

    def read(
        self, schema: pa.Schema, batch_rows: int, part: tuple[int, int] | None = None
    ) -> Iterator[ParsedRows]:
        inside = [n for n in schema.names if n in self.schema.names and n not in self.keys]
        done = 0
        try:
            # Page by page: a scan of a dataset would take a whole row group into memory.
            with pq.ParquetFile(self.name, buffer_size=2**20, pre_buffer=False) as file:
                metadata = file.metadata
                self.all_groups = file.num_row_groups
                groups = list(range(*(part or (0, self.all_groups))))
                if part is None and self.chosen is not None:
                    groups = list(self.chosen)
                self.row_groups += len(groups)
                places = places_of(metadata, inside)
                self.bytes += sum(bytes_of(metadata, group, places) for group in groups)
                starts = _starts(metadata, groups)
                rows = max(sum(metadata.row_group(group).num_rows for group in groups), 1)
                for run, start in _runs(groups, starts):
                    given = 0
                    # In one thread, whose time is known: there is another for what is done with it.
                    coming = file.iter_batches(batch_rows, run, inside, use_threads=False)
                    for batch in _ahead(coming, self._spend):
                        table = self._with_keys(pa.Table.from_batches([batch]))
                        table, rows_, faults = self._timed(table, schema)
                        # Rows are numbered as in the file, whatever of it is left out.
                        left_out = 0 if part is not None else start + given - done
                        faults = [replace(fault, row=fault.row + left_out) for fault in faults]
                        given += batch.num_rows
                        done += batch.num_rows
                        self._progress(self.name, done / rows)
                        yield _cast(table, schema), rows_ + left_out, faults
                if not groups:
                    self._progress(self.name, 1.0)
        except UNREADABLE as error:
            raise _unreadable(self.name, error, " as Parquet") from error

    def _timed(self, table: pa.Table, schema: pa.Schema) -> ParsedRows:
        """The rows whose times can be read, where they are stored as something else."""
        name, rows = self._stream.time, np.arange(table.num_rows)
        if name not in table.column_names or name not in schema.names:
            return table, rows, []
        stored, kind = table.column(name), schema.field(name).type
        reader = time_reader(self._stream, kind)
        if stored.type == kind or reader is None or pa.types.is_temporal(stored.type):
            return table, rows, []
        values = stored.combine_chunks()
        times, bad = reader.read(values, kind)
        table = table.set_column(table.column_names.index(name), name, times)
        faults = [
            Fault(int(i) + 1, "wrong type", f"{values[i].as_py()!r} is no {reader.expected}", name)
            for i in np.flatnonzero(bad).tolist()
        ]
        keep = np.flatnonzero(~bad)
        return (table.take(pa.array(keep)), keep, faults) if faults else (table, rows, [])

    def _with_keys(self, table: pa.Table) -> pa.Table:
        for name, value in self.keys.items():
            kind = self.schema.field(name).type
            table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return table


def places_of(metadata: pq.FileMetaData, columns: Collection[str]) -> list[int]:
    """The places that columns have in a file, with all that is inside of them."""
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    return [
        place
        for place, path in enumerate(paths)
        if path in columns or path.split(".")[0] in columns
    ]


def bytes_of(metadata: pq.FileMetaData, group: int, places: Iterable[int]) -> int:
    """The bytes that the columns at some places have in a row group."""
    found = metadata.row_group(group)
    return sum(found.column(place).total_compressed_size for place in places)


def _starts(metadata: pq.FileMetaData, groups: Sequence[int]) -> list[int]:
    """The number of rows before each row group."""
    if not groups:
        return []
    before = list(
        accumulate((metadata.row_group(g).num_rows for g in range(max(groups))), initial=0)
    )
    return [before[group] for group in groups]


def _runs(groups: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Row groups that follow each other, and the first row of each such run."""
    run: list[int] = []
    first = 0
    for group, start in zip(groups, starts, strict=True):
        if run and group != run[-1] + 1:
            yield run, first
            run = []
        first = first if run else start
        run.append(group)
    if run:
        yield run, first


def _flat_type(kind: pa.DataType) -> pa.DataType:
    """Texts in one piece of memory: of views Arrow cannot take rows."""
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def _ahead(
    batches: Iterator[pa.RecordBatch], spend: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The same batches, each read by a thread while the one before it is worked on.

    `spend` gets the nanoseconds of CPU that the thread took for each.
    """

    def read() -> tuple[pa.RecordBatch | None, int]:
        before = time.thread_time_ns()
        return next(batches, None), time.thread_time_ns() - before

    reader = ThreadPoolExecutor(1)
    try:
        coming = reader.submit(read)
        while True:
            batch, spent = coming.result()
            spend(spent)
            if batch is None:
                return
            coming = reader.submit(read)
            yield batch
    finally:
        # Not waited for: what is given up half read may be closed wherever Python collects
        # garbage, also inside of `threading`, whose locks a wait for a thread takes again.
        reader.shutdown(wait=False, cancel_futures=True)


EventFile: TypeAlias = LinesFile | ParquetFile


def take_spent(files: Iterable[EventFile]) -> int:
    """Nanoseconds of CPU that threads have read files for since it was last asked."""
    spent = 0
    for file in files:
        if isinstance(file, ParquetFile):
            spent, file.spent = spent + file.spent, 0
    return spent


def open_lines(file: str, stream: Stream, progress: ReadProgress) -> LinesFile:
    kind = CsvFile if format_of(file) == "csv" else JsonFile
    try:
        return LinesFile(file, kind(file, stream, progress))
    except UNREADABLE as error:
        raise _unreadable(file, error) from error


def open_parquet(files: list[str], base: str | None) -> dict[str, tuple[pa.Schema, ParsedKeys]]:
    """Each file's columns, and the values of those that are in the names of its folders."""
    opened: dict[str, tuple[pa.Schema, ParsedKeys]] = {}
    if not files:
        return opened
    file = files[0]
    try:
        if not any("=" in folder for file in files for folder in Path(file).parent.parts):
            for file in files:
                opened[file] = (pq.read_schema(file), {})
            return opened
        from pyarrow import dataset  # which brings pandas along: half a second

        data = dataset.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=base
        )
        for file, fragment in zip(files, data.get_fragments(), strict=True):
            schema = fragment.physical_schema
            found = dataset.get_partition_keys(fragment.partition_expression)
            keys = {name: value for name, value in found.items() if name not in schema.names}
            for name in keys:
                schema = schema.append(data.schema.field(name))
            opened[file] = (schema, keys)
    except UNREADABLE as error:
        raise _unreadable(file, error, " as Parquet") from error
    return opened


UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


def _unreadable(file: str, error: Exception, how: str = "") -> EventsError:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    if isinstance(error, PermissionError):
        why = "permission denied; allow the user who runs this to read it"
    return EventsError(f"'{file}' cannot be read{how}: {why}")


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
