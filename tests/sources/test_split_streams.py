"""A stream in two sources, with other columns and units, gives the rows of the stream as one."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.execution import EventSource, Execution, RowSink
from engines.input.batches import read_events
from engines.input.event_table import column_kinds, from_table
from engines.reference.oracle import run_oracle
from engines.reference.sources import merged
from engines.results.tables import Results
from engines.run import run
from engines.spark.batch.source import open_source
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from tests.engines.spark.test_spark_batch import ran
from tests.strategies import SHAPE, Row, bindable_queries, event_rows, query_text
from workloads.loading import load_workload
from workloads.workload import Workload, to_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 10**9
RENAMED = {"k": "kk", "x": "xx"}
SMALL = replace(SHAPE, max_components=4, having=False)
COLUMNS = {
    "time": pa.int64(),
    "type": pa.string(),
    "source": pa.string(),
    "k": pa.int64(),
    "x": pa.int64(),
    "y": pa.int64(),
}
QUERIES = (
    "QUERY keyed PATTERN SEQ(A a, !C c, B b) PARTITION BY k AGG COUNT(*), SUM(b.x) WITHIN 40 ms",
    "QUERY whole PATTERN SEQ(A a, left l) WHERE a.x < l.x RETURN a, l.time WITHIN 5 ms",
    "QUERY strict PATTERN SEQ(A a, : B b) STRATEGY ANY PARTITION BY k RETURN a.x WITHIN 9 ms",
)


def single(queries: list[str], sequence: bool) -> Workload:
    stream = {"time": "time", "unit": "us", "type": "type", "types": {"left": "source = 'left'"}}
    if sequence:
        stream["sequence"] = "sequence"
    return load_workload({"name": "w", "stream": stream, "queries": queries})


def split(queries: list[str], sequence: bool) -> Workload:
    number = {"sequence": "seq"} if sequence else {}
    left = {"time": "ts", "unit": "ms", "type": "kind", **number}
    renamed = {new: old for old, new in RENAMED.items()}
    right = {"time": "at", "unit": "us", "type": "what", "rename": renamed, **number}
    document = {"name": "w", "streams": {"left": left, "right": right}, "queries": queries}
    return load_workload(document)


def in_two(rows: list[Row], side: list[bool]) -> dict[str, list[Row]]:
    """Some events as they are, and the others as another source has them."""
    found: dict[str, list[Row]] = {"left": [], "right": []}
    for row, is_left in zip(rows, side, strict=False):
        if is_left:
            found["left"].append(row)
            continue
        time = {"at": 1000 * row["ts"], "what": row["kind"]}
        rest = {n: v for n, v in row.items() if n not in ("ts", "kind")}
        found["right"].append(time | {RENAMED.get(n, n): v for n, v in rest.items()})
    return found


def as_one(rows: list[Row], side: list[bool], sequence: bool) -> pa.Table:
    """The events as one stream has them, in the finer unit."""
    number = {"sequence": pa.int64()} if sequence else {}
    found = [
        {
            "time": 1000 * row["ts"],
            "type": row["kind"],
            "sequence": row.get("seq"),
            "source": "left" if is_left else "right",
            **{n: row[n] for n in ("k", "x", "y")},
        }
        for row, is_left in zip(rows, side, strict=False)
    ]
    return pa.Table.from_pylist(found, pa.schema({**COLUMNS, **number}))


def stored(folder: Path, events: dict[str, list[Row]], sequence: bool) -> dict[str, str]:
    """One source in Parquet, the other in lines of JSON."""
    number = {"seq": pa.int64()} if sequence else {}
    columns = {"ts": pa.int64(), "kind": pa.string(), "k": pa.int64(), "x": pa.int64()}
    schema = pa.schema({**columns, "y": pa.int64(), **number})
    paths = {"left": str(folder / "left.parquet"), "right": str(folder / "right.jsonl")}
    pq.write_table(pa.Table.from_pylist(events["left"], schema), paths["left"], row_group_size=3)
    Path(paths["right"]).write_text("".join(json.dumps(row) + "\n" for row in events["right"]))
    return paths


def rows_of(results: Results | None) -> Counter[Any]:
    assert results is not None
    found = []
    for row in [*results.aggregates.to_pylist(), *results.matches.to_pylist()]:
        if "match" in row:  # the order of its columns is that of the events
            row["match"] = json.dumps(json.loads(row["match"]), sort_keys=True)
        found.append(tuple(row.items()))
    return Counter(found)


Case = tuple[bool, list[str], list[Row], list[bool]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sequence = draw(st.booleans())
    shape = replace(SMALL, count_windows=sequence)
    names = ["q1", "q2"][: draw(st.integers(1, 2))]
    queries = [query_text(draw(bindable_queries(shape, name))) for name in names]
    rows = draw(event_rows(sequence=sequence, max_size=10))
    return sequence, queries, rows, draw(st.lists(st.booleans(), min_size=10, max_size=10))


@given(cases(), st.sampled_from([1, 7, None]))
@settings(max_examples=60)
def test_any_workload(case: Case, slice_rows: int | None) -> None:
    sequence, queries, rows, side = case
    one, two = single(queries, sequence), split(queries, sequence)
    table = as_one(rows, side, sequence)
    expected = rows_of(run_oracle(bind(one), from_table(table, one.stream)))
    with TemporaryDirectory() as folder:
        paths = stored(Path(folder), in_two(rows, side), sequence)
        source = EventSource(paths, disorder=SECOND)
        plan = make_plan(bind(two), to_document(two))
        here = run(plan, source, RowSink(shown=None), Execution(slice_rows=slice_rows))
        by_definition = run(plan, EventSource(paths), RowSink(shown=None), Execution("oracle"))
    assert rows_of(here.first) == expected
    assert rows_of(by_definition.first) == expected


@given(event_rows(sequence=True, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
@settings(max_examples=40)
def test_events_are_those_of_the_definition(rows: list[Row], side: list[bool]) -> None:
    two, events = split(["QUERY q PATTERN A a RETURN a WITHIN 1 s"], True), in_two(rows, side)
    with TemporaryDirectory() as folder:
        found = read_events(stored(Path(folder), events, True), two.stream).table.to_pylist()
    expected = merged(two.stream, events)

    def told(rows: list[Row]) -> Counter[str]:
        return Counter(json.dumps(row, sort_keys=True) for row in rows)

    # A column that no event of a source has is not in the definition's rows either.
    names = {name for row in expected for name in row}
    assert told([{n: v for n, v in row.items() if n in names} for row in found]) == told(expected)


def test_on_spark(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [
        {"ts": i // 2, "kind": "ABCAB"[i % 5], "k": i % 3 or None, "x": i % 4, "y": i % 7}
        for i in range(60)
    ]
    side = [i % 3 != 1 for i in range(60)]
    paths = stored(tmp_path, in_two(rows, side), False)
    one, two = single(list(QUERIES), False), split(list(QUERIES), False)
    events = from_table(as_one(rows, side, False), one.stream)
    expected = rows_of(run_oracle(bind(one, column_kinds(events.table.schema)), events))
    assert {row[0][1] for row in expected} == {"keyed", "whole", "strict"}
    opened = open_source(paths, two.stream)
    found, number = ran(spark, bind(two, column_kinds(opened.schema)), opened)
    assert rows_of(found) == expected
    assert number == 60
