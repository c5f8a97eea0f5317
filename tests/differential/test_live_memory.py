"""What a live stream keeps in memory between batches changes no row, whatever the cuts."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.live.run import LiveGenerations, LiveRun
from engines.program import RunContext
from optimizer.bind.binder import load_bound
from tests.differential.test_continued import batches_of, stream
from tests.differential.test_live import ANY, rows_of
from tests.differential.test_live_engines import (
    MILLISECOND,
    QUERIES,
    STREAM,
)
from tests.differential.test_slices import COLUMNS
from tests.differential.test_slices import cases as any_cases
from tests.running import How, generation_of, run_local
from workloads.errors import UnsupportedError

cut_times = st.lists(st.integers(-2, 14), min_size=2, max_size=10)
restarts = st.lists(st.booleans(), min_size=11, max_size=11)


def going_on(programs, parts, restarted):
    """The rows of batches; where it is restarted, another run goes on with the saved state.

    Before each batch the next of the programs, which have the same queries, takes over.
    """
    found = []
    program = programs[0]
    live = LiveRun(program, MILLISECOND, RunContext())
    for number, (table, until) in enumerate(parts):
        wanted = programs[number % len(programs)]
        if wanted is not program or restarted[number % len(restarted)]:
            state, program = live.save(), wanted
            live = LiveRun(program, MILLISECOND, RunContext())
            live.restore(state)
        found.append(live.add(from_table(table, program.workload.stream), until))
    return found


@settings(max_examples=150, deadline=None)
@given(any_cases(ANY), cut_times, restarts)
def test_any_queries_give_the_rows_of_a_stored_stream(case, cuts, restarted):
    workload, rows = case
    columns = dict(COLUMNS)
    if workload.stream.sequence:
        columns["seq"] = pa.int64()
    table = pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})
    try:
        expected = run_local(workload, from_table(table, workload.stream))
        found = going_on([How().program(workload)], batches_of(table, cuts), restarted)
    except UnsupportedError:
        return
    assert rows_of(found) == rows_of([expected])


@settings(max_examples=50, deadline=None)
@given(
    any_cases(ANY, max_size=20),
    cut_times,
    st.lists(st.tuples(st.integers(0, 1), st.booleans()), min_size=12, max_size=12),
)
def test_turns_that_are_run_again_or_elsewhere_give_the_rows_of_the_stored_stream(
    case, cuts, turns
):
    """Each turn is taken by one of two workers, which remember buckets, and some of them twice."""
    workload, rows = case
    columns = dict(COLUMNS)
    if workload.stream.sequence:
        columns["seq"] = pa.int64()
    table = pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})
    found, state = [], None
    try:
        expected = run_local(workload, from_table(table, workload.stream))
        workers = [
            Bucket({"0": generation_of(workload)}, table.schema, MILLISECOND) for _ in range(2)
        ]
        until = None  # of a batch's events it is known with the next that all have come
        for (part, end), (worker, twice) in zip(batches_of(table, cuts), turns, strict=False):
            arrived = [part] if part.num_rows else []
            if twice:
                workers[worker - 1].turn(state, arrived, until, "bucket")
                workers[worker].turn(state, arrived, until, "bucket")
            turn = workers[worker].turn(state, arrived, until, "bucket")
            assert not turn.late.num_rows
            found.append(turn.results)
            state, until = turn.state, end
        if state is not None:
            found.append(workers[0].finish(state).results)
    except UnsupportedError:
        return
    assert rows_of(found) == rows_of([expected])


def test_a_bucket_goes_on_with_what_it_remembers_of_the_state_it_is_given():
    query = f"{QUERIES[3]} PARTITION BY k WITHIN 20 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    bucket = Bucket({"0": generation_of(workload)}, stream().schema, MILLISECOND)
    states, restored = [None], []
    real = LiveGenerations.restore
    spy = lambda self, parts: restored.append(len(states)) or real(self, parts)  # noqa: E731
    with mock.patch.object(LiveGenerations, "restore", spy):
        until = None
        for table, end in batches_of(stream(), list(range(0, 100, 3)))[:-1]:
            states.append(bucket.turn(states[-1], [table], until, 7).state)
            until = end
        assert len(restored) == 1  # with the first events whose time has passed
        bucket.turn(states[-2], [], until, 7)  # run again
        bucket.turn(states[-1], [], until + 3, 8)  # another bucket
    assert restored[1:] == [len(states), len(states)]


def tried_by_batches(query, step):
    """The rows of a stream in batches, and how many pairs were tried to find them."""
    workload = load_bound({"stream": STREAM, "queries": [query]})
    context = RunContext()
    live = LiveRun(How().program(workload), MILLISECOND, context)
    found = [
        live.add(from_table(table, workload.stream), until)
        for table, until in batches_of(stream(2000), list(range(0, 1001, step)))
    ]
    return rows_of(found), context.counts.tried


@pytest.mark.parametrize("key", ["", "PARTITION BY k "])
def test_joins_of_small_batches_look_for_matches_that_end_with_new_events(key):
    query = f"QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x {key}RETURN a.ts, c.ts"
    found, tried = tried_by_batches(f"{query} WITHIN 100 ms", 2)
    whole, at_once = tried_by_batches(f"{query} WITHIN 100 ms", 1000)
    assert found == whole
    assert found.total() > 1000
    assert tried < 10 * at_once  # of a window of 50 batches


def test_events_that_no_query_speaks_of_are_not_kept():
    query = "QUERY q PATTERN SEQ(A a, B b) WHERE b.x > 4 RETURN a.ts WITHIN 100 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    live = LiveRun(How().program(workload), MILLISECOND)
    table = stream(100)
    live.add(from_table(table, workload.stream), table.column("ts")[-1].as_py())
    rows = table.to_pylist()
    wanted = [r for r in rows if r["kind"] == "A" or (r["kind"] == "B" and r["x"] > 4)]
    assert live.held["q"].events == len(wanted) < len(rows)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.0, -0.0, 1.0, 2.0]),
        pa.array(["a", "a", "b", None]),
        pa.array(["a", "a", "b", "c"]).dictionary_encode(),
        pa.array([b"a", b"a", b"b", b"c"]),
        pa.array([True, True, False, None]),
        pa.array([5, 5, 6, 7], pa.uint64()),
    ],
)
def test_keys_without_new_events_are_left_out_and_no_others(values):
    query = "QUERY q PATTERN SEQ(A a, B b) PARTITION BY k RETURN a.ts, b.ts WITHIN 100 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    keys = pa.concat_arrays([values] * 5).slice(0, 18)
    kinds = ["A"] * 16 + ["B", "B"]
    table = pa.table({"ts": range(18), "kind": kinds, "k": keys})
    events = from_table(table, workload.stream)
    expected = run_local(workload, events)
    live = LiveRun(How().program(workload), MILLISECOND)
    first = live.add(from_table(table.slice(0, 16), workload.stream), 15)
    second = live.add(from_table(table.slice(16), workload.stream), 17)
    assert rows_of([first, second]) == rows_of([expected])
    assert second.matches.num_rows == 16
