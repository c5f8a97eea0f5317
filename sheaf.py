"""Sheaf from Python: many event-pattern queries over one stream, planned and run as one.

    import sheaf

    workload = sheaf.load("cards.yaml")
    plan = sheaf.plan(workload, events="events.csv")
    print(plan)                                  # what is shared, and why
    results = sheaf.run(plan, "events.csv")
    results.aggregates, results.matches          # pyarrow tables of all rows
    results["tried_then_spent"]                  # those of one query, a column for each value
    results.report["operators"]                  # rows and CPU of each operator, beside the plan's

Events are files, tables of pyarrow, pandas, Polars or DuckDB, or a data frame of PySpark, stored or
live. Of that, results are data frames of its session, one for each query:

    plan = workload.plan(frame)
    found = plan.run(frame)
    found["tried_then_spent"].where("sum_p_amount > 1000").show()

`Client` does the same with a service. These names are what Sheaf keeps stable; nothing else is.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, overload
from typing import Literal as OneOf

from workloads.errors import NoQueryError
from workloads.errors import SheafError as SheafError
from workloads.workload import Workload as _Workload

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from api.client import Client
    from engines.execution import RunReport
    from engines.input.event_paths import EventPath
    from engines.results.structs import MatchStructs
    from engines.spark.frames.batch import KnownEvents
    from engines.spark.frames.results import FrameResults
    from optimizer.ir.query import BoundWorkload
    from optimizer.plan.plan import Plan as PhysicalPlan

__all__ = [
    "Client",
    "Plan",
    "Results",
    "SheafError",
    "Workload",
    "load",
    "plan",
    "run",
    "transform",
]

FilePath = str | PathLike[str]


def __getattr__(name: str) -> Any:
    """`sheaf.Client`, which needs packages that nothing else here does."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from api.client import Client

    return Client


# A path, or a table of pyarrow, pandas, Polars or DuckDB; of several sources a map of these.
Events: TypeAlias = Any


@dataclass(frozen=True)
class Workload(_Workload):
    """A named set of queries over one stream, which `load` gives."""

    def plan(self, events: Events | DataFrame | None = None, **options: Any) -> Plan:
        """`sheaf.plan` of it."""
        return plan(self, events, **options)

    def _repr_html_(self) -> str:
        from api.notebooks.tables import workload_html

        return workload_html(self)


def load(source: FilePath | Mapping[str, Any] | _Workload) -> Workload:
    """A workload: from a file, by the name of a bundled one, or as a mapping or text in YAML.

    Text is what has more than one line. Raises `WorkloadError`, a `SheafError`, with every mistake
    and its place.
    """
    from optimizer.bind.binder import bind
    from workloads.loading import load_workload

    if isinstance(source, _Workload):
        workload = source
    elif isinstance(source, Mapping):
        workload = load_workload(source)
        bind(workload)
    elif isinstance(source, str) and "\n" in source:
        from api.cli.workload_files import workload_of_text

        workload = workload_of_text(source)
    else:
        from api.cli.workload_files import open_workload

        workload = open_workload(fspath(source))[0]
    return Workload(**{part.name: getattr(workload, part.name) for part in fields(workload)})


