"""`sheaf run`: a workload over stored events."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.commands.showing import ROWS_SHOWN, show, tell_faults
from api.commands.spark import SparkOptions, check_spark_sink, run_spark, settings_of
from api.commands.stream import Live, run_live
from api.commands.stream_options import (
    STREAMS,
    Buckets,
    Checkpoint,
    Every,
    Files,
    Finish,
    Like,
    Once,
)
from api.execution import (
    Device,
    Engine,
    OnError,
    Stages,
    choose_how,
    kinds_of,
    run_here,
    run_in_slices,
)
from api.inputs import open_workload
from api.progress import progress_bar
from api.sinks import check_sink
from workloads.errors import SheafError
from workloads.model import OnLimit, PartialLimit
from workloads.syntax import UNITS

if TYPE_CHECKING:
    from engines.faults import Faults
    from engines.how import How
    from optimizer.ir.query import BoundWorkload
    from optimizer.statistics import Statistics
    from workloads.model import Workload

SPARK = "Spark"
STOPPED = 3  # the exit code where a query was stopped at a limit, and the others were run


def run(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="File or name.")],
    events: Annotated[
        str, typer.Option(metavar="PATH", help="Parquet, CSV or JSON lines: file, folder or glob.")
    ],
    engine: Annotated[Engine, typer.Option(help="What computes.")] = "local",
    device: Annotated[Device, typer.Option(help="What it computes on.")] = "auto",
    no_sharing: Annotated[
        bool, typer.Option("--no-sharing", help="Run every query on its own.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where to: .parquet, .csv or .jsonl; with Spark also a folder (PATH/), or "
            "table:NAME.",
        ),
    ] = None,
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
    on_error: Annotated[
        OnError, typer.Option(help="At a row that is no event: stop, or leave it out and count it.")
    ] = "stop",
    disorder: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How late events can be, such as '10 s'. Local engine."),
    ] = None,
    slice_rows: Annotated[
        int | None,
        typer.Option(
            "--slice", metavar="EVENTS", min=1, help="Events in memory at a time. Local engine."
        ),
    ] = None,
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
    partial_limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Partial matches of one key that an operator of a query may hold. Local engine.",
        ),
    ] = None,
    on_limit: Annotated[
        OnLimit, typer.Option(help="At that limit: stop the query, or drop its oldest.")
    ] = "stop",
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
    schema: Like = None,
) -> None:
    """Run a workload over events; without --out, show the first rows."""
    from engines.how import How
    from engines.unit_costs import known
    from sharing.planner import make_plan
    from workloads.document import to_document

    stages = Stages()
    spark = SparkOptions(master or "local[*]", settings_of(conf or []))
    if spark.is_local:
        how = choose_how(device, sharing=not no_sharing)
    else:
        how = How(sharing=not no_sharing, device=spark.device(device), insist=device == "opencl")
    live = Live(checkpoint, once, finish, every, buckets, files, schema)
    if engine != "local" and (disorder or slice_rows):
        raise SheafError("--disorder and --slice are for the local engine")
    if engine != "local" and statistics is not None:
        raise SheafError("--statistics is for the local engine; 'plan --events' samples a file")
    if engine == "oracle" and on_error != "stop":
        raise SheafError("--on-error is for the local engine and for Spark")
    if engine != "spark" and (master or conf):
        raise SheafError("--master and --conf are for --engine spark")
    if stream and engine != "spark":
        raise SheafError("--stream is for --engine spark")
    late = None if disorder is None else _nanoseconds(disorder)
    if not stream:
        live.refuse()
        if out is not None and engine == "spark":
            check_spark_sink(out)
        elif out is not None:
            check_sink(out)
    with stages("plan"):
        parsed, bound = open_workload(workload)
        plan = make_plan(bound, to_document(parsed), sharing=not no_sharing, unit_costs=known())
        partial = parsed.partial
        if partial_limit is not None:
            partial = PartialLimit(partial_limit, on_limit)
        if partial is not None and engine != "local":
            raise SheafError(
                "a limit on partial matches is for the local engine; leave out --partial-limit, "
                "and 'limits' in the workload"
            )
        how = replace(how.following(plan), partial=partial, adaptive=adaptive)
    if stream:
        done = run_live(parsed, events, stages, out, live, on_error, how, spark)
    elif engine == "local":
        from engines.faults import Faults

        faults = Faults(on_error)
        done = _run_local(
            parsed,
            bound,
            events,
            stages,
            out,
            faults,
            late,
            slice_rows,
            how,
            verbose,
            statistics,
        )
    elif engine == "spark":
        done = run_spark(parsed, bound, events, stages, out, spark, on_error, how)
    else:
        done = _run_oracle(parsed, bound, events, stages, out, how)
    if not stream and not any(done["rows"].values()) and Path(events).exists():
        from api.absent import absent_types

        if (why := absent_types(bound, events)) is not None:
            typer.echo(f"note: {why}", err=True)
    seconds = stages.seconds
    report: dict[str, Any] = {
        "events": done["events"],
        "seconds": seconds,
        "events_per_second": round(done["events"] / max(seconds["run"], 1e-9)),
        **done,
        "engine": engine,
        "device": how.device,
        "plan": plan.id,
    }
    typer.echo(json.dumps(report), err=True)
    if done.get("stopped"):
        raise typer.Exit(STOPPED)


def _run_local(
    workload: Workload,
    bound: BoundWorkload,
    events: str,
    stages: Stages,
    out: str | None,
    faults: Faults,
    disorder: int | None,
    slice_rows: int | None,
    how: How,
    verbose: bool,
    statistics: Path | None,
) -> dict[str, Any]:
    """Slice by slice; gives what goes to the report."""
    from engines.errors import BadRowError
    from engines.gathered import Gathered
    from engines.local.slices import Slicing
    from engines.output import FileOutput, FirstRows

    slicing = Slicing() if slice_rows is None else Slicing(slice_rows)
    gathered = Gathered(bound)
    with ExitStack() as stack:
        output: FileOutput | FirstRows = FirstRows(ROWS_SHOWN)
        if out is not None:
            output = stack.enter_context(FileOutput(out, *kinds_of(bound)))
        try:
            with progress_bar(bound.name) as told:
                done = run_in_slices(
                    workload,
                    events,
                    stages,
                    output,
                    faults,
                    slicing,
                    disorder,
                    how,
                    told,
                    seen=gathered.add if statistics is not None else lambda events: None,
                )
        except BadRowError as error:
            raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
        with stages("write"):
            if isinstance(output, FileOutput):
                for file in output.write():
                    typer.echo(file)
            else:
                assert output.first is not None
                show(output.first, typer.echo, (output.aggregates, output.matches))
    if statistics is not None:
        write_statistics(gathered.statistics(), statistics)
        typer.echo(str(statistics))
    if done.unbounded:
        typer.echo(
            f"note: all events were in memory for {', '.join(done.unbounded)}: a window counted "
            "in events that slides, or that matches wait for, can stay open to the end",
            err=True,
        )
    tell_faults(faults)
    for decision in done.adaptive.decisions if verbose else ():
        typer.echo(str(decision), err=True)
    stopped, dropped = done.ledger.stopped, done.ledger.dropped
    for reason in stopped.values():
        typer.echo(f"error: {reason}", err=True)
    if dropped.total():
        each = ", ".join(f"{number:,} of {query}" for query, number in sorted(dropped.items()))
        typer.echo(f"note: partial matches were dropped at the limit: {each}", err=True)
    limited: dict[str, Any] = {"stopped": stopped} if stopped else {}
    if dropped.total():
        limited["dropped"] = dict(dropped)
    return {
        "events": done.events,
        **limited,
        **({"plan_changes": done.adaptive.changes} if done.adaptive.decisions else {}),
        "skipped": faults.total,
        "rows": {"aggregates": output.aggregates, "matches": output.matches},
        "rows_by_query": dict(done.rows),
    }


def write_statistics(statistics: Statistics, path: Path) -> None:
    """Keep statistics in the form that `plan --statistics` and a workload take."""
    import yaml

    from optimizer.statistics.document import to_written

    text = yaml.safe_dump(to_written(statistics), sort_keys=False, allow_unicode=True, width=100)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SheafError(f"cannot write '{path}': {error.strerror}") from error


def _run_oracle(
    workload: Workload,
    bound: BoundWorkload,
    events: str,
    stages: Stages,
    out: str | None,
    how: How,
) -> dict[str, Any]:
    """The reference, all at once."""
    from engines.results import row_counts, write_results

    results, number = run_here(workload, events, "oracle", stages, how=how)
    with stages("write"):
        if out is None:
            show(results, typer.echo)
        else:
            for file in write_results(results, out, *kinds_of(bound)):
                typer.echo(file)
    rows = {"aggregates": results.aggregates.num_rows, "matches": results.matches.num_rows}
    return {"events": number, "rows": rows, "rows_by_query": dict(row_counts(results))}


def _nanoseconds(text: str) -> int:
    """An amount of time such as `10 s`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text)
    if found is None or found[2] not in UNITS:
        raise SheafError(
            f"--disorder is '{text}'; write an amount and a unit, such as '10 s' "
            f"(units are {', '.join(UNITS)})"
        )
    return round(float(found[1]) * UNITS[found[2]])
