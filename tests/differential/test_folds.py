"""Folds of columns give what the reference gives, to the last bit."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.counting.rows import counted_rows
from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.local.run import SlicedRun, reach_of
from engines.local.slices import Slice
from engines.program import bound_program
from engines.reference import run
from engines.results.tables import joined_results
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.engines import folds, takes
from tests import strategies
from tests.differential.test_counting import comparable, table_of
from tests.running import How, counting_plan, run_local, unit_of

SINGLE = replace(
    strategies.SHAPE,
    types=("A", "B"),
    max_components=1,
    negation=False,
    kleene=False,
    groups=False,
    ties=False,
    group_conditions=False,
    constants=False,
    outputs=("trigger", "slide"),
    max_window=12,
)
STREAM = {"time": "ts", "unit": "ms", "type": "kind"}


def groups_of(queries):
    """The queries that folds take, in groups that they take together, as large as may be."""
    found = []
    for query in queries:
        if folds.refusal(query) is None:
            mine = next((group for group in found if takes(folds, [*group, query])), None)
            if mine is None:
                found.append(mine := [])
            mine.append(query)
    return found


@settings(max_examples=400, deadline=None)
@given(
    strategies.workloads(SINGLE, max_queries=4).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=SINGLE.types, max_size=12
            ),
        )
    )
)
def test_folds_agree_with_the_reference(case):
    workload, rows = case
    events = from_table(table_of(rows, strategies.has_sequence(workload)), workload.stream)
    columns = Columns(workload, events)
    found, taken = [], set()
    for queries in groups_of(workload.queries):
        taken |= {query.name for query in queries}
        layout = arrange(events, queries[0].key, queries[0].window.is_count, False)
        if len(events):
            arranged = ArrangedEvents(layout, columns)
            for _, table in counted_rows(unit_of(queries, "folds"), arranged):
                found += table.to_pylist()
    expected = [row for row in run(workload, rows) if row["query"] in taken]
    assert comparable(found) == comparable(expected)


AGGREGATES = "COUNT(*), SUM(a.x), AVG(a.x), MIN(a.x), MAX(a.x), SUM(a.y), MIN(a.y)"
QUERIES = [
    f"A a AGG {AGGREGATES} WITHIN 20 ms SLIDE 5 ms",
    f"A a PARTITION BY k AGG {AGGREGATES} WITHIN 30 ms SLIDE 7 ms",
    "A a PARTITION BY k AGG SUM(a.x) HAVING SUM(a.x) > 1 WITHIN 11 ms SLIDE 4 ms",
    "B a AGG COUNT(*), MAX(a.x) WITHIN 3 ms SLIDE 10 ms",
    f"A a AGG {AGGREGATES} WITHIN 15 ms",
    "A a PARTITION BY k AGG AVG(a.x), MAX(a.y) WITHIN 40 ms",
    "B a WHERE a.x > 0 AGG COUNT(*), SUM(a.x) WITHIN 9 ms",
]
WORKLOAD = {
    "stream": STREAM,
    "queries": [f"QUERY q{i} PATTERN {text}" for i, text in enumerate(QUERIES)],
}
DOUBLES = st.one_of(
    st.none(),
    st.floats(-1e3, 1e3),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e250, max_value=1e250),
    st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 5e-324, 0.0, -0.0]),
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from("AB"),
        st.sampled_from([1, 2, None]),
        DOUBLES,
        st.one_of(st.none(), st.integers(-(2**53), 2**53)),
    ),
    min_size=1,
    max_size=25,
)


def table_from(drawn):
    gaps, kinds, keys, x, y = zip(*drawn, strict=True)
    return pa.table(
        {
            "ts": np.cumsum(gaps) - 10,
            "kind": pa.array(kinds),
            "k": pa.array(keys, pa.int64()),
            "x": pa.array(x, pa.float64()),
            "y": pa.array(y, pa.int64()),
        }
    )


def exactly(rows):
    """The rows as they are, values to the last bit."""
    return sorted(
        (
            (
                row["query"],
                str(row["key"]).replace(" ", "").replace('"', "'"),
                row["time"],
                row["aggregate"],
                row["value"],
                row["count"],
            )
            for row in rows
        ),
        key=repr,
    )


def of_folds(workload):
    groups = [([query.name for query in group], "folds") for group in groups_of(workload.queries)]
    assert len(groups) == 4  # with a key and without, with slides and without
    return counting_plan(workload, groups)


@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_doubles_are_summed_without_rounding(drawn):
    workload = load_bound(WORKLOAD)
    table = table_from(drawn)
    found = run_local(workload, from_table(table, workload.stream), plan=of_folds(workload))
    expected = run(workload, table.to_pylist())
    assert exactly(found.aggregates.to_pylist()) == exactly(expected)


def stream(n, seed=5):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(100, 50, n), 2)
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 3, n)) - 500,
            "kind": rng.choice(list("AB"), n),
            "k": pa.array(rng.integers(0, 5, n), mask=rng.random(n) < 0.05),
            "x": pa.array(x, mask=rng.random(n) < 0.1),
            "y": rng.integers(-100, 100, n),
        }
    )


@pytest.mark.parametrize("size", [37, 500])
def test_slices_change_nothing(size):
    workload = load_bound(WORKLOAD)
    events = from_table(stream(3_000), workload.stream)
    plan = of_folds(workload)
    whole = run_local(workload, events, plan=plan).aggregates.to_pylist()
    assert len(whole) > 10_000
    sliced = SlicedRun(bound_program(plan, workload), events.tick)
    assert sliced.reach == reach_of(workload.queries, events.tick)
    found, start = [], None
    for stop in [*events.ticks[size::size].tolist(), None]:
        found.append(sliced.run(Slice(events, start, stop)))
        start = stop
    assert exactly(joined_results(found).aggregates.to_pylist()) == exactly(whole)


@pytest.mark.parametrize("size", [41, 700])
def test_batches_of_a_live_stream_change_nothing(size):
    workload = load_bound(WORKLOAD)
    table = stream(2_000)
    program = bound_program(of_folds(workload), workload)
    whole = run_local(workload, from_table(table, workload.stream), plan=of_folds(workload))
    ticks = table["ts"].to_numpy()
    cuts = [0, *np.unique(np.searchsorted(ticks, ticks[size::size])).tolist(), len(ticks)]
    found, state = [], None
    for low, high in itertools.pairwise(cuts):
        live = LiveRun(program, 1_000_000)
        if state is not None:
            live.restore(state)
        until = int(ticks[high - 1]) if high < len(ticks) else None
        found.append(live.add(from_table(table.slice(low, high - low), workload.stream), until))
        state = live.save()
    results = joined_results(found).aggregates.to_pylist()
    assert exactly(results) == exactly(whole.aggregates.to_pylist())


def test_a_long_gap_costs_no_window():
    workload = load_bound(
        {"stream": STREAM, "queries": ["PATTERN A a AGG COUNT(*) WITHIN 4 ms SLIDE 1 ms"]}
    )
    table = pa.table({"ts": [1, 2**60], "kind": ["A", "A"]})
    found = run_local(workload, from_table(table, workload.stream), plan=one_group(workload))
    rows = found.aggregates.to_pylist()
    assert [row["time"] for row in rows] == [1, 2, 3, 4, *(2**60 + i for i in range(4))]
    assert {row["count"] for row in rows} == {1}


def one_group(workload):
    return counting_plan(workload, [([query.name for query in workload.queries], "folds")])


def test_single_components_are_planned_as_folds_in_one_group_whatever_their_windows():
    windows = [f"WITHIN {i} s SLIDE {s} s" for i, s in ((1, 1), (60, 5), (90, 7), (3600, 5))]
    queries = [f"PATTERN A a AGG SUM(a.x) {window}" for window in windows]
    queries += [
        "PATTERN A a AGG MIN(a.x) WITHIN 10 s",
        "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 60 s SLIDE 5 s",
    ]
    workload = load_bound({"stream": STREAM, "queries": queries})
    for statistics in (None, measure(workload, from_table(stream(20_000), workload.stream))):
        plan = How().plan(workload, statistics)
        engines = {name: group.engine for group in plan.groups for name in group.queries}
        assert [engines[f"q{i}"] for i in range(1, 6)] == ["folds"] * 5
        assert engines["q6"] != "folds"
        together = next(group.queries for group in plan.groups if "q1" in group.queries)
        assert set(together) == {"q1", "q2", "q3", "q4"}


def test_averages_of_nothing_but_nulls_are_null():
    workload = load_bound(
        {"stream": STREAM, "queries": [f"PATTERN A a AGG {AGGREGATES} WITHIN 4 ms SLIDE 2 ms"]}
    )
    table = pa.table(
        {
            "ts": [1, 2],
            "kind": ["A", "A"],
            "x": pa.array([None, None], pa.float64()),
            "y": pa.array([None, None], pa.null()),
        }
    )
    found = run_local(workload, from_table(table, workload.stream), plan=one_group(workload))
    rows = found.aggregates.to_pylist()
    assert {row["value"] for row in rows if row["aggregate"] != "COUNT(*)"} == {None}
    assert [row["count"] for row in rows if row["aggregate"] == "COUNT(*)"] == [2, 2]
    assert not any(math.isnan(row["value"] or 0.0) for row in rows)
