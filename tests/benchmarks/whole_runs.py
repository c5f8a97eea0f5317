"""Whole runs, from a file of events to files of rows, as users start them: what they cost."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.measuring import BenchmarkError, Measured, Size

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.execution import RunReport
    from optimizer.plan.plan import Plan
    from workloads.workload import Workload

NAME = "whole"
ROUNDS = 3
LONG_SECONDS = 40.0  # what takes longer is measured once


@dataclass(frozen=True)
class Asked:
    """How much of it is to be measured: with `is_largest` 20 M events on Spark."""

    size: Size
    is_largest: bool
    folder: Path

    def events(self, full: int, small: int = 3_000) -> int:
        """The number of events for a row."""
        return full if self.size == "full" else small


@dataclass(frozen=True)
class Cost:
    """Seconds on the wall and of processors; those of planning are in both, and apart."""

    wall: float
    cpu: float
    planning: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu, self.planning + other.planning)


@dataclass(frozen=True)
class Done:
    """What a variant cost, and how many rows each query gave."""

    cost: Cost
    rows: Mapping[str, int]


Way = Callable[[], Done]


def interleaved(ways: Mapping[str, Way], size: Size) -> dict[str, Cost]:
    """The medians of what each way costs.

    All of them run in turn, round after round, so that a disturbance of the machine meets all of
    them alike. Ways must give the same rows; those without rows are not compared.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    rows: dict[str, int] = {}
    for _ in range(ROUNDS if size == "full" else 1):
        for name, way in ways.items():
            if costs[name] and costs[name][0].wall > LONG_SECONDS:
                continue
            done = way()
            costs[name].append(done.cost)
            rows = rows or dict(done.rows)
            if done.rows and dict(done.rows) != rows:
                raise BenchmarkError(f"{name} gives other numbers of rows than the other ways")
    return {name: _median(found) for name, found in costs.items()}


def unlisted(done: Done) -> Done:
    """A run whose rows are those of other queries than its neighbours'."""
    return Done(done.cost, {})


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        median(cost.wall for cost in costs),
        median(cost.cpu for cost in costs),
        median(cost.planning for cost in costs),
    )


def measured(case: str, events: int, costs: Mapping[str, Cost]) -> Iterator[Measured]:
    """Lines with the seconds on the wall and of processors."""
    walls = {name: cost.wall for name, cost in costs.items()}
    spent = {name: cost.cpu for name, cost in costs.items()}
    yield Measured(NAME, "whole runs, time on the wall", case, events, walls)
    yield Measured(NAME, "whole runs, time of processors", case, events, spent)


class WholeRuns:
    """The ways to run a workload over a file of events, each with a folder for its rows."""

    def __init__(self, workload: Workload, events: str, folder: Path, name: str = "shared") -> None:
        self.workload, self.events, self.folder = workload, events, folder
        self._name = name

    def shared(self, threads: int | None = None) -> Done:
        """All queries as one plan."""
        return self._run(self.workload, self._name, True, threads)[0]

    def unshared(self) -> Done:
        """All queries in one run, each by itself: `--no-sharing`."""
        return self._run(self.workload, "unshared", False)[0]

    def one_by_one(self) -> Done:
        """A run for each query: each reads the events and writes a file."""
        from api.cli.workload_files import only_queries

        cost = Cost(0, 0)
        rows: dict[str, int] = {}
        for query in self.workload.queries:
            alone = only_queries(self.workload, [query.name or ""])
            done, _ = self._run(alone, f"only-{query.name}", True)
            cost += done.cost
            rows.update(done.rows)
        return Done(cost, rows)

    def report(self) -> RunReport:
        """What the shared run reports, which is not measured."""
        return self._run(self.workload, self._name, True)[1]

    def planned(self, sharing: bool = True) -> Plan:
        """The plan that `sheaf run` makes for these events."""
        return _planned(self.workload, self.events, sharing)

    def only_run(self, plan: Plan, name: str, threads: int | None = None) -> Done:
        """A run of a plan that was made before."""
        started = _clocks()
        report = self._of_plan(plan, name, threads)
        return Done(_since(started), report.rows)

    def alone_with_pyarrow(self, key: str | None) -> Way:
        """Read the columns that queries need, sort them by key and time, and write the rows that
        the queries give, which are made before: what no engine can do without."""
        import pyarrow.parquet as pq

        from engines.input.query_columns import needed_columns
        from optimizer.bind.binder import bind

        stream = self.workload.stream
        columns = needed_columns(bind(self.workload), pq.read_schema(self.events).names)
        order = [(name, "ascending") for name in (key, stream.time) if name is not None]
        rows = {path: pq.read_table(path) for path in self.report().files}

        def run() -> Done:
            started = _clocks()
            pq.read_table(self.events, columns=columns).sort_by(order)
            for path, table in rows.items():
                pq.write_table(table, Path(path).with_suffix(".pyarrow"))
            return Done(_since(started), {})

        return run

    def _run(
        self, workload: Workload, name: str, sharing: bool, threads: int | None = None
    ) -> tuple[Done, RunReport]:
        started = _clocks()
        plan = _planned(workload, self.events, sharing)
        planning = time.perf_counter() - started[0]
        report = self._of_plan(plan, name, threads)
        cost = _since(started)
        rows = {query: number for query, number in report.rows.items() if number}
        return Done(Cost(cost.wall, cost.cpu, planning), rows), report

    def _of_plan(self, plan: Plan, name: str, threads: int | None = None) -> RunReport:
        from engines.execution import EventSource, Execution, RowSink
        from engines.program import RunOptions
        from engines.run import run

        sink = RowSink(str(self.folder / f"{name}.parquet"))
        execution = Execution(options=RunOptions(threads=threads))
        return run(plan, EventSource(self.events), sink, execution)


def _planned(workload: Workload, events: str, sharing: bool) -> Plan:
    from api.planning.plan_on_events import plan_on_events

    return plan_on_events(workload, events, sharing)


def kernels_share(run: Callable[[], object]) -> float:
    """The part of a run's time that is spent in `kernels`, by Python's profiler.

    The profiler sees the functions that call compiled ones, and nothing of what is compiled.
    """
    import kernels

    folder = str(Path(str(kernels.__file__)).parent)
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(run)
    stats = pstats.Stats(profile)
    own: dict[tuple[str, int, str], float]
    own = {place: numbers[2] for place, numbers in stats.stats.items()}  # type: ignore[attr-defined]
    within = sum(seconds for (file, _, _), seconds in own.items() if file.startswith(folder))
    return within / sum(own.values())


def workload_of(stream: Mapping[str, Any], queries: Iterable[str]) -> Workload:
    """A workload of queries in text."""
    from workloads.loading import load_workload

    return load_workload({"stream": dict(stream), "queries": list(queries)})


def stored_in(folder: Path, name: str, table: pa.Table) -> str:
    """The path of a file with these events."""
    import pyarrow.parquet as pq

    path = str(folder / f"{name}.parquet")
    pq.write_table(table, path, row_group_size=250_000)
    return path


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(started: tuple[float, float]) -> Cost:
    wall, cpu = _clocks()
    return Cost(wall - started[0], cpu - started[1])
