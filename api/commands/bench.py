"""`sheaf bench`: what is faster than what, and by how much, on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def bench(
    name: Annotated[
        str | None, typer.Argument(help="Which benchmark: queries, window or length; all if none.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    small: Annotated[bool, typer.Option("--small", help="A few seconds, to see that it works.")] = (
        False
    ),
) -> None:
    """Measure; every ratio compares times of one run."""
    from api.benchmarks import BENCHMARKS
    from workloads.errors import SheafError, did_you_mean

    if name is not None and name not in BENCHMARKS:
        hint = did_you_mean(name, BENCHMARKS) or f"known are {', '.join(BENCHMARKS)}"
        raise SheafError(f"no benchmark is called '{name}'; {hint}")
    for chosen in [name] if name is not None else BENCHMARKS:
        if not as_json:
            typer.echo(f"{chosen}: {(BENCHMARKS[chosen].__doc__ or '').splitlines()[0]}")
        for row in BENCHMARKS[chosen]("small" if small else "full"):
            if as_json:
                typer.echo(json.dumps(asdict(row) | {"ratios": row.ratios}))
                continue
            speeds = ", ".join(
                f"{variant} {speed / 1e6:.3g} M events/s"
                for variant, speed in row.events_per_second.items()
            )
            ratios = "".join(f"; {r:.3g} times {other}" for other, r in row.ratios.items())
            typer.echo(f"  {row.case:<28} {speeds}{ratios}")
