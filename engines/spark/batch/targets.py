"""Where a job's rows go: a file, a folder, a table of Spark's, or the first few to be shown.

Nothing is to be seen under the name that was asked for before all of it is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from engines.limits import ResultsError
from engines.results.chunks import ROW_KINDS
from engines.results.first_rows import FirstRows
from engines.results.result_folder import check_replaceable
from engines.results.sorting import Sorter
from engines.results.structs import MatchStructs
from engines.results.tables import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    STRUCT_ORDER,
    Results,
    aggregate_schema,
    empty_results,
    match_schema,
    sorted_rows,
)
from engines.results.writers import ENDINGS, write_readers, write_rows
from engines.spark.batch.landing import FirstFew, Landing, PackedRows, Report, SortedFiles
from engines.spark.batch.packing import unpacked_time
from engines.spark.batch.source import TABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class WrittenResults:
    """What came of a job: files or tables by name, or the first rows."""

    names: list[str] = field(default_factory=list)
    first: Results | None = None


@dataclass(frozen=True)
class FileTarget:
    """One file for each kind of rows, merged here from the sorted runs that executors write."""

    path: str
    has_aggregates: bool = True
    has_matches: bool = True
    structs: MatchStructs | None = None

    @property
    def _runs(self) -> Path:
        target = Path(self.path).absolute()
        return target.with_name(f".{target.name}.{os.getpid()}.runs")

    @contextmanager
    def landing(self) -> Iterator[Landing]:
        with _made(self._runs):
            yield SortedFiles(str(self._runs), "", self.structs)

    def land(self, reports: Sequence[Report], time_type: pa.DataType) -> WrittenResults:
        order = MATCH_ORDER if self.structs is None else STRUCT_ORDER
        sorters = (
            Sorter(aggregate_schema(time_type), AGGREGATE_ORDER, self._runs),
            Sorter(_match_schema(time_type, self.structs), order, self._runs),
        )
        for kind, sorter in zip(ROW_KINDS, sorters, strict=True):
            for report in reports:
                if kind in report.files:
                    sorter.take(Path(report.files[kind]))
        readers = [sorter.reader() for sorter in sorters]
        kinds = (self.has_aggregates, self.has_matches)
        return WrittenResults(write_readers(readers[0], readers[1], self.path, *kinds))


@dataclass(frozen=True)
class FolderTarget:
    """A folder of files that executors write, each sorted; for both kinds of rows, two folders."""

    path: str
    has_aggregates: bool = True
    has_matches: bool = True
    structs: MatchStructs | None = None

    @property
    def _final(self) -> Path:
        return Path(self.path.rstrip("/")).absolute()

    @property
    def _draft(self) -> Path:
        return self._final.with_name(f".{self._final.name}.{os.getpid()}.partial")

    @property
    def _ending(self) -> str:
        suffix = self._final.suffix
        return suffix if suffix in ENDINGS else ".parquet"

    @contextmanager
    def landing(self) -> Iterator[Landing]:
        check_replaceable(self._final)
        with _made(self._draft):
            yield SortedFiles(str(self._draft), self._ending, self.structs)

    def land(self, reports: Sequence[Report], time_type: pa.DataType) -> WrittenResults:
        both = self.has_aggregates and self.has_matches
        schemas = (aggregate_schema(time_type), _match_schema(time_type, self.structs))
        for kind, schema in zip(ROW_KINDS, schemas, strict=True):
            if not {"aggregates": self.has_aggregates, "matches": self.has_matches}[kind]:
                continue
            folder = self._draft / kind if both else self._draft
            folder.mkdir(exist_ok=True)
            files = [report.files[kind] for report in reports if kind in report.files]
            for number, file in enumerate(sorted(files)):
                Path(file).replace(folder / f"part-{number:05d}{self._ending}")
            if not files:
                none = schema.empty_table().to_reader()
                write_rows(none, folder / f"part-00000{self._ending}")
        for left in self._draft.glob("*-*-*" + self._ending):  # of tasks that ran twice
            left.unlink()
        self._swap()
        return WrittenResults([str(self._final)])

    def _swap(self) -> None:
        """Put the folder in its place; what is there is kept until that is done."""
        check_replaceable(self._final)  # again: a long time may have passed
        old = self._final.with_name(f".{self._final.name}.{os.getpid()}.old")
        if self._final.exists():
            self._final.rename(old)
        try:
            self._draft.rename(self._final)
        except OSError:
            if old.exists():
                old.rename(self._final)
            raise
        shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True)
class TableTarget:
    """Tables of the session's catalog: NAME, or for both kinds NAME_aggregates and NAME_matches."""

    name: str
    has_aggregates: bool = True
    has_matches: bool = True
    structs: MatchStructs | None = None

    @contextmanager
    def landing(self) -> Iterator[Landing]:
        yield PackedRows(self.structs)

    def write(
        self, session: SparkSession, rows: DataFrame, time_type: pa.DataType
    ) -> WrittenResults:
        """Write rows that are kept; the old tables go when all new ones are complete."""
        from pyspark.sql import functions as sf

        schemas = dict(
            zip(ROW_KINDS, (aggregate_schema(time_type), match_schema(time_type)), strict=True)
        )
        wanted = [
            k
            for k, has in zip(ROW_KINDS, (self.has_aggregates, self.has_matches), strict=True)
            if has
        ]
        drafts: dict[str, str] = {}
        try:
            for kind in wanted or ROW_KINDS[:1]:
                is_aggregate = sf.col("aggregate").isNotNull()
                mine = is_aggregate if kind == "aggregates" else sf.col("match").isNotNull()
                columns = [
                    unpacked_time(sf.col(name), time_type).alias(name)
                    if name in ("time", "start", "end")
                    else sf.col(name)
                    for name in schemas[kind].names
                ]
                final = self.name if len(wanted) < 2 else f"{self.name}_{kind}"
                drafts[final] = f"{final}__{os.getpid()}_partial"
                rows.where(mine).select(*columns).write.saveAsTable(drafts[final], mode="overwrite")
            for final, draft in drafts.items():
                session.sql(f"DROP TABLE IF EXISTS {final}")
                session.sql(f"ALTER TABLE {draft} RENAME TO {final}")
        finally:
            for draft in drafts.values():
                session.sql(f"DROP TABLE IF EXISTS {draft}")
        return WrittenResults([f"{TABLE}{name}" for name in drafts])


