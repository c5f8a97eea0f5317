"""The rows of a job: those of one that is over in one file a kind, those of a stream as they come.

Places count from 0, among the rows of a kind, or of a kind and a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from api.jobs.folder import JobFolder
from api.jobs.live_rows import LiveRows
from api.jobs.model import JobSummary
from api.jobs.result_files import iterate_rows, opened, stretch

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class StoredRows:
    """Rows that lie sorted in the job's folder."""

    folder: JobFolder
    done: JobSummary

    def kinds(self, query: str | None) -> list[str]:
        """The kinds of rows that all queries, or one of them, can have."""
        return [k for k in self.done.kinds if query is None or query in self.done.rows[k]]

    def total(self, kind: str, query: str | None = None) -> int:
        start, stop = stretch(self.done.rows[kind], query)
        return stop - start

    def pieces(
        self,
        kind: str,
        query: str | None,
        start: int,
        stop: int,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows from one place to another, of one query or of all; all columns or some."""
        first, last = stretch(self.done.rows[kind], query)
        path = self.folder.rows(kind)
        return iterate_rows(path, min(first + start, last), min(first + stop, last), columns)

    def schema(self, kind: str) -> pa.Schema:
        with opened(self.folder.rows(kind)) as file:
            return file.schema_arrow

    def whole(self, kind: str) -> Path | None:
        """The one file that has all rows."""
        return self.folder.rows(kind)


Rows = StoredRows | LiveRows


def table_of(rows: Rows, kind: str, query: str | None, start: int, stop: int) -> pa.Table:
    """The rows from one place to another."""
    import pyarrow as pa

    return pa.Table.from_batches(rows.pieces(kind, query, start, stop), rows.schema(kind))
