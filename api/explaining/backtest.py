"""How often the rules of a workload would have raised an alert: by rule and day, over events."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.explaining.alerts import COLUMNS, alert_rules, alerts_by_rule
from workloads.errors import SheafError
from workloads.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

    from api.run_settings import OnError
    from engines.input.event_paths import EventPath


def backtest(workload: Workload, events: EventPath, on_error: OnError = "stop") -> dict[str, Any]:
    """Alerts by rule and day as plain values, the noisiest rule first; those without any too."""
    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.limits import BadRowError
    from engines.run import run

    plan = plan_on_events(workload, events)
    with tempfile.TemporaryDirectory(prefix="sheaf-backtest-") as folder:
        sink = RowSink(str(Path(folder) / "rows.parquet"))
        try:
            report = run(plan, EventSource(events, on_error), sink, Execution("local"))
        except BadRowError as error:
            raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
        found = alerts_by_rule(alert_rules(workload), _pieces(report.files))
    return {
        "workload": workload.name,
        "events": report.events,
        **found,
        "stopped": dict(report.ledger.stopped),
        "notes": list(report.notes),
    }


def _pieces(files: Sequence[str]) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    for file in files:
        with pq.ParquetFile(file) as read:
            for number in range(read.num_row_groups):
                yield read.read_row_group(number, columns=list(COLUMNS))
