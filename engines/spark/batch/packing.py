"""Columns of events on their way through Spark, and rows of results on theirs.

Spark knows fewer types than Arrow (no nanoseconds, no empty columns), and takes `a` and `A` for
one column. So columns travel as c0, c1, … in types that both know, and get name and type back
where they arrive.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as at

from engines.results.tables import with_matches
from workloads.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

# Aggregate rows and match rows in one table, times as ticks; and what a task has to report.
PACKED = (
    ("query", "string"),
    ("key", "string"),
    ("time", "bigint"),
    ("seq", "bigint"),
    ("aggregate", "string"),
    ("value", "double"),
    ("count", "bigint"),
    ("exact", "boolean"),
    ("start", "bigint"),
    ("end", "bigint"),
    ("match", "string"),
    ("report", "binary"),
)
NO_NANOSECONDS = (
    "a Spark table has no times in nanoseconds; write the results to files, or store the events' "
    "times in microseconds"
)
PACKED_SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in PACKED)
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}


def packed_type(kind: pa.DataType) -> pa.DataType:
    """The type that values travel in."""
    if at.is_dictionary(kind):
        return packed_type(kind.value_type)
    if at.is_date32(kind) or at.is_time32(kind):
        return pa.int32()
    if at.is_temporal(kind) or at.is_unsigned_integer(kind):
        return pa.int64()
    if at.is_null(kind) or at.is_large_string(kind) or at.is_string_view(kind):
        return pa.string()
    if at.is_float16(kind):
        return pa.float32()
    return pa.binary() if at.is_large_binary(kind) else kind


def spark_schema(schema: pa.Schema) -> StructType:
    """How Spark calls packed columns."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = [pa.field(f"c{i}", packed_type(f.type)) for i, f in enumerate(schema)]
    try:
        return from_arrow_schema(pa.schema(fields))
    except PySparkTypeError as error:
        raise UnsupportedError(
            f"Spark does not take a column of the events: {error}; use the local engine"
        ) from error


def pack(table: pa.Table) -> pa.Table:
    """The same values as columns c0, c1, … of types that Spark has."""
    columns = [_packed(column) for column in table.columns]
    return pa.Table.from_arrays(columns, [f"c{i}" for i in range(len(columns))])


def _packed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = packed_type(column.type)
    # Not safe: unsigned numbers of 64 bits go as signed ones and come back as what they were.
    return column if kind == column.type else column.cast(kind, safe=False)


def unpack(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns c0, c1, … with the names and types of `schema`."""
    columns = []
    for i, field in enumerate(schema):
        column = table.column(f"c{i}")
        empty = at.is_null(field.type)
        columns.append(pa.nulls(len(column)) if empty else column.cast(field.type, safe=False))
    return pa.Table.from_arrays(columns, schema=schema)


def ticks(column: Column, kind: pa.DataType, spark_kind: str) -> Column:
    """The time column as a number of ticks; `kind` is its type once it has arrived."""
    from pyspark.sql import functions as sf

    if spark_kind == "date":
        return sf.unix_date(column).cast("bigint")
    if not spark_kind.startswith("timestamp"):
        return column.cast("bigint")
    if spark_kind == "timestamp_ntz":
        parts = {"s": 10**6, "ms": 10**3, "us": 1}[kind.unit]
        return sf.floor(_wall_micros(column) / sf.lit(parts)) if parts > 1 else _wall_micros(column)
    of = {"s": sf.unix_seconds, "ms": sf.unix_millis, "us": sf.unix_micros}[kind.unit]
    return of(column)


def _wall_micros(column: Column) -> Column:
    """Microseconds of a time without a zone, whatever the zone of the session is."""
    from pyspark.sql import functions as sf

    since = column - sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    units = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000))
    whole = sf.extract(sf.lit("SECOND"), since) * sf.lit(1_000_000)
    return reduce(
        lambda sum_, unit: sum_ + sf.extract(sf.lit(unit[0]), since).cast("bigint") * unit[1],
        units,
        whole.cast("bigint"),
    )


# --- results -------------------------------------------------------------------------------------


def packed_schema(match: pa.StructType | None) -> str | StructType:
    """How Spark calls the columns of packed rows, whose matches are texts or structs."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return PACKED_SCHEMA if match is None else from_arrow_schema(_packed_columns(match))


def _packed_columns(match: pa.StructType | None) -> pa.Schema:
    columns = pa.schema([(name, _ARROW[kind]) for name, kind in PACKED])
    return columns if match is None else with_matches(columns, match)


def packed_struct(kind: pa.DataType) -> pa.DataType:
    """A type of matches with types that Spark has."""
    if at.is_struct(kind):
        return pa.struct([(field.name, packed_struct(field.type)) for field in kind])
    if at.is_list(kind):
        return pa.list_(packed_struct(kind.value_type))
    if at.is_timestamp(kind):
        if kind.unit == "ns":
            raise UnsupportedError(NO_NANOSECONDS)
        return pa.timestamp("us", kind.tz)
    return pa.date32() if at.is_date(kind) else packed_type(kind)


def packed_rows(table: pa.Table, match: pa.StructType | None = None) -> pa.Table:
    """Rows of either kind with the columns of both; `match` is the type of structs."""
    schema, columns = _packed_columns(match), []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        if at.is_date32(column.type):
            column = column.cast(pa.int32())
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def packed_report(report: bytes, match: pa.StructType | None = None) -> pa.RecordBatch:
    """A row that has nothing but a report."""
    schema = _packed_columns(match)
    columns = [pa.nulls(1, kind) for kind in schema.types[:-1]]
    return pa.RecordBatch.from_arrays([*columns, pa.array([report], pa.binary())], schema=schema)


def unpacked_time(column: Column, kind: pa.DataType) -> Column:
    """Ticks as times of Spark's own types."""
    from pyspark.sql import functions as sf

    if at.is_date32(kind):
        return sf.date_from_unix_date(column.cast("int"))
    if not at.is_timestamp(kind):
        return column
    if kind.unit == "ns":
        raise UnsupportedError(NO_NANOSECONDS)
    of = {"s": sf.timestamp_seconds, "ms": sf.timestamp_millis, "us": sf.timestamp_micros}
    if kind.tz is not None:
        return of[kind.unit](column)
    # Added to a time without a zone: the zone of the session does not matter.
    size = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND"}[kind.unit]
    return sf.timestamp_add(size, column, sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz"))
