"""Result rows as tables, and writing them to files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from engines.errors import ResultsError
from engines.text import iso_texts, joined, json_column

ENDINGS = (".parquet", ".csv", ".jsonl")


@dataclass
class Results:
    """The rows of a workload: of its aggregate queries, and of those that return matches."""

    aggregates: pa.Table
    matches: pa.Table


def aggregate_schema(time_type: pa.DataType) -> pa.Schema:
    """The columns of aggregate rows."""
    return pa.schema(
        [
            ("query", pa.string()),
            ("key", pa.string()),
            ("time", time_type),
            ("seq", pa.int64()),
            ("aggregate", pa.string()),
            ("value", pa.float64()),
            ("count", pa.int64()),
            ("exact", pa.bool_()),
        ]
    )


def match_schema(time_type: pa.DataType) -> pa.Schema:
    """The columns of match rows."""
    return pa.schema(
        [
            ("query", pa.string()),
            ("key", pa.string()),
            ("start", time_type),
            ("end", time_type),
            ("time", time_type),
            ("match", pa.string()),
        ]
    )


def empty_results(time_type: pa.DataType) -> Results:
    """No rows at all."""
    return Results(aggregate_schema(time_type).empty_table(), match_schema(time_type).empty_table())


def sorted_results(results: Results) -> Results:
    """The same rows by query, key and time, then by everything else: one order for one result."""
    return Results(
        _sorted(results.aggregates, ["seq", "aggregate"]),
        _sorted(results.matches, ["start", "end", "match"]),
    )


def _sorted(table: pa.Table, then: list[str]) -> pa.Table:
    keys = [(name, "ascending", "at_start") for name in ("query", "key", "time", *then)]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def write_results(
    results: Results, path: str, has_aggregates: bool, has_matches: bool
) -> list[str]:
    """Write the rows, sorted, in the format of the path's ending; gives the files written.

    A workload of both kinds of query has two files, `.aggregates` and `.matches` before the
    ending. A file appears under its name only when it is complete.
    """
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise ResultsError(
            f"results are written to {', '.join(ENDINGS)}, by the ending, not to '{target.name}'"
        )
    if not target.parent.is_dir():
        raise ResultsError(f"there is no folder '{target.parent}' to write results to")
    ordered = sorted_results(results)
    tables = []
    if has_aggregates or not has_matches:
        tables.append(("aggregates", ordered.aggregates))
    if has_matches:
        tables.append(("matches", ordered.matches))
    written = []
    for kind, table in tables:
        name = target.name if len(tables) == 1 else f"{target.stem}.{kind}{target.suffix}"
        written.append(_write(table, target.with_name(name)))
    return written


def _write(table: pa.Table, target: Path) -> str:
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        _WRITERS[target.suffix](table, partial)
        partial.replace(target)
    except OSError as error:
        raise ResultsError(f"'{target}' cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return str(target)


def _write_parquet(table: pa.Table, path: Path) -> None:
    pyarrow.parquet.write_table(table, path, compression="zstd")


def _write_csv(table: pa.Table, path: Path) -> None:
    columns = {name: _iso_or_same(table.column(name)) for name in table.column_names}
    pyarrow.csv.write_csv(pa.table(columns), path)


def _write_jsonl(table: pa.Table, path: Path) -> None:
    """Key and match are JSON already, so they stand in the line as the objects that they are."""
    with path.open("wb") as out:
        for batch in table.to_batches(max_chunksize=100_000):
            pieces: list[pa.Array | str] = []
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                pieces.append(f'{"," if pieces else "{"}"{name}":')
                ready = name in ("key", "match")
                pieces.append(pc.fill_null(column, "null") if ready else json_column(column))
            for line in joined(*pieces, "}\n"):
                out.write(line.as_buffer())


def _iso_or_same(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_timestamp(column.type):
        return iso_texts(column.combine_chunks())
    return column


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
}
