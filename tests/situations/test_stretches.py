"""Situations without a key are found in stretches of time, each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.input.batches import Batch
from engines.input.event_table import from_table
from engines.local.run import SlicedRun
from engines.local.slices import Cutter, SliceSize, reach_of
from engines.results.chunks import collected
from engines.spark.batch.stretches import bounds
from optimizer.bind.binder import load_bound
from optimizer.engines.situations import definitions_of
from tests.differential.test_live import rows_of
from tests.differential.test_slices import MILLISECOND
from tests.engines.spark.test_spark_spread import BY_SHUFFLE, ran
from tests.running import How, run_local
from tests.situations.random_situations import streams, workloads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def given_to(workload: Any, table: pa.Table, start: int | None, stop: int | None) -> pa.Table:
    """The events of a stretch, those of a window before it, and the last moments before these."""
    events = from_table(table, workload.stream)
    columns = Columns(workload, events)
    back = reach_of(workload.queries, MILLISECOND).back
    kept = np.ones(len(events), bool)
    if start is not None:
        kept = events.ticks > start - back
        for definition in definitions_of(workload.queries):
            member = columns.instances(definition.member) & (events.ticks <= start - back)
            if member.any():
                kept |= member & (events.ticks == events.ticks[member].max())
    if stop is not None:
        kept &= events.ticks < stop
    return events.table.filter(pa.array(kept))


@settings(max_examples=60, deadline=None)
@given(workloads(), streams(most=24), st.lists(st.integers(0, 30), max_size=3, unique=True))
def test_stretches_that_know_the_last_moments_before_them_give_what_the_stream_does(
    workload: Any, table: pa.Table, cuts: list[int]
) -> None:
    # By key, each key has last moments of its own, which no test of one stretch knows.
    queries = tuple(query for query in workload.queries if not query.key)
    program = How().program(workload).of_queries(query.name for query in queries)
    if not queries:
        return
    expected = run_local(program.workload, from_table(table, workload.stream))
    found = []
    for start, stop in bounds(sorted(cuts)):
        part = given_to(program.workload, table, start, stop)
        events = from_table(part, workload.stream)
        run = SlicedRun(program, MILLISECOND, None, start)
        none = from_table(part.slice(0, 0), workload.stream)
        small = SliceSize(4, grow=False)
        cutter = Cutter(none, workload.stream, run.reach, small, run.carried, start, stop)
        until = int(events.ticks[-1]) if len(events) else 0
        pieces = cutter.add(Batch(events.table, events.ticks, "", np.zeros(0, np.int64)), until)
        found += [
            collected(run.chunks(piece), piece.events.time_type)
            for piece in (*pieces, *cutter.finish())
        ]
    assert rows_of(found) == rows_of([expected])


few = settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@few
@given(workloads(), streams(most=30))
def test_spark_gives_what_one_process_does(
    spark: SparkSession, tmp_path: Path, workload: Any, table: pa.Table
) -> None:
    _, there = ran(spark, workload, table, BY_SHUFFLE, tmp_path)
    here = run_local(workload, from_table(table, workload.stream))
    assert rows_of([there]) == rows_of([here])


def test_spark_cuts_situations_without_a_key_by_time(spark: SparkSession, tmp_path: Path) -> None:
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    text = (
        "QUERY q{} DEFINE A OF E AS x > 0, B OF {} AS x = 0 AT LEAST 2 ms PATTERN A {} B "
        "RETURN A, B, count(A.x) AS n WITHIN 300 ms EMIT {}"
    )
    queries = [
        text.format(1, "F", "during;overlapped by", "EARLY"),
        text.format(2, "E", "meets", "COMPLETE"),
    ]
    workload = load_bound({"name": "w", "stream": stream, "queries": queries})
    numbers = np.arange(4_000)
    # F is so rare that whether it holds is known from long before a stretch.
    rare = numbers % 700 == 0
    kinds, x = np.where(rare, "F", "E"), np.where(rare, numbers // 700 % 2, numbers // 13 % 3)
    table = pa.table({"ts": numbers, "kind": kinds, "x": x})
    done, there = ran(spark, workload, table, BY_SHUFFLE, tmp_path, group=500)
    here = run_local(workload, from_table(table, workload.stream))
    assert rows_of([there]) == rows_of([here])
    assert set(here.matches.column("query").to_pylist()) == {"q1", "q2"}
    assert len(done.taken) > 1
    assert max(done.taken) < len(table)
