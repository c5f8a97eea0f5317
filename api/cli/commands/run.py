"""`sheaf run`: a workload over stored events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from typing import Literal as OneOf

import typer

from api.cli.commands.run_options import (
    Access,
    Disorder,
    Match,
    OnError,
    OnLimit,
    PartialLimit,
    Paths,
    RowLimit,
    Slice,
    Tables,
    Threads,
)
from api.cli.commands.spark import SparkOptions, check_spark_sink, settings_of
from api.cli.commands.stream import LiveOptions, run_live
from api.cli.commands.stream_options import (
    STREAMS,
    Buckets,
    Checkpoint,
    Every,
    Files,
    Finish,
    Light,
    Once,
    Registry,
    Schema,
)
from api.cli.completion import WorkloadName
from api.cli.quick_start import leave_out_pandas
from api.cli.sinks import check_sink, check_webhook, is_source, post_rows
from api.cli.terminal.json_output import Json, echo_json
from api.cli.terminal.preview import tell_faults
from api.cli.terminal.progress import RunBar, run_bar, waiting
from api.cli.terminal.run_output import (
    first_rows_document,
    is_report_wanted,
    rows_wanted,
    show_first_rows,
    summary,
)
from api.cli.workload_files import only_queries, open_workload
from api.jobs.devices import Device, chosen_device
from api.run_settings import RunSettings, as_flag
from engines.execution import Engine, EventSource, Execution, Monitor, RowSink
from workloads.errors import SheafError
from workloads.imported_rules import refusals

if TYPE_CHECKING:
    from engines.execution import RunReport
    from engines.input.event_paths import EventPath
    from engines.input.event_table import Events
    from engines.statistics.running import RunningStatistics
    from optimizer.plan.plan import Plan
    from optimizer.statistics import Statistics
    from workloads.workload import Workload

SPARK = "Spark"
MOST_NAMED = 5  # queries that a note of a run names
STOPPED = 3  # the exit code where a query was stopped at a limit, and the others were run


def run(
    workload: WorkloadName,
    events: Paths,
    engine: Annotated[Engine, typer.Option(help="What computes.")] = "local",
    device: Annotated[Device, typer.Option(help="What it computes on.")] = "auto",
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN.json", help="Run exactly this plan, as 'plan --format json' wrote it."
        ),
    ] = None,
    no_sharing: Annotated[
        bool, typer.Option("--no-sharing", help="Run every query on its own.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where to: .parquet, .arrow, .csv or .jsonl, or a table in a folder, delta:PATH "
            "or iceberg:PATH; with Spark also a folder (PATH/), or table:NAME.",
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Post each row of --out PATH.parquet there besides, at least once; with --stream "
            "those of each batch.",
        ),
    ] = None,
    match: Match = "text",
    tables: Tables = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark's master: local[N], spark://…, yarn, k8s://…; local[*] if none.",
            rich_help_panel=SPARK,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of Spark's.", rich_help_panel=SPARK),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only this query of the workload; can be repeated."),
    ] = None,
    on_error: OnError = "stop",
    disorder: Disorder = None,
    access: Access = "auto",
    slice_rows: Slice = None,
    statistics: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.yaml",
            help="Write what was seen of the stream, for 'plan --statistics'. Local engine.",
        ),
    ] = None,
    adaptive: Annotated[
        bool,
        typer.Option(help="Find matches by other trees when the stream changes. Local engine."),
    ] = True,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Say by which trees matches are found, and why these change. Local engine.",
        ),
    ] = False,
    partial_limit: PartialLimit = None,
    on_limit: OnLimit = "stop",
    row_limit: RowLimit = None,
    threads: Threads = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Follow a folder that grows, or kafka://HOST:PORT/TOPIC. Spark engine.",
            rich_help_panel=STREAMS,
        ),
    ] = False,
    checkpoint: Checkpoint = None,
    once: Once = False,
    finish: Finish = False,
    every: Every = None,
    buckets: Buckets = None,
    files: Files = None,
    schema: Schema = None,
    light: Light = False,
    registry: Registry = None,
    report_line: Annotated[
        bool,
        typer.Option(
            "--report",
            help="End with a line of JSON on standard error that accounts for the run, also on a "
            "terminal.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a workload over events.

    Without --out, the first rows of each query are shown.
    """
    from engines.input.event_paths import given_paths
    from engines.program import RunOptions
    from engines.report import report_document
    from engines.run import run as run_plan
    from optimizer.explain.text import row_warnings

    spark = SparkOptions(master or "local[*]", settings_of(conf or []))
    live = LiveOptions(checkpoint, once, finish, every, buckets, files, schema, light, registry)
    settings = RunSettings(
        on_error,
        disorder,
        slice_rows,
        partial_limit,
        on_limit,
        row_limit,
        threads,
        match,
        access,
        tables,
    )
    _check_options(
        engine,
        stream,
        settings,
        out,
        {"--statistics": statistics},
        {"--master": master, "--conf": conf, "--stream": stream or None},
    )
    if not stream:
        live.refuse()
        if out is not None and engine == "spark":
            check_spark_sink(out)
        elif out is not None:
            check_sink(out)
    if webhook is not None:
        check_webhook(webhook, out, match, stream)
    if engine == "local":
        leave_out_pandas()
    began = time.perf_counter()
    used = chosen_device(device) if spark.is_local else spark.device(device)
    with waiting("planning"):
        parsed = only_queries(open_workload(workload)[0], query or ())
        paths = given_paths(events, parsed.stream.sources)
        if out is not None and is_source(out, paths):
            raise SheafError("--out is what --events names, which would be lost; name another")
        like = given_paths(schema, parsed.stream.sources) if schema else None
        source = EventSource(paths, on_error, settings.late(), like, registry=registry)
        source, out, out_options, spark = spark.connected(source, out)
        made = _planned(parsed, plan, source.path, engine, used, not no_sharing)
    planning = round(time.perf_counter() - began, 4)
    for sentence in row_warnings(made):
        typer.echo(f"warning: {sentence}", err=True)
    partial = settings.partial(parsed.partial)
    if partial is not None and engine != "local":
        raise SheafError(
            "a limit on partial matches is for the local engine; leave out 'limits' in the workload"
        )
    options = RunOptions(
        device=None if plan is None or device == "auto" else used,
        insist=device == "opencl",
        adaptive=adaptive,
        partial=partial,
        row_limit=row_limit,
        threads=threads,
    )
    execution = Execution(engine, options, slice_rows, spark.where, access=access)
    if stream:
        report = run_live(made, source, out, live, execution, webhook, out_options)
    else:
        sink = RowSink(out, rows_wanted(len(made.queries)), match=match, tables=tables)
        report = _run(run_plan, parsed, made, source, sink, execution, statistics)
        if webhook is not None:
            post_rows(webhook, made.id, report)
        if not as_json:
            _show_rows(made, report, statistics)
        _show(report, verbose)
    report.notes = [*refusals(parsed.refused), *report.notes]
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    report.seconds = {"plan": planning, **report.seconds}
    document = report_document(made, report)
    if as_json:
        echo_json({**document, **first_rows_document(made, report)})
    said = json.dumps(document) if is_report_wanted(report_line) else summary(made, report)
    typer.echo(said, err=True)
    if report.ledger.stopped:
        raise typer.Exit(STOPPED)


