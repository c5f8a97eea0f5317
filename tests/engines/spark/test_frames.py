"""Workloads over data frames of a session that its user has made, and over tables in memory."""

import json
import os
import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sheaf
from engines.limits import EventsError
from engines.spark.frames.results import FrameResults
from engines.spark.runtime.java import java_home
from optimizer.bind.binder import load_bound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKLOAD: dict[str, Any] = {
    "name": "t",
    "stream": {"time": "ts", "unit": "us", "type": "kind"},
    "queries": [
        "QUERY n PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*), SUM(b.x) WITHIN 9 s",
        "QUERY m PATTERN SEQ(A a, B b) WHERE [user] AND a.x > 30"
        " RETURN a.x, b, a.x + b.x AS total WITHIN 4 s",
        "QUERY u PATTERN SEQ(A a, C+ c, B b) RETURN a.x, c.x WITHIN 1 s",
        "QUERY s PATTERN A a AGG COUNT(*), AVG(a.x) WITHIN 10 s SLIDE 5 s",
    ],
}
# The night in which Berlin's clocks go ahead: times in UTC run through it, and without a zone too.
BEGIN = datetime(2024, 3, 31, 0, 59)
COLUMNS = "ts timestamp_ntz, kind string, user string, x int"
ARROW = pa.schema(
    [("ts", pa.timestamp("us")), ("kind", pa.string()), ("user", pa.string()), ("x", pa.int32())]
)


def events(number: int = 600) -> list[dict[str, Any]]:
    chosen = random.Random(1)
    return [
        {
            "ts": BEGIN + timedelta(milliseconds=100 * i),
            "kind": chosen.choice("ABC"),
            "user": chosen.choice("uvw"),
            "x": chosen.randrange(60),
        }
        for i in range(number)
    ]


def table(number: int = 600) -> pa.Table:
    return pa.Table.from_pylist(events(number), ARROW)


def multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)


def found(frame: "DataFrame") -> Counter[str]:
    return multiset(frame.toArrow().to_pylist())


