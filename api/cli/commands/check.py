"""`sheaf check`: is the workload right, and if not, where."""

from __future__ import annotations

from typing import Annotated

import typer

from api.cli.workload_files import open_workload
from workloads.errors import SheafError


def check(
    workloads: Annotated[list[str], typer.Argument(metavar="WORKLOAD", help="File or name.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every rewrite of every query.")
    ] = False,
) -> None:
    """Parse and validate; errors come with line, column, caret and hint."""
    wrong = 0
    for given in workloads:
        try:
            typer.echo(_report(given, explain))
        except SheafError as error:
            text = str(error)
            typer.echo(text if text.startswith("error:") else f"error: {text}", err=True)
            wrong += 1
    if wrong:
        raise typer.Exit(1)


def _report(given: str, explain: bool) -> str:
    from optimizer.ir.query import Aggregation, events

    _, bound = open_workload(given)
    if explain:
        from optimizer.explain.rewriting import explain_workload

        return explain_workload(bound)
    queries = bound.queries
    aggregates = sum(isinstance(query.output, Aggregation) for query in queries)
    types = {event.symbol.type for query in queries for event in events(query.pattern)}
    keys = sorted({query.key for query in queries if query.key}, key=lambda key: (len(key), key))
    listed = ", ".join("+".join(key) for key in keys) or "none"
    return (
        f"{bound.name}: ok, {_count(len(queries), 'query', 'queries')} "
        f"({aggregates} AGG, {len(queries) - aggregates} RETURN), "
        f"{_count(len(types), 'type', 'types')}, keys: {listed}"
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