def _check_options(
    engine: Engine,
    stream: bool,
    settings: RunSettings,
    out: str | None,
    for_local: dict[str, object],
    for_spark: dict[str, object],
) -> None:
    """Refuse options that the engine does not have."""
    for name, value in for_local.items():
        if engine != "local" and value is not None:
            raise SheafError(f"{name} is for the local engine")
    for name, value in for_spark.items():
        if engine != "spark" and value is not None:
            raise SheafError(f"{name} is for --engine spark")
    settings.check("stream" if stream else engine, as_flag, out)
    if settings.match == "struct" and out is None:
        raise SheafError("--match struct is for files; say with --out where rows are written")


def _planned(
    parsed: Workload,
    plan: Path | None,
    events: EventPath,
    engine: Engine,
    device: OneOf["cpu", "opencl"],
    sharing: bool,
) -> Plan:
    """The plan that is given for a workload, or made on a sample of the events."""
    from api.cli.commands.plan import read_plan
    from api.planning.plan_on_events import plan_on_events
    from optimizer.plan.plan import PlanError
    from workloads.workload import to_document

    document = to_document(parsed)
    if plan is not None:
        made = read_plan(plan)
        if dict(made.document) != document:
            raise PlanError(
                f"{made.id} is not a plan of this workload: the two differ in "
                f"{_difference(made.document, document)}; make it again from the workload"
            )
        return made
    return plan_on_events(parsed, None if engine == "oracle" else events, sharing, device)


