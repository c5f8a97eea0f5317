"""A plan as text: the graph as a tree of lines, then what was decided and why."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.physical.plan import Operator, Plan

_NAME_WIDTH = 22
_LISTED = 6


def render_text(plan: Plan) -> str:
    """The whole plan for a terminal, in plain characters and without colour."""
    return "\n".join([*_heading(plan), "", *_graph(plan), "", *_reasons(plan)]) + "\n"


def _heading(plan: Plan) -> Iterator[str]:
    many = "query" if len(plan.queries) == 1 else "queries"
    yield f"{plan.id}: {plan.workload}, {len(plan.queries):,} {many}"
    yield f"solver   {plan.solver}, cost model {plan.model}, {plan.status}"
    yield (
        f"cost     {_number(plan.cost.shared)} {plan.cost.unit}; "
        f"query by query {_number(plan.cost.separate)}"
    )
    saved = f"saves {_number(plan.objective)}, at most {_number(plan.bound)} could be saved"
    yield f"sharing  {saved}"


def _graph(plan: Plan) -> Iterator[str]:
    """Each operator under the first that it reads; a sink is named on the lines that feed it."""
    sinks = {
        source: sink.id for sink in plan.operators if sink.kind == "sink" for source in sink.inputs
    }
    below: dict[str | None, list[Operator]] = {}
    for operator in plan.operators:
        if operator.kind != "sink":
            first = operator.inputs[0] if operator.inputs else None
            below.setdefault(first, []).append(operator)

    def lines(parent: str | None, indent: str) -> Iterator[str]:
        children = below.get(parent, [])
        for child in children:
            last = child is children[-1]
            branch = "" if parent is None else ("└─ " if last else "├─ ")
            yield f"{indent}{branch}{_line(child, sinks)}"
            deeper = "" if parent is None else ("   " if last else "│  ")
            yield from (f"{indent}{deeper}{line}" for line in _members(child))
            yield from lines(child.id, indent + deeper)

    yield from lines(None, "")


def _line(operator: Operator, sinks: dict[str, str]) -> str:
    detail = operator.detail
    match operator.kind:
        case "scan":
            columns = [
                f"{key} {detail[key]}" for key in ("time", "type", "sequence") if key in detail
            ]
            return f"scan: {', '.join(columns)}; unit {detail['unit']}"
        case "symbols":
            return f"symbols: {_some(detail['symbols'])}"
        case "partition":
            key = ", ".join(detail["key"])
            return f"partition by {key}" if key else "no partition"
        case "engine":
            within = detail["window"] + (f" every {detail['slide']}" if "slide" in detail else "")
            to = f" → {sinks[operator.id]}" if operator.id in sinks else ""
            if len(detail["queries"]) > 1:
                many = f"{len(detail['queries'])} queries together"
                return f"{many:<{_NAME_WIDTH}} {detail['engine']}: {within}{to}"
            name, pattern = detail["queries"][0], detail["patterns"][0]
            return f"{name:<{_NAME_WIDTH}} {detail['engine']}: {pattern}, {within}{to}"
        case "sink":
            return operator.id


def _members(operator: Operator) -> Iterator[str]:
    """The queries of a group of several, a line each."""
    names = operator.detail.get("queries", [])
    if len(names) > 1:
        for name, pattern in zip(names, operator.detail["patterns"], strict=True):
            yield f"· {name:<{_NAME_WIDTH - 1}} {pattern}"


def _reasons(plan: Plan) -> Iterator[str]:
    """Each reason once, with the queries that it is given for."""
    by_reason: dict[str, list[str]] = {}
    for group in plan.groups:
        by_reason.setdefault(group.why, []).append(" + ".join(group.queries))
    for why, queries in by_reason.items():
        who = "all" if len(queries) == len(plan.groups) > 1 else _some(queries)
        yield f"{who}: {why}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    more = len(names) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")
