"""Results and what was left out, on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from engines.faults import Faults
    from engines.results import Results

ROWS_SHOWN = 20


def show(
    results: Results, say: Callable[[str], None], numbers: tuple[int, int] | None = None
) -> None:
    """Tables of the first rows of each kind, and how many rows there are.

    `numbers` are those where the results hold only the first.
    """
    from api.tables import print_table

    numbers = numbers or (results.aggregates.num_rows, results.matches.num_rows)
    kinds = (("aggregates", results.aggregates), ("matches", results.matches))
    for (kind, table), number in zip(kinds, numbers, strict=True):
        if table.num_rows:
            print_table(table, kind, ROWS_SHOWN, number=number)
    if not any(numbers):
        say("no rows: nothing matched")


def tell_faults(faults: Faults) -> None:
    """Say how many rows were left out, if any."""
    if faults.total:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(faults.counts.items()))
        typer.echo(f"left out {faults.total:,} rows ({kinds}); the first: {faults.first}", err=True)
