"""What tasks do on executors: events of a part to its rows, slice by slice."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.occurrences import Occurrences
from engines.input.batches import Batch, StreamFile
from engines.input.event_files import take_spent
from engines.input.event_rows import ticks_of
from engines.input.event_table import LARGEST_TICK, from_table
from engines.input.query_columns import needed_columns
from engines.input.source_files import as_stored
from engines.local.run import SlicedRun, reach_of_program
from engines.local.slices import Cutter, Slice, SliceSize
from engines.program import DEFAULT_OPTIONS, Program, RunContext, RunOptions
from engines.results.chunks import RowChunk
from engines.spark.batch.landing import Landing, Report
from engines.spark.batch.packing import unpack
from engines.spark.batch.parts import TaskPart
from engines.spark.batch.pushed_filters import PushedFilter
from engines.spark.batch.splits import SplitReader
from engines.spark.batch.stretches import Stretch
from engines.spark.runtime.kernel_warmup import warm_once

if TYPE_CHECKING:
    from pyspark import Accumulator

ArrivingBatches = Iterator[tuple[Batch, int]]  # events, and the time before which all have come


@dataclass(frozen=True)
class TaskEvaluation:
    """Programs over parts of the stream; `first` is an event as it arrives, or none."""

    job: str  # what tells it from others
    programs: tuple[Program, ...]
    first: pa.Table
    landing: Landing
    tally: Accumulator[dict[Any, Any]] | None  # None where nobody asks how far it is
    options: RunOptions = DEFAULT_OPTIONS
    slicing: SliceSize = field(default_factory=SliceSize)
    files: tuple[StreamFile, ...] = ()  # that are read in the task itself

    @property
    def schema(self) -> pa.Schema:
        """The columns that arrive."""
        return self.first.schema

    def evaluate(
        self,
        number: int,
        part: TaskPart,
        arriving: ArrivingBatches,
        occurred: Occurrences | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a part as its landing has them, and a report.

        `occurred` has looked at the events by the time that they have all arrived.
        """
        use_given_device()
        warm_once(self.job, self.programs, self.first, self.options)
        report = Report(number)
        began, worked = time.perf_counter(), time.process_time()
        yield from self.landing.landed(self._chunks(part, arriving, report), report)
        report.seconds["all"] = time.perf_counter() - began
        report.seconds["cpu"] = time.process_time() - worked
        told = (report.events, report.rows, part.program, report.account.totals())
        if self.tally is not None:
            self.tally.add({("part", number): told})
        report.seen = {} if occurred is None else occurred.seen()
        yield from self.landing.told(report)

    def _chunks(
        self, part: TaskPart, arriving: ArrivingBatches, report: Report
    ) -> Iterator[RowChunk]:
        program = self.programs[part.program]
        workload = program.workload
        account, opening = report.account, time.thread_time_ns()
        columns = needed_columns(workload, self.schema.names)
        schema = pa.schema([self.schema.field(name) for name in columns])
        none = from_table(schema.empty_table(), workload.stream)
        context = RunContext(
            self.options, account=account, ledger=report.ledger, funnels=report.funnels
        )
        run = SlicedRun(program, none.tick, context, part.start)
        scan = program.ids.scan
        cutter = Cutter(
            none, workload.stream, run.reach, self.slicing, run.carried, part.start, part.stop
        )
        account.spend(scan, time.thread_time_ns() - opening)
        while True:
            account.spend(scan, take_spent(map(as_stored, self.files)))
            with account.charge(scan):
                batch, complete = next(arriving, (None, 0))
                if batch is None:
                    pieces = list(cutter.finish())
                else:
                    table = batch.table.select(columns)
                    selected = Batch(table, batch.ticks, batch.file, batch.rows)
                    pieces = list(cutter.add(selected, complete))
            for piece in pieces:
                yield from self._run(run, piece, report)
            if batch is None:
                break
            report.events += len(batch)
            account.count(scan, len(batch), len(batch))
        report.fallbacks = list(context.fallbacks)
        report.decisions = context.decisions

    def _run(self, run: SlicedRun, piece: Slice, report: Report) -> Iterator[RowChunk]:
        chunks = run.chunks(piece)
        while True:
            began = time.perf_counter()
            chunk = next(chunks, None)
            spent = time.perf_counter() - began
            report.seconds["run"] = report.seconds.get("run", 0.0) + spent
            if chunk is None:
                return
            yield chunk


