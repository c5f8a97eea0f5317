"""Of a table only times are read that can matter: no row is missed, and Spark skips the rest."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.planning.plan_on_events import plan_on_events
from engines.columns.columns import Columns
from engines.execution import EventSource, Execution, RowSink
from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from engines.run import run
from engines.spark.batch.source import open_table
from engines.spark.batch.time_ranges import (
    MOST_RANGES,
    _ranges_of,
    coarsened,
    merged,
    table_ranges,
)
from optimizer.access.anchors import NotIndexedError, needed_events
from optimizer.bind.binder import load_bound
from tests.engines.access.test_pruned_runs import COLUMNS, DENSE, TIMED, Case, cases, multiset
from tests.strategies import has_sequence
from workloads.loading import load_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(case: Case, draw: st.DataObject) -> None:
    """That reading the ranges around events of some of the symbols misses no row."""
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    events = from_table(table, workload.stream)
    found = Columns(workload, events)
    ranges = []
    for query in workload.queries:
        try:
            needed = needed_events(query)
        except NotIndexedError:
            return
        for reading in needed.readings:
            symbols = [symbol for stage in reading for symbol in stage]
            asked = draw.draw(st.sets(st.sampled_from(symbols), min_size=1))
            spots = {s: events.ticks[found.instances(s)] for s in asked}
            one = type(needed)(needed.query, (reading,), needed.near, needed.window)
            step = 0 if has_sequence(workload) else 1
            ranges += _ranges_of(one, spots, events.tick, step)
    read = coarsened(merged(ranges), draw.draw(st.integers(1, 4)))
    times = events.table.column("ts").to_pylist()
    kept = [any(low <= time <= high for low, high in read) for time in times]
    part = from_table(events.table.filter(pa.array(kept, pa.bool_())), workload.stream)
    assert multiset(run_oracle(workload, part)) == multiset(run_oracle(workload, events))


@given(cases(TIMED), st.data())
@settings(max_examples=150, deadline=None)
def test_no_row_is_missed(case: Case, data: st.DataObject) -> None:
    check(case, data)


@given(cases(DENSE), st.data())
@settings(max_examples=100, deadline=None)
def test_no_row_is_missed_with_negations_and_groups(case: Case, data: st.DataObject) -> None:
    check(case, data)


ranges_of_times = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(0, 5)).map(lambda each: (each[0], sum(each)))
)


@given(ranges_of_times, st.integers(1, 5))
def test_coarser_ranges_are_few_and_have_all_times(ranges: list[Any], most: int) -> None:
    whole = merged(ranges)
    found = coarsened(whole, most)
    assert len(found) == min(len(whole), most)
    assert all(a[1] < b[0] - 1 for a, b in pairwise(whole))
    times = {time for low, high in ranges for time in range(low, high + 1)}
    assert {t for t in times if not any(low <= t <= high for low, high in found)} == set()
    assert {t for low, high in whole for t in range(low, high + 1)} == times


# --- with Spark -----------------------------------------------------------------------------------

SESSION = "engines.spark.runtime.session.spark_session"
ROWS, PAGE = 20_000, 500
STREAM = {"time": "ts", "type": "kind", "unit": "ms"}
MATCHES = (
    "QUERY q PATTERN SEQ(A a, !C c, B b) WHERE a.level > 90 AND a.level < 90.5 "
    "RETURN a.ts, b.ts WITHIN 20 ms"
)
COUNTS = (
    "QUERY n PATTERN SEQ(A a, B b) WHERE b.level > 120 AND b.level < 121 AGG COUNT(*) WITHIN 30 ms"
)
CHAINED = "QUERY s PATTERN SEQ(A a, B b) RETURN a.ts AS at WITHIN 20 ms INTO Made"
OPEN = "QUERY o PATTERN SEQ(A a, B b) WHERE a.level < b.level - 2 RETURN a.ts WITHIN 20 ms"


def stored(folder: Path, kind: str) -> str:
    """Parquet at an address, which Spark reads; times of a kind."""
    draw = np.random.default_rng(5)
    times = pa.array(np.arange(ROWS))
    if kind != "long":
        times = pc_times(times, kind)
    table = pa.table(
        {
            "ts": times,
            "kind": np.array(["A", "B", "C"])[draw.integers(0, 3, ROWS)],
            "level": np.arange(ROWS) / 100 + draw.random(ROWS),
        }
    )
    folder.mkdir()
    pq.write_table(table, folder / "events.parquet", write_page_index=True, max_rows_per_page=PAGE)
    return f"file://{folder}"


def pc_times(times: pa.Array, kind: str) -> pa.Array:
    zone = "UTC" if kind == "timestamp" else None
    moments = pa.array(np.asarray(times) * 1_000 + 1_700_000_000_000_000)
    return moments.cast(pa.timestamp("us", zone))


@pytest.mark.parametrize("kind", ["long", "timestamp", "timestamp_ntz"])
def test_a_table_is_read_by_ranges_of_time(tmp_path: Path, spark: SparkSession, kind: str) -> None:
    path = stored(tmp_path / "events", kind)
    document = {"name": "w", "stream": STREAM, "queries": [MATCHES, COUNTS]}
    plan = plan_on_events(load_workload(document))
    found, reports = {}, {}
    for access in ("scan", "index", "index:a,b"):
        out = tmp_path / f"{access.replace(':', '-')}.jsonl"
        execution = Execution("spark", access=access)
        with mock.patch(SESSION, return_value=nullcontext(spark)):
            reports[access] = run(plan, EventSource(path), RowSink(str(out)), execution)
        lines = [
            line for file in reports[access].files for line in Path(file).read_text().splitlines()
        ]
        found[access] = Counter(lines)
    assert found["index"] == found["index:a,b"] == found["scan"]
    assert sum(found["scan"].values()) > 10
    assert [json.loads(line)["query"] for line in found["scan"]].count("q") > 0
    assert reports["scan"].access["method"] == "scan"
    assert reports["index"].access["method"] == "index"
    assert 0 < reports["index"].access["ranges"] <= MOST_RANGES


@pytest.mark.parametrize("kind", ["long", "timestamp", "timestamp_ntz"])
def test_ranges_are_pushed_to_the_scan_and_pages_skipped(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    path = stored(tmp_path / "events", kind)
    workload = load_bound({"name": "w", "stream": STREAM, "queries": [MATCHES]})
    table = open_table(spark, path, workload.stream)
    found = table_ranges(table.events, table.schema, workload, "index")
    assert found.ranges is not None
    table.ranges = found.ranges
    frame = table.frame(spark, ["ts", "level"], None)  # type: ignore[arg-type]
    number = len(frame.collect())
    assert 0 < number < PAGE
    plan: Any = frame._jdf.queryExecution().executedPlan()
    assert "PushedFilters: [IsNotNull(ts), GreaterThanOrEqual(ts," in plan.toString()
    # The file has one row group: what is not read are pages of it. By times without a zone Spark
    # skips none, and leaves rows out that it has read.
    scanned = plan.collectLeaves().head().metrics().apply("numOutputRows").value()
    assert number <= scanned <= (ROWS if kind == "timestamp_ntz" else 2 * PAGE)


@pytest.mark.parametrize(
    ("query", "why"),
    [(CHAINED, "events for others"), (OPEN, "conditions say nothing of single columns")],
)
def test_what_cannot_be_looked_for_says_why(
    tmp_path: Path, spark: SparkSession, query: str, why: str
) -> None:
    path = stored(tmp_path / "events", "long")
    workload = load_bound({"name": "w", "stream": STREAM, "queries": [query]})
    table = open_table(spark, path, workload.stream)
    found = table_ranges(table.events, table.schema, workload, "index")
    assert found.ranges is None
    assert why in found.why
