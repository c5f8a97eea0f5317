"""What a live stream keeps between batches changes no row, whatever the cuts and restarts."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting import kept_units
from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.live.run import LiveGenerations, LiveRun
from engines.local.run import run_events
from engines.program import RunContext, bound_program
from engines.reference import run
from optimizer.bind.binder import load_bound
from tests import strategies
from tests.differential.test_continued import batches_of, stream
from tests.differential.test_counting import comparable, table_of
from tests.differential.test_counting_engines import CHAINS
from tests.differential.test_live import ANY, rows_of
from tests.differential.test_live_engines import (
    MILLISECOND,
    QUERIES,
    STREAM,
    by_setting,
    cases,
    counted_only,
)
from tests.differential.test_slices import COLUMNS
from tests.differential.test_slices import cases as any_cases
from tests.running import How, counting_plan, generation_of, run_local
from workloads.errors import UnsupportedError

ENGINES = ["product", "aseq", "pretree", "chopconnect"]
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


@settings(max_examples=100, deadline=None)
@given(
    cases(CHAINS, max_size=20),
    cut_times,
    restarts,
    st.lists(st.sampled_from(ENGINES), min_size=3, max_size=3),
    st.lists(st.sampled_from(ENGINES), min_size=3, max_size=3),
    st.integers(1, 4),
)
def test_any_engines_and_changes_of_plan_give_the_rows_of_the_reference(
    case, cuts, restarted, engines, others, every
):
    workload, rows = counted_only(case[0]), case[1]
    if not rows or not workload.queries:
        return
    first, second = (
        bound_program(counting_plan(workload, by_setting(workload, some), 2), workload)
        for some in (engines, others)
    )
    table = table_of(rows, strategies.has_sequence(workload))
    found = going_on([first] * every + [second] * every, batches_of(table, cuts), restarted)
    rows_found = [row for part in found for row in part.aggregates.to_pylist()]
    assert comparable(rows_found) == comparable(run(workload, rows))


@pytest.mark.parametrize("slide", ["", " SLIDE 7 ms"])
@pytest.mark.parametrize("key", ["", "PARTITION BY k "])
@pytest.mark.parametrize(
    ("engine", "kind"),
    [("product", "_Reversible"), ("aseq", "_Prefixes"), ("pretree", "_Prefixes")],
)
def test_counters_are_kept_from_batch_to_batch(engine, kind, key, slide):
    queries = [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*)",
        "QUERY two PATTERN SEQ(A a, C c) AGG COUNT(*) HAVING COUNT(*) > 1",
    ]
    if engine != "product":
        queries.append("QUERY three PATTERN SEQ(A a, !D, C c) AGG COUNT(*)")
    document = {
        "stream": STREAM,
        "queries": [q.replace("AGG", f"{key}AGG") + f" WITHIN 20 ms{slide}" for q in queries],
    }
    workload = load_bound(document)
    names = [query.name for query in workload.queries]
    program = bound_program(counting_plan(workload, [(names, engine)]), workload)
    table = stream()
    whole = run_events(program, from_table(table, workload.stream)).aggregates.to_pylist()
    cuts = list(range(-5, 210, 5))
    parts = batches_of(table, cuts)
    part = getattr(kept_units, kind)
    with mock.patch.object(part, "advance", autospec=True, side_effect=part.advance) as advanced:
        found = going_on([program], parts, [False])
    assert comparable([r for p in found for r in p.aggregates.to_pylist()]) == comparable(whole)
    assert len(whole) > 50
    # Each batch but the first, that with the first letters of a kind, and those without counters.
    assert advanced.call_count > len(parts) * 0.7


def test_a_state_is_the_same_with_and_without_counters_that_are_kept():
    query = f"{QUERIES[3]} PARTITION BY k WITHIN 20 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    program = bound_program(counting_plan(workload, [(["four"], "product")]), workload)
    parts = batches_of(stream(), list(range(0, 100, 3)))[:-1]
    kept, anew = LiveRun(program, MILLISECOND), LiveRun(program, MILLISECOND)
    for table, until in parts:
        events = from_table(table, workload.stream)
        given = [run.add(events, until) for run in (kept, anew)]
        assert rows_of(given[:1]) == rows_of(given[1:])
        assert kept.held.keys() == anew.held.keys()
        assert kept.due == anew.due
        assert [s.events for s in kept.held.values()] == [s.events for s in anew.held.values()]
        anew.restore(anew.save())
    held = kept.held
    kept.restore(kept.save())
    assert kept.held.keys() == held.keys()
    assert [s.events for s in kept.held.values()] == [s.events for s in held.values()]


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
