"""Events that are passed down from the last component change no match, only the work for them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import Limits
from engines.matching.trees import adaptive as choices
from engines.program import RunContext, bound_program
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.trees.propagation import best_passing, last_component
from tests.differential.test_local import events_of
from tests.differential.test_trees import (
    DENSE,
    LARGER,
    PLAIN_NEGATIONS,
    SEQUENCES,
    SHAPES,
    SMALL,
    cases,
    check,
    larger,
    matches,
    of_trees,
)
from tests.running import How, run_trees

WAYS = st.sampled_from(["pull", "pass-down"])
TIED = replace(SEQUENCES, types=("A", "B", "C"))


@given(cases(TIED), st.sampled_from(SHAPES), WAYS, st.sampled_from([Limits(), SMALL]))
@settings(max_examples=120)
def test_sequences(case, shape, way, limits):
    check(case[0], events_of(*case), How(detection=shape, propagation=way), limits)


@given(cases(PLAIN_NEGATIONS) | cases(DENSE, queries=3), st.sampled_from(SHAPES), WAYS)
@settings(max_examples=120)
def test_any_query_that_is_taken(case, shape, way):
    check(case[0], events_of(*case), How(detection=shape, propagation=way))


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("way", ["pull", "pass-down"])
@pytest.mark.parametrize("window", ["20 ms", "15 EVENTS"])
def test_larger_streams(name, way, window):
    workload, events = larger(name, window)
    expected = matches(of_trees(workload, events, how=How(propagation="push")))
    assert expected
    assert matches(of_trees(workload, events, how=How(propagation=way))) == expected


@pytest.mark.parametrize(
    ("pattern", "last"),
    [
        ("SEQ(A a, B b, C c)", "c"),
        ("SEQ(A a, B b, !C c)", "b"),
        ("SEQ(AND(A a, B b), C c)", "c"),
        ("SEQ(C c, AND(A a, B b))", None),
        ("SEQ(A a, B+ b)", None),
        ("AND(A a, B b)", None),
        ("SEQ(A a, !B b)", None),
    ],
)
def test_a_match_ends_with_its_last_component_if_that_is_one_event(pattern, last):
    workload = load_bound(
        {"stream": STREAM, "queries": [f"QUERY q PATTERN {pattern} RETURN a WITHIN 9 ms"]}
    )
    found = last_component(workload.queries[0])
    assert (None if found is None else found.alias) == last


# --- how much is done ----------------------------------------------------------------------------

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
# Of what is tied to the last event early in the pattern, most need not be joined.
FAR = "SEQ(A a, B b, C c, D d, E e) WHERE a.x = e.x"


def stream(size=20_000, share=0.02, seed=3):
    """Events of A to E; the E come with a share of all."""
    random = np.random.default_rng(seed)
    shares = [(1 - share) / 4] * 4 + [share]
    return pa.table(
        {
            "ts": np.arange(size),
            "kind": random.choice(list("ABCDE"), size, p=shares),
            "x": random.integers(0, 300, size),
            "y": random.integers(0, 300, size),
        }
    )


def run(pattern, table, **how):
    """What was done, the matches, and the tree that found them."""
    workload = load_bound(
        {"stream": STREAM, "queries": [f"QUERY q PATTERN {pattern} RETURN a WITHIN 40 ms"]}
    )
    events, wishes, context = from_table(table, workload.stream), How(**how), RunContext()
    known = None if wishes.is_left_to_events else measure(workload, events)
    plan = wishes.plan(workload, known)
    found = matches(run_trees(workload, events, context=context, plan=plan))
    (unit,) = bound_program(plan, workload).units
    if unit.trees is None:
        return context.counts, found, context.decisions[0].new["q"]
    assert not context.decisions
    return context.counts, found, str(unit.trees["q"][0])


@pytest.fixture
def _worth_it(monkeypatch):
    monkeypatch.setattr(choices, "best_passing", partial(best_passing, worth=0.0))


def test_only_what_the_last_event_can_follow_is_joined():
    table = stream(40_000, share=0.001)
    pushed, expected, _ = run(FAR, table, detection="left", propagation="push")
    pulled, found, _ = run(FAR, table, detection="left", propagation="pull")
    passed, also, _ = run(FAR, table, detection="left", propagation="pass-down")
    assert found == also == expected
    assert expected
    # A window in thirty has an E, and of the A in it one in three hundred has its x.
    assert pulled.made < pushed.made / 15
    assert passed.made < pulled.made / 15


def test_without_a_last_event_nothing_is_joined():
    table = stream(share=0.0)
    pulled, found, _ = run(FAR, table, propagation="pull")
    assert not found
    assert (pulled.tried, pulled.made) == (0, 0)


@pytest.mark.usefixtures("_worth_it")
def test_a_selective_condition_on_the_last_event_is_passed_down():
    pushed, expected, _ = run(FAR, stream(), propagation="push", detection="bushy")
    chosen, found, plan = run(FAR, stream())
    # A walk that begins with the last event looks for no others either.
    assert plan.endswith("by pass-down") or plan.startswith("WALK(e, ")
    assert found == expected
    assert chosen.tried + chosen.made < (pushed.tried + pushed.made) / 5


@pytest.mark.usefixtures("_worth_it")
@pytest.mark.parametrize(
    ("pattern", "share"),
    [
        # Nothing ties the first events to the last one, and a tree from the right makes little.
        ("SEQ(A a, B b, C c, D d, E e)", 0.001),
        ("SEQ(A a, B b, C c, D d, E e) WHERE a.x < e.x", 0.001),
        # There is always a last event that satisfies the condition.
        ("SEQ(A a, B b, C c, D d, E e) WHERE a.x < e.x AND a.y = b.y AND c.y = d.y", 0.6),
        ("SEQ(A a, E e) WHERE a.x = e.x", 0.02),
        # The candidates of a group are not passed to.
        ("SEQ(A a, B^2 b, C c, E e) WHERE b.x = e.x AND a.y = c.y", 0.02),
    ],
)
def test_nothing_is_passed_down_where_that_saves_nothing(pattern, share):
    pushed, expected, plan = run(pattern, stream(share=share), propagation="push")
    chosen, found, also = run(pattern, stream(share=share))
    assert (chosen, found, also) == (pushed, expected, plan)


@pytest.mark.usefixtures("_worth_it")
def test_a_rare_last_event_is_pulled_for_where_the_events_before_it_are_tied_to_each_other():
    pattern = "SEQ(A a, B b, C c, D d, E e) WHERE a.x = b.x AND c.x = d.x AND a.y = d.y"
    table = stream(60_000, share=0.02)
    pushed, expected, _ = run(pattern, table, propagation="push")
    chosen, found, _ = run(pattern, table)
    assert found == expected
    assert chosen.tried + chosen.made <= pushed.tried + pushed.made


def test_a_small_stream_is_not_worth_the_search():
    _, _, plan = run(FAR, stream(2_000))
    assert "by" not in plan


@pytest.mark.usefixtures("_worth_it")
def test_what_several_queries_read_is_not_passed_down():
    queries = [
        f"QUERY q{i} PATTERN SEQ(A a, B b, C c, {kind} e) WHERE a.x = e.x RETURN a WITHIN 40 ms"
        for i, kind in enumerate("EEE")
    ]
    workload = load_bound({"stream": STREAM, "queries": queries})
    context = RunContext()
    run_trees(workload, from_table(stream(), workload.stream), context=context)
    (decision,) = context.decisions
    assert len(decision.new) == 3
    assert not any("by" in tree for tree in decision.new.values())
    assert context.counts.reused
