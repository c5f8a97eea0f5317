"""Files of events of every format, each read in pieces, whole or in part."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from engines.input.column_types import SpoiltColumn
from engines.input.event_table import Fault, format_of
from engines.input.lake_tables import EventFiles
from engines.input.line_files import CsvFile, JsonFile
from engines.input.parquet_footers import ParquetFooter, ParsedFooter
from engines.input.row_ranges import RowRanges
from engines.input.text_bytes import ReadProgress, untold
from engines.input.time_texts import time_reader, time_type
from engines.limits import EventsError
from workloads.workload import Stream

Int64s: TypeAlias = npt.NDArray[np.int64]
ParsedRows = tuple[pa.Table, Int64s, list[Fault]]  # rows, their numbers from 0, and faults from 1
PART_BATCHES = 2  # that are read ahead of each part, where several are read at once
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
        footer: ParquetFooter,
        progress: ReadProgress,
        stream: Stream,
    ) -> None:
        self.name, self.footer = name, footer
        self.schema = schema = pa.schema([(f.name, _flat_type(f.type)) for f in schema])
        place = schema.get_field_index(stream.time)
        if place >= 0:
            kind = time_type(schema.types[place], stream)
            self.schema = schema.set(place, pa.field(stream.time, kind))
        self.keys, self._progress, self._stream = keys, progress, stream
        self.spent = 0  # nanoseconds of CPU, of the threads that read ahead
        self.threads = 1  # that read it
        self.chosen: tuple[int, ...] | None = None  # row groups that are to be read; None for all
        self.chosen_rows: RowRanges | None = None  # of these row groups; None for all
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
            footer = self.footer.parsed
            self.all_groups = footer.metadata.num_row_groups
            groups = list(range(*(part or (0, self.all_groups))))
            if part is None and self.chosen is not None:
                groups = list(self.chosen)
            self.row_groups += len(groups)
            self.bytes += int(footer.sizes(inside)[groups].sum())
            ends, moved = _moved(footer.rows, groups)
            if part is not None:
                moved[:] = 0  # rows of a part are numbered by themselves
            wanted = None if part is not None else self._wanted(ends, moved)
            left_out = 0  # of the rows that were read
            # In threads whose time is known: there are others for what is done with it.
            alike = self._alike(footer, inside, groups, batch_rows)
            inside = [name for name in inside if name not in alike]
            least = batch_rows if self.threads > 1 else int(ends[-1]) if groups else 0
            parts = _parts_of(groups, footer.rows, least)
            coming = [self._batches(batch_rows, part, inside) for part in parts]
            for batch in _ahead(coming, self._spend, self.threads):
                table = self._with_keys(pa.Table.from_batches([batch]))
                for name, texts in alike.items():
                    table = table.append_column(name, texts.slice(0, len(table)))
                own = None
                if wanted is not None:
                    own = wanted.between(done, done + len(table)).rows()
                    table = table.take(pa.array(own))
                table, rows, faults = self._timed(table, schema)
                if own is not None:
                    faults = [replace(f, row=int(own[f.row - 1]) + 1) for f in faults]
                    rows = own[rows]
                # Rows are numbered as in the file, whatever of it is left out.
                rows = _numbered(rows, done, ends, moved) + left_out
                at = np.array([done + fault.row - 1 for fault in faults], np.int64)
                before = moved[np.searchsorted(ends, at, "right")].tolist()
                faults = [
                    replace(fault, row=fault.row + left_out + rows_before)
                    for fault, rows_before in zip(faults, before, strict=True)
                ]
                done += batch.num_rows
                left_out += 0 if own is None else batch.num_rows - len(own)
                self._progress(self.name, done / max(int(ends[-1]), 1))
                if len(table) or faults or own is None:
                    yield _cast(table, schema), rows, faults
            if not groups:
                self._progress(self.name, 1.0)
        except UNREADABLE as error:
            raise _unreadable(self.name, error, " as Parquet") from error

    def _batches(
        self, rows: int, groups: Sequence[int], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Some row groups, page by page: a scan of a dataset would take whole ones into memory."""
        metadata = self.footer.parsed.metadata
        # A reader of its own: one reads but one stretch at a time.
        opened = pq.ParquetFile(self.name, metadata=metadata, buffer_size=2**20, pre_buffer=False)
        with opened as file:
            yield from file.iter_batches(rows, groups, columns, use_threads=False)

    def _wanted(self, ends: Int64s, moved: Int64s) -> RowRanges | None:
        """The rows that are given, by their places among those that are read."""
        if self.chosen_rows is None or not len(ends):
            return None
        breaks = np.flatnonzero(np.diff(moved))  # where row groups are left out in between
        begins = [0, *ends[breaks].tolist()]
        parts = []
        for first, after, before in zip(
            begins, [*begins[1:], int(ends[-1])], moved[np.append(breaks, -1)].tolist(), strict=True
        ):
            found = self.chosen_rows.between(first + before, after + before)
            parts.append((found.begin + first, found.end + first))
        return RowRanges.union(parts)

    def _alike(
        self, footer: ParsedFooter, columns: Sequence[str], groups: Sequence[int], rows: int
    ) -> dict[str, pa.Array]:
        """Types that need not be read, as all of these row groups have the one: so many of it."""
        name = self._stream.type
        if name is None or name not in columns or len(columns) < 2 or footer.paths.count(name) != 1:
            return {}
        kind = self.schema.field(name).type
        text = footer.only_text(footer.paths.index(name), groups)
        if text is None or not pa.types.is_string(kind):
            return {}
        return {name: pa.repeat(pa.scalar(text, kind), rows)}

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


