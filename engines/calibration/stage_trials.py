"""Whole runs over generated streams, from file to file: what each of their operators takes.

A plan runs over the beginning of a stream and over the stream: the difference, for each operator,
is free of what a run does once. Rows that operators really gave take the place of expected ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.account import Account
from engines.execution import EventSource, RowSink, RunReport
from engines.input.event_table import from_table
from engines.run import run
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.cost.stages import ONE_SLICE, Stages
from optimizer.cost.unit_costs import DEFAULTS, Operations, UnitCosts, nanoseconds
from optimizer.ir.query import BoundWorkload
from optimizer.plan.operators import operators
from optimizer.plan.plan import (
    CONSTRUCTING,
    Operator,
    Plan,
    to_json,
)
from optimizer.statistics import Statistics

Planner: TypeAlias = Callable[[BoundWorkload, Mapping[str, Any], Statistics], Plan]
BEGINNING, EVENTS = 40_000, 300_000  # of a stream with an event each millisecond
MOST_TIMES = 3.0  # that a run in a process of its own is believed to take
LEAST = 0.002  # seconds of an operator that say something
STREAM = {
    "time": "ts",
    "unit": "ms",
    "type": "type",
    "attributes": {
        "k": "int",
        "n": "int",
        "x": "float",
        "name": "string",
        "note": "string",
    },
}
QUERIES: Mapping[str, tuple[str, ...]] = {
    "counts and few columns": (
        "QUERY a PATTERN SEQ(A, B) AGG COUNT(*) WITHIN 40 ms",
        "QUERY b PATTERN SEQ(B, C, D) AGG COUNT(*) WITHIN 80 ms",
    ),
    "counts by key": (
        "QUERY a PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT(*), SUM(b.x) WITHIN 2 s",
        "QUERY b PATTERN SEQ(C, D, E) WHERE [k] AGG COUNT(*) WITHIN 2 s",
        "QUERY c PATTERN SEQ(E e, !F f, G g) WHERE [k] AGG COUNT(*) WITHIN 2 s",
    ),
    "counts by two columns, tested": (
        "QUERY a PATTERN SEQ(A a, B b) WHERE [k, name] AND a.x > 0.3 AGG COUNT(*) WITHIN 30 s",
        "QUERY b PATTERN SEQ(C c, D d) WHERE [k, name] AND c.name = 'n7' AND d.x < 0.7 "
        "AGG COUNT(*) WITHIN 30 s",
        "QUERY c PATTERN SEQ(E e, F f) WHERE [k] AND e.n > 10 AND f.n > 20 AGG MAX(f.n) WITHIN 2 s",
    ),
    "texts": (
        "QUERY a PATTERN SEQ(A a, B b) WHERE [k] AND a.name = 'n3' AND b.note > 'a note, number 2' "
        "AGG COUNT(*) WITHIN 2 s",
        "QUERY b PATTERN SEQ(C c, D d) WHERE [name] AND c.name != 'n5' RETURN c.k, d.name "
        "WITHIN 100 ms",
    ),
    "matches of whole events": (
        "QUERY a PATTERN SEQ(A a, B b) WHERE [k] RETURN a, b WITHIN 2 s",
        "QUERY b PATTERN SEQ(A a, B b, C c) WHERE [k] RETURN a, b, c WITHIN 2 s",
    ),
    "matches of values": (
        "QUERY a PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a.x, b.k WITHIN 30 ms",
        "QUERY b PATTERN SEQ(C c, !D d, E e) RETURN c.n WITHIN 30 ms",
        "QUERY c PATTERN AND(F f, G g) RETURN f.k, g.k, g.name WITHIN 12 ms",
    ),
    "groups and negations": (
        "QUERY a PATTERN SEQ(A a, ALL B b, C c) WHERE [k] RETURN a.x, b.x, c.x WITHIN 2 s",
        "QUERY b PATTERN SEQ(D d, !E e, F f) WHERE [k] AND d.x > 0.5 RETURN d.k WITHIN 2 s",
        "QUERY c PATTERN SEQ(A a, B^2 b, D d) WHERE [k] RETURN a.k, d.x WITHIN 1 s",
    ),
    "few matches of two keys": (
        "QUERY a PATTERN SEQ(A a, B b) WHERE [k, name] AND a.x > 0.9 RETURN a, b WITHIN 2 s",
        "QUERY b PATTERN SEQ(C c, D d) WHERE [name] AND c.x > 0.95 RETURN c.x, d.x WITHIN 100 ms",
    ),
}


class StageMeasurement(NamedTuple):
    """What an operator of a trial took, and its operations, both for an event of the stream."""

    trial: str
    kind: str
    operations: Operations
    nanoseconds: float


def stage_table(events: int, seed: int = 0) -> pa.Table:
    """A stream of eight types, a hundred keys and two columns of texts."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.arange(events),
            "type": pa.array(np.array(list("ABCDEFGH"))[rng.integers(0, 8, events)]),
            "k": rng.integers(0, 100, events),
            "n": rng.integers(0, 50, events),
            "x": rng.random(events),
            "name": pa.array([f"n{i}" for i in range(20)]).take(
                pa.array(rng.integers(0, 20, events))
            ),
            "note": pa.array([f"a note, number {i}" for i in range(3_000)]).take(
                pa.array(rng.integers(0, 3_000, events))
            ),
        }
    )


