"""Windows put together from panes are those that plain Python multiplies from scratch."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting.pane_tables import WindowSpan, compile_panes, cuts_of
from kernels.panes import cpu as panes
from kernels.panes import reference as panes_reference
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.kernels.test_product import SHAPE, assert_same_segments, prepared_for, segments

ROOM = 2000


@st.composite
def spans(draw, most):
    width = draw(st.integers(1, most))
    return WindowSpan(width, draw(st.integers(1, width)))


def most_panes(groups, cuts, widest):
    run, stop = panes.panes_of(groups.run, groups.position, cuts)
    runs = [stop[first:end] for first, end in pairwise(run)]
    return max(
        (int(((mine > x - widest) & (mine <= x)).sum()) for mine in runs for x in mine), default=0
    )


def assert_agreement(workload, queries, table, given_spans, levels, safe, limited=None):
    widest = max(span.width for span in given_spans)
    plan, prepared = prepared_for(workload, queries, table, widest)
    groups = prepared.groups
    if limited is not None:
        groups = groups._replace(limit=np.minimum(groups.limit, limited))
    cuts = cuts_of(given_spans)
    tables = compile_panes(plan.terms, given_spans, prepared.letters)
    rest = (*tables, cuts, most_panes(groups, cuts, widest), levels, safe)
    found, expected = (
        segments(len(queries), ROOM, widest > safe, plan.most_values) for _ in range(2)
    )
    assert panes_reference.slide_panes(groups, *rest, expected)
    assert panes.slide_panes(groups, *rest, found)
    assert_same_segments(found, expected)
    return int((expected.end - np.arange(len(queries)) * ROOM).sum())


@settings(max_examples=80, deadline=None)
@given(
    strategies.workloads(replace(SHAPE, outputs=("slide",)), max_queries=4),
    strategies.event_rows(types=SHAPE.types, max_size=14),
    st.lists(spans(12), min_size=4, max_size=4),
    st.integers(0, 3),
    st.integers(0, 12),
    st.none() | st.integers(0, 20),
)
def test_windows_of_panes_are_those_of_the_reference(
    workload, rows, given_spans, levels, safe, limited
):
    queries = [q for q in workload.queries if countable(q) is None]
    if queries and rows:
        table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
        mine = given_spans[: len(queries)]
        assert_agreement(workload, queries, table, mine, levels, safe, limited)


@pytest.mark.parametrize("levels", [0, 2, 4])
@pytest.mark.parametrize("safe", [0, 3, 24, 60])
def test_a_longer_stream_of_several_keys_has_the_windows_of_the_reference(levels, safe):
    random = np.random.default_rng(5)
    table = pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, 300) + 40 * (random.random(300) < 0.02)),
            "kind": random.choice(list("ABCD"), 300),
            "x": random.integers(0, 9, 300),
            "k": random.integers(0, 3, 300),
        }
    )
    tail = "PARTITION BY k WITHIN 20 ms SLIDE 10 ms"
    queries = [
        f"PATTERN SEQ(A a, !SEQ(B, D), C c) AGG COUNT(*), SUM(a.x), MIN(c.x) {tail}",
        f"PATTERN SEQ(!D, A a, B+ b, C c, !B n) AGG COUNT(*), MAX(b.x), AVG(b.x) {tail}",
        f"PATTERN OR(SEQ(A a, B b), SEQ(A c, C d)) AGG COUNT(*) {tail}",
        f"PATTERN SEQ(A a, B b, C c) AGG COUNT(*), SUM(c.x) {tail}",
        f"PATTERN SEQ(D d, B b, C c) AGG COUNT(*), SUM(c.x) {tail}",
    ]
    workload = load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": queries}
    )
    given_spans = [
        WindowSpan(24, 6),
        WindowSpan(12, 3),
        WindowSpan(60, 12),
        WindowSpan(24, 6),
        WindowSpan(24, 24),
    ]
    assert assert_agreement(workload, workload.queries, table, given_spans, levels, safe) > 50


def test_a_segment_that_is_too_small_is_told():
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": ["PATTERN A a AGG COUNT(*) WITHIN 4 ms SLIDE 2 ms"],
        }
    )
    table = pa.table({"ts": range(8), "kind": ["A"] * 8})
    plan, prepared = prepared_for(workload, workload.queries, table, 4)
    tables = compile_panes(plan.terms, [WindowSpan(4, 2)], prepared.letters)
    cuts = cuts_of([WindowSpan(4, 2)])
    for kernel in (panes, panes_reference):
        fits = [
            kernel.slide_panes(prepared.groups, *tables, cuts, 3, 1, 9, segments(1, room, False, 0))
            for room in (5, 6, 7)
        ]
        assert fits == [False, True, True]  # windows end at 0, 2, 4, 6, 8 and 10


def test_panes_end_where_windows_open_and_close():
    cuts = cuts_of([WindowSpan(10, 4), WindowSpan(8, 8), WindowSpan(10, 4)])
    assert set(zip(*(column.tolist() for column in cuts), strict=True)) == {(4, 0), (4, 2)}


@given(
    st.lists(st.lists(st.integers(-20, 20), max_size=12).map(sorted), max_size=3),
    st.lists(spans(9), min_size=1, max_size=3),
)
def test_panes_are_those_between_cuts(runs, given_spans):
    ends = sorted(
        {
            x
            for span in given_spans
            for b in range(-90 * span.slide, 90 * span.slide, span.slide)
            for x in (b, b - span.width)
        }
    )
    named = [sorted({min(x for x in ends if x >= p) for p in mine}) for mine in runs]
    run, position = np.cumsum([0, *map(len, runs)]), np.array([*chain(*runs)], np.int64)
    found = panes.panes_of(run, position, cuts_of(given_spans))
    assert [column.tolist() for column in found] == [
        np.cumsum([0, *map(len, named)]).tolist(),
        [*chain(*named)],
    ]


def test_warming_up_compiles_what_is_called_later():
    panes.warm()
    compiled = len(panes._slide.signatures), len(panes._panes_of.signatures)
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": ["PATTERN SEQ(A a, B b) AGG COUNT(*), SUM(a.x) WITHIN 4 ms SLIDE 2 ms"],
        }
    )
    table = pa.table({"ts": range(8), "kind": list("ABAABBAB"), "x": range(8)})
    assert assert_agreement(workload, workload.queries, table, [WindowSpan(4, 2)], 1, 4) > 0
    assert (len(panes._slide.signatures), len(panes._panes_of.signatures)) == compiled
