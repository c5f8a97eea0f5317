"""What queries ask for and no event has is said of jobs on Spark too, however they are spread."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.columns.occurrences import Occurrences
from engines.execution import EventSource
from engines.spark.batch.job import SpreadSettings, run_batch
from engines.spark.batch.source import open_source
from engines.spark.batch.targets import FirstRowsTarget
from engines.spark.stream.bucket_queries import _told
from engines.spark.stream.run import open_stream
from engines.spark.stream.source import Packer
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from tests.running import How
from workloads.loading import load_workload
from workloads.workload import to_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT: dict[str, Any] = {
    "name": "t",
    "stream": {"time": "ts", "unit": "ms", "type": "kind"},
    "queries": [
        "QUERY pairs PATTERN SEQ(Alpha a, Beta b) WHERE [user] AGG COUNT(*) WITHIN 9 ms",
        "QUERY rare PATTERN SEQ(Alpha a, Gamma g) WHERE [user] AND g.x > 5 AGG COUNT(*) "
        "WITHIN 9 ms",
        "QUERY slip PATTERN SEQ(Alpah a, Beta b) WHERE [user] AND b.y > 5 AGG COUNT(*) WITHIN 9 ms",
    ],
}
NOTES = [
    "query slip: no event has 'Alpah'; did you mean 'Alpha'?",
    "query slip: 'y' is null in every event of 'Beta'",
]
ROWS = 1000


def events() -> pa.Table:
    """One of them is a Gamma, near the end, and no query looks at it: its x is too small."""
    kinds = ["Alpha", "Beta"] * (ROWS // 2)
    kinds[ROWS - 7] = "Gamma"
    return pa.table(
        {
            "ts": pa.array(range(ROWS), pa.int64()),
            "kind": kinds,
            "user": [f"u{i % 3}" for i in range(ROWS)],
            "x": pa.array([1.0] * ROWS),
            "y": pa.array([None if kind == "Beta" else 1.0 for kind in kinds], pa.float64()),
        }
    )


@pytest.mark.parametrize(("spread", "sampled"), [("time", 10), ("shuffle", 10), ("shuffle", 9999)])
def test_a_job_says_what_no_event_has(
    spark: "SparkSession",
    tmp_path: Path,
    spread: Any,
    sampled: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a sample is too small to have it, and a filter leaves it out."""
    monkeypatch.setattr("engines.spark.batch.job.SAMPLE_ROWS", sampled)
    path = tmp_path / "e.parquet"
    pq.write_table(events(), path, row_group_size=100)
    workload = load_workload(DOCUMENT)
    source = open_source(str(path), workload.stream)
    program = How().program(bind(workload, source.files.kinds))
    settings = SpreadSettings(spread, 2, stretches=2 if spread == "time" else None)
    done = run_batch(spark, program, source, FirstRowsTarget(5), settings=settings)
    assert (done.spread, done.events, done.notes) == (spread, ROWS, NOTES)


def test_a_stream_counts_what_its_batches_have(tmp_path: Path) -> None:
    """In the tasks that read, each of which may have seen other types."""
    table = events()
    for name, part in (("a", table.slice(0, 500)), ("b", table.slice(500))):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    workload = load_workload(DOCUMENT)
    plan = make_plan(bind(workload), to_document(workload))
    late = EventSource(str(tmp_path), disorder=3_000_000_000)
    program, live = open_stream(plan, late, str(tmp_path / "none"))
    assert program.workload.stream.lateness == 3_000_000_000
    packer = Packer(live, live.schema, {"[]": ()}, 2, program.workload)
    accounts = []
    for name in ("a", "b"):
        batch = pa.record_batch({"path": [f"file:{tmp_path}/{name}.parquet"]})
        (packed,) = packer([batch])
        accounts.append(packed.column("events")[0].as_py())
    about = json.loads(_told(accounts, None)["about"][0])
    assert about["nanoseconds"] > 0
    occurred = Occurrences(program.workload)
    occurred.merge(about["seen"])
    assert (occurred.events, occurred.notes()) == (ROWS, NOTES)
    ticks = table["ts"].to_pylist()
    assert occurred.times == [min(ticks), max(ticks)]
