"""A run whose rows go to tables of Delta or Iceberg."""

from __future__ import annotations

import time
from pathlib import Path

from engines.execution import EventSource, Execution, MatchFormat, Monitor, RowSink, RunReport
from engines.results.chunks import ROW_KINDS
from engines.results.lake_place import LakePlace, replace_rows
from engines.results.own_tables import RowFiles, row_folder
from engines.run import kinds_of, run
from optimizer.plan.plan import Plan


def run_to_lake(
    plan: Plan,
    source: EventSource,
    place: LakePlace,
    match: MatchFormat,
    execution: Execution,
    monitor: Monitor,
) -> RunReport:
    """Rows go to Parquet first, which becomes all that the tables have."""
    kinds = kinds_of(plan)
    place.check_tables(kinds)
    with row_folder(Path(place.folder)) as folder:
        hidden = folder / "rows.parquet"
        report = run(plan, source, RowSink(str(hidden), both=True, match=match), execution, monitor)
        began = time.perf_counter()
        rows: RowFiles = {kind: folder / f"rows.{kind}.parquet" for kind in ROW_KINDS}
        report.files = write_to_lake(place, rows, kinds)
    written = report.seconds.get("write", 0.0) + time.perf_counter() - began
    report.seconds["write"] = round(written, 4)
    return report


def write_to_lake(place: LakePlace, rows: RowFiles, kinds: tuple[bool, bool]) -> list[str]:
    """Have rows in Parquet be all that the tables of their kinds have; gives the folders."""
    place.check_tables(kinds)
    tables = place.tables(kinds)
    for kind, folder in tables.items():
        replace_rows(place.table(folder), rows[kind])
    return [str(folder) for folder in tables.values()]
