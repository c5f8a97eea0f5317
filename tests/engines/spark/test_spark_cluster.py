"""A job on a real cluster, whose workers have nothing of ours: and one of them dies."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input.event_table import from_table
from engines.results.tables import sorted_results
from optimizer.bind.binder import load_bound
from tests.engines.cluster import cluster
from tests.running import run_local

QUERIES = [
    "QUERY n PATTERN SEQ(A a, !C c, B b) WHERE [user] AGG COUNT(*), SUM(b.x) WITHIN 9 ms",
    "QUERY m PATTERN SEQ(A a, B b) WHERE a.x = b.x RETURN a.x, b.time WITHIN 30 ms",
    "QUERY r PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*) WITHIN 5 EVENTS",
]
WORKLOAD = {
    "name": "t",
    "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
    "queries": QUERIES,
}
# Runs in a process of its own, as there is one session in each: short windows as the events are
# stored, then all queries through a shuffle.
PROGRAM = """
import json, sys, time
from dataclasses import replace
from engines.input.event_table import column_kinds
from engines.spark.runtime.session import spark_session
from engines.spark.batch.job import SpreadSettings, run_batch
from engines.spark.batch.source import open_source
from engines.spark.batch.targets import FileTarget
from engines.program import bound_program
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from workloads.loading import load_workload

master, folder, document = sys.argv[1:]
workload = load_workload(json.loads(document))
conf = {"spark.executor.memory": "500m", "spark.driver.host": "127.0.0.1"}
with spark_session(master, conf=conf) as session:
    for _ in range(600):  # until both workers have come
        if session.sparkContext.defaultParallelism >= 2:
            break
        time.sleep(0.1)
    for spread in ("time", "shuffle"):
        source = open_source(f"{folder}/e.parquet", workload.stream)
        bound = bind(workload, column_kinds(source.schema))
        if spread == "time":
            bound = replace(bound, queries=bound.queries[:2])

        def told(progress):
            print(spread, "parts", progress.part, flush=True)

        settings = SpreadSettings(spread=spread, buckets=4, least_rows=1_000)
        target = FileTarget(f"{folder}/{spread}.parquet")
        program = bound_program(make_plan(bound, {}), bound)
        done = run_batch(session, program, source, target, settings=settings, told=told)
        print("done", done.events, done.spread, flush=True)
"""


def events(rows: int) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([i // 2 for i in range(rows)], pa.int64()),
            "seq": pa.array(range(rows), pa.int64()),
            "kind": pa.array(["ABC"[(i * 7 + i // 9) % 3] for i in range(rows)]),
            "user": pa.array([f"u{i % 7}" for i in range(rows)]),
            "x": pa.array([(i * 7) % 50 for i in range(rows)], pa.int64()),
        }
    )


def check(folder: Path, name: str, table: pa.Table, queries: list[str]) -> None:
    workload = load_bound(WORKLOAD | {"queries": queries})
    here = sorted_results(run_local(workload, from_table(table, workload.stream)))
    assert here.aggregates.num_rows
    assert here.matches.num_rows
    assert pq.read_table(folder / f"{name}.aggregates.parquet").equals(here.aggregates)
    assert pq.read_table(folder / f"{name}.matches.parquet").equals(here.matches)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_cluster_gives_the_same_also_when_a_worker_is_killed(tmp_path: Path) -> None:
    table = events(6_000)
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=1_000)
    with cluster(tmp_path) as running:
        job = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, running.master, str(tmp_path), json.dumps(WORKLOAD)],
            env=os.environ | {"PYSPARK_PYTHON": running.python, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        with job:
            assert job.stdout is not None
            said = []
            for line in job.stdout:
                said.append(line)
                # In the middle: some tasks are done, and not all.
                if line.startswith("shuffle parts") and 0.2 < float(line.split()[2]) < 1:
                    break
            os.killpg(running.workers[0].pid, signal.SIGKILL)
            said += job.stdout.readlines()
            assert job.wait() == 0, said
    assert "done 6000 time\n" in said
    assert "done 6000 shuffle\n" in said
    check(tmp_path, "time", table, QUERIES[:2])
    check(tmp_path, "shuffle", table, QUERIES)
