"""Running a workload over stored events with any engine, and the time that each stage takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from engines.how import USUAL, How

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.events import Events
    from engines.faults import Faults
    from engines.local.slices import Slicing
    from engines.output import Output
    from engines.partial import Ledger
    from engines.results import Results
    from engines.spark.batch import Done
    from engines.spark.progress import Told
    from engines.spark.targets import Target
    from engines.trees.adaptive import Adaptive
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
        bound = bind(workload, column_kinds(table.schema) or None)
        events = from_table(table, bound.stream, path)
    with stages("run"):
        if engine == "oracle":
            return sorted_results(run_oracle(bound, events)), len(events)
        return sorted_results(run_local(bound, events, how=how)), len(events)


@dataclass(frozen=True)
class Sliced:
    """How much was read, and the queries that needed all of it in memory though it was cut.

    `adaptive` knows by which trees matches were found, and when these changed.
    """

    events: int
    rows: Mapping[str, int]  # by query
    unbounded: tuple[str, ...]
    ledger: Ledger  # of queries that reached a limit
    adaptive: Adaptive


@dataclass(frozen=True)
class Measured:
    """One slice of a run: what it took, and how far the run has come with it.

    `events` and `rows` are of the run so far, `held` the events that the slice took along from
    its neighbours, and `until` the time up to which all rows are given; None at the end.
    """

    events: int
    rows: int
    seconds: float
    held: int
    until: int | str | None


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
    measured: Callable[[Measured, Mapping[str, int]], None] = lambda slice, rows: None,
    seen: Callable[[Events], None] = lambda events: None,
) -> Sliced:
    """Run the local engine over slices of the events; rows go to `output` as they come.

    `disorder` is how late events can be, in nanoseconds; without it, the stream's lateness holds
    for inputs of more events than a slice has. `measured` hears of each slice, and of the rows so
    far by query; `seen` gets its events.
    """
    from engines.batches import Source
    from engines.columns.needed import named_columns, needed_columns
    from engines.local.order import Lateness
    from engines.local.slices import cut
    from engines.local.stream import SlicedRun
    from engines.results import row_counts
    from kernels import joins, texts
    from optimizer.bind import bind

    with stages("start"):
        # The first compiled kernel that is loaded brings the compiler's tables along.
        texts.warm()
        joins.warm()
    with stages("read"):
        source = Source(path, workload.stream, faults, progress=progress)
        bound = bind(workload, source.kinds)
        source.assume(named_columns(bound))
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
    rows: Counter[str] = Counter()
    while True:
        began = time.perf_counter()
        with stages("read"):
            piece = next(slices, None)
        if piece is None:
            break
        own = len(piece.own)
        events, pieces = events + own, pieces + 1
        seen(piece.own)
        with stages("run"):
            results = run.run(piece)
        rows += row_counts(results)
        with stages("write"):
            output.add(results)
        passed = round(time.perf_counter() - began, 4)
        held = len(piece.events) - own
        until = _shown(piece.events, piece.stop)
        measured(Measured(events, rows.total(), passed, held, until), rows)
    return Sliced(events, rows, run.unbounded if pieces > 1 else (), run.ledger, run.adaptive)


def _shown(events: Events, time: int | None) -> int | str | None:
    """A time as results have it: a number, or a timestamp in ISO 8601."""
    import numpy as np

    if time is None:
        return None
    found = events.times(np.array([time]))[0].as_py()
    return found if isinstance(found, int) else str(found.isoformat())


def run_on_spark(
    workload: Workload,
    path: str,
    stages: Stages,
    session: Callable[[], SparkSession],
    target: Target,
    faults: Faults,
    how: How = USUAL,
    told: Told | None = None,
) -> Done:
    """The same as one job of the session, which is asked for once the input is known to be good.

    Only what Spark has to find, a table or another machine's files, is looked at after that.
    """
    from engines.columns.needed import named_columns
    from engines.events import column_kinds
    from engines.spark.batch import run_batch
    from engines.spark.source import Source, is_table, open_source, open_table
    from optimizer.bind import bind

    source: Source
    if is_table(path):
        with stages("start"):
            spark = session()
        with stages("read"):
            source = open_table(spark, path, workload.stream, faults)
            bound = bind(workload, column_kinds(source.schema))
    else:
        with stages("read"):
            source = open_source(path, workload.stream, faults)
            bound = bind(workload, source.files.kinds)
            source.files.assume(named_columns(bound))
        with stages("start"):
            spark = session()
    with stages("run"):
        return run_batch(spark, bound, source, target, how, told=told)


def kinds_of(bound: BoundWorkload) -> tuple[bool, bool]:
    """Whether a workload has queries that aggregate, and queries that return matches."""
    from optimizer.ir.query import Aggregation

    aggregating = [isinstance(query.output, Aggregation) for query in bound.queries]
    return any(aggregating), not all(aggregating)
