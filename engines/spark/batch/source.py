"""Stored events as a Spark table: files that Spark or the local readers scan, or a table it knows.

Spark reads Parquet itself where it has all its types and no row can be a bad one, by what the
files' metadata say. Everything else is read by the local engine's readers, in tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.types as at

from engines.input import batches
from engines.input.event_files import ParquetFile
from engines.input.event_paths import EventPath, each_path
from engines.input.event_rows import check_columns
from engines.input.event_table import LARGEST_TICK, Faults
from engines.input.lake_tables import TABLE_LOGS, table_folder
from engines.input.source_files import as_stored
from engines.input.time_texts import FRACTIONS, TimeReader, format_type, time_reader, time_type
from engines.limits import BadRowError, EventsError
from engines.spark.batch.packing import spark_schema, ticks
from engines.spark.batch.progress import TaskTally
from engines.spark.batch.splits import ReadSplits, Split, SplitReader, plan_splits
from engines.spark.batch.time_ranges import Range, in_ranges
from workloads.errors import UnsupportedError
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "table:"
JDBC = "jdbc:"
SAMPLED_SPLITS = 24


class SparkSource(Protocol):
    """Events that a job reads."""

    stream: Stream
    faults: Faults

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are once they have arrived."""
        ...

    def first(self, columns: Sequence[str]) -> pa.Table:
        """The first event, if there is one."""
        ...

    def frame(self, session: SparkSession, columns: Sequence[str], tally: TaskTally) -> DataFrame:
        """The columns as a Spark table, called c0, c1, …"""
        ...

    def sample(self, session: SparkSession, columns: Sequence[str], rows: int) -> pa.Table:
        """About so many events from all over the stream."""
        ...

    def about_rows(self) -> int:
        """About how many events there are."""
        ...

    def settle(self, tally: TaskTally) -> int:
        """The number of events read, once the job is done; bad rows go to `faults`."""
        ...


def is_table(path: str) -> bool:
    """Is it Spark that finds the events, and not this process?"""
    return path.startswith((TABLE, JDBC)) or "://" in path


def table_of(path: EventPath) -> str | None:
    """What Spark finds itself; None where all are files that this process finds.

    Raises `UnsupportedError` where it is one of several sources.
    """
    tables = [place for place in each_path(path) if is_table(place)]
    if tables and not isinstance(path, str):
        raise UnsupportedError(
            f"'{tables[0]}' is a table of Spark's or at an address, and one of several sources, "
            "which are read from files: give its files, or from Python a data frame that has the "
            "events of all sources"
        )
    return tables[0] if tables else None


