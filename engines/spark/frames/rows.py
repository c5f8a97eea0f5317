"""Rows of all queries as one data frame: a row for each window and each match.

Values of a window's aggregates are side by side in lists, keys and matches are structs. So a
query's own columns are parts of a row, and nothing is shuffled to bring them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_table import from_table
from engines.results.chunks import RowChunk
from engines.results.structs import MatchStructs, match_structs
from engines.results.wide import aggregate_names, from_json, key_type, keys_of, windows_of
from engines.spark.batch.landing import Landing, Report
from engines.spark.batch.packing import NO_NANOSECONDS, packed_struct
from optimizer.ir.query import BoundWorkload
from workloads.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ROWS_AT_ONCE = 50_000


@dataclass(frozen=True)
class FrameRows(Landing):
    """Where rows land that go to a data frame, in tasks; these send no report."""

    columns: pa.Schema
    aggregates: Mapping[str, tuple[str, ...]]  # as written, by query
    structs: MatchStructs | None

    @staticmethod
    def of(workload: BoundWorkload, schema: pa.Schema) -> FrameRows:
        """The rows of a workload over events with these columns."""
        time = from_table(schema.empty_table(), workload.stream).time_type
        if pa.types.is_timestamp(time):
            if time.unit == "ns":
                raise UnsupportedError(NO_NANOSECONDS)
            time = pa.timestamp("us", time.tz)
        structs = match_structs(workload, schema)
        keys = key_type(workload.queries, schema)
        columns: list[tuple[str, pa.DataType]] = [("query", pa.string()), ("key", pa.string())]
        if keys is not None:
            columns.append(("keys", packed_struct(keys)))
        columns += [
            ("start", time),
            ("end", time),
            ("time", time),
            ("seq", pa.int64()),
            ("values", pa.list_(pa.float64())),
            ("counts", pa.list_(pa.int64())),
            ("exacts", pa.list_(pa.bool_())),
            ("text", pa.string()),  # of matches that are no structs
        ]
        if structs is not None:
            columns.append(("match", packed_struct(structs.whole)))
        return FrameRows(pa.schema(columns), aggregate_names(workload), structs)

    @property
    def spark_schema(self) -> StructType:
        """How Spark calls the columns."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.columns)

    def landed(self, chunks: Iterator[RowChunk], report: Report) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            report.count(chunk)
            structs = self.structs
            if structs is not None and chunk.query not in structs.queries:
                structs = None
            for table in chunk.tables(structs):
                yield from self.batches(chunk.query, table)

    def told(self, report: Report) -> Iterator[pa.RecordBatch]:
        return iter(())

    def batches(self, query: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of a query, of either kind, as they go to Spark."""
        if query in self.aggregates:
            windows = windows_of(table, self.aggregates[query])
            table = windows.rows
            sides = (windows.values, windows.counts, windows.exacts)
            found = dict(zip(("values", "counts", "exacts"), map(_lists, sides), strict=True))
        else:
            found = self._matches(query, table)
        for name in ("query", "key", "start", "end", "time", "seq"):
            if name in table.column_names:
                found[name] = table.column(name)
        if "keys" in self.columns.names:
            kind = self.columns.field("keys").type
            found["keys"] = keys_of(table.column("key"), kind)
        columns = [
            found[field.name].cast(field.type)
            if field.name in found
            else pa.nulls(table.num_rows, field.type)
            for field in self.columns
        ]
        wide = pa.Table.from_arrays(columns, schema=self.columns)
        yield from wide.to_batches(max_chunksize=ROWS_AT_ONCE)

    def _matches(self, query: str, table: pa.Table) -> dict[str, pa.Array]:
        matches = table.column("match")
        if self.structs is None or query not in self.structs.queries:
            return {"text": matches}
        if pa.types.is_string(matches.type):  # as a live stream has them
            whole = pa.concat_arrays([pa.array([], pa.string()), *matches.chunks])
            matches = from_json(whole, self.structs.queries[query])
        else:
            matches = pa.concat_arrays([pa.array([], self.structs.queries[query]), *matches.chunks])
        return {"match": self.structs.widened(query, matches)}

    def by_query(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of one kind, of any queries."""
        names = table.column("query").cast(pa.string())
        for query in pc.unique(names).to_pylist():
            yield from self.batches(query, table.filter(pc.equal(names, query)))


def _lists(columns: tuple[pa.ChunkedArray, ...]) -> pa.ListArray:
    """Columns side by side: a list of each row's values."""
    number, size = len(columns), len(columns[0])
    chunks = [chunk for column in columns for chunk in column.chunks]
    values = pa.concat_arrays([pa.array([], columns[0].type), *chunks])
    if number > 1:  # the value of row r in column i is at i * size + r
        values = values.take(pa.array(np.arange(number * size).reshape(number, size).T.ravel()))
    offsets = pa.array(np.arange(size + 1, dtype=np.int32) * number, pa.int32())
    return pa.ListArray.from_arrays(offsets, values)
