"""The Spark job gives exactly what the local engine gives, whatever the events are like."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engines.input.batches import read_events
from engines.input.event_table import Faults, column_kinds
from engines.input.query_columns import named_columns, needed_columns
from engines.limits import BadRowError, EventsError
from engines.results.tables import Results, sorted_results
from engines.run import fitted
from engines.spark.batch.job import DEFAULT_SPREAD, SpreadSettings, plan_routes, run_batch
from engines.spark.batch.source import SparkSource, open_source
from engines.spark.batch.targets import FileTarget
from optimizer.bind.binder import bind, load_bound
from optimizer.ir.query import BoundWorkload
from sharing.planner import make_plan
from tests.running import How, run_local
from workloads import bundled
from workloads.generators import write_events
from workloads.loading import load_workload
from workloads.workload import to_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"}
QUERIES = [
    "QUERY keyed PATTERN SEQ(A a, !C c, B b) PARTITION BY user AGG COUNT(*), SUM(b.x) WITHIN 40 ms",
    "QUERY finer PATTERN SEQ(A a, B b) WHERE [user, item] AGG COUNT(*) WITHIN 90 ms SLIDE 10 ms",
    "QUERY other PATTERN SEQ(A a, B b) PARTITION BY item RETURN a, b.x WITHIN 30 ms",
    "QUERY whole PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x RETURN a.x, c.time WITHIN 9 ms",
    "QUERY ranked PATTERN SEQ(A a, C c) PARTITION BY user AGG COUNT(*) WITHIN 5 EVENTS",
    "QUERY groups PATTERN SEQ(A a, ALL B b, C) WHERE [user] RETURN last(b.x) AS l, b WITHIN 50 ms",
]


def sample(rows: int = 240) -> pa.Table:
    """Ties, nulls in keys and values, several types at a time; out of order."""
    order = [(i * 89) % rows for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array([i // 2 for i in order], pa.int64()),
            "seq": pa.array([i // 3 for i in order], pa.int64()),
            "kind": pa.array(["ABCAB"[(i * 7) % 5] for i in order]),
            "user": pa.array([None if i % 11 == 0 else f"u{i % 4}" for i in order]),
            "item": pa.array([None if i % 7 == 0 else i % 3 for i in order], pa.int64()),
            "x": pa.array([None if i % 13 == 0 else i * 0.1 for i in order], pa.float64()),
        }
    )


def ran(
    spark: "SparkSession",
    workload: BoundWorkload,
    source: SparkSource,
    settings: SpreadSettings = DEFAULT_SPREAD,
) -> tuple[Results, int]:
    """The rows that a job writes, and the number of events it read."""
    with tempfile.TemporaryDirectory() as folder:
        target, program = FileTarget(f"{folder}/r.parquet"), How().program(workload)
        done = run_batch(spark, program, source, target, settings=settings)
        tables = [pq.read_table(name) for name in done.names]
        assert [table.num_rows for table in tables] == list(done.numbers)
        assert sum(done.rows.values()) == sum(done.numbers)
        assert len(list(Path(folder).iterdir())) == 2
    return Results(*tables), done.events


def both(
    spark: "SparkSession", document: dict[str, Any], path: Path, buckets: int | None = None
) -> tuple[Results, Results]:
    """What Spark gives, and what the local engine gives."""
    workload = load_workload(document)
    source = open_source(str(path), workload.stream)
    bound = bind(workload, column_kinds(source.schema))
    there, number = ran(spark, bound, source, SpreadSettings(buckets=buckets))
    events = read_events(str(path), workload.stream)
    assert number == len(events)
    bound = bind(workload, column_kinds(events.table.schema))
    here = sorted_results(run_local(bound, events))
    return there, here


def assert_same(results: tuple[Results, Results], *, rows: bool = True) -> None:
    there, here = results
    assert there.aggregates.equals(here.aggregates)
    assert there.matches.equals(here.matches)
    assert not rows or (here.aggregates.num_rows and here.matches.num_rows)


def document(queries: list[str] = QUERIES, **stream: Any) -> dict[str, Any]:
    return {"name": "t", "stream": STREAM | stream, "queries": queries}


@pytest.mark.parametrize("buckets", [1, 3, None])
def test_keys_ties_nulls_and_disorder(
    spark: "SparkSession", tmp_path: Path, buckets: int | None
) -> None:
    pq.write_table(sample(), tmp_path / "e.parquet")
    assert_same(both(spark, document(), tmp_path / "e.parquet", buckets))


def test_the_steps_of_funnels_come_to_the_same_over_several_parts(
    spark: "SparkSession", tmp_path: Path
) -> None:
    pq.write_table(sample(), tmp_path / "e.parquet")
    queries = [
        "QUERY levels FUNNEL SEQ(A a, B b, C c) WITHIN 40 ms PARTITION BY user, item",
        "QUERY groups FUNNEL SEQ(A a, B b) EXCLUDE C c BETWEEN a AND b BY a.item WITHIN 9 ms "
        "PARTITION BY user",
        "QUERY whole FUNNEL SEQ(A a, B b, C c) STRICT WITHIN 40 ms",
        QUERIES[2],
    ]
    assert_same(both(spark, document(queries), tmp_path / "e.parquet", 3))


def test_events_without_a_sequence(spark: "SparkSession", tmp_path: Path) -> None:
    pq.write_table(sample().drop_columns(["seq"]), tmp_path / "e.parquet")
    queries = [query for query in QUERIES if "EVENTS" not in query]
    assert_same(both(spark, document(queries, sequence=None), tmp_path / "e.parquet"))


@pytest.mark.parametrize("name", ["hospital", "shop"])
def test_bundled_workloads(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    path = write_events(bundled.stream(name, events=4_000), tmp_path / "e.parquet")
    workload = load_workload(bundled.path(name))
    bound = bind(workload)
    there, number = ran(spark, bound, open_source(str(path), workload.stream))
    here = sorted_results(run_local(bound, read_events(str(path), workload.stream)))
    assert number == 4_000
    assert_same((there, here))


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ms"),
        pa.timestamp("us", "Europe/Berlin"),
        pa.timestamp("ns", "UTC"),
        pa.timestamp("s"),
        pa.date32(),
        pa.int32(),
    ],
    ids=str,
)
def test_times_keep_their_type(spark: "SparkSession", tmp_path: Path, kind: pa.DataType) -> None:
    table = sample()
    ticks = table["ts"].cast(pa.int32()) if kind == pa.date32() else table["ts"]
    pq.write_table(table.set_column(0, "ts", ticks.cast(kind)), tmp_path / "e.parquet")
    window = "30 day" if kind == pa.date32() else "1 min"
    queries = [
        f"QUERY n PATTERN SEQ(A a, B b) PARTITION BY user AGG COUNT(*) WITHIN {window}",
        f"QUERY m PATTERN SEQ(A a, C c) WHERE [user] RETURN a.ts, c.time WITHIN {window}",
    ]
    results = both(spark, document(queries), tmp_path / "e.parquet")
    assert_same(results)
    stored = {pa.int32(): pa.int64(), pa.timestamp("s"): pa.timestamp("ms")}  # Parquet has no s
    wanted = stored.get(kind, kind)
    assert results[0].aggregates.schema.field("time").type == wanted


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_text_files(spark: "SparkSession", tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"e{ending}"
    if ending == ".csv":
        pyarrow.csv.write_csv(sample(), path)
    else:
        sample().to_pandas().to_json(path, orient="records", lines=True)
    assert_same(both(spark, document(), path))


def test_a_folder_of_files_with_different_columns(spark: "SparkSession", tmp_path: Path) -> None:
    table = sample()
    pq.write_table(table.slice(0, 100), tmp_path / "a.parquet")
    pq.write_table(
        table.slice(100).append_column("more", table["x"].slice(100)), tmp_path / "b.parquet"
    )
    assert_same(both(spark, document(), tmp_path))


def test_a_folder_of_files_with_the_same_columns(spark: "SparkSession", tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(sample().slice(80 * i, 80), tmp_path / f"{i}.parquet")
    assert open_source(str(tmp_path), load_workload(document()).stream).spark_reads(["ts", "x"])
    assert_same(both(spark, document(), tmp_path))


def test_columns_that_spark_would_mix_up_or_does_not_know(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = sample()
    odd = (
        table.append_column("X", table["seq"])
        .append_column("a.b `c`", table["user"])
        .append_column("Kind", table["kind"].dictionary_encode())
        .append_column("empty", pa.nulls(len(table)))
        .append_column("large", table["seq"].cast(pa.uint64()))
        .append_column("half", table["x"].cast(pa.float16()))
    )
    pq.write_table(odd, tmp_path / "odd.parquet")
    queries = [
        *QUERIES,
        'QUERY odd PATTERN SEQ(A a, B b) PARTITION BY "a.b `c`" RETURN a, b WITHIN 9 ms',
    ]
    assert_same(both(spark, document(queries), tmp_path / "odd.parquet"))
    # Spark's analyzer would ask the session of its user who was there last.
    spark.newSession().createDataFrame([(1,)], "one int")
    known = odd.drop_columns(["empty", "large", "half"])
    pq.write_table(known, tmp_path / "known.parquet")
    assert_same(both(spark, document(queries), tmp_path / "known.parquet"))


def test_keys_that_are_equal_but_do_not_look_it(spark: "SparkSession", tmp_path: Path) -> None:
    table = sample(60)
    zeros = pa.array([(-0.0, 0.0, float("nan"), 1.5)[i % 4] for i in range(60)])
    pq.write_table(table.append_column("z", zeros), tmp_path / "e.parquet")
    queries = [
        "QUERY n PATTERN SEQ(A a, B b) PARTITION BY z AGG COUNT(*) WITHIN 20 ms",
        "QUERY m PATTERN SEQ(A a, B b) PARTITION BY z RETURN a.x WITHIN 20 ms",
    ]
    assert_same(both(spark, document(queries), tmp_path / "e.parquet"))


def test_no_events(spark: "SparkSession", tmp_path: Path) -> None:
    pq.write_table(sample().slice(0, 0), tmp_path / "e.parquet")
    assert_same(both(spark, document(), tmp_path / "e.parquet"), rows=False)
    (tmp_path / "e.jsonl").touch()  # without columns, which may thus be any
    target = FileTarget(str(tmp_path / "r.parquet"))
    workload = load_workload(document())
    source = open_source(str(tmp_path / "e.jsonl"), workload.stream, Faults())
    plan = make_plan(bind(workload), to_document(workload))
    program = fitted(plan, source.files.schema, source.files.kinds, workload, "events")
    source.files.assume(named_columns(program.workload))
    done = run_batch(spark, program, source, target)
    assert (done.events, done.rows, done.numbers) == (0, {}, (0, 0))


def test_an_error_in_a_worker_is_said_in_a_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    table = sample()
    times = pa.array([None, *table["ts"].to_pylist()[1:]], pa.int64())
    # The first row is looked at before the job starts; this one is not.
    pq.write_table(table.set_column(0, "ts", times[::-1]), tmp_path / "e.parquet")
    workload = load_workload(document())
    source = open_source(str(tmp_path / "e.parquet"), workload.stream)
    with pytest.raises(BadRowError, match=r"e.parquet', row 240, column 'ts': it is null"):
        ran(spark, bind(workload), source)


def test_a_missing_file_is_an_error_before_spark_is_asked(tmp_path: Path) -> None:
    with pytest.raises(EventsError, match="there is no file"):
        open_source(str(tmp_path / "none.parquet"), load_workload(document()).stream)


def test_one_route_serves_all_keys_that_contain_its_own() -> None:
    bound = load_bound(document())
    routes = {key: [q.name for q in queries] for key, queries in plan_routes(bound.queries).items()}
    assert routes == {
        ("user",): ["keyed", "ranked", "groups"],
        ("item",): ["finer", "other"],
        (): ["whole"],
    }


def test_only_the_columns_that_are_used_travel() -> None:
    names = ["ts", "seq", "kind", "user", "item", "x", "more"]

    def needed(query: str) -> list[str]:
        return needed_columns(load_bound(document([query])), names)

    assert needed(QUERIES[0]) == ["ts", "seq", "kind", "user", "x"]
    assert needed(QUERIES[1]) == ["ts", "seq", "kind", "user", "item"]
    assert needed(QUERIES[2]) == names  # whole events are returned
    assert needed(QUERIES[5]) == names  # simultaneous events of a group are ordered by all


def test_partitions_of_sql_are_spread_by_key_and_null_is_one(
    spark: "SparkSession", tmp_path: Path
) -> None:
    clause = (
        "SELECT * FROM t MATCH_RECOGNIZE ({} ORDER BY ts, seq, kind, x "
        "MEASURES MATCH_NUMBER() AS m, "
        "COUNT(*) AS n, LAST(A.x) AS a {} PATTERN (A+ B?) DEFINE A AS kind = 'A')"
    )
    statements = [
        clause.format("PARTITION BY user", ""),
        clause.format("PARTITION BY user, item", "ALL ROWS PER MATCH"),
        clause.format("", "AFTER MATCH SKIP TO NEXT ROW"),
    ]
    pq.write_table(sample(), tmp_path / "e.parquet")
    document = {"name": "w", "stream": STREAM, "queries": [*statements, QUERIES[0]]}
    results = both(spark, document, tmp_path / "e.parquet", buckets=3)
    assert_same(results)
    assert any('"user":null' in text for text in results[0].matches.column("match").to_pylist())


def test_what_time_does_not_cut_by_key_and_of_the_whole_stream(
    spark: "SparkSession", tmp_path: Path
) -> None:
    skip = "AFTER MATCH SKIP PAST LAST EVENT RETURN a.x, b.x WITHIN 20 ms"
    queries = [
        "QUERY by_user DEFINE S AS x > 5 AT LEAST 3 ms, T OF A AS x < 18 "
        "PATTERN S overlaps;before T PARTITION BY user RETURN S, T, avg(T.x) AS v WITHIN 30 ms",
        "QUERY all_of_it DEFINE S AS kind != 'C' GAP 2 ms, T OF B AS x > 4 PATTERN S intersects T "
        "RETURN S, T.start WITHIN 20 ms EMIT COMPLETE",
        f"QUERY apart PATTERN SEQ(A a, B b) STRATEGY NEXT PARTITION BY user {skip}",
        "QUERY tied PATTERN SEQ(A a, !C c, B b) PARTITION BY (a.x, b.item, c.item) AS x "
        "RETURN a, b.x WITHIN 40 ms",
        "QUERY counted PATTERN SEQ(A a, B b) PARTITION BY user, (a.x, b.item) AS v AGG COUNT(*) "
        "WITHIN 90 ms",
        f"QUERY all_apart PATTERN SEQ(A a, B b) STRATEGY STRICT {skip}",
        QUERIES[0],
    ]
    pq.write_table(sample(), tmp_path / "e.parquet")
    assert_same(both(spark, document(queries), tmp_path / "e.parquet", buckets=3))
