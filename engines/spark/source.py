"""Stored events as a Spark table that keeps the types they have on disk.

Spark knows fewer types than Arrow (no nanoseconds, no empty columns), and takes `a` and `A` for
one column. So columns travel as c0, c1, … in types that both know, and get name and type back
where they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset
import pyarrow.types as at

from engines.errors import EventsError
from engines.events import Events, from_table, read_table
from engines.files import format_of, list_files
from workloads.errors import UnsupportedError
from workloads.model import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Source:
    """Events that a job reads.

    `files` are Parquet that Spark reads itself; `events` are then the first row at most, which is
    enough to know the types. Otherwise `events` are all of them, read here.
    """

    events: Events
    files: tuple[str, ...] | None

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are once they have arrived."""
        return self.events.table.schema

    def frame(self, session: SparkSession, columns: list[str]) -> DataFrame:
        """The columns as a Spark table, called c0, c1, …"""
        if self.files is not None:
            session.conf.set("spark.sql.caseSensitive", "true")
            read = session.read.parquet(*self.files)
            return read.select(
                *(read[_quoted(name)].alias(f"c{i}") for i, name in enumerate(columns))
            )
        from pyspark.errors import PySparkTypeError

        packed = [_packed(self.events.table.column(name)) for name in columns]
        table = pa.Table.from_arrays(packed, [f"c{i}" for i in range(len(columns))])
        try:
            return session.createDataFrame(table)
        except PySparkTypeError as error:
            raise UnsupportedError(
                f"Spark does not take a column of the events: {error}; use the local engine"
            ) from error


def open_source(path: str, stream: Stream) -> Source:
    """Look at the events under a path; raises `EventsError` like the local engine."""
    files = list_files(path)
    if _spark_reads(files):
        try:
            head = pyarrow.dataset.dataset(files, format="parquet").head(1)
        except (pa.ArrowInvalid, OSError) as error:
            raise EventsError(f"'{path}' cannot be read as Parquet: {error}") from error
        return Source(from_table(head, stream, path), tuple(files))
    return Source(from_table(read_table(path), stream, path), None)


def unpack(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns c0, c1, … with the names and types of `schema`."""
    columns = []
    for i, field in enumerate(schema):
        column = table.column(f"c{i}")
        empty = at.is_null(field.type)
        columns.append(pa.nulls(len(column)) if empty else column.cast(field.type, safe=False))
    return pa.Table.from_arrays(columns, schema=schema)


def _spark_reads(files: list[str]) -> bool:
    """Parquet with one schema, of types that Spark has, and no columns in folders' names."""
    if not all(
        format_of(file) == "parquet" and "=" not in str(Path(file).parent) for file in files
    ):
        return False
    try:
        schemas = {pyarrow.dataset.dataset(file, format="parquet").schema for file in files}
    except (pa.ArrowInvalid, OSError):
        return False  # the reader that is then taken says what is wrong
    return len(schemas) == 1 and all(_spark_has(field.type) for field in next(iter(schemas)))


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


def _packed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in a type that Spark has."""
    kind = column.type
    if at.is_date32(kind) or at.is_time32(kind):
        return column.cast(pa.int32())
    if at.is_temporal(kind):
        return column.cast(pa.int64())
    if at.is_null(kind) or at.is_large_string(kind):
        return column.cast(pa.string())
    return column


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
