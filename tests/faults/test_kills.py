"""Processes are killed at random moments; in the end the rows are those of the stored events.

`SHEAF_FAULT_KILLS=200 ./sheaf test -m soak tests/faults` says how many kills there are in all.
"""

from __future__ import annotations

import io
import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input.event_table import column_kinds, from_table
from optimizer.bind.binder import bind
from tests.engines.spark.stream_case import LATE, certain, document, rows, sample
from tests.faults.stand import CLUSTER, Stand, stand
from tests.running import run_local
from workloads.loading import load_workload

KILLS = int(os.environ.get("SHEAF_FAULT_KILLS", "200"))
SEED = int(os.environ.get("SHEAF_FAULT_SEED", "1"))
KINDS = ("aggregates", "matches")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(60 * KILLS + 600)]


def expected(table: pa.Table, until: int | None = None) -> dict[str, Counter[Any]]:
    """What the local engine gives in this process, which nothing happens to."""
    workload = bind(load_workload(document()), column_kinds(table.schema))
    results = run_local(workload, from_table(table, workload.stream))
    return {kind: rows(certain(getattr(results, kind), until)) for kind in KINDS}


def found(stand: Stand, job: str) -> dict[str, Counter[Any]]:
    """The rows of a job as the service gives them."""
    tables = {}
    for kind in KINDS:
        with stand.client as client:
            answer = client.get(f"/v1/jobs/{job}/results?format=parquet&kind={kind}")
        assert answer.status_code == 200, answer.text
        tables[kind] = pq.read_table(io.BytesIO(answer.content))
    return {kind: rows(table) for kind, table in tables.items()}


def planned(stand: Stand) -> str:
    workload = stand.post("/v1/workloads", document())
    plan: str = stand.post(f"/v1/workloads/{workload['id']}/plans", {})["id"]
    return plan


@pytest.mark.parametrize(
    ("master", "share"),
    [pytest.param("local[2]", 0.35, id="local"), pytest.param(CLUSTER, 0.15, id="cluster")],
)
def test_a_stream_gives_every_row_once(tmp_path: Path, master: str, share: float) -> None:
    chance = random.Random(f"{SEED} {master}")
    kills = max(1, round(KILLS * share))
    table = sample(40 * kills + 80, seed=SEED)
    events = tmp_path / "events"
    events.mkdir()

    def arrive(start: int, stop: int) -> None:
        draft = tmp_path / "draft.parquet"
        pq.write_table(table.slice(start, stop - start), draft)
        draft.rename(events / f"{start:09d}.parquet")

    arrive(0, 40)
    with stand(tmp_path) as running:
        live = {"buckets": 3}
        body = {"plan": planned(running), "source": str(events), "mode": "stream", "stream": live}
        job = running.post("/v1/jobs", {**body, "device": "cpu", "master": master})["id"]

        def state() -> Any:
            return running.ask(f"/v1/jobs/{job}")

        def told() -> Any:
            job_now = state()
            if job_now is not None and job_now["finished"] is not None:
                raise AssertionError(f"{job_now['status']}: {job_now['reason']}; {running.killed}")
            return job_now is not None and (job_now["stream"] or {}).get("batches")

        running.until(told)
        killed = 0
        while killed < kills:
            time.sleep(chance.random() * 6)
            what = chance.choice(("driver", "jvm", "python", "executor", "service", "database"))
            if running.kill(what, job):
                killed += 1
                arrive(40 * killed, 40 * killed + 40)
                told()
        arrive(40 * kills + 40, table.num_rows)
        until = max(table.column("ts").to_pylist()) - LATE - 1
        running.until(lambda: told() and (state()["stream"]["until"] or 0) >= until)
        assert state()["stream"]["events"] == table.num_rows
        with running.client as client:
            client.post(f"/v1/jobs/{job}/cancel")
        over = running.until(lambda: running.over(job))
        assert over["status"] == "cancelled"
        assert over["stream"]["late"] == 0
        wanted = expected(table, until)
        assert found(running, job) == wanted
        assert all(wanted.values())
        print(json.dumps({"stream": master, "killed": running.killed, "rows": _sizes(wanted)}))


def test_jobs_over_stored_events_end_as_they_say(tmp_path: Path) -> None:
    """Each is killed at a random moment; one that failed says why, and runs when posted again."""
    chance = random.Random(f"{SEED} batch")
    kills = max(2, round(KILLS * 0.5))
    table = sample(30_000, seed=SEED)
    pq.write_table(table, tmp_path / "events.parquet")
    wanted = expected(table)
    outcomes: Counter[str] = Counter()
    with stand(tmp_path) as running:
        plan = planned(running)
        killed = 0
        while killed < kills:
            engine = "spark" if chance.random() < 0.1 else "local"
            body = {"plan": plan, "source": str(tmp_path / "events.parquet"), "engine": engine}
            job = running.post("/v1/jobs", body)["id"]
            time.sleep(chance.random() * (25 if engine == "spark" else 2.5))
            what = chance.choice(("driver", "jvm", "python", "service", "database"))
            killed += running.kill(what, job)
            done = running.until(lambda job=job: running.over(job))
            outcomes[done["status"]] += 1
            if done["status"] == "succeeded":
                assert found(running, job) == wanted
            else:
                assert done["status"] == "failed"
                assert done["reason"], done
                assert "Traceback" not in done["reason"]
        again = running.post("/v1/jobs", {**body, "engine": "local"})["id"]
        assert running.until(lambda: running.over(again))["status"] == "succeeded"
        assert found(running, again) == wanted
        print(json.dumps({"batch": dict(outcomes), "killed": running.killed}))


def _sizes(some: dict[str, Counter[Any]]) -> dict[str, int]:
    return {kind: counts.total() for kind, counts in some.items()}
