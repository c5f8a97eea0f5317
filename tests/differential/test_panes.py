"""Counting by panes gives what the reference gives, and what separate products give."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.counting import rows as counting_rows
from engines.counting.panes import count_panes
from engines.counting.rows import counted_rows
from engines.input.event_table import from_table
from engines.reference import run
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.differential.test_counting import comparable, table_of
from tests.running import How, counting_plan, run_local, unit_of

# Everything that can be counted and slides in time.
SLIDING = replace(
    strategies.SHAPE,
    ties=False,
    groups=False,
    group_conditions=False,
    constants=False,
    count_windows=False,
    outputs=("slide",),
    max_window=12,
)


def by_key(workload):
    """The queries that can be counted, of each key."""
    found = {}
    for query in workload.queries:
        if countable(query) is None:
            found.setdefault(query.key, []).append(query)
    return found


def arranged_for(workload, events, key):
    return ArrangedEvents(arrange(events, key, False, False), Columns(workload, events))


def panes_rows(queries, arranged):
    """The rows of each query, by panes; None where the stream makes that impossible."""
    found = counted_rows(unit_of(queries, "panes"), arranged)
    return None if found is None else [table for _, table in found]


def apart(queries, arranged):
    """The rows of a product for each window and slide."""
    groups = {}
    for query in queries:
        groups.setdefault((query.window, query.slide), []).append(query)
    return [
        row
        for group in groups.values()
        for _, table in counted_rows(unit_of(group), arranged)
        for row in table.to_pylist()
    ]


@settings(max_examples=150, deadline=None)
@given(
    strategies.workloads(SLIDING, max_queries=4),
    strategies.event_rows(types=SLIDING.types, max_size=10),
)
def test_panes_agree_with_the_reference(workload, rows):
    events = from_table(table_of(rows, False), workload.stream)
    found, counted = [], set()
    for key, queries in by_key(workload).items():
        if len(events):
            tables = panes_rows(queries, arranged_for(workload, events, key))
            if tables is not None:
                counted |= {query.name for query in queries}
                found += [row for table in tables for row in table.to_pylist()]
    expected = [row for row in run(workload, rows) if row["query"] in counted]
    assert comparable(found) == comparable(expected)


PATTERNS = [
    "SEQ(A a, B b, C c) {} COUNT(*), SUM(a.x), AVG(c.x)",
    "SEQ(A a, !SEQ(B, D), C c) {} COUNT(*), MIN(c.x)",
    "SEQ(!D, A a, B+ b, C c, !B n) {} COUNT(*), MAX(b.x), AVG(b.x)",
    "OR(SEQ(A a, B b), SEQ(A c, C d)) {} COUNT(*)",
    "SEQ(D d, C c) {} COUNT(*)",
]
WINDOWS = ["60 ms SLIDE 20 ms", "40 ms SLIDE 10 ms", "600 ms SLIDE 40 ms", "60 ms SLIDE 60 ms"]


def mixed(keyed, patterns):
    return load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                f"PATTERN {pattern.format(keyed + ' AGG')} WITHIN {window}"
                for window in WINDOWS
                for pattern in patterns
            ],
        }
    )


def stream(n, gap):
    rng = np.random.default_rng(11)
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, gap, n)) - 500,
            "kind": rng.choice(list("ABCD"), n),
            "k": rng.integers(0, 5, n),
            "x": pa.array(rng.integers(0, 100, n), mask=rng.random(n) < 0.1),
        }
    )


@pytest.mark.parametrize("gap", [2, 60])  # many events in a pane, and many empty panes
@pytest.mark.parametrize("keyed", ["", "PARTITION BY k"])
@pytest.mark.parametrize("patterns", [PATTERNS, PATTERNS[4:]])
def test_panes_agree_with_products_of_one_window_each(gap, keyed, patterns):
    workload = mixed(keyed, patterns)
    events = from_table(stream(3000, gap), workload.stream)
    arranged = arranged_for(workload, events, workload.queries[0].key)
    tables = panes_rows(workload.queries, arranged)
    found = [row for table in tables for row in table.to_pylist()]
    assert len(found) > 300
    exact = [row for row in found if row["count"] is not None]
    assert exact
    assert close(found, apart(workload.queries, arranged))


def close(found, expected):
    """The same rows; sums of doubles in another order, and inexact counts, may differ by little."""
    found, expected = (sorted(rows, key=place) for rows in (found, expected))
    assert [(*place(row), row["count"], row["exact"]) for row in found] == [
        (*place(row), row["count"], row["exact"]) for row in expected
    ]
    values = [
        [np.nan if r["value"] is None else r["value"] for r in rows] for rows in (found, expected)
    ]
    np.testing.assert_allclose(*values, rtol=1e-9)
    return True


def place(row):
    return row["query"], row["aggregate"], str(row["key"]), row["time"]


def test_a_count_past_the_largest_integer_is_floating_point_and_says_so():
    # n events of A give 2^n - 1 groups; the longer window has more than an integer holds.
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                "PATTERN A+ a AGG COUNT(*) WITHIN 10 ms SLIDE 10 ms",
                "PATTERN A+ a AGG COUNT(*) WITHIN 70 ms SLIDE 70 ms",
            ],
        }
    )
    table = pa.table({"ts": range(1, 71), "kind": ["A"] * 70})
    arranged = arranged_for(workload, from_table(table, workload.stream), ())
    short, long = (t.to_pylist() for t in panes_rows(workload.queries, arranged))
    assert [(row["time"], row["count"]) for row in short] == [(10 * i, 1023) for i in range(1, 8)]
    assert [(row["time"], row["count"], row["exact"]) for row in long] == [(70, None, False)]
    assert long[0]["value"] == pytest.approx(2.0**70 - 1, rel=1e-12)


def test_a_count_that_is_too_large_within_a_pane_says_so():
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "s", "type": "kind"},
            "queries": [
                "PATTERN A+ a AGG COUNT(*) WITHIN 2000 s SLIDE 2000 s",
                "PATTERN SEQ(A+ a, B b) AGG COUNT(*), MAX(a.x) WITHIN 4000 s SLIDE 2000 s",
            ],
        }
    )
    kinds = "A" * 1999 + "B" + "A" * 1999 + "C"
    table = pa.table({"ts": range(1, 4001), "kind": list(kinds), "x": range(4000)})
    arranged = arranged_for(workload, from_table(table, workload.stream), ())
    groups, ended = (t.to_pylist() for t in panes_rows(workload.queries, arranged))
    assert [(row["count"], row["value"]) for row in groups] == [(None, float("inf"))] * 2
    counts = [row for row in ended if row["aggregate"] == "COUNT(*)"]
    assert [(row["count"], row["value"]) for row in counts] == [(None, float("inf"))] * 2
    assert [row["value"] for row in ended if row not in counts] == [1998.0, 1998.0]


ONE = ["SEQ(A a, !B b, C c)"]
MANY = [f"SEQ({', '.join(order)})" for order in permutations(["A a", "B b", "C c", "D d"])]


def sliding(patterns, *windows):
    return load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                f"PATTERN {pattern} AGG COUNT(*) WITHIN {window}"
                for window in windows
                for pattern in patterns
            ],
        }
    )


@pytest.mark.parametrize(
    ("patterns", "windows", "pays"),
    [
        (ONE, ["1 s SLIDE 500 ms", "2 s SLIDE 500 ms"], True),
        (ONE, ["1 s SLIDE 500 ms"], True),  # one window may have panes too
        (MANY, ["20 ms SLIDE 4 ms", "30 ms SLIDE 6 ms"], False),  # panes are more than events
        (ONE, ["100 ms SLIDE 1 ms"], False),  # hardly an event in a pane
    ],
)
def test_panes_are_planned_where_they_pay(patterns, windows, pays):
    workload = sliding(patterns, *windows)
    events = from_table(stream(20_000, 2), workload.stream)
    plan = How().plan(workload, measure(workload, events))
    assert {group.engine == "panes" for group in plan.groups} == {pays}


def test_a_plan_with_panes_runs_on_them_and_gives_the_same_as_one_without(monkeypatch):
    taken = []

    def noted(*args):
        taken.append(count_panes(*args))
        return taken[-1]

    monkeypatch.setattr(counting_rows, "count_panes", noted)
    workload = sliding(ONE, "1 s SLIDE 500 ms", "600 ms SLIDE 200 ms", "400 ms SLIDE 400 ms")
    events = from_table(stream(20_000, 2), workload.stream)
    plan = How().plan(workload, measure(workload, events))
    (group,) = plan.groups
    assert (group.engine, len(group.queries)) == ("panes", 3)
    context = How().context()
    found = run_local(workload, events, plan=plan, context=context).aggregates.to_pylist()
    assert [counted is None for counted in taken] == [False]
    assert not context.fallbacks.sentences
    apart = counting_plan(workload, [((query.name,), "product") for query in workload.queries])
    expected = run_local(workload, events, plan=apart).aggregates.to_pylist()
    assert len(taken) == 1
    assert close(found, expected)
