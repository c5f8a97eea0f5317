"""A stream whose processes are killed goes on without a row lost or repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from api.jobs.process import end_session, session
from engines.input.event_table import from_table
from engines.spark.stream.source import (
    SHIFT,
)
from tests.engines.spark.stream_case import (
    LATE,
    QUERIES,
    Case,
    certain,
    document,
    pieces,
    rows,
    sample,
)
from tests.running import run_local

if TYPE_CHECKING:
    pass

# A stream takes seconds to start, and more where other work goes on.
pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
def test_a_driver_killed_at_any_moment_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Driver and JVM get no chance to clean up; another process goes on to the end.

    They have just taken over other queries, too.
    """
    case = Case(tmp_path)
    parts = pieces(sample(800), 6)
    case.arrive(*parts[:4])
    case.bound(QUERIES)
    workload = tmp_path / "workload.json"
    workload.write_text(json.dumps(document()))
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from api.cli.main import main; main()", "run", str(workload)]
    command += ["--engine", "spark", "--stream", "--device", "cpu", "--buckets", "3"]
    command += ["--events", str(case.events)]
    command += ["--checkpoint", str(tmp_path / "state"), "--out", str(out), "--files", "1"]

    def batches() -> int:
        return len({file.name[:9] for file in out.glob("matches/*.parquet")})

    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        while batches() < 2 and job.poll() is None:
            time.sleep(0.05)
        assert job.poll() is None, (tmp_path / "log").read_text()
        workload.write_text(json.dumps(document(QUERIES[:5])))
        given = [*command[:3], "stream", "update", str(tmp_path / "state"), str(workload)]
        changed = subprocess.run(given, capture_output=True, check=False)
        assert changed.returncode == 0, changed.stderr.decode()
        assert changed.stdout.decode().strip().endswith("ranked go on; none, apart, few are gone")
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    refused = subprocess.run(given, capture_output=True, check=False)
    assert b"no stream runs with the checkpoint" in refused.stderr
    case.arrive(*parts[4:])  # what there was before may all have been read
    case.bound(QUERIES[:5])
    done = subprocess.run([*command, "--once", "--finish"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["late"] == 0
    assert 0 < report["batch_seconds"]["p50"] <= report["batch_seconds"]["p99"]
    (scan,) = (o for o in report["operators"] if o["kind"] == "scan")
    assert (scan["rows_in"], scan["rows_out"]) == (report["events"], report["events"])
    assert scan["cpu_seconds"] > 0
    for kind in ("aggregates", "matches"):
        gone = ("none", "apart", "few")
        found = {row: n for row, n in case.rows(kind).items() if dict(row)["query"] not in gone}
        assert found == case.expected(kind)
        assert found


@pytest.mark.slow
def test_an_executor_killed_in_the_middle_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Two executors in processes of their own, one of which is gone when a batch has begun."""
    case = Case(tmp_path)
    table = sample(400)
    parts = pieces(table, 5)
    case.arrive(*parts[:2])
    case.bound(QUERIES)
    workload, out = tmp_path / "workload.json", tmp_path / "out"
    workload.write_text(json.dumps(document()))
    command = [sys.executable, "-c", "from api.cli.main import main; main()", "run", str(workload)]
    command += ["--engine", "spark", "--master", "local-cluster[2,1,1024]", "--device", "cpu"]
    command += ["--conf", "spark.driver.memory=1g", "--stream", "--buckets", "3", "--files", "1"]
    command += ["--events", str(case.events)]
    command += ["--checkpoint", str(tmp_path / "state"), "--out", str(out)]
    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        while not list(out.glob("aggregates/*.parquet")) and job.poll() is None:
            time.sleep(0.05)
        assert job.poll() is None, (tmp_path / "log").read_text()
        case.arrive(*parts[2:])
        while not list(out.glob("_staging/*")) and job.poll() is None:
            time.sleep(0.01)
        first, *others = executors(job.pid)
        assert others
        os.kill(first, signal.SIGKILL)
        last = max(table.column("ts").to_pylist()) + SHIFT - LATE
        while reached(tmp_path / "state" / "spark") < last and job.poll() is None:
            time.sleep(0.1)
        assert job.poll() is None, (tmp_path / "log").read_text()
        assert first not in executors(job.pid)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        end_session(job.pid)
    upto = max(table.column("ts").to_pylist()) - LATE - 1
    results = run_local(case.workload, from_table(table, case.workload.stream))
    for kind in ("aggregates", "matches"):
        found, due = case.rows(kind), rows(certain(getattr(results, kind), upto))
        # What is skipped is decided when all that begins with it has come, and what is left out for
        # a match when its time is over: until then `apart` and `few` may wait.
        waiting = due - found
        assert found == due - waiting
        until = {"apart": ("start", 20), "few": ("time", 25)}
        for row in map(dict, waiting):
            column, wait = until[row["query"]]
            assert row[column] + wait > upto
        assert found


def reached(checkpoint: Path) -> int:
    """The watermark of the last batch that is done, as Spark wrote it down.

    How many batches that takes is not known: where files come late, one without events is between.
    """
    done = max((int(f.name) for f in (checkpoint / "commits").glob("[0-9]*")), default=None)
    if done is None:
        return 0
    offsets = (checkpoint / "offsets" / str(done)).read_text().splitlines()
    return int(json.loads(offsets[1])["batchWatermarkMs"])


def executors(leader: int) -> list[int]:
    """The processes of a session that are executors."""
    found = []
    for pid in session(leader):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found
