"""The compiled sliding product finds what the plain-Python one finds in every window.

Its tables say of two directions what one pattern means, so they are made of random queries.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.layout import arrange
from engines.counting.compile import compile_steps, compile_tables
from engines.counting.letters import CountingPlan, prepare
from engines.counting.product import from_the_beginning
from engines.input.event_table import from_table
from kernels.groups import RowSegments
from kernels.product import cpu as product
from kernels.product import reference as product_reference
from kernels.reversible import cpu as reversible
from kernels.reversible import reference as reversible_reference
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.kernels.tables import MIXED, random_spans

SHAPE = replace(
    strategies.SHAPE,
    operators=("SEQ", "OR"),
    ties=False,
    groups=False,
    group_conditions=False,
    constants=False,
    keys=False,
    count_windows=False,
    outputs=("trigger",),
)

# Queries of which every event can be taken back.
REVERSIBLE = replace(SHAPE, negation=False, kleene=False, having=False)


def segments(queries, room, dual, values):
    """Room for as many rows of each query."""
    start = np.arange(queries) * room
    return RowSegments(
        start.copy(),
        start + room,
        np.zeros(queries * room, np.int64),
        np.zeros(queries * room, np.int64),
        np.zeros(queries * room, np.uint64),
        np.zeros(queries * room if dual else 0),
        np.zeros((queries * room, values)),
    )


def assert_same_segments(found, expected):
    for name, column, wanted in zip(RowSegments._fields, found, expected, strict=True):
        np.testing.assert_allclose(column, wanted, rtol=1e-12, err_msg=name)


def prepared_for(workload, queries, table, width):
    events = from_table(table, workload.stream)
    layout = arrange(events, queries[0].key, False, False)
    plan = CountingPlan(queries)
    return plan, prepare(plan, Columns(workload, events), layout, width, False)


def assert_agreement(
    workload, queries, table, width, slide, dual, begin=from_the_beginning, seed=0
):
    plan, prepared = prepared_for(workload, queries, table, width)
    tables = compile_tables(plan.terms, prepared.letters)
    spans = random_spans(np.random.default_rng(seed), len(queries), width + 1, slide)
    one = spans._replace(width=np.full(len(queries), width))
    rest = (*begin(prepared.groups), *tables, one, dual)
    found, expected = (segments(len(queries), 5000, dual, plan.most_values) for _ in range(2))
    assert product_reference.slide_product(prepared.groups, *rest, expected)
    assert product.slide_product(prepared.groups, *rest, found)
    assert_same_segments(found, expected)
    if all(term.reversible for term in plan.terms):
        # Windows of several widths in one call.
        steps = compile_steps(plan.terms, prepared.letters, spans.windows[1].tolist())
        begun = begin(prepared.groups)
        found, wanted = (segments(len(queries), 5000, True, 0) for _ in range(2))
        given = (prepared.groups, *begun, steps, spans, dual)
        assert reversible_reference.slide_reversible(*given, wanted)
        assert reversible.slide_reversible(*given, found)
        assert_same_segments(found, wanted)
        # The reference's counters are made for one width alone, and are those of the other kernel.
        steps = compile_steps(plan.terms, prepared.letters)
        found = segments(len(queries), 5000, dual, 0)
        assert reversible_reference.slide_reversible(
            prepared.groups, *begun, steps, one, dual, found
        )
        assert_same_segments(found._replace(approximate=expected.approximate), expected)
    return int((expected.end - np.arange(len(queries)) * 5000).sum())


def in_the_middle(random):
    """Some groups of each run, and the boundaries up to them, have given their rows before."""

    def begin(groups):
        sizes = np.diff(groups.run)
        begun = (random.random(len(sizes)) * (sizes + 1)).astype(np.int64)
        since = groups.position[np.maximum(groups.run[:-1] + begun - 1, 0)]
        return begun, np.where(begun > 0, since, -(2**62))

    return begin


@settings(max_examples=60, deadline=None)
@given(
    strategies.workloads(SHAPE, max_queries=2),
    strategies.event_rows(types=SHAPE.types, max_size=14),
    st.integers(1, 12),
    st.integers(MIXED, 3),
    st.booleans(),
    st.integers(0, 100),
)
def test_a_product_is_that_of_the_reference(workload, rows, width, slide, dual, seed):
    queries = [q for q in workload.queries if countable(q) is None]
    if queries and rows and slide <= width:
        table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
        assert_agreement(workload, queries, table, width, slide, dual, seed=seed)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([SHAPE, REVERSIBLE]).flatmap(
        lambda shape: strategies.workloads(shape, max_queries=3)
    ),
    strategies.event_rows(types=SHAPE.types, max_size=14),
    st.integers(1, 12),
    st.integers(MIXED, 3),
    st.integers(0, 2**32 - 1),
)
def test_a_product_goes_on_with_what_is_left_of_an_earlier_window(
    workload, rows, width, slide, seed
):
    queries = [q for q in workload.queries if countable(q) is None]
    if queries and rows and slide <= width:
        table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
        begin = in_the_middle(np.random.default_rng(seed))
        _, prepared = prepared_for(workload, queries, table, width)
        begun = begin(prepared.groups)
        assert_agreement(workload, queries, table, width, slide, False, lambda groups: begun, seed)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("slide", [0, 7, MIXED])
def test_a_longer_stream_of_several_keys_has_the_products_of_the_reference(slide, dual):
    random = np.random.default_rng(5)
    table = pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, 300)),
            "kind": random.choice(list("ABCD"), 300),
            "x": random.integers(0, 9, 300),
            "k": random.integers(0, 3, 300),
        }
    )
    tail = "PARTITION BY k WITHIN 20 ms"
    queries = [
        f"PATTERN SEQ(A a, !SEQ(B, D), C c) AGG COUNT(*), SUM(a.x), MIN(c.x) {tail}",
        f"PATTERN SEQ(!D, A a, B+ b, C c, !B n) AGG COUNT(*), MAX(b.x), AVG(b.x) {tail}",
        f"PATTERN OR(SEQ(A a, B b), SEQ(A c, C d)) AGG COUNT(*) {tail}",
    ]
    workload = load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": queries}
    )
    assert assert_agreement(workload, workload.queries, table, 20, slide, dual) > 30
