"""A workload over a live stream as one Structured Streaming job.

    files or messages ─▶ read, pack by bucket ─▶ one state a bucket ─▶ Parquet by batch

Events wait in the state of their bucket until the watermark has passed them. A batch's results are
thus those of all events up to the watermark, in the order of time, whatever order they came in.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engines.account import Account
from engines.columns.occurrences import merged
from engines.input.event_table import from_table
from engines.input.query_columns import needed_columns
from engines.limits import StateError
from engines.live.bucket import Bucket
from engines.program import DEFAULT_OPTIONS, Program, RunOptions
from engines.results.json_text import shown_moment
from engines.results.lake_place import lake_place
from engines.spark.batch.job import JobError, said
from engines.spark.runtime.kernel_warmup import warm
from engines.spark.runtime.worker_start import start_workers
from engines.spark.stream.checkpoint import (
    Manifest,
    Takeover,
    hold,
    last_batch,
    manifest_of,
    read_manifest,
    route_key,
    spark_folder,
    taken_over,
    write_manifest,
)
from engines.spark.stream.columns import FOUND, PACKED, STATE
from engines.spark.stream.kafka import KAFKA, KafkaSink
from engines.spark.stream.session import stream_session
from engines.spark.stream.sink import LakeSink, Sink
from engines.spark.stream.source import LiveSource, Packer, lateness_of
from optimizer.ir.query import Aggregation, BoundWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from engines.spark.stream.bucket_queries import BucketQueries

# More than for stored events: each is read and written whole in every batch, and RocksDB and the
# way to Python are quick with values of up to about a megabyte.
BUCKETS_PER_CORE = 8

# Spark starts a Python process when a stream begins, and does not wait for it for ever. Seen on a
# machine that was busy; the checkpoint is as it was, so the stream can begin again.
_TOO_SLOW = "Python worker failed to connect back"
MAX_TRIES = 4


@dataclass(frozen=True)
class StreamOptions:
    """Where a stream keeps its state and its rows, and how it runs.

    `buckets` and `partitions` hold for a new checkpoint; a bucket is what is read and written at
    once, so more of them make smaller pieces of state. With `once` the stream ends when the events
    that are there have been processed; else a batch starts as soon as the one before has ended, or
    `every` so many seconds.
    """

    checkpoint: str
    out: str
    buckets: int | None = None
    partitions: int | None = None
    files_per_batch: int | None = None
    every: float | None = None
    once: bool = False
    light: bool = False  # does `out` keep the light index of its files?
    out_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # of Kafka's writer


@dataclass(frozen=True)
class GroupState:
    """What queries that have one state together hold of it."""

    queries: tuple[str, ...]
    events: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class RouteTurn:
    """A way of keying, and the queries that it is for.

    Of a batch, the events that came along it and those that the queries were given, now that their
    time has passed; `waiting` are all whose time has not.
    """

    key: tuple[str, ...]
    queries: tuple[str, ...]
    arrived: int = 0
    taken: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class StreamProgress:
    """What a batch did, and what has been since the stream was started.

    `until` is the time up to which all results are given, None before any is. State is that of the
    buckets that have had a turn since: `state` in bytes, `waiting` in events, and `groups`. `rows`
    are those of the batch by query.
    """

    batch: int
    seconds: float
    read: int = 0
    bad: int = 0
    late: int = 0
    aggregates: int = 0
    matches: int = 0
    until: int | None = None
    until_shown: int | str | None = None  # as people read it
    time_type: pa.DataType | None = None  # of results
    buckets: int = 0
    state: int = 0
    waiting: int = 0
    groups: tuple[GroupState, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    routes: tuple[RouteTurn, ...] = ()
    first_bad: str | None = None
    account: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of the batch
    fallbacks: tuple[str, ...] = ()
    decisions: tuple[Mapping[str, Any], ...] = ()
    seen: Mapping[str, Any] = field(default_factory=dict)  # in the batch, of what queries ask for


OnBatch = Callable[[StreamProgress], None]
QueryGroups = Mapping[
    str, Mapping[str, tuple[str, ...]]
]  # by route, and by the first query of each


class StreamJob:
    """A job that runs until it is stopped, fails, or has done what was there.

    `takeover` says what its queries have begun with.
    """

    def __init__(
        self, session: SparkSession, options: StreamOptions, told: OnBatch, lock: IO[str]
    ) -> None:
        self._session, self._options, self._lock = session, options, lock
        self._account = _Account(told)
        self._tries = MAX_TRIES
        self._gone_on_from = -1  # the last batch before it began
        self._current: tuple[Program, LiveSource, RunOptions, QueryGroups]
        self.query: StreamingQuery
        self.takeover: Takeover

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended; raises `JobError` where it failed."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            if seconds is None:
                self.query.awaitTermination()
                ended = True
            else:
                ended = bool(self.query.awaitTermination(seconds))  # type: ignore[arg-type]
        except (PySparkException, Py4JError) as error:
            if _TOO_SLOW in str(error) and self._tries > 1:
                self._tries -= 1
                self._begin(*self._current)
                return seconds is None and self.wait()
            self._lock.close()
            raise JobError(said(error) + self._doubt(said(error))) from error
        if ended:
            self._lock.close()
        return ended

    def _doubt(self, why: str) -> str:
        """That the checkpoint may be what is wrong, where Spark could do nothing with it."""
        at = self._options.checkpoint
        if not why.startswith("Spark: ") or self._gone_on_from < 0:
            return ""
        if last_batch(at) > self._gone_on_from:
            return ""
        return (
            f"; it could do nothing with the checkpoint '{at}'. If that happens again, the "
            "checkpoint is damaged: put back a copy, or start with a new one (rows so far stay)"
        )

    def stop(self, patience: float = 0) -> None:
        """End it, after the batch that is running if that takes no more than so many seconds.

        A batch that is cut off runs again when the stream goes on.
        """
        deadline = time.monotonic() + patience
        self._close(lambda: time.monotonic() > deadline)
        self._lock.close()

    def replace(
        self,
        program: Program,
        source: LiveSource,
        run_options: RunOptions = DEFAULT_OPTIONS,
        enough: Callable[[], bool] = lambda: False,
    ) -> Takeover:
        """Go on with another plan from the end of the batch that is running.

        Raises `StateError`, and goes on with the queries that it has, where the state there is
        cannot be that of the new ones. Asks now and then whether it was `enough`, to end at once.
        """
        groups = _groups(self._session, program, source, self._options, run_options)
        self._close(enough)
        if self.query.exception() is not None and not self._account.kept_out:
            self.wait()  # it failed by itself
        self._account.kept_out, self._tries = False, MAX_TRIES
        self._begin(program, source, run_options, groups)
        return self.takeover

    def _close(self, enough: Callable[[], bool]) -> None:
        """End it between two batches; one that would begin meanwhile is kept out."""
        self._account.closing = True
        try:
            while self.query.isActive and self.query.status["isTriggerActive"] and not enough():
                with suppress(Exception):  # that a batch was kept out
                    self.query.awaitTermination(0.1)  # type: ignore[arg-type]
            self.query.stop()
        finally:
            self._account.closing = False

    def _begin(
        self, program: Program, source: LiveSource, run_options: RunOptions, groups: QueryGroups
    ) -> None:
        options, self._current = self._options, (program, source, run_options, groups)
        workload = program.workload
        self._gone_on_from = last_batch(options.checkpoint)
        takeover = _begun(self._session, program, source, options)
        buckets = _buckets(program, source, takeover.manifest, run_options)
        sink = _sink(workload, options)
        sink.prepare()
        write_manifest(options.checkpoint, takeover.manifest)
        self.takeover = takeover
        self._account.turn_to(sink, groups, source, program.ids.scan)
        found = _found(self._session, workload, source, options, takeover.manifest, buckets)
        writer = (
            found.writeStream.queryName(workload.name)
            .foreachBatch(self._account.write)
            .option("checkpointLocation", spark_folder(options.checkpoint))
        )
        if options.once:
            writer = writer.trigger(availableNow=True)
        elif options.every is not None:
            writer = writer.trigger(processingTime=f"{round(options.every * 1000)} milliseconds")
        self.query = writer.start()


def start_stream(
    session: SparkSession,
    program: Program,
    source: LiveSource,
    options: StreamOptions,
    run_options: RunOptions = DEFAULT_OPTIONS,
    told: OnBatch = lambda progress: None,
) -> StreamJob:
    """Start a stream, or go on where the one with the same checkpoint has ended."""
    lock = hold(options.checkpoint)
    start_workers(session)
    try:
        stream = StreamJob(session, options, told, lock)
        groups = _groups(session, program, source, options, run_options)
        stream._begin(program, source, run_options, groups)
    except BaseException:
        lock.close()
        raise
    return stream


def _groups(
    session: SparkSession,
    program: Program,
    source: LiveSource,
    options: StreamOptions,
    run_options: RunOptions,
) -> QueryGroups:
    """The queries that have one state together, once it is known that all can run."""
    manifest = _begun(session, program, source, options).manifest
    buckets = _buckets(program, source, manifest, run_options)
    # Compiled and cached here, for the workers to load.
    warm((), pa.table({}))
    return _groups_of(buckets)


def _groups_of(buckets: BucketQueries) -> QueryGroups:
    return {
        route: Bucket(generations, buckets.schema, buckets.tick, buckets.options).groups
        for route, generations in buckets.routes.items()
    }


def _found(
    session: SparkSession,
    workload: BoundWorkload,
    source: LiveSource,
    options: StreamOptions,
    manifest: Manifest,
    buckets: BucketQueries,
) -> DataFrame:
    """What each turn of a bucket gives, a row for each."""
    own = stream_session(session, manifest.partitions)
    keys = {route: route_key(route) for route in buckets.routes}
    packed = []
    for name in source.places:
        packer = Packer(source, buckets.schema, keys, manifest.buckets, workload, name)
        events = source.frame(own, name, options.files_per_batch).mapInArrow(packer, PACKED)
        packed.append((events, lateness_of(source.stream_of(name))))
    return bucket_turns(packed, buckets)


def bucket_turns(packed: Sequence[tuple[DataFrame, int]], buckets: BucketQueries) -> DataFrame:
    """What each turn of a bucket gives, a row for each, over events that a `Packer` has packed.

    Events of each source are with the milliseconds that they may be late by. The watermark is
    the least of theirs, which Spark takes by itself.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions as sf

    from engines.spark.stream.processor import BucketProcessor

    # Without the column of times behind it Spark does not leave out late events: we keep them.
    timed = [
        events.withColumn("at", sf.timestamp_millis("latest"))
        .withWatermark("at", f"{lateness} milliseconds")
        .select("route", "bucket", "events")
        for events, lateness in packed
    ]
    together = reduce(lambda one, other: one.union(other), timed)
    return together.groupBy("route", "bucket").transformWithStateInPandas(
        BucketProcessor(cloudpickle.dumps(buckets)), FOUND, "append", "eventTime"
    )


