"""Running a workload over stored events with any engine, and the time that each stage takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from engines.how import USUAL, How

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.faults import Faults
    from engines.local.slices import Slicing
    from engines.output import Output
    from engines.results import Results
    from optimizer.ir.query import BoundWorkload
    from workloads.model import Workload

Engine = OneOf["local", "spark", "oracle"]
Device = OneOf["auto", "cpu", "opencl"]
OnError = OneOf["stop", "skip"]


@dataclass
class Stages:
    """Seconds by stage; `told` hears of each as it begins."""

    told: Callable[[str], None] = lambda name: None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.told(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            passed = time.perf_counter() - start
            self.seconds[name] = round(self.seconds.get(name, 0.0) + passed, 4)


def choose_how(device: Device, sharing: bool = True) -> How:
    """How to run; a device that is asked for by name must be there."""
    if device == "cpu":  # without looking for others, which takes a moment
        return How(sharing=sharing)
    from engines.devices import choose

    return How(sharing=sharing, device=choose(device), insist=device != "auto")


def run_here(
    workload: Workload,
    path: str,
    engine: OneOf["local", "oracle"],
    stages: Stages,
    how: How = USUAL,
) -> tuple[Results, int]:
    """The results, sorted, and the number of events, computed in this process."""
    from engines.events import column_kinds, from_table, read_table
    from engines.local.run import run_local
    from engines.oracle import run_oracle
    from engines.results import sorted_results
    from optimizer.bind import bind

    with stages("read"):
        table = read_table(path)
        bound = bind(workload, column_kinds(table.schema))
        events = from_table(table, bound.stream, path)
    with stages("run"):
        if engine == "oracle":
            return sorted_results(run_oracle(bound, events)), len(events)
        return sorted_results(run_local(bound, events, how=how)), len(events)


@dataclass(frozen=True)
class Sliced:
    """How much was read, and the queries that needed all of it in memory though it was cut."""

    events: int
    unbounded: tuple[str, ...]


def run_in_slices(
    workload: Workload,
    path: str,
    stages: Stages,
    output: Output,
    faults: Faults,
    slicing: Slicing,
    disorder: int | None = None,
    how: How = USUAL,
    progress: Callable[[float], None] = lambda part: None,
) -> Sliced:
    """Run the local engine over slices of the events; rows go to `output` as they come.

    `disorder` is how late events can be, in nanoseconds; without it, the stream's lateness holds
    for inputs of more events than a slice has.
    """
    from engines.batches import Source
    from engines.columns.needed import needed_columns
    from engines.events import column_kinds
    from engines.local.order import Lateness
    from engines.local.slices import cut
    from engines.local.stream import SlicedRun
    from optimizer.bind import bind

    with stages("read"):
        source = Source(path, workload.stream, faults, progress=progress)
        bound = bind(workload, column_kinds(source.schema))
        stream, tick = bound.stream, source.tick
        columns = needed_columns(bound, source.schema.names)
        late = stream.lateness if disorder is None else disorder
        lateness = Lateness(
            None if late is None else -(-late // tick),
            disorder is not None,
            tick,
            stream.time,
            faults,
        )
    run = SlicedRun(bound, tick, how=how)
    schema = source.schema.empty_table().select(columns).schema
    slices = cut(source.batches(columns), schema, stream, lateness, run.reach, slicing, run.carried)
    events, pieces = 0, 0
    while True:
        with stages("read"):
            piece = next(slices, None)
        if piece is None:
            break
        events, pieces = events + len(piece.own), pieces + 1
        with stages("run"):
            results = run.run(piece)
        with stages("write"):
            output.add(results)
    return Sliced(events, run.unbounded if pieces > 1 else ())


def run_on_spark(
    workload: Workload,
    path: str,
    stages: Stages,
    session: Callable[[], SparkSession],
    how: How = USUAL,
) -> tuple[Results, int]:
    """The same as one job of the session, which is asked for once the input is known to be good."""
    from engines.events import column_kinds
    from engines.spark.batch import run_batch
    from engines.spark.source import open_source
    from optimizer.bind import bind

    with stages("read"):
        source = open_source(path, workload.stream)
        bound = bind(workload, column_kinds(source.schema))
    with stages("start"):
        spark = session()
    with stages("run"):
        return run_batch(spark, bound, source, how=how)


def kinds_of(bound: BoundWorkload) -> tuple[bool, bool]:
    """Whether a workload has queries that aggregate, and queries that return matches."""
    from optimizer.ir.query import Aggregation

    aggregating = [isinstance(query.output, Aggregation) for query in bound.queries]
    return any(aggregating), not all(aggregating)
