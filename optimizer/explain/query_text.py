"""What a plan does for one query: as text, and as values that a page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from optimizer.engines import label
from optimizer.explain.text import PlanText, amount, cpu, rate, some, unquoted, wrapped
from optimizer.plan.lineage import QueryOperators
from optimizer.plan.plan import Operator, Plan, PlanError
from workloads.errors import did_you_mean


def render_query(plan: Plan, name: str, verbose: bool = False) -> str:
    """What a plan does for one query; a `PlanError` where it has no such query."""
    _check_name(plan, name)
    sections = [_heading(plan, name, verbose), _way(plan, name, verbose)]
    sections += [_candidates(plan, name), _obstacles(plan, name)]
    further = (9, 22, 6, 6)  # columns, where a line is too long
    shown = [
        [text for line in part for text in wrapped(line, in_)]
        for part, in_ in zip(sections, further, strict=True)
    ]
    return "\n\n".join("\n".join(lines) for lines in shown if lines) + "\n"


def _heading(plan: Plan, name: str, verbose: bool) -> Iterator[str]:
    ways = QueryOperators(plan)
    output, group = ways.outputs[name], ways.groups[name]
    detail = output.detail
    key = f" for each {', '.join(detail['key'])}" if detail["key"] else ""
    every = f" every {detail['slide']}" if "slide" in detail else ""
    rows = "" if output.rows is None else f", {rate(output.rows)} rows a second"
    yield f"{name} of {plan.workload} ({plan.id})"
    yield f"pattern  {detail['pattern']}"
    yield f"gives    {', '.join(detail['gives'])}{key} within {detail['window']}{every}{rows}"
    others = [other for other in group.queries if other != name]
    together = f" with {some(others, None if verbose else 6)}" if others else " alone"
    yield f"runs     by {label(group.engine)}{together}"
    yield f"why      {group.why}"


def _way(plan: Plan, name: str, verbose: bool) -> Iterator[str]:
    ways = QueryOperators(plan)
    yield f"{'CPU/s':>9}{'rows/s':>9}  what it goes through, and who shares it"
    everyone = len(plan.queries)
    for operator in ways.of(name):
        cost = cpu(operator.cost) if operator.cost else ""
        rows = "" if operator.rows is None else rate(operator.rows)
        others = ways.others(operator, name)
        if operator.kind in ("sink", "output"):
            shared = ""
        elif len(others) == everyone - 1 > 1:
            shared = "; all queries"
        else:
            shared = f"; with {some(others, None if verbose else 6)}" if others else ""
        yield f"{cost:>9}{rows:>9}  {_said(operator)}{shared}"


def _said(operator: Operator) -> str:
    """What an operator does, in words."""
    detail = operator.detail
    match operator.kind:
        case "scan":
            return f"scan of {', '.join(operator.schema)}"
        case "conditions":
            return f"conditions of {len(detail['symbols'])} symbols, tested in one pass"
        case "symbol":
            return f"symbol {detail['symbol']}"
        case "partition":
            order = ", ".join(operator.order)
            return f"partition {operator.partitioning}, sorted by {order}; {operator.state}"
        case "events":
            return f"events {detail['symbol']} {operator.partitioning}"
        case "segment":
            return f"segment {', '.join(detail['steps'])}, counted once; {operator.state}"
        case "counter":
            called = label(detail["engine"])
            on = "" if detail["device"] == "cpu" else f" on {detail['device']}"
            return f"counter: {called}{on}; {operator.state}"
        case "pass":
            return f"pass {detail['pattern']}: {label(detail['engine'])}; {operator.state}"
        case "filter" | "join" | "walk" | "negation" | "group" | "semijoin":
            on = f" where {' AND '.join(detail['conditions'])}" if detail["conditions"] else ""
            return f"{operator.kind} {detail['pattern']}{on}; {operator.state}"
        case "marks":
            many = f"{detail['readers']} readers, {detail['checks']} negations checked once"
            return f"marks {detail['pattern']} for {many}; {operator.state}"
        case "union" | "stepwise" | "compact":
            return f"{operator.kind} {detail['pattern']}; {operator.state}"
        case "output":
            limit = f" LIMIT {detail['limit']}" if "limit" in detail else ""
            picks = f" {detail['picks']}" if "picks" in detail else ""
            return f"output {', '.join(detail['gives'])}{limit}{picks}"
        case "into":
            return f"into {detail['type']}: rows as events for {', '.join(detail['readers'])}"
        case "sink":
            return f"sink {detail['rows']}"


def _candidates(plan: Plan, name: str) -> Iterator[str]:
    mine = [c for c in plan.candidates if name in c.queries]
    if mine:
        yield "candidates that it is part of"
    chosen = set(plan.chosen)
    for c in sorted(mine, key=lambda c: (-c.benefit, c.id)):
        others = [other for other in c.queries if other != name]
        mark = "+" if c.id in chosen else "-"
        benefit = amount(c.benefit, c.unit)
        steps = ", ".join(map(unquoted, c.pattern))
        yield f"  {mark} {steps} with {some(others)}: {benefit}; {c.why}"


def _obstacles(plan: Plan, name: str) -> Iterator[str]:
    mine = obstacles_of(plan, name)
    if mine:
        yield "in common with others, but not shared"
        yield from (f"  {text}" for text in mine)


def _check_name(plan: Plan, name: str) -> None:
    if name not in plan.queries:
        hint = did_you_mean(name, plan.queries)
        raise PlanError(
            f"the plan has no query '{name}'; it has {some(plan.queries)}"
            + (f" ({hint})" if hint else "")
        )


def obstacles_of(plan: Plan, name: str) -> list[str]:
    """Sentences on what a query has in common with others and does not share."""
    whole = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return [text for text in plan.obstacles if whole.search(text.partition(": ")[2])]


def query_facts(plan_text: PlanText, name: str) -> dict[str, Any]:
    """What a plan does for one query, as plain values; a `PlanError` where it has no such query.

    For another query of the same plan, the same `plan_text` saves most of the work.

    `cost` is what the operators of the query take: `own` those that it has for itself, `part` those
    as well as its part of those that it shares, in equal parts, `spared` what others pay of these.
    """
    plan, ways = plan_text.plan, plan_text.ways
    _check_name(plan, name)
    output, group = ways.outputs[name], ways.groups[name]
    detail = output.detail
    texts = plan.document.get("queries", ()) if plan.document else ()
    written = plan.written
    text = texts[written.index(name)] if name in written and len(texts) == len(written) else ""
    chosen = set(plan.chosen)
    return {
        "name": name,
        "text": str(text).strip(),
        "pattern": detail["pattern"],
        "kind": detail["rows"],
        "key": list(detail["key"]),
        "window": detail["window"],
        "slide": detail.get("slide"),
        "rows": output.rows,
        "engine": group.engine,
        "engine_label": label(group.engine),
        "together": [other for other in group.queries if other != name],
        "why": group.why,
        "cost": {
            **_cost(ways, name),
            "all": sum(o.cost for o in plan.operators),
            "unit": plan.cost.unit,
        },
        "shares": [
            {"what": unquoted(what), "with": [user for user in users if user != name]}
            for what, users in plan_text.shares[name]
        ],
        "not_chosen": [
            {
                "what": ", ".join(unquoted(step) for step in c.pattern),
                "with": [other for other in c.queries if other != name],
                "why": c.why,
            }
            for c in plan.candidates
            if name in c.queries and c.id not in chosen
        ],
        "obstacles": obstacles_of(plan, name),
    }


def query_table(plan_text: PlanText) -> list[dict[str, Any]]:
    """A row for each query of a plan: what it costs, what others pay of its way, and who they are.

    `cost` is as in `query_facts`.
    """
    plan, ways = plan_text.plan, plan_text.ways
    rows = []
    for name in plan.queries:
        output, group = ways.outputs[name], ways.groups[name]
        sharing = {user for _, users in plan_text.shares[name] for user in users} - {name}
        rows.append(
            {
                "name": name,
                "pattern": output.detail["pattern"],
                "engine": label(group.engine),
                "window": output.detail["window"],
                "rows": output.rows,
                "cost": _cost(ways, name),
                "with": [other for other in plan.queries if other in sharing],
            }
        )
    return rows


def _cost(ways: QueryOperators, name: str) -> dict[str, float]:
    """What the operators of a query take: its own, its part, and what others pay of them."""
    used = [(o.cost, len(ways.queries[o.id])) for o in ways.of(name)]
    part = sum(cost / users for cost, users in used)
    return {
        "own": sum(cost for cost, users in used if users == 1),
        "part": part,
        "spared": sum(cost for cost, _ in used) - part,
    }
