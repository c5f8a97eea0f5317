"""The rows of a workload over a data frame of a live stream, as a streaming data frame.

As in every stream of ours, events wait in the state of their bucket until the watermark has passed
them. The watermark is by the stream's own time and lateness; the frame's is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.input.event_paths import one_path, paths_by_source
from engines.input.event_table import Fault, Faults, OnError, from_table
from engines.input.query_columns import needed_columns
from engines.input.source_files import SourceColumns, check_renamed
from engines.limits import StateError
from engines.program import DEFAULT_OPTIONS, Program, RunOptions
from engines.spark.batch.packing import unpack
from engines.spark.batch.source import quoted
from engines.spark.frames.batch import PLACE, FrameEvents
from engines.spark.frames.rows import FrameRows
from engines.spark.runtime.kernel_warmup import warm
from engines.spark.stream.checkpoint import manifest_of, route_key
from engines.spark.stream.columns import PACKED
from engines.spark.stream.job import bucket_queries, bucket_turns
from engines.spark.stream.session import SESSION
from engines.spark.stream.source import (
    LiveSource,
    Packer,
    bytes_table,
    lateness_of,
    whole_schema,
)
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from engines.spark.stream.bucket_queries import BucketQueries

LiveFrames: TypeAlias = "DataFrame | Mapping[str, DataFrame]"  # or one for each source

BUCKETS = 32  # of a stream's state; a checkpoint keeps to them, so no machine decides it
METRICS = "sheaf"  # the name under which a query's progress has what was late or bad
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_THRESHOLD = "spark.broadcast.UDFCompressionThreshold"


@dataclass(frozen=True)
class LiveEvents:
    """Events of live data frames: of the only one, under an empty name, or of each source."""

    frames: Mapping[str, FrameEvents]
    schema: pa.Schema  # of the whole stream

    @staticmethod
    def of(given: LiveFrames, stream: Stream, on_error: OnError = "stop") -> LiveEvents:
        """Look at the columns; raises `EventsError` where they are not those of the stream."""
        if not isinstance(given, Mapping):
            alone = FrameEvents.of(given, stream, on_error)
            return LiveEvents({"": alone}, alone.schema)
        places = {name: f"the data frame of {name}" for name in given}
        one_path(places) if not stream.sources else paths_by_source(places, stream.sources)
        frames = {
            name: FrameEvents.of(given[name], source.stream, on_error)
            for name, source in stream.sources.items()
        }
        own = {name: events.schema for name, events in frames.items()}
        for name, schema in own.items():
            check_renamed([schema], name, stream, places[name])
        return LiveEvents(frames, whole_schema(own, stream, places))

    @property
    def session(self) -> SparkSession:
        return next(iter(self.frames.values())).frame.sparkSession


def live_rows(
    program: Program,
    events: LiveEvents,
    options: RunOptions = DEFAULT_OPTIONS,
    buckets: int = BUCKETS,
) -> tuple[DataFrame, FrameRows]:
    """The rows of a program, each once it is certain, as `FrameRows` has them."""
    from pyspark.sql import functions as sf

    workload, session = program.workload, events.session
    session.conf.set(_PROVIDER, SESSION[_PROVIDER])  # the only one that takes such state
    columns = needed_columns(workload, events.schema.names)
    schema = pa.schema([events.schema.field(name) for name in columns])
    none = from_table(schema.empty_table(), workload.stream)
    schema = none.table.schema
    landing = FrameRows.of(workload, schema)
    manifest = manifest_of(program, schema, none.tick, buckets, 1)
    queries = bucket_queries(program, manifest, schema, none.tick, options)
    _check_size(session, queries)
    warm((), pa.table({}))
    keys = {route: route_key(route) for route in queries.routes}
    packed = []
    for name, of in events.frames.items():
        stream = workload.stream.sources[name].stream if name else workload.stream
        path = {name: f"the data frame of {name}"} if name else PLACE
        own = {name: of.schema}
        source = LiveSource(
            path, workload.stream, schema, none.tick, of.on_error, own=own if name else {}
        )
        packer = FramePacker(source, schema, keys, buckets, workload, name)
        chosen = of.frame.select(*(of.frame[quoted(column)] for column in packer.wanted.names))
        arrived = chosen.toDF(*(f"c{i}" for i in range(len(packer.wanted))))
        packed.append((arrived.mapInArrow(packer, PACKED), lateness_of(stream)))
    turns = bucket_turns(packed, queries)

    def number(name: str) -> Column:
        told = sf.get_json_object("about", f"$.{name}").cast("bigint")
        return sf.coalesce(sf.sum(told), sf.lit(0)).alias(name)

    observed = turns.observe(METRICS, number("late"), number("bad"))
    return observed.mapInArrow(TurnRows(landing), landing.spark_schema), landing


def _check_size(session: SparkSession, queries: BucketQueries) -> None:
    """Refuse queries of which Spark would make a broadcast, which no stateful operator takes."""
    from pyspark import cloudpickle

    size = len(cloudpickle.dumps(queries))
    most = int(session.conf.get(_THRESHOLD, str(2**20)) or 2**20)
    if size > most:
        raise StateError(
            f"the queries take {size:,} bytes on their way to Spark's workers, and this session "
            f"sends {most:,} to a stateful operator; start it with {_THRESHOLD} set to {2**30}"
        )


@dataclass(frozen=True)
class FramePacker(Packer):
    """Packs events that arrive as columns c0, c1, …; runs on executors."""

    @property
    def _own(self) -> SourceColumns:
        return SourceColumns(self.source.own[self.name], self.name, self.source.stream, self._place)

    @property
    def wanted(self) -> pa.Schema:
        """The columns that the frame has to give, as it calls them."""
        return self._own.wanted(self.columns) if self.name else self.columns

    def _tables(
        self, batches: Iterable[pa.RecordBatch], faults: Faults, account: Account
    ) -> Iterator[pa.Table]:
        stream = self.source.stream
        for batch in batches:
            table = unpack(pa.Table.from_batches([batch]), self.wanted)
            if self.name:
                rows = np.arange(table.num_rows)
                table, _, found = self._own.as_whole((table, rows, []), self.columns)
                faults.report(self._place, found)
                yield table
                continue
            for name in filter(None, (stream.time, stream.sequence)):
                null = np.asarray(pc.is_null(table.column(name)))
                if null.any():
                    message = "it is null; every event needs one"
                    found = [
                        Fault(int(row) + 1, "null", message, name) for row in np.flatnonzero(null)
                    ]
                    faults.report(PLACE, found)
                    table = table.filter(pa.array(~null))
            yield table


@dataclass(frozen=True)
class TurnRows:
    """What the turns of buckets have found, as rows."""

    landing: FrameRows

    def __call__(self, turns: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in turns:
            for kind in ("aggregates", "matches"):
                for content in batch.column(kind).drop_null():
                    yield from self.landing.by_query(bytes_table(content.as_buffer()))
