"""The rows of a stream job as they lie in its sink: files by batch, of batches that are completed.

Rows of a completed batch never change, so a row has its place for ever: the order is that of
batches, and in a batch that of its files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from api.jobs.result_files import opened

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 9  # of the number of a batch, which a file's name begins with


@dataclass
class _CountedFiles:
    """Files that have been looked at, in order, with their rows by query."""

    upto: int = -1  # batches
    files: dict[Path, dict[str, int]] = field(default_factory=dict)


class RowCountCache:
    """Remembers how many rows the files of streams have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Path, _CountedFiles] = {}

    def files(self, folder: Path, upto: int, pattern: str) -> dict[Path, dict[str, int]]:
        """The files of a folder up to a batch, with their rows by query."""
        with self._lock:
            seen = self._seen.setdefault(folder, _CountedFiles())
            if upto > seen.upto:
                for path in sorted(folder.glob(pattern)):
                    if seen.upto < int(path.name[:_DIGITS]) <= upto:
                        seen.files[path] = _by_query(path)
                seen.upto = upto
            return dict(seen.files)

    def forget(self, sink: Path) -> None:
        with self._lock:
            for folder in [folder for folder in self._seen if folder.parent == sink]:
                del self._seen[folder]


@dataclass(frozen=True)
class LiveRows:
    """What readers may see of a stream now; of tables the files that are the stream's own."""

    sink: Path
    checkpoint: Path
    seen: RowCountCache
    is_lake: bool = False

    def kinds(self, query: str | None) -> list[str]:
        """The kinds of rows that all queries, or one of them, have by now."""
        return [kind for kind in ("aggregates", "matches") if self.total(kind, query)]

    def total(self, kind: str, query: str | None = None) -> int:
        return sum(_number(rows, query) for rows in self._files(kind).values())

    def pieces(
        self,
        kind: str,
        query: str | None,
        start: int,
        stop: int,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows from one place to another, of one query or of all; all columns or some."""
        at = 0
        for path, rows in self._files(kind).items():
            number = _number(rows, query)
            if number and at < stop and at + number > start:
                first, last = max(start - at, 0), min(stop - at, number)
                table = _rows_of(path, query, columns)
                yield from table.slice(first, last - first).to_batches()
            at += number
            if at >= stop:
                return

    def schema(self, kind: str) -> pa.Schema:
        import pyarrow as pa

        from engines.results.tables import aggregate_schema, match_schema

        first = min((self.sink / kind).glob("*.parquet"), default=None)
        if first is not None:
            with opened(first) as file:
                return file.schema_arrow
        made = aggregate_schema if kind == "aggregates" else match_schema
        return made(pa.int64())

    def whole(self, kind: str) -> Path | None:
        """The one file that has all rows: there is none."""
        return None

    def _files(self, kind: str) -> dict[Path, dict[str, int]]:
        from engines.results.lake_place import files_of_writer
        from engines.spark.stream.checkpoint import readable_batch, stream_id

        checkpoint, pattern = str(self.checkpoint), "*.parquet"
        upto = readable_batch(checkpoint)
        if self.is_lake and upto >= 0:
            pattern = files_of_writer(stream_id(checkpoint))
        return self.seen.files(self.sink / kind, upto, pattern)


def _number(rows: dict[str, int], query: str | None) -> int:
    return sum(rows.values()) if query is None else rows.get(query, 0)


def _by_query(path: Path) -> dict[str, int]:
    import pyarrow.compute as pc

    with opened(path) as file:
        counts = pc.value_counts(file.read(columns=["query"]).column(0))
    return {pair["values"]: pair["counts"] for pair in counts.to_pylist()}


def _rows_of(path: Path, query: str | None, columns: Sequence[str] | None) -> pa.Table:
    import pyarrow.compute as pc

    with opened(path) as file:
        table = file.read(None if columns is None else ["query", *(set(columns) - {"query"})])
    if query is not None:
        table = table.filter(pc.equal(table.column("query"), query))
    return table if columns is None else table.select(list(columns))
