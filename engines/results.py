"""Result rows as tables, and writing them to files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from engines.errors import ResultsError
from engines.text import iso_texts, joined, json_column

ENDINGS = (".parquet", ".csv", ".jsonl")
ROWS_AT_ONCE = 100_000


Charged = Callable[[str], AbstractContextManager[object]]  # of a kind of rows


def uncharged(kind: str) -> AbstractContextManager[object]:
    """A context that charges nobody."""
    return nullcontext(kind)


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


@cache
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


AGGREGATE_ORDER = ("query", "key", "time", "seq", "aggregate")
MATCH_ORDER = ("query", "key", "time", "start", "end", "match")


def row_counts(results: Results) -> Counter[str]:
    """How many rows each query has, of those that have any."""
    found: Counter[str] = Counter()
    for table in (results.aggregates, results.matches):
        for pair in pc.value_counts(table.column("query")).to_pylist():
            found[pair["values"]] += pair["counts"]
    return found


def joined_results(parts: Sequence[Results]) -> Results:
    """The rows of several results, at least one."""
    return Results(
        pa.concat_tables([part.aggregates for part in parts]),
        pa.concat_tables([part.matches for part in parts]),
    )


def sorted_results(results: Results) -> Results:
    """The same rows by query, key and time, then by everything else: one order for one result."""
    return Results(
        sorted_rows(results.aggregates, AGGREGATE_ORDER), sorted_rows(results.matches, MATCH_ORDER)
    )


def sorted_rows(table: pa.Table, order: tuple[str, ...]) -> pa.Table:
    """The rows by the given columns, nulls first.

    Rows mostly come in order, query by query: numbers in place of the texts, and a sort that goes
    along ascending stretches, take a fraction of the time of comparing texts.
    """
    if table.num_rows < 2:
        return table
    long = order[-1] == "match"  # long texts, nearly all different: looked at where all else ties
    names = order[:-1] if long else order
    ranks = [rank for name in names if (rank := _ranks(table.column(name))) is not None]
    ranks = ranks or [np.zeros(table.num_rows, np.int64)]
    joint = _combined(ranks)
    if len(joint) == 1:
        places = np.argsort(joint[0], kind="stable")
    else:
        places = np.lexsort(joint[::-1])
    same = np.full(len(places) - 1, long)
    for rank in joint if long else ():
        ranked = rank[places]
        same &= ranked[1:] == ranked[:-1]
    if same.any():
        tied = np.zeros(len(places), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        group = np.cumsum(np.append(True, ~same))[tied]
        rows = places[tied]
        last = pa.table({"group": group, "last": table.column(order[-1]).take(pa.array(rows))})
        keys = [("group", "ascending", "at_start"), ("last", "ascending", "at_start")]
        places[tied] = rows[pc.sort_indices(last, sort_keys=keys).to_numpy()]
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    if len(breaks) * 64 < len(places):  # whole stretches change places: nothing is copied
        starts = np.append(0, breaks)
        ends = np.append(breaks, len(places))
        pieces = zip(places[starts].tolist(), (ends - starts).tolist(), strict=True)
        return pa.concat_tables([table.slice(first, size) for first, size in pieces])
    return table.take(pa.array(places))


def _combined(ranks: list[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.int64]]:
    """The same ranks, neighbours as one number where 63 bits hold them."""
    found = [ranks[0]]
    spread = int(ranks[0].max()) - int(ranks[0].min()) + 1
    for rank in ranks[1:]:
        low, high = int(rank.min()), int(rank.max())
        if spread * (high - low + 1) < 2**62:
            found[-1] = (found[-1] - found[-1].min()) * (high - low + 1) + (rank - low)
            spread *= high - low + 1
        else:
            found.append(rank)
            spread = high - low + 1
    return found


def _ranks(column: pa.ChunkedArray) -> npt.NDArray[np.int64] | None:
    """Numbers that compare as the values do, nulls least; None where all are the same."""
    if column.null_count == len(column):
        return None
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        if len(encoded.dictionary) == 1 and not encoded.null_count:
            return None
        rank = np.empty(len(encoded.dictionary) + 1, np.int64)
        rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
        rank[-1] = -1
        found: npt.NDArray[np.int64] = rank[np.asarray(pc.fill_null(encoded.indices, -1))]
        return found
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers = pc.fill_null(column.cast(pa.int64()), -(2**63))
    return np.asarray(numbers)


def write_results(
    results: Results, path: str, has_aggregates: bool, has_matches: bool
) -> list[str]:
    """Write the rows, sorted, in the format of the path's ending; gives the files written.

    A workload of both kinds of query has two files, `.aggregates` and `.matches` before the
    ending. Files appear under their names only when all are complete.
    """
    ordered = sorted_results(results)
    readers = (ordered.aggregates.to_reader(), ordered.matches.to_reader())
    return write_readers(*readers, path, has_aggregates, has_matches)


def write_readers(
    aggregates: pa.RecordBatchReader,
    matches: pa.RecordBatchReader,
    path: str,
    has_aggregates: bool,
    has_matches: bool,
    charged: Charged = uncharged,
) -> list[str]:
    """`write_results` for rows that come sorted, and batch by batch.

    Each kind of rows is written in a context of its own, `charged` with its name.
    """
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise ResultsError(
            f"results are written to {', '.join(ENDINGS)}, by the ending, not to '{target.name}'"
        )
    if not target.parent.is_dir():
        raise ResultsError(f"there is no folder '{target.parent}' to write results to")
    kinds = []
    if has_aggregates or not has_matches:
        kinds.append(("aggregates", aggregates))
    if has_matches:
        kinds.append(("matches", matches))
    partial: dict[Path, Path] = {}
    try:
        for kind, reader in kinds:
            name = target.name if len(kinds) == 1 else f"{target.stem}.{kind}{target.suffix}"
            final = target.with_name(name)
            partial[final] = final.with_name(f".{name}.{os.getpid()}.partial")
            with charged(kind):
                _WRITERS[final.suffix](reader, partial[final])
        for final, written in partial.items():
            written.replace(final)
    except OSError as error:
        raise ResultsError(f"'{final}' cannot be written: {error.strerror or error}") from error
    finally:
        for written in partial.values():
            written.unlink(missing_ok=True)
    return [str(final) for final in partial]


def write_rows(rows: pa.RecordBatchReader, path: Path) -> None:
    """Write rows to one file, in the format of its ending."""
    _WRITERS[path.suffix](rows, path)


def _write_parquet(rows: pa.RecordBatchReader, path: Path) -> None:
    with pyarrow.parquet.ParquetWriter(path, rows.schema, compression="zstd") as out:
        for table in _pieces(rows):
            out.write_table(table)


def _write_csv(rows: pa.RecordBatchReader, path: Path) -> None:
    times = [pa.types.is_timestamp(field.type) for field in rows.schema]
    schema = pa.schema(
        [
            pa.field(field.name, pa.string()) if is_time else field
            for field, is_time in zip(rows.schema, times, strict=True)
        ]
    )
    with pyarrow.csv.CSVWriter(path, schema) as out:
        for table in _pieces(rows):
            columns = {name: _iso_or_same(table.column(name)) for name in table.column_names}
            out.write_table(pa.table(columns, schema=schema))


def _write_jsonl(rows: pa.RecordBatchReader, path: Path) -> None:
    """Key and match are JSON already, so they stand in the line as the objects that they are."""
    with path.open("wb") as out:
        for table in _pieces(rows):
            for batch in table.to_batches():
                for line in json_rows(batch, after="}\n"):
                    out.write(line.as_buffer())


def json_rows(
    batch: pa.RecordBatch,
    before: str = "{",
    after: str = "}",
    ready: Sequence[str] = ("key", "match"),
) -> pa.Array:
    """Each row as a JSON object; columns that are `ready` are JSON already."""
    pieces: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces.append(f'{"," if pieces else before}"{name}":')
        is_json = name in ready
        pieces.append(pc.fill_null(column, "null") if is_json else json_column(column))
    return joined(*pieces, after)


def _pieces(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The batches as tables of about as many rows as are well written at once."""
    waiting: list[pa.RecordBatch] = []
    for batch in rows:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            waiting.append(batch.slice(start, ROWS_AT_ONCE))
            if sum(part.num_rows for part in waiting) >= ROWS_AT_ONCE:
                yield pa.Table.from_batches(waiting).combine_chunks()
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _iso_or_same(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_timestamp(column.type):
        return iso_texts(column.combine_chunks())
    return column


_WRITERS: dict[str, Callable[[pa.RecordBatchReader, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
}
