"""Result rows as tables, sorted in bounded memory, and written to files."""

from __future__ import annotations

import bisect
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from engines.limits import ResultsError
from engines.results.json_text import iso_texts, joined, json_column

if TYPE_CHECKING:
    from engines.results.chunks import RowChunk

ENDINGS = (".parquet", ".csv", ".jsonl")
ROWS_AT_ONCE = 100_000
LINES_AT_ONCE = 20_000  # of JSON, whose texts are several times as large as the rows


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


def of_kind(table: pa.Table, kind: str) -> Results:
    """The rows of a table of one kind."""
    none = empty_results(table.schema.field("time").type)
    return replace(none, **{kind: table})


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


def least_rows(table: pa.Table, order: tuple[str, ...], number: int) -> pa.Table:
    """The first rows by the given columns, not sorted, with all that tie with the last of them."""
    ranks = (_ranks(table.column(name)) for name in order)
    places = least_places(ranks, table.num_rows, number)
    return table if len(places) == table.num_rows else table.take(pa.array(places))


def least_places(
    ranks: Iterator[npt.NDArray[np.int64] | None], size: int, number: int
) -> npt.NDArray[np.int64]:
    """The places of the first rows by their ranks, not sorted, with all that tie with the last.

    Ranks of None are all the same. Nothing is sorted, and later ranks are made only for ties.
    """
    chosen: list[npt.NDArray[np.int64]] = []
    tied, room = np.arange(size), number
    while 0 < room < len(tied):
        rank = next(ranks, tied)
        if rank is tied:
            break
        if rank is None:
            continue
        ranked = rank[tied]
        last = np.partition(ranked, room - 1)[room - 1]
        before = tied[ranked < last]
        chosen.append(before)
        tied, room = tied[ranked == last], room - len(before)
    return np.concatenate([*chosen, tied]) if room else np.zeros(0, np.int64)


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
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ResultsError(f"'{final}' cannot be written: {why}") from error
    finally:
        for written in partial.values():
            with suppress(OSError):
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
            for batch in table.to_batches(LINES_AT_ONCE):
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


RUN_BYTES = 80 * 2**20  # that are sorted in memory
MERGE_BATCH_ROWS = 16_384  # of each run that a merge holds in memory
FAN_IN = 32  # runs that are merged at once


class Sorter:
    """Takes rows in any order and gives them sorted; what memory does not hold is in `folder`.

    The folder is made when it is needed; whoever gave its name removes it.
    """

    def __init__(
        self, schema: pa.Schema, order: tuple[str, ...], folder: Path, run_bytes: int = RUN_BYTES
    ) -> None:
        self.rows = 0
        self._schema, self._order = schema, order
        self._folder, self._run_bytes = folder, run_bytes
        self._waiting: list[pa.Table] = []
        self._held = 0
        self._levels: list[list[Path]] = []  # runs that were merged as often
        self._written = 0

    def add(self, table: pa.Table) -> None:
        """Take some rows."""
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._held += table.nbytes
        self.rows += table.num_rows
        if self._held >= self._run_bytes:
            self._keep(self._sorted().to_reader(MERGE_BATCH_ROWS), 0)
            self._waiting, self._held = [], 0

    def reader(self) -> pa.RecordBatchReader:
        """All rows, sorted."""
        runs = [_batches(path) for level in self._levels for path in level]
        runs.append(iter(self._sorted().to_batches(MERGE_BATCH_ROWS)))
        return pa.RecordBatchReader.from_batches(
            self._schema, _merged(runs, self._schema, self._order)
        )

    def _sorted(self) -> pa.Table:
        held = pa.concat_tables([self._schema.empty_table(), *self._waiting])
        return sorted_rows(held, self._order)

    def _keep(self, run: pa.RecordBatchReader, level: int) -> None:
        """Write a run; of a level that is full then, all runs become one of the next level."""
        path = self._folder / f"{self._order[-1]}-{self._written}.arrow"
        self._written += 1
        self._folder.mkdir(exist_ok=True)
        write_run(run, path)
        self.take(path, level)

    def take(self, path: Path, level: int = 0) -> None:
        """Take a file that `write_run` wrote, and remove it when it is not needed any more."""
        while len(self._levels) <= level:
            self._levels.append([])
        self._levels[level].append(path)
        if len(self._levels[level]) == FAN_IN:
            merged, self._levels[level] = self._levels[level], []
            batches = _merged([_batches(p) for p in merged], self._schema, self._order)
            self._keep(pa.RecordBatchReader.from_batches(self._schema, batches), level + 1)
            for path in merged:
                path.unlink()


