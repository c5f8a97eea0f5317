"""Where the rows of a part land while its task runs: in a file, in Spark's hands, or counted only.

A task writes files of its own and reports their names; the driver takes only files that were
reported, so a task that fails, or runs twice, leaves nothing that counts.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from engines.account import Account, all_threads
from engines.limits import Ledger, ResultsError
from engines.matching.trees.adaptive import Decision
from engines.results.chunks import RowChunk, RowKind
from engines.results.first_rows import FirstRows
from engines.results.funnel_totals import FunnelTotals
from engines.results.merging import write_run
from engines.results.sorting import RUN_BYTES, Sorter
from engines.results.struct_sorting import StructRows, StructSorter
from engines.results.structs import MatchStructs
from engines.results.tables import AGGREGATE_ORDER, MATCH_ORDER, Results
from engines.results.writers import write_rows
from engines.spark.batch.packing import packed_report, packed_rows, packed_struct

_ORDERS = {"aggregates": AGGREGATE_ORDER, "matches": MATCH_ORDER}


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
    seen: dict[str, Any] = field(default_factory=dict)  # of what queries ask for
    funnels: FunnelTotals = field(default_factory=FunnelTotals)  # of the part's keys

    def count(self, chunk: RowChunk) -> None:
        """Add rows that land."""
        self.account.count(f"sink-{chunk.kind}", len(chunk), len(chunk))
        self.rows[chunk.query] = self.rows.get(chunk.query, 0) + len(chunk)
        aggregates, matches = self.numbers
        if chunk.kind == "aggregates":
            self.numbers = (aggregates + len(chunk), matches)
        else:
            self.numbers = (aggregates, matches + len(chunk))


class Landing(ABC):
    """What becomes of a part's rows, in its task; `match` is the type of those that are structs."""

    @property
    def match(self) -> pa.StructType | None:
        return None

    @abstractmethod
    def landed(self, chunks: Iterator[RowChunk], report: Report) -> Iterator[pa.RecordBatch]:
        """What goes to Spark of the rows, which are counted in the report."""

    def told(self, report: Report) -> Iterator[pa.RecordBatch]:
        """The report on its way to the driver, once all rows have landed."""
        yield packed_report(pickle.dumps(report), self.match)


@dataclass(frozen=True)
class SortedFiles(Landing):
    """A file of sorted rows for each kind, in a folder that the driver made and all can reach.

    Without an ending these are runs, which the driver merges.
    """

    folder: str
    ending: str
    structs: MatchStructs | None = None

    def landed(self, chunks: Iterator[RowChunk], report: Report) -> Iterator[pa.RecordBatch]:
        # Runs that memory does not hold stay on this machine.
        scratch = Path(tempfile.mkdtemp(prefix="sheaf-sort-"))
        sorters: dict[RowKind, Sorter | StructSorter] = {}
        try:
            for chunk in chunks:
                report.count(chunk)
                with all_threads(report.account, f"sink-{chunk.kind}"):
                    for table in chunk.tables(self.structs, is_ordered=True):
                        if chunk.kind not in sorters:
                            sorters[chunk.kind] = self._sorter(chunk.kind, table.schema, scratch)
                        sorters[chunk.kind].add(table)
            for kind, sorter in sorters.items():
                with all_threads(report.account, f"sink-{kind}"):
                    report.files[kind] = self._write(kind, report.part, sorter.reader())
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return iter(())

    def _sorter(self, kind: RowKind, schema: pa.Schema, folder: Path) -> Sorter | StructSorter:
        if kind == "matches" and self.structs is not None:
            time_type = schema.field("time").type
            return StructSorter(self.structs, time_type, folder, RUN_BYTES // 2)
        return Sorter(schema, _ORDERS[kind], folder, RUN_BYTES // 2)

    def _write(self, kind: str, part: int, rows: pa.RecordBatchReader) -> str:
        name = Path(self.folder) / f"{kind}-{part:05d}-{uuid.uuid4().hex}{self.ending or '.arrow'}"
        try:
            if not self.ending:
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
class FirstFew(Landing):
    """The first rows of each query, and how many there are of each kind."""

    limit: int
    structs: MatchStructs | None = None  # of all rows; the first few are shown as text

    def landed(self, chunks: Iterator[RowChunk], report: Report) -> Iterator[pa.RecordBatch]:
        kept = FirstRows(self.limit) if self.structs is None else StructRows(self.structs)
        for chunk in chunks:
            report.count(chunk)
            with all_threads(report.account, f"sink-{chunk.kind}"):
                kept.take(chunk)
        report.first = kept.first
        return iter(())


@dataclass(frozen=True)
class PackedRows(Landing):
    """All rows, packed, to Spark."""

    structs: MatchStructs | None = None

    @property
    def match(self) -> pa.StructType | None:
        """The type of matches that are structs."""
        return None if self.structs is None else packed_struct(self.structs.whole)

    def landed(self, chunks: Iterator[RowChunk], report: Report) -> Iterator[pa.RecordBatch]:
        match = self.match
        for chunk in chunks:
            report.count(chunk)
            for table in chunk.tables(self.structs):
                if self.structs is not None and chunk.kind == "matches":
                    table = self.structs.widened_table(chunk.query, table)
                yield from packed_rows(table, match).to_batches(max_chunksize=50_000)


def read_report(text: bytes) -> Report:
    """A report that has arrived."""
    found: Report = pickle.loads(text)
    return found
