"""`LIMIT k`: every engine gives the matches that the reference gives, however events are cut."""

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.limits import Limits
from engines.local.run import run_events
from engines.local.slices import SliceSize
from engines.program import RunContext, RunOptions, bound_program
from engines.reference.oracle import run_oracle
from engines.results import first_matches
from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import DEFAULTS
from optimizer.engines import compact
from optimizer.plan.groups import CompactGroup
from optimizer.plan.operators import operators
from optimizer.statistics import Statistics
from tests.differential.agreement import check_live
from tests.differential.test_local import Case, events_of, multiset
from tests.differential.test_slices import cases, check
from tests.running import How, run_local
from tests.strategies import SHAPE, queries_with_rows

LIMITED = replace(SHAPE, outputs=("return",), limit=True, types=("A", "B", "C"))
# Few types and ties: the limit cuts through simultaneous events.
DENSE = replace(LIMITED, types=("A", "B"), local=False, constants=False, ties=False)
WAYS = (How(), How(sharing=False), How(detection="stepwise"))


@pytest.mark.parametrize("how", WAYS)
@given(case=queries_with_rows(LIMITED) | queries_with_rows(DENSE))
def test_any_query(how: How, case: Case) -> None:
    workload, rows = case
    events = events_of(workload, rows)
    expected = multiset(run_oracle(workload, events))
    for limits in (Limits(), Limits(chunk=2, search=0)):
        assert multiset(run_local(workload, events, limits, how)) == expected


@given(case=queries_with_rows(DENSE), seed=st.integers(0, 99))
def test_the_order_of_arrival_does_not_matter(case: Case, seed: int) -> None:
    workload, rows = case
    shuffled = random.Random(seed).sample(rows, len(rows))
    found = [run_local(workload, events_of(workload, r)) for r in (rows, shuffled)]
    assert multiset(found[0]) == multiset(found[1])


@given(case=queries_with_rows(DENSE))
def test_what_cannot_be_given_is_dropped_on_the_way(case: Case) -> None:
    workload, rows = case
    events = events_of(workload, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_matches, "MOST_HELD", 2)
        found = run_local(workload, events, Limits(chunk=2, search=0))
    assert multiset(found) == multiset(run_oracle(workload, events))


@given(cases(replace(DENSE, max_window=5), 10), st.sampled_from([1, 2, 7]))
@settings(max_examples=15, deadline=None)
def test_slices(case: Case, rows: int) -> None:
    check(case, SliceSize(rows, False), 3)


@given(cases(replace(DENSE, max_window=5), 10), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)


def test_the_first_by_time_of_each_last_event() -> None:
    """Two triggers; the groups of each in the order of their moments, shorter ones first."""
    workload = load_bound(
        {
            "name": "w",
            "stream": {"time": "ts", "type": "kind", "unit": "ms"},
            "queries": [
                "QUERY q PATTERN SEQ(A+ a, B b) RETURN a.ts, b.ts LIMIT 3 WITHIN 1 s",
                "QUERY one PATTERN SEQ(A a, B b) RETURN a.ts LIMIT 1 WITHIN 3 ms",
            ],
        }
    )
    kinds = [(1, "A"), (2, "A"), (3, "B"), (4, "A"), (5, "B")]
    rows = [{"ts": t, "kind": kind, "k": 0, "x": t, "y": 0} for t, kind in kinds]
    events = events_of(workload, rows)
    program, context = How(sharing=False).program(workload), RunContext()
    found = run_events(program, events, context).matches.to_pylist()
    given = {name: context.account.rows_out[output] for name, output in program.outputs.items()}
    assert given == {"q": 6, "one": 2}
    assert sorted(row["match"] for row in found if row["query"] == "q") == [
        '{"a":[{"ts":1},{"ts":2},{"ts":4}],"b":{"ts":5}}',
        '{"a":[{"ts":1},{"ts":2}],"b":{"ts":3}}',
        '{"a":[{"ts":1},{"ts":2}],"b":{"ts":5}}',
        '{"a":[{"ts":1}],"b":{"ts":3}}',
        '{"a":[{"ts":1}],"b":{"ts":5}}',
        '{"a":[{"ts":2}],"b":{"ts":3}}',
    ]
    # In (0, 3] the first A is at 1, in (2, 5] at 4.
    assert sorted(row["match"] for row in found if row["query"] == "one") == [
        '{"a":{"ts":1}}',
        '{"a":{"ts":4}}',
    ]


# What the engine `compact` takes: sequences of events and groups, without negation or ties.
LISTED = replace(
    DENSE, types=("A", "B", "C"), operators=("SEQ",), max_depth=1, negation=False, groups=False,
    group_conditions=False,
)  # fmt: skip


@given(case=queries_with_rows(LISTED))
def test_matches_in_order(case: Case) -> None:
    """Whatever the plan would choose, and however few matches are listed at once."""
    workload, rows = case
    (query,) = workload.queries
    assume(compact.refusal(query) is None)
    events = events_of(workload, rows)
    plan = How().plan(workload)
    group = CompactGroup((query.name,), "listed")
    graph = operators(workload, (group,), Statistics(), DEFAULTS)
    program = bound_program(replace(plan, groups=(group,), operators=graph), workload)
    expected = multiset(run_oracle(workload, events))
    for limits in (Limits(), Limits(chunk=1)):
        context = RunContext(RunOptions(limits=limits))
        assert multiset(run_events(program, events, context)) == expected
