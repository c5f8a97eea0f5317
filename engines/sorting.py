"""Rows sorted with bounded memory: sorted runs in files, merged at the end."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from engines.results import sorted_rows

RUN_BYTES = 256 * 2**20  # that are sorted in memory
BATCH_ROWS = 32_768  # of each run that a merge holds in memory
FAN_IN = 16  # runs that are merged at once


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
            self._keep(self._sorted().to_reader(BATCH_ROWS), 0)
            self._waiting, self._held = [], 0

    def reader(self) -> pa.RecordBatchReader:
        """All rows, sorted."""
        runs = [_batches(path) for level in self._levels for path in level]
        runs.append(iter(self._sorted().to_batches(BATCH_ROWS)))
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
    with pa.ipc.new_file(path, rows.schema, options=options) as out:
        for batch in rows:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                out.write_batch(batch.slice(start, BATCH_ROWS))


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
    held = [_Held(run, order) for run in runs]
    while held := [run for run in held if run.has_rows()]:
        least = min(run.last for run in held)
        table = pa.Table.from_batches([run.until(least) for run in held], schema)
        yield from sorted_rows(table, order).combine_chunks().to_batches()


class _Held:
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