def finish_stream(
    session: SparkSession,
    program: Program,
    source: LiveSource,
    options: StreamOptions,
    run_options: RunOptions = DEFAULT_OPTIONS,
) -> StreamProgress:
    """The rows that are left once no more events will come, as one more batch.

    Spark has no last watermark. So the state is read from the checkpoint of the stream, which must
    have ended, and each bucket is run to its end. The checkpoint is closed by it.
    """
    with hold(options.checkpoint):
        return _finish(session, program, source, options, run_options)


def _finish(
    session: SparkSession,
    program: Program,
    source: LiveSource,
    options: StreamOptions,
    run_options: RunOptions,
) -> StreamProgress:
    from pyspark.sql import functions as sf

    manifest = _begun(session, program, source, options).manifest
    buckets = _buckets(program, source, manifest, run_options)
    own = stream_session(session, manifest.partitions)
    folder = spark_folder(options.checkpoint)
    batch = last_batch(options.checkpoint) + 1
    if batch == 0:  # nothing has ever come
        return StreamProgress(0, 0.0)
    states = (
        own.read.format("statestore")
        .option("stateVarName", STATE)
        .load(folder)
        .select(
            sf.col("key.route").alias("route"),
            sf.col("key.bucket").alias("bucket"),
            sf.col("value.state").alias("state"),
        )
    )
    seen: list[StreamProgress] = []
    account = _Account(seen.append)
    sink, groups = _sink(program.workload, options), _groups_of(buckets)
    account.turn_to(sink, groups, source, program.ids.scan)
    account.write(states.mapInArrow(buckets.finished, FOUND), batch)
    write_manifest(options.checkpoint, replace(manifest, finished=True))
    return seen[0]


