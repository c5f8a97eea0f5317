"""Rows of results as they lie in a job's folder: sorted, and read by where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def stretch(rows: Mapping[str, int], query: str | None) -> tuple[int, int]:
    """Where a query's rows begin and end in a file that has `rows` of each, in that order."""
    if query is None:
        return 0, sum(rows.values())
    start = 0
    for name, number in rows.items():
        if name == query:
            return start, start + number
        start += number
    return start, start


def read_rows(path: Path, start: int, stop: int) -> pa.Table:
    """The rows of a file from one place to another."""
    import pyarrow as pa

    with opened(path) as file:
        batches = list(_pieces(file, start, stop))
        return pa.Table.from_batches(batches, schema=file.schema_arrow)


def iterate_rows(
    path: Path, start: int, stop: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a file, a piece at a time, so that memory does not follow their number."""
    with opened(path) as file:
        yield from _pieces(file, start, stop, columns)


def opened(path: Path) -> pa.parquet.ParquetFile:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path)


def _pieces(
    file: pa.parquet.ParquetFile, start: int, stop: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Only the groups of rows that the stretch touches are read, all columns or some."""
    wanted = None if columns is None else list(columns)
    at = 0
    for number in range(file.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        if at < stop and at + size > start:
            for batch in file.iter_batches(10_000, row_groups=[number], columns=wanted):
                first, last = max(start - at, 0), min(stop - at, batch.num_rows)
                if first < last:
                    yield batch.slice(first, last - first)
                at += batch.num_rows
        else:
            at += size
