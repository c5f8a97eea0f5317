"""A workload over stored events as one Spark job.

Where the events are stored in the order of time and windows are short, tasks read a stretch of time
each, and nothing is moved. Elsewhere every event is sent to the parts that depend on it
(`engines.spark.batch.parts`). Either way a task is the local engine over some events, in slices;
which events came together never shows in the results.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from typing import Literal as OneOf

import pyarrow as pa

from engines.account import Account, Fallbacks
from engines.columns.occurrences import Occurrences
from engines.input.event_table import Events, from_table
from engines.input.query_columns import named_among, needed_columns
from engines.limits import BadRowError, Ledger
from engines.local.run import reach_of_program, unbounded_queries
from engines.local.slices import SliceSize
from engines.matching.trees.adaptive import Decision
from engines.program import DEFAULT_OPTIONS, Program, RunOptions
from engines.results.funnel_totals import FunnelTotals, total_chunks
from engines.results.tables import Results
from engines.spark.batch.landing import Landing, Report, read_report
from engines.spark.batch.observed import ObservedOccurrences
from engines.spark.batch.packing import packed_schema, ticks
from engines.spark.batch.parts import (
    Key,
    RoutedParts,
    Spread,
    bucket_of,
    plan_parts,
    plan_routes,
    targets,
    with_last_moments,
)
from engines.spark.batch.progress import ExpectedTasks, OnProgress, TaskTally, watched
from engines.spark.batch.pushed_filters import filter_for
from engines.spark.batch.source import FileSource, SparkSource
from engines.spark.batch.stretches import RowGroup, Stretch, cheapest, held_at_once, shuffled_time
from engines.spark.batch.targets import TableTarget, Target, WrittenResults
from engines.spark.batch.tasks import ShuffledParts, StoredStretches, TaskEvaluation
from engines.spark.runtime.kernel_warmup import warm
from optimizer.ir.query import BoundWorkload, Query, is_cut_by_time
from workloads.errors import SheafError
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["BatchSummary", "JobError", "Key", "SpreadSettings", "plan_routes", "run_batch", "said"]

SAMPLE_ROWS = 200_000
HELD_ROWS = 4_000_000  # that are stored over one another in time, and are in memory together
ARROW_ROWS = 65_536  # in a batch on its way to Python
ONE_READING = "each query runs by itself, over events that Spark reads once for all of them"


class JobError(SheafError):
    """What Spark says went wrong with a job."""


@dataclass(frozen=True)
class SpreadSettings:
    """How a job is spread over tasks.

    `spread` is `time` for stretches as they are stored, `shuffle` for parts that events are sent
    to, or by cost. `buckets` are those of each key: enough that uneven ones even out, few enough
    that each is worth a call. From `least_rows` on a part is worth a task.
    """

    spread: OneOf["auto", "time", "shuffle"] = "auto"
    buckets: int | None = None
    least_rows: int = 50_000
    slicing: SliceSize = field(default_factory=SliceSize)
    stretches: int | None = None


DEFAULT_SPREAD = SpreadSettings()


@dataclass
class BatchSummary:
    """What a job did: events read, rows by query, and where they are.

    `taken` are the events that came to each part.
    """

    events: int
    read: int  # rows from storage: some by two tasks
    taken: list[int]
    rows: dict[str, int]
    numbers: tuple[int, int]  # of aggregate rows, and of match rows
    names: list[str]
    first: Results | None
    spread: str
    parts: int
    unbounded: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)  # of all tasks together
    ledger: Ledger = field(default_factory=Ledger)  # of queries that reached a limit in some part
    account: Account = field(default_factory=Account)  # of all tasks together
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    decisions: list[Decision] = field(default_factory=list)  # about trees, in any task
    notes: list[str] = field(default_factory=list)  # on what queries ask for and no event has
    first_tick: int | None = None  # of the event that is stored first


def run_batch(
    session: SparkSession,
    program: Program,
    source: SparkSource,
    target: Target,
    options: RunOptions = DEFAULT_OPTIONS,
    settings: SpreadSettings = DEFAULT_SPREAD,
    told: OnProgress | None = None,
) -> BatchSummary:
    """Run a program over all events of a source; rows go to the target."""
    workload = program.workload
    columns = needed_columns(workload, source.schema.names)
    first = source.first(columns)
    # What the engine cannot do is said here, before anything is started. The kernels are compiled
    # and cached here too, for workers on this machine to load; a device need not be here.
    warm((program,), first, replace(options, device="cpu"))
    events = from_table(first, workload.stream)
    tally = TaskTally(session)
    occurred = ObservedOccurrences(Occurrences(workload))
    with target.landing() as landing, _said(), _settings(session), watched(session, tally, told):
        job = _Job(
            session, program, source, columns, first, landing, tally, options, settings, occurred
        )
        stretches = job.stored()
        read: int | None = None
        if stretches is not None:
            read = sum(stretch.rows for stretch in stretches)
            rows = job.by_time(stretches)
            spread, parts = "time", len(stretches)
        else:
            plan = job.planned()
            rows = job.by_shuffle(plan)
            spread, parts = "shuffle", len(plan.parts)
        reports, landed = _landed(session, rows, target, events, workload.queries, landing)
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    ledger, account, fallbacks = Ledger(), Account(), Fallbacks()
    decisions: list[Decision] = []
    for report in reports:
        account.add(report.account.totals())
        fallbacks.update(report.fallbacks)
        decisions += report.decisions
        counts.update(report.rows)
        seconds.update(report.seconds)
        occurred.of_sample.merge(report.seen)
        ledger.stopped.update(report.ledger.stopped)
        ledger.dropped.update(report.ledger.dropped)
    account.spend(program.ids.scan, tally.spent())
    if not program.sharing and len(program.workload.queries) > 1:
        fallbacks.add(ONE_READING)
    numbers = [sum(report.numbers[i] for report in reports) for i in range(2)]
    number = source.settle(tally)
    return BatchSummary(
        number,
        number if read is None else read,
        [report.events for report in reports],
        dict(counts),
        (numbers[0], numbers[1]),
        landed.names,
        landed.first,
        spread,
        parts,
        unbounded_queries(workload.queries),
        dict(seconds),
        ledger,
        account,
        fallbacks,
        decisions,
        occurred.notes(number),
        int(events.ticks[0]) if len(events) else None,
    )


@dataclass(frozen=True)
class _Job:
    session: SparkSession
    program: Program
    source: SparkSource
    columns: list[str]
    first: pa.Table
    landing: Landing
    tally: TaskTally
    options: RunOptions
    settings: SpreadSettings
    occurred: ObservedOccurrences

    @property
    def workload(self) -> BoundWorkload:
        return self.program.workload

    @property
    def cores(self) -> int:
        return self.session.sparkContext.defaultParallelism

    def stored(self) -> list[Stretch] | None:
        """Stretches to be read as they are stored; None where that cannot be, or does not pay."""
        source, wanted = self.source, self.settings.spread
        queries = self.workload.queries
        if wanted == "shuffle" or not isinstance(source, FileSource) or not source.is_clean:
            return None
        if not all(map(is_cut_by_time, queries)):
            return None
        groups = [
            RowGroup(number, split.rows, split.low, split.high)
            for number, split in enumerate(source.splits)
            if split.rows and split.low is not None and split.high is not None
        ]
        if not groups or held_at_once(groups) > HELD_ROWS:
            return None
        tick = from_table(self.first, self.workload.stream).tick
        reach = reach_of_program(self.program, tick)
        rows = sum(group.rows for group in groups)
        most = self.settings.stretches or min(rows // self.settings.least_rows, 4 * self.cores)
        found, time = cheapest(
            groups, reach, self.cores, most, len(queries), exactly=self.settings.stretches
        )
        keyed = all(query.key for query in queries)
        if (
            wanted == "auto"
            and shuffled_time(groups, reach, self.cores, len(queries), keyed) < time
        ):
            return None
        return found

    def by_time(self, stretches: list[Stretch]) -> DataFrame:
        assert isinstance(self.source, FileSource)
        passing = filter_for(self.workload.queries, self.workload.stream, self.source.schema)
        reader = self.source.reader(self.columns)
        evaluation = replace(self._evaluation((self.program,)), files=reader.files)
        task = StoredStretches(evaluation, reader, tuple(stretches), passing)
        self.tally.expected = ExpectedTasks(len(stretches))
        numbers = self.session.range(0, len(stretches), 1, len(stretches))
        return numbers.mapInArrow(task, packed_schema(self.landing.match))

    def planned(self) -> RoutedParts:
        names = named_among(self.workload, self.source.schema.names)
        sample = self.source.sample(self.session, names, SAMPLE_ROWS)
        self.occurred.of_sample.add(sample)
        rows = max(self.source.about_rows(), sample.num_rows)
        least = self.settings.least_rows
        buckets = self.settings.buckets or max(1, min(4 * self.cores, rows // least))
        spread = Spread(self.cores, buckets, least)
        return plan_parts(self.program, self.source.schema, sample, rows, spread)

    def by_shuffle(self, plan: RoutedParts) -> DataFrame:
        events = self.source.frame(self.session, self.columns, self.tally)
        splits: int | None = None
        if isinstance(self.source, FileSource) and not self.source.spark_reads(self.columns):
            splits = len(self.source.splits)
        else:
            self.tally.whole = self.source.settle(self.tally)
        kind = self.first.schema.field(self.workload.stream.time).type
        places = places_of(self.workload, self.columns)
        plan = with_moments(events, plan, self.workload.stream, places, kind)
        events = self.occurred.watched(events, places)
        shuffled = routed(events, plan, self.workload.stream, places, kind)
        task = ShuffledParts(self._evaluation(plan.programs), plan.parts)
        self.tally.expected = ExpectedTasks(len(plan.parts), splits)
        return shuffled.mapInArrow(task, packed_schema(self.landing.match))

    def _evaluation(self, programs: tuple[Program, ...]) -> TaskEvaluation:
        self.tally.queries = tuple(tuple(q.name for q in p.workload.queries) for p in programs)
        return TaskEvaluation(
            uuid.uuid4().hex,
            programs,
            self.first,
            self.landing,
            self.tally.accumulator,
            self.options,
            self.settings.slicing,
        )


def places_of(workload: BoundWorkload, columns: Sequence[str]) -> dict[str, str]:
    """What columns are called on their way through Spark, by their names."""
    places = {name: f"c{i}" for i, name in enumerate(columns)}
    places.setdefault("time", places[workload.stream.time])
    return places


def with_moments(
    events: DataFrame,
    plan: RoutedParts,
    stream: Stream,
    places: dict[str, str],
    time_type: pa.DataType,
) -> RoutedParts:
    """The parts with what stretches of situations need to know of the events before them."""
    return with_last_moments(events, plan, places, _tick(events, stream, places, time_type))


def _tick(
    events: DataFrame, stream: Stream, places: dict[str, str], time_type: pa.DataType
) -> Column:
    from pyspark.sql import functions as sf

    time = places[stream.time]
    return ticks(sf.col(time), time_type, events.schema[time].dataType.simpleString())


def routed(
    events: DataFrame,
    plan: RoutedParts,
    stream: Stream,
    places: dict[str, str],
    time_type: pa.DataType,
) -> DataFrame:
    """Events in a partition for each part that they go to, in the order of time."""
    from pyspark.sql import functions as sf

    time = places[stream.time]
    tick = _tick(events, stream, places, time_type)
    kept, parts = targets(plan, places, tick)
    if kept is not None:
        events = events.where(kept)
    only = bucket_of(plan, places)
    part = sf.explode(parts) if only is None else only
    numbered = events.select(part.alias("part"), *events.columns)
    order = [time] + ([places[stream.sequence]] if stream.sequence else [])
    return numbered.repartitionById(len(plan.parts), "part").sortWithinPartitions(*order)


def _landed(
    session: SparkSession,
    rows: DataFrame,
    target: Target,
    events: Events,
    queries: Sequence[Query],
    landing: Landing,
) -> tuple[list[Report], WrittenResults]:
    """Have the tasks run; gives their reports, and what became of their rows."""
    from pyspark import StorageLevel

    if not isinstance(target, TableTarget):
        reports = [read_report(row[0]) for row in rows.select("report").collect()]
        totals, _ = _totals(reports, events, queries, landing)
        return [*reports, *totals], target.land([*reports, *totals], events.time_type)
    kept = rows.persist(StorageLevel.DISK_ONLY)  # it is read for each table
    try:
        told = kept.where("report IS NOT NULL").select("report").collect()
        reports = [read_report(row[0]) for row in told]
        totals, batches = _totals(reports, events, queries, landing)
        whole = kept
        if batches:
            added = session.createDataFrame(pa.Table.from_batches(batches), kept.schema)
            whole = kept.unionByName(added)
        return [*reports, *totals], target.write(session, whole, events.time_type)
    finally:
        kept.unpersist()


def _totals(
    reports: Sequence[Report], events: Events, queries: Sequence[Query], landing: Landing
) -> tuple[list[Report], list[pa.RecordBatch]]:
    """What the steps of funnels come to over the keys of all parts, landed as a part of its own."""
    if not any(len(report.funnels) for report in reports):
        return [], []
    last = Report(1 + max(report.part for report in reports))
    totals = FunnelTotals()
    for report in reports:
        totals.merge(report.funnels)
    stopped = {name for report in reports for name in report.ledger.stopped}
    going = [query for query in queries if query.name not in stopped]
    batches = list(landing.landed(iter(total_chunks(going, totals, events)), last))
    return [last], batches


@contextmanager
def _settings(session: SparkSession) -> Iterator[None]:
    """Settings of the session that hold for the job."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(name)
    session.conf.set(name, str(ARROW_ROWS))
    try:
        yield
    finally:
        if before is not None:
            session.conf.set(name, before)


@contextmanager
def _said() -> Iterator[None]:
    """What Spark says, as errors of ours."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        kind = BadRowError if f"{BadRowError.__name__}: " in str(error) else JobError
        raise kind(said(error)) from error


def said(error: Exception) -> str:
    """The last line of a Python traceback in Spark's message, or the first line of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, text = line.partition(": ")
        if colon and name.endswith("Error") and " " not in name:
            return text if name.startswith(("engines.", "workloads.")) else line
    return f"Spark: {lines[0] if lines else type(error).__name__}"
