"""Matches that are structs, sorted in bounded memory: each query's in its own struct."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from engines.results.chunks import RowChunk
from engines.results.first_rows import FirstRows
from engines.results.sorting import RUN_BYTES, Sorter
from engines.results.structs import MatchStructs
from engines.results.tables import (
    STRUCT_ORDER,
    Dictionaries,
    Results,
    coded_schema,
    empty_results,
    match_schema,
    plain,
    with_matches,
)

ALL_BYTES = 2**62


class StructSorter:
    """A `Sorter` of matches that are structs of their queries; it gives those of all queries.

    Fields that only other queries have take no room until rows are read.
    """

    def __init__(
        self,
        structs: MatchStructs,
        time_type: pa.DataType,
        folder: Path,
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self._structs, self._run_bytes = structs, run_bytes
        schema = match_schema(time_type)
        self.schema = coded_schema(structs.rows_schema(time_type))
        self._sorters = {}
        for number, (query, kind) in enumerate(sorted(structs.queries.items())):
            own = with_matches(schema, kind).remove(schema.get_field_index("query"))
            order = STRUCT_ORDER[1:]
            self._sorters[query] = Sorter(own, order, folder, None, f"matches-{number}")

    @property
    def rows(self) -> int:
        return sum(sorter.rows for sorter in self._sorters.values())

    def add(self, table: pa.Table) -> None:
        """Take some rows of one query."""
        if not table.num_rows:
            return
        query = table.column("query")[0].as_py()
        self._sorters[query].add(table.drop_columns("query"))
        if sum(sorter.held for sorter in self._sorters.values()) >= self._run_bytes:
            max(self._sorters.values(), key=lambda sorter: sorter.held).spill()

    def reader(self) -> pa.RecordBatchReader:
        """All rows, sorted; they are no longer held."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Batches that have their dictionaries in common."""
        names = [query for query, sorter in self._sorters.items() if sorter.rows]
        readers = [self._sorters[query].reader() for query in names]
        firsts = [next(reader) for reader in readers]
        keys = Dictionaries(batch["key"].dictionary for batch in firsts)
        for number, query in enumerate(names):
            queries, first = pa.array(names), firsts[number]
            own = first["key"].dictionary
            firsts[number] = None
            for batch in _all(first, readers[number]):
                same = np.full(batch.num_rows, number, np.int32)
                key = pa.DictionaryArray.from_arrays(batch["key"].indices, own)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.DictionaryArray.from_arrays(same, queries),
                        keys.column(key),
                        *(batch[name] for name in ("start", "end", "time")),
                        self._structs.widened(query, batch["match"]),
                    ],
                    schema=self.schema,
                )


class StructRows:
    """All rows of a run in memory; matches are structs."""

    def __init__(self, structs: MatchStructs) -> None:
        self.aggregates = self.matches = 0
        self._structs = structs
        self._aggregates = FirstRows(None)
        self._sorter: StructSorter | None = None

    def add(self, results: Results) -> None:
        self._aggregates.add(results)
        self._begin(results.matches.schema.field("time").type)

    def _begin(self, time_type: pa.DataType) -> StructSorter:
        if self._sorter is None:
            self._aggregates.add(empty_results(time_type))
            self._sorter = StructSorter(self._structs, time_type, Path(), run_bytes=ALL_BYTES)
        return self._sorter

    def take(self, chunk: RowChunk) -> None:
        if chunk.kind == "aggregates":
            self._aggregates.take(chunk)
            self.aggregates += len(chunk)
            return
        for table in chunk.tables(self._structs):
            self._begin(table.schema.field("time").type).add(table)
        self.matches += len(chunk)

    @cached_property
    def first(self) -> Results | None:
        """The rows, in order; None before any have come."""
        found = self._aggregates.first
        if found is None:
            return None
        sorter = self._begin(found.matches.schema.field("time").type)
        return Results(found.aggregates, plain(sorter.reader().read_all()))


def _all(first: pa.RecordBatch, rest: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
