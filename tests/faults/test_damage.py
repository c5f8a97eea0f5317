"""Stores and files of jobs that are damaged while a service runs, or before it starts."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from api.store.database import StoreError
from tests.api.jobs.test_stream_jobs import COMMAND, posted_stream, service
from tests.api.service import finished, is_problem, job_that, posted_plan
from tests.engines.spark.stream_case import document, sample


def damage(file: Path, start: int) -> None:
    """Overwrite all but the beginning."""
    size = file.stat().st_size
    with file.open("r+b") as out:
        out.seek(start)
        out.write(b"\xa5" * (size - start))


def test_a_store_that_is_no_database_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sheaf.db").write_bytes(b"something else" * 1000)
    with (
        pytest.raises(StoreError, match=r"sheaf\.db cannot be opened: file is not a database"),
        service(tmp_path / "data"),
    ):
        pass


def test_a_store_that_is_damaged_while_it_is_used_is_said_to_be(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with service(data) as client:
        plan = posted_plan(client)
        with sqlite3.connect(data / "sheaf.db") as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        damage(data / "sheaf.db", 4096)
        answers = [client.get(f"/v1/plans/{plan['id']}"), client.get("/v1/workloads")]
        bad = [answer for answer in answers if answer.status_code >= 400]
        assert bad  # SQLite may have kept some of it in memory
        for answer in bad:
            assert "the store cannot be used" in is_problem(answer, 503, "unavailable")["detail"]
        assert client.get("/healthz").status_code == 200


def test_a_stream_whose_account_is_damaged_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with service(data, COMMAND) as client:
        source = tmp_path / "waits"
        source.mkdir()
        (source / "first.csv").write_text("ts,action,user,item,price\n1,view,u,i,1\n")
        id = posted_stream(client, str(source))["id"]
        job_that(client, id, lambda job: (job["stream"] or {}).get("batches"))
        account = data / "jobs" / id / "account.json"
        damage(account, 20)
        assert client.get(f"/v1/jobs/{id}").status_code == 200
        assert client.get(f"/v1/jobs/{id}/operators").status_code == 200
        client.delete(f"/v1/jobs/{id}")
        assert finished(client, id)["status"] == "cancelled"


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", ["offsets", "commits", "state", "sources"])
def test_a_stream_does_not_go_on_from_a_damaged_checkpoint(tmp_path: Path, part: str) -> None:
    """What Spark keeps for itself: it goes on rightly, or says what is wrong and does not."""
    table = sample(400)
    events = tmp_path / "events"
    events.mkdir()
    pq.write_table(table.slice(0, 200), events / "0.parquet")
    workload = tmp_path / "workload.json"
    workload.write_text(json.dumps(document()))
    command = [sys.executable, "-c", "from api.cli.main import main; main()", "run", str(workload)]
    command += ["--engine", "spark", "--stream", "--once", "--device", "cpu", "--buckets", "2"]
    command += ["--events", str(events), "--checkpoint", str(tmp_path / "state")]
    command += ["--out", str(tmp_path / "out")]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    kept = [f for f in (tmp_path / "state" / "spark" / part).rglob("*") if f.is_file()]
    assert kept
    for file in kept:
        if file.suffix == ".crc":
            file.unlink()
        else:
            damage(file, 3)
    pq.write_table(table.slice(200), events / "1.parquet")
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1, second.stderr
    assert "Traceback" not in second.stderr
    assert "checkpoint" in second.stderr
