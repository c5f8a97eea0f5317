"""Rows as alerts: how many each rule of a workload raised, by day, the noisiest rule first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.loading import load_workload
from workloads.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

_ABOUT = ("title", "level", "tags")
COLUMNS = ("query", "time")  # of rows, that are read


def alert_rules(workload: Workload) -> dict[str, Any]:
    """The unit of a workload's times, and what each rule says of itself in its alerts, with the
    number of rows that one alert of it has."""
    rules = [
        {"query": query.name or "", **said_of(query), "rows": _rows_of_an_alert(query)}
        for query in workload.queries
    ]
    return {"unit": workload.stream.unit, "rules": rules}


def alert_rules_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """`alert_rules` of a workload's document."""
    return alert_rules(load_workload(document))


def alerts_by_rule(
    of: Mapping[str, Any], rows: Iterable[pa.Table | pa.RecordBatch]
) -> dict[str, Any]:
    """The numbers of alerts by rule and day, of rules as `alert_rules` has them."""
    from engines.results.alerts_by_day import AlertsByDay

    each = {rule["query"]: rule["rows"] for rule in of["rules"]}
    counted = AlertsByDay(of["unit"], each)
    for some in rows:
        counted.add(some)
    rules = []
    for rule in of["rules"]:
        by_day = counted.of_query(rule["query"])
        rules.append(
            {
                "query": rule["query"],
                **{name: rule[name] for name in _ABOUT},
                "alerts": sum(by_day.values()),
                "by_day": {counted.shown_day(day): number for day, number in by_day.items()},
            }
        )
    rules.sort(key=lambda rule: (-rule["alerts"], rule["query"]))
    return {
        "alerts": sum(rule["alerts"] for rule in rules),
        "days": [counted.shown_day(day) for day in counted.days],
        "rules": rules,
    }


def _rows_of_an_alert(query: sx.Query) -> int:
    """A window of an aggregate query is reported in a row for each of its aggregates."""
    return len(query.output.items) or 1 if isinstance(query.output, sx.Aggregates) else 1


def said_of(query: sx.Query) -> dict[str, Any]:
    """What a rule says of itself in its alerts: its title, level and tags."""
    items = query.output.items if isinstance(query.output, sx.Return) else ()
    found = {
        item.name: item.value.value
        for item in items
        if item.name in _ABOUT and isinstance(item.value, ex.Literal)
    }
    found |= {label.name: label.value for label in query.key_labels}
    return {name: found.get(name) for name in _ABOUT}
