"""What a plan would be with some of its queries left out, or with other windows.

Nothing is kept: the changed workload is planned by the statistics and the costs of the plan that is
asked about, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from api.planning.service import check_candidates
from optimizer.bind.binder import bind
from optimizer.explain.query_text import query_table
from optimizer.explain.svg import render_svg
from optimizer.explain.text import PlanText
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.plan.load_plan import costs_rest_on
from optimizer.plan.plan import Plan, from_json
from sharing.planner import PlanOptions, plan
from workloads import syntax as sx
from workloads.errors import QueryError, SheafError, did_you_mean
from workloads.loading import load_workload
from workloads.parser import parse_part, parse_query
from workloads.printing import print_duration, print_query
from workloads.workload import Workload, to_document

MOST_WINDOWS = 6  # of other queries that are tried for one


class WhatIfError(SheafError):
    """A change that cannot be made to a plan's workload."""


@dataclass(frozen=True)
class Changes:
    """Queries that are left out, and windows of queries, such as `10 min`, by their names."""

    without: tuple[str, ...] = ()
    windows: Mapping[str, str] = field(default_factory=dict)


def what_if(
    document: Mapping[str, Any], changes: Changes, max_candidates: int, seconds: float
) -> dict[str, Any]:
    """What the plan of this document costs before and after the changes, as a whole and by query,
    and the picture of the changed plan."""
    before = from_json(document)
    after = _planned(document, changed(_workload(document), changes), max_candidates, seconds)
    was = {row["name"]: row for row in query_table(PlanText(before))}
    return {
        "without": [name for name in before.queries if name in changes.without],
        "windows": dict(changes.windows),
        "before": _cost(before),
        "cost": _cost(after),
        "queries": [
            {
                "name": row["name"],
                "cost": row["cost"]["part"],
                "before": was[row["name"]]["cost"]["part"],
                "with": row["with"],
                "before_with": was[row["name"]]["with"],
            }
            for row in query_table(PlanText(after))
        ],
        "picture": render_svg(after),
    }


def other_windows(
    document: Mapping[str, Any], name: str, max_candidates: int, seconds: float
) -> list[dict[str, Any]]:
    """What the plan would cost if a query had the window of others that read events it reads,
    the cheapest first; a `WhatIfError` where its window cannot be changed by itself."""
    workload = _workload(document)
    query = _query(workload, name)
    found = []
    for window, users in _windows(workload, query, own_window(query)):
        text = print_duration(replace(window, inclusive=False))
        changes = Changes(windows={name: text})
        made = _planned(document, changed(workload, changes), max_candidates, seconds)
        row = next(row for row in query_table(PlanText(made)) if row["name"] == name)
        found.append({"window": text, "of": users, "cost": _cost(made), "with": row["with"]})
    return sorted(found, key=lambda each: each["cost"]["shared"])


def changed(workload: Workload, changes: Changes) -> Workload:
    """The workload with the changes; a `WhatIfError` names what cannot be."""
    for name in (*changes.without, *changes.windows):
        _query(workload, name)
    left = [query for query in workload.queries if query.name not in changes.without]
    if not left:
        raise WhatIfError("no query is left; leave one of them in")
    return replace(workload, queries=tuple(_changed(query, changes) for query in left), places=())


def own_window(query: sx.Query) -> sx.Duration:
    """A query's window; a `WhatIfError` says why it cannot be changed by itself."""
    if query.notation is not None:
        why = f"it is part of its text in {query.notation}"
    elif isinstance(query.pattern, sx.Join):
        why = "each side of its JOIN has one"
    elif query.within is None:
        why = "it has no WITHIN"
    else:
        return query.within
    raise WhatIfError(f"the window of '{query.name}' cannot be changed: {why}")


def _changed(query: sx.Query, changes: Changes) -> sx.Query:
    text = changes.windows.get(query.name or "")
    if text is None:
        return query
    own = own_window(query)
    try:
        window = replace(parse_part(text, "duration", 0, len(text)), inclusive=own.inclusive)
        printed = print_query(replace(query, within=window))
        return replace(parse_query(printed), number=query.number)
    except QueryError as error:
        raise WhatIfError(f"'{text}' is no window for '{query.name}': {error}") from error


def _windows(
    workload: Workload, query: sx.Query, own: sx.Duration
) -> list[tuple[sx.Duration, list[str]]]:
    """Windows of queries that read some of its types, with these queries, the nearest first."""
    bound = {each.name: each for each in bind(workload).queries}
    mine = _types(bound[query.name or ""])
    users: dict[Decimal, tuple[sx.Duration, list[str]]] = {}
    for other in workload.queries:
        if (window := other.within) is None or window.is_count != own.is_count:
            continue
        if window.size != own.size and _types(bound[other.name or ""]) & mine:
            users.setdefault(window.size, (window, []))[1].append(other.name or "")
    near = sorted(users.values(), key=lambda each: abs(each[0].size.ln() - own.size.ln()))
    return near[:MOST_WINDOWS]


def _types(query: Query) -> set[str]:
    return {event.symbol.type for event in events(query.pattern)}


def _workload(document: Mapping[str, Any]) -> Workload:
    return load_workload(document["document"])


def _query(workload: Workload, name: str) -> sx.Query:
    names = [query.name or "" for query in workload.queries]
    if name not in names:
        hint = did_you_mean(name, names)
        raise WhatIfError(f"the plan has no query '{name}'" + (f"; {hint}" if hint else ""))
    return workload.queries[names.index(name)]


def _planned(
    document: Mapping[str, Any], workload: Workload, max_candidates: int, seconds: float
) -> Plan:
    """The plan of a changed workload, made as the plan of the document was."""
    statistics, unit_costs = costs_rest_on(document)
    options = PlanOptions(
        document["solver"],
        document["model"],
        sharing=document.get("sharing", True),
        unit_costs=unit_costs,
        device="opencl" if any(g["device"] == "opencl" for g in document["groups"]) else "cpu",
        seconds=seconds,
    )
    made = plan(bind(workload), statistics, options, to_document(workload)).plan
    return check_candidates(made, max_candidates)


def _cost(made: Plan) -> dict[str, Any]:
    return {"separate": made.cost.separate, "shared": made.cost.shared, "unit": made.cost.unit}