@dataclass(frozen=True)
class Plan:
    """How a workload will run: it prints as text, and draws itself in a notebook."""

    physical: PhysicalPlan
    known: KnownEvents | None = field(default=None, repr=False, compare=False)

    @property
    def id(self) -> str:
        """The same for the same plan, in every process."""
        return self.physical.id

    @cached_property
    def document(self) -> dict[str, Any]:
        """The plan as plain values, which `Plan.read` and `sheaf run --plan` take."""
        from optimizer.plan.plan import to_json

        return to_json(self.physical)

    def text(self, verbose: bool = False) -> str:
        """The plan as `sheaf plan` shows it."""
        from optimizer.explain.text import render_text

        return render_text(self.physical, verbose)

    def svg(self) -> str:
        """The plan's picture."""
        from optimizer.explain.svg import render_svg

        return render_svg(self.physical)

    def save(self, path: FilePath) -> None:
        """Write the plan's document to a file."""
        text = json.dumps(self.document, indent=2, ensure_ascii=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def read(source: FilePath | Mapping[str, Any]) -> Plan:
        """The plan of a document, or of a file that has one; it may have been edited."""
        from api.cli.commands.plan import read_plan
        from optimizer.plan.load_plan import load_plan

        return Plan(load_plan(source) if isinstance(source, Mapping) else read_plan(Path(source)))

    @overload
    def run(
        self,
        events: DataFrame,
        *,
        on_error: OneOf["stop", "skip"] = ...,
        buckets: int | None = ...,
    ) -> FrameResults: ...

    @overload
    def run(self, events: Events, out: FilePath | None = None, **options: Any) -> Results: ...

    def run(self, events: Any, out: FilePath | None = None, **options: Any) -> Any:
        """The rows of the plan over events, with the options of `sheaf.run`.

        Over a data frame of Spark's, stored or live, or over a map of live ones, of which each is a
        source, they are data frames, and nothing runs before one is asked for rows. Rows without a
        time stop a job, or with `on_error="skip"` are left out. The keys of stored events are
        spread over `buckets`, as those of a live stream's state are, whose checkpoint keeps to
        their number.
        """
        if not _is_frame(events) and not _are_live(events):
            return run(self, events, out, **options)
        from engines.spark.frames.plans import run_over_frame

        others = sorted(options.keys() - {"on_error", "buckets"}) + ["out"] * (out is not None)
        if others:
            raise TypeError(
                f"'{others[0]}' is no option over a data frame of Spark's, which writes its rows "
                "itself: it takes on_error and buckets"
            )
        on_error, buckets = options.get("on_error", "stop"), options.get("buckets")
        return run_over_frame(self.physical, events, self.known, on_error, buckets)

    def __str__(self) -> str:
        return self.text()

    def _repr_svg_(self) -> str:
        return self.svg()


@dataclass(frozen=True)
class Results:
    """The rows of a run, sorted, and its report; rows that went to files are in `files`."""

    aggregates: pa.Table
    matches: pa.Table
    report: Mapping[str, Any]
    files: tuple[str, ...] = ()

    _shape: _Shape | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, query: str) -> pa.Table:
        """The rows of one query: its key, times, and a column for each value, typed."""
        from engines.results.wide import wide_table
        from optimizer.ir.query import Aggregation

        if self._shape is None:
            raise KeyError(f"the rows are in files: {', '.join(self.files)}")
        found = {one.name: one for one in self._shape.workload.queries}
        if query not in found:
            raise NoQueryError(query, found)
        is_aggregate = isinstance(found[query].output, Aggregation)
        rows = self.aggregates if is_aggregate else self.matches
        shape = self._shape
        return wide_table(found[query], rows, shape.structs, shape.schema)

    def to_pandas(self, name: str = "aggregates") -> pd.DataFrame:
        """The rows of a query, or all `aggregates` or `matches`, as a data frame of pandas."""
        frame: pd.DataFrame = self._table(name).to_pandas()
        return frame

    def to_polars(self, name: str = "aggregates") -> Any:
        """The same as a data frame of Polars, which must be installed."""
        return import_module("polars").from_arrow(self._table(name))

    def to_duckdb(self, name: str = "aggregates") -> duckdb.DuckDBPyRelation:
        """The same as a relation of DuckDB, which must be installed."""
        import duckdb

        return duckdb.from_arrow(self._table(name))

    def __repr__(self) -> str:
        """How many rows each query has, a line each."""
        rows: Mapping[str, int] = self.report["rows_by_query"]
        where = f"in {', '.join(self.files)}" if self.files else "by query"
        return "\n".join([f"rows, {where}", *(f"  {name}: {n:,}" for name, n in rows.items())])

    def _repr_html_(self) -> str:
        from api.notebooks.tables import results_html

        return results_html(self.report, self.files, self.__getitem__)

    def _table(self, name: str) -> pa.Table:
        if name in ("aggregates", "matches"):
            found: pa.Table = getattr(self, name)
            return found
        return self[name]


@dataclass(frozen=True)
class _Shape:
    """What results are of: bound queries, over events with these columns."""

    workload: BoundWorkload
    schema: pa.Schema
    structs: MatchStructs | None


