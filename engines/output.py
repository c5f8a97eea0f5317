"""Where rows go as they come: to files, sorted in bounded memory, or the first few to be shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from engines.results import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    Charged,
    Results,
    sorted_rows,
    uncharged,
    write_readers,
)
from engines.sorting import RUN_BYTES, Sorter


class Output(Protocol):
    """Takes rows in any order and counts them."""

    aggregates: int
    matches: int

    def add(self, results: Results) -> None: ...


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

    def write(self, charged: Charged = uncharged) -> list[str]:
        """Write what has come, each kind of rows in its own `charged` context; gives the files."""
        assert self._sorters is not None, "no slice has come"
        readers = []
        for kind, sorter in zip(("aggregates", "matches"), self._sorters, strict=True):
            with charged(kind):
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


class FirstRows:
    """The first rows of each kind, and how many there are in all."""

    def __init__(self, limit: int) -> None:
        self.aggregates = self.matches = 0
        self.first: Results | None = None
        self._limit = limit

    def add(self, results: Results) -> None:
        self.aggregates += results.aggregates.num_rows
        self.matches += results.matches.num_rows
        before = self.first or results
        fresh = self.first is not None
        self.first = Results(
            self._kept(before.aggregates, results.aggregates if fresh else None, AGGREGATE_ORDER),
            self._kept(before.matches, results.matches if fresh else None, MATCH_ORDER),
        )

    def _kept(self, old: pa.Table, new: pa.Table | None, order: tuple[str, ...]) -> pa.Table:
        both = old if new is None else pa.concat_tables([old, new])
        return sorted_rows(both, order).slice(0, self._limit).combine_chunks()
