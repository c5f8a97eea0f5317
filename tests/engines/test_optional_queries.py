"""Rules that the events do not fit are left out and listed, and the others run: on every engine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.execution import EventSource, Execution, RowSink
from engines.input.query_columns import bind_to
from engines.limits import EventsError
from engines.run import run
from engines.spark.batch.job import run_batch
from engines.spark.batch.source import open_source
from engines.spark.batch.targets import FirstRowsTarget
from engines.spark.frames.plans import bind_to_frame, run_over_frame
from engines.spark.stream.run import open_stream
from engines.statistics.measure import sample_files
from optimizer.bind.binder import bind
from optimizer.plan.plan import Plan, from_json, to_json
from sharing.planner import make_plan
from workloads.errors import WorkloadError
from workloads.loading import load_workload, read_workload
from workloads.workload import Workload, to_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a number and a text, of a struct, by a list, by a struct, and a count by a struct.
MISFITS = {
    "kinds": "process where process.pid == process.name",
    "struct": 'process where process.parent : "a"',
    "list": "sequence by process.args [process where true] [process where true]",
    "key": "sequence by process.parent [process where true] [process where true]",
}
RULES = [
    {"name": name, "query": text}
    for name, text in {"good": 'process where process.name : "A*"', **MISFITS}.items()
]
COUNT: dict[str, Any] = {
    "title": "Many",
    "correlation": {
        "type": "event_count",
        "rules": ["part"],
        "group-by": ["process.parent"],
        "timespan": "1m",
        "condition": {"gte": 1},
    },
}
PART: dict[str, Any] = {
    "title": "Part",
    "name": "part",
    "logsource": {"category": "x"},
    "detection": {"s": {"process.name": "a"}, "condition": "s"},
}
NOT_TAKEN = {*MISFITS, "Many"}


def document(**others: Any) -> dict[str, Any]:
    return {
        "name": "w",
        "stream": {"time": "ts", "sequence": "n"},
        "rules": [{"eql": RULES}, {"sigma": [PART, COUNT]}],
        **others,
    }


@pytest.fixture
def events(tmp_path: Path) -> str:
    rows = [
        {
            "ts": number,
            "n": number,
            "event": {"category": "process"},
            "process": {"pid": 1, "name": name, "args": ["x"], "parent": {"pid": 2}},
        }
        for number, name in enumerate(("ab", "b", "AC"))
    ]
    path = tmp_path / "e.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def planned(workload: Workload) -> Plan:
    """Made without knowing the events, and read from JSON, as a job has it."""
    return from_json(to_json(make_plan(bind(workload), to_document(workload))))


def not_taken(notes: list[str]) -> set[str]:
    said = [note.removeprefix("rule not taken: ") for note in notes if "rule not taken" in note]
    return {each.split(":")[0] for each in said}


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_rules_that_do_not_fit_are_listed_and_the_others_run(engine: Any, events: str) -> None:
    plan = planned(load_workload(document()))
    report = run(plan, EventSource(events), RowSink(), Execution(engine))
    assert {name: n for name, n in report.rows.items() if n} == {"good": 2}
    assert not_taken(report.notes) == NOT_TAKEN
    assert any("process.parent" in note and "struct<pid" in note for note in report.notes)


def test_a_plan_on_a_sample_is_without_them_and_says_so(events: str) -> None:
    workload = load_workload(document())
    sample = sample_files(workload, events)
    plan = make_plan(sample.workload, to_document(workload), statistics=sample.statistics)
    assert set(plan.queries) == {"good"}
    assert not_taken(list(sample.notes)) == NOT_TAKEN
    report = run(from_json(to_json(plan)), EventSource(events), RowSink())
    assert dict(report.rows) == {"good": 2}


def test_jobs_frames_and_streams_of_spark_leave_them_out(
    spark: "SparkSession", events: str, tmp_path: Path
) -> None:
    workload = load_workload(document())
    plan = planned(workload)
    program, live = open_stream(plan, EventSource(str(tmp_path)), str(tmp_path / "none"))
    assert {rule.name for rule in program.workload.refused} == NOT_TAKEN
    assert [query.name for query in program.workload.queries] == ["good"]
    done = run_batch(spark, program, open_source(events, live.stream), FirstRowsTarget(5))
    assert (dict(done.rows), done.notes) == ({"good": 2}, [])
    frame = spark.read.parquet(events)
    bound, known = bind_to_frame(workload, frame)
    frames = run_over_frame(planned(workload), frame, known, on_error="stop", buckets=1)
    assert frames["good"].count() == 2
    assert {rule.name for rule in bound.refused} == NOT_TAKEN


def test_queries_of_ones_own_must_fit(events: str) -> None:
    own = "QUERY own PATTERN process p WHERE p.process.name > 5 RETURN p WITHIN 1 s"
    workload = load_workload(document(queries=[own]))
    with pytest.raises(WorkloadError, match="a string cannot be compared with a number"):
        bind_to(workload, pq.read_schema(events), "e", {"process.name": "string"})
    struct = own.replace("p.process.name > 5", "p.process.parent = 'a'")
    workload = load_workload(document(queries=[struct]))
    with pytest.raises(EventsError, match=r"'process.parent' has type struct"):
        bind_to(workload, pq.read_schema(events), "e", None)
    named = load_workload(document(queries=[struct], optional=["own"]))
    bound = bind_to(named, pq.read_schema(events), "e", None)
    assert "own" in {rule.name for rule in bound.refused}


def test_what_reads_rows_of_a_rule_that_is_left_out_goes_with_it() -> None:
    queries = [
        "QUERY a PATTERN A a WHERE a.x > 5 RETURN a.y INTO Found WITHIN 1 s",
        "QUERY b PATTERN SEQ(Found f, B b) RETURN b WITHIN 1 s",
        "QUERY c PATTERN B b RETURN b WITHIN 1 s",
    ]
    given = {"name": "w", "stream": {"time": "ts", "type": "kind"}, "queries": queries}
    workload = load_workload({**given, "optional": True})
    bound = bind(workload, {"ts": "int", "kind": "string", "x": "string", "y": "int"})
    assert [query.name for query in bound.queries] == ["c"]
    assert [rule.name for rule in bound.refused] == ["a", "b"]
    assert to_document(workload)["optional"] is True
    _, findings = read_workload({**given, "optional": ["d"]})
    assert [finding.message for finding in findings] == ["'optional' names no query: 'd'"]
