"""Plans that change between batches lose no match and repeat none, and change when they should."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.live.run import LiveRun
from engines.local.run import SlicedRun
from engines.local.slices import Slice, SliceSize, between, cut
from engines.matching.trees.adaptive import AdaptivePlans, Thresholds
from engines.reference.oracle import run_oracle
from engines.statistics.measure import measure
from engines.statistics.running import Observation, SnapshotStatistics, look
from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import alternatives
from optimizer.ir.query import Reading
from optimizer.plan.compile_tree import ReadingTree
from optimizer.trees import Passed, best_tree
from tests.differential.test_continued import batches_of
from tests.differential.test_slices import (
    COLUMNS,
    MILLISECOND,
    Case,
    batches,
    cases,
    disorder_of,
    multiset,
)
from tests.differential.test_trees import SHAPES, TAKEN
from tests.running import How
from tests.strategies import has_sequence

MATCHES = replace(TAKEN, types=("A", "B", "C"), max_components=4, max_window=6)
WAITING = replace(MATCHES, types=("A", "B"), local=False, operators=("SEQ", "AND"))


class Forced(AdaptivePlans):
    """Other trees for every batch, drawn at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._draw = random.Random(seed)

    def trees(self, queries, planned, picked, widths, sharing=True, adaptive=True):
        statistics = SnapshotStatistics.of(look(picked, ()), picked)
        shape = self._draw.choice(SHAPES)
        way = self._draw.choice(["push", "pull", "pass-down"])

        def drawn(reading):
            tree = best_tree(reading.asked, statistics, model=COMPILED, shape=shape).tree
            return ReadingTree.of(reading, tree if way == "push" else Passed(tree, way))

        return {
            query.name: tuple(
                drawn(Reading.of(query, pattern)) for pattern in alternatives(query.pattern)
            )
            for query in queries
        }


def table_of(case: Case) -> pa.Table:
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    return pa.Table.from_pylist(rows, pa.schema(columns))


@given(
    st.sampled_from([MATCHES, WAITING]).flatmap(cases),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 4]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_slices_with_plans_of_their_own_give_what_the_reference_gives(case, rows, batch, seed):
    workload, table = case[0], table_of(case)
    run = SlicedRun(How().program(workload), MILLISECOND)
    run.context.adaptive = Forced(seed)
    lateness = Lateness(disorder_of(case[1]), True, MILLISECOND, "ts", Faults())
    pieces = cut(
        batches(table, batch), table.schema, workload.stream, lateness, run.reach,
        SliceSize(rows, grow=False), run.carried,
    )  # fmt: skip
    found = [run.run(piece) for piece in pieces]
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert multiset(found) == multiset([expected])


