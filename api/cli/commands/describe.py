"""`sheaf describe`: what is in a file of events, and a first workload for them."""

from __future__ import annotations

from typing import Annotated

import typer

from api.cli.terminal.json_output import Json, echo_json


def describe(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="Parquet, CSV or JSON lines: file or folder.")
    ],
    workload: Annotated[
        bool, typer.Option("--workload", help="Only print the first workload, in YAML.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the columns of events, and write a first workload for them.

    `sheaf describe events.csv --workload > mine.yaml` is a workload that runs.
    """
    from api.describing.service import describe_events

    found = describe_events(events)
    if as_json:
        echo_json(found)
        return
    if workload:
        for note in found["notes"]:
            typer.echo(f"note: {note}", err=True)
        typer.echo(found["workload"], nl=False)
        return
    typer.echo(
        f"{found['path']}: {'all' if found['whole'] else 'the first'} {found['rows']:,} rows"
    )
    if found["from"] is not None:
        typer.echo(f"times from {found['from']} to {found['to']}")
    width = max(len(column["name"]) for column in found["columns"])
    for column in found["columns"]:
        role = f"  ({column['role']})" if column["role"] else ""
        values = ", ".join(column["examples"])
        about = f"{column['distinct']:,} values" + (
            f", {column['nulls']:,} empty" if column["nulls"] else ""
        )
        typer.echo(f"  {column['name']:<{width}}  {column['kind']:<6}  {about}: {values}{role}")
    for note in found["notes"]:
        typer.echo(f"note: {note}")
    typer.echo("")
    typer.echo(found["workload"], nl=False)
