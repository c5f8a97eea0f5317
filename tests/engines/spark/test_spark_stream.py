"""The streaming job gives what the local engine gives, for any order of arrival and restarts."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from pyspark.errors import PySparkException

from engines.input.event_table import from_table
from engines.limits import EventsError, StateError
from engines.live.bucket import HOME
from engines.live.run import LiveRun
from engines.spark.batch.job import JobError
from engines.spark.stream.job import (
    MAX_TRIES,
    StreamJob,
    StreamOptions,
    start_stream,
)
from engines.spark.stream.kafka import source_options, topic_of
from engines.spark.stream.source import (
    SHIFT,
    Packer,
    bytes_table,
    complete_until,
    open_live_source,
    watermark_for,
)
from optimizer.ir.query import BoundWorkload, Query
from tests.differential.test_live import ANY
from tests.differential.test_slices import MILLISECOND
from tests.engines.spark.stream_case import (
    LATE,
    QUERIES,
    SCHEMA,
    Case,
    document,
    pieces,
    rows,
    sample,
)
from tests.running import How, run_local
from tests.strategies import workloads
from workloads.errors import UnsupportedError
from workloads.loading import load_workload
from workloads.workload import Stream as Events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A stream takes seconds to start, and more where other work goes on.
pytestmark = pytest.mark.timeout(600)


def test_any_order_and_a_restart_give_the_rows_of_the_stored_stream(
    spark: "SparkSession", tmp_path: Path
) -> None:
    case = Case(tmp_path)
    first, second, third = pieces(sample(), 3)
    case.arrive(first, second)
    case.run(spark)
    # The watermark is that of what has come: all that is certain by then is out, no more.
    latest = max(pa.concat_tables([first, second]).column("ts").to_pylist())
    until = case.seen[-1].until
    assert until == latest - LATE - 1
    assert case.rows("aggregates") == case.expected("aggregates", until)
    assert case.rows("matches").total() > 0
    groups = case.seen[-1].groups
    assert {group.queries for group in groups} == {
        ("keyed",),
        ("finer",),
        ("ranked",),
        ("none",),
        ("apart",),
        ("few",),
        ("other",),
        ("whole",),
    }
    assert 0 < sum(group.bytes for group in groups) < case.seen[-1].state

    case.arrive(third)
    assert case.run(spark) == ()  # no query starts afresh
    assert sum(progress.read for progress in case.seen) == 240
    until = case.seen[-1].until
    assert case.rows("aggregates") == case.expected("aggregates", until)

    case.finish(spark)
    for kind in ("aggregates", "matches"):
        assert case.rows(kind) == case.expected(kind)
        assert case.rows(kind)
    assert not list((tmp_path / "out" / "late").iterdir())
    counts = sum((Counter(progress.rows) for progress in case.seen), Counter[str]())
    found = case.rows("aggregates") + case.rows("matches")
    assert counts == Counter(dict(row)["query"] for row in found.elements())
    # Each event has come to each way of keying once, and was given to its queries once.
    for number, route in enumerate(case.seen[0].routes):
        keys = zip(*(sample().column(name).to_pylist() for name in route.key), strict=True)
        with_key = sum(None not in key for key in keys) if route.key else 240
        turns = [progress.routes[number] for progress in case.seen]
        assert sum(turn.arrived for turn in turns) == sum(turn.taken for turn in turns) == with_key
    assert [progress.batch for progress in case.seen] == list(range(len(case.seen)))
    with pytest.raises(StateError, match="has been finished"):
        case.run(spark)


def random_workload(number: int) -> BoundWorkload:
    """Queries of every kind that run over a live stream, all over one stream."""
    found: dict[str, tuple[Events, list[Query]]] = {}

    @settings(max_examples=number, database=None, derandomize=True)
    @given(workloads(ANY, max_queries=3))
    def collect(workload: BoundWorkload) -> None:
        try:
            LiveRun(How().program(workload), MILLISECOND)
            run_local(workload, from_table(pa.Table.from_pylist([], SCHEMA), workload.stream))
        except UnsupportedError:
            return
        _, queries = found.setdefault(repr(workload.stream), (workload.stream, []))
        queries += [replace(q, name=f"r{len(queries) + i}") for i, q in enumerate(workload.queries)]

    collect()
    stream, queries = max(found.values(), key=lambda item: len(item[1]))
    late = replace(stream, lateness=LATE * MILLISECOND)
    return BoundWorkload("random", late, tuple(queries))


def test_random_workloads_give_the_rows_of_the_stored_stream(
    spark: "SparkSession", tmp_path: Path
) -> None:
    chance = random.Random(5)
    workload = random_workload(60)
    assert len(workload.queries) > 20
    times = sorted(chance.randrange(150) for _ in range(160))
    order = sorted(range(160), key=lambda i: times[i] + chance.random() * (LATE - 1))
    rows = [
        {
            "ts": times[i],
            "kind": chance.choice(ANY.types),
            "k": chance.choice([1, 2, 3, None]),
            "x": chance.choice([0, 1, 2, None]),
            "y": chance.choice([0, 1, 2, None]),
            "seq": chance.randrange(3),
        }
        for i in order
    ]
    case = Case(tmp_path)
    case.arrive(*pieces(pa.Table.from_pylist(rows, SCHEMA), 3))
    case.workload = workload
    case.source = open_live_source(str(case.events), workload.stream)
    case.start(spark)
    case.finish(spark)
    for kind in ("aggregates", "matches"):
        assert case.rows(kind) == case.expected(kind)
        assert case.rows(kind).total() > 50


def test_late_events_queries_that_change_and_other_files(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """One stream for several of them: a stream takes seconds to start."""
    case = Case(tmp_path, files_per_batch=None)
    table = sample(120)
    case.arrive(table, ending="csv")
    case.run(spark, [QUERIES[0], QUERIES[5]])
    until = case.seen[-1].until
    assert until is not None

    # Too late by the watermark, kept once though two routes would take one of them.
    late = table.slice(0, 3).set_column(0, "ts", pa.array([until, until - 9, until + 1]))
    late = late.set_column(3, "user", pa.array(["u1", "u1", "u1"]))
    case.arrive(late, ending="jsonl")
    changed = [QUERIES[0], QUERIES[5], QUERIES[2], QUERIES[4]]
    assert case.run(spark, changed) == ("other", "ranked")
    assert [p.late for p in case.seen if p.late] == [2]
    kept = pyarrow.dataset.dataset(tmp_path / "out" / "late").to_table()
    assert sorted(kept.column("ts").to_pylist()) == [until - 9, until]

    # Queries that were there have gone on with what they held; the late events do not count.
    case.tables = [table, late.slice(2)]
    case.finish(spark)
    before = case.bound([QUERIES[0], QUERIES[5]])
    results = run_local(before, from_table(pa.concat_tables(case.tables), before.stream))
    for kind, name in (("aggregates", "keyed"), ("matches", "none")):
        found = {row: n for row, n in case.rows(kind).items() if dict(row)["query"] == name}
        assert found == rows(getattr(results, kind))


def test_what_cannot_go_on_is_refused_with_a_reason(tmp_path: Path, spark: "SparkSession") -> None:
    case = Case(tmp_path)
    case.arrive(sample(20))
    case.run(spark, [QUERIES[1]])
    with pytest.raises(StateError, match="a stream with sequence 'seq', and it is now None"):
        case.run(spark, [QUERIES[1]], sequence=None)
    case.options = {"buckets": 4}
    with pytest.raises(StateError, match="has 3 buckets, and 4 are asked for"):
        case.run(spark, [QUERIES[1]])
    case.options = {}
    # A state that cannot be read is an error of the job, in a sentence.
    (case.events / "9.parquet").write_bytes(b"no Parquet")
    with pytest.raises(JobError, match=r"'.*9.parquet' cannot be read as Parquet"):
        case.run(spark, [QUERIES[1]])


def test_queries_change_while_the_stream_runs(spark: "SparkSession", tmp_path: Path) -> None:
    """Those that stay lose nothing; those that come begin behind the latest event there was."""
    case = Case(tmp_path, once=False)
    parts = pieces(sample(360), 3)
    case.arrive(parts[0])
    case.bound([QUERIES[1], QUERIES[5]])
    options = StreamOptions(
        str(tmp_path / "state"), str(tmp_path / "out"), buckets=3, files_per_batch=1
    )
    program = How().program(case.workload)
    job = start_stream(spark, program, case.source, options, told=case.seen.append)
    try:
        until(job, lambda: sum(p.read for p in case.seen) == 120)
        with pytest.raises(StateError, match="another job runs with the checkpoint"):
            case.start(spark)
        with pytest.raises(StateError, match="a stream with sequence 'seq', and it is now None"):
            job.replace(How().program(case.bound([QUERIES[1]], sequence=None)), case.source)
        # `none` goes; `finer` is kept by user and item though `keyed` needs its events by user.
        changed = [QUERIES[1].replace("finer", "renamed"), QUERIES[0], QUERIES[2], QUERIES[3]]
        takeover = job.replace(How().program(case.bound(changed)), case.source)
        assert takeover.kept == ("renamed",)
        assert takeover.afresh == ("keyed", "other", "whole")
        assert takeover.removed == ("none",)
        case.arrive(parts[1], parts[2])
        until(job, lambda: sum(p.read for p in case.seen) == 360)
        assert {g.queries for g in case.seen[-1].groups} == {
            ("renamed",),
            ("keyed",),
            ("other",),
            ("whole",),
        }
    finally:
        job.stop()
    case.settings = options
    case.finish(spark)
    begun = max(parts[0].column("ts").to_pylist())
    table = pa.concat_tables(case.tables)
    whole = run_local(case.workload, from_table(table, case.workload.stream))
    later = table.filter(pa.array([ts > begun for ts in table.column("ts").to_pylist()]))
    new = run_local(case.workload, from_table(later, case.workload.stream))
    for name, results, kind in (
        ("renamed", whole, "aggregates"),
        ("keyed", new, "aggregates"),
        ("other", new, "matches"),
        ("whole", new, "matches"),
    ):
        names = (name, "finer") if name == "renamed" else (name,)
        found = Counter(
            {
                tuple((dict(row) | {"query": name}).items()): n
                for row, n in case.rows(kind).items()
                if dict(row)["query"] in names
            }
        )
        wanted = {r: n for r, n in rows(getattr(results, kind)).items() if dict(r)["query"] == name}
        assert found == wanted, name
        assert wanted


def until(job: StreamJob, is_so: Callable[[], bool]) -> None:
    """Wait for it, as long as the stream runs."""
    while not is_so():
        assert not job.wait(1)


class Slow:
    """A query whose Python process was too slow to start."""

    def awaitTermination(self, *seconds: float) -> bool:  # noqa: N802, it is Spark's name
        raise PySparkException("Query terminated: Python worker failed to connect back.")


def test_a_stream_that_was_too_slow_to_begin_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(StreamJob, "_begin", lambda self, *of: begun.append(of))
    with (tmp_path / "lock").open("w") as lock:
        job = StreamJob(Any, StreamOptions("state", "out"), begun.append, lock)
        job._current = ("program", "source", "options", "groups")
        job.query = Slow()
        assert not job.wait(1)
        with pytest.raises(JobError, match="failed to connect back"):
            job.wait()
        assert begun == [job._current] * (MAX_TRIES - 1)
        assert lock.closed


def test_a_folder_without_events_needs_columns(tmp_path: Path) -> None:
    stream = load_workload(document(QUERIES)).stream
    with pytest.raises(EventsError, match="no events yet to tell their columns from"):
        open_live_source(str(tmp_path), stream)
    with pytest.raises(EventsError, match="there is no folder"):
        open_live_source(str(tmp_path / "none"), stream)
    declared = load_workload(document(attributes={"user": "string", "x": "int"})).stream
    schema = open_live_source(str(tmp_path), declared).schema
    assert schema.names == ["ts", "seq", "kind", "user", "x"]
    assert schema.field("x").type == pa.int64()
    pq.write_table(sample(5), tmp_path / "like.parquet")
    (tmp_path / "in").mkdir()
    found = open_live_source(str(tmp_path / "in"), stream, like=str(tmp_path / "like.parquet"))
    assert found.schema.names == sample(5).column_names


@pytest.mark.parametrize("tick", [1, 10**3, 10**6, 10**9, 86_400 * 10**9])
def test_a_watermark_is_the_first_by_which_a_time_is_complete(tick: int) -> None:
    for ticks in (-3, 0, 1, 999, 1_000_001):
        wanted = watermark_for(ticks, tick)
        assert (complete_until(wanted, tick) or 0) >= ticks
        before = complete_until(wanted - 1, tick)
        assert before is not None
        assert before < ticks
    assert complete_until(0, tick) is None
    assert complete_until(SHIFT, tick) == -1  # all before 1970


def test_a_topic_of_kafka_is_named_by_a_path() -> None:
    options = source_options("kafka://one:9092,two:9092/events")
    assert options["kafka.bootstrap.servers"] == "one:9092,two:9092"
    assert options["subscribe"] == "events"
    with pytest.raises(EventsError, match="kafka://HOST:PORT/TOPIC"):
        topic_of("kafka://one:9092")


def test_messages_are_events_and_those_that_are_none_are_counted(tmp_path: Path) -> None:
    stream = load_workload(document(attributes={"user": "string", "x": "int"})).stream
    source = open_live_source("kafka://one:9092/events", stream, on_error="skip")
    nothing = BoundWorkload("none", source.stream, ())
    packer = Packer(source, source.schema, {"[]": (), '["user"]': ("user",)}, 4, nothing)
    texts = [
        b'{"ts": 5, "seq": 1,\n "kind": "A", "user": "u", "x": 3, "more": 1}',
        b"no JSON",
        None,
        b'{"ts": null, "seq": 1, "kind": "A"}',
        b'{"ts": 7, "seq": 1, "kind": "B"}',
    ]
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], ["value"])
    (found,) = packer([batch])
    rows = found.to_pylist()
    assert {row["latest"] for row in rows} == {7 + SHIFT}
    account = json.loads(rows[0]["events"])
    assert (account["read"], account["bad"]) == (2, 2)
    events = {row["route"]: bytes_table(row["events"]) for row in rows[1:]}
    assert events["[]"].column("ts").to_pylist() == [5, 7]
    assert events['["user"]'].column("x").to_pylist() == [3]
    # The route of all events answers for both.
    assert events["[]"].column(HOME).to_pylist() == [True, True]
    assert events['["user"]'].column(HOME).to_pylist() == [False]
    strict = replace(source, on_error="stop")
    with pytest.raises(EventsError, match="row 2: it is no JSON"):
        list(Packer(strict, source.schema, {"[]": ()}, 4, nothing)([batch]))
