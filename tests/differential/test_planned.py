"""Queries give the same rows on every engine that a plan may put them on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.local.run import run_events
from engines.program import Program, bound_program
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from tests.differential.test_counting import comparable
from tests.running import How, run_local, unit_of
from workloads.loading import load_workload
from workloads.workload import to_document

DOCUMENT = {
    "stream": {"time": "ts", "unit": "ms", "type": "kind"},
    "statistics": {"rates": {"A": 200.0, "B": 1.0, "C": 200.0, "D": 200.0, "E": 200.0}},
    "queries": [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*), SUM(c.x) WITHIN 300 ms",
        "QUERY two PATTERN SEQ(D d, B b, C c) AGG COUNT(*) WITHIN 300 ms",
        "QUERY three PATTERN SEQ(A a, B b, !E, C c, D d) AGG COUNT(*), MAX(a.x) WITHIN 300 ms",
        "QUERY rare PATTERN SEQ(B b, A a, D d) AGG COUNT(*) WITHIN 50 ms",
        "QUERY slides PATTERN SEQ(A a, C c) AGG COUNT(*) WITHIN 40 ms SLIDE 10 ms",
        "QUERY slower PATTERN SEQ(A a, C c, D d) AGG COUNT(*) WITHIN 80 ms SLIDE 20 ms",
    ],
}


def stream(size=3000):
    random = np.random.default_rng(1)
    kinds = random.choice(list("ABCDE"), size, p=[0.25, 0.01, 0.25, 0.25, 0.24])
    ts = np.cumsum(random.integers(0, 3, size))
    return pa.table({"ts": ts, "kind": kinds, "x": random.integers(0, 9, size)})


@pytest.fixture(scope="module")
def separate():
    workload = bind(load_workload(DOCUMENT))
    results = run_local(workload, from_table(stream(), workload.stream), how=How(sharing=False))
    return comparable(results.aggregates.to_pylist())


def rows(*groups):
    """The rows of a program of groups, each with its engine and the lengths of its segments."""
    workload = bind(load_workload(DOCUMENT))
    named = {query.name: query for query in workload.queries}
    units = tuple(
        unit_of([named[name] for name in names], engine, lengths)
        for names, engine, lengths in groups
    )
    outputs = {name: f"output of {name}" for name in named}
    program = Program(workload, units, outputs, "conditions")
    return rows_of(program)


def rows_of(program):
    context = How().context()
    events = from_table(stream(), program.workload.stream)
    found = run_events(program, events, context)
    assert not context.fallbacks.sentences  # its engines have counted
    return comparable(found.aggregates.to_pylist())


@pytest.mark.parametrize("engine", ["product", "aseq", "pretree", "chopconnect"])
def test_every_engine_gives_the_rows_of_separate_runs(engine, separate):
    lengths = {"one": (1, 2), "two": (1, 2), "three": (2, 2)}
    found = rows(
        (("one", "two", "three"), engine, lengths),
        (("rare",), engine, {}),
        (("slides",), engine, {}),
        (("slower",), engine, {}),
    )
    assert found == separate


def test_panes_give_the_rows_of_separate_runs(separate):
    found = rows(
        (("one", "two", "three"), "product", {}),
        (("rare",), "product", {}),
        (("slides", "slower"), "panes", {}),
    )
    assert found == separate


@pytest.mark.parametrize("model", ["aseq", "measured"])
@pytest.mark.parametrize("solver", ["greedy", "cpsat", "exhaustive"])
def test_a_plan_gives_the_rows_of_separate_runs(solver, model, separate):
    workload = load_workload(DOCUMENT)
    plan = make_plan(bind(workload), to_document(workload), solver, model)
    assert rows_of(bound_program(plan, bind(workload))) == separate