@pytest.fixture(scope="module")
def berlin(spark: "SparkSession") -> "SparkSession":
    """A session of a user, whose clock is not UTC."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def test_each_query_is_a_data_frame_with_columns_of_its_own(berlin: "SparkSession") -> None:
    frame = berlin.createDataFrame(table().to_pylist(), COLUMNS)
    workload = sheaf.load(WORKLOAD)
    plan = workload.plan(frame)
    out = plan.run(frame)
    local = plan.run(table())
    assert list(out) == ["n", "m", "u", "s"]
    for query in out:
        expected = multiset(local[query].to_pylist())
        assert found(out[query]) == expected, query
        assert len(expected) > 5, query
    assert out["n"].schema.simpleString() == (
        "struct<user:string,time:timestamp_ntz,count:bigint,sum_b_x:double>"
    )
    assert out["m"].schema.simpleString() == (
        "struct<user:string,start:timestamp_ntz,end:timestamp_ntz,time:timestamp_ntz,a_x:int,"
        "b:struct<ts:timestamp_ntz,kind:string,user:string,x:int>,total:bigint>"
    )
    rows = out.rows
    assert rows.count() == len(local.aggregates) + len(local.matches)
    assert {row.aggregate for row in rows.select("aggregate").distinct().collect()} == {
        None,
        "COUNT(*)",
        "SUM(b.x)",
        "AVG(a.x)",
    }
    with pytest.raises(KeyError, match="there is no query 'N'; did you mean 'n'"):
        out["N"]


def test_values_of_a_query_by_hand(berlin: "SparkSession") -> None:
    rows = [(0, "A", "u", 40), (1, "B", "u", 5), (2, "C", "u", 1), (3, "B", "u", 7)]
    frame = berlin.createDataFrame(rows, "ts int, kind string, user string, x int")
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    out = sheaf.load({**WORKLOAD, "stream": stream}).plan(frame).run(frame)
    assert [tuple(row) for row in out["n"].orderBy("time").collect()] == [
        ("u", 1, 1, 5.0),
        ("u", 3, 2, 12.0),
    ]
    assert [tuple(row) for row in out["m"].orderBy("end").collect()] == [
        ("u", 0, 1, 1, 40, (1, "B", "u", 5), 45),
        ("u", 0, 3, 3, 40, (3, "B", "u", 7), 47),
    ]


def test_times_of_a_zone_are_moments_whatever_the_zone_of_the_session(
    spark: "SparkSession", berlin: "SparkSession"
) -> None:
    schema = ARROW.set(0, pa.field("ts", pa.timestamp("us", "UTC")))
    moments = table().cast(schema)
    for session in (spark, berlin):
        seconds = "ts bigint, kind string, user string, x int"
        numbers = moments.set_column(0, "ts", moments.column("ts").cast(pa.int64()))
        frame = session.createDataFrame(numbers.to_pylist(), seconds).selectExpr(
            "timestamp_micros(ts) AS ts", "kind", "user", "x"
        )
        plan = sheaf.load(WORKLOAD).plan(frame)
        counted = plan.run(frame)["n"].selectExpr("unix_micros(time) t", "count", "sum_b_x")
        local = plan.run(moments)["n"]
        local = local.set_column(1, "t", local.column("time").cast(pa.int64()))
        expected = multiset(local.drop_columns(["user"]).to_pylist())
        assert found(counted) == expected


def test_one_query_is_a_step_of_a_pipeline(berlin: "SparkSession") -> None:
    frame = berlin.createDataFrame(table(200).to_pylist(), COLUMNS)
    step = sheaf.transform(sheaf.load(WORKLOAD), "m")
    expected = sheaf.run(WORKLOAD, table(200))["m"]
    assert found(frame.transform(step)) == multiset(expected.to_pylist())
    with pytest.raises(sheaf.SheafError, match="there is no query 'q'"):
        sheaf.transform(WORKLOAD, "q")


def test_rows_without_a_time_stop_the_job_or_are_left_out(berlin: "SparkSession") -> None:
    rows = [*events(50), {"ts": None, "kind": "A", "user": "u", "x": 1}]
    frame = berlin.createDataFrame(rows, COLUMNS)
    plan = sheaf.load(WORKLOAD).plan(frame)
    out = plan.run(frame)  # nothing is read yet
    with pytest.raises(Exception, match="the data frame, column 'ts': a time is null"):
        out["n"].count()
    kept = plan.run(frame, on_error="skip")["n"]
    assert found(kept) == multiset(plan.run(table(50))["n"].to_pylist())


def test_a_frame_that_is_not_the_stream_is_refused_before_anything_runs(
    berlin: "SparkSession",
) -> None:
    frame = berlin.createDataFrame(events(3), COLUMNS)
    with pytest.raises(sheaf.SheafError, match="no column 'ts'"):
        sheaf.load(WORKLOAD).plan(frame.drop("ts"))
    with pytest.raises(TypeError, match=r"use plan\.run"):
        sheaf.run(WORKLOAD, frame)
    with pytest.raises(TypeError, match="'slice' is no option over a data frame"):
        sheaf.load(WORKLOAD).plan(frame).run(frame, slice=7)  # type: ignore[call-overload]


def test_a_live_stream_gives_the_rows_that_are_certain(
    berlin: "SparkSession", tmp_path: Path
) -> None:
    whole = table(400)
    folder = tmp_path / "events"
    folder.mkdir()
    for i in range(4):
        file = folder / f"{i}.parquet"
        pq.write_table(whole.slice(100 * i, 100), file)
        os.utime(file, (10**9 + i, 10**9 + i))  # Spark takes the oldest first
    live = berlin.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))
    plan = sheaf.load(WORKLOAD).plan(live)
    out = plan.run(live)
    query = (
        out.rows.writeStream.format("memory")
        .queryName("found")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    local = plan.run(whole)
    last = whole.column("ts")[-1].as_py()  # all before it is certain
    rows = berlin.table("found")
    for name in ("n", "s"):
        mine = rows.where(rows["query"] == name).select("key", "time", "aggregate", "value")
        expected = [
            {column: row[column] for column in ("key", "time", "aggregate", "value")}
            for row in local.aggregates.to_pylist()
            if row["query"] == name and row["time"] < last
        ]
        assert found(mine) == multiset(expected)
        assert expected
    totals = rows.where("query = 'm'").selectExpr("match.total").collect()
    expected_totals = [r["total"] for r in local["m"].to_pylist() if r["time"] < last]
    assert sorted(row[0] for row in totals) == sorted(expected_totals)


def test_tables_in_memory_are_events_and_results() -> None:
    import duckdb

    whole = table(200)
    plan = sheaf.load(WORKLOAD).plan(whole)
    expected = plan.run(whole)
    relation = duckdb.from_arrow(whole)
    for given in (whole.to_pandas(), relation):
        assert plan.run(given)["m"].equals(expected["m"])
    shown = expected.to_duckdb("n").aggregate("sum(count)").fetchall()
    assert shown == [(sum(expected["n"].column("count").to_pylist()),)]
    assert list(expected.to_pandas("s").columns) == ["time", "count", "avg_a_x"]
    with pytest.raises(TypeError, match="this is a list"):
        plan.run([1])


CONNECT = """
    import json, sys
    import pyarrow.parquet as pq
    import sheaf
    from pyspark.sql import SparkSession

    workload, path = json.loads(sys.argv[1]), sys.argv[2]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    frame = spark.read.parquet(path)
    loaded = sheaf.load(workload)
    out = loaded.plan(frame).run(frame)
    found = {query: out[query].toArrow().to_pylist() for query in out}
    live = spark.readStream.schema(frame.schema).parquet(path)
    rows = loaded.plan(live).run(live)["n"]
    writer = rows.writeStream.format("memory").queryName("n")
    writer = writer.option("checkpointLocation", sys.argv[3]).trigger(availableNow=True)
    writer.start().awaitTermination()
    found["live"] = spark.table("n").toArrow().to_pylist()
    print("FOUND" + json.dumps(found, default=str))
    spark.stop()
