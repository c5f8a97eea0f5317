"""The first rows of each query of a run, which are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.results.tables import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    Results,
    of_kind,
    plain,
    sorted_rows,
)

if TYPE_CHECKING:
    from engines.results.chunks import RowChunk


class FirstRows:
    """The first rows of each query, or all without a limit, and how many there are of each kind."""

    def __init__(self, limit: int | None) -> None:
        self.aggregates = self.matches = 0
        self._limit = limit
        self._kept: list[Results] = []

    def add(self, results: Results) -> None:
        self.aggregates += results.aggregates.num_rows
        self.matches += results.matches.num_rows
        self._keep(results)

    def take(self, chunk: RowChunk) -> None:
        """Count the rows of a chunk; those that cannot be among the first are not made."""
        if chunk.kind == "matches":
            self.matches += len(chunk)
        else:
            self.aggregates += len(chunk)
        tables = chunk.tables() if self._limit is None else [chunk.first(self._limit)]
        for table in tables:
            self._keep(of_kind(plain(table), chunk.kind))

    def _keep(self, results: Results) -> None:
        self._kept.append(results)
        if self._limit is not None:
            self._kept = [self._sorted()]

    @property
    def first(self) -> Results | None:
        """The rows that are kept, in order; None before any have come."""
        return self._sorted() if self._kept else None

    def _sorted(self) -> Results:
        return Results(
            self._rows([found.aggregates for found in self._kept], AGGREGATE_ORDER),
            self._rows([found.matches for found in self._kept], MATCH_ORDER),
        )

    def _rows(self, tables: list[pa.Table], order: tuple[str, ...]) -> pa.Table:
        rows = sorted_rows(pa.concat_tables(tables), order)
        if self._limit is not None:
            rows = _first_of_each_query(rows, self._limit)
        return rows.combine_chunks()


def _first_of_each_query(rows: pa.Table, limit: int) -> pa.Table:
    """Of rows that are sorted by query, the first `limit` of each."""
    queries = rows.column("query").combine_chunks()
    ends = pc.run_end_encode(queries, run_end_type=pa.int64()).run_ends.to_numpy()
    lengths = np.diff(ends, prepend=0)
    place = np.arange(rows.num_rows) - np.repeat(ends - lengths, lengths)
    return rows.filter(pa.array(place < limit))
