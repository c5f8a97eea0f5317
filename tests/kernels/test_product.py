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

from engines.columns.instances import Columns
from engines.columns.layout import arrange
from engines.counting.compile import compile_tables
from engines.counting.plan import Plan
from engines.counting.prepare import prepare
from engines.events import from_table
from kernels import product, product_reference
from optimizer.automaton import countable
from optimizer.bind import load_bound
from tests import strategies
from tests.kernels.tables import assert_same_rows, empty_rows

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


def assert_agreement(workload, queries, table, width, slide, dual):
    events = from_table(table, workload.stream)
    layout = arrange(events, queries[0].key, False, False)
    plan = Plan(queries)
    prepared = prepare(plan, Columns(workload, events), layout, width, False)
    tables = compile_tables(plan.terms, prepared.letters)
    rest = (tables.back, tables.front, tables.readings, len(queries), width, slide, dual)
    found, expected = (empty_rows(5000, dual, plan.most_values) for _ in range(2))
    made = product_reference.slide_product(prepared.groups, *rest, expected)
    assert product.slide_product(prepared.groups, *rest, found) == made
    assert_same_rows(found, expected, made)
    return made


@settings(max_examples=60, deadline=None)
@given(
    strategies.workloads(SHAPE, max_queries=2),
    strategies.event_rows(types=SHAPE.types, max_size=14),
    st.integers(1, 12),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_product_is_that_of_the_reference(workload, rows, width, slide, dual):
    queries = [q for q in workload.queries if countable(q) is None]
    if queries and rows and slide <= width:
        table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
        assert_agreement(workload, queries, table, width, slide, dual)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("slide", [0, 7])
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
