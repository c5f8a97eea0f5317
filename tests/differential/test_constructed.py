"""Matches found by the trees of a plan are those of each query alone, and of the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from engines.input.event_table import Events, from_table
from engines.matching.trees import adaptive as choices
from engines.program import Counts, TreeUnit, bound_program
from engines.reference.oracle import run_oracle
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from optimizer.plan.groups import DeferredGroup, TreeGroup
from optimizer.plan.plan import (
    Plan,
    PlanError,
    from_json,
    to_json,
)
from optimizer.trees import quick_sharing
from sharing.planner import make_plan
from tests.differential.test_local import events_of, multiset
from tests.differential.test_trees import DENSE
from tests.running import How, run_local, run_trees
from tests.sharing.sequences import TYPES, detection
from tests.strategies import Row, event_rows, has_sequence, workloads

Case = tuple[BoundWorkload, list[Row]]


def with_rows(found: st.SearchStrategy[BoundWorkload], size: int = 10) -> st.SearchStrategy[Case]:
    return found.flatmap(
        lambda workload: st.tuples(
            st.just(workload), event_rows(has_sequence(workload), TYPES, max_size=size)
        )
    )


def settled(plan: Plan) -> Plan:
    """The plan as if nothing in it were assumed."""
    return replace(
        plan,
        groups=tuple(
            TreeGroup(group.queries, group.why, group.trees, group.cost, group.device)
            if isinstance(group, DeferredGroup)
            else group
            for group in plan.groups
        ),
    )


def check(case: Case, solver: Any = "greedy") -> Plan:
    workload, events = case[0], events_of(*case)
    plan = from_json(to_json(settled(make_plan(workload, {}, solver))))
    expected = multiset(run_oracle(workload, events))
    assert not any(isinstance(group, DeferredGroup) for group in plan.groups)
    assert multiset(run_local(workload, events, plan=plan)) == expected
    assert multiset(run_local(workload, events, how=How(sharing=False))) == expected
    event("shares" if any(len(group.queries) > 1 for group in plan.groups) else "does not")
    return plan


@given(with_rows(detection()), st.sampled_from(("greedy", "cpsat")))
@settings(max_examples=100)
def test_queries_with_much_in_common(case: Case, solver: str) -> None:
    check(case, solver)


@given(with_rows(workloads(replace(DENSE, types=("A", "B", "C")), max_queries=4)))
@settings(max_examples=40)
def test_any_queries(case: Case) -> None:
    check(case)


# --- how much is done ----------------------------------------------------------------------------

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}


def bound(patterns: list[str]) -> BoundWorkload:
    queries = [
        f"QUERY q{i} PATTERN {pattern} PARTITION BY k RETURN a WITHIN 60 ms"
        for i, pattern in enumerate(patterns)
    ]
    return load_bound({"name": "counted", "stream": STREAM, "queries": queries})


def stream_of(workload: BoundWorkload, number: int = 2500) -> Events:
    rng = np.random.default_rng(3)
    shares = np.array([4, 3, 2, 2, 1, 1, 1]) / 14
    columns = {
        "ts": pa.array(np.sort(rng.integers(0, number, number))),
        "kind": pa.array(rng.choice(list("ABCDEFG"), number, p=shares)),
        "k": pa.array(rng.integers(0, 3, number)),
        "x": pa.array(rng.integers(0, 5, number)),
    }
    return from_table(pa.table(columns), workload.stream)


def counted(
    workload: BoundWorkload, events: Events, how: How | None = None, plan: Plan | None = None
) -> tuple[Counts, Counter[Any]]:
    context = (how or How()).context()
    table = run_trees(workload, events, how=how, context=context, plan=plan)
    rows = Counter(
        (row["query"], row["start"], row["end"], row["match"]) for row in table.to_pylist()
    )
    return context.counts, rows


@pytest.mark.parametrize(
    ("kind", "patterns"),
    [
        (
            "prefix",
            [
                "SEQ(A a, B b, C c) WHERE a.x = b.x",
                "SEQ(A a, B b, D d) WHERE a.x = b.x",
                "SEQ(A x, B a, E e) WHERE x.x = a.x",
            ],
        ),
        ("suffix", ["SEQ(A a, C c, D d)", "SEQ(B a, C c, D d)", "SEQ(E a, C c, D d)"]),
        (
            "substring",
            [
                "SEQ(A a, C c, D d, B b) WHERE c.x = d.x",
                "SEQ(B a, C c, D d, A b) WHERE d.x = c.x",
            ],
        ),
        (
            "bitmark",
            [
                f"SEQ(A a, {one}B b, {other}D d)"
                for one in ("", "!E n, ", "!F n, ")
                for other in ("", "!E m, ", "!F m, ")
            ],
        ),
        (  # NEEL section V
            "prefix",
            [
                f"SEQ(A a, B b, {rest}) WHERE a.x = b.x"
                for rest in ("D d", "!C c, D d", "!E e, C c, D d", "D d, E e, F f", "D d, E e, G g")
            ],
        ),
    ],
)
def test_a_plan_makes_fewer_rows_than_queries_alone_or_by_the_quick_rule(
    kind: str, patterns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_sharing, "WORTH", 0)
    # All events are joined, so that what is made tells trees apart.
    monkeypatch.setattr(choices, "best_passing", lambda *given: None)
    workload = bound(patterns)
    events = stream_of(workload)
    known = measure(workload, events)
    plan = make_plan(workload, {}, "cpsat", statistics=known, propagation="push")
    assert kind in {c.kind for c in plan.candidates if c.id in plan.chosen}
    assert trees_of(plan, workload)
    planned, found = counted(workload, events, plan=plan)
    quick, by_rule = counted(workload, events, How())
    alone, separate = counted(workload, events, How(sharing=False))
    assert found == by_rule == separate
    assert planned.made < alone.made
    assert planned.made <= quick.made


def test_a_match_comes_once_for_each_query_that_wants_it() -> None:
    """Positives are joined once, and each query's negations are checked on them: these rule out
    little, and a pair takes a test."""
    patterns = [
        "SEQ(A a, !E n, B b) WHERE a.x < b.x AND n.x = 0",
        "SEQ(A a, !F n, B b) WHERE a.x < b.x AND n.x = 0",
        "SEQ(A a, B b) WHERE a.x < b.x",
        "SEQ(A a, B b, !F n) WHERE a.x < b.x AND n.x = 0",
    ]
    workload = bound(patterns)
    events = stream_of(workload)
    plan = make_plan(workload, {}, statistics=measure(workload, events))
    (group,) = plan.groups
    assert "bit-marking" in group.why
    (chosen,) = plan.chosen
    assert isinstance(group, TreeGroup)
    assert group.trees.keys() == {"q0", "q1", "q2", "q3"}
    assert all(_has_mark(tree, chosen) for tree in group.trees.values())
    planned, found = counted(workload, events, plan=plan)
    once, _ = counted(bound(patterns[2:3]), events, How())
    assert planned.made == once.made
    assert found == counted(workload, events, How(sharing=False))[1]


def test_what_negations_rule_out_is_not_joined_to_be_shared() -> None:
    """A join that begins behind what is negated takes less than checking all pairs."""
    workload = bound(["SEQ(A a, !B n, C b)", "SEQ(A a, !D n, C b)", "SEQ(A a, C b)"])
    events = stream_of(workload)
    plan = make_plan(workload, {}, statistics=measure(workload, events))
    assert not plan.chosen
    planned, found = counted(workload, events, plan=plan)
    alone, separate = counted(workload, events, How(sharing=False))
    assert found == separate
    assert (planned.tried, planned.made) == (alone.tried, alone.made)


def _has_mark(tree: Any, mark: str) -> bool:
    if isinstance(tree, dict):
        return tree.get("shared") == mark or any(_has_mark(v, mark) for v in tree.values())
    return isinstance(tree, list) and any(_has_mark(part, mark) for part in tree)


def test_trees_that_rest_on_assumptions_are_chosen_again() -> None:
    workload = bound(["SEQ(A a, B b, C c)", "SEQ(A a, B b, D d)"])
    plan = make_plan(workload, {})
    assert all(isinstance(group, DeferredGroup) for group in plan.groups)
    assert "chosen again on the events at hand" in plan.groups[0].why
    assert trees_of(plan, workload) == {}
    events, context = stream_of(workload), How().context()
    run_trees(workload, events, context=context, plan=plan)
    (decision,) = context.decisions
    assert (decision.what, decision.queries) == ("chosen", ("q0", "q1"))
    measured = make_plan(workload, {}, statistics=measure(workload, events))
    assert trees_of(measured, workload).keys() == {"q0", "q1"}
    context = How().context()
    run_trees(workload, events, context=context, plan=measured)
    assert not context.decisions


def trees_of(plan: Plan, workload: BoundWorkload) -> dict[str, Any]:
    """The trees that a plan has for queries, and does not leave to the events."""
    return {
        name: trees
        for unit in bound_program(plan, workload).units
        if isinstance(unit, TreeUnit) and unit.trees is not None
        for name, trees in unit.trees.items()
    }


def test_a_plan_of_another_query_is_refused() -> None:
    plan = make_plan(bound(["SEQ(A a, OR(B b, C c))"]), {})
    workload = bound(["SEQ(A a, B b)"])
    with pytest.raises(PlanError, match="has 2 trees for query q0"):
        run_local(workload, stream_of(workload, 50), plan=settled(plan))


def test_events_of_one_time_can_be_what_is_matched() -> None:
    query = "QUERY q PATTERN AND(A a, B b) WHERE a.time = b.time RETURN a.x, b.x WITHIN 60 ms"
    workload = load_bound({"name": "times", "stream": STREAM, "queries": [query]})
    table = pa.table({"ts": [1, 1, 2, 3, 3], "kind": list("ABABA"), "x": range(5)})
    events = from_table(table, workload.stream)
    found = run_local(workload, events, plan=make_plan(workload, {})).matches
    assert sorted(found["match"].to_pylist()) == [
        '{"a":{"x":0},"b":{"x":1}}',
        '{"a":{"x":4},"b":{"x":3}}',
    ]
