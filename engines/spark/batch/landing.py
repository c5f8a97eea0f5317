"""Where the rows of a part land while its task runs: in a file, in Spark's hands, or counted only.

A task writes files of its own and reports their names; the driver takes only files that were
reported, so a task that fails, or runs twice, leaves nothing that counts.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal as OneOf
from typing import TypeAlias

import pyarrow as pa

from engines.account import Account, all_threads
from engines.limits import Ledger, ResultsError
from engines.matching.trees.adaptive import Decision
from engines.results.tables import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    RUN_BYTES,
    FirstRows,
    Results,
    Sorter,
    row_counts,
    write_rows,
    write_run,
)
from engines.spark.batch.packing import packed_report, packed_results

RowKind = OneOf["aggregates", "matches"]
ROW_KINDS: tuple[RowKind, RowKind] = ("aggregates", "matches")


@dataclass
class Report:
    """What a task tells the driver when it is done."""

    part: int
    events: int = 0
    rows: dict[str, int] = field(default_factory=dict)  # by query
    files: dict[str, str] = field(default_factory=dict)  # by kind
    first: Results | None = None
    numbers: tuple[int, int] = (0, 0)  # rows of each kind
    seconds: dict[str, float] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)  # of queries that reached a limit
    account: Account = field(default_factory=Account)
    fallbacks: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)  # about trees


@dataclass(frozen=True)
class SortedFiles:
    """A file of sorted rows for each kind, in a folder that the driver made and all can reach."""

    folder: str
    ending: str

    def landed(self, results: Iterator[Results], report: Report) -> Iterator[pa.RecordBatch]:
        # Runs that memory does not hold stay on this machine.
        scratch = Path(tempfile.mkdtemp(prefix="sheaf-sort-"))
        try:
            sorters: tuple[Sorter, Sorter] | None = None
            for found in results:
                if sorters is None:
                    sorters = (
                        Sorter(found.aggregates.schema, AGGREGATE_ORDER, scratch, RUN_BYTES // 2),
                        Sorter(found.matches.schema, MATCH_ORDER, scratch, RUN_BYTES // 2),
                    )
                _count(report, found)
                for kind, sorter in zip(ROW_KINDS, sorters, strict=True):
                    with all_threads(report.account, f"sink-{kind}"):
                        sorter.add(getattr(found, kind))
            for kind, sorter in zip(ROW_KINDS, sorters or (), strict=False):
                if sorter.rows:
                    with all_threads(report.account, f"sink-{kind}"):
                        report.files[kind] = self._write(kind, report.part, sorter.reader())
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return iter(())

    def _write(self, kind: str, part: int, rows: pa.RecordBatchReader) -> str:
        name = Path(self.folder) / f"{kind}-{part:05d}-{uuid.uuid4().hex}{self.ending}"
        try:
            if self.ending == ".arrow":
                write_run(rows, name)
            else:
                write_rows(rows, name)
        except OSError as error:
            raise ResultsError(
                f"'{self.folder}' cannot be written to by an executor: {error.strerror or error}; "
                "results go to a folder that the driver and all workers share"
            ) from error
        return str(name)


@dataclass(frozen=True)
class FirstFew:
    """The first rows of each query, and how many there are of each kind."""

    limit: int

    def landed(self, results: Iterator[Results], report: Report) -> Iterator[pa.RecordBatch]:
        kept = FirstRows(self.limit)
        for found in results:
            _count(report, found)
            kept.add(found)
        report.first = kept.first
        return iter(())


@dataclass(frozen=True)
class PackedRows:
    """All rows, packed, to Spark."""

    def landed(self, results: Iterator[Results], report: Report) -> Iterator[pa.RecordBatch]:
        for found in results:
            _count(report, found)
            yield from packed_results(found).to_batches(max_chunksize=50_000)


Landing: TypeAlias = SortedFiles | FirstFew | PackedRows


def report_row(report: Report) -> pa.RecordBatch:
    """A report on its way to the driver."""
    return packed_report(pickle.dumps(report))


def read_report(text: bytes) -> Report:
    """A report that has arrived."""
    found: Report = pickle.loads(text)
    return found


def _count(report: Report, results: Results) -> None:
    for kind in ROW_KINDS:
        number = getattr(results, kind).num_rows
        report.account.count(f"sink-{kind}", number, number)
    larger = max(ROW_KINDS, key=lambda kind: getattr(results, kind).num_rows)
    with report.account.charge(f"sink-{larger}"):
        report.rows = dict(Counter(report.rows) + row_counts(results))
    report.numbers = (
        report.numbers[0] + results.aggregates.num_rows,
        report.numbers[1] + results.matches.num_rows,
    )
