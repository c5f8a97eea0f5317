"""`sheaf check`: is the workload right, and if not, where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.cli.commands.run_options import CheckedPaths, OnError
from api.cli.completion import WorkloadNames
from api.cli.terminal.colour import echo_error, is_coloured
from api.cli.terminal.json_output import Json, echo_json
from api.cli.workload_files import open_workload
from api.run_settings import OnError as OnErrorChoice
from optimizer.bind.situation_notes import situation_notes
from workloads.errors import SheafError, WorkloadError
from workloads.imported_rules import refusals

if TYPE_CHECKING:
    from optimizer.ir.query import BoundWorkload


def check(
    workloads: WorkloadNames,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every rewrite of every query.")
    ] = False,
    events: CheckedPaths = None,
    on_error: OnError = "stop",
    as_json: Json = False,
) -> None:
    """Parse and validate workloads.

    Errors come all at once, with line, column, caret and hint.
    """
    wrong = 0
    documents = []
    for given in workloads:
        try:
            workload, bound = open_workload(given)
            notes = situation_notes(bound.queries)
            notes += [] if not events else _notes(given, events, on_error)
        except SheafError as error:
            wrong += 1
            documents.append(_refusal(given, error))
            if not as_json:
                text = str(error)
                echo_error(text if text.startswith("error:") else f"error: {text}")
        else:
            facts = {**_facts(bound), "refused": [asdict(rule) for rule in workload.refused]}
            documents.append({"workload": given, "ok": True, **facts, "notes": notes})
            if not as_json:
                typer.echo(_report(bound, explain))
                for rule in workload.refused:
                    typer.echo(f"note: {rule.render()}", err=True)
                for note in notes:
                    typer.echo(f"note: {note}", err=True)
    if as_json:
        echo_json(documents)
    if wrong:
        raise typer.Exit(1)


def _refusal(given: str, error: SheafError) -> dict[str, Any]:
    found = error.diagnostics if isinstance(error, WorkloadError) else ()
    errors = [asdict(diagnostic) for diagnostic in found] or [{"message": str(error)}]
    return {"workload": given, "ok": False, "errors": errors}


def _facts(bound: BoundWorkload) -> dict[str, Any]:
    from optimizer.ir.pattern import ANY_TYPE
    from optimizer.ir.query import Aggregation

    queries = bound.written
    keys = sorted({query.key for query in queries if query.key}, key=lambda key: (len(key), key))
    return {
        "name": bound.name,
        "queries": [query.name for query in queries],
        "aggregate": sum(isinstance(query.output, Aggregation) for query in queries),
        "types": sorted(bound.named_types - {ANY_TYPE}),
        "keys": [list(key) for key in keys],
    }


def _report(bound: BoundWorkload, explain: bool) -> str:
    if explain:
        from optimizer.explain.rewriting import explain_workload

        return explain_workload(bound)
    facts = _facts(bound)
    number, aggregate = len(facts["queries"]), facts["aggregate"]
    listed = ", ".join("+".join(key) for key in facts["keys"]) or "none"
    good = typer.style("ok", fg="green", bold=True) if is_coloured() else "ok"
    return (
        f"{facts['name']}: {good}, {_count(number, 'query', 'queries')} "
        f"({aggregate} AGG, {number - aggregate} RETURN), "
        f"{_count(len(facts['types']), 'type', 'types')}, keys: {listed}"
    )


def _notes(given: str, paths: Sequence[str], on_error: OnErrorChoice) -> list[str]:
    """What the queries of a workload ask for and no event has; raises where they do not fit."""
    from engines.columns.occurrences import Occurrences
    from engines.input.batches import FileSource
    from engines.input.event_paths import given_paths
    from engines.input.event_table import Faults
    from engines.input.query_columns import named_among, named_columns

    workload, _ = open_workload(given)
    path = given_paths(paths, workload.stream.sources)
    source = FileSource(path, workload.stream, Faults(on_error))
    bound = source.bind(workload)
    source.assume(named_columns(bound))
    occurred = Occurrences(bound)
    for batch in source.batches(named_among(bound, source.schema.names)):
        occurred.add(batch.table)
    return [*refusals(bound.refused), *occurred.notes()]


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