@dataclass(frozen=True)
class FirstRowsTarget:
    """The first rows of each query."""

    limit: int
    structs: MatchStructs | None = None  # of all rows; the first few are shown as text

    @contextmanager
    def landing(self) -> Iterator[Landing]:
        yield FirstFew(self.limit, self.structs)

    def land(self, reports: Sequence[Report], time_type: pa.DataType) -> WrittenResults:
        if self.structs is not None:
            return WrittenResults(first=self._all(reports, time_type, self.structs))
        kept = FirstRows(self.limit)
        kept.add(empty_results(time_type))
        for report in reports:
            if report.first is not None:
                kept.add(report.first)
        return WrittenResults(first=kept.first)

    def _all(
        self, reports: Sequence[Report], time_type: pa.DataType, structs: MatchStructs
    ) -> Results:
        found = [report.first for report in reports if report.first is not None]
        aggregates = [aggregate_schema(time_type).empty_table(), *(r.aggregates for r in found)]
        matches = [structs.rows_schema(time_type).empty_table(), *(r.matches for r in found)]
        return Results(
            sorted_rows(pa.concat_tables(aggregates), AGGREGATE_ORDER),
            sorted_rows(pa.concat_tables(matches), STRUCT_ORDER),
        )


Target: TypeAlias = FileTarget | FolderTarget | TableTarget | FirstRowsTarget


def target_for(
    path: str, has_aggregates: bool, has_matches: bool, structs: MatchStructs | None = None
) -> Target:
    """The target of `--out`: a file by its ending, a folder by its slash, or `table:NAME`."""
    if path.startswith(TABLE):
        return TableTarget(path.removeprefix(TABLE), has_aggregates, has_matches, structs)
    kind = FolderTarget if path.endswith("/") else FileTarget
    return kind(path, has_aggregates, has_matches, structs)


def _match_schema(time_type: pa.DataType, structs: MatchStructs | None) -> pa.Schema:
    return match_schema(time_type) if structs is None else structs.rows_schema(time_type)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A folder for as long as the block runs, unless it has got another name by then."""
    try:
        folder.mkdir()
    except OSError as error:
        raise ResultsError(f"'{folder}' cannot be made: {error.strerror or error}") from error
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