def write_run(rows: pa.RecordBatchReader, path: Path) -> None:
    """Write rows that are sorted to a file that a merge can read batch by batch."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    try:
        with pa.ipc.new_file(path, rows.schema, options=options) as out:
            for batch in rows:
                for start in range(0, batch.num_rows, MERGE_BATCH_ROWS):
                    out.write_batch(batch.slice(start, MERGE_BATCH_ROWS))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ResultsError(
            f"rows to be sorted cannot be written to '{path.parent}': {why}; make room there"
        ) from error


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as run:
        for number in range(run.num_record_batches):
            yield run.get_batch(number)


def _merged(
    runs: list[Iterator[pa.RecordBatch]], schema: pa.Schema, order: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Sorted runs as one: again and again, all rows up to the least last row of any batch held."""
    if len(runs) == 1:
        yield from runs[0]
        return
    held = [_RunBatch(run, order) for run in runs]
    while held := [run for run in held if run.has_rows()]:
        least = min(run.last for run in held)
        table = pa.Table.from_batches([run.until(least) for run in held], schema)
        yield from sorted_rows(table, order).combine_chunks().to_batches()


class _RunBatch:
    """The batch of a run that is being merged."""

    def __init__(self, run: Iterator[pa.RecordBatch], order: tuple[str, ...]) -> None:
        self._run, self._order = run, order
        self._batch: pa.RecordBatch | None = None
        self.last: tuple[Any, ...] = ()

    def has_rows(self) -> bool:
        while self._batch is None or not self._batch.num_rows:
            self._batch = next(self._run, None)
            if self._batch is None:
                return False
            if self._batch.num_rows:
                self.last = self._key(self._batch.num_rows - 1)
        return True

    def until(self, bound: tuple[Any, ...]) -> pa.RecordBatch:
        """The rows up to a bound, which are then no longer held."""
        assert self._batch is not None
        count = bisect.bisect_right(range(self._batch.num_rows), bound, key=self._key)
        rows, self._batch = self._batch.slice(0, count), self._batch.slice(count)
        return rows

    def _key(self, row: int) -> tuple[Any, ...]:
        """A row's place in the order: nulls first, times as their ticks."""
        assert self._batch is not None
        scalars = [self._batch.column(name)[row] for name in self._order]
        return tuple((s.is_valid, _plain(s) if s.is_valid else None) for s in scalars)


def _plain(scalar: pa.Scalar) -> Any:
    return scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py()


class Output(Protocol):
    """Takes rows in any order and counts them."""

    aggregates: int
    matches: int

    def add(self, results: Results) -> None: ...

    def take(self, chunk: RowChunk) -> None: ...


class FileOutput:
    """Rows for `write_results`, in files of their own until all have come.

    Leaving the `with` block removes those, whatever happened.
    """

    def __init__(
        self, path: str, has_aggregates: bool, has_matches: bool, run_bytes: int = RUN_BYTES
    ) -> None:
        self.aggregates = self.matches = 0
        self._path, self._kinds = path, (has_aggregates, has_matches)
        target = Path(path)
        self._folder = target.with_name(f".{target.name}.{os.getpid()}.sorting")
        self._run_bytes = run_bytes
        self._sorters: tuple[Sorter, Sorter] | None = None

    def add(self, results: Results) -> None:
        if self._sorters is None:
            self._sorters = (
                self._sorter(results.aggregates.schema, AGGREGATE_ORDER),
                self._sorter(results.matches.schema, MATCH_ORDER),
            )
        self._sorters[0].add(results.aggregates)
        self._sorters[1].add(results.matches)
        self.aggregates, self.matches = (sorter.rows for sorter in self._sorters)

    def take(self, chunk: RowChunk) -> None:
        """Add the rows of a chunk, a table at a time."""
        for table in chunk.tables():
            self.add(of_kind(table, chunk.kind))

    def write(self, charged: Charged = uncharged) -> list[str]:
        """Write what has come, each kind of rows in its own `charged` context; gives the files."""
        assert self._sorters is not None, "no slice has come"
        readers = []
        for kind, sorter in zip(("aggregates", "matches"), self._sorters, strict=True):
            with charged(kind) if sorter.rows else nullcontext():
                readers.append(sorter.reader())
        return write_readers(readers[0], readers[1], self._path, *self._kinds, charged)

    def _sorter(self, schema: pa.Schema, order: tuple[str, ...]) -> Sorter:
        return Sorter(schema, order, self._folder, self._run_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
