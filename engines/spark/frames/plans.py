"""Plans over data frames: made on what is in them, and run over them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

import pyarrow as pa

from engines.input.event_table import OnError, column_kinds, from_table
from engines.input.query_columns import bind_to, needed_columns
from engines.limits import EventsError
from engines.program import DEFAULT_OPTIONS, Program
from engines.run import fitted
from engines.spark.batch.job import SpreadSettings
from engines.spark.frames.batch import PLACE, FrameEvents, KnownEvents, batch_rows
from engines.spark.frames.live import BUCKETS, LiveEvents, LiveFrames, live_rows
from engines.spark.frames.results import FrameResults
from engines.spark.runtime.code_archive import pack_code
from engines.spark.runtime.worker_python import is_on_this_machine, own_python
from engines.statistics.measure import SAMPLED_PAIRS, measure
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import Plan
from optimizer.statistics.statistics import Statistics, given, with_stated
from workloads.loading import load_workload
from workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GIVEN: WeakSet[SparkSession] = WeakSet()  # that have our code


def bind_to_frame(
    workload: Workload, frame: LiveFrames
) -> tuple[BoundWorkload, KnownEvents | None]:
    """The workload over the columns of a frame, and what is in it; None for live streams."""
    with _workers_of(frame):  # which read times of a format
        if isinstance(frame, Mapping) or frame.isStreaming:
            live = LiveEvents.of(frame, workload.stream)
            return bind_to(workload, live.schema, PLACE, column_kinds(live.schema)), None
        events = FrameEvents.of(frame, workload.stream)
        bound = bind_to(workload, events.schema, PLACE, column_kinds(events.schema))
        return bound, events.known(needed_columns(bound, events.schema.names))


def statistics_of(bound: BoundWorkload, known: KnownEvents) -> Statistics | None:
    """What the queries need to know of the events; None where nothing can be told."""
    events = from_table(known.first, bound.stream, PLACE)
    try:
        found = measure(bound, events, max_pairs=SAMPLED_PAIRS)
    except EventsError:
        return None
    span = known.span * events.tick / 1e9
    stated = given(bound.statistics, bound.queries)
    if not found.events or not found.span or not span:
        return with_stated(found, stated)
    # The first ones of a frame may be from all over its time.
    factor = (known.number / span) / (found.events / found.span)
    rates = {name: rate * factor for name, rate in found.rates.items()}
    found = replace(found, rates=rates, events=known.number, span=span)
    return with_stated(found, stated)


def run_over_frame(
    plan: Plan,
    frame: LiveFrames,
    known: KnownEvents | None,
    on_error: OnError,
    buckets: int | None,
) -> FrameResults:
    """The rows of a plan over a data frame, none of which is computed yet."""
    workload = load_workload(plan.document)
    found: DataFrame
    with _workers_of(frame):
        if isinstance(frame, Mapping) or frame.isStreaming:
            live = LiveEvents.of(frame, workload.stream, on_error)
            program = _program(plan, live.schema, workload)
            found, landing = live_rows(program, live, DEFAULT_OPTIONS, buckets or BUCKETS)
        else:
            events = FrameEvents.of(frame, workload.stream, on_error)
            program = _program(plan, events.schema, workload)
            settings = SpreadSettings(buckets=buckets)
            found, landing = batch_rows(program, events, known, DEFAULT_OPTIONS, settings)
    return FrameResults(program.workload.queries, found, landing)


def _program(plan: Plan, schema: pa.Schema, workload: Workload) -> Program:
    return fitted(plan, schema, column_kinds(schema), workload, PLACE)


@contextmanager
def _workers_of(frame: LiveFrames) -> Iterator[None]:
    """A block whose functions find our packages where the tasks of a frame run."""
    one = next(iter(frame.values())) if isinstance(frame, Mapping) else frame
    give_code(one.sparkSession)
    with own_python(one.sparkSession):
        yield


def give_code(session: SparkSession) -> None:
    """Have the workers of a session find our packages, if they are not those of this process."""
    from pyspark.sql import is_remote

    if session in _GIVEN:
        return
    _GIVEN.add(session)
    if is_on_this_machine(session):
        return
    folder = tempfile.mkdtemp(prefix="sheaf-code-")
    archive = str(pack_code(Path(folder)))
    if is_remote():
        session.addArtifacts(archive, pyfile=True)
    else:
        session.sparkContext.addPyFile(archive)
