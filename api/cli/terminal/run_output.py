"""What a run shows at its end: the first rows of each query, and a line about the run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from api.cli.terminal.first_rows import QueryRows, lines_each, print_first_rows, rows_of_queries
from api.cli.terminal.progress import shown_seconds

if TYPE_CHECKING:
    from engines.execution import RunReport
    from optimizer.plan.plan import Plan

AGGREGATES_EACH = 8  # of a query that share a line, at most
SHOWN_SECONDS = 10.0  # from which on tenths do not matter


def rows_wanted(queries: int) -> int:
    """The first rows of each query that a run has to keep for `show_first_rows`."""
    return lines_each(queries) * AGGREGATES_EACH


def query_rows(plan: Plan, report: RunReport) -> list[QueryRows]:
    """The first rows of each query of a plan, also of those without any."""
    assert report.first is not None
    return rows_of_queries(report.first, {name: report.rows.get(name, 0) for name in plan.written})


def show_first_rows(plan: Plan, report: RunReport) -> None:
    """A table of the queries, their rows, and the first of these."""
    from rich.console import Console

    if not any(report.numbers):
        typer.echo("no rows: nothing matched")
        return
    found = query_rows(plan, report)
    print_first_rows(found, Console(highlight=False), lines_each(len(found)))


def is_report_wanted(asked: bool) -> bool:
    """Whether a run ends with its report as a line of JSON, or with a sentence."""
    return asked or not sys.stderr.isatty()


def summary(plan: Plan, report: RunReport) -> str:
    """A run in a sentence: events, rows, seconds, and its plan."""
    passed = sum(report.seconds.values())
    took = f"{passed:.1f} s" if passed < SHOWN_SECONDS else shown_seconds(passed)
    parts = [
        _number(report.events, "event", "events"),
        _number(sum(report.numbers), "row", "rows"),
        took,
        f"{plan.id} ({_sharing(plan)})",
    ]
    return " · ".join(parts)


def first_rows_document(plan: Plan, report: RunReport) -> dict[str, Any]:
    """What `--json` adds to the report: the files written, and the first rows by query."""
    first = {} if report.first is None else {q.query: q.first for q in query_rows(plan, report)}
    return {"files": report.files, "first": first}


def _sharing(plan: Plan) -> str:
    if not plan.sharing:
        return "sharing is off"
    saved = plan.cost.separate - plan.cost.shared
    part = saved / plan.cost.separate if plan.cost.separate else 0.0
    return f"sharing saves {100 * part:.0f} % of CPU" if part >= 0.005 else "nothing to share"


def _number(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