def plan(
    workload: _Workload | FilePath | Mapping[str, Any],
    events: Events | DataFrame | None = None,
    *,
    sharing: bool = True,
    device: OneOf["cpu", "opencl"] = "cpu",
    solver: OneOf["greedy", "cpsat", "exhaustive"] = "greedy",
    model: OneOf["aseq", "measured"] = "measured",
    on_error: OneOf["stop", "skip"] = "stop",
    disorder: str | None = None,
    slice: int | None = None,
    partial_limit: int | None = None,
    on_limit: OneOf["stop", "drop-oldest"] = "stop",
    row_limit: int | None = None,
    threads: int | None = None,
    access: str = "auto",
) -> Plan:
    """The plan of a workload.

    Where the workload has no statistics of its own they are sampled from `events`: files in
    Parquet, CSV or JSON lines, a table in memory, or a data frame of Spark's that is no live
    stream. Without either they are assumed, and the plan says so. The options from `on_error` on
    are those of `run`: events are read by them, and limits change no plan.
    """
    from api.planning.plan_on_events import plan_on_events
    from api.run_settings import RunSettings

    settings = RunSettings(on_error, disorder, slice, partial_limit, on_limit, row_limit, threads)
    settings = replace(settings, access=access)
    settings.check("local")
    loaded = load(workload)
    if _is_frame(events) or _are_live(events):
        from api.planning.plan_on_events import plan_on_frame

        return Plan(*plan_on_frame(loaded, events, sharing, device, solver, model))
    with _stored(events) as path:
        return Plan(plan_on_events(loaded, path, sharing, device, solver, model, settings))


def run(
    planned: Plan | _Workload | FilePath | Mapping[str, Any],
    events: Events,
    out: FilePath | None = None,
    *,
    engine: OneOf["local", "spark"] = "local",
    master: str = "local[*]",
    on_error: OneOf["stop", "skip"] = "stop",
    disorder: str | None = None,
    slice: int | None = None,
    partial_limit: int | None = None,
    on_limit: OneOf["stop", "drop-oldest"] = "stop",
    row_limit: int | None = None,
    threads: int | None = None,
    match: OneOf["text", "struct"] = "text",
    access: str = "auto",
    tables: bool = False,
) -> Results:
    """The rows of a plan over events; a workload is planned on a sample of them first.

    Rows are in the results, all of them in memory, or with `out` in files (.parquet, .arrow, .csv
    or .jsonl by its ending); with `tables` each query has one of its own besides, with the columns
    that it names. Matches are JSON text, or with `match="struct"` structs of Arrow. Rows of
    `events` that are no events stop the run, or with `on_error="skip"` are left out. Events can be
    late by `disorder`, such as "10 s", and `slice` of them are in memory at a time.
    `partial_limit` bounds the partial matches of one key that an operator holds, and
    `row_limit` the rows that a query gives. `threads` run at once, by default one for each
    processor. With `access="scan"` all stored events are read, with "index" only row groups that
    can matter; with "index:A,b" indexes are asked for the events of these components.
    `report["notes"]` says what is odd about the events.
    """
    from api.notebooks.progress import notebook_bar
    from api.planning.plan_on_events import plan_on_events
    from api.run_settings import RunSettings
    from engines.execution import EventSource, Execution, RowSink, SparkMaster
    from engines.program import RunOptions
    from engines.report import report_document
    from engines.results.tables import empty_results
    from engines.run import run as run_plan
    from workloads.loading import load_workload

    settings = RunSettings(on_error, disorder, slice, partial_limit, on_limit, row_limit, threads)
    settings = replace(settings, match=match, access=access, tables=tables)
    settings.check(engine, sink=None if out is None else fspath(out))
    if _is_frame(events) or _are_live(events):
        raise TypeError("a data frame of Spark's has rows of its own kind: use plan.run(frame)")
    if events is None:
        raise TypeError("there are no events: give a file, or a table in memory")
    with _stored(events) as path:
        assert path is not None
        if isinstance(planned, Plan):
            made = planned
        else:
            made = Plan(plan_on_events(load(planned), path))
        path_out = None if out is None else fspath(out)
        sink = RowSink(path_out, shown=None, match=match, tables=tables)
        own = load_workload(made.physical.document).partial if engine == "local" else None
        options = RunOptions(partial=settings.partial(own), row_limit=row_limit, threads=threads)
        execution = Execution(engine, options, slice, SparkMaster(master), access=access)
        source = EventSource(path, on_error, settings.late())
        with notebook_bar(engine) as monitor:
            report = run_plan(made.physical, source, sink, execution, monitor)
        shape = None if out is not None else _shape(made.physical, path, report)
    found = report.first
    if found is None:
        import pyarrow as pa

        found = empty_results(pa.int64())
    document = report_document(made.physical, report)
    return Results(found.aggregates, found.matches, document, tuple(report.files), shape)


