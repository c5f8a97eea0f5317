"""`sheaf check`: is the workload right, and if not, where."""

from __future__ import annotations

from typing import Annotated

import typer

from api.cli.commands.run_options import OnError
from api.cli.workload_files import open_workload
from api.run_settings import OnError as OnErrorChoice
from workloads.errors import SheafError


def check(
    workloads: Annotated[list[str], typer.Argument(metavar="WORKLOAD", help="File or name.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every rewrite of every query.")
    ] = False,
    events: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Check types, attributes and keys against these events too: all of them are read.",
        ),
    ] = None,
    on_error: OnError = "stop",
) -> None:
    """Parse and validate; errors come with line, column, caret and hint."""
    wrong = 0
    for given in workloads:
        try:
            typer.echo(_report(given, explain))
            for note in () if events is None else _notes(given, events, on_error):
                typer.echo(f"note: {note}", err=True)
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


def _notes(given: str, path: str, on_error: OnErrorChoice) -> list[str]:
    """What the queries of a workload ask for and no event has; raises where they do not fit."""
    from engines.columns.occurrences import Occurrences
    from engines.input.batches import FileSource, named_columns
    from engines.input.event_table import Faults
    from optimizer.bind.binder import bind

    workload, _ = open_workload(given)
    source = FileSource(path, workload.stream, Faults(on_error))
    bound = bind(workload, source.kinds)
    source.assume(named_columns(bound))
    occurred, named = Occurrences(bound), named_columns(bound)
    for batch in source.batches([name for name in source.schema.names if name in named]):
        occurred.add(batch.table)
    return occurred.notes()


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