def _difference(one: Mapping[str, object], other: Mapping[str, object]) -> str:
    return ", ".join(sorted(key for key in {*one, *other} if one.get(key) != other.get(key)))


class _Progress(Monitor):
    """A bar on the terminal, and Spark's own page."""

    def __init__(self, bar: RunBar, gathered: RunningStatistics | None) -> None:
        self._bar, self._gathered = bar, gathered
        self.reads_events = gathered is not None

    def on_stage(self, name: str) -> None:
        self._bar.stage(name)

    def on_progress(self, part: float) -> None:
        self._bar.part(part)

    def on_page(self, address: str) -> None:
        typer.echo(f"Spark's own page: {address}", err=True)

    def on_events(self, events: Events) -> None:
        if self._gathered is not None:
            self._gathered.add(events)


def _run(
    run_plan: Callable[..., RunReport],
    workload: Workload,
    plan: Plan,
    source: EventSource,
    sink: RowSink,
    execution: Execution,
    statistics: Path | None,
) -> RunReport:
    """Run a plan over stored events."""
    from engines.limits import BadRowError
    from engines.statistics.running import RunningStatistics
    from optimizer.bind.binder import bind

    gathered = None if statistics is None else RunningStatistics(bind(workload))
    with run_bar(execution.engine) as bar:
        try:
            report = run_plan(plan, source, sink, execution, _Progress(bar, gathered))
        except BadRowError as error:
            raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
    if statistics is not None and gathered is not None:
        write_statistics(gathered.statistics(), statistics)
    return report


def _show_rows(plan: Plan, report: RunReport, statistics: Path | None) -> None:
    """The files that were written, or the first rows."""
    for name in (*report.files, *(() if statistics is None else (str(statistics),))):
        typer.echo(name)
    if report.first is not None:
        show_first_rows(plan, report)


def _show(report: RunReport, verbose: bool) -> None:
    """What a user should know of how the rows came about."""
    if report.unbounded:
        named = list(report.unbounded[:MOST_NAMED])
        if more := len(report.unbounded) - len(named):
            named.append(f"{more:,} more")
        typer.echo(
            f"note: all events were in memory for {', '.join(named)}: a query without a window, or "
            "with one counted in events that slides or that matches wait for, can stay open to the "
            "end, and SUPPRESS and KEEP look at all matches",
            err=True,
        )
    if report.faults is not None:
        tell_faults(report.faults)
    for decision in report.decisions if verbose else ():
        typer.echo(str(decision), err=True)
    for sentence in report.fallbacks:
        typer.echo(f"note: not as planned: {sentence}", err=True)
    for reason in report.ledger.stopped.values():
        typer.echo(f"error: {reason}", err=True)
    if (dropped := report.ledger.dropped).total():
        each = ", ".join(f"{number:,} of {query}" for query, number in sorted(dropped.items()))
        typer.echo(f"note: partial matches were dropped at the limit: {each}", err=True)


def write_statistics(statistics: Statistics, path: Path) -> None:
    """Keep statistics in the form that `plan --statistics` and a workload take."""
    import yaml

    from optimizer.statistics.statistics import to_written

    text = yaml.safe_dump(to_written(statistics), sort_keys=False, allow_unicode=True, width=100)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SheafError(f"cannot write '{path}': {error.strerror}") from error