# --- files ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class FileSource:
    """Files that all tasks can open under the paths that they have here."""

    path: EventPath
    stream: Stream
    faults: Faults
    files: batches.FileSource
    tasks: int = 16  # for which there should be splits of text at least
    kept: Mapping[str, Sequence[int]] | None = None  # by file, row groups that are read; else all

    @property
    def schema(self) -> pa.Schema:
        return self.files.schema

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        found = plan_splits(self.files, self.stream, self.tasks)
        return tuple(split for split in found if self._is_kept(split))

    def _is_kept(self, split: Split) -> bool:
        groups = None if self.kept is None else self.kept.get(self.files.files[split.file].name)
        return groups is None or split.part is None or split.part[0] in groups

    @property
    def is_clean(self) -> bool:
        """Is it known without reading that no row is a bad one?"""
        return all(split.clean for split in self.splits)

    def reader(self, columns: Sequence[str], batch_rows: int = batches.BATCH_ROWS) -> SplitReader:
        schema = pa.schema([self.schema.field(name) for name in columns])
        return SplitReader(
            tuple(self.files.files),
            self.splits,
            schema,
            self.stream,
            self.faults.on_error,
            batch_rows,
        )

    def first(self, columns: Sequence[str]) -> pa.Table:
        reader = self.reader(columns, 1)
        for number in range(len(self.splits)):
            for batch in reader.batches(number, Faults("skip")):
                return batch.table
        return reader.schema.empty_table()

    def frame(self, session: SparkSession, columns: Sequence[str], tally: TaskTally) -> DataFrame:
        if self.spark_reads(columns):
            heed_case(session)
            files = [str(Path(file.name).absolute()) for file in self.files.files]
            read = session.read.parquet(*files)
            return read.select(
                *(read[quoted(name)].alias(f"c{i}") for i, name in enumerate(columns))
            )
        reader = self.reader(columns)
        schema = spark_schema(reader.schema)
        count = len(self.splits)
        numbers = session.range(0, count, 1, max(count, 1))
        return numbers.mapInArrow(ReadSplits(reader, tally.accumulator), schema)

    def spark_reads(self, columns: Sequence[str]) -> bool:
        """Is it Parquet with one schema, of types that Spark has, and no bad row?"""
        files = self.files.files
        if self.kept is not None:
            return False  # it would read all of them
        if not all(isinstance(file, ParquetFile) and not file.keys for file in files):
            return False
        kinds = {
            tuple(file.schema.field(name).type for name in columns if name in file.schema.names)
            for file in files
        }
        same = len(kinds) == 1 and next(iter(kinds)) == tuple(
            self.schema.field(name).type for name in columns
        )
        return same and self.is_clean and all(_spark_has(k) for k in next(iter(kinds)))

    def sample(self, session: SparkSession, columns: Sequence[str], rows: int) -> pa.Table:
        count = len(self.splits)
        step = max(1, count // SAMPLED_SPLITS)
        chosen = range(step // 2, count, step)
        each = max(1, rows // max(len(chosen), 1))
        reader = self.reader(columns, min(each, batches.BATCH_ROWS))
        found = [reader.schema.empty_table()]
        for number in chosen:
            left = each
            for batch in reader.batches(number, Faults("skip")):
                found.append(batch.table.slice(0, left))
                left -= len(batch)
                if left <= 0:
                    break
        return pa.concat_tables(found)

    def about_rows(self) -> int:
        known = sum(split.rows or 0 for split in self.splits)
        text = [f for f in self.files.files if not isinstance(as_stored(f), ParquetFile)]
        return known + sum(Path(file.name).stat().st_size for file in text) // 40

    def settle(self, tally: TaskTally) -> int:
        read = tally.splits()
        if not read and self.is_clean:
            return sum(split.rows or 0 for split in self.splits)
        reader = self.reader([self.stream.time])
        for number, (_, counts, noted) in sorted(read.items()):
            self.faults.counts.update(counts)
            if noted is not None and self.faults.first is None:
                self.faults.first = reader.told(number, noted)
        return sum(rows for rows, _, _ in read.values())


def open_source(path: EventPath, stream: Stream, faults: Faults | None = None) -> FileSource:
    """Look at the events under a path; raises `EventsError` like the local engine."""
    faults = Faults() if faults is None else faults
    return FileSource(path, stream, faults, batches.FileSource(path, stream, faults))


def _spark_has(kind: pa.DataType) -> bool:
    if at.is_dictionary(kind):
        return _spark_has(kind.value_type)
    if at.is_timestamp(kind):
        return bool(kind.unit != "ns")
    tests = (
        at.is_boolean,
        at.is_signed_integer,
        at.is_float32,
        at.is_float64,
        at.is_string,
        at.is_large_string,
        at.is_date32,
        at.is_decimal128,
    )
    return any(test(kind) for test in tests)


def heed_case(session: SparkSession) -> None:
    """Have Spark tell columns apart whose names differ in case.

    Its analyzer asks the active session of the thread, which another session in this process may
    have become; making a data frame makes this one active.
    """
    session.conf.set("spark.sql.caseSensitive", "true")
    session.createDataFrame([], "one int")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --- tables --------------------------------------------------------------------------------------


@dataclass(eq=False)
class TableSource:
    """A table that Spark knows by name, or Parquet that only Spark can reach."""

    path: str
    stream: Stream
    faults: Faults
    table: DataFrame
    schema: pa.Schema
    ranges: tuple[Range, ...] | None = None  # of times that are read; None for all
    _about: dict[str, int] = field(default_factory=dict)

    def first(self, columns: Sequence[str]) -> pa.Table:
        rows = self._good(self._selected(columns)).limit(1).toArrow()
        return rows.cast(self._arrow(columns))

    def frame(self, session: SparkSession, columns: Sequence[str], tally: TaskTally) -> DataFrame:
        read = self._good(self._selected(columns))
        return read.toDF(*(f"c{i}" for i in range(len(columns))))

    def sample(self, session: SparkSession, columns: Sequence[str], rows: int) -> pa.Table:
        part = min(1.0, rows / max(self.about_rows(), 1))
        chosen = self._good(self._selected(columns)).sample(fraction=part, seed=1).toArrow()
        return chosen.cast(self._arrow(columns))

    def about_rows(self) -> int:
        return self._counted()["all"]

    def settle(self, tally: TaskTally) -> int:
        return self._counted()["all"] - sum(
            number for kind, number in self._counted().items() if kind != "all"
        )

    @property
    def events(self) -> DataFrame:
        """All columns of the rows that are events."""
        return self._good(self.table)

    def check(self) -> None:
        """Refuse, or count, the rows that are no events."""
        bad = {kind: n for kind, n in self._counted().items() if kind != "all" and n}
        if bad:
            kinds = ", ".join(f"{number:,} with a {kind}" for kind, number in bad.items())
            text = f"'{self.path}': of {self._counted()['all']:,} rows, {kinds}"
            if self.faults.on_error == "stop":
                raise BadRowError(f"{text}; fill them in or drop the rows")
            self.faults.counts.update(bad)
            self.faults.first = text

    def _counted(self) -> dict[str, int]:
        if not self._about:
            from pyspark.sql import functions as sf

            bad = self._bad(self.table)
            columns = [sf.count_if(test).alias(kind) for kind, test in bad.items()]
            row = self.table.agg(sf.count(sf.lit(1)).alias("all"), *columns).first()
            self._about.update(row.asDict() if row is not None else {"all": 0})
        return self._about

    def _bad(self, frame: DataFrame) -> dict[str, Any]:
        from pyspark.sql import functions as sf

        time = frame[quoted(self.stream.time)]
        tick = ticks(time, self.schema.field(self.stream.time).type, _kind(frame, self.stream.time))
        found = {
            "null time": time.isNull(),
            "time out of range": time.isNotNull() & (sf.abs(tick) >= LARGEST_TICK),
        }
        if self.stream.sequence is not None:
            no_number = frame[quoted(self.stream.sequence)].isNull()
            in_time = time.isNotNull() & (sf.abs(tick) < LARGEST_TICK)
            found["null sequence number"] = in_time & no_number
        return found

    def _good(self, frame: DataFrame) -> DataFrame:
        for kind, test in self._bad(frame).items():
            if self._counted().get(kind):
                frame = frame.where(~test)
        return frame

    def _selected(self, columns: Sequence[str]) -> DataFrame:
        table, time = self.table, self.table[quoted(self.stream.time)]
        if self.ranges is not None:
            kind = self.schema.field(self.stream.time).type
            table = table.where(in_ranges(self.ranges, time, kind, _kind(table, self.stream.time)))
        return table.select(*(table[quoted(name)] for name in columns))

    def _arrow(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in columns])


def open_table(
    session: SparkSession,
    path: str,
    stream: Stream,
    faults: Faults | None = None,
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> TableSource:
    """A table called `table:NAME`, of a database at `jdbc:…`, or Parquet at an address such as
    `hdfs://…`; the `options` are those of Spark's reader, and errors call it by its `name`."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema

    shown = name or path
    heed_case(session)
    try:
        if path.startswith(TABLE):
            table = session.table(path.removeprefix(TABLE))
        elif path.startswith(JDBC):
            table = session.read.format("jdbc").options(**(options or {}), url=path).load()
        else:
            _check_no_table(session, path)
            table = session.read.options(**(options or {})).parquet(path)
        table = with_times(table, stream)
        schema = to_arrow_schema(table.schema, timezone="UTC")
    except AnalysisException as error:
        raise EventsError(f"'{shown}': {str(error).splitlines()[0]}") from error
    except PySparkTypeError as error:
        raise UnsupportedError(f"'{shown}': {str(error).splitlines()[0]}") from error
    except Py4JJavaError as error:  # of a database, or of what leads to it
        told = str(error.java_exception.getMessage()).splitlines()[0]
        raise EventsError(f"'{shown}': {told}") from error
    check_columns(schema, stream, shown)
    source = TableSource(shown, stream, Faults() if faults is None else faults, table, schema)
    source.check()
    return source


def _check_no_table(session: SparkSession, path: str) -> None:
    """Refuse the folder of a table, wherever it is."""
    from py4j.protocol import Py4JError

    jvm: Any = session._jvm
    try:
        folder = jvm.org.apache.hadoop.fs.Path(path)
        files = folder.getFileSystem(session._jsc.hadoopConfiguration())

        def inside(name: str) -> Any:
            return jvm.org.apache.hadoop.fs.Path(folder, name)

        kinds = [kind for log, kind in TABLE_LOGS.items() if files.exists(inside(log))]
        if files.exists(inside("metadata")):
            names = [str(f.getPath().getName()) for f in files.listStatus(inside("metadata"))]
            kinds += ["Iceberg" for name in names if name.endswith(".metadata.json")]
    except Py4JError:
        return  # which reading it will say better
    if kinds:
        raise table_folder(path, kinds[0], remedy="")


def with_times(table: DataFrame, stream: Stream) -> DataFrame:
    """The table with times in place of what they are written as; null where that is no time."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

    if stream.time not in table.columns:
        return table
    place = table.columns.index(stream.time)
    stored = to_arrow_schema(StructType([table.schema[place]]), timezone="UTC").types[0]
    wanted = time_type(stored, stream)
    reader = time_reader(stream, wanted)
    if wanted == stored or reader is None:
        return table
    fields = list(table.schema)
    kind = TimestampNTZType() if wanted.tz is None else TimestampType()
    fields[place] = StructField(stream.time, kind)
    # Spark's own times are microseconds.
    read = ReadTimes(reader, place, pa.timestamp("us", wanted.tz))
    return table.mapInArrow(read, StructType(fields))


@dataclass(frozen=True)
class ReadTimes:
    """What a task does to a table whose times are written in a format."""

    reader: TimeReader
    place: int
    kind: pa.DataType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wanted = FRACTIONS
            if self.reader.format is not None:
                wanted = format_type(self.reader.format)
            times, _ = self.reader.read(batch.column(self.place), wanted)
            yield batch.set_column(
                self.place, batch.schema.names[self.place], times.cast(self.kind, safe=False)
            )


def _kind(frame: DataFrame, name: str) -> str:
    return frame.schema[name].dataType.simpleString()
