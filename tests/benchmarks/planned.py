"""Plans that benchmarks run: made on the statistics of the events, which no benchmark times."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.execution import Monitor
from optimizer.plan.groups import CountingGroup
from tests.benchmarks.found import Found, found_results
from tests.benchmarks.measuring import Clock, Variant

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.execution import RunReport
    from engines.input.event_table import Events
    from optimizer.ir.query import BoundWorkload
    from optimizer.plan.plan import Plan
    from optimizer.statistics import Statistics


def planned(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    events: Events,
    sharing: bool = True,
    counting: bool = True,
) -> Plan:
    """The plan of a workload for these events; without `sharing` each query is by itself."""
    from engines.statistics.measure import measure

    return planned_by(workload, document, measure(workload, events), sharing, counting)


def planned_by(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    statistics: Statistics | None,
    sharing: bool = True,
    counting: bool = True,
) -> Plan:
    """The plan of a workload for events of which so much is known."""
    from engines.calibration.machine_costs import known
    from sharing.planner import make_plan

    return make_plan(
        workload,
        document,
        statistics=statistics,
        sharing=sharing,
        unit_costs=known(),
        counting=counting,
    )


def planned_for(document: Mapping[str, Any], path: Path) -> Plan:
    """The plan of a workload for stored events, made on a sample of them as `sheaf run` does."""
    from engines.statistics.measure import sample_files
    from optimizer.bind.binder import bind
    from workloads.loading import load_workload
    from workloads.workload import to_document

    workload = load_workload(document)
    statistics = sample_files(workload, str(path)).statistics
    return planned_by(bind(workload), to_document(workload), statistics)


def with_product(plan: Plan) -> Plan:
    """The plan with all that it counts counted by the product."""
    groups = tuple(
        replace(group, engine="product") if isinstance(group, CountingGroup) else group
        for group in plan.groups
    )
    return replace(plan, groups=groups)


def in_memory(plan: Plan, workload: BoundWorkload, events: Events, question: str = "") -> Variant:
    """The operators of a plan over events in memory, up to tables of results."""
    from engines.local.run import run_events
    from engines.program import RunContext, bound_program

    program = bound_program(plan, workload)
    names = [query.name for query in workload.queries]
    return Variant(
        lambda: run_events(program, events, RunContext()),
        lambda results: found_results(results, names),
        question,
    )


class StageClock(Monitor):
    """The time that each stage of a run takes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stage, self._since = "", 0.0
        self.seconds: dict[str, float] = {}

    def on_stage(self, name: str) -> None:
        now = self._clock()
        if self._stage:
            before = self.seconds.get(self._stage, 0.0)
            self.seconds[self._stage] = before + now - self._since
        self._stage, self._since = name, now


@dataclass(frozen=True)
class StoredEvents:
    """A file of events, and a folder for files of results."""

    path: str
    folder: Path

    def running(self, plan: Plan, question: str = "", clock: Clock = time.perf_counter) -> Variant:
        """A whole run of a plan by the local engine.

        What counts is the time to run the plan: from events in memory, slice by slice, to tables of
        results, without that to read the events and to write the rows.
        """
        from engines.execution import EventSource, RowSink
        from engines.run import run

        source = EventSource(self.path)
        sink = RowSink(str(self.folder / f"{plan.id}.parquet"), both=True)

        def run_plan() -> tuple[RunReport, float]:
            stages = StageClock(clock)
            report = run(plan, source, sink, monitor=stages)
            return report, stages.seconds["run"]

        def found(done: tuple[RunReport, float]) -> Found:
            return _found(done[0].files, list(plan.queries))

        return Variant(run_plan, found, question, lambda done: done[1])


def _found(files: list[str], names: list[str]) -> Found:
    """The rows in the files of aggregates and of matches of a run."""
    import pyarrow.parquet as pq

    from engines.results.tables import Results

    aggregates, matches = map(pq.read_table, files)
    return found_results(Results(aggregates, matches), names)


@contextmanager
def stored(events: pa.Table | str) -> Iterator[StoredEvents]:
    """Events in a file while the block lasts: in the one that is named, or in one for a table."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="sheaf-bench-") as name:
        folder = Path(name)
        path = events if isinstance(events, str) else str(folder / "events.parquet")
        if not isinstance(events, str):
            pq.write_table(events, path)
        yield StoredEvents(path, folder)
