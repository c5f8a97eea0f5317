"""A workload over a live stream as one Structured Streaming job.

    files or messages ─▶ read, pack by bucket ─▶ one state a bucket ─▶ Parquet by batch

Events wait in the state of their bucket until the watermark has passed them. A batch's results are
thus those of all events up to the watermark, in the order of time, whatever order they came in.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engines.columns.needed import needed_columns
from engines.errors import StateError
from engines.events import from_table
from engines.how import USUAL, How
from engines.live.bucket import Bucket
from engines.spark.batch import JobError, plan_routes, said
from engines.spark.checkpoint import (
    Manifest,
    manifest_of,
    read_manifest,
    route_name,
    spark_folder,
    taken_over,
    write_manifest,
)
from engines.spark.live_source import PACKED, LiveSource, Packer, lateness_of
from engines.spark.sink import Sink, Writer
from kernels import product
from optimizer.automaton import countable
from optimizer.ir.query import Aggregation, BoundWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from engines.spark.processor import Buckets

# More than for stored events: each is read and written whole in every batch, and RocksDB and the
# way to Python are quick with values of up to about a megabyte.
BUCKETS_PER_CORE = 8

# For `spark_session`, where a session is made for a stream.
SETTINGS = {
    # A processor carries all queries; compressed ones of more than this would be broadcast, which
    # stateful operators do not take.
    "spark.broadcast.UDFCompressionThreshold": str(2**30),
}
_SESSION = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # What changes is written, and not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting the rows would read each piece of state once more before it is replaced.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
}


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


@dataclass(frozen=True)
class Progress:
    """What a batch did, and what has been since the stream was started.

    `until` is the time up to which all results are given, None before any is. State is that of the
    buckets that have had a turn since: `state` in bytes, `waiting` and `held` in events, the latter
    by the first query of a group.
    """

    batch: int
    seconds: float
    read: int = 0
    bad: int = 0
    late: int = 0
    aggregates: int = 0
    matches: int = 0
    until: int | None = None
    buckets: int = 0
    state: int = 0
    waiting: int = 0
    held: dict[str, int] = field(default_factory=dict)
    first_bad: str | None = None


Told = Callable[[Progress], None]


class Stream:
    """A job that runs until it is stopped, fails, or has done what was there."""

    def __init__(self, query: StreamingQuery, afresh: tuple[str, ...]) -> None:
        self.query = query
        self.afresh = afresh  # queries that the checkpoint had nothing of

    def wait(self, seconds: int | None = None) -> bool:
        """Whether it has ended; raises `JobError` where it failed."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            if seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(seconds))
        except (PySparkException, Py4JError) as error:
            raise JobError(said(error)) from error

    def stop(self) -> None:
        """End it; a batch that was running runs again when the stream goes on."""
        self.query.stop()


def start_stream(
    session: SparkSession,
    workload: BoundWorkload,
    source: LiveSource,
    options: StreamOptions,
    how: How = USUAL,
    told: Told = lambda progress: None,
) -> Stream:
    """Start a stream, or go on where the one with the same checkpoint has ended."""
    from pyspark.sql import functions as sf

    from engines.spark.processor import FOUND, BucketProcessor

    manifest, afresh = _begun(session, workload, source, options)
    buckets = _buckets(workload, source, manifest, how)
    # What the engine cannot do is said here. The kernels are compiled and cached here too, for the
    # workers to load: they must not all write that cache at once.
    for part in buckets.routes.values():
        Bucket(part, buckets.schema, buckets.tick, how)
    if any(countable(query) is None for query in workload.queries):
        product.warm()
    sink = _sink(workload, options)
    sink.prepare()
    write_manifest(options.checkpoint, manifest)

    own = _session(session, manifest)
    keys = {route_name(key): key for key in plan_routes(workload.queries)}
    packer = Packer(source, buckets.schema, keys, manifest.buckets)
    packed = source.frame(own, options.files_per_batch).mapInArrow(packer, PACKED)
    # Without the column of times behind it Spark does not leave out late events: we keep them.
    timed = (
        packed.withColumn("at", sf.timestamp_millis("latest"))
        .withWatermark("at", f"{lateness_of(workload.stream)} milliseconds")
        .select("route", "bucket", "events")
    )
    found = timed.groupBy("route", "bucket").transformWithStateInPandas(
        BucketProcessor(buckets), FOUND, "append", "eventTime"
    )
    account = _Account(sink, told)
    writer = (
        found.writeStream.queryName(workload.name)
        .foreachBatch(account.write)
        .option("checkpointLocation", spark_folder(options.checkpoint))
    )
    if options.once:
        writer = writer.trigger(availableNow=True)
    elif options.every is not None:
        writer = writer.trigger(processingTime=f"{round(options.every * 1000)} milliseconds")
    return Stream(writer.start(), afresh)