@dataclass(frozen=True)
class ShuffledParts:
    """A partition of a shuffled stream, which is one part, sorted by time."""

    evaluation: TaskEvaluation
    parts: tuple[TaskPart, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        number = first.column(0)[0].as_py()
        arriving = self._arriving(first, filled)
        yield from self.evaluation.evaluate(number, self.parts[number], arriving)

    def _arriving(self, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> ArrivingBatches:
        schema = self.evaluation.schema
        stream = self.evaluation.programs[0].workload.stream
        waiting: pa.RecordBatch | None = first
        while waiting is not None:
            table = unpack(pa.Table.from_batches([waiting]), schema)
            waiting = next(others, None)
            ticks, _ = ticks_of(table.column(stream.time))
            yield Batch(table, ticks, "", _NONE), int(ticks[-1])


@dataclass(frozen=True)
class StoredStretches:
    """Stretches of a stream that is stored in the order of time: read by those who need them."""

    evaluation: TaskEvaluation
    reader: SplitReader
    stretches: tuple[Stretch, ...]
    filter: PushedFilter | None

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                stretch = self.stretches[number]
                part = TaskPart(0, stretch.start, stretch.stop)
                read = [0]
                occurred = Occurrences(self.evaluation.programs[0].workload)
                arriving = self._arriving(stretch, read, occurred)
                yield from self.evaluation.evaluate(number, part, arriving, occurred)
                if self.evaluation.tally is not None:
                    self.evaluation.tally.add({("stretch", number): read[0]})

    def _arriving(
        self, stretch: Stretch, read: list[int], occurred: Occurrences
    ) -> ArrivingBatches:
        reach = reach_of_program(self.evaluation.programs[0], self._tick)
        after = -LARGEST_TICK if stretch.start is None else stretch.start - reach.back
        before = LARGEST_TICK if stretch.stop is None else stretch.stop + reach.ahead
        following = [group.low for group in stretch.groups[1:]] + [LARGEST_TICK]
        for group, complete in zip(stretch.groups, following, strict=True):
            inside = group.low > after and group.high < before
            for batch in self.reader.batches(group.split):
                read[0] += len(batch)
                occurred.add(batch.table)  # also what the filter leaves out
                keep = np.ones(len(batch), np.bool_)
                if not inside:
                    keep &= (batch.ticks > after) & (batch.ticks < before)
                if self.filter is not None and keep.any():
                    keep &= self.filter.mask(batch.table)
                yield _kept(batch, keep), min(group.low, complete)
            yield Batch(self.reader.schema.empty_table(), _NONE, "", _NONE), complete

    @property
    def _tick(self) -> int:
        return from_table(self.reader.schema.empty_table(), self.reader.stream).tick


_NONE = np.zeros(0, np.int64)


def _kept(batch: Batch, keep: npt.NDArray[np.bool_]) -> Batch:
    if keep.all():
        return batch
    table = batch.table.filter(pa.array(keep))
    return Batch(table, batch.ticks[keep], batch.file, batch.rows[keep])


def use_given_device() -> None:
    """Compute on the device that Spark gave to this task, and with one thread."""
    from pyspark import TaskContext

    # Spark runs a worker on each core: a device that is the processor takes one for each.
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
    context = TaskContext.get()
    given = context.resources() if context is not None else {}
    if "gpu" in given:
        os.environ["SHEAF_OPENCL_DEVICE"] = given["gpu"].addresses[0]
