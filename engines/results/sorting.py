"""Rows in any order, sorted in bounded memory."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.results.kept_texts import TEXT_NUMBERS, KeptTexts
from engines.results.merging import RunFile, RunInMemory, merged, of_size, write_run
from engines.results.tables import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    Dictionaries,
    Results,
    coded,
    coded_schema,
    of_kind,
    ordered_places,
    with_matches,
    with_places,
)
from engines.results.writers import Charged, uncharged, write_readers

if TYPE_CHECKING:
    from engines.results.chunks import RowChunk
    from engines.results.struct_sorting import StructSorter
    from engines.results.structs import MatchStructs

RUN_BYTES = 56 * 2**20  # that are sorted in memory
ROWS_AT_ONCE = 100_000  # that are moved
FAN_IN = 64  # runs that are merged at once
FEW_MOVES = 2_000  # rows for each stretch that is moved, where the others are left


class Sorter:
    """Takes rows in any order and gives them sorted; what memory does not hold is in `folder`.

    The folder is made when it is needed; whoever gave its name removes it. Without `run_bytes` rows
    are held until `spill` is called. With `texts_of`, which gives the texts of matches that are
    something else, each table that is added is in order.
    """

    def __init__(
        self,
        schema: pa.Schema,
        order: tuple[str, ...],
        folder: Path,
        run_bytes: int | None = RUN_BYTES,
        name: str | None = None,
        texts_of: Callable[[pa.Array], pa.Array] | None = None,
    ) -> None:
        self.rows = self.held = 0
        self._texts_of = texts_of
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
        runs = [RunFile(path) for level in self._levels for path in level]
        if not runs:
            yield from self._sorted()
            return
        last = RunInMemory(of_size(self._sorted()))
        yield from merged([*runs, last], self._schema, self._order, self._texts_of)

    def _sorted(self) -> Iterator[pa.RecordBatch]:
        """What waits, sorted, which then waits no more.

        Rows come query by query, so that each query's are put in order by themselves; where they
        came in order, nothing is moved.
        """
        held = (batch for table in self._waiting for batch in table.to_batches())
        waiting = [batch for batch in held if batch.num_rows]
        self._waiting, self.held = [], 0
        coded_columns = [f.name for f in self._schema if pa.types.is_dictionary(f.type)]
        dictionaries = {
            name: Dictionaries(batch[name].dictionary for batch in waiting)
            for name in coded_columns
        }
        parts: dict[int, list[pa.RecordBatch]] = {}
        for batch in waiting:
            part = self._part(batch, dictionaries)
            parts.setdefault(part, []).append(with_places(batch, dictionaries))
        del waiting  # what is put in order is let go of
        if -1 in parts:
            parts = {-1: [batch for part in parts.values() for batch in part]}
        order = self._order if -1 in parts else self._order[1:]
        for number in sorted(parts):
            table = pa.Table.from_batches(parts.pop(number), self._schema)
            yield from _in_order(table, order, self._texts_of)

    def _part(self, batch: pa.RecordBatch, dictionaries: Mapping[str, Dictionaries]) -> int:
        """The place of the query that all rows are of; -1 for rows of several."""
        if self._order[0] != "query" or batch["query"].null_count:
            return -1
        codes, texts = batch["query"].indices, batch["query"].dictionary
        if len(texts) > 1 and pc.any(pc.not_equal(codes, codes[0])).as_py():
            return -1
        return int(dictionaries["query"].ranks(texts)[codes[0].as_py()])

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
            full, self._levels[level] = self._levels[level], []
            runs = [RunFile(path) for path in full]
            self._keep(merged(runs, self._schema, self._order, self._texts_of), level + 1)
            for path in full:
                path.unlink()


def _held_bytes(table: pa.Table) -> int:
    """What rows take; dictionaries, and the memory of columns of one value, others have too."""
    kinds = zip(table.schema.types, table.columns, strict=True)
    return sum(_column_bytes(kind, column) for kind, column in kinds)


def _column_bytes(kind: pa.DataType, column: pa.ChunkedArray) -> int:
    if column.null_count == len(column):
        return 0
    if pa.types.is_dictionary(kind):
        return 0 if all(len(chunk.dictionary) == 1 for chunk in column.chunks) else 4 * len(column)
    if pa.types.is_primitive(kind):
        return len(column) * int(kind.bit_width) // 8
    return int(column.nbytes)


def _in_order(
    table: pa.Table,
    order: tuple[str, ...],
    texts_of: Callable[[pa.Array], pa.Array] | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a table by the given columns, whose dictionaries are in order."""
    places = ordered_places(table, order, True, texts_of)
    if places is None:
        yield from table.to_batches()
        return
    moves = places != np.arange(len(places))
    edges = np.flatnonzero(moves[1:] != moves[:-1]) + 1
    if FEW_MOVES * len(edges) < len(places):
        # Rows that stay are not copied; those that move are few, or side by side.
        for start, stop in itertools.pairwise([0, *edges.tolist(), len(places)]):
            if not moves[start]:
                yield from table.slice(start, stop - start).to_batches()
            else:
                yield from _taken(table, places[start:stop])
        return
    yield from _taken(table.combine_chunks(), places)


def _taken(table: pa.Table, places: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(places), ROWS_AT_ONCE):
        moved = table.take(pa.array(places[start : start + ROWS_AT_ONCE]))
        yield from moved.combine_chunks().to_batches()


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
        self._run_bytes = run_bytes
        self._form = KeptTexts(self._folder) if structs is None else structs
        self._sorters: tuple[Sorter, Sorter | StructSorter] | None = None

    def add(self, results: Results) -> None:
        if self._sorters is None:
            self._sorters = (
                Sorter(results.aggregates.schema, AGGREGATE_ORDER, self._folder, self._run_bytes),
                self._match_sorter(results.matches.schema),
            )
        self._sorters[0].add(results.aggregates)
        matches = results.matches
        if matches.num_rows:
            if isinstance(self._form, KeptTexts):
                matches = self._form.without_texts(matches)
            self._sorters[1].add(matches)
        self.aggregates, self.matches = (sorter.rows for sorter in self._sorters)

    def take(self, chunk: RowChunk) -> None:
        """Add the rows of a chunk, a table at a time."""
        for table in chunk.tables(self._form, is_ordered=True):
            self.add(of_kind(table, chunk.kind))

    def write(self, charged: Charged = uncharged, at_once: bool = False) -> list[str]:
        """Write what has come, each kind of rows in its own `charged` context; gives the files.

        With `at_once` both kinds are written at a time.
        """
        assert self._sorters is not None, "no slice has come"
        readers = []
        for kind, sorter in zip(("aggregates", "matches"), self._sorters, strict=True):
            with charged(kind) if sorter.rows else nullcontext():
                readers.append(sorter.reader())
        kept = self._form if isinstance(self._form, KeptTexts) else None
        return write_readers(
            readers[0], readers[1], self._path, *self._kinds, charged, kept, at_once
        )

    def _match_sorter(self, schema: pa.Schema) -> Sorter | StructSorter:
        if isinstance(self._form, KeptTexts):
            schema, texts_of = with_matches(schema, TEXT_NUMBERS), self._form.texts
            return Sorter(schema, MATCH_ORDER, self._folder, self._run_bytes, texts_of=texts_of)
        from engines.results.struct_sorting import StructSorter

        time_type = schema.field("time").type
        return StructSorter(self._form, time_type, self._folder, self._run_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