def _parts_of(groups: Sequence[int], rows: Sequence[int], least: int) -> Iterator[Sequence[int]]:
    """Row groups in parts that have at least so many rows, but for the last one."""
    first = size = 0
    for number, group in enumerate(groups, 1):
        size += rows[group]
        if size >= least or number == len(groups):
            yield groups[first:number]
            first, size = number, 0


def _moved(rows: Sequence[int], groups: Sequence[int]) -> tuple[Int64s, Int64s]:
    """Of row groups that are read one after the other: where each ends, and the rows left out."""
    sizes = np.array(rows, np.int64)
    chosen = np.array(groups, np.int64)
    ends = np.cumsum(sizes[chosen])
    return ends, np.cumsum(sizes)[chosen] - ends


def _numbered(rows: Int64s, done: int, ends: Int64s, moved: Int64s) -> Int64s:
    """Rows of a batch, in order, by their numbers in the file; so many were read before."""
    if not len(rows) or not moved.any():
        return rows
    first, last = np.searchsorted(ends, rows[[0, -1]] + done, "right")
    cuts = np.searchsorted(rows, ends[first:last] - done)
    each = np.diff(np.concatenate([[0], cuts, [len(rows)]]))
    return rows + np.repeat(moved[first : last + 1], each)


def _flat_type(kind: pa.DataType) -> pa.DataType:
    """Texts in one piece of memory: of views Arrow cannot take rows."""
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def _ahead(
    parts: Sequence[Iterator[pa.RecordBatch]], spend: Callable[[int], None], threads: int = 1
) -> Iterator[pa.RecordBatch]:
    """The batches of all parts, one part after the other, read while those before are worked on.

    As many parts are read at once as there are threads. `spend` gets the nanoseconds of CPU that
    reading each batch took.
    """
    readers = [ThreadPoolExecutor(1) for _ in parts[:threads]]
    coming, depth = iter(parts), 1 if threads == 1 else PART_BATCHES
    reading: deque[_PartAhead] = deque()
    try:
        for reader, part in zip(readers, coming, strict=False):
            reading.append(_PartAhead(part, reader, depth))
        while reading:
            batch, spent = reading[0].next()
            spend(spent)
            if batch is not None:
                yield batch
                continue
            reader = reading.popleft().reader
            reading.extend(_PartAhead(part, reader, depth) for part in islice(coming, 1))
    finally:
        # Not waited for: what is given up half read may be closed wherever Python collects
        # garbage, also inside of `threading`, whose locks a wait for a thread takes again.
        for reader in readers:
            reader.shutdown(wait=False, cancel_futures=True)


class _PartAhead:
    """A part of which a thread reads some batches ahead."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], reader: ThreadPoolExecutor, depth: int
    ) -> None:
        self._batches, self.reader = batches, reader
        self._coming = deque(reader.submit(self._read) for _ in range(depth))

    def next(self) -> tuple[pa.RecordBatch | None, int]:
        """A batch, None behind the last one, and the nanoseconds of CPU that it took."""
        batch, spent = self._coming.popleft().result()
        if batch is not None:
            self._coming.append(self.reader.submit(self._read))
        return batch, spent

    def _read(self) -> tuple[pa.RecordBatch | None, int]:
        before = time.thread_time_ns()
        return next(self._batches, None), time.thread_time_ns() - before


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


OpenedParquet = tuple[pa.Schema, ParsedKeys, ParquetFooter]


def open_parquet(found: EventFiles, base: str | None = None) -> dict[str, OpenedParquet]:
    """Each Parquet file's columns, the values of those that it does not hold, and its footer.

    Such values are in the names of its folders, or of a table in its log.
    """
    files = [file for file in found.names if format_of(file) == "parquet"]
    opened: dict[str, OpenedParquet] = {}
    if not files:
        return opened
    file = files[0]
    try:
        if found.columns is not None:
            for file in files:
                footer = ParquetFooter(file)
                stored = footer.metadata.schema.to_arrow_schema()
                opened[file] = (*found.readable(file, stored), footer)
            return opened
        if not any("=" in folder for file in files for folder in Path(file).parent.parts):
            for file in files:
                footer = ParquetFooter(file)
                opened[file] = (footer.metadata.schema.to_arrow_schema(), {}, footer)
            return opened
        from pyarrow import dataset  # which brings pandas along: half a second

        data = dataset.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=base
        )
        for file, fragment in zip(files, data.get_fragments(), strict=True):
            schema = fragment.physical_schema
            named = dataset.get_partition_keys(fragment.partition_expression)
            keys = {name: value for name, value in named.items() if name not in schema.names}
            for name in keys:
                schema = schema.append(data.schema.field(name))
            opened[file] = (schema, keys, ParquetFooter(file))
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
