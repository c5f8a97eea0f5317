"""A run whose rows go to a file of all queries, and of which each query has one of its own."""

from __future__ import annotations

import time
from pathlib import Path

from engines.execution import EventSource, Execution, MatchFormat, Monitor, RowSink, RunReport
from engines.results.chunks import ROW_KINDS
from engines.results.own_tables import row_folder, write_rows_and_tables
from engines.run import kinds_of, run
from optimizer.plan.plan import Plan


def run_to_tables(
    plan: Plan,
    source: EventSource,
    path: str,
    match: MatchFormat,
    execution: Execution,
    monitor: Monitor,
) -> RunReport:
    """Rows go to Parquet first, of which the file of all rows and one of each query are made."""
    target = Path(path)
    with row_folder(target) as folder:
        hidden = folder / "rows.parquet"
        report = run(plan, source, RowSink(str(hidden), both=True, match=match), execution, monitor)
        assert report.bound is not None
        began = time.perf_counter()
        rows = {kind: folder / f"rows.{kind}.parquet" for kind in ROW_KINDS}
        report.files = write_rows_and_tables(*report.bound, rows, target, kinds_of(plan))
    written = report.seconds.get("write", 0.0) + time.perf_counter() - began
    report.seconds["write"] = round(written, 4)
    return report
