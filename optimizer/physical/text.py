"""A plan as text: the graph as a tree of lines, then what was decided and why."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.physical.pieces import computed_once
from optimizer.physical.plan import Operator, Plan

_NAME_WIDTH = 22
_LISTED = 6
_LINES = 40  # of one section


def render_text(plan: Plan) -> str:
    """The whole plan for a terminal, in plain characters and without colour."""
    parts = [_heading(plan), _graph(plan), _reasons(plan), _shared(plan), _candidates(plan)]
    parts += [_queries(plan), _obstacles(plan)]
    sections = [list(part) for part in parts]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _heading(plan: Plan) -> Iterator[str]:
    many = "query" if len(plan.queries) == 1 else "queries"
    yield f"{plan.id}: {plan.workload}, {len(plan.queries):,} {many}"
    yield f"solver   {plan.solver}, cost model {plan.model}, {plan.status}"
    yield (
        f"cost     {_number(plan.cost.shared)} {plan.cost.unit}; "
        f"query by query {_number(plan.cost.separate)}"
    )
    yield f"sharing  {_saving(plan)}"
    if plan.assumed:
        yield f"assumed  {_some(list(plan.assumed))}; give statistics or events to do better"


def _saving(plan: Plan) -> str:
    if plan.status == "optimal":
        return f"saves {_number(plan.objective)}, and nothing saves more"
    gap = 0.0 if not plan.bound else 100 * (1 - plan.objective / plan.bound)
    return f"saves {_number(plan.objective)} of at most {_number(plan.bound)} (gap {gap:.1f} %)"


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


def _shared(plan: Plan) -> Iterator[str]:
    """What each group of several queries computes once: the longest pieces that they share."""
    lines = []
    for number, pieces in computed_once(plan).items():
        for piece in pieces:
            who = _some(list(piece.queries))
            lines.append(f"  {', '.join(piece.steps)}: {plan.groups[number].engine}, for {who}")
    if lines:
        yield "computed once"
        yield from _most(lines)


def _candidates(plan: Plan) -> Iterator[str]:
    """Every candidate with its benefit, and why it was chosen or not, the best first."""
    if plan.candidates:
        yield f"candidates ({plan.model}, {plan.cost.unit})"
    ranked = sorted(plan.candidates, key=lambda c: (-c.benefit, c.id))
    lines = [
        f"  {_number(c.benefit):>14}  {', '.join(c.pattern)}: {_some(list(c.queries))}; {c.why}"
        for c in ranked
    ]
    yield from _most(lines)


def _queries(plan: Plan) -> Iterator[str]:
    """For each query that shares, the segments it is made of, and with whom it has each."""
    lines = []
    for group in plan.groups:
        users: dict[int, list[str]] = {}
        for name, numbers in (group.uses or {}).items():
            for number in dict.fromkeys(numbers):
                users.setdefault(number, []).append(name)
        for name, numbers in (group.uses or {}).items():
            parts = []
            for number in numbers:
                others = [other for other in users[number] if other != name]
                piece = ", ".join((group.segments or ())[number])
                parts.append(f"[{piece}]" + (f" with {_some(others)}" if others else ""))
            if any(len(users[number]) > 1 for number in numbers):
                lines.append(f"  {name}: {' then '.join(parts)}")
    if lines:
        yield "chopped"
        yield from _most(lines)


def _obstacles(plan: Plan) -> Iterator[str]:
    if plan.obstacles:
        yield "in common, but not shared"
        yield from _most([f"  {obstacle}" for obstacle in plan.obstacles])


def _most(lines: list[str]) -> Iterator[str]:
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"  and {len(lines) - _LINES:,} more: --format json lists all"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    more = len(names) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _number(value: float) -> str:
    """A number for people: whole ones as they are, others to four digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:,.4g}"
