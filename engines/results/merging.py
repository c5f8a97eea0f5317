"""Runs of sorted rows in files, and several runs as one."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, total_ordering
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from engines.limits import ResultsError
from engines.results.tables import Dictionaries, gathered, ordered_places, rank_numbers, with_places

BATCH_ROWS = 16_384  # of each run that a merge holds in memory, at most
BATCH_BYTES = 2 * 2**20  # and about as many bytes


class Run(Protocol):
    """Sorted rows; all batches of a run have the same dictionaries."""

    def batches(self) -> Iterator[pa.RecordBatch]: ...


class RunFile:
    """A run that `write_run` wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_file(file) as run:
            for number in range(run.num_record_batches):
                yield run.get_batch(number)


class RunInMemory:
    """A run whose batches are made as they are asked for."""

    def __init__(self, rows: Iterator[pa.RecordBatch]) -> None:
        self._rows = rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self._rows


def write_run(rows: pa.RecordBatchReader, path: Path) -> None:
    """Write rows that are sorted to a file that a merge can read batch by batch."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    try:
        with pa.ipc.new_file(path, rows.schema, options=options) as out:
            for batch in of_size(rows):
                out.write_batch(batch)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ResultsError(
            f"rows to be sorted cannot be written to '{path.parent}': {why}; make room there"
        ) from error


def of_size(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that a merge can hold of many runs, and no smaller than need be."""
    tables = (table.combine_chunks() for table in gathered(rows, BATCH_ROWS))
    for batch in (batch for table in tables for batch in table.to_batches()):
        each = max(1, min(BATCH_ROWS, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, each):
            yield batch.slice(start, each)


def merged(
    runs: Sequence[Run],
    schema: pa.Schema,
    order: tuple[str, ...],
    texts_of: Callable[[pa.Array], pa.Array] | None = None,
) -> pa.RecordBatchReader:
    """Sorted runs as one: again and again, all rows up to the least last row of any batch held.

    The dictionaries of all runs become one, in order. Where one run alone has rows up to there, as
    where runs follow each other, these are as they are, and nothing is looked up. `texts_of` gives
    the texts of matches that are something else.
    """
    coded_columns = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    held = [_HeldBatch(run.batches(), order, texts_of) for run in runs]
    dictionaries = {
        name: Dictionaries(run.dictionary(name) for run in held) for name in coded_columns
    }
    for run in held:
        run.follow(dictionaries)

    def batches() -> Iterator[pa.RecordBatch]:
        rest = held
        while rest := [run for run in rest if run.has_rows()]:
            first = min(rest, key=lambda run: run.first)
            if all(first.last <= run.first for run in rest if run is not first):
                yield first.rest()
                continue
            least = min(run.last for run in rest)
            parts = [part for run in rest if (part := run.until(least)) is not None]
            if len(parts) == 1:
                yield parts[0]
                continue
            table = pa.Table.from_batches(parts, schema)
            places = ordered_places(table, order, True, texts_of)
            if places is not None:
                table = table.take(pa.array(places))
            yield from table.combine_chunks().to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


@total_ordering
class _RowText:
    """The text of a match, which is made when it is compared."""

    def __init__(self, row: pa.Array, texts_of: Callable[[pa.Array], pa.Array] | None) -> None:
        self._row, self._texts_of = row, texts_of

    @cached_property
    def _bytes(self) -> bytes:
        texts = self._row if self._texts_of is None else self._texts_of(self._row)
        found: bytes = texts[0].as_buffer().to_pybytes()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RowText) and self._bytes == other._bytes

    def __lt__(self, other: _RowText) -> bool:
        return self._bytes < other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)


class _HeldBatch:
    """The batch of a run that is being merged; its codes are places among the texts of all runs."""

    def __init__(
        self,
        run: Iterator[pa.RecordBatch],
        order: tuple[str, ...],
        texts_of: Callable[[pa.Array], pa.Array] | None = None,
    ) -> None:
        self._run, self._order, self._texts_of = run, order, texts_of
        self._batch = next(run, None)
        self._dictionaries: Mapping[str, Dictionaries] = {}
        self._texts: pa.Array | None = None  # of matches, which numbers do not stand for
        self._taken = 0
        self.first: tuple[Any, ...] = ()
        self.last: tuple[Any, ...] = ()

    def dictionary(self, name: str) -> pa.Array:
        """The texts of a column."""
        return pa.array([], pa.string()) if self._batch is None else self._batch[name].dictionary

    def follow(self, dictionaries: Mapping[str, Dictionaries]) -> None:
        """Go on with the texts of all runs."""
        self._dictionaries = dictionaries
        self._begin()

    def has_rows(self) -> bool:
        while self._batch is not None and self._taken == self._batch.num_rows:
            self._batch = next(self._run, None)
            self._begin()
        return self._batch is not None

    def _begin(self) -> None:
        self._taken = 0
        if self._batch is None or not self._batch.num_rows:
            return
        self._batch = with_places(self._batch, self._dictionaries)
        self.__dict__.pop("_numbers", None)
        if self._order[-1] == "match":
            self._texts = self._batch.column("match")
        self.first, self.last = self._at(0), self._at(self._batch.num_rows - 1)

    @cached_property
    def _numbers(self) -> list[npt.NDArray[np.int64]]:
        """The columns of the batch that rows are in order by; of matches not their texts."""
        return self._ranked(0, None)

    def _ranked(self, row: int, number: int | None) -> list[npt.NDArray[np.int64]]:
        assert self._batch is not None
        names = self._order if self._texts is None else self._order[:-1]
        columns = (self._batch.column(name) for name in names)
        return [rank_numbers(column.slice(row, number)) for column in columns]

    def _at(self, row: int) -> tuple[Any, ...]:
        """What a row is in order by."""
        numbers = [int(one[0]) for one in self._ranked(row, 1)]
        return (*numbers, *(() if self._texts is None else (self._text(row),)))

    def _text(self, row: int) -> _RowText:
        assert self._texts is not None
        return _RowText(self._texts.slice(row, 1), self._texts_of)

    def until(self, bound: tuple[Any, ...]) -> pa.RecordBatch | None:
        """The rows up to a bound, which are then no longer held; None for no rows."""
        assert self._batch is not None
        start, low, high = self._taken, self._taken, self._batch.num_rows
        if bound != self.last:
            for numbers, most in zip(self._numbers, bound, strict=False):
                among = numbers[low:high]
                first, end = (among.searchsorted(most, side) for side in ("left", "right"))
                low, high = low + int(first), low + int(end)
            if self._texts is not None:
                high = bisect.bisect_right(range(high), bound[-1], low, high, key=self._text)
        self._taken = high
        if high < self._batch.num_rows:
            self.first = self._at(high)
        return self._batch.slice(start, high - start) if high > start else None

    def rest(self) -> pa.RecordBatch:
        """The rows that are held, which are then no longer held."""
        assert self._batch is not None
        start, self._taken = self._taken, self._batch.num_rows
        return self._batch.slice(start)
