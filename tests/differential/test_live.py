"""Events that keep coming give what they give at once, for any workload, batches and restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import StateError
from engines.live.run import LiveRun
from engines.live.state_bytes import from_bytes, to_bytes
from optimizer.bind.binder import load_bound
from tests.differential.test_continued import batches_of, stream
from tests.differential.test_slices import COLUMNS, MILLISECOND, cases
from tests.running import How, run_local
from tests.strategies import SHAPE
from workloads.errors import UnsupportedError

ANY = replace(SHAPE, max_components=4, max_window=5)


def rows_of(results):
    return Counter(
        tuple(row.values())
        for part in results
        for table in (part.aggregates, part.matches)
        for row in table.to_pylist()
    )


def run_live(workload, parts):
    found = []
    program = How().program(workload)
    live = LiveRun(program, MILLISECOND)
    for table, until in parts:
        found.append(live.add(from_table(table, workload.stream), until))
        state = live.save()
        live = LiveRun(program, MILLISECOND)
        live.restore(state)
    return found


@settings(max_examples=150, deadline=None)
@given(cases(ANY), st.lists(st.integers(-2, 14), max_size=6))
def test_a_live_stream_gives_the_rows_of_a_stored_one(case, cuts):
    workload, rows = case
    columns = dict(COLUMNS)
    if workload.stream.sequence:
        columns["seq"] = pa.int64()
    table = pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})
    try:
        expected = run_local(workload, from_table(table, workload.stream))
        found = run_live(workload, batches_of(table, cuts))
    except UnsupportedError:
        return
    assert rows_of(found) == rows_of([expected])


def test_counters_beside_a_chain_read_the_stream_and_nothing_that_is_made():
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                "QUERY counted PATTERN SEQ(A a, > B b) AGG COUNT(*) WITHIN 6 ms",
                "QUERY made PATTERN SEQ(A a, B b) RETURN a.x WITHIN 4 ms INTO Pair",
                "QUERY read PATTERN Pair p AGG COUNT(*) WITHIN 4 ms SLIDE 2 ms",
            ],
        }
    )
    kinds = "ABBAACBAB"
    table = pa.table({"ts": range(len(kinds)), "kind": list(kinds), "x": range(len(kinds))})
    expected = run_local(workload, from_table(table, workload.stream))
    assert {row["query"] for row in expected.aggregates.to_pylist()} == {"counted", "read"}
    assert rows_of(run_live(workload, batches_of(table, [2, 5]))) == rows_of([expected])


def test_a_query_that_waits_keeps_no_rows_of_others_back():
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                "QUERY soon PATTERN SEQ(A a, B b) RETURN a WITHIN 5 ms",
                "QUERY later PATTERN SEQ(A a, !C) RETURN a WITHIN 20 ms",
                "QUERY latest PATTERN SEQ(A a, B b, !C) RETURN a WITHIN 90 ms",
            ],
        }
    )
    live = LiveRun(How().program(workload), MILLISECOND)
    given = {}
    events = pa.table({"ts": [1, 2, 1000], "kind": ["A", "B", "D"]})
    for until in range(1, 100):
        batch = events.filter(pa.compute.equal(events["ts"], until))
        for row in live.add(from_table(batch, workload.stream), until).matches.to_pylist():
            given[row["query"]] = (until, row["time"])
    # A match waits for as long as its window is from its last event on.
    assert given == {"soon": (2, 2), "later": (21, 21), "latest": (92, 91)}


def test_a_window_of_events_that_waits_for_more_is_refused():
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
            "queries": ["QUERY late PATTERN SEQ(A a, !B) RETURN a WITHIN 5 EVENTS"],
        }
    )
    with pytest.raises(UnsupportedError, match="query late cannot run over a live stream"):
        LiveRun(How().program(workload), MILLISECOND)


def test_a_damaged_state_is_refused():
    blob, _ = to_bytes({"kept": stream(10)}, {"tick": 1})
    tables, about = from_bytes(blob)
    assert (tables["kept"], about) == (stream(10), {"tick": 1})
    with pytest.raises(StateError, match="damaged"):
        from_bytes(blob[:-3] + b"xyz")
    with pytest.raises(StateError, match="version"):
        from_bytes(b"something else")
