"""`sheaf plan`: what will run, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from typing import Literal as OneOf

import typer

from api.cli.commands.run_options import (
    Access,
    Disorder,
    OnError,
    OnLimit,
    PartialLimit,
    RowLimit,
    SamplePaths,
    Slice,
    Threads,
)
from api.cli.completion import WorkloadName
from api.cli.terminal.colour import plan_text
from api.cli.terminal.json_output import Json
from api.cli.workload_files import open_workload
from api.jobs.devices import Device, chosen_device
from api.run_settings import DEFAULT, RunSettings, as_flag
from workloads.errors import SheafError

if TYPE_CHECKING:
    from optimizer.cost.unit_costs import UnitCosts
    from optimizer.plan.plan import Plan
    from optimizer.statistics import Statistics as Known
    from workloads.workload import Statistics

Solver = OneOf["greedy", "cpsat", "exhaustive"]
Model = OneOf["aseq", "measured"]
Format = OneOf["text", "json", "svg"]


def plan(
    workload: WorkloadName,
    events: SamplePaths = None,
    statistics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Statistics in place of the workload's, as a run writes them."
        ),
    ] = None,
    solver: Annotated[
        Solver,
        typer.Option(
            help="How to choose what to share: greedy is quick; cpsat searches further and proves "
            "its choice where it can; exhaustive finds the best one or refuses. The plan says how "
            "far from the best it can be."
        ),
    ] = "greedy",
    model: Annotated[Model, typer.Option(help="How to estimate costs.")] = "measured",
    format: Annotated[Format, typer.Option(help="How to show the plan.")] = "text",
    no_sharing: Annotated[
        bool, typer.Option("--no-sharing", help="Plan every query on its own.")
    ] = False,
    device: Annotated[Device, typer.Option(help="What it will compute on.")] = "auto",
    old: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OLD.json",
            help="A plan to start from, and to compare with; or the report of a run, to plan by "
            "what it measured.",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only this query's way. Text.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Leave nothing out of long lists. Text.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each stage of planning gave. Text.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to assume what statistics do not tell.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Stop searching after so long, and plan the rest in the quickest way.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A service that plans it and keeps the plan; WORKLOAD may be a plan's id there. "
            "Events are as the service sees them.",
        ),
    ] = None,
    on_error: OnError = "stop",
    disorder: Disorder = None,
    access: Access = "auto",
    slice_rows: Slice = None,
    partial_limit: PartialLimit = None,
    on_limit: OnLimit = "stop",
    row_limit: RowLimit = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Show the plan of a workload; --json is --format json.

    It takes the options that 'run' takes for events and limits, so that both can be given the same
    ones: events are read as a run reads them, and limits change nothing about the plan.
    """
    from engines.calibration.machine_costs import known
    from optimizer.statistics import given, with_defaults
    from sharing.planner import PlanOptions, make_plan
    from sharing.planner import plan as stages_of
    from workloads.workload import to_document

    format = "json" if as_json else format
    if (query is not None or verbose or explain) and format != "text":
        raise SheafError("--query, --explain and --verbose are for --format text")
    if events and statistics is not None:
        raise SheafError("--events and --statistics both say what is known; give one of them")
    settings = RunSettings(
        on_error, disorder, slice_rows, partial_limit, on_limit, row_limit, threads, access=access
    )
    if settings != DEFAULT:
        settings.check("local", as_flag)
    notes: tuple[str, ...] = ()
    reading: dict[str, Any] = {}
    report = None if old is None else read_report(old)
    previous = None if old is None or report is not None else read_plan(old)
    if server is not None:
        if old is not None or strict or explain or no_sharing or timeout is not None:
            raise SheafError(
                "--from, --strict, --explain, --no-sharing and --timeout are for plans that are "
                "made without --server"
            )
        served = _served(
            server, workload, events, statistics, solver, model, device, settings.stated()
        )
        _tell(served, format, query, verbose)
        return
    parsed, bound = open_workload(workload)
    known_: Statistics | None = None
    if statistics is not None:
        known_ = given(read_statistics(statistics), bound.queries)
    elif events:
        from api.cli.terminal.preview import tell_faults
        from engines.access.choice import access_document
        from engines.input.event_paths import given_paths, shown_path
        from engines.limits import BadRowError
        from engines.statistics.measure import sample_files

        paths = given_paths(events, parsed.stream.sources)
        try:
            sample = sample_files(
                parsed, paths, on_error=settings.on_error, disorder=settings.late(as_flag)
            )
        except BadRowError as error:
            raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
        if sample.statistics is None:
            raise SheafError(
                f"'{shown_path(paths)}' has no events to plan by; give events, or rates under "
                "'statistics' of the workload and no --events"
            )
        tell_faults(sample.faults)
        bound, known_, notes = sample.workload, sample.statistics, sample.notes
        reading = access_document(paths, bound, access, solver)
    costs = known()
    if report is not None:
        from engines.statistics.from_report import from_report

        def planner(statistics: Known, unit_costs: UnitCosts) -> Plan:
            document = to_document(parsed)
            return make_plan(bound, document, statistics=statistics, unit_costs=unit_costs)

        before = with_defaults(given(known_ or bound.statistics, bound.queries), bound.queries)
        known_, costs = from_report(report, bound, before, costs, planner)
        typer.echo(f"known: measured by a run of {report['events']:,} events ({old})", err=True)
    options = PlanOptions(
        solver,
        model,
        sharing=not no_sharing,
        earlier=previous,
        strict=strict,
        unit_costs=costs,
        seconds=timeout,
        device=chosen_device(device),
    )
    stages = stages_of(bound, known_, options, to_document(parsed))
    made = replace(stages.plan, notes=notes, access=reading)
    if explain:
        from sharing.stages_text import render_stages

        typer.echo(render_stages(stages))
    _tell(made, format, query, verbose)
    if previous is not None:
        from optimizer.plan.diff import render_change

        typer.echo(render_change(previous, made), nl=False, err=True)


