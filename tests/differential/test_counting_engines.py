"""The other ways to count give what the reference gives, and what the product gives."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.counting import aseq, chopconnect, pretree, product, rows
from engines.input.event_table import from_table
from engines.reference import run
from kernels.groups import Spans
from optimizer.bind.binder import load_bound
from optimizer.ir.chain import chain_of
from tests import pattern_strategies, strategies
from tests.benchmarks.rivals import twostep
from tests.differential.test_counting import comparable, table_of
from tests.oracle import notation
from tests.running import unit_of


class Chopped:
    """Chop-Connect with every query chopped into parts of at most `size` components."""

    refusal = staticmethod(chopconnect.refusal)

    def __init__(self, size):
        self.size = size

    def lengths(self, query):
        n = len(chain_of(query).components)
        return tuple(min(self.size, n - i) for i in range(0, n, self.size))

    def count(self, plan, columns, layout, spans, is_count):
        lengths = {query.name: self.lengths(query) for query in plan.queries}
        return chopconnect.count(plan, columns, layout, spans, is_count, lengths)


ENGINES = {
    "aseq": aseq,
    "pretree": pretree,
    "twostep": twostep,
    "chopconnect": chopconnect,
    "chopped in twos": Chopped(2),
    "chopped in ones": Chopped(1),
}

# Those that plans have by name; the other takes the product's place.
NAMES = {aseq: "aseq", pretree: "pretree", chopconnect: "chopconnect"}

# Sequences of single events, with single events negated in the gaps.
CHAINS = replace(
    pattern_strategies.FLAT,
    types=("A", "B", "C"),
    kleene=False,
    groups=False,
    ties=False,
    group_conditions=False,
    constants=False,
    outputs=("trigger", "slide"),
)


def counted(engine, queries, arranged):
    """The result rows of queries of one key."""
    if isinstance(engine, Chopped):
        unit = unit_of(queries, "chopconnect", {q.name: engine.lengths(q) for q in queries})
    else:
        unit = unit_of(queries, NAMES.get(engine, "product"))

    def count(plan, *given):
        return engine.count(plan, *given[:-1])  # it knows no device

    with mock.patch.object(rows, "count", count):
        tables = rows.counted_rows(unit, arranged)
    return [row for _, table in tables for row in table.to_pylist()]


def by_key(workload, refusal):
    """Queries of any windows in time, or in events, and any slides."""
    groups = {}
    for query in workload.queries:
        if refusal(query) is None:
            groups.setdefault((query.key, query.window.is_count), []).append(query)
    return groups


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=80, deadline=None)
@given(
    strategies.workloads(CHAINS, max_queries=4).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=CHAINS.types, max_size=10
            ),
        )
    )
)
def test_an_engine_agrees_with_the_reference(name, case):
    workload, events_given = case
    engine = ENGINES[name]
    table = table_of(events_given, strategies.has_sequence(workload))
    events = from_table(table, workload.stream)
    columns = Columns(workload, events)
    found, taken = [], set()
    for (key, is_count), queries in by_key(workload, engine.refusal).items():
        arranged = ArrangedEvents(arrange(events, key, is_count, False), columns)
        taken |= {query.name for query in queries}
        if len(events):
            found += counted(engine, queries, arranged)
    expected = [row for row in run(workload, events_given) if row["query"] in taken]
    assert comparable(found) == comparable(expected)


# --- larger streams, against the product ---------------------------------------------------------

AGGREGATES = "COUNT(*), SUM(b.x), AVG(c.y), MIN(a.x), MAX(c.x), SUM(a.y)"
QUERIES = (
    f"SEQ(A a, B b, C c) AGG {AGGREGATES}",
    f"SEQ(A a, B b, !D, C c) AGG {AGGREGATES}",
    f"SEQ(!D, A a, B b, C c) AGG {AGGREGATES}",
    f"SEQ(A a, !D, B b, !E, C c, !F) AGG {AGGREGATES}",
    "SEQ(A a, B b, C c, D d, A e) AGG COUNT(*), MAX(e.x)",
    "SEQ(A a, B b, E e, B f) AGG COUNT(*), AVG(f.y)",
    "SEQ(C a, D b) AGG COUNT(*)",
    "SEQ(A a, B b, A c, B d, C e) AGG COUNT(*)",
    "SEQ(D, A a, B b, !E, A c, B d) AGG COUNT(*)",
    "SEQ(B a, !D, A b, B c, C d, !F) AGG COUNT(*)",
    "SEQ(A a, A b, A c) AGG COUNT(*), MIN(b.x)",
    "PATTERN E e AGG COUNT(*), SUM(e.x)",
)


def stream(events, seed, ties, key):
    random = np.random.default_rng(seed)
    ts = np.cumsum(random.integers(0 if ties else 1, 3, events))
    x = random.integers(0, 9, events)
    return pa.table(
        {
            "ts": ts,
            "kind": random.choice(list("ABCDEF"), events, p=[0.15, 0.25, 0.25, 0.15, 0.1, 0.1]),
            "x": pa.array(x, mask=x == 0),
            "y": random.integers(-5, 5, events),
            "k": random.integers(0, key, events),
            "seq": random.integers(0, 2, events),
        }
    )


def workload_of(queries, within, key, sequence):
    document = {"time": "ts", "type": "kind", "unit": "ms"}
    if sequence:
        document["sequence"] = "seq"
    tail = f"{'PARTITION BY k' if key else ''} WITHIN {within}"
    texts = [q if q.startswith("PATTERN") else f"PATTERN {q}" for q in queries]
    return load_bound({"stream": document, "queries": [f"{text} {tail}" for text in texts]})


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("within", "slide", "key", "ties"),
    [
        ("60 ms", 0, 1, False),
        ("40 ms", 0, 1, True),
        ("50 EVENTS", 0, 3, True),
        ("200 ms", 0, 7, True),
        ("40 ms", 7, 1, True),
        ("50 EVENTS", 1, 3, True),
        ("200 ms", 200, 7, True),
    ],
)
def test_an_engine_agrees_with_the_product_on_a_larger_stream(name, within, slide, key, ties):
    engine = ENGINES[name]
    workload = workload_of(QUERIES, within, key > 1, sequence=within.endswith("EVENTS"))
    queries = [q for q in workload.queries if engine.refusal(q) is None]
    assert queries
    events = from_table(stream(5_000, 7, ties, key), workload.stream)
    columns = Columns(workload, events)
    window = queries[0].window
    layout = arrange(events, queries[0].key, window.is_count, False)
    plan = product.CountingPlan(queries)
    width = window.ticks(events.tick)
    spans = Spans(np.full(len(queries), width), np.full(len(queries), slide))
    expected = product.count(plan, columns, layout, spans, window.is_count)
    found = engine.count(plan, columns, layout, spans, window.is_count)
    assert len(expected.row) > 100
    assert_same(plan, slide, found, expected)


def assert_same(plan, slide, found, expected):
    a, b = (np.argsort(c.query, kind="stable") for c in (found, expected))  # each in order
    for column in ("query", "row", "counts", "exact", "approximate"):
        np.testing.assert_array_equal(getattr(found, column)[a], getattr(expected, column)[b])
    if slide:
        np.testing.assert_array_equal(found.boundary[a], expected.boundary[b])
    for q, term in enumerate(plan.terms):
        mine, theirs = a[found.query[a] == q], b[expected.query[b] == q]
        n = len(term.values)
        np.testing.assert_allclose(found.values[mine, :n], expected.values[theirs, :n], rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "twostep"])
def test_counts_past_the_largest_integer_are_floating_point_and_say_so(name):
    # 40 events of each of 12 types in order: 40^12 = 2^63.9 sequences in the end.
    types = "ABCDEFGHIJKL"
    kinds = "".join(kind * 40 for kind in types)
    query = f"SEQ({', '.join(types)}) AGG COUNT(*)"
    workload = workload_of([query], "1 s", False, False)
    events = from_table(pa.table({"ts": range(len(kinds)), "kind": list(kinds)}), workload.stream)
    arranged = ArrangedEvents(arrange(events, (), False, False), Columns(workload, events))
    found = counted(ENGINES[name], workload.queries, arranged)
    assert found[0]["count"] == 40**11
    assert found[0]["exact"]
    assert found[-1]["count"] is None
    assert not found[-1]["exact"]
    assert found[-1]["value"] == pytest.approx(40.0**12, rel=1e-12)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("SEQ(A, B+)", "it has a group of events"),
        ("SEQ(A, OR(B, C))", "it has an OR"),
        ("SEQ(A, AND(B, C))", "it has an AND"),
        ("SEQ(A, !SEQ(B, C), D)", "it negates more than a single event"),
    ],
)
@pytest.mark.parametrize("name", ENGINES)
def test_a_query_that_an_engine_does_not_take_is_told_why(name, pattern, reason):
    bound = notation.workload(f"PATTERN {pattern} AGG COUNT(*) WITHIN 5 s")
    assert ENGINES[name].refusal(bound.queries[0]) == reason


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(!A, B, C)",
        "SEQ(A, !B, C)",
        "SEQ(A, B, !C, D)",
        "SEQ(A, B, !C)",
        "SEQ(!A, B, !C, D, !E)",
    ],
)
@pytest.mark.parametrize("tail", ["WITHIN 5 s", "WITHIN 5 s SLIDE 1 s"])
@pytest.mark.parametrize("name", ENGINES)
def test_a_negation_of_one_event_is_taken_in_any_gap(name, pattern, tail):
    bound = notation.workload(f"PATTERN {pattern} AGG COUNT(*) {tail}")
    assert ENGINES[name].refusal(bound.queries[0]) is None
