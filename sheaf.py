"""Sheaf from Python: many event-pattern queries over one stream, planned and run as one.

    import sheaf

    workload = sheaf.load("cards.yaml")
    plan = sheaf.plan(workload, events="events.csv")
    print(plan)                                  # what is shared, and why
    results = sheaf.run(plan, "events.csv")
    results.aggregates, results.matches          # pyarrow tables
    results.report["operators"]                  # rows and CPU of each operator, beside the plan's

`Client` does the same with a service. These names are what Sheaf keeps stable; nothing else is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from api.client import Client
from workloads.errors import SheafError as SheafError
from workloads.workload import Workload

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from optimizer.plan.plan import Plan as PhysicalPlan

__all__ = ["Client", "Plan", "Results", "SheafError", "Workload", "load", "plan", "run"]

FilePath = str | PathLike[str]


def load(source: FilePath | Mapping[str, Any]) -> Workload:
    """A workload: from a file, by the name of a bundled one, or from a mapping as a file has it.

    Raises `WorkloadError`, a `SheafError`, with every mistake and its place.
    """
    from optimizer.bind.binder import bind
    from workloads.loading import load_workload

    if isinstance(source, Mapping):
        workload = load_workload(source)
        bind(workload)
        return workload
    from api.cli.workload_files import open_workload

    return open_workload(fspath(source))[0]


@dataclass(frozen=True)
class Plan:
    """How a workload will run: it prints as text, and draws itself in a notebook."""

    physical: PhysicalPlan

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

    def to_pandas(self, kind: OneOf["aggregates", "matches"] = "aggregates") -> pd.DataFrame:
        """The rows of one kind as a data frame."""
        frame: pd.DataFrame = getattr(self, kind).to_pandas()
        return frame


def plan(
    workload: Workload | FilePath | Mapping[str, Any],
    events: FilePath | None = None,
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
) -> Plan:
    """The plan of a workload.

    Where the workload has no statistics of its own they are sampled from `events`, files in
    Parquet, CSV or JSON lines; without either they are assumed, and the plan says so. The options
    from `on_error` on are those of `run`: events are read by them, and limits change no plan.
    """
    from api.planning.plan_on_events import plan_on_events
    from api.run_settings import RunSettings

    settings = RunSettings(on_error, disorder, slice, partial_limit, on_limit, row_limit, threads)
    settings.check("local")
    loaded = workload if isinstance(workload, Workload) else load(workload)
    path = None if events is None else _path(events)
    return Plan(plan_on_events(loaded, path, sharing, device, solver, model, settings))


def run(
    planned: Plan | Workload | FilePath | Mapping[str, Any],
    events: FilePath,
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
) -> Results:
    """The rows of a plan over events; a workload is planned on a sample of them first.

    Rows are in the results, all of them in memory, or with `out` in files (.parquet, .arrow, .csv
    or .jsonl by its ending). Matches are JSON text, or with `match="struct"` structs of Arrow. Rows
    of `events` that are no events stop the run, or with `on_error="skip"` are left out. Events can
    be late by `disorder`, such as "10 s", and `slice` of them are in memory at a time.
    `partial_limit` bounds the partial matches of one key that an operator holds, and
    `row_limit` the rows that a query gives. `threads` run at once, by default one for each
    processor. `report["notes"]` says what is odd about the events.
    """
    from api.planning.plan_on_events import plan_on_events
    from api.run_settings import RunSettings
    from engines.execution import EventSource, Execution, RowSink, SparkMaster
    from engines.program import RunOptions
    from engines.report import report_document
    from engines.results.tables import empty_results
    from engines.run import run as run_plan
    from workloads.loading import load_workload

    settings = RunSettings(on_error, disorder, slice, partial_limit, on_limit, row_limit, threads)
    settings = replace(settings, match=match)
    settings.check(engine, sink=None if out is None else fspath(out))
    path = _path(events)
    if isinstance(planned, Plan):
        made = planned
    else:
        loaded = planned if isinstance(planned, Workload) else load(planned)
        made = Plan(plan_on_events(loaded, path))
    sink = RowSink(None if out is None else fspath(out), shown=None, match=match)
    own = load_workload(made.physical.document).partial if engine == "local" else None
    options = RunOptions(partial=settings.partial(own), row_limit=row_limit, threads=threads)
    execution = Execution(engine, options, slice, SparkMaster(master))
    source = EventSource(path, on_error, settings.late())
    report = run_plan(made.physical, source, sink, execution)
    found = report.first
    if found is None:
        import pyarrow as pa

        found = empty_results(pa.int64())
    document = report_document(made.physical, report)
    return Results(found.aggregates, found.matches, document, tuple(report.files))


def _path(events: FilePath) -> str:
    """Where events are; a table in memory is none such."""
    if not isinstance(events, str | PathLike):
        raise TypeError(
            f"events are read from files, and this is a {type(events).__name__}: write it to a "
            'file, as with frame.to_parquet("events.parquet"), and give its path'
        )
    return fspath(events)
