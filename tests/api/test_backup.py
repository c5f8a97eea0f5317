"""A copy of a service's data folder and store, taken while it runs, is the service again."""

import shutil
import sqlite3
from pathlib import Path

import httpx

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.service import at_work, finished, posted_job, posted_plan


def back_up(data: Path, copy: Path) -> None:
    """As docs/reliability.md says it."""
    copy.mkdir()
    live, kept = sqlite3.connect(data / "sheaf.db"), sqlite3.connect(copy / "sheaf.db")
    live.backup(kept)
    live.close()
    kept.close()
    apart = shutil.ignore_patterns("sheaf.db*", "lock")
    shutil.copytree(data, copy, ignore=apart, dirs_exist_ok=True)


def test_a_backup_of_a_running_service_has_all_that_was_acknowledged(
    pretend: list[str], tmp_path: Path
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with (
        serving(create_app(Settings(data=data), pretend)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        plan = posted_plan(client)["id"]
        done = posted_job(client, "fine")["id"]
        finished(client, done)
        found = client.get(f"/v1/jobs/{done}/results").json()
        running = posted_job(client, "waits")["id"]
        at_work(client, running)
        back_up(data, copy)
        workloads = client.get("/v1/workloads").json()
        (data / "jobs" / "go").touch()
        assert finished(client, running)["status"] == "succeeded"

    with (
        serving(create_app(Settings(data=copy), pretend)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        assert client.get("/v1/workloads").json() == workloads
        assert client.get(f"/v1/plans/{plan}").json()["id"] == plan
        assert client.get(f"/v1/jobs/{done}/results").json() == found
        assert found["aggregates"]
        assert client.get(f"/v1/jobs/{running}").json()["status"] == "failed"
        assert finished(client, posted_job(client, "fine")["id"])["status"] == "succeeded"
