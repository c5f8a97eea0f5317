"""Sequences whose neighbours are compared are counted as the reference counts them."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.columns.vectors import Vector, compare
from engines.counting.fenwick import as_keys
from engines.counting.rows import counted_rows
from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.program import bound_program
from engines.reference import run
from engines.results.tables import joined_results
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.engines import fenwick
from tests import strategies
from tests.differential.test_counting import comparable, table_of
from tests.running import How, counting_plan, run_local, unit_of

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
AGGREGATES = ("COUNT(*)", "SUM({0}.x)", "AVG({0}.y)", "MIN({1}.x)", "MAX({1}.y)")


@st.composite
def compared_queries(draw, sequence):
    """A sequence of two to four components, most neighbours of which are compared."""
    length = draw(st.integers(2, 4))
    names = "abcd"[:length]
    types = [draw(st.sampled_from("ABC")) for _ in names]
    parts, conditions = [], []
    for i, (name, kind) in enumerate(zip(names, types, strict=True)):
        parts.append(f"{kind} {name}")
        if draw(st.integers(0, 4)) == 0:
            parts.append(f"!D n{i}")
        if i and (draw(st.integers(0, 3)) or not conditions):
            one, other = (f"{n}.{draw(st.sampled_from('xy'))}" for n in (names[i - 1], name))
            if draw(st.booleans()):
                one, other = other, one
            conditions.append(f"{one} {draw(st.sampled_from(['<', '<=', '>', '>=']))} {other}")
    if draw(st.integers(0, 3)) == 0:
        conditions.append(f"{draw(st.sampled_from(names))}.x > 0")
    items = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=2, unique=True))
    chosen = [item.format(*draw(st.permutations(names))[:2]) for item in items]
    window = f"WITHIN {draw(st.integers(1, 9))} ms"
    if sequence and draw(st.booleans()):
        window = window.replace("ms", "EVENTS")
    if draw(st.booleans()):
        window += f" SLIDE {draw(st.integers(1, 5))} {window.split()[-1]}"
    key = draw(st.sampled_from(["", "PARTITION BY k"]))
    where = " AND ".join(conditions)
    return f"PATTERN SEQ({', '.join(parts)}) WHERE {where} {key} AGG {', '.join(chosen)} {window}"


@st.composite
def cases(draw):
    sequence = draw(st.booleans())
    texts = draw(st.lists(compared_queries(sequence), min_size=1, max_size=3))
    stream = strategies.stream_document(sequence, draw(st.integers(0, 3)) == 0)
    queries = [f"QUERY q{i} {text}" for i, text in enumerate(texts)]
    rows = draw(strategies.event_rows(sequence=sequence, max_size=10))
    return load_bound({"stream": stream, "queries": queries}), rows


@settings(max_examples=300, deadline=None)
@given(cases())
def test_compared_neighbours_are_counted_as_by_the_reference(case):
    workload, rows = case
    sequence = strategies.has_sequence(workload)
    events = from_table(table_of(rows, sequence), workload.stream)
    columns = Columns(workload, events)
    groups = {}
    for query in workload.queries:
        assert fenwick.refusal(query) is None or "nothing ties" in fenwick.refusal(query)
        if fenwick.refusal(query) is None:
            groups.setdefault((query.key, query.window.is_count), []).append(query)
    found, taken = [], set()
    for (key, is_count), queries in groups.items():
        arranged = ArrangedEvents(arrange(events, key, is_count, False), columns)
        tables = counted_rows(unit_of(queries, "fenwick"), arranged) if len(events) else []
        assert tables is not None
        taken |= {query.name for query in queries}
        found += [row for _, table in tables for row in table.to_pylist()]
    expected = [row for row in run(workload, rows) if row["query"] in taken]
    assert comparable(found) == comparable(expected)


BIG = 2**53
VALUES = [
    ("float", np.array([0.5, -0.0, 0.0, np.nan, np.inf, -np.inf, 2.0])),
    ("int", np.array([BIG, BIG + 1, -BIG - 1, 0, 3, BIG + 2, 2])),
    ("time", np.array([BIG, BIG + 1, -BIG - 1, 0, 3, BIG + 2, 2])),
    ("bool", np.array([True, False, True, True, False, True, False])),
]


@pytest.mark.parametrize("one", VALUES, ids=[kind for kind, _ in VALUES])
@pytest.mark.parametrize("other", VALUES, ids=[kind for kind, _ in VALUES])
def test_keys_compare_as_values_do(one, other):
    if (one[0] == "time") != (other[0] == "time"):
        return
    nulls = np.array([False, False, False, False, False, False, True])
    left, right = (Vector(kind, values, nulls, BIG + 2) for kind, values in (one, other))
    pairs = np.array(list(itertools.product(range(7), range(7))))
    mine = [key[rows] for key, rows in zip(as_keys(left, right), pairs.T, strict=True)]
    vectors = left.take(pairs[:, 0]), right.take(pairs[:, 1])
    assert (mine[0] < mine[1]).tolist() == compare("<", *vectors).values.tolist()
    assert (mine[0] <= mine[1]).tolist() == compare("<=", *vectors).values.tolist()


PATTERNS = [
    "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x PARTITION BY k AGG COUNT(*), SUM(b.x)",
    "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x >= c.y PARTITION BY k AGG COUNT(*), MAX(c.x)",
    "SEQ(A a, !D n, B b, A c) WHERE a.x <= b.x PARTITION BY k AGG COUNT(*), AVG(a.y)",
    "SEQ(C a, B b) WHERE a.m < b.m PARTITION BY k AGG COUNT(*), MIN(b.x)",
]


def stream(n):
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 3, n)) - 100,
            "kind": rng.choice(list("ABCD"), n, p=[0.3, 0.3, 0.3, 0.1]),
            "k": rng.integers(0, 3, n),
            "x": pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.1),
            "y": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 9, n) / 2),
            "m": pa.array(rng.choice(["s", "t", "uu"], n)),
        }
    )


def workload_of(*windows):
    queries = [
        f"QUERY q{i} PATTERN {text} {window}"
        for i, (text, window) in enumerate(itertools.product(PATTERNS, windows))
    ]
    return load_bound({"stream": STREAM, "queries": queries})


@pytest.mark.parametrize(
    "windows",
    [("WITHIN 60 ms", "WITHIN 20 ms"), ("WITHIN 70 ms SLIDE 9 ms", "WITHIN 9 ms SLIDE 40 ms")],
)
def test_counts_are_those_of_constructed_matches_also_batch_by_batch(windows):
    workload, table = workload_of(*windows), stream(2_500)
    events = from_table(table, workload.stream)
    names = [query.name for query in workload.queries]
    plan = counting_plan(workload, [(names, "fenwick")])
    found = run_local(workload, events, plan=plan).aggregates.to_pylist()
    expected = run_local(workload, events, how=How(counting=False)).aggregates.to_pylist()
    assert len(found) > 1_000
    assert comparable(found) == comparable(expected)
    live, ticks = LiveRun(bound_program(plan, workload), 1_000_000), events.ticks
    cuts = [0, *np.searchsorted(ticks, ticks[700::700]).tolist(), len(ticks)]
    batches = []
    for low, high in itertools.pairwise(cuts):
        until = int(ticks[high - 1]) if high < len(ticks) else None
        part = from_table(table.slice(low, high - low), workload.stream)
        batches.append(live.add(part, until))
    assert comparable(joined_results(batches).aggregates.to_pylist()) == comparable(found)


def test_counts_past_two_limbs_are_said_not_to_be_exact():
    number = 400
    table = pa.table({"ts": np.arange(number), "kind": ["A"] * number, "x": np.arange(number)})
    names = [f"a{i}" for i in range(10)]
    conditions = " AND ".join(f"{a}.x < {b}.x" for a, b in itertools.pairwise(names))
    text = f"SEQ({', '.join(f'A {n}' for n in names)}) WHERE {conditions} AGG COUNT(*) WITHIN 1 s"
    workload = load_bound({"stream": STREAM, "queries": [f"QUERY q PATTERN {text}"]})
    plan = counting_plan(workload, [(["q"], "fenwick")])
    rows = run_local(workload, from_table(table, workload.stream), plan=plan).aggregates.to_pylist()
    expected = {i: _choose(i + 1, 10) for i in range(9, number)}
    assert {row["time"] for row in rows} == set(expected)
    for row in rows:
        wanted = expected[row["time"]]
        assert row["exact"] == (wanted < 2**63)
        assert row["count"] == (wanted if wanted < 2**63 else None)
        assert row["value"] == pytest.approx(wanted, rel=1e-12)


def _choose(n, k):
    found = 1
    for i in range(k):
        found = found * (n - i) // (i + 1)
    return found


REFUSED = {
    "SEQ(A a, B b, C c) WHERE a.x < c.x": "neighbours",
    "SEQ(A a, B b) WHERE a.x < b.x AND a.y < b.y": "the same neighbours",
    "SEQ(A a, B b) WHERE a.x < b.x + 1": "neighbours",
    "SEQ(!C c, A a, B b) WHERE a.x < b.x": "opening of the window",
    "SEQ(A a, B+ b, C c) WHERE a.x < c.x": "group",
    "SEQ(A a, B b)": "nothing ties",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_conditions_are_refused_with_the_reason(text):
    found = load_bound({"stream": STREAM, "queries": [f"PATTERN {text} AGG COUNT(*) WITHIN 9 ms"]})
    assert REFUSED[text] in fenwick.refusal(found.queries[0])


def test_it_is_planned_where_windows_are_full_and_shared_by_what_begins_alike():
    texts = ["AGG COUNT(*) WITHIN 200 ms", "AGG COUNT(*) WITHIN 90 ms SLIDE 30 ms"]
    pattern = "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x"
    queries = [f"QUERY q{i} PATTERN {pattern} {text}" for i, text in enumerate(texts)]
    workload = load_bound({"stream": STREAM, "queries": queries})
    events = from_table(stream(20_000), workload.stream)
    (group,) = How().plan(workload, measure(workload, events)).groups
    assert (group.engine, group.queries) == ("fenwick", ("q0", "q1"))
    assert group.cost.shared < group.cost.separate
    sparse = stream(20_000).set_column(0, "ts", pa.array(np.arange(20_000) * 1_000))
    events = from_table(sparse, workload.stream)
    plan = How().plan(workload, measure(workload, events))
    assert {group.engine for group in plan.groups} == {"trees"}