def finish_stream(
    session: SparkSession,
    workload: BoundWorkload,
    source: LiveSource,
    options: StreamOptions,
    how: How = USUAL,
) -> Progress:
    """The rows that are left once no more events will come, as one more batch.

    Spark has no last watermark. So the state is read from the checkpoint of the stream, which must
    have ended, and each bucket is run to its end. The checkpoint is closed by it.
    """
    from pyspark.sql import functions as sf

    from engines.spark.processor import FOUND, STATE

    manifest, _ = _begun(session, workload, source, options)
    buckets = _buckets(workload, source, manifest, how)
    own = _session(session, manifest)
    folder = spark_folder(options.checkpoint)
    batch = _last_batch(options.checkpoint) + 1
    if batch == 0:  # nothing has ever come
        return Progress(0, 0.0)
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
    seen: list[Progress] = []
    account = _Account(_sink(workload, options), seen.append)
    account.write(states.mapInArrow(buckets.finished, FOUND), batch)
    write_manifest(options.checkpoint, replace(manifest, finished=True))
    return seen[0]


class _Account:
    """Writes batches and adds up what is told of them."""

    def __init__(self, sink: Sink, told: Told) -> None:
        self._sink, self._told = sink, told
        self._turns: dict[tuple[str, int], dict[str, Any]] = {}  # the last of each bucket
        self._until: int | None = None

    def write(self, found: DataFrame, batch: int) -> None:
        begun = time.perf_counter()
        self._sink.clear(batch)
        writer = Writer(str(self._sink.staging(batch).absolute()), self._sink.kinds)
        about = [json.loads(row[0]) for row in found.mapInArrow(writer, "about string").collect()]
        self._sink.publish(batch)
        self._told(self._progress(batch, time.perf_counter() - begun, about))

    def _progress(self, batch: int, seconds: float, about: list[dict[str, Any]]) -> Progress:
        for turn in about:
            if "route" in turn:
                self._turns[turn["route"], turn["bucket"]] = turn
            if turn.get("until") is not None:
                self._until = max(turn["until"], self._until or turn["until"])
        turns = self._turns.values()
        held: dict[str, int] = {}
        for turn in turns:
            for name, number in turn["held"].items():
                held[name] = held.get(name, 0) + number

        def total(name: str) -> int:
            return sum(turn.get(name, 0) for turn in about)

        return Progress(
            batch=batch,
            seconds=round(seconds, 3),
            read=total("read"),
            bad=total("bad"),
            late=total("late"),
            aggregates=total("aggregates"),
            matches=total("matches"),
            until=self._until,
            buckets=sum("route" in turn for turn in about),
            state=sum(turn["state"] for turn in turns),
            waiting=sum(turn["waiting"] for turn in turns),
            held=held,
            first_bad=next((turn["first"] for turn in about if turn.get("first")), None),
        )


def _begun(
    session: SparkSession, workload: BoundWorkload, source: LiveSource, options: StreamOptions
) -> tuple[Manifest, tuple[str, ...]]:
    """What is true of the stream from now on, and the queries that start afresh in it."""
    cores = session.sparkContext.defaultParallelism
    buckets = options.buckets or BUCKETS_PER_CORE * cores
    partitions = min(options.partitions or cores, buckets)
    new = manifest_of(workload, source.schema, source.tick, buckets, partitions)
    old = read_manifest(options.checkpoint)
    if old is None:
        return new, ()
    if options.buckets not in (None, old.buckets):
        raise StateError(
            f"the checkpoint '{options.checkpoint}' has {old.buckets} buckets, and "
            f"{options.buckets} are asked for; start with a new checkpoint"
        )
    return taken_over(old, new, options.checkpoint)


def _buckets(workload: BoundWorkload, source: LiveSource, manifest: Manifest, how: How) -> Buckets:
    from engines.spark.processor import Buckets

    routes = {
        route_name(key): replace(workload, queries=queries)
        for key, queries in plan_routes(workload.queries).items()
    }
    columns = needed_columns(workload, manifest.schema.names)
    schema = pa.schema([manifest.schema.field(name) for name in columns])
    schema = from_table(schema.empty_table(), workload.stream).table.schema
    plan = hashlib.blake2b(repr((routes, schema, source.tick, how)).encode()).hexdigest()
    return Buckets(plan, routes, schema, source.tick, how)


def _sink(workload: BoundWorkload, options: StreamOptions) -> Sink:
    aggregating = [isinstance(query.output, Aggregation) for query in workload.queries]
    kinds = ["aggregates"] * any(aggregating) + ["matches"] * (not all(aggregating)) + ["late"]
    return Sink(options.out, tuple(kinds))


def _session(session: SparkSession, manifest: Manifest) -> SparkSession:
    """A session with settings of its own, of the same application."""
    own = session.newSession()
    for name, value in _SESSION.items():
        own.conf.set(name, value)
    own.conf.set("spark.sql.shuffle.partitions", str(manifest.partitions))
    return own


def _last_batch(checkpoint: str) -> int:
    """The number of the last batch that was completed."""
    names = [file.name for file in (Path(spark_folder(checkpoint)) / "commits").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)
