"""Counting batch by batch, with the state saved and read back, gives what one batch gives."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.counting.live import LiveCounter
from engines.input.event_table import from_table
from engines.limits import StateError
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.differential.test_counting import COUNTABLE, comparable, table_of
from tests.running import run_local, unit_of

SEQUENCES = replace(COUNTABLE, operators=("SEQ", "OR"))


def carried(state: pa.Table) -> pa.Table:
    """The state as another process would read it."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, state.schema) as writer:
        writer.write_table(state)
    return pa.ipc.open_stream(out.getvalue()).read_all()


def batches_of(table: pa.Table, cuts: list[int]) -> list[tuple[pa.Table, int | None]]:
    """The rows up to each time, and the rest."""
    ends = sorted(set(cuts))
    times = table.column("ts").to_pylist()
    parts = []
    low = -(2**40)
    for end in [*ends, None]:
        rows = [i for i, t in enumerate(times) if t > low and (end is None or t <= end)]
        parts.append((table.take(pa.array(rows, pa.int64())), end))
        low = low if end is None else end
    return parts


def rows_in_batches(workload, queries, parts, restart=True):
    found = []
    counting = LiveCounter([unit_of(queries)], 10**6)
    for table, until in parts:
        events = from_table(table, workload.stream)
        layout = arrange(events, queries[0].key, queries[0].window.is_count, False)
        added = counting.add(ArrangedEvents(layout, Columns(workload, events)), until)
        found += [table for _, table in added]
        if restart:
            state = carried(counting.save())
            counting = LiveCounter([unit_of(queries)], 10**6)
            counting.restore(state)
    return [row for part in found for row in part.to_pylist()]


@settings(max_examples=200, deadline=None)
@given(
    strategies.workloads(SEQUENCES, max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=SEQUENCES.types, max_size=14
            ),
        )
    ),
    st.lists(st.integers(-2, 14), max_size=8),
)
def test_any_batches_give_the_rows_of_one(case, cuts):
    workload, rows = case
    if not rows:
        return
    table = table_of(rows, strategies.has_sequence(workload))
    for query in workload.queries:
        if countable(query) is not None:
            continue
        alone = replace(workload, queries=(query,))
        expected = run_local(alone, from_table(table, alone.stream)).aggregates.to_pylist()
        found = rows_in_batches(alone, [query], batches_of(table, cuts))
        assert comparable(found) == comparable(expected)


TAIL = "PARTITION BY k WITHIN 20 ms"
QUERIES = [
    f"QUERY counts PATTERN SEQ(A a, B b, C c) AGG COUNT(*) {TAIL}",
    f"QUERY more PATTERN SEQ(B b, C c, A a) AGG COUNT(*) {TAIL}",
    f"QUERY sums PATTERN SEQ(A a, !D, C c) AGG COUNT(*), SUM(a.x), MAX(c.x) {TAIL}",
]


def stream(size=400):
    import numpy as np

    random = np.random.default_rng(3)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, size)),
            "kind": random.choice(list("ABCD"), size),
            "k": random.integers(0, 5, size),
            "x": random.integers(0, 9, size),
            "y": random.integers(0, 9, size),
        }
    )


@pytest.mark.parametrize("slide", ["", " SLIDE 7 ms"])
def test_a_moment_at_a_time_gives_the_rows_of_one_batch(slide):
    table = stream()
    document = {
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "queries": [query + slide for query in QUERIES],
    }
    workload = load_bound(document)
    expected = run_local(workload, from_table(table, workload.stream)).aggregates.to_pylist()
    parts = batches_of(table, list(range(201)))
    assert comparable(rows_in_batches(workload, workload.queries, parts)) == comparable(expected)


def test_the_state_holds_no_more_than_a_window():
    table = stream(4000)
    workload = load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": QUERIES}
    )
    counting = LiveCounter([unit_of(workload.queries)], 10**6)
    for part, until in batches_of(table, list(range(0, 2000, 50)))[:-1]:
        events = from_table(part, workload.stream)
        layout = arrange(events, ("k",), False, False)
        counting.add(ArrangedEvents(layout, Columns(workload, events)), until)
        held = counting.state.position.tolist()
        assert all(until - 20 < t <= until for t in held)


def test_queries_that_stay_keep_their_counts_when_others_come_and_go():
    table = stream()
    document = {"stream": {"time": "ts", "unit": "ms", "type": "kind"}}
    before = load_bound(document | {"queries": QUERIES[:2]})
    after = load_bound(document | {"queries": [QUERIES[1], QUERIES[2]]})
    expected = run_local(before, from_table(table, before.stream)).aggregates.to_pylist()
    counting = LiveCounter([unit_of(before.queries)], 10**6)
    found = []
    for (part, until), workload in zip(batches_of(table, [100]), (before, after), strict=True):
        if workload is after:
            state = carried(counting.save())
            counting = LiveCounter([unit_of(after.queries)], 10**6)
            counting.restore(state)
        events = from_table(part, workload.stream)
        layout = arrange(events, ("k",), False, False)
        tables = counting.add(ArrangedEvents(layout, Columns(workload, events)), until)
        found += [row for _, part in tables for row in part.to_pylist()]

    def of(rows, query):
        return comparable(row for row in rows if row["query"] == query)

    assert of(found, "more") == of(expected, "more")


def test_a_state_of_another_version_is_refused():
    workload = load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": QUERIES}
    )
    counting = LiveCounter([unit_of(workload.queries)], 10**6)
    state = counting.save().replace_schema_metadata({"version": b"0"})
    with pytest.raises(StateError, match="version"):
        counting.restore(state)
