"""`sheaf calibrate`: what the counting engines' operations take on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from engines.calibration import Calibration

# The kernels of the table, by how the names of their operations begin.
_KERNELS = {
    "common to all": ("seen", "keyed", "spoken", "watched"),
    "product, taken back": ("reversible_",),
    "product, two stacks": ("stack_", "product_"),
    "panes": ("pane_",),
    "A-Seq and PreTree": ("tree_",),
    "Chop-Connect": ("chop_",),
    "A-Seq, PreTree, Chop-Connect": ("sorted_",),
}


def calibrate(
    seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How long to measure; 8 if not given."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Measure what counting takes here and keep it for 'plan --model measured'."""
    from engines import calibration
    from engines.unit_costs import save

    def progress(text: str) -> None:
        typer.echo(f"measuring {text}", err=True)

    found = calibration.calibrate(
        calibration.SECONDS if seconds is None else seconds, None if as_json else progress
    )
    path = save(found.unit_costs)
    if as_json:
        document = {
            **found.unit_costs.to_document(),
            "error": found.error,
            "measurements": [
                {"trial": m.trial, "engine": m.engine, "nanoseconds": m.nanoseconds}
                for m in found.measured
            ],
            "file": str(path),
        }
        typer.echo(json.dumps(document))
        return
    _show(found)
    typer.echo(f"Kept in {path}")


def _show(found: Calibration) -> None:
    from dataclasses import asdict

    typer.echo(f"\n{found.unit_costs.source}\n\n{'kernel':<30}{'operation':<20}{'ns':>9}")
    costs = asdict(found.unit_costs.each)
    for kernel, prefixes in _KERNELS.items():
        for name, cost in costs.items():
            if name.startswith(prefixes):
                shown = name.partition("_")[2] or name
                typer.echo(f"{kernel:<30}{shown:<20}{cost:>9.2f}")
                kernel = ""
    typer.echo(
        f"\nFitted to {len(found.measured)} measurements; half of them are predicted within a "
        f"factor of {found.error:.2f}."
    )
