"""How well plans predict what runs take: whole runs from file to file, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.measuring import BenchmarkError, Measured, Row, Said, Size

if TYPE_CHECKING:
    from optimizer.cost.unit_costs import UnitCosts
    from optimizer.plan.plan import Plan
    from optimizer.statistics import Statistics
    from workloads.workload import Workload

NAME = "plan-fidelity"
BUNDLED = {"shop": 1_000_000, "stocks": 100_000, "hospital": 500_000}  # events
RANDOM_WORKLOADS, RANDOM_EVENTS = 9, 1_500_000
FIRST_SEED = 20_000  # as in the benchmark of the model: what is checked was not fitted
BEGINNING = 2_000  # events
SMALL_EVENTS, SMALL_WORKLOADS = 20_000, 2
COLUMNS = ("measured", "default costs", "calibrated")
# What only makes others' rows: these take no time of their own.
TIMELESS = ("symbol", "events", "segment", "union")


@dataclass(frozen=True)
class Prepared:
    """A workload whose events are in a file, and what is known of them."""

    name: str
    parsed: Workload
    path: str
    statistics: Statistics | None


@dataclass(frozen=True)
class Ran:
    """What the operators of a run took, by id, and what is predicted of them; in seconds."""

    name: str
    events: int
    kinds: Mapping[str, str]
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    cpu: float
    unclaimed: float

    @property
    def ratio(self) -> float:
        """Predicted by measured, of the whole run."""
        return sum(self.predicted.values()) / self.cpu


def by_fidelity(size: Size) -> Iterator[Row]:
    """Predicted against measured CPU of whole runs, from file to file, in one process each.

    The bundled workloads and random ones of 'model', planned with default costs and with those of
    'sheaf calibrate', which are measured first if it has not run here. Predictions stand as if they
    were times: a ratio of 0.5× is half of what was measured.
    """
    from engines.calibration.machine_costs import known
    from optimizer.cost.unit_costs import DEFAULTS

    calibrated = known()
    if calibrated.is_default and size == "full":  # it takes a minute
        calibrated = _calibrated()
    runs: dict[str, list[Ran]] = {"default costs": [], "calibrated": []}
    with tempfile.TemporaryDirectory(prefix="sheaf-fidelity-") as folder:
        for prepared in _workloads(size, folder):
            first = _ran(prepared, DEFAULTS, folder, None)
            second = _ran(prepared, calibrated, folder, first)
            runs["default costs"].append(first)
            runs["calibrated"].append(second)
            yield Measured(
                NAME,
                "CPU of whole runs",
                prepared.name,
                first.events,
                {
                    "measured": first.cpu,
                    "default costs": first.ratio * first.cpu,
                    "calibrated": second.ratio * first.cpu,
                },
            )
    yield from _by_kind(runs)
    yield from (_said(costs, some) for costs, some in runs.items())


def _calibrated() -> UnitCosts:
    from engines.calibration.calibrate import calibrate
    from sharing.planner import make_plan

    return calibrate(
        planner=lambda bound, text, known: make_plan(bound, text, statistics=known)
    ).unit_costs


def _workloads(size: Size, folder: str) -> Iterator[Prepared]:
    """Each with its events in a file."""
    import pyarrow.parquet as pq

    from api.cli.workload_files import open_workload
    from api.planning.plan_on_events import sample_events
    from engines.calibration.trials import STREAM, drawn
    from workloads import bundled
    from workloads.generators import write_events
    from workloads.loading import load_workload

    for name, events in BUNDLED.items():
        path = str(Path(folder, f"{name}.parquet"))
        wanted = events if size == "full" else SMALL_EVENTS // (10 if name == "stocks" else 1)
        write_events(bundled.stream(name, wanted), Path(path))
        yield Prepared(name, open_workload(name)[0], path, None)
    many, events = (
        (RANDOM_WORKLOADS, RANDOM_EVENTS) if size == "full" else (SMALL_WORKLOADS, SMALL_EVENTS)
    )
    for seed in range(FIRST_SEED, FIRST_SEED + many):
        trial = drawn(seed)
        path = str(Path(folder, f"{seed}.parquet"))
        pq.write_table(trial.table(events), path)
        parsed = load_workload(
            {"name": f"random_{seed}", "stream": STREAM, "queries": list(trial.queries)}
        )
        sample = sample_events(parsed, path)
        yield Prepared(trial.name, parsed, path, None if sample is None else sample.statistics)


def _plan(prepared: Prepared, costs: UnitCosts) -> Plan:
    from optimizer.bind.binder import bind
    from sharing.planner import make_plan
    from workloads.workload import to_document

    parsed = prepared.parsed
    return make_plan(
        bind(parsed), to_document(parsed), statistics=prepared.statistics, unit_costs=costs
    )


def _ran(prepared: Prepared, costs: UnitCosts, folder: str, before: Ran | None) -> Ran:
    """A run of the plan by these costs; one that ran before is not run again."""
    from engines.report import operator_accounts
    from optimizer.cost.stages import SLICE_EVENTS
    from optimizer.plan.plan import to_json

    document = to_json(_plan(prepared, costs))
    operators = document["operators"]
    found = before
    if before is None or before.kinds.keys() != {operator["id"] for operator in operators}:
        found = _measured(prepared, document, folder)
    assert found is not None
    is_cut = found.events > SLICE_EVENTS
    accounts = operator_accounts(operators, None, found.events, None, is_cut)
    predicted = {account.id: account.predicted_seconds or 0.0 for account in accounts}
    return Ran(
        prepared.name,
        found.events,
        found.kinds,
        found.measured,
        predicted,
        found.cpu,
        found.unclaimed,
    )


def _measured(prepared: Prepared, plan: Mapping[str, Any], folder: str) -> Ran:
    """A run by the command line, without predictions."""
    import pyarrow.parquet as pq
    import yaml

    from workloads.workload import to_document

    workload, planned = Path(folder, "workload.yaml"), Path(folder, "plan.json")
    workload.write_text(yaml.safe_dump(to_document(prepared.parsed)), encoding="utf-8")
    planned.write_text(json.dumps(plan), encoding="utf-8")
    command = [sys.executable, "-c", "from api.cli.main import main; main()", "run", str(workload)]
    command += ["--plan", str(planned), "--out", str(Path(folder, "rows.parquet")), "--events"]
    beginning = str(Path(folder, "beginning.parquet"))
    pq.write_table(pq.read_table(prepared.path).slice(0, BEGINNING), beginning)
    for path in (beginning, prepared.path):  # the first of them compiles kernels
        done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"{prepared.name} cannot be run: {done.stderr}")
    report = json.loads(done.stderr.splitlines()[-1])
    operators = [operator for operator in report["operators"] if not operator.get("unplanned")]
    return Ran(
        prepared.name,
        report["events"],
        {operator["id"]: operator["kind"] for operator in operators},
        {operator["id"]: operator["cpu_seconds"] for operator in operators},
        {},
        report["cpu_seconds"],
        report["unclaimed_seconds"],
    )


def _by_kind(runs: Mapping[str, list[Ran]]) -> Iterator[Measured]:
    """All runs together, by kind of operator."""
    seconds: dict[str, dict[str, float]] = {}
    for costs, some in runs.items():
        for ran in some:
            for id, kind in ran.kinds.items():
                if kind in TIMELESS:
                    continue
                each = seconds.setdefault(kind, dict.fromkeys(COLUMNS, 0.0))
                each[costs] += ran.predicted.get(id, 0.0)
                if costs == "default costs":
                    each["measured"] += ran.measured[id]
    events = sum(ran.events for ran in runs["default costs"])
    for kind, each in seconds.items():
        if each["measured"] > 0:
            yield Measured(NAME, "CPU by kind of operator, all runs", kind, events, each)


def _said(costs: str, runs: list[Ran]) -> Said:
    within = {
        times: sum(1 / times <= ran.ratio <= times for ran in runs) / len(runs) for times in (2, 4)
    }
    unclaimed = [ran.unclaimed / ran.cpu for ran in runs if ran.cpu >= 1]
    worst = max(unclaimed, default=0.0)
    return Said(
        NAME,
        f"With {costs}, predicted CPU is within 2 times of measured for {within[2]:.0%} and within "
        f"4 times for {within[4]:.0%} of {len(runs)} whole runs. Of runs of a second or more, no "
        f"operator claims at most {worst:.1%} of the CPU.",
        {"runs": len(runs), "within 2": within[2], "within 4": within[4], "unclaimed": worst},
    )
