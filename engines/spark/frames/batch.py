"""The rows of a workload over a data frame of stored events, as a data frame.

It is as lazy as Spark is: nothing runs before somebody asks for rows. Nothing is counted by
accumulators, so that it runs over Spark Connect too.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from engines.input.event_rows import check_columns
from engines.input.event_table import LARGEST_TICK, OnError
from engines.input.query_columns import needed_columns
from engines.program import DEFAULT_OPTIONS, Program, RunOptions
from engines.spark.batch.job import (
    SAMPLE_ROWS,
    SpreadSettings,
    places_of,
    routed,
    with_moments,
)
from engines.spark.batch.packing import ticks
from engines.spark.batch.parts import Spread, plan_parts
from engines.spark.batch.source import quoted, with_times
from engines.spark.batch.tasks import ShuffledParts, TaskEvaluation
from engines.spark.frames.rows import FrameRows
from engines.spark.runtime.kernel_warmup import warm
from optimizer.ir.query import is_funnel
from workloads.errors import UnsupportedError
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE = "the data frame"
FIRST_ROWS = 100_000  # that a plan is made on
TASKS = 8  # that run at once, as far as is known, where a session does not say


@dataclass(frozen=True)
class KnownEvents:
    """Events of a data frame that were seen when a plan was made.

    They are its `first` ones, and a `sample` from all over it. `number` is of all, and `span` the
    ticks from the first to the last.
    """

    first: pa.Table
    sample: pa.Table
    number: int
    span: int


@dataclass(frozen=True)
class FrameEvents:
    """Events of a data frame, with times in place of what they are written as."""

    frame: DataFrame
    schema: pa.Schema
    stream: Stream
    on_error: OnError = "stop"

    @staticmethod
    def of(frame: DataFrame, stream: Stream, on_error: OnError = "stop") -> FrameEvents:
        """Look at the columns; raises `EventsError` where they are not those of the stream."""
        from pyspark.errors import PySparkTypeError
        from pyspark.sql.pandas.types import to_arrow_schema

        try:
            timed = with_times(frame, stream)
            schema = to_arrow_schema(timed.schema, timezone="UTC")
        except PySparkTypeError as error:
            raise UnsupportedError(f"{PLACE}: {str(error).splitlines()[0]}") from error
        check_columns(schema, stream, PLACE)
        return FrameEvents(timed, schema, stream, on_error)

    def packed(self, columns: Sequence[str]) -> DataFrame:
        """The columns, called c0, c1, …, of rows that are events.

        One that is none stops the job when it is met, unless such rows are to be left out.
        """
        from pyspark.sql import functions as sf

        frame = self.frame.select(*(self.frame[quoted(name)] for name in columns))
        frame = frame.toDF(*(f"c{i}" for i in range(len(columns))))
        bad = self._bad(frame, columns)
        if self.on_error == "skip":
            for test, _ in bad.values():
                frame = frame.where(~test)
            return frame
        for name, (test, said) in bad.items():
            text = sf.lit(f"{PLACE}, column '{name}': {said}")
            checked = sf.when(test, sf.raise_error(text)).otherwise(frame[self._at(columns, name)])
            frame = frame.withColumn(self._at(columns, name), checked)
        return frame

    def _at(self, columns: Sequence[str], name: str) -> str:
        return f"c{list(columns).index(name)}"

    def _bad(self, frame: DataFrame, columns: Sequence[str]) -> dict[str, tuple[Column, str]]:
        from pyspark.sql import functions as sf

        place = self._at(columns, self.stream.time)
        time = frame[place]
        kind = frame.schema[place].dataType.simpleString()
        test = time.isNull()
        if kind == "bigint":  # no other type goes so far
            tick = ticks(time, self.schema.field(self.stream.time).type, kind)
            test = test | (sf.abs(tick) >= LARGEST_TICK)
        remedy = 'fill it in, drop such rows, or say on_error="skip"'
        bad = {self.stream.time: (test, f"a time is null or out of range; {remedy}")}
        if self.stream.sequence is not None:
            number = frame[self._at(columns, self.stream.sequence)]
            bad[self.stream.sequence] = (number.isNull(), f"a sequence number is null; {remedy}")
        return bad

    def known(self, columns: Sequence[str]) -> KnownEvents:
        """What a plan is made on, by three small jobs; rows that are no events are left out."""
        from pyspark.sql import functions as sf

        events = replace(self, on_error="skip").packed(columns)
        time = self._at(columns, self.stream.time)
        wanted = pa.schema([self.schema.field(name) for name in columns])
        kind = wanted.field(self.stream.time).type
        tick = ticks(sf.col(time), kind, events.schema[time].dataType.simpleString())
        one = events.agg(sf.count(sf.lit(1)), sf.min(tick), sf.max(tick)).first()
        number, least, last = (0, None, None) if one is None else one
        part = min(1.0, 1.1 * SAMPLE_ROWS / max(number, 1))

        def taken(frame: DataFrame, rows: int) -> pa.Table:
            return frame.limit(rows).toArrow().rename_columns(wanted.names).cast(wanted)

        first = taken(events, FIRST_ROWS)
        spread = first
        if number > FIRST_ROWS:
            spread = taken(
                events if part == 1.0 else events.sample(fraction=part, seed=1), SAMPLE_ROWS
            )
        return KnownEvents(first, spread, number, 0 if least is None else last - least)


def batch_rows(
    program: Program,
    events: FrameEvents,
    known: KnownEvents | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
    settings: SpreadSettings | None = None,
) -> tuple[DataFrame, FrameRows]:
    """The rows of a program as `FrameRows` has them.

    Queries without a key are spread over stretches of time, which a sample tells: where it is not
    known, it is taken now.
    """
    settings = settings or SpreadSettings()
    for query in program.workload.queries:
        if is_funnel(query):
            raise UnsupportedError(
                f"query {query.name} is a funnel, and what its steps come to is known when all "
                "tasks are done, which a lazy data frame does not wait for; run the plan over "
                "files with engine spark or local"
            )
    workload, schema = program.workload, events.schema
    columns = needed_columns(workload, schema.names)
    none = pa.schema([schema.field(name) for name in columns]).empty_table()
    warm((program,), none, replace(options, device="cpu"))
    landing = FrameRows.of(workload, schema)
    if known is None and not all(query.key for query in workload.queries):
        known = events.known(columns)
    cores = tasks_at_once(events.frame)
    buckets = settings.buckets or 4 * cores
    if known is None:
        sample, rows = none, 0
    else:
        names = [name for name in schema.names if name in known.sample.column_names]
        sample, rows = known.sample.select(names), known.number
        buckets = settings.buckets or max(1, min(buckets, rows // settings.least_rows))
    plan = plan_parts(program, schema, sample, rows, Spread(cores, buckets, settings.least_rows))
    packed, places = events.packed(columns), places_of(workload, columns)
    kind = schema.field(workload.stream.time).type
    plan = with_moments(packed, plan, workload.stream, places, kind)
    frame = routed(packed, plan, workload.stream, places, kind)
    evaluation = TaskEvaluation(
        uuid.uuid4().hex, plan.programs, none, landing, None, options, settings.slicing
    )
    task = ShuffledParts(evaluation, plan.parts)
    return frame.mapInArrow(task, landing.spark_schema), landing


def tasks_at_once(frame: DataFrame) -> int:
    """How many tasks the session of a frame runs at once."""
    from pyspark.errors import PySparkException

    session = frame.sparkSession
    try:
        return session.sparkContext.defaultParallelism
    except PySparkException:  # over Spark Connect
        said = session.conf.get("spark.default.parallelism", None)
        return int(said) if said else TASKS
