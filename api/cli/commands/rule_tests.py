"""`sheaf test-rules`: do the queries of a workload give what its tests expect?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from typing import Literal as OneOf

import typer

from api.cli.completion import WorkloadName
from api.cli.terminal.colour import is_coloured
from api.cli.terminal.json_output import Json, echo_json
from api.cli.workload_files import open_workload
from workloads.errors import SheafError

_COLOURS = {"passed": "green", "failed": "red", "error": "red"}


def run_rule_tests(
    workload: WorkloadName,
    junit: Annotated[
        Path | None, typer.Option(metavar="OUT.xml", help="Write the outcomes as JUnit XML.")
    ] = None,
    engine: Annotated[
        OneOf["local", "oracle"],
        typer.Option(help="What computes: the engine of runs, or brute force by the definition."),
    ] = "local",
    as_json: Json = False,
) -> None:
    """Run the tests of a workload.

    The exit code is 1 where one fails, and each of these says why.
    """
    from api.rule_tests.junit import write_junit
    from api.rule_tests.run_tests import run_tests

    parsed, _ = open_workload(workload)
    if not parsed.tests:
        raise SheafError(
            f"{parsed.name} has no tests; add some under 'tests:', see docs/detection.md"
        )
    outcomes = []
    for outcome in run_tests(parsed, engine):
        outcomes.append(outcome)
        if not as_json:
            word: str = outcome.status
            if is_coloured():
                word = typer.style(word, fg=_COLOURS[word], bold=True)
            typer.echo(f"{word}: {outcome.name}")
            for reason in outcome.reasons:
                typer.echo("\n".join(f"    {line}" for line in reason.splitlines()))
    wrong = sum(outcome.status != "passed" for outcome in outcomes)
    if as_json:
        echo_json({"workload": parsed.name, "tests": [asdict(outcome) for outcome in outcomes]})
    else:
        typer.echo(f"{parsed.name}: {len(outcomes) - wrong:,} of {len(outcomes):,} tests passed")
    if junit is not None:
        write_junit(junit, parsed.name, parsed.file, outcomes)
    if wrong:
        raise typer.Exit(1)