"""


@pytest.mark.slow
def test_over_spark_connect_rows_are_the_same(tmp_path: Path) -> None:
    whole = table(300)
    folder = tmp_path / "events"
    folder.mkdir()
    pq.write_table(whole, folder / "events.parquet")
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    arguments = [json.dumps(WORKLOAD), str(folder), str(tmp_path / "checkpoint")]
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CONNECT), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        cwd=Path(sheaf.__file__).parent,
        check=False,
    )
    line = next((x for x in ran.stdout.splitlines() if "FOUND" in x), None)
    assert line is not None, ran.stderr[-2000:]
    given = json.loads(line.split("FOUND")[1])
    local = sheaf.run(WORKLOAD, whole)
    for query in ("n", "m", "u", "s"):
        assert multiset(given[query]) == multiset(local[query].to_pylist()), query
    last = whole.column("ts")[-1].as_py()
    certain = [row for row in local["n"].to_pylist() if row["time"] < last]
    assert multiset(given["live"]) == multiset(certain)


PLAIN = """
    import json, sys
    import sheaf
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    before = spark.sparkContext.pythonExec
    frame = spark.read.parquet(sys.argv[2])
    out = sheaf.load(json.loads(sys.argv[1])).plan(frame).run(frame)
    print("FOUND" + json.dumps(out["n"].toArrow().to_pylist(), default=str))
    given = json.loads(sys.argv[1])  # times as texts are read by workers when a plan is made
    texts = frame.withColumn("ts", sf.date_format("ts", "dd.MM.yyyy HH:mm:ss"))
    stream = {**given["stream"], "format": "%d.%m.%Y %H:%M:%S"}
    stream.pop("unit")
    written = sheaf.load({**given, "stream": stream}).plan(texts).run(texts)
    assert written["n"].count()
    assert spark.sparkContext.pythonExec == before
