"""`sheaf why`: why a query gives rows, or what the nearest miss lacked."""

from __future__ import annotations

from typing import Annotated

import typer

from api.cli.commands.run_options import OnError, Paths
from api.cli.completion import WorkloadName
from api.cli.terminal.json_output import Json, echo_json
from api.cli.terminal.progress import waiting
from api.cli.workload_files import open_workload


def why(
    workload: WorkloadName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A query's name, or a rule's id.")],
    events: Paths,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Ask about matches around this time of the stream."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="K", help="Ask about this key: a value, 'a=1,b=2', or JSON."),
    ] = None,
    on_error: OnError = "stop",
    as_json: Json = False,
) -> None:
    """Say why a query matched, or did not.

    Without a match: what was found of each component, and where the nearest miss failed.
    """
    from api.explaining.why import why as explained
    from engines.input.event_paths import given_paths
    from engines.why.text import render_why

    parsed, _ = open_workload(workload)
    paths = given_paths(events, parsed.stream.sources)
    with waiting("looking for what is missing"):
        found = explained(parsed, query, paths, at, key, on_error)
    if as_json:
        echo_json(found)
    else:
        typer.echo(render_why(found))