class _KeptOutError(Exception):
    """The batch is not to begin: other queries take over."""


class _Account:
    """Writes batches and adds up what is told of them; keeps them out while it is `closing`."""

    def __init__(self, told: OnBatch) -> None:
        self._told = told
        self._turns: dict[tuple[str, int], dict[str, Any]] = {}  # the last of each bucket
        self._until: int | None = None
        self.closing = False
        self.kept_out = False

    def turn_to(
        self, sink: Sink | KafkaSink, groups: QueryGroups, source: LiveSource, scan: str
    ) -> None:
        """Go on with other queries; `scan` is the operator that reads events."""
        self._sink, self._groups, self._scan = sink, groups, scan
        self._no_events = from_table(source.schema.empty_table(), source.stream)
        self._turns = {place: t for place, t in self._turns.items() if place[0] in groups}

    def write(self, found: DataFrame, batch: int) -> None:
        if self.closing:
            self.kept_out = True
            raise _KeptOutError
        begun = time.perf_counter()
        about = self._sink.write(found, batch)
        self._told(self._progress(batch, time.perf_counter() - begun, about))

    def _progress(self, batch: int, seconds: float, about: list[dict[str, Any]]) -> StreamProgress:
        for turn in about:
            if "route" in turn:
                self._turns[turn["route"], turn["bucket"]] = turn
            if turn.get("until") is not None:
                self._until = max(turn["until"], self._until or turn["until"])
        turns = self._turns.values()

        def total(name: str) -> int:
            return sum(turn.get(name, 0) for turn in about)

        return StreamProgress(
            batch=batch,
            seconds=round(seconds, 3),
            read=total("read"),
            bad=total("bad"),
            late=total("late"),
            aggregates=total("aggregates"),
            matches=total("matches"),
            until=self._until,
            until_shown=self._shown(self._until),
            time_type=self._no_events.time_type,
            buckets=sum("route" in turn for turn in about),
            state=sum(turn["state"] for turn in turns),
            waiting=sum(turn["waiting"] for turn in turns),
            groups=self._states(),
            rows=sum((Counter(turn["rows"]) for turn in about if "route" in turn), Counter()),
            routes=self._routes(about),
            first_bad=next((turn["first"] for turn in about if turn.get("first")), None),
            account=_added_up(about, self._scan),
            fallbacks=tuple(
                dict.fromkeys(text for turn in about for text in turn.get("fallbacks", ()))
            ),
            decisions=tuple(d for turn in about for d in turn.get("decisions", ())),
            seen=merged(turn["seen"] for turn in about if "seen" in turn),
        )

    def _shown(self, ticks: int | None) -> int | str | None:
        """A time as people read it: a number, or a timestamp in ISO 8601."""
        return None if ticks is None else shown_moment(self._no_events.times(np.array([ticks])))

    def _routes(self, about: list[dict[str, Any]]) -> tuple[RouteTurn, ...]:
        found = {
            route: RouteTurn(route_key(route), tuple(q for names in groups.values() for q in names))
            for route, groups in self._groups.items()
        }
        for turn in about:
            if (before := found.get(turn.get("route", ""))) is not None:
                arrived = before.arrived + turn.get("arrived", 0)  # none does at a stream's end
                taken = before.taken + turn["taken"]
                found[turn["route"]] = replace(before, arrived=arrived, taken=taken)
        for (route, _), turn in self._turns.items():
            if (before := found.get(route)) is not None:
                found[route] = replace(before, waiting=before.waiting + turn["waiting"])
        return tuple(found.values())

    def _states(self) -> tuple[GroupState, ...]:
        found = {
            (route, first): GroupState(queries)
            for route, groups in self._groups.items()
            for first, queries in groups.items()
        }
        for (route, _), turn in self._turns.items():
            for first, (events, size) in turn["held"].items():
                if (before := found.get((route, first))) is not None:
                    found[route, first] = replace(
                        before, events=before.events + events, bytes=before.bytes + size
                    )
        return tuple(found.values())


