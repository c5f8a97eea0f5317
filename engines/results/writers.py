"""Result rows written to files, in the format of the path's ending."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from engines.limits import ResultsError
from engines.results.json_lines import json_rows
from engines.results.json_text import iso_texts
from engines.results.kept_texts import KeptTexts
from engines.results.tables import (
    CODED,
    Results,
    coded,
    coded_schema,
    gathered,
    plain,
    plain_schema,
    sorted_results,
)

ENDINGS = (".parquet", ".arrow", ".csv", ".jsonl")
ROWS_AT_ONCE = 100_000
LINES_AT_ONCE = 20_000  # of JSON, whose texts are several times as large as the rows


Charged = Callable[[str], AbstractContextManager[object]]  # of a kind of rows


def uncharged(kind: str) -> AbstractContextManager[object]:
    """A context that charges nobody."""
    return nullcontext(kind)


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
    kept: KeptTexts | None = None,
    at_once: bool = False,
) -> list[str]:
    """`write_results` for rows that come sorted, and batch by batch.

    Each kind of rows is written in a context of its own, `charged` with its name, and both of them
    `at_once` in two threads. Matches may be numbers of texts that are `kept`.
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
    finals = [
        target if len(kinds) == 1 else target.with_name(f"{target.stem}.{kind}{target.suffix}")
        for kind, _ in kinds
    ]
    partial = [final.with_name(f".{final.name}.{os.getpid()}.partial") for final in finals]

    def write(number: int) -> None:
        (kind, reader), final = kinds[number], finals[number]
        with _named_errors(final), charged(kind):
            texts = kept if kind == "matches" else None
            _write(reader, partial[number], final.suffix, texts)

    try:
        with (
            ThreadPoolExecutor(len(kinds)) if at_once and len(kinds) > 1 else nullcontext() as pool
        ):
            for _ in (map if pool is None else pool.map)(write, range(len(kinds))):
                pass
        for final, written in zip(finals, partial, strict=True):
            with _named_errors(final):
                written.replace(final)
    finally:
        for written in partial:
            with suppress(OSError):
                written.unlink(missing_ok=True)
    return [str(final) for final in finals]


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """A context in which errors of the system are of a file that cannot be written."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ResultsError(f"'{path}' cannot be written: {why}") from error


def write_rows(rows: pa.RecordBatchReader, path: Path, ending: str | None = None) -> None:
    """Write rows to one file, in the format of its ending, or of another that is said."""
    _write(rows, path, ending or path.suffix)


def _write(
    rows: pa.RecordBatchReader, path: Path, ending: str, kept: KeptTexts | None = None
) -> None:
    if ending == ".jsonl":
        _write_jsonl(rows, path, kept)
    else:
        _WRITERS[ending](rows if kept is None else kept.with_texts(rows), path)


def _write_parquet(rows: pa.RecordBatchReader, path: Path) -> None:
    """Repeating texts are dictionaries in the file; whoever reads it gets texts."""
    schema = plain_schema(rows.schema)
    types = {"ARROW:schema": base64.b64encode(schema.serialize())}
    schema = coded_schema(schema)
    numbers = [field.name for field in schema if _is_whole(field.type)]
    reals = [field.name for field in schema if pa.types.is_float64(field.type)]
    pieces = gathered(rows, ROWS_AT_ONCE)
    first = next(pieces, None)
    with pyarrow.parquet.ParquetWriter(
        path,
        schema,
        # Differences of counts are as good as random.
        compression={name: "none" if name == "count" else "zstd" for name in schema.names},
        use_dictionary=[name for name in CODED if name in schema.names],
        # Times of rows in order lie close to each other, and doubles that are counts end alike.
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED")
        | dict.fromkeys(reals, "BYTE_STREAM_SPLIT"),
        write_statistics=[] if first is None else _worth_statistics(first),
        store_schema=False,
    ) as out:
        for table in () if first is None else itertools.chain([first], pieces):
            columns = [_compact(column) for column in coded(table).columns]
            out.write_table(pa.Table.from_arrays(columns, schema=schema))
        out.add_key_value_metadata(types)


def _worth_statistics(rows: pa.Table) -> list[str]:
    """The columns whose least and greatest values may tell a reader what it need not read."""
    columns = zip(rows.column_names, rows.columns, strict=True)
    return [
        name
        for name, column in columns
        if name not in ("aggregate", "exact", "match") and column.null_count < len(column)
    ]


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def _write_arrow(rows: pa.RecordBatchReader, path: Path) -> None:
    schema = plain_schema(rows.schema)
    with pa.ipc.new_file(path, schema) as out:
        for table in gathered(rows, ROWS_AT_ONCE):
            out.write_table(plain(table.combine_chunks()))


def _compact(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column of one chunk; its dictionary, which is written whole, with the texts in use only.

    Long texts are not copied.
    """
    if pa.types.is_string(column.type) and column.num_chunks > 1:
        return column
    one = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if not pa.types.is_dictionary(one.type) or 2 * len(one.dictionary) < len(one):
        return one
    seen = np.zeros(len(one.dictionary), np.bool_)
    seen[one.indices.drop_null().to_numpy()] = True
    place = (np.cumsum(seen, dtype=np.int32) - 1).astype(np.int32)
    if not len(place):
        return one
    indices = pa.array(place).take(one.indices)
    return pa.DictionaryArray.from_arrays(indices, one.dictionary.filter(pa.array(seen)))


def _write_csv(rows: pa.RecordBatchReader, path: Path) -> None:
    schema = plain_schema(rows.schema)
    for number, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            schema = schema.set(number, pa.field(field.name, pa.string()))
    with pyarrow.csv.CSVWriter(path, schema) as out:
        for table in map(pa.Table.combine_chunks, gathered(rows, ROWS_AT_ONCE)):
            columns = {name: _iso_or_same(table.column(name)) for name in table.column_names}
            out.write_table(pa.table(columns, schema=schema))


def _write_jsonl(rows: pa.RecordBatchReader, path: Path, kept: KeptTexts | None) -> None:
    """Key and match are JSON already, so they stand in the line as the objects that they are."""
    with path.open("wb") as out:
        for table in gathered(rows, ROWS_AT_ONCE):
            for batch in table.combine_chunks().to_batches(LINES_AT_ONCE):
                out.write(json_rows(batch, after="}\n", kept=kept).buffers()[2])


def _iso_or_same(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_timestamp(column.type):
        return iso_texts(column.combine_chunks())
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


_WRITERS: dict[str, Callable[[pa.RecordBatchReader, Path], None]] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".csv": _write_csv,
}
