"""`sheaf generate`: events that a bundled workload finds something in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from api.cli.completion import bundled_names
from api.cli.terminal.json_output import Json, echo_json


def generate(
    name: Annotated[
        str,
        typer.Argument(
            help="A bundled workload: shop, funnels, stocks, hospital, driving or machines.",
            autocompletion=bundled_names,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to: .parquet, .csv or .jsonl.")],
    events: Annotated[
        int | None, typer.Option(min=0, help="How many; by default as many as suit it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Which of the many streams like this.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write events for a bundled workload.

    The same seed gives the same events.
    """
    from workloads import bundled
    from workloads.generators import write_events

    spec = bundled.stream(name, events, seed)
    path = write_events(spec, out)
    if as_json:
        echo_json({"file": str(path), "events": spec.events})
        return
    typer.echo(f"{path}: {spec.events:,} events")
