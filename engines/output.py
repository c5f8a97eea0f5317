"""Where rows go as they come: to files, sorted in bounded memory, or the first few to be shown."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
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


class FirstRows:
    """The first rows of each kind, or all without a limit, and how many there are."""

    def __init__(self, limit: int | None) -> None:
        self.aggregates = self.matches = 0
        self._limit = limit
        self._kept: list[Results] = []

    def add(self, results: Results) -> None:
        self.aggregates += results.aggregates.num_rows
        self.matches += results.matches.num_rows
        self._kept.append(results)
        if self._limit is not None:
            self._kept = [self._sorted()]

    @property
    def first(self) -> Results | None:
        """The rows that are kept, in order; None before any have come."""
        return self._sorted() if self._kept else None

    def _sorted(self) -> Results:
        return Results(
            self._rows([found.aggregates for found in self._kept], AGGREGATE_ORDER),
            self._rows([found.matches for found in self._kept], MATCH_ORDER),
        )

    def _rows(self, tables: list[pa.Table], order: tuple[str, ...]) -> pa.Table:
        rows = sorted_rows(pa.concat_tables(tables), order)
        return rows.slice(0, self._limit).combine_chunks()
