"""The time of day is set forward and back while a service runs; nothing but dates follows it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.engines.spark.stream_case import LATE, sample
from tests.faults.clock import Clock, made_clock
from tests.faults.stand import stand
from tests.faults.test_kills import expected, found, planned

DAY = 86_400


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    made = made_clock(tmp_path)
    if made is None:
        pytest.skip("there is no compiler of C")
    return made


def test_the_clock_of_a_process_can_be_set(clock: Clock) -> None:
    script = "import time; print(time.time())"

    def said() -> float:
        environment = {**os.environ, **clock.environment}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
        return float(done.stdout)

    assert abs(said() - time.time()) < 60
    clock.set(-DAY)
    assert abs(said() + DAY - time.time()) < 60


@pytest.mark.slow
def test_jobs_do_not_follow_the_time_of_day(clock: Clock, tmp_path: Path) -> None:
    table = sample(2_000)
    pq.write_table(table, tmp_path / "events.parquet")
    wanted = expected(table)
    with stand(tmp_path, clock.environment) as running:
        plan = planned(running)
        body = {"plan": plan, "source": str(tmp_path / "events.parquet"), "engine": "local"}
        jobs = []
        for offset in (0, -DAY, DAY, -365 * DAY):
            clock.set(offset)
            jobs.append(running.post("/v1/jobs", body)["id"])
        for job in jobs:
            done = running.until(lambda job=job: running.over(job))
            assert done["status"] == "succeeded", done
            assert found(running, job) == wanted
        listed = [job["id"] for job in running.ask("/v1/jobs?order=asc")]
        assert listed == jobs  # as they came, whatever they are dated


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_stream_does_not_follow_the_time_of_day(clock: Clock, tmp_path: Path) -> None:
    table = sample(600)
    events = tmp_path / "events"
    events.mkdir()
    with stand(tmp_path, clock.environment) as running:
        body = {"plan": planned(running), "source": str(events), "mode": "stream"}
        pq.write_table(table.slice(0, 100), events / "0.parquet")
        job = running.post("/v1/jobs", {**body, "device": "cpu"})["id"]
        for number, offset in enumerate((DAY, -DAY, 0, -40 * DAY, 5), start=1):
            running.until(lambda: (running.ask(f"/v1/jobs/{job}")["stream"] or {}).get("batches"))
            clock.set(offset)
            pq.write_table(table.slice(100 * number, 100), tmp_path / "draft.parquet")
            (tmp_path / "draft.parquet").rename(events / f"{number}.parquet")
            time.sleep(3)
        until = max(table.column("ts").to_pylist()) - LATE - 1
        running.until(
            lambda: (running.ask(f"/v1/jobs/{job}")["stream"]["until"] or -(10**9)) >= until
        )
        with running.client as client:
            client.post(f"/v1/jobs/{job}/cancel")
        running.until(lambda: running.over(job))
        assert found(running, job) == expected(table, until)
