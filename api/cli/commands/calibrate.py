"""`sheaf calibrate`: what the operations of runs take on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.cli.terminal.json_output import Json, echo_json

if TYPE_CHECKING:
    from engines.calibration.calibrate import Calibration
    from optimizer.ir.query import BoundWorkload
    from optimizer.plan.plan import Plan
    from optimizer.statistics import Statistics

# The kernels of the table, by how the names of their operations begin.
_KERNELS = {
    "common to all": ("seen", "keyed", "spoken", "watched"),
    "product, taken back": ("reversible_",),
    "product, two stacks": ("stack_", "product_"),
    "panes": ("pane_",),
    "folds of columns": ("fold_",),
    "A-Seq and PreTree": ("tree_",),
    "SEM": ("sem_",),
    "Chop-Connect": ("chop_",),
    "A-Seq, PreTree, Chop-Connect": ("sorted_",),
    "trees of joins": ("joined", "node_", "group_"),
    "reading": ("read_",),
    "testing against symbols": ("text_", "tested", "numbered"),
    "ordering by key": ("key_", "arranged", "picked"),
    "making rows": ("aggregate_", "output_", "match_"),
    "sorting and writing": ("sunk_",),
}


def calibrate(
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="How long to measure counting and joining; 8 if not given."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure what runs take on this machine.

    It is kept for 'plan --model measured'.
    """
    from engines.calibration import calibrate as calibration
    from engines.calibration.machine_costs import save
    from engines.calibration.stage_trials import EVENTS
    from sharing.planner import make_plan

    def progress(text: str) -> None:
        typer.echo(f"measuring {text}", err=True)

    def planner(
        workload: BoundWorkload, document: Mapping[str, Any], statistics: Statistics
    ) -> Plan:
        return make_plan(workload, document, statistics=statistics)

    wanted = calibration.SECONDS if seconds is None else seconds
    events = round(EVENTS * min(1.0, wanted / calibration.SECONDS))
    found = calibration.calibrate(wanted, None if as_json else progress, planner, events)
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
        echo_json(document)
        return
    _show(found)
    typer.echo(f"Kept in {path}")


def _short(name: str) -> str:
    return name.partition("_")[2] or name


def _show(found: Calibration) -> None:
    from optimizer.cost.unit_costs import STAGES

    typer.echo(f"\n{found.unit_costs.source}\n\n{'kernel':<30}{'operation':<20}{'ns':>9}")
    costs = found.unit_costs.each._asdict()
    for kernel, prefixes in _KERNELS.items():
        for name, cost in costs.items():
            if name.startswith(prefixes):
                shown = name if name in STAGES else _short(name)
                typer.echo(f"{kernel:<30}{shown:<20}{cost:>9.2f}")
                kernel = ""
    typer.echo(
        f"\nFitted to {len(found.measured)} measurements; half of them are predicted within a "
        f"factor of {found.error:.2f}."
    )