def _added_up(about: list[dict[str, Any]], scan: str) -> dict[str, dict[str, int]]:
    """The account of a batch, over all turns of its buckets and those who read for them."""
    account = Account()
    for turn in about:
        if "account" in turn:
            account.add(turn["account"])
        if "read" in turn:
            account.count(scan, turn["read"] + turn["bad"], turn["read"])
            account.spend(scan, turn["nanoseconds"])
    return account.totals()


def _begun(
    session: SparkSession, program: Program, source: LiveSource, options: StreamOptions
) -> Takeover:
    """What is true of the stream from now on, and what its queries begin with."""
    cores = session.sparkContext.defaultParallelism
    buckets = options.buckets or BUCKETS_PER_CORE * cores
    partitions = min(options.partitions or cores, buckets)
    new = manifest_of(program, source.schema, source.tick, buckets, partitions)
    old = read_manifest(options.checkpoint)
    if old is None:
        return Takeover(new)
    if options.buckets not in (None, old.buckets):
        raise StateError(
            f"the checkpoint '{options.checkpoint}' has {old.buckets} buckets, and "
            f"{options.buckets} are asked for; start with a new checkpoint"
        )
    return taken_over(old, new, program, options.checkpoint)


def _buckets(
    program: Program, source: LiveSource, manifest: Manifest, run_options: RunOptions
) -> BucketQueries:
    columns = needed_columns(program.workload, manifest.schema.names)
    schema = pa.schema([manifest.schema.field(name) for name in columns])
    schema = from_table(schema.empty_table(), program.workload.stream).table.schema
    return bucket_queries(program, manifest, schema, source.tick, run_options)


def bucket_queries(
    program: Program, manifest: Manifest, schema: pa.Schema, tick: int, options: RunOptions
) -> BucketQueries:
    """The queries of a stream as its buckets take them."""
    from engines.spark.stream.bucket_queries import BucketQueries

    routes = manifest.routes(program)
    plan = hashlib.blake2b(repr((routes, schema, tick, options)).encode()).hexdigest()
    return BucketQueries(plan, routes, schema, tick, options)


def _sink(workload: BoundWorkload, options: StreamOptions) -> Sink | KafkaSink:
    aggregating = [isinstance(query.output, Aggregation) for query in workload.queries]
    kinds = ["aggregates"] * any(aggregating) + ["matches"] * (not all(aggregating)) + ["late"]
    if options.out.startswith(KAFKA):
        return KafkaSink(options.out, tuple(kinds), options.out_options)
    if (place := lake_place(options.out)) is not None:
        given = (place.folder, tuple(kinds), options.light)
        return LakeSink(*given, lake=place.kind, checkpoint=options.checkpoint)
    return Sink(options.out, tuple(kinds), options.light)