"""


@pytest.mark.slow
def test_workers_of_a_plain_session_have_our_python_whatever_is_on_the_path(
    tmp_path: Path,
) -> None:
    """As in a notebook whose kernel runs in an environment that nobody has activated."""
    (tmp_path / "python3").write_text("#!/bin/sh\necho the wrong one >&2\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    pq.write_table(table(60), tmp_path / "events.parquet")
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"} | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(PLAIN),
            json.dumps(WORKLOAD),
            str(tmp_path / "events.parquet"),
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        cwd=Path(sheaf.__file__).parent,
        check=False,
    )
    line = next((x for x in ran.stdout.splitlines() if "FOUND" in x), None)
    assert line is not None, ran.stderr[-2000:]
    assert ran.returncode == 0, ran.stderr[-2000:]
    local = sheaf.run(WORKLOAD, table(60))["n"].to_pylist()
    assert multiset(json.loads(line.split("FOUND")[1])) == multiset(local)


def test_results_print_as_their_queries_and_columns() -> None:
    queries = [
        "QUERY n PATTERN SEQ(A a, B b) PARTITION BY user AGG COUNT(*), SUM(b.x) WITHIN 9 s",
        "QUERY m PATTERN SEQ(A a, B b) RETURN a.x, b WITHIN 4 s",
    ]
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    bound = load_bound({"name": "t", "stream": stream, "queries": queries})
    nothing: Any = None
    assert repr(FrameResults(bound.queries, nothing, nothing)).splitlines() == [
        "data frames, by query",
        "  n: user, time, count, sum_b_x",
        "  m: start, end, time, a_x, b",
    ]


def test_a_worker_without_our_packages_says_what_to_set() -> None:
    ran = subprocess.run(
        [sys.executable, "-S", "-c", "import engines.spark.batch.tasks"],
        capture_output=True,
        text=True,
        cwd=Path(sheaf.__file__).parent,
        check=False,
    )
    assert (
        "has no numpy, pyarrow, numba: before the session starts, set PYSPARK_PYTHON" in ran.stderr
    )


def test_frames_of_several_sources_are_tables_in_memory(spark: "SparkSession") -> None:
    streams = {"orders": {"time": "ts"}, "payments": {"time": "paid_at", "unit": "s"}}
    query = "QUERY q PATTERN SEQ(orders o, payments p) WHERE [user] RETURN o.id, p.time WITHIN 9 s"
    workload = sheaf.load({"name": "w", "streams": streams, "queries": [query]})
    orders = spark.createDataFrame([(1000, "a", 1), (2500, "b", 2)], "ts long, user string, id int")
    paid = spark.createDataFrame([(2, "a"), (30, "b")], "paid_at int, user string")
    plan = workload.plan({"orders": orders, "payments": paid})
    found = plan.run({"orders": orders, "payments": paid})
    assert [(row["o_id"], row["p_time"]) for row in found["q"].to_pylist()] == [(1, 2000)]
    live = spark.readStream.format("rate").load()
    with pytest.raises(TypeError, match="others are stored"):
        plan.run({"orders": orders, "payments": live})
    with pytest.raises(EventsError, match="no events are given for 'payments'"):
        workload.plan({"orders": live})
    with pytest.raises(EventsError, match=r"the data frame.*no column 'ts'"):
        workload.plan({"orders": live, "payments": live})


def test_live_frames_of_several_sources_give_the_rows_that_are_certain(
    berlin: "SparkSession", tmp_path: Path
) -> None:
    streams = {
        "orders": {"time": "ts", "type": "kind", "lateness": "2 s", "rename": {"cust": "user"}},
        "payments": {"time": "paid_at", "unit": "s", "lateness": "3 s"},
    }
    queries = [
        "QUERY n PATTERN SEQ(Order o, payments p) PARTITION BY user AGG COUNT(*), SUM(p.amount) "
        "WITHIN 20 s",
        "QUERY m PATTERN SEQ(Order o, !payments p) WHERE [user] RETURN o.id WITHIN 9 s",
    ]
    workload = sheaf.load({"name": "w", "streams": streams, "queries": queries})
    chance = random.Random(5)
    # Orders in milliseconds and payments in seconds, each late by less than it may be.
    placed = sorted(range(0, 200_000, 900), key=lambda t: t + chance.randrange(1900))
    paid = sorted(range(3, 180, 2), key=lambda t: t + 2 * chance.random())
    orders = {
        "ts": pa.array(placed, pa.int64()),
        "kind": ["Order" if chance.random() < 0.8 else "Other" for _ in placed],
        "cust": [f"u{chance.randrange(5)}" for _ in placed],
        "id": pa.array(range(len(placed)), pa.int64()),
    }
    payments = {
        "paid_at": pa.array([None if t == 101 else t for t in paid], pa.int32()),
        "user": [f"u{chance.randrange(5)}" for _ in paid],
        "amount": pa.array([chance.randrange(100) for _ in paid], pa.int64()),
    }
    whole = {"orders": pa.table(orders), "payments": pa.table(payments)}
    live = {}
    for name, events in whole.items():
        folder = tmp_path / name
        folder.mkdir()
        size = -(-events.num_rows // 4)
        for i in range(4):
            file = folder / f"{i}.parquet"
            pq.write_table(events.slice(size * i, size), file)
            os.utime(file, (10**9 + i, 10**9 + i))
        columns = berlin.read.parquet(str(folder)).schema
        reader = berlin.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        live[name] = reader.parquet(str(folder))
    plan = workload.plan(live)
    rows = plan.run(live, on_error="skip", buckets=3).rows
    writer = rows.writeStream.format("memory").queryName("of_both")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    local = plan.run(whole, on_error="skip", disorder="10 s")
    until = 1000 * (max(paid) - 3)  # payments end before orders do
    seen = berlin.table("of_both")
    for name, columns in (("n", ["key", "time", "aggregate", "value"]), ("m", ["start", "time"])):
        expected = [row for row in local[name].to_pylist() if row["time"] < until]
        assert len(expected) > 10
        mine = seen.where(seen["query"] == name)
        if name == "m":
            assert found(mine.select(*columns)) == multiset(
                [{c: r[c] for c in columns} for r in expected]
            )
            continue
        stored = [
            {c: row[c] for c in columns}
            for row in local.aggregates.to_pylist()
            if row["query"] == name and row["time"] < until
        ]
        assert found(mine.select(*columns)) == multiset(stored)
