"""Rows in any order, sorted in bounded memory."""

from __future__ import annotations

import bisect
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from engines.limits import ResultsError
from engines.results.tables import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    Dictionaries,
    Results,
    coded,
    coded_schema,
    of_kind,
    ordered_places,
)
from engines.results.writers import Charged, uncharged, write_readers

if TYPE_CHECKING:
    from engines.results.chunks import RowChunk
    from engines.results.struct_sorting import StructSorter
    from engines.results.structs import MatchStructs

RUN_BYTES = 80 * 2**20  # that are sorted in memory
MERGE_BATCH_ROWS = 16_384  # of each run that a merge holds in memory
FAN_IN = 32  # runs that are merged at once


class Sorter:
    """Takes rows in any order and gives them sorted; what memory does not hold is in `folder`.

    The folder is made when it is needed; whoever gave its name removes it. Without `run_bytes` rows
    are held until `spill` is called.
    """

    def __init__(
        self,
        schema: pa.Schema,
        order: tuple[str, ...],
        folder: Path,
        run_bytes: int | None = RUN_BYTES,
        name: str | None = None,
    ) -> None:
        self.rows = self.held = 0
        self._schema, self._order = coded_schema(schema), order
        self._folder, self._run_bytes = folder, run_bytes
        self._name = name or order[-1]
        self._waiting: list[pa.Table] = []
        self._levels: list[list[Path]] = []  # runs that were merged as often
        self._written = 0

    def add(self, table: pa.Table) -> None:
        """Take some rows."""
        if not table.num_rows:
            return
        table = coded(table)
        self._waiting.append(table)
        self.held += _held_bytes(table)
        self.rows += table.num_rows
        if self._run_bytes is not None and self.held >= self._run_bytes:
            self.spill()

    def spill(self) -> None:
        """Write the rows in memory to a file."""
        self._keep(pa.RecordBatchReader.from_batches(self._schema, self._sorted()), 0)

    def reader(self) -> pa.RecordBatchReader:
        """All rows, sorted; they are no longer held."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, sorted when the first are asked for."""
        runs = [_RunFile(path) for level in self._levels for path in level]
        if not runs:
            yield from self._sorted()
            return
        last = _RunInMemory(self._sorted())
        yield from _merged([*runs, last], self._schema, self._order)

    def _sorted(self) -> Iterator[pa.RecordBatch]:
        """What waits, sorted, which then waits no more."""
        held = pa.concat_tables([self._schema.empty_table(), *self._waiting])
        self._waiting, self.held = [], 0
        places = ordered_places(held, self._order)
        waiting = {field.name: held.column(field.name) for field in self._schema}
        del held
        columns = []
        for field in self._schema:
            column = waiting.pop(field.name)  # each is put together, and the parts are let go
            if pa.types.is_dictionary(field.type):
                dictionaries = Dictionaries(chunk.dictionary for chunk in column.chunks)
                codes = [dictionaries.places(chunk) for chunk in column.chunks]
                columns.append(dictionaries.column(np.concatenate(codes)))
            else:
                columns.append(column.combine_chunks())
        batch = pa.RecordBatch.from_arrays([_one(c) for c in columns], schema=self._schema)
        return _in_order(batch, places)

    def _keep(self, run: pa.RecordBatchReader, level: int) -> None:
        """Write a run; of a level that is full then, all runs become one of the next level."""
        path = self._folder / f"{self._name}-{self._written}.arrow"
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
            runs = [_RunFile(path) for path in merged]
            self._keep(_merged(runs, self._schema, self._order), level + 1)
            for path in merged:
                path.unlink()


