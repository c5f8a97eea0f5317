"""What a run is asked for, what it tells while it goes on, and what it reports at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from engines.account import Account, Fallbacks
from engines.input.event_paths import EventPath, shown_path
from engines.limits import Ledger
from engines.program import DEFAULT_OPTIONS, RunOptions
from optimizer.plan.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.input.event_table import Events, Faults
    from engines.matching.trees.adaptive import Decision
    from engines.results.tables import Results
    from engines.spark.batch.progress import BatchProgress as SparkProgress
    from engines.spark.stream.checkpoint import Takeover
    from engines.spark.stream.job import StreamOptions, StreamProgress
    from optimizer.ir.query import BoundWorkload
    from workloads.imported_rules import RefusedRule

Engine = OneOf["local", "spark", "oracle"]
MatchFormat = OneOf["text", "struct"]
Access = str  # auto, scan, index, or index:A,b with the components that are looked up
ALL_ROWS = 2**62


@dataclass(frozen=True)
class EventSource:
    """Where events are: files, a table of Spark's, or a live stream of files or messages.

    `disorder` is how late they can be, in nanoseconds. `like` names files that have the columns of
    a stream of which nothing has come yet. Where a workload has several sources, there is a path
    for each, by name. `options` are of Spark's reader, and `name` is what people call it. Messages
    have the schemas of a `registry`, at its address, or are JSON.
    """

    path: EventPath
    on_error: OneOf["stop", "skip"] = "stop"
    disorder: int | None = None
    like: EventPath | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str | None = None
    registry: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The path, for people."""
        return self.name or shown_path(self.path)


@dataclass(frozen=True)
class RowSink:
    """Where rows go: to a path, or without one the first `shown` of each query to the report.

    All of them are kept in memory where `shown` is None. With `both` a file is written for each
    kind of rows, also where no query gives such. Matches are JSON `text`, or Arrow `struct`s where
    rows go to Parquet or Arrow or are all in memory. With `tables` each query has a file of its own
    beside that of all rows.
    """

    path: str | None = None
    shown: int | None = 20
    both: bool = False
    match: MatchFormat = "text"
    tables: bool = False


@dataclass(frozen=True)
class SparkMaster:
    """Where Spark runs, and settings that win over ours."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True)
class Execution:
    """What executes a plan, and how; `stream` has the options of a live stream.

    `access` is how stored events are read: all of them (`scan`), only those that can matter
    (`index`), or whichever is cheaper.
    """

    engine: Engine = "local"
    options: RunOptions = DEFAULT_OPTIONS
    slice_rows: int | None = None
    spark: SparkMaster = field(default_factory=SparkMaster)
    stream: StreamOptions | None = None
    finish: bool = False  # a live stream that ends gives the rows that are left
    access: Access = "auto"


@dataclass(frozen=True)
class SliceProgress:
    """One slice of a run: what it took, and how far the run has come with it.

    `events` and `rows` are of the run so far, `held` the events that the slice took along from
    its neighbours, and `until` the time up to which all rows are given; None at the end.
    """

    events: int
    rows: int
    seconds: float
    held: int
    until: int | str | None


@dataclass(frozen=True)
class Replacement:
    """A plan that a live stream is to go on with; `answer` is told what came of it."""

    plan: Plan
    answer: Callable[[Takeover | Exception], None] = lambda outcome: None


Command = OneOf["stop"] | Replacement | None


class Monitor:
    """Callbacks of a run; each does nothing unless it is overridden."""

    reads_events = False  # does `on_events` need all columns that any query reads?

    def on_stage(self, name: str) -> None:
        """A stage begins."""

    def on_progress(self, part: float) -> None:
        """So much of the events has been read, from 0 to 1."""

    def on_slice(self, slice: SliceProgress, rows: Mapping[str, int], account: Account) -> None:
        """The local engine is done with a slice; `rows` are those so far, by query."""

    def on_events(self, events: Events) -> None:
        """These events are about to be run over."""

    def on_tasks(self, progress: SparkProgress) -> None:
        """Tasks of a Spark job have ended."""

    def on_refused(self, rules: Sequence[RefusedRule]) -> None:
        """A live stream runs without these rules."""

    def on_page(self, address: str) -> None:
        """Spark has a page of its own."""

    def on_batch(self, progress: StreamProgress) -> None:
        """A batch of a live stream is done."""

    def on_start(self, takeover: Takeover) -> None:
        """A live stream has begun."""

    def command(self) -> Command:
        """What a live stream is to do now."""
        return None


QUIET = Monitor()


@dataclass
class RunReport:
    """What a run did.

    `seconds` are by stage, `cpu_seconds` those of CPU from the first event read to the last row
    written. `numbers` are of aggregate rows and of match rows. `about` has what only one of the
    engines knows.
    """

    engine: Engine
    device: str
    events: int = 0
    skipped: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    numbers: tuple[int, int] = (0, 0)
    files: list[str] = field(default_factory=list)
    first: Results | None = None
    account: Account = field(default_factory=Account)
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    decisions: list[Decision] = field(default_factory=list)
    changes: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    unbounded: tuple[str, ...] = ()
    faults: Faults | None = None
    about: dict[str, Any] = field(default_factory=dict)
    span_seconds: float | None = None  # from the first event to the last
    read: dict[str, int] = field(default_factory=dict)  # bytes, and row groups of how many
    access: dict[str, Any] = field(default_factory=dict)  # how events were read, and why so
    bound: tuple[BoundWorkload, pa.Schema] | None = None  # the queries and columns, where it knows
    is_cut: bool = True  # into slices
    notes: list[str] = field(default_factory=list)  # what is odd about the events, in sentences


class Stages:
    """Seconds by stage, and CPU seconds of those that run the plan."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self.seconds: dict[str, float] = {}
        self.cpu_seconds = 0.0

    @contextmanager
    def __call__(self, name: str, is_new: bool = True) -> Iterator[None]:
        """A context that is of a stage, which is told where it `is_new`."""
        if is_new:
            self._monitor.on_stage(name)
        start, worked = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            passed = time.perf_counter() - start
            self.seconds[name] = round(self.seconds.get(name, 0.0) + passed, 4)
            if name != "start":
                self.cpu_seconds += time.process_time() - worked


def percentile(values: Iterable[float], percent: int) -> float | None:
    """The least of some values that so many percent of them do not exceed; None where none are."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None