def transform(
    workload: _Workload | FilePath | Mapping[str, Any],
    query: str,
    *,
    on_error: OneOf["stop", "skip"] = "stop",
    buckets: int | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """One query as a step of Spark's: `frame.transform(sheaf.transform(workload, "q"))`."""
    loaded = load(workload)
    chosen = [i for i, one in enumerate(loaded.queries) if one.name == query]
    if not chosen:
        raise NoQueryError(query, [one.name or "" for one in loaded.queries])
    places = tuple(loaded.places[i] for i in chosen if i < len(loaded.places))
    alone = replace(loaded, queries=tuple(loaded.queries[i] for i in chosen), places=places)

    def step(frame: DataFrame) -> DataFrame:
        return plan(alone, frame).run(frame, on_error=on_error, buckets=buckets)[query]

    return step


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext sheaf`: the cell magic `%%sheaf`, and tables of Arrow shown as HTML."""
    from api.notebooks.cell_magic import add_magic

    add_magic(shell, load)


def _shape(physical: PhysicalPlan, path: EventPath, report: RunReport) -> _Shape:
    from engines.results.structs import match_structs

    bound, schema = report.bound or _bound(physical, path)
    return _Shape(bound, schema, match_structs(bound, schema))


def _bound(physical: PhysicalPlan, path: EventPath) -> tuple[BoundWorkload, pa.Schema]:
    """The queries of a plan over the columns of events, and these columns."""
    from engines.input.batches import FileSource
    from engines.input.event_table import Faults
    from engines.run import fitted
    from workloads.loading import load_workload

    workload = load_workload(physical.document)
    source = FileSource(path, workload.stream, Faults("skip"))
    program = fitted(physical, source.schema, source.kinds, workload, source.path)
    return program.workload, source.schema


def _is_frame(events: object) -> TypeGuard[DataFrame]:
    """Is it a data frame of PySpark's, over Spark Connect or not?"""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import DataFrame

    return isinstance(events, DataFrame)


def _are_live(events: object) -> TypeGuard[Mapping[str, DataFrame]]:
    """Are they live data frames, one for each of several sources?"""
    if not isinstance(events, Mapping) or not events:
        return False
    return all(_is_frame(one) and one.isStreaming for one in events.values())


@contextmanager
def _stored(events: Events | None) -> Iterator[EventPath | None]:
    """Where events are: a table in memory is in a file for as long as that is asked for."""
    if isinstance(events, Mapping):
        with ExitStack() as each:
            named = {str(name): each.enter_context(_stored(one)) for name, one in events.items()}
            yield {name: str(path) for name, path in named.items()}
        return
    if events is None or isinstance(events, str | PathLike):
        yield None if events is None else fspath(events)
        return
    if _is_frame(events) and events.isStreaming:
        raise TypeError(
            "a live data frame of Spark's is one of several sources, and others are stored: give "
            "live ones for all (spark.readStream), or stored ones"
        )
    if not hasattr(events, "__arrow_c_stream__"):
        raise TypeError(
            f"events are files, or a table of pyarrow, pandas, Polars or DuckDB, and this is a "
            f"{type(events).__name__}"
        )
    import pyarrow as pa
    import pyarrow.parquet as pq

    from engines.limits import EventsError

    with tempfile.TemporaryDirectory(prefix="sheaf-events-") as folder:
        path = Path(folder) / "events.parquet"
        pq.write_table(pa.table(events), path)
        try:
            yield str(path)
        except EventsError as error:
            raise type(error)(str(error).replace(f"'{path}'", "the events")) from error
