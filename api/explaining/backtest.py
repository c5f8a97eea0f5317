"""How often the rules of a workload would have raised an alert: by rule and day, over events."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import SheafError
from workloads.workload import Workload

if TYPE_CHECKING:
    from api.run_settings import OnError
    from engines.input.event_paths import EventPath

_ABOUT = ("title", "level", "tags")


def backtest(workload: Workload, events: EventPath, on_error: OnError = "stop") -> dict[str, Any]:
    """Alerts by rule and day as plain values, the noisiest rule first; those without any too."""
    import pyarrow.parquet as pq

    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.limits import BadRowError
    from engines.results.alerts_by_day import AlertsByDay
    from engines.run import run

    plan = plan_on_events(workload, events)
    counted = AlertsByDay(workload.stream.unit, _aggregates(workload))
    with tempfile.TemporaryDirectory(prefix="sheaf-backtest-") as folder:
        sink = RowSink(str(Path(folder) / "rows.parquet"))
        try:
            report = run(plan, EventSource(events, on_error), sink, Execution("local"))
        except BadRowError as error:
            raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
        for file in report.files:
            with pq.ParquetFile(file) as read:
                for number in range(read.num_row_groups):
                    counted.add(read.read_row_group(number, columns=["query", "time"]))
    days = counted.days
    rules = []
    for query in workload.queries:
        by_day = counted.of_query(query.name or "")
        rules.append(
            {
                "query": query.name,
                **_about(query),
                "alerts": sum(by_day.values()),
                "by_day": {counted.shown_day(day): number for day, number in by_day.items()},
            }
        )
    rules.sort(key=lambda rule: (-rule["alerts"], str(rule["query"])))
    return {
        "workload": workload.name,
        "events": report.events,
        "alerts": sum(rule["alerts"] for rule in rules),
        "days": [counted.shown_day(day) for day in days],
        "rules": rules,
        "stopped": dict(report.ledger.stopped),
        "notes": list(report.notes),
    }


def _aggregates(workload: Workload) -> dict[str, int]:
    """How many rows a window of each aggregate query is reported in."""
    return {
        query.name or "": len(query.output.items)
        for query in workload.queries
        if isinstance(query.output, sx.Aggregates) and query.output.items
    }


def _about(query: sx.Query) -> dict[str, Any]:
    """What a rule says of itself in its alerts."""
    items = query.output.items if isinstance(query.output, sx.Return) else ()
    found = {
        item.name: item.value.value
        for item in items
        if item.name in _ABOUT and isinstance(item.value, ex.Literal)
    }
    return {name: found.get(name) for name in _ABOUT}
