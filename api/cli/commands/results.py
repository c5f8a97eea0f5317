"""`sheaf results`: what a service's job found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from typing import Literal as OneOf

import typer

from api.cli.commands.service import Server, connected, console, print_json
from api.cli.completion import JobId
from api.cli.terminal.json_output import Json
from workloads.errors import SheafError

if TYPE_CHECKING:
    from api.client import Client

Kind = OneOf["aggregates", "matches"]
KINDS: tuple[Kind, Kind] = ("aggregates", "matches")


def results(
    job: JobId,
    query: Annotated[str | None, typer.Option(help="Only rows of this query.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only rows of this kind.")] = None,
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
        typer.Option(
            metavar="PATH",
            help="All of them, in a .csv, .parquet or .arrow file; in two where both kinds are.",
        ),
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show what a job found, or fetch it into a file."""
    from api.cli.terminal.first_rows import print_rows

    with connected(server) as client:
        if out is not None:
            if (sort, order) != ("place", "asc"):
                raise SheafError("--sort and --order are for rows that are shown, not for --out")
            for path, wanted in _files(client, job, out, kind, query).items():
                size = client.download(job, path, wanted, query, key)
                typer.echo(f"{path}: {size:,} bytes", err=True)
            return
        found = client.results(job, query, offset, limit, key, sort, order)
    if as_json:
        print_json(found)
        return
    for name in KINDS:
        rows = [row.model_dump() for row in getattr(found, name)]
        if rows and kind in (None, name):
            print_rows(rows, name, offset, found.total[name], console())


def _files(
    client: Client, job: str, out: Path, kind: Kind | None, query: str | None
) -> dict[Path, Kind | None]:
    """The files that a job's rows go to: one for each kind that its queries give.

    They are named as 'run --out' names them. A query has rows of one kind.
    """
    from engines.run import kinds_of

    if kind is not None or query is not None:
        return {out: kind}
    given = kinds_of(client.get_plan(client.job(job).plan).physical)
    if not all(given):
        return {out: None}
    return {out.with_name(f"{out.stem}.{name}{out.suffix}"): name for name in KINDS}
