"""Plans over data frames: made on what is in them, and run over them."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from engines.input.batches import check_compared, needed_columns
from engines.input.event_table import OnError, column_kinds, from_table
from engines.limits import EventsError
from engines.program import DEFAULT_OPTIONS
from engines.run import fitted
from engines.spark.batch.job import SpreadSettings
from engines.spark.frames.batch import PLACE, FrameEvents, KnownEvents, batch_rows
from engines.spark.frames.live import BUCKETS, live_rows
from engines.spark.frames.results import FrameResults
from engines.spark.runtime.code_archive import pack_code
from engines.statistics.measure import SAMPLED_PAIRS, measure
from optimizer.bind.binder import bind
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import Plan
from optimizer.statistics.statistics import Statistics
from workloads.loading import load_workload
from workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GIVEN: WeakSet[SparkSession] = WeakSet()  # that have our code


def bind_to_frame(workload: Workload, frame: DataFrame) -> tuple[BoundWorkload, KnownEvents | None]:
    """The workload over the frame's columns, and what is in it; None for a live stream."""
    events = FrameEvents.of(frame, workload.stream)
    bound = bind(workload, column_kinds(events.schema))
    check_compared(events.schema, bound, PLACE)
    if frame.isStreaming:
        return bound, None
    return bound, events.known(needed_columns(bound, events.schema.names))


def statistics_of(bound: BoundWorkload, known: KnownEvents) -> Statistics | None:
    """What the queries need to know of the events; None where nothing can be told."""
    events = from_table(known.first, bound.stream, PLACE)
    try:
        found = measure(bound, events, max_pairs=SAMPLED_PAIRS)
    except EventsError:
        return None
    span = known.span * events.tick / 1e9
    if not found.events or not found.span or not span:
        return found
    # The first ones of a frame may be from all over its time.
    factor = (known.number / span) / (found.events / found.span)
    rates = {name: rate * factor for name, rate in found.rates.items()}
    return replace(found, rates=rates, events=known.number, span=span)


def run_over_frame(
    plan: Plan,
    frame: DataFrame,
    known: KnownEvents | None,
    on_error: OnError,
    buckets: int | None,
) -> FrameResults:
    """The rows of a plan over a data frame, none of which is computed yet."""
    workload = load_workload(plan.document)
    events = FrameEvents.of(frame, workload.stream, on_error)
    program = fitted(plan, column_kinds(events.schema), workload)
    check_compared(events.schema, program.workload, PLACE)
    give_code(frame.sparkSession)
    if frame.isStreaming:
        found, landing = live_rows(program, events, DEFAULT_OPTIONS, buckets or BUCKETS)
    else:
        settings = SpreadSettings(buckets=buckets)
        found, landing = batch_rows(program, events, known, DEFAULT_OPTIONS, settings)
    return FrameResults(program.workload.queries, found, landing)


def give_code(session: SparkSession) -> None:
    """Have the workers of a session find our packages, if they are not those of this process."""
    from pyspark.sql import is_remote

    if session in _GIVEN:
        return
    _GIVEN.add(session)
    remote = is_remote()
    if not remote and re.fullmatch(r"local(\[.*\])?", session.sparkContext.master or ""):
        return
    folder = tempfile.mkdtemp(prefix="sheaf-code-")
    archive = str(pack_code(Path(folder)))
    if remote:
        session.addArtifacts(archive, pyfile=True)
    else:
        session.sparkContext.addPyFile(archive)
