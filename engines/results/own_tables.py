"""A table for each query beside the file of all rows, with the columns that the query names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as at

from engines.limits import ResultsError
from engines.results.chunks import ROW_KINDS, RowKind
from engines.results.json_lines import json_rows
from engines.results.json_text import json_column
from engines.results.structs import match_structs
from engines.results.wide import selected_table, wide_table
from engines.results.writers import LINES_AT_ONCE, write_readers, write_rows
from optimizer.ir.query import Aggregation, BoundWorkload, RowPattern

LONGEST_NAME = 180  # of the 255 characters that files may have

RowFiles = Mapping[RowKind, Path]  # by kind of rows: a Parquet file with those of all queries


@contextmanager
def row_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside a file that is to be written, for rows that are not yet in it."""
    with TemporaryDirectory(prefix=f".{target.stem}.", dir=target.parent) as folder:
        yield Path(folder)


def write_stored_rows(rows: RowFiles, target: Path, kinds: tuple[bool, bool]) -> list[str]:
    """Write rows that are in Parquet as `write_readers` does; `kinds` are those there are."""
    with ExitStack() as opened:
        files = [opened.enter_context(pq.ParquetFile(rows[kind])) for kind in ROW_KINDS]
        aggregates, matches = (
            pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            for file in files
        )
        return write_readers(aggregates, matches, str(target), *kinds)


def write_rows_and_tables(
    workload: BoundWorkload,
    schema: pa.Schema,
    rows: RowFiles,
    target: Path,
    kinds: tuple[bool, bool],
) -> list[str]:
    """Write rows as `write_stored_rows` does, and those of each query beside them.

    `found.csv` has `found.NAME.csv` beside it, with the columns of that query. The rows of one
    query are in memory at a time. `schema` has the columns of the events.
    """
    written = write_stored_rows(rows, target, kinds)
    return [*written, *_write_own_tables(workload, schema, rows, target, written)]


def _write_own_tables(
    workload: BoundWorkload, schema: pa.Schema, rows: RowFiles, target: Path, taken: Sequence[str]
) -> list[str]:
    """The files that are written, all of which appear under their names when they are complete."""
    structs = match_structs(workload, schema)
    names = {Path(name).name.lower() for name in taken}
    partial: dict[Path, Path] = {}
    try:
        for query in workload.written:
            kind: RowKind = "aggregates" if isinstance(query.output, Aggregation) else "matches"
            found = pq.read_table(rows[kind], filters=pc.field("query") == query.name)
            name = _file_name(query.name)
            while f"{target.stem}.{name}{target.suffix}".lower() in names:
                name += "_"
            final = target.with_name(f"{target.stem}.{name}{target.suffix}")
            names.add(final.name.lower())
            partial[final] = final.with_name(f".{final.name}.{os.getpid()}.partial")
            if isinstance(query.output, RowPattern):
                own = selected_table(query, found, schema)
            else:
                own = wide_table(query, found, structs, schema)
            _write(own, partial[final], target.suffix)
        for final, written in partial.items():
            written.replace(final)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ResultsError(f"a table beside '{target}' cannot be written: {why}") from error
    finally:
        for written in partial.values():
            with suppress(OSError):
                written.unlink(missing_ok=True)
    return [str(final) for final in partial]


def _file_name(query: str) -> str:
    """A query's name as part of a file's; what has no place there is written as in addresses."""
    return quote(query, safe=" ()[]{}+,;=@!$&'#~^")[:LONGEST_NAME]


def _write(own: pa.Table, path: Path, ending: str) -> None:
    if ending == ".parquet":
        pq.write_table(own, path, compression="zstd")
        return
    if ending == ".jsonl":
        with path.open("wb") as out:
            for batch in own.combine_chunks().to_batches(LINES_AT_ONCE):
                out.write(json_rows(batch, after="}\n", ready=()).buffers()[2])
        return
    if ending == ".csv":
        for place, field in enumerate(own.schema):
            if at.is_nested(field.type):
                own = own.set_column(place, field.name, json_column(own.column(place)))
            elif at.is_null(field.type):
                own = own.set_column(place, field.name, own.column(place).cast(pa.string()))
    write_rows(own.to_reader(), path, ending)
