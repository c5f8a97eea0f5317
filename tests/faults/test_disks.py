"""Disks that are full or cannot be written to: what is said, what is left, and what goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.http.schemas import EXAMPLE_WORKLOAD
from tests.api.jobs.test_stream_jobs import service
from tests.api.service import finished, is_problem, posted_plan

EVENTS = "ts,action,user,item,price\n" + "".join(f"{i},view,u{i % 7},i,1\n" for i in range(20_000))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "sheaf-test", disk]).returncode:
        pytest.skip("a disk cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> Path:
    """A file that leaves no room."""
    rest = disk / "filling"
    with rest.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return rest


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from api.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_that_find_no_room_leave_nothing(small: Path, tmp_path: Path, ending: str) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "stream: {time: ts, type: action, unit: ms}\n"
        "queries: ['QUERY q PATTERN SEQ(view a, view b) WHERE [user] RETURN a, b WITHIN 1 s']\n"
    )
    out = small / f"rows.{ending}"
    done = command("run", workload, "--events", tmp_path / "events.csv", "--out", out)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
    assert str(out.parent) in done.stderr
    assert not list(small.iterdir())


def test_a_service_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    small: Path, tmp_path: Path
) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    with service(small / "data", roots=(tmp_path,)) as client:
        plan = posted_plan(client)
        body = {"plan": plan["id"], "source": str(tmp_path / "events.csv"), "engine": "local"}
        filling = fill(small)
        refused = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": "more"})
        assert "full" in is_problem(refused, 503, "unavailable")["detail"]
        assert refused.headers["retry-after"]
        assert client.get(f"/v1/plans/{plan['id']}").status_code == 200
        is_problem(client.post("/v1/jobs", json=body), 503, "unavailable")
        filling.unlink()
        assert client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": "more"}).is_success
        job = client.post("/v1/jobs", json=body).json()
        done = finished(client, job["id"])
        assert done["status"] == "succeeded", done["reason"]


def test_a_job_that_finds_no_room_says_so(small: Path, tmp_path: Path) -> None:
    """The store is elsewhere, as PostgreSQL's is, and the jobs' folder is full."""
    (tmp_path / "events.csv").write_text(EVENTS)
    with service(small / "data", roots=(tmp_path,), store=str(tmp_path / "store.db")) as client:
        plan = posted_plan(client)
        body = {"plan": plan["id"], "source": str(tmp_path / "events.csv"), "engine": "local"}
        filling = fill(small)
        job = finished(client, client.post("/v1/jobs", json=body).json()["id"])
        assert job["status"] == "failed"
        assert "No space left on device" in job["reason"]
        filling.unlink()
        job = finished(client, client.post("/v1/jobs", json=body).json()["id"])
        assert job["status"] == "succeeded", job["reason"]


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_on_a_disk_that_cannot_be_written_to_are_refused(
    small: Path, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "stream: {time: ts, type: action, unit: ms}\n"
        "queries: ['QUERY q PATTERN SEQ(view a, view b) WHERE [user] RETURN a, b WITHIN 1 s']\n"
    )
    remount(small, "ro")
    out = small / f"rows.{ending}"
    done = command("run", workload, "--events", tmp_path / "events.csv", "--out", out)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "read-only file system" in done.stderr
    assert str(out.parent) in done.stderr
    assert not list(small.iterdir())


def test_a_job_whose_folder_is_on_a_disk_that_becomes_read_only_says_so(
    small: Path, tmp_path: Path
) -> None:
    """The store is elsewhere, as PostgreSQL's is."""
    (tmp_path / "events.csv").write_text(EVENTS)
    with service(small / "data", roots=(tmp_path,), store=str(tmp_path / "store.db")) as client:
        plan = posted_plan(client)
        body = {"plan": plan["id"], "source": str(tmp_path / "events.csv"), "engine": "local"}
        # What is open stays so: a file system that is in use cannot be made read-only as a whole.
        subprocess.run(["mount", "-o", "bind", small, small], check=True)
        try:
            remount(small, "bind,ro")
            job = finished(client, client.post("/v1/jobs", json=body).json()["id"])
            assert job["status"] == "failed"
            assert "Read-only file system" in job["reason"]
            assert client.get(f"/v1/plans/{plan['id']}").status_code == 200
        finally:
            subprocess.run(["umount", "-l", small], check=True)
        job = finished(client, client.post("/v1/jobs", json=body).json()["id"])
        assert job["status"] == "succeeded", job["reason"]
