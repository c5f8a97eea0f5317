"""The rows of a workload over a data frame of a live stream, as a streaming data frame.

As in every stream of ours, events wait in the state of their bucket until the watermark has passed
them. The watermark is by the stream's own time and lateness; the frame's is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.batches import needed_columns
from engines.input.event_table import Fault, Faults, from_table
from engines.limits import StateError
from engines.program import DEFAULT_OPTIONS, Program, RunOptions
from engines.spark.batch.packing import unpack
from engines.spark.batch.source import quoted
from engines.spark.frames.batch import PLACE, FrameEvents
from engines.spark.frames.rows import FrameRows
from engines.spark.runtime.kernel_warmup import warm
from engines.spark.stream.checkpoint import manifest_of, route_key
from engines.spark.stream.columns import PACKED
from engines.spark.stream.job import SESSION, bucket_queries, bucket_turns
from engines.spark.stream.source import LiveSource, Packer, bytes_table, lateness_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from engines.spark.stream.bucket_queries import BucketQueries

BUCKETS = 32  # of a stream's state; a checkpoint keeps to them, so no machine decides it
METRICS = "sheaf"  # the name under which a query's progress has what was late or bad
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_THRESHOLD = "spark.broadcast.UDFCompressionThreshold"


def live_rows(
    program: Program,
    events: FrameEvents,
    options: RunOptions = DEFAULT_OPTIONS,
    buckets: int = BUCKETS,
) -> tuple[DataFrame, FrameRows]:
    """The rows of a program, each once it is certain, as `FrameRows` has them."""
    from pyspark.sql import functions as sf

    workload, session = program.workload, events.frame.sparkSession
    session.conf.set(_PROVIDER, SESSION[_PROVIDER])  # the only one that takes such state
    columns = needed_columns(workload, events.schema.names)
    schema = pa.schema([events.schema.field(name) for name in columns])
    none = from_table(schema.empty_table(), workload.stream)
    schema = none.table.schema
    landing = FrameRows.of(workload, schema)
    manifest = manifest_of(program, schema, none.tick, buckets, 1)
    queries = bucket_queries(program, manifest, schema, none.tick, options)
    _check_size(events.frame, queries)
    warm((), pa.table({}))
    source = LiveSource(PLACE, workload.stream, schema, none.tick, events.on_error)
    keys = {route: route_key(route) for route in queries.routes}
    packer = FramePacker(source, schema, keys, buckets, workload)
    selected = events.frame.select(*(events.frame[quoted(name)] for name in columns))
    packed = selected.toDF(*(f"c{i}" for i in range(len(columns)))).mapInArrow(packer, PACKED)
    turns = bucket_turns([(packed, lateness_of(workload.stream))], queries)

    def number(name: str) -> Column:
        told = sf.get_json_object("about", f"$.{name}").cast("bigint")
        return sf.coalesce(sf.sum(told), sf.lit(0)).alias(name)

    observed = turns.observe(METRICS, number("late"), number("bad"))
    return observed.mapInArrow(TurnRows(landing), landing.spark_schema), landing


def _check_size(frame: DataFrame, queries: BucketQueries) -> None:
    """Refuse queries of which Spark would make a broadcast, which no stateful operator takes."""
    from pyspark import cloudpickle

    size = len(cloudpickle.dumps(queries))
    most = int(frame.sparkSession.conf.get(_THRESHOLD, str(2**20)) or 2**20)
    if size > most:
        raise StateError(
            f"the queries take {size:,} bytes on their way to Spark's workers, and this session "
            f"sends {most:,} to a stateful operator; start it with {_THRESHOLD} set to {2**30}"
        )


@dataclass(frozen=True)
class FramePacker(Packer):
    """Packs events that arrive as columns c0, c1, …; runs on executors."""

    def _tables(self, batches: Iterable[pa.RecordBatch], faults: Faults) -> Iterator[pa.Table]:
        stream = self.source.stream
        for batch in batches:
            table = unpack(pa.Table.from_batches([batch]), self.columns)
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
