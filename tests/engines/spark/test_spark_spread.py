"""However a job is spread over tasks, its rows are those of the local engine."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.account import Account
from engines.input.event_table import from_table
from engines.local.slices import SliceReach, SliceSize
from engines.results.tables import Results
from engines.spark.batch.job import BatchSummary, SpreadSettings, run_batch
from engines.spark.batch.progress import BatchProgress, OnProgress, taken_by_query
from engines.spark.batch.source import open_source
from engines.spark.batch.stretches import (
    RowGroup,
    cheapest,
    cuts_between,
    held_at_once,
    stored_stretches,
    stretches_for,
)
from engines.spark.batch.targets import FileTarget
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.test_slices import COLUMNS, multiset
from tests.running import How, run_local
from tests.strategies import SHAPE, Row, Shape, event_rows, has_sequence, workloads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = SliceSize(4, grow=False)
BY_TIME = SpreadSettings(spread="time", stretches=3, slicing=SMALL)
BY_SHUFFLE = SpreadSettings(spread="shuffle", buckets=2, least_rows=1, slicing=SMALL)


def ran(
    spark: "SparkSession",
    workload: BoundWorkload,
    table: pa.Table,
    how: SpreadSettings,
    folder: Path,
    group: int = 5,
    told: OnProgress | None = None,
) -> tuple[BatchSummary, Results]:
    """What a job did over a table that is stored in small groups, and its rows."""
    pq.write_table(table, folder / "events.parquet", row_group_size=group)
    source = open_source(str(folder / "events.parquet"), workload.stream)
    target = FileTarget(str(folder / "r.parquet"))
    program = How().program(workload)
    done = run_batch(spark, program, source, target, settings=how, told=told)
    return done, Results(*(pq.read_table(name) for name in done.names))


def drawn(shape: Shape) -> st.SearchStrategy[tuple[BoundWorkload, list[Row]]]:
    return workloads(shape, max_queries=6).flatmap(
        lambda found: st.tuples(
            st.just(found),
            event_rows(sequence=has_sequence(found), types=shape.types, max_size=30),
        )
    )


def check(
    spark: "SparkSession", case: tuple[BoundWorkload, list[Row]], how: SpreadSettings, folder: Path
) -> BatchSummary:
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    done, there = ran(spark, workload, table, how, folder)
    here = run_local(workload, from_table(table, workload.stream))
    assert multiset([there]) == multiset([here])
    assert done.events == len(rows)
    return done


few = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(drawn(replace(SHAPE, count_windows=False)))
@few
def test_random_workloads_by_time(
    spark: "SparkSession", tmp_path: Path, case: tuple[BoundWorkload, list[Row]]
) -> None:
    done = check(spark, case, BY_TIME, tmp_path)
    assert done.spread == "time" or not case[1]


@given(drawn(SHAPE))
@few
def test_random_workloads_by_shuffle(
    spark: "SparkSession", tmp_path: Path, case: tuple[BoundWorkload, list[Row]]
) -> None:
    assert check(spark, case, BY_SHUFFLE, tmp_path).spread == "shuffle"


STREAM = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"}


def skewed(rows: int, share: int = 95) -> pa.Table:
    """`share` of a hundred events have one key; every third event is of a type nobody wants."""
    return pa.table(
        {
            "ts": pa.array([i // 2 for i in range(rows)], pa.int64()),
            "seq": pa.array(range(rows), pa.int64()),
            "kind": pa.array(["ABX"[i % 3] for i in range(rows)]),
            "user": pa.array(["hot" if i % 100 < share else f"u{i % 37}" for i in range(rows)]),
            "x": pa.array([(i * 7) % 50 for i in range(rows)], pa.int64()),
        }
    )


def bound(*queries: str, **stream: Any) -> BoundWorkload:
    return load_bound({"name": "t", "stream": STREAM | stream, "queries": list(queries)})


def test_a_hot_key_is_cut_by_time(spark: "SparkSession", tmp_path: Path) -> None:
    workload = bound(
        "QUERY counted PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*), SUM(b.x) WITHIN 9 ms",
        "QUERY waits PATTERN SEQ(A a, !B b) WHERE [user] AND a.x > 45 RETURN a.x WITHIN 9 ms",
        "QUERY ranked PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*) WITHIN 6 EVENTS",
    )
    table = skewed(8_000)
    how = SpreadSettings(spread="shuffle", buckets=6, least_rows=200, slicing=SliceSize(1_000))
    told: list[BatchProgress] = []
    done, there = ran(spark, workload, table, how, tmp_path, group=2_000, told=told.append)
    assert multiset([there]) == multiset([run_local(workload, from_table(table, workload.stream))])
    assert (told[-1].read, told[-1].taken["ranked"]) == (8_000, 8_000)
    hot = 7_600
    # One part has all events of the key, for the count window; those of the others share it.
    most, *others = sorted(done.taken, reverse=True)
    assert most == hot
    assert len(others) > 6
    assert max(others) < hot / 3


def test_matches_that_are_left_out_for_others_are_so_whatever_the_cuts(
    spark: "SparkSession", tmp_path: Path
) -> None:
    workload = bound(
        "QUERY few PATTERN A a WHERE a.x = 7 RETURN a.x SUPPRESS 300 ms WITHIN 1 ms",
        "QUERY by_user PATTERN SEQ(A a, B b) WHERE [user] AND a.x = 7 RETURN a.x "
        "SUPPRESS 200 ms WITHIN 9 ms",
        "QUERY last PATTERN A a WHERE a.x = 7 RETURN a.x KEEP LAST 3 WITHIN 1 ms",
    )
    table = skewed(2_000)
    here = run_local(workload, from_table(table, workload.stream))
    assert Counter(here.matches["query"].to_pylist())["last"] == 3
    by_time = SpreadSettings(spread="time", stretches=4, slicing=SliceSize(100))
    by_key = SpreadSettings(spread="shuffle", buckets=4, least_rows=100, slicing=SliceSize(100))
    for how in (by_time, by_key):
        there = ran(spark, workload, table, how, tmp_path, group=500)[1]
        assert multiset([there]) == multiset([here])


def test_only_events_that_a_query_looks_at_travel(spark: "SparkSession", tmp_path: Path) -> None:
    table = skewed(900)
    for how in (
        SpreadSettings(spread="time", stretches=1),
        SpreadSettings(spread="shuffle", buckets=1),
    ):
        kinds = bound("QUERY q PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*) WITHIN 9 ms")
        assert sum(ran(spark, kinds, table, how, tmp_path)[0].taken) == 600
        large = bound(
            "QUERY q PATTERN SEQ(A a, B b) WHERE [user] AND a.x >= 25 AND b.x < 25 "
            "RETURN a.x WITHIN 9 ms"
        )
        done, there = ran(spark, large, table, how, tmp_path)
        wanted = [
            kind == "A" if x >= 25 else kind == "B"
            for kind, x in zip(table["kind"].to_pylist(), table["x"].to_pylist(), strict=True)
        ]
        assert sum(done.taken) == sum(wanted)
        here = run_local(large, from_table(table, large.stream))
        assert multiset([there]) == multiset([here])
        assert here.matches.num_rows


def test_a_count_window_counts_events_that_nobody_looks_at(
    spark: "SparkSession", tmp_path: Path
) -> None:
    workload = bound("QUERY q PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 5 EVENTS")
    table = skewed(600)
    done, there = ran(spark, workload, table, SpreadSettings(), tmp_path)
    assert done.taken == [600]
    assert multiset([there]) == multiset([run_local(workload, from_table(table, workload.stream))])


def test_events_in_order_are_read_where_they_are(spark: "SparkSession", tmp_path: Path) -> None:
    queries = ("QUERY q PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 9 ms",)
    short, long = bound(*queries), bound(queries[0].replace("9 ms", "1 min"))
    table = skewed(2_000)
    how = SpreadSettings(least_rows=100)
    assert ran(spark, short, table, how, tmp_path, 200)[0].spread == "time"
    mixed = table.take([(i * 77) % 2_000 for i in range(2_000)])
    for workload, stored in ((short, mixed), (long, table)):
        _, there = ran(spark, workload, stored, how, tmp_path, 200)
        here = run_local(workload, from_table(stored, workload.stream))
        assert multiset([there]) == multiset([here])


# --- planning, without Spark ---------------------------------------------------------------------


def test_events_are_counted_for_a_query_in_all_parts_that_it_is_in() -> None:
    # As where a hot key is cut: all queries, those of windows in time, those of windows in events.
    programs = [("a", "b"), ("a",), ("b",)]
    found = [(10, {"a": 3}, 0), (7, {"b": 1}, 0), (5, {}, 1), (2, {}, 1), (4, {}, 2)]
    parts = [(*part, Account().totals()) for part in found]
    assert taken_by_query(parts, programs) == {"a": 24, "b": 21}
    assert taken_by_query([], programs) == {"a": 0, "b": 0}


def test_there_are_as_many_stretches_as_pay() -> None:
    assert stretches_for(10_000, SliceReach(1), cores=2, most=8) == 8
    assert stretches_for(10_000, SliceReach(1_000), cores=2, most=8) == 2
    assert stretches_for(10_000, SliceReach(20_000), cores=2, most=8) == 1
    assert stretches_for(10_000, SliceReach(1), cores=2, most=0) == 1


def test_cuts_are_times_within_the_stream() -> None:
    times = pa.array([5, 1, 3, 2, 4, 6, 8, 7]).to_numpy()
    assert cuts_between(times, 4) == (3, 5, 7)
    assert cuts_between(times[:1], 4) == ()
    assert cuts_between(pa.array([2, 2, 2, 2]).to_numpy(), 3) == ()


def test_rows_of_groups_that_lie_over_one_another_are_held_at_once() -> None:
    assert held_at_once([RowGroup(i, 100, 10 * i, 10 * i + 9) for i in range(8)]) == 100
    assert held_at_once([RowGroup(i, 100, 10 * i, 10 * i + 10) for i in range(8)]) == 200
    assert held_at_once([RowGroup(i, 100, 0, i) for i in range(8)]) == 800


def test_groups_are_read_by_the_stretches_that_reach_them() -> None:
    groups = [RowGroup(i, 100, 100 * i, 100 * i + 99) for i in range(8)]
    found = stored_stretches(groups, SliceReach(back=11, ahead=5), 2)
    assert [(s.start, s.stop) for s in found] == [(None, 400), (400, None)]
    assert [[g.split for g in s.groups] for s in found] == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]
    touching = stored_stretches(groups, SliceReach(back=1, ahead=0), 2)
    assert [[g.split for g in s.groups] for s in touching] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_no_core_is_left_idle_where_windows_are_short(cores: int) -> None:
    groups = [RowGroup(i, 1_000_000, 10**6 * i, 10**6 * (i + 1) - 1) for i in range(20)]
    stretches, time = cheapest(groups, SliceReach(1_000), cores, 4 * cores, queries=10)
    assert len(stretches) >= cores
    _, alone = cheapest(groups, SliceReach(1_000), 1, 1, queries=10)
    assert time < 1.4 * alone / cores
