"""`sheaf generate`: events that a bundled workload finds something in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def generate(
    name: Annotated[str, typer.Argument(help="A bundled workload: shop, stocks or hospital.")],
    out: Annotated[Path, typer.Option(help="Where to: .parquet, .csv or .jsonl.")],
    events: Annotated[
        int | None, typer.Option(min=0, help="How many; by default as many as suit it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Which of the many streams like this.")
    ] = None,
) -> None:
    """Write a stream for a bundled workload; the same seed gives the same events."""
    from workloads import bundled
    from workloads.generators import write_events

    spec = bundled.stream(name, events, seed)
    typer.echo(f"{write_events(spec, out)}: {spec.events:,} events")
