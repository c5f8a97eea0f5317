"""`sheaf run`: a workload over stored events."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.execution import Device, Engine, Stages, choose_device, kinds_of, run_here, run_on_spark
from api.inputs import open_workload
from api.sinks import check_sink

if TYPE_CHECKING:
    from engines.results import Results

ROWS_SHOWN = 20


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
        str | None, typer.Option(metavar="PATH", help="Where to: .parquet, .csv or .jsonl.")
    ] = None,
) -> None:
    """Run a workload over events; without --out, show the first rows."""
    from optimizer.planner import make_plan
    from workloads.document import to_document

    stages = Stages()
    used = choose_device(device)
    if out is not None:
        check_sink(out)
    with stages("plan"):
        parsed, bound = open_workload(workload)
        plan = make_plan(bound, to_document(parsed), sharing=not no_sharing)
    with ExitStack() as sessions:
        if engine == "spark":
            from engines.session import spark_session

            results, number = run_on_spark(
                parsed,
                events,
                stages,
                lambda: sessions.enter_context(spark_session()),
                sharing=not no_sharing,
            )
        else:
            results, number = run_here(parsed, events, engine, stages, sharing=not no_sharing)
    with stages("write"):
        if out is None:
            show(results, typer.echo)
        else:
            from engines.results import write_results

            for file in write_results(results, out, *kinds_of(bound)):
                typer.echo(file)
    seconds = stages.seconds
    report: dict[str, Any] = {
        "events": number,
        "seconds": seconds,
        "events_per_second": round(number / max(seconds["run"], 1e-9)),
        "rows": {"aggregates": results.aggregates.num_rows, "matches": results.matches.num_rows},
        "engine": engine,
        "device": used,
        "plan": plan.id,
    }
    typer.echo(json.dumps(report), err=True)


def show(results: Results, say: Callable[[str], None]) -> None:
    """Tables of the first rows of each kind, and how many rows there are."""
    from api.tables import print_table

    for kind, table in (("aggregates", results.aggregates), ("matches", results.matches)):
        if table.num_rows:
            print_table(table, kind, ROWS_SHOWN)
    if not results.aggregates.num_rows and not results.matches.num_rows:
        say("no rows: nothing matched")
