"""`sheaf results`: what a service's job found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from typing import Literal as OneOf

import typer

from api.cli.commands.service import Server, connected, console, print_json
from api.cli.completion import JobId
from api.cli.terminal.json_output import Json


def results(
    job: JobId,
    query: Annotated[str | None, typer.Option(help="Only rows of this query.")] = None,
    kind: Annotated[
        OneOf["aggregates", "matches"] | None, typer.Option(help="Only rows of this kind.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of each kind that are shown.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Rows before the first shown.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="All of them, in a .csv, .parquet or .arrow file."),
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show what a job found, or fetch it into a file."""
    from api.cli.terminal.first_rows import print_rows

    with connected(server) as client:
        if out is not None:
            size = client.download(job, out, kind, query)
            typer.echo(f"{out}: {size:,} bytes", err=True)
            return
        found = client.results(job, query, offset, limit)
    if as_json:
        print_json(found)
        return
    for name in ("aggregates", "matches"):
        rows = [row.model_dump() for row in getattr(found, name)]
        if rows and kind in (None, name):
            print_rows(rows, name, offset, found.total[name], console())
