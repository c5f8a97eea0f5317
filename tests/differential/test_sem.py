"""SEM over machines gives what the reference gives, and what the product gives."""

from __future__ import annotations

import itertools
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
from engines.program import bound_program
from engines.reference import run
from engines.results.tables import joined_results
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.engines import sem
from tests import strategies
from tests.differential.test_counting import comparable, table_of
from tests.differential.test_panes import close
from tests.running import How, counting_plan, run_local, unit_of

# Everything that can be counted.
COUNTED = replace(
    strategies.SHAPE,
    ties=False,
    groups=False,
    group_conditions=False,
    constants=False,
    outputs=("trigger", "slide"),
)
STREAM = {"time": "ts", "unit": "ms", "type": "kind"}


@settings(max_examples=250, deadline=None)
@given(
    strategies.workloads(COUNTED, max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=COUNTED.types, max_size=10
            ),
        )
    )
)
def test_sem_agrees_with_the_reference(case):
    workload, rows = case
    events = from_table(table_of(rows, strategies.has_sequence(workload)), workload.stream)
    columns = Columns(workload, events)
    groups = {}
    for query in workload.queries:
        if sem.refusal(query) is None:
            groups.setdefault((query.key, query.window, query.slide), []).append(query)
    found, taken = [], set()
    for (key, window, _), queries in groups.items():
        arranged = ArrangedEvents(arrange(events, key, window.is_count, False), columns)
        tables = counted_rows(unit_of(queries, "sem"), arranged) if len(events) else []
        if tables is not None:
            taken |= {query.name for query in queries}
            found += [row for _, table in tables for row in table.to_pylist()]
    expected = [row for row in run(workload, rows) if row["query"] in taken]
    assert comparable(found) == comparable(expected)


PATTERNS = [
    "SEQ(A a, B+ b, C c) PARTITION BY k AGG COUNT(*), SUM(b.x), MAX(c.x)",
    "SEQ(A a, OR(B b, C c), D d) PARTITION BY k AGG COUNT(*), MIN(d.x)",
    "SEQ(A a, !SEQ(B b, C c), D d) PARTITION BY k AGG COUNT(*)",
    "SEQ(A a, B b, !C c, D d, !B e) PARTITION BY k AGG COUNT(*), AVG(b.x)",
    "SEQ(A a, B b) PARTITION BY k AGG COUNT(*)",
]


def stream(n, rare=0.02):
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 3, n)) - 100,
            "kind": rng.choice(list("ABCD"), n, p=[rare, *[(1 - rare) / 3] * 3]),
            "k": rng.integers(0, 3, n),
            "x": pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.1),
        }
    )


def workload_of(window):
    queries = [f"QUERY q{i} PATTERN {text} {window}" for i, text in enumerate(PATTERNS)]
    return load_bound({"stream": STREAM, "queries": queries})


@pytest.mark.parametrize("window", ["WITHIN 60 ms", "WITHIN 70 ms SLIDE 9 ms"])
@pytest.mark.parametrize("rare", [0.02, 0.4])
def test_sem_agrees_with_the_product_and_batch_by_batch(window, rare):
    workload, table = workload_of(window), stream(4_000, rare)
    events = from_table(table, workload.stream)
    names = [query.name for query in workload.queries]
    ways = [counting_plan(workload, [(names, engine)]) for engine in ("sem", "product")]
    found, expected = (
        run_local(workload, events, plan=plan).aggregates.to_pylist() for plan in ways
    )
    assert len(found) > 1_000
    assert close(found, expected) if "SLIDE" in window else len(found) == len(expected)
    assert comparable(found) == comparable(expected)
    live, ticks = LiveRun(bound_program(ways[0], workload), 1_000_000), events.ticks
    cuts = [0, *np.searchsorted(ticks, ticks[700::700]).tolist(), len(ticks)]
    batches = []
    for low, high in itertools.pairwise(cuts):
        until = int(ticks[high - 1]) if high < len(ticks) else None
        part = from_table(table.slice(low, high - low), workload.stream)
        batches.append(live.add(part, until))
    assert comparable(joined_results(batches).aggregates.to_pylist()) == comparable(found)


def test_a_first_negation_is_refused_with_its_reason():
    queries = ["SEQ(!B b, A a) AGG COUNT(*)", "AND(A a, !B b) AGG COUNT(*)"]
    workload = load_bound(
        {"stream": STREAM, "queries": [f"PATTERN {text} WITHIN 9 ms" for text in queries]}
    )
    assert ["opening of the window" in sem.refusal(query) for query in workload.queries] == [
        True
    ] * 2


def test_sem_is_planned_where_starts_are_rare():
    workload = workload_of("WITHIN 60 ms")
    for rare, expected in ((0.002, {"sem"}), (0.5, {"product"})):
        events = from_table(stream(20_000, rare), workload.stream)
        plan = How().plan(
            replace(workload, queries=workload.queries[1:2]), measure(workload, events)
        )
        assert {group.engine for group in plan.groups} == expected