def _held_bytes(table: pa.Table) -> int:
    """What rows take; their dictionaries are mostly those of others too."""
    kinds = zip(table.schema, table.columns, strict=True)
    return sum(
        4 * table.num_rows if pa.types.is_dictionary(field.type) else column.nbytes
        for field, column in kinds
    )


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _in_order(batch: pa.RecordBatch, places: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    for start in range(0, max(len(places), 1), MERGE_BATCH_ROWS):
        yield batch.take(pa.array(places[start : start + MERGE_BATCH_ROWS]))


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


class _RunFile:
    """A run that `write_run` wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_file(file) as run:
            for number in range(run.num_record_batches):
                yield run.get_batch(number)


class _RunInMemory:
    """A run whose batches are made as they are asked for."""

    def __init__(self, rows: Iterator[pa.RecordBatch]) -> None:
        self._rows = rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self._rows


def _merged(
    runs: Sequence[_RunFile | _RunInMemory], schema: pa.Schema, order: tuple[str, ...]
) -> pa.RecordBatchReader:
    """Sorted runs as one: again and again, all rows up to the least last row of any batch held.

    All batches of a run have the same dictionaries: those of all runs become one, in order.
    """
    coded_columns = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    held = [_RunBatch(run.batches(), order) for run in runs]
    dictionaries = {
        name: Dictionaries(run.dictionary(name) for run in held) for name in coded_columns
    }
    for run in held:
        run.follow(dictionaries)

    def batches() -> Iterator[pa.RecordBatch]:
        rest = held
        while rest := [run for run in rest if run.has_rows()]:
            least = min(run.last for run in rest)
            table = pa.Table.from_batches([run.until(least) for run in rest], schema)
            places = ordered_places(table, order, is_ranked=True)
            table = table.take(pa.array(places)).combine_chunks()
            yield from table.to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


class _RunBatch:
    """The batch of a run that is being merged; its codes are places among the texts of all runs."""

    def __init__(self, run: Iterator[pa.RecordBatch], order: tuple[str, ...]) -> None:
        self._run, self._order = run, order
        self._batch = next(run, None)
        self._ranks: dict[str, pa.Array] = {}
        self._dictionaries: Mapping[str, Dictionaries] = {}
        self.last: tuple[Any, ...] = ()

    def dictionary(self, name: str) -> pa.Array:
        """The texts of a column."""
        return pa.array([], pa.string()) if self._batch is None else self._batch[name].dictionary

    def follow(self, dictionaries: Mapping[str, Dictionaries]) -> None:
        """Go on with the texts of all runs."""
        self._dictionaries = dictionaries
        self._ranks = {
            name: pa.array(one.ranks(self.dictionary(name))) for name, one in dictionaries.items()
        }
        self._begin()

    def has_rows(self) -> bool:
        while self._batch is not None and not self._batch.num_rows:
            self._batch = next(self._run, None)
            self._begin()
        return self._batch is not None

    def _begin(self) -> None:
        if self._batch is None or not self._batch.num_rows:
            return
        columns = []
        for name, column in zip(self._batch.schema.names, self._batch.columns, strict=True):
            if name in self._ranks:
                indices = self._ranks[name].take(column.indices)
                texts = self._dictionaries[name].texts
                column = pa.DictionaryArray.from_arrays(indices, texts)
            columns.append(column)
        self._batch = pa.RecordBatch.from_arrays(columns, schema=self._batch.schema)
        self.last = self._key(self._batch.num_rows - 1)

    def until(self, bound: tuple[Any, ...]) -> pa.RecordBatch:
        """The rows up to a bound, which are then no longer held."""
        assert self._batch is not None
        count = bisect.bisect_right(range(self._batch.num_rows), bound, key=self._key)
        rows, self._batch = self._batch.slice(0, count), self._batch.slice(count)
        return rows

    def _key(self, row: int) -> tuple[Any, ...]:
        """A row's place in the order: nulls first, times as their ticks."""
        assert self._batch is not None
        scalars = []
        for name in self._order:
            column = self._batch.column(name)
            is_coded = pa.types.is_dictionary(column.type)
            scalars.append(column.indices[row] if is_coded else column[row])
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
        self,
        path: str,
        has_aggregates: bool,
        has_matches: bool,
        run_bytes: int = RUN_BYTES,
        *,
        structs: MatchStructs | None = None,
    ) -> None:
        self.aggregates = self.matches = 0
        self._path, self._kinds = path, (has_aggregates, has_matches)
        target = Path(path)
        self._folder = target.with_name(f".{target.name}.{os.getpid()}.sorting")
        self._run_bytes, self._structs = run_bytes, structs
        self._sorters: tuple[Sorter, Sorter | StructSorter] | None = None

    def add(self, results: Results) -> None:
        if self._sorters is None:
            self._sorters = (
                Sorter(results.aggregates.schema, AGGREGATE_ORDER, self._folder, self._run_bytes),
                self._match_sorter(results.matches.schema),
            )
        self._sorters[0].add(results.aggregates)
        self._sorters[1].add(results.matches)
        self.aggregates, self.matches = (sorter.rows for sorter in self._sorters)

    def take(self, chunk: RowChunk) -> None:
        """Add the rows of a chunk, a table at a time."""
        for table in chunk.tables(self._structs):
            self.add(of_kind(table, chunk.kind))

    def write(self, charged: Charged = uncharged) -> list[str]:
        """Write what has come, each kind of rows in its own `charged` context; gives the files."""
        assert self._sorters is not None, "no slice has come"
        readers = []
        for kind, sorter in zip(("aggregates", "matches"), self._sorters, strict=True):
            with charged(kind) if sorter.rows else nullcontext():
                readers.append(sorter.reader())
        return write_readers(readers[0], readers[1], self._path, *self._kinds, charged)

    def _match_sorter(self, schema: pa.Schema) -> Sorter | StructSorter:
        if self._structs is None:
            return Sorter(schema, MATCH_ORDER, self._folder, self._run_bytes)
        from engines.results.struct_sorting import StructSorter

        time_type = schema.field("time").type
        return StructSorter(self._structs, time_type, self._folder, self._run_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
