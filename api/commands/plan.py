"""`sheaf plan`: what will run, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from typing import Literal as OneOf

import typer

from api.inputs import open_workload
from workloads.errors import SheafError

if TYPE_CHECKING:
    from optimizer.physical.plan import Plan

Solver = OneOf["greedy", "cpsat", "exhaustive"]
Model = OneOf["aseq", "measured"]
Format = OneOf["text", "json", "svg"]


def plan(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="File or name.")],
    events: Annotated[
        str | None, typer.Option(metavar="PATH", help="Events to measure rates from.")
    ] = None,
    solver: Annotated[Solver, typer.Option(help="How to choose what to share.")] = "greedy",
    model: Annotated[Model, typer.Option(help="How to estimate costs.")] = "aseq",
    format: Annotated[Format, typer.Option(help="How to show the plan.")] = "text",
    old: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="OLD.json", help="A plan to start from, and to compare with."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to assume what statistics do not tell.")
    ] = False,
) -> None:
    """Show the plan of a workload."""
    from engines.unit_costs import known
    from sharing.planner import make_plan
    from workloads.document import to_document

    previous = None if old is None else read_plan(old)
    parsed, bound = open_workload(workload)
    statistics = None
    if events is not None:
        from engines.events import column_kinds, from_table, read_table
        from engines.statistics import measure
        from optimizer.bind import bind

        table = read_table(events)
        bound = bind(parsed, column_kinds(table.schema))
        statistics = measure(bound, from_table(table, parsed.stream, events))
    made = make_plan(
        bound,
        to_document(parsed),
        solver,
        model,
        statistics,
        earlier=previous,
        strict=strict,
        unit_costs=known(),
    )
    typer.echo(show(made, format), nl=False)
    if previous is not None:
        typer.echo(_difference(previous, made), err=True)


def show(plan: Plan, format: Format) -> str:
    """The plan in the format asked for."""
    match format:
        case "text":
            from optimizer.physical.text import render_text

            return render_text(plan)
        case "svg":
            from optimizer.physical.svg import render_svg

            return render_svg(plan)
        case "json":
            from optimizer.physical.plan import to_json

            return json.dumps(to_json(plan), indent=2, ensure_ascii=False) + "\n"


def read_plan(path: Path) -> Plan:
    """A plan from the JSON that `--format json` wrote."""
    from optimizer.physical.plan import from_json

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SheafError(f"'{path}' is not a plan: it is not JSON") from error
    return from_json(document)


def _difference(old: Plan, new: Plan) -> str:
    """One line on what changed since the old plan."""
    if old.id == new.id:
        return f"the same as {old.id}"
    added = [name for name in new.queries if name not in old.queries]
    removed = [name for name in old.queries if name not in new.queries]
    parts = [f"added {', '.join(added)}"] if added else []
    parts += [f"removed {', '.join(removed)}"] if removed else []
    if old.cost.unit == new.cost.unit:
        parts.append(f"cost {old.cost.shared:,.6g} to {new.cost.shared:,.6g} {new.cost.unit}")
    return f"compared with {old.id}: " + "; ".join(parts or ["other statistics"])
