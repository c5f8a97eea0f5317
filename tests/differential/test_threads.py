"""Slices in several threads give what they give one after the other: rows, accounts, decisions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.local.threads import SliceThreads, threads_for
from engines.program import PartialLimit, RunContext, RunOptions
from engines.results.chunks import collected
from optimizer.bind.binder import load_bound
from tests.differential.test_slices import (
    COLUMNS,
    COUNTED,
    DENSE,
    MILLISECOND,
    SHAPE,
    WAITING,
    batches,
    cases,
    disorder_of,
    multiset,
    sizes,
)
from tests.running import How, run_local
from tests.strategies import has_sequence

numbers = st.sampled_from([1, 2, 5])


def run_in_threads(workload, table, rows, slicing, threads, batch_rows=3, options=None):
    """The results of each slice, and the context of the run."""
    context = RunContext(options or RunOptions())
    run = SlicedRun(How().program(workload), MILLISECOND, context)
    lateness = Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults())
    pieces = cut(
        batches(table, batch_rows),
        table.schema,
        workload.stream,
        lateness,
        run.reach,
        slicing,
        run.carried,
    )
    with SliceThreads(run, threads) as slices:
        found = [
            collected(slices.chunks(piece), piece.events.time_type)
            for piece in slices.ahead(pieces)
        ]
    return found, context


def table_of(workload, rows):
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    return pa.Table.from_pylist(rows, pa.schema(columns))


def check(case, slicing, threads):
    workload, rows = case
    table = table_of(workload, rows)
    whole = run_local(workload, from_table(table, workload.stream))
    one, alone = run_in_threads(workload, table, rows, slicing, 1)
    many, together = run_in_threads(workload, table, rows, slicing, threads)
    assert multiset(many) == multiset([whole])
    assert [multiset([part]) for part in many] == [multiset([part]) for part in one]
    assert together.account.rows_in == alone.account.rows_in
    assert together.account.rows_out == alone.account.rows_out
    assert list(together.fallbacks) == list(alone.fallbacks)
    assert together.decisions == alone.decisions
    assert together.given == alone.given


@given(cases(SHAPE), sizes, numbers, st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_workload(case, rows, threads, grow):
    check(case, SliceSize(rows, grow), threads)


@given(cases(DENSE), sizes, numbers)
@settings(max_examples=60, deadline=None)
def test_many_matches(case, rows, threads):
    check(case, SliceSize(rows), threads)


@given(cases(COUNTED), sizes, numbers)
@settings(max_examples=60, deadline=None)
def test_counted_queries(case, rows, threads):
    check(case, SliceSize(rows, grow=False), threads)


@given(cases(WAITING), sizes, numbers)
@settings(max_examples=60, deadline=None)
def test_matches_that_wait(case, rows, threads):
    check(case, SliceSize(rows, grow=False), threads)


STREAM = {"time": "ts", "unit": "ms", "type": "kind", "attributes": {"x": "int"}}
ROWS = [{"ts": i, "kind": "AB"[i % 2], "k": 0, "x": i, "y": 0} for i in range(60)]


def bound(text):
    return load_bound({"stream": STREAM, "queries": [f"QUERY q PATTERN {text}"]})


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_row_limit_is_met_in_the_order_of_slices(threads):
    workload = bound("SEQ(A a, B b) RETURN a.ts WITHIN 5 ms")
    options = RunOptions(row_limit=11)
    found, context = run_in_threads(
        workload, table_of(workload, ROWS), ROWS, SliceSize(4, grow=False), threads, 4, options
    )
    expected, _ = run_in_threads(
        workload, table_of(workload, ROWS), ROWS, SliceSize(4, grow=False), 1, 4, options
    )
    assert sum(part.matches.num_rows for part in found) == 11
    assert multiset(found) == multiset(expected)
    assert list(context.ledger.stopped) == ["q"]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_slice_ends_the_run(threads, monkeypatch):
    from engines.local import run as local

    real, seen = local.column_chunks, []

    def failing(program, columns, context):
        seen.append(1)
        if len(seen) == 3:
            raise ValueError("in the third")
        return real(program, columns, context)

    monkeypatch.setattr(local, "column_chunks", failing)
    workload = bound("SEQ(A a, B b) RETURN a.ts WITHIN 5 ms")
    with pytest.raises(ValueError, match="in the third"):
        run_in_threads(workload, table_of(workload, ROWS), ROWS, SliceSize(4, grow=False), threads)


def test_threads_end_where_nobody_takes_the_rows():
    import threading

    workload = bound("SEQ(A a, B b) RETURN a.ts WITHIN 5 ms")
    table = table_of(workload, ROWS)
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(0, True, MILLISECOND, "ts", Faults())
    slicing = SliceSize(4, grow=False)
    pieces = cut(batches(table, 4), table.schema, workload.stream, lateness, run.reach, slicing)
    with SliceThreads(run, 2) as slices:
        next(slices.ahead(pieces))
    assert not [t for t in threading.enumerate() if t.name.startswith("sheaf-slice")]


def test_as_many_threads_as_are_asked_for_unless_the_order_shows():
    program = How().program(bound("SEQ(A a, B b) RETURN a.ts WITHIN 5 ms"))
    assert threads_for(program, RunOptions(threads=3)) == 3
    assert threads_for(program, RunOptions()) >= 1
    partial = PartialLimit(5, "stop")
    assert threads_for(program, RunOptions(threads=3, partial=partial)) == 1
    assert threads_for(program, RunOptions(threads=3, device="opencl")) == 1


def test_processor_time_is_counted_once(tmp_path):
    import time

    from engines.execution import EventSource, Execution, RowSink
    from engines.run import run
    from sharing.planner import make_plan

    texts = ["SEQ(A a, B b) WHERE a.x < b.x RETURN a, b", "SEQ(A a, B b) AGG COUNT(*)"]
    queries = [f"QUERY q{i} PATTERN {text} WITHIN 40 ms" for i, text in enumerate(texts)]
    document = {"stream": STREAM, "queries": queries}
    number = 30_000
    events = {"ts": range(number), "kind": ["AB"[i % 2] for i in range(number)], "x": range(number)}
    pq.write_table(pa.table(events), tmp_path / "events.parquet")
    plan = make_plan(load_bound(document), document)
    source, sink = (str(tmp_path / name) for name in ("events.parquet", "rows.parquet"))
    execution = Execution(options=RunOptions(threads=3), slice_rows=2_000)
    began = time.process_time_ns()
    report = run(plan, EventSource(source), RowSink(sink), execution)
    spent = time.process_time_ns() - began
    charged = report.account.nanoseconds
    assert min(charged.values()) >= 0
    assert report.rows["q0"] == 15_000 * 20 - 190  # the first 19 have fewer before them
    assert spent / 3 < sum(charged.values()) <= spent * 1.02
