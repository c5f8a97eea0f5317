"""Parts of patterns over situations are joined once, and change no row."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.devices import opencl_devices
from engines.input.event_table import from_table
from engines.local.run import run_events
from engines.program import PassUnit, RunContext
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.plan.load_plan import load_plan
from optimizer.plan.plan import PlanError, to_json
from sharing.planner import make_plan
from tests.differential.test_live import rows_of, run_live
from tests.running import How, run_local
from tests.situations.random_situations import constraints, stream_of, streams
from workloads.errors import WorkloadError

DEFINED = {"A": "x > 0", "B": "y > 0", "C": "x = 1 GAP 2 ms"}
STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
LENGTHS = ("", "", "AT LEAST 2 ms", "AT MOST 3 ms")


@st.composite
def queries(draw: st.DrawFn) -> str:
    names = draw(st.permutations(list(DEFINED)))[: draw(st.integers(2, 3))]
    defined = []
    for name in names:
        condition, _, gap = DEFINED[name].partition(" GAP")
        gap = f" GAP{gap}" if gap else ""
        defined.append(f"{name} AS {condition} {draw(st.sampled_from(LENGTHS))}{gap}")
    ties = [draw(constraints(names[i - 1], names[i])) for i in range(1, len(names))]
    return (
        f"DEFINE {', '.join(defined)} PATTERN {' AND '.join(ties)} RETURN {', '.join(names)}, "
        f"count({names[0]}.x) AS n WITHIN {draw(st.integers(2, 12))} ms "
        f"EMIT {draw(st.sampled_from(['EARLY', 'COMPLETE']))}"
    )


@st.composite
def workloads(draw: st.DrawFn) -> Any:
    kept = []
    sequenced = draw(st.booleans())
    for text in draw(st.lists(queries(), min_size=3, max_size=6, unique=True)):
        try:
            load_bound({"stream": stream_of(sequenced), "queries": [text]})
        except WorkloadError as error:
            if "never matches" not in str(error):
                raise
            continue
        kept.append(text)
    kept = kept or ["DEFINE A AS x > 0 PATTERN A RETURN A WITHIN 5 ms"]
    return load_bound({"name": "some", "stream": stream_of(sequenced), "queries": kept})


@settings(max_examples=120, deadline=None)
@given(workloads(), streams(), st.booleans())
def test_a_shared_part_gives_each_query_its_own_rows(
    workload: Any, table: pa.Table, live: bool
) -> None:
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected
    if opencl_devices()[0]:
        how = How(device="opencl", insist=True)
        assert rows_of([run_local(workload, events, how=how)]) == expected
    if live:
        assert rows_of(run_live(workload, [(table, None)])) == expected


def several(*relations: str) -> list[str]:
    return [
        f"QUERY q{place} DEFINE A AS x > 0, B AS y > 0 PATTERN A {relation} B RETURN A, B "
        f"WITHIN {5 + place} s EMIT {'EARLY' if place % 2 else 'COMPLETE'}"
        for place, relation in enumerate(relations)
    ]


def planned(*relations: str, solver: Any = "greedy") -> Any:
    document = {"name": "w", "stream": STREAM, "queries": several(*relations)}
    return make_plan(load_bound(document), document, solver)


@pytest.mark.parametrize("solver", ["greedy", "cpsat", "exhaustive"])
def test_candidates_have_benefits_conflicts_and_reasons(solver: Any) -> None:
    plan = planned("overlaps", "overlaps", "during", "contains;overlaps", solver=solver)
    kinds = {c.kind for c in plan.candidates}
    assert {"situation", "superset", "equal relations"} <= kinds
    chosen = [c for c in plan.candidates if c.id in plan.chosen]
    (group,) = plan.groups
    saved = group.cost.separate - group.cost.shared
    assert sum(c.benefit for c in chosen) == pytest.approx(saved)
    (superset,) = [c for c in plan.candidates if c.kind == "superset"]
    assert superset.id in plan.chosen
    assert superset.queries == ("q0", "q1", "q2", "q3")
    assert superset.pattern == ("[x > 0] overlaps;contains;during [y > 0]",)
    (equal,) = [c for c in plan.candidates if c.kind == "equal relations"]
    assert superset.conflicts == (equal.id,)
    assert f"overlaps {superset.id}" in equal.why


def test_without_sharing_nothing_is_considered() -> None:
    document = {"name": "w", "stream": STREAM, "queries": several("overlaps", "during")}
    plan = make_plan(load_bound(document), document, sharing=False)
    assert plan.candidates == ()
    assert all(not group.shared for group in plan.groups)


def test_a_plan_that_was_written_and_read_shares_the_same() -> None:
    plan = planned("overlaps", "during")
    read = load_plan(to_json(plan))
    assert read == plan
    edited = copy.deepcopy(to_json(plan))
    edited["groups"][0]["shared"] = [{"q0": [0, 1], "q1": [1, 0]}]
    with pytest.raises(PlanError, match="other definitions"):
        load_plan(edited)
    edited["groups"][0]["shared"] = []
    assert load_plan(edited).groups[0].shared == ()


def test_a_program_reads_a_part_of_some_of_its_queries_too() -> None:
    document = {
        "name": "w",
        "stream": STREAM,
        "queries": several("overlaps", "during", "contains"),
    }
    workload = load_bound(document)
    program = How().program(workload)
    (unit,) = program.units
    assert isinstance(unit, PassUnit)
    assert len(unit.shared) == 1
    table = pa.table(
        {
            "ts": range(8),
            "kind": ["E"] * 8,
            "x": [0, 1, 1, 1, 1, 0, 1, 0],
            "y": [0, 0, 1, 1, 0, 1, 1, 1],
        }
    )
    events = from_table(table, workload.stream)
    every = run_local(workload, events).matches.to_pylist()
    only = program.of_queries(["q1", "q2"])
    some = run_events(only, events, RunContext()).matches.to_pylist()
    assert some == [row for row in every if row["query"] in ("q1", "q2")]
    assert some
