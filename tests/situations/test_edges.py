"""`start(S)` and `end(S)`, and events of situations in other queries: every way to run them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.live.run import LiveRun
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.test_continued import batches_of
from tests.differential.test_slices import MILLISECOND, batches, multiset
from tests.engines.spark.stream_case import Case, pieces, sample
from tests.engines.spark.test_spark_spread import BY_SHUFFLE, BY_TIME, ran
from tests.running import How, run_local
from tests.situations.random_situations import stream_of, streams
from workloads.errors import WorkloadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READING = (
    "PATTERN SEQ(start(High) s, B b) {key} RETURN s.x, s.time, b.y {window}",
    "PATTERN SEQ(A a, end(High) e) {key} RETURN a.x, e.y AS v, e.time {window}",
    "PATTERN SEQ(start(High) s, !B b, end(Low) e) {key} RETURN s.time, e.x {window}",
    "PATTERN SEQ(start(Low) s, end(Low) e, !A a) {key} RETURN s.time, e.time AS t {window}",
    "PATTERN SEQ(!end(Low) e, A a) {key} RETURN a.x {window}",
    "PATTERN AND(start(High) s, end(Low) e) {key} RETURN s.x, e.time {window}",
    "PATTERN start(High) s WHERE s.x > 1 {key} RETURN s.time {window}",
    "PATTERN SEQ(start(High) s, end(High) e) {key} AGG COUNT(*), MAX(e.x) {window} {slide}",
    "PATTERN end(Low) e {key} AGG COUNT(*) {window} {slide}",
    "PATTERN SEQ(start(High)+ s, A a) {key} RETURN max(s.x) AS m, a.y {window}",
    "PATTERN SEQ(start(High) s, P p) {key} RETURN s.time, p.u {window}",
    "PATTERN SEQ(P p, A a) {key} RETURN p.u, p.start, a.x {window}",
)
MAKING = (
    "QUERY made DEFINE S OF A AS x > 0 PATTERN S PARTITION BY k RETURN max(S.y) AS u "
    "WITHIN 6 ms {emit} INTO P",
    "QUERY made DEFINE S AS High, T OF B AS y > 0 PATTERN S overlaps;before;meets T "
    "PARTITION BY k RETURN S.start AS u WITHIN 6 ms {emit} INTO P",
)
SITUATIONS = {"High": {"of": "A", "when": "x > 0"}, "Low": {"when": "x = 1", "gap": "2 ms"}}


@st.composite
def workloads(draw: st.DrawFn) -> BoundWorkload:
    def text(choices: tuple[str, ...]) -> str:
        return draw(st.sampled_from(choices)).format(
            key=draw(st.sampled_from(("", "PARTITION BY k"))),
            window=f"WITHIN {draw(st.integers(1, 9))} ms",
            slide=draw(st.sampled_from(("", "SLIDE 2 ms", "SLIDE 3 ms"))),
            emit=draw(st.sampled_from(("", "EMIT COMPLETE"))),
        )

    texts = [f"QUERY q{number} {text(READING)}" for number in range(draw(st.integers(1, 3)))]
    if any(" P p" in each for each in texts):
        texts.append(text(MAKING))
    # What queries make has no number in a sequence, which not all patterns take.
    sequenced = draw(st.booleans()) and not any("!" in each or " P p" in each for each in texts)
    stream: dict[str, Any] = {**stream_of(sequenced), "situations": SITUATIONS}
    return load_bound({"name": "w", "stream": stream, "queries": texts})


def expected_of(workload: BoundWorkload, table: pa.Table) -> Any:
    return multiset([run_oracle(workload, from_table(table, workload.stream))])


@settings(max_examples=60, deadline=None)
@given(workloads(), streams(), st.booleans())
def test_edges_are_events_as_defined(workload: Any, table: pa.Table, sharing: bool) -> None:
    found = run_local(workload, from_table(table, workload.stream), how=How(sharing=sharing))
    assert multiset([found]) == expected_of(workload, table)


@settings(max_examples=60, deadline=None)
@given(workloads(), streams(most=20), st.integers(1, 7), st.integers(1, 5))
def test_edges_in_slices(workload: Any, table: pa.Table, size: int, batch: int) -> None:
    run = SlicedRun(How().program(workload), MILLISECOND)
    assert not run.unbounded
    ordered = table.sort_by([("ts", "ascending"), ("seq", "ascending")])
    late = Lateness(0, True, MILLISECOND, "ts", Faults())
    given_ = (table.schema, workload.stream, late, run.reach, SliceSize(size, grow=False))
    pieces = cut(batches(ordered, batch), *given_, run.carried)
    found: list[Results] = [run.run(piece) for piece in pieces]
    assert multiset(found) == expected_of(workload, table)


@settings(max_examples=60, deadline=None)
@given(workloads(), streams(most=20), st.lists(st.integers(-2, 50), max_size=6))
def test_edges_of_a_live_stream_that_starts_again(
    workload: Any, table: pa.Table, cuts: list[int]
) -> None:
    program = How().program(workload)
    live, found = LiveRun(program, MILLISECOND), []
    for part, until in batches_of(table, cuts):
        found.append(live.add(from_table(part, workload.stream), until))
        state = live.save()
        live = LiveRun(program, MILLISECOND)
        live.restore(state)
    assert multiset(found) == expected_of(workload, table)


@settings(max_examples=30, deadline=None)
@given(workloads(), streams(most=8), st.integers(0, 12))
def test_edges_that_time_alone_brings_come_when_they_are_due(
    workload: Any, table: pa.Table, until: int
) -> None:
    live = LiveRun(How().program(workload), MILLISECOND)
    (first, _), *_ = batches_of(table, [until])
    live.add(from_table(first, workload.stream), until)
    for time in range(until + 1, until + 60):
        due = live.due
        came = live.add(from_table(first.slice(0, 0), workload.stream), time)
        rows = came.matches.num_rows + came.aggregates.num_rows
        assert rows == 0 or (due is not None and due <= time)
    assert live.due is None


def test_spark_gives_edges_as_one_process_does(spark: SparkSession, tmp_path: Path) -> None:
    texts = [
        f"QUERY q{number} "
        + text.format(key=key, window="WITHIN 9 ms", slide="SLIDE 3 ms", emit="EMIT COMPLETE")
        for number, (text, key) in enumerate(zip(READING, ["", "PARTITION BY k"] * 6, strict=True))
    ]
    made = MAKING[1].format(emit="")
    texts = [text.replace("{emit}", "") for text in texts]
    stream = {**stream_of(False), "situations": SITUATIONS}
    rows = [
        {"ts": n, "seq": n, "kind": "AAB"[n % 3], "k": n % 5 % 2, "x": n // 4 % 3, "y": n % 7}
        for n in range(400)
        if n % 50 < 44
    ]
    table = pa.Table.from_pylist(rows)
    unkeyed = [text.replace("PARTITION BY k", "") for text in texts]
    for queries in ([*texts, made], [*unkeyed, made.replace("PARTITION BY k", "")]):
        workload = load_bound({"name": "w", "stream": stream, "queries": queries})
        here = multiset([run_local(workload, from_table(table, workload.stream))])
        for how in (BY_TIME, BY_SHUFFLE):
            done, there = ran(spark, workload, table, how, tmp_path, group=100)
            assert multiset([there]) == here
        assert all(done.rows.get(f"q{number}") for number in (0, 1, 6, 7))


def test_a_live_stream_on_spark_goes_on_with_what_had_begun(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = Case(tmp_path)
    first, second = pieces(sample(), 2)
    queries = [
        "QUERY between PATTERN SEQ(start(Big) s, end(Big) e) PARTITION BY user "
        "RETURN s.time, s.x, e.time AS t WITHIN 30 ms",
        "QUERY counted PATTERN end(Big) e PARTITION BY user AGG COUNT(*) WITHIN 20 ms SLIDE 10 ms",
        "QUERY late PATTERN SEQ(start(Quiet) s, !end(Quiet) e, A a) RETURN s.time, a.x "
        "WITHIN 40 ms",
    ]
    situations = {"Big": {"when": "x > 2"}, "Quiet": {"of": "B", "when": "x > 0", "gap": "6 ms"}}
    case.arrive(first)
    case.run(spark, queries, situations=situations)
    case.arrive(second)
    assert case.run(spark, queries, situations=situations) == ()
    case.finish(spark)
    for kind in ("aggregates", "matches"):
        assert case.rows(kind) == case.expected(kind)
        assert case.rows(kind)


def bound(text: str, **stream: Any) -> BoundWorkload:
    whole = {"time": "ts", "type": "kind", "situations": SITUATIONS, **stream}
    return load_bound({"name": "w", "stream": whole, "queries": [text]})


def test_the_partitions_of_a_situation_are_those_of_the_query() -> None:
    for key in ("PARTITION BY k", "WHERE [k]", "WHERE s.k = b.k"):
        text = f"PATTERN SEQ(start(High) s, B b) {key} RETURN b.x WITHIN 5 s"
        assert bound(text).queries[1].key == ("k",)
    text = "PATTERN SEQ(start(High) s, B b) WHERE s.x = b.y RETURN b.x WITHIN 5 s"
    assert bound(text).queries[1].key == ()


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("SEQ(start(Hihg) s, B b)", "no situation of the stream", "did you mean 'High'?"),
        ("SEQ(strat(High) s, B b)", "'strat(…)' is nothing that a pattern has", "'start'"),
        ("SEQ(begin(High) s, B b)", "'begin(…)' is nothing", "events of a situation"),
    ],
)
def test_what_is_no_edge_is_refused_at_its_place(pattern: str, message: str, hint: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        bound(f"PATTERN {pattern} RETURN b.x WITHIN 5 s")
    (finding,) = caught.value.diagnostics
    assert message in finding.message
    assert hint in str(finding.hint)
    assert finding.column == pattern.index("(") + len("PATTERN ") + 2


def test_an_attribute_that_events_do_not_have_is_refused() -> None:
    text = "PATTERN SEQ(start(High) s, B b) WHERE s.z > 1 RETURN b.x WITHIN 5 s"
    with pytest.raises(WorkloadError, match=r"'start\(High\)' has no field 'z'"):
        bound(text, attributes={"x": "int", "y": "int"})


def test_a_situation_of_the_stream_may_be_of_rows_of_a_query() -> None:
    stream = {
        "time": "ts",
        "unit": "ms",
        "type": "kind",
        "situations": {"Busy": {"of": "Counted", "when": "count > 1"}},
    }
    texts = [
        "QUERY busy DEFINE S AS Busy PATTERN S RETURN S WITHIN 99 ms EMIT COMPLETE",
        "QUERY quiet PATTERN SEQ(end(Busy) e, A a) RETURN e.count, a.ts AS t WITHIN 9 ms",
        "QUERY made PATTERN A a AGG COUNT(*) WITHIN 4 ms SLIDE 2 ms EMPTY ROWS INTO Counted",
    ]
    workload = load_bound({"name": "w", "stream": stream, "queries": texts})
    times = [0, 1, 2, 3, 9, 10, 14, 15, 16, 30]
    table = pa.table({"ts": times, "kind": ["A"] * len(times)})
    found = run_local(workload, from_table(table, workload.stream))
    assert multiset([found]) == expected_of(workload, table)
    assert {"busy", "quiet"} <= set(found.matches.column("query").to_pylist())