@given(
    cases(replace(MATCHES, count_windows=False)),
    st.lists(st.integers(-2, 14), max_size=6),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_live_batches_with_plans_of_their_own_give_what_the_reference_gives(case, cuts, seed):
    workload, table = case[0], table_of(case)
    live = LiveRun(How().program(workload), MILLISECOND)
    live.context.adaptive = Forced(seed)
    found = [
        live.add(from_table(part, workload.stream), until)
        for part, until in batches_of(table, cuts)
    ]
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert multiset(found) == multiset([expected])


# --- streams whose rates change ------------------------------------------------------------------

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
SEQUENCE = "SEQ(A a, B b, C c) RETURN a.ts, b.ts, c.ts WITHIN 20 ms"
BATCH = 2_000
EAGER = Thresholds(enough=BATCH, worth=0)


def phases(*weights: tuple[float, float, float], size: int = 2 * BATCH, x: int = 5) -> pa.Table:
    """A, B and C at other shares in each phase, an event each millisecond."""
    draw = np.random.default_rng(1)
    kinds = [draw.choice(list("ABC"), size, p=np.array(w) / sum(w)) for w in weights]
    kind = np.concatenate(kinds)
    return pa.table({"ts": np.arange(len(kind)), "kind": kind, "x": draw.integers(0, x, len(kind))})


def run_slices(table, query=SEQUENCE, thresholds=EAGER, how=None, measured=None):
    """The rows, and what was decided before each slice.

    Trees are left to the first events, unless statistics of other ones are `measured`.
    """
    workload = load_bound({"stream": STREAM, "queries": [f"QUERY q PATTERN {query}"]})
    events, how = from_table(table, workload.stream), how or How()
    known = None if measured is None else measure(workload, from_table(measured, workload.stream))
    run = SlicedRun(how.program(workload, known), MILLISECOND, how.context())
    run.context.adaptive = AdaptivePlans(thresholds)
    ends = [None, *range(BATCH, len(events), BATCH), None]
    found = []
    for start, stop in pairwise(ends):
        reached = between(events, None if start is None else start - run.reach.back + 1, stop)
        found.append(run.run(Slice(reached, start, stop)))
    return [
        text for part in found for text in part.matches["match"].to_pylist()
    ], run.context.adaptive


def trees_of(adaptive):
    return [decision.new["q"] for decision in adaptive.decisions if decision.what != "kept"]


def bound_first(tree: str) -> str:
    """Which of a and c, the ends of a pattern of three, a tree begins with."""
    if tree.startswith("WALK("):
        return tree[len("WALK(")]
    return {"((a ; b) ; c)": "a", "(a ; (b ; c))": "c"}[tree]


FLIPS = [(1, 20, 20), (20, 20, 1), (1, 20, 20)]


def test_a_plan_changes_with_the_rates_and_only_then():
    table = phases(*FLIPS)
    found, adaptive = run_slices(table)
    # In each phase the rarest event is joined first.
    assert [bound_first(tree) for tree in trees_of(adaptive)] == ["a", "c", "a"]
    # Each change begins with what was there before.
    assert [d.old.get("q") for d in adaptive.decisions] == [None, *trees_of(adaptive)[:-1]]
    assert [(d.what, d.batch) for d in adaptive.decisions] == [
        ("chosen", 1),
        ("changed", 3),
        ("changed", 5),
    ]
    assert adaptive.changes == 2
    same = Counter(found) == three_in_a_row(table, 20)
    assert same
    fixed, kept = run_slices(table, how=How(adaptive=False))
    assert kept.changes == 0
    assert sorted(fixed) == sorted(found)


def test_the_trees_of_a_plan_change_as_those_that_were_chosen_do():
    table = phases(*FLIPS)
    # The plan rests on what the second phase is like, and the stream begins with the first.
    found, adaptive = run_slices(table, measured=phases(FLIPS[1]))
    assert [bound_first(tree) for tree in trees_of(adaptive)] == ["a"]
    same = Counter(found) == three_in_a_row(table, 20)
    assert same


def three_in_a_row(table: pa.Table, width: int) -> Counter:
    """The matches of SEQ(A, B, C), by brute force."""
    kind = table.column("kind").to_pylist()
    found: Counter = Counter()
    for i in (i for i, k in enumerate(kind) if k == "A"):
        window = range(i + 1, min(i + width, len(kind)))
        for j in (j for j in window if kind[j] == "B"):
            for k in (k for k in window if k > j and kind[k] == "C"):
                found[f'{{"a":{{"ts":{i}}},"b":{{"ts":{j}}},"c":{{"ts":{k}}}}}'] += 1
    return found


def test_what_changes_by_chance_changes_no_plan():
    _, adaptive = run_slices(phases((1, 20, 20), (1, 20, 20), (1, 20, 20)))
    assert [decision.what for decision in adaptive.decisions] == ["chosen"]


def test_a_change_says_what_changed_and_what_it_saves():
    _, adaptive = run_slices(phases(*FLIPS[:2]))
    change = adaptive.decisions[1]
    assert change.reason.startswith("the rate of ")
    assert " a second; the new ones save " in change.reason
    assert str(change).startswith("batch 3: trees of q changed: the rate of ")
    old, new = change.old["q"], change.new["q"]
    assert (bound_first(old), bound_first(new)) == ("a", "c")
    assert str(change).endswith(f"\n  q: {new} (was {old})")


def test_a_plan_that_saves_little_is_not_taken():
    # An A is still the rarest, so the plan is the best; and one that saves too little is left.
    _, adaptive = run_slices(phases((1, 20, 20), (3, 20, 20)))
    assert [decision.what for decision in adaptive.decisions] == ["chosen", "kept"]
    assert adaptive.decisions[1].reason.endswith(("; others save 0%", "; others save 1%"))
    picky = replace(EAGER, gain=0.999)
    _, adaptive = run_slices(phases(*FLIPS), thresholds=picky)
    assert adaptive.changes == 0
    assert {decision.what for decision in adaptive.decisions} == {"chosen", "kept"}


def test_a_change_below_the_threshold_is_not_looked_into():
    lax = replace(EAGER, change=100.0)
    _, adaptive = run_slices(phases(*FLIPS), thresholds=lax)
    assert [decision.what for decision in adaptive.decisions] == ["chosen"]


def test_too_little_work_is_not_planned_for():
    _, adaptive = run_slices(phases(*FLIPS), thresholds=replace(EAGER, worth=1e9))
    assert [decision.what for decision in adaptive.decisions] == ["chosen"]


def test_a_selectivity_that_changes_changes_the_plan():
    size = 2 * BATCH
    draw = np.random.default_rng(2)
    # First a and b are hardly ever equal, then b and c.
    few, many = draw.integers(0, 2, (2, size)), draw.integers(0, 200, (2, size))
    table = pa.table(
        {
            "ts": np.arange(2 * size),
            "kind": draw.choice(list("ABC"), 2 * size),
            "x": np.concatenate([many[0], few[0]]),
            "y": np.concatenate([few[1], many[1]]),
        }
    )
    query = "SEQ(A a, B b, C c) WHERE a.x = b.x AND b.y = c.y RETURN a WITHIN 40 ms"
    _, adaptive = run_slices(table, query)
    assert trees_of(adaptive) == ["((a ; b) ; c)", "(a ; (b ; c))"]
    assert "the selectivity of " in adaptive.decisions[1].reason


@pytest.mark.parametrize(
    ("before", "now", "times"),
    [
        (Observation(100, 10.0), Observation(100, 10.0), 1.0),
        (Observation(100, 10.0), Observation(110, 10.0), 1.0),  # may be chance
        (Observation(10_000, 10.0), Observation(40_000, 10.0), 4.0),
        (Observation(40_000, 10.0), Observation(10_000, 10.0), 4.0),
        (Observation(0, 512), Observation(2, 512), 1.0),
        (Observation(0, 512), Observation(256, 512), 512.0),
    ],
)
def test_how_many_times_as_much_it_is(before, now, times):
    assert now.times(before) == pytest.approx(times)
