"""`sheaf results`: what a service's job found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from typing import Literal as OneOf

import typer

from api.cli.commands.service import Json, Server, connected, console, print_json
from workloads.errors import SheafError


def results(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The id that the service gave it.")],
    query: Annotated[str | None, typer.Option(help="Only rows of this query.")] = None,
    kind: Annotated[
        OneOf["aggregates", "matches"] | None, typer.Option(help="Only rows of this kind.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of each kind that are shown.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Rows before the first shown.")] = 0,
    key: Annotated[
        str | None,
        typer.Option(help='Only rows of this key: a value such as u1, or {"user": "u1"}.'),
    ] = None,
    sort: Annotated[
        OneOf["place", "time", "value"], typer.Option(help="place: as they lie in the results.")
    ] = "place",
    order: Annotated[
        OneOf["asc", "desc"], typer.Option(help="desc: the last, or the largest, first.")
    ] = "asc",
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="All of them, in a .csv, .parquet or .arrow file."),
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show what a job found, or fetch it into a file."""
    from api.cli.terminal.tables import print_rows

    with connected(server) as client:
        if out is not None:
            if (sort, order) != ("place", "asc"):
                raise SheafError("--sort and --order are for rows that are shown, not for --out")
            size = client.download(job, out, kind, query, key)
            typer.echo(f"{out}: {size:,} bytes", err=True)
            return
        found = client.results(job, query, offset, limit, key, sort, order)
    if as_json:
        print_json(found)
        return
    for name in ("aggregates", "matches"):
        rows = [row.model_dump() for row in getattr(found, name)]
        if rows and kind in (None, name):
            print_rows(rows, list(rows[0]), name, limit, console(), found.total[name])