def stage_measurements(
    planner: Planner, progress: Callable[[str], None] | None = None, events: int = EVENTS
) -> Iterator[StageMeasurement]:
    """What the operators of each trial took."""
    with tempfile.TemporaryDirectory(prefix="sheaf-calibrate-") as folder:
        table = stage_table(events)
        beginning = max(1_000, BEGINNING * events // EVENTS)
        for name, part in (("short", table.slice(0, beginning)), ("long", table)):
            pq.write_table(part, Path(folder, f"{name}.parquet"))
        for trial, queries in QUERIES.items():
            if progress is not None:
                progress(f"whole runs: {trial}")
            yield from _measured(planner, trial, queries, folder, table, beginning)


def _measured(
    planner: Planner,
    trial: str,
    queries: tuple[str, ...],
    folder: str,
    table: pa.Table,
    beginning: int,
) -> Iterator[StageMeasurement]:
    document = {"name": "trial", "stream": STREAM, "queries": list(queries)}
    workload = load_bound(document)
    statistics = measure(workload, from_table(table, workload.stream))
    plan = planner(workload, document, statistics)

    def ran(name: str) -> RunReport:
        pa.default_memory_pool().release_unused()  # a run has to ask for its memory
        source = EventSource(str(Path(folder, f"{name}.parquet")))
        return run(plan, source, RowSink(str(Path(folder, "rows.parquet"))))

    ran("short")  # compiles, or loads what was compiled
    short, long = (_quickest(ran(name).account, ran(name).account) for name in ("short", "long"))
    stages = Stages(plan.operators, workload, plan.groups, statistics)
    expected, seconds = stages.operations(), table.num_rows / stages.rate
    rows = {operator.id: operator.rows for operator in plan.operators}
    by_id = {operator.id: operator for operator in plan.operators}
    more = table.num_rows - beginning
    for operator in plan.operators:
        if operator.id not in expected or operator.kind == "counter":
            continue
        spent = long.nanoseconds[operator.id] - short.nanoseconds[operator.id]
        if spent < LEAST * 1e9:
            continue
        operations = expected[operator.id].one_slice.times(seconds)
        if operator.kind in ("output", "sink"):
            wanted = (rows[operator.id] or 0.0) * seconds
            if not wanted:
                continue
            visited = operations.output_events
            operations = operations.times(long.rows_out[operator.id] / wanted)
            operations = operations._replace(output_events=visited)
        elif operator.kind in CONSTRUCTING:
            touched = (operator.cost / DEFAULTS.each.joined) * seconds
            taken = sum(_rows_of(by_id[source], long, rows, seconds) for source in operator.inputs)
            touched -= nanoseconds(operations, DEFAULTS) / DEFAULTS.each.joined
            kind = {"group_rows" if operator.kind == "group" else "node_rows": taken}
            operations = Operations(joined=max(0.0, touched), **kind)
        yield StageMeasurement(
            trial, operator.kind, operations.times(1 / table.num_rows), spent / more
        )


def _quickest(one: Account, other: Account) -> Account:
    """The account of two equal runs with the less disturbed time of each operator."""
    for id, spent in other.nanoseconds.items():
        one.nanoseconds[id] = min(one.nanoseconds.get(id, spent), spent)
    return one


def _rows_of(
    operator: Operator, account: Account, rows: Mapping[str, float | None], seconds: float
) -> float:
    """The rows that an operator gave, or those that it was expected to."""
    given = account.rows_out.get(operator.id)
    return float(given) if given is not None else (rows[operator.id] or 0.0) * seconds


# Runs a plan and prints the CPU seconds that it took.
_RUN = """
import json, sys
from engines.run import EventSource, RowSink, run
from optimizer.plan.plan import from_json
plan = from_json(json.load(open(sys.argv[1])))
print(run(plan, EventSource(sys.argv[2]), RowSink(sys.argv[3])).cpu_seconds)
"""
OWN_PROCESS = ("counts by key", "matches of whole events", "matches of values")


def own_process_factor(planner: Planner, unit_costs: UnitCosts, events: int = EVENTS) -> float:
    """How many times as long runs take in a process of their own as these costs predict.

    Operations are measured in a process that has run them before: its memory and its caches are
    warm, which a user's are not.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="sheaf-calibrate-") as folder:
        table, stored = stage_table(events, seed=1), str(Path(folder, "events.parquet"))
        pq.write_table(table, stored)
        for trial in OWN_PROCESS:
            document = {"name": "trial", "stream": STREAM, "queries": list(QUERIES[trial])}
            workload = load_bound(document)
            statistics = measure(workload, from_table(table, workload.stream))
            plan = planner(workload, document, statistics)
            costs = _recosted(plan, workload, statistics, unit_costs)
            expected = sum(costs) * table.num_rows / statistics.total_rate / 1e9
            Path(folder, "plan.json").write_text(json.dumps(to_json(plan)), encoding="utf-8")
            command = [sys.executable, "-c", _RUN, str(Path(folder, "plan.json")), stored]
            command.append(str(Path(folder, "rows.parquet")))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0 and expected > 0:
                found.append(float(done.stdout) / expected)
    if not found:
        return 1.0
    return float(np.clip(np.exp(np.mean(np.log(found))), 1.0, MOST_TIMES))


def _recosted(
    plan: Plan, workload: BoundWorkload, statistics: Statistics, unit_costs: UnitCosts
) -> list[float]:
    """What the operators of a plan take by other costs, over a stream that is not cut."""
    made = operators(workload, plan.groups, statistics, unit_costs, plan.sharing)
    return [operator.detail.get(ONE_SLICE, operator.cost) for operator in made]
