"""Files of events in pieces that tasks read, each with the local engine's own readers.

So a value means what it means there, whatever the format, and a row that is no event is found and
reported there too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as at

from engines.input import batches
from engines.input.batches import Batch, StreamFile, checked
from engines.input.event_files import LinesFile, ParquetFile
from engines.input.event_table import LARGEST_TICK, Fault, Faults, OnError
from engines.input.source_files import SourceFile, as_stored
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark import Accumulator

LEAST_BYTES, MOST_BYTES = 2**22, 2**26  # of text that a task reads


@dataclass(frozen=True)
class Split:
    """A piece of a file: row groups, or bytes; what is known of its rows without reading them.

    `low` and `high` are the least and the greatest time. A `clean` one has no bad row.
    """

    file: int
    part: tuple[int, int] | None
    first: int | None = None  # rows of the file before it
    rows: int | None = None
    low: int | None = None
    high: int | None = None
    clean: bool = False


def plan_splits(source: batches.FileSource, stream: Stream, tasks: int) -> tuple[Split, ...]:
    """All rows of a source, in pieces for at least `tasks` tasks where the files allow it."""
    found: list[Split] = []
    sizes = [Path(file.name).stat().st_size for file in source.files]
    target = min(max(sum(sizes) // max(tasks, 1), LEAST_BYTES), MOST_BYTES)
    for number, (file, size) in enumerate(zip(source.files, sizes, strict=True)):
        stored = as_stored(file)
        if isinstance(stored, ParquetFile):
            # What it has as times is not what those of one of several sources are read as.
            own = None if isinstance(file, SourceFile) else stream
            found += _row_groups(number, file.name, source.schema, own)
        elif not stored.is_splittable():
            found.append(Split(number, None))
        else:
            pieces = max(1, round(size / target))
            cuts = [size * i // pieces for i in range(pieces + 1)]
            found += [Split(number, part) for part in pairwise(cuts)]
    return tuple(found)


def _row_groups(
    number: int, name: str, schema: pa.Schema, stream: Stream | None
) -> Iterator[Split]:
    """The row groups of a file; without a stream nothing is known of the times in them."""
    with pq.ParquetFile(name) as file:
        columns = {c.path: i for i, c in enumerate(file.schema)}
        timed = stream is not None and _has_ticks(file.schema_arrow, schema, stream.time)
        first = 0
        for group in range(file.metadata.num_row_groups):
            about = file.metadata.row_group(group)
            split = Split(number, (group, group + 1), first, about.num_rows)
            first += about.num_rows
            known = (
                None if stream is None or not timed else _statistics(about, columns, stream.time)
            )
            complete = known is not None and known.null_count == 0
            if stream is not None and stream.sequence is not None:
                numbers = _statistics(about, columns, stream.sequence)
                complete = complete and numbers is not None and numbers.null_count == 0
            if known is not None and known.has_min_max and about.num_rows:
                low, high = int(known.min_raw), int(known.max_raw)
                inside = low > -LARGEST_TICK and high < LARGEST_TICK
                split = replace(split, low=low, high=high, clean=complete and inside)
            elif not about.num_rows:
                split = replace(split, clean=True)
            yield split


def _has_ticks(stored: pa.Schema, schema: pa.Schema, name: str) -> bool:
    """Are the numbers that a file holds the ticks of the events?"""
    if name not in stored.names or stored.field(name).type != schema.field(name).type:
        return False
    kind = stored.field(name).type
    return bool(at.is_signed_integer(kind) or at.is_timestamp(kind) or at.is_date32(kind))


def _statistics(about: Any, columns: dict[str, int], name: str) -> Any:
    """What is known of a column in a row group; None for what no reader may rely on."""
    if name not in columns:
        return None
    column = about.column(columns[name])
    if column.physical_type not in ("INT32", "INT64") or not column.is_stats_set:
        return None
    return column.statistics if column.statistics.has_null_count else None


# --- on executors ------------------------------------------------------------------------------


@dataclass
class SplitFaults(Faults):
    """Faults of a split, whose rows are counted from its beginning.

    `noted` is the first; where the job is to stop, `before` tells the rows of the file before.
    """

    before: Any = None
    noted: tuple[Fault, str] | None = None

    def report(self, file: str, faults: list[Fault]) -> None:
        if faults and self.on_error == "stop":
            before = self.before()
            faults = [replace(fault, row=fault.row + before) for fault in faults]
        if faults and self.noted is None:
            self.noted = (min(faults), file)
        super().report(file, faults)


@dataclass(frozen=True)
class SplitReader:
    """Reads splits; can go to an executor."""

    files: tuple[StreamFile, ...]
    splits: tuple[Split, ...]
    schema: pa.Schema  # the columns that are wanted
    stream: Stream
    on_error: OnError = "stop"
    batch_rows: int = field(default=batches.BATCH_ROWS)

    def batches(self, number: int, faults: Faults | None = None) -> Iterator[Batch]:
        """The events of a split, in the order they are stored in."""
        split = self.splits[number]
        file = self.files[split.file]
        faults = faults or self.faults(number)
        pieces = file.read(self.schema, self.batch_rows, split.part)
        return checked(pieces, file.name, self.stream, faults, self.batch_rows)

    def faults(self, number: int) -> SplitFaults:
        return SplitFaults(self.on_error, before=lambda: self.rows_before(number))

    def rows_before(self, number: int) -> int:
        """The rows of a split's file that are before it."""
        split = self.splits[number]
        file = self.files[split.file]
        stored = as_stored(file)
        if isinstance(stored, LinesFile):
            return stored.rows_before(split.part[0]) if split.part else 0
        return split.first or 0

    def told(self, number: int, noted: tuple[Fault, str]) -> str:
        """The first fault of a split, for people."""
        fault, file = noted
        said = Faults("skip")
        said.report(file, [replace(fault, row=fault.row + self.rows_before(number))])
        return said.first or ""


@dataclass(frozen=True)
class ReadSplits:
    """What a task of a scan does: numbers of splits to their packed events."""

    reader: SplitReader
    tally: Accumulator[dict[Any, Any]]

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from engines.spark.batch.packing import pack

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                faults = self.reader.faults(number)
                rows, before = 0, time.process_time_ns()
                for part in self.reader.batches(number, faults):
                    rows += len(part)
                    yield from pack(part.table).to_batches()
                spent = time.process_time_ns() - before
                told = (rows, dict(faults.counts), faults.noted)
                self.tally.add({("split", number): told, ("spent", number): spent})