def _served(
    server: str,
    workload: str,
    events: Sequence[str] | None,
    statistics: Path | None,
    solver: Solver,
    model: Model,
    device: Device,
    settings: Mapping[str, Any],
) -> Plan:
    """A plan that a service has or makes."""
    from api.cli.commands.service import connected
    from api.cli.workload_files import find_workload
    from engines.input.event_paths import given_paths
    from workloads.workload import statistics_document

    with connected(server) as client:
        if workload.startswith("plan-") and not Path(workload).exists():
            return client.get_plan(workload).physical
        parsed, _ = open_workload(workload)  # its errors are said with their places in the file
        given = None if statistics is None else statistics_document(read_statistics(statistics))
        kept = client.post_workload(find_workload(workload))
        made = client.plan(
            kept.id,
            solver=solver,
            model=model,
            statistics=given,
            sample=given_paths(events, parsed.stream.sources) if events else None,
            device=None if device == "auto" else device,
            **settings,
        )
    typer.echo(f"{made.id} of {made.workload}, version {made.workload_version}", err=True)
    return made.physical


def _tell(plan: Plan, format: Format, query: str | None, verbose: bool) -> None:
    """Show a plan; its notes are in its text, and for every other format beside it."""
    text = show(plan, format, query, verbose)
    is_shown = format == "text" and sys.stdout.isatty()
    typer.echo(plan_text(text) if is_shown else text, nl=False)
    for note in plan.notes if format != "text" or query is not None else ():
        typer.echo(f"note: {note}", err=True)


def show(plan: Plan, format: Format, query: str | None = None, verbose: bool = False) -> str:
    """The plan in the format asked for; as text, all of it or one query's way."""
    match format:
        case "text" if query is not None:
            from optimizer.explain.query_text import render_query

            return render_query(plan, query, verbose)
        case "text":
            from optimizer.explain.text import render_text

            return render_text(plan, verbose)
        case "svg":
            from optimizer.explain.svg import render_svg

            return render_svg(plan)
        case "json":
            from optimizer.plan.plan import to_json

            return json.dumps(to_json(plan), indent=2, ensure_ascii=False) + "\n"


def read_report(path: Path) -> dict[str, Any] | None:
    """The report of a run, which is the last line of what it said; None where a file has none."""
    from engines.statistics.from_report import is_report

    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None  # which reading it as a plan says
    for part in (text, text.rpartition("\n")[2]):
        with suppress(json.JSONDecodeError):
            if is_report(document := json.loads(part)):
                return dict(document)
    return None


def read_plan(path: Path) -> Plan:
    """A plan from the JSON that `--format json` wrote, which may have been edited."""
    from optimizer.plan.load_plan import load_plan

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SheafError(
            f"'{path}' cannot be read as a plan: {error.strerror}; write one with "
            f"'sheaf plan WORKLOAD --format json > {path}'"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SheafError(
            f"'{path}' is not a plan: it is not JSON; write one with "
            f"'sheaf plan WORKLOAD --format json > PLAN.json'"
        ) from error
    return load_plan(document)


def read_statistics(path: Path) -> Statistics:
    """Statistics from a file such as `run --statistics` writes."""
    from optimizer.statistics.statistics import from_written
    from workloads.document import DocumentError, read_document

    try:
        document = read_document(path.read_text(encoding="utf-8"), is_json=False).value
    except (OSError, UnicodeDecodeError) as error:
        raise SheafError(f"'{path}' holds no statistics: {error}") from error
    except DocumentError as error:
        line = "" if error.place is None else f":{error.place.line}"
        raise SheafError(f"{path}{line}: {error.message}; {error.hint}") from error
    return from_written(document)
