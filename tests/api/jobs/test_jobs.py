"""Jobs in processes of their own: what becomes of them when they, or the service, end badly."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.jobs import queue
from api.jobs.folder import JobFolder
from api.jobs.model import Job
from api.store.jobs import JobRecords
from tests.api.service import at_work, finished, is_problem, posted_job, posted_plan, until

Command = list[str]


@contextmanager
def service(data: Path, command: Command, **more: Any) -> Iterator[httpx.Client]:
    app = create_app(Settings(data=data, roots=(data.parent, Path.cwd()), **more), command)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture
def client(pretend: Command, tmp_path: Path) -> Iterator[httpx.Client]:
    with service(tmp_path / "data", pretend) as made:
        yield made


def ran(data: Path) -> list[str]:
    path = data / "jobs" / "ran"
    return path.read_text().split() if path.exists() else []


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


# --- how processes end ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "said"), [("killed", "no memory left"), ("exits", "code 7"), ("bug", "ZeroDivision")]
)
def test_a_process_that_dies_fails_its_job_with_a_reason(
    client: httpx.Client, tmp_path: Path, source: str, said: str
) -> None:
    sink = {"path": str(tmp_path / "out.csv")}
    job = finished(client, posted_job(client, source, sink=sink)["id"])
    assert job["status"] == "failed"
    assert said in job["reason"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert finished(client, posted_job(client, "fine")["id"])["status"] == "succeeded"


def test_a_sink_appears_when_the_job_has_succeeded(client: httpx.Client, tmp_path: Path) -> None:
    sink = tmp_path / "out.csv"
    id = posted_job(client, "waits", sink=str(sink))["id"]
    until(lambda: list(tmp_path.glob(".out.*")))
    assert not sink.exists()
    (tmp_path / "data/jobs/go").touch()
    assert finished(client, id)["files"] == [str(sink)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out.csv"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_cancelling_ends_all_that_a_job_started(client: httpx.Client, tmp_path: Path) -> None:
    sink = {"path": str(tmp_path / "out.csv")}
    id = posted_job(client, "has a child", sink=sink)["id"]
    at_work(client, id)
    file = tmp_path / "data" / "jobs" / id / "child"
    child = int(until(lambda: file.exists() and file.read_text()))
    assert is_alive(child)
    client.delete(f"/v1/jobs/{id}")
    assert finished(client, id)["status"] == "cancelled"
    assert not is_alive(child)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_job_cancelled_just_before_it_is_known_to_run_does_not_run(
    pretend: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = JobRecords.claim

    def cancelled_at_once(records: JobRecords, modes: Any) -> Job | None:
        job = claim(records, modes)
        return job and records.cancel(job.id)

    monkeypatch.setattr(JobRecords, "claim", cancelled_at_once)
    with service(tmp_path, pretend) as client:
        job = finished(client, posted_job(client, "fine")["id"])
    assert (job["status"], ran(tmp_path)) == ("cancelled", [])


def test_a_store_that_is_away_for_a_while_is_waited_for(
    pretend: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, failures = JobRecords.end, [1, 2]

    def away(records: JobRecords, *arguments: Any) -> Job:
        if failures:
            failures.pop()
            raise OperationalError("UPDATE jobs", {}, Exception("gone"))
        return end(records, *arguments)

    monkeypatch.setattr(JobRecords, "end", away)
    monkeypatch.setattr(JobRecords, "stage", away)
    monkeypatch.setattr(queue, "AGAIN", 0.01)
    with service(tmp_path, pretend) as client:
        assert finished(client, posted_job(client, "fine")["id"])["status"] == "succeeded"
    assert failures == []


# --- the queue -----------------------------------------------------------------------------------


def test_as_many_jobs_run_at_once_as_may(pretend: Command, tmp_path: Path) -> None:
    with service(tmp_path, pretend, jobs_at_once=2) as client:
        first, second, third, fourth = [posted_job(client, "waits")["id"] for _ in range(4)]
        at_work(client, first)
        at_work(client, second)
        places = [client.get(f"/v1/jobs/{id}").json()["position"] for id in (third, fourth)]
        assert places == [1, 2]
        client.delete(f"/v1/jobs/{third}")
        assert client.get(f"/v1/jobs/{fourth}").json()["position"] == 1
        client.delete(f"/v1/jobs/{first}")
        at_work(client, fourth)
        assert [job["position"] for job in client.get("/v1/jobs").json()] == [None] * 4


def test_a_full_queue_is_a_problem(pretend: Command, tmp_path: Path) -> None:
    with service(tmp_path, pretend, max_queued=1) as client:
        at_work(client, posted_job(client, "waits")["id"])
        waiting = posted_job(client, "waits")
        again = {"plan": waiting["plan"], "source": "waits"}
        is_problem(client.post("/v1/jobs", json=again), 429, "queue-full")


# --- the service's end ---------------------------------------------------------------------------


def test_a_service_that_stops_ends_what_runs_and_leaves_what_waits(
    pretend: Command, tmp_path: Path
) -> None:
    with service(tmp_path, pretend) as client:
        running = posted_job(client, "waits")["id"]
        waiting = posted_job(client, "fine")["id"]
        at_work(client, running)
    assert ran(tmp_path) == [running]
    with service(tmp_path, pretend) as client:
        job = client.get(f"/v1/jobs/{running}").json()
        assert (job["status"], job["stage"]) == ("failed", "over")
        assert "the service was stopped" in job["reason"]
        assert finished(client, waiting)["status"] == "succeeded"
        assert client.get(f"/v1/jobs/{waiting}/results").json()["total"]["aggregates"] == 3
    assert ran(tmp_path) == [running, waiting]


SERVICE = """
import api.http.routes.jobs as routes
import sys, time
from pathlib import Path
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.store.jobs import JobRecords
routes.check_source = lambda *given: None  # jobs that pretend need no events
data = Path(sys.argv[1])
settings = Settings(data=data, roots=(data.parent, Path.cwd()))
with serving(create_app(settings, sys.argv[2:])) as address:
    print(address, flush=True)
    time.sleep(1000)
"""


@contextmanager
def killable(data: Path, command: Command) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A service in a process of its own, which is killed at the end of the block at the latest."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(data), *command], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=30) as client:
            yield client, process
    finally:
        process.kill()
        process.communicate()


def test_after_a_kill_every_job_is_in_a_true_state(pretend: Command, tmp_path: Path) -> None:
    data, sink = tmp_path / "data", tmp_path / "out.csv"
    with killable(data, pretend) as (client, process):
        done = posted_job(client, "fine")["id"]
        finished(client, done)
        running = posted_job(client, "waits", sink=str(sink))["id"]
        cancelled, waiting = (posted_job(client, "fine")["id"] for _ in range(2))
        client.delete(f"/v1/jobs/{cancelled}")
        at_work(client, running)
        worker = int((data / "jobs" / running / "lock").read_text())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    until(lambda: not is_alive(worker))
    with service(data, pretend) as client:
        assert client.get(f"/v1/jobs/{done}").json()["status"] == "succeeded"
        job = client.get(f"/v1/jobs/{running}").json()
        assert (job["status"], job["reason"]) == (
            "failed",
            "the service ended while the job ran, and the job with it; post it again",
        )
        assert client.get(f"/v1/jobs/{cancelled}").json()["status"] == "cancelled"
        assert finished(client, waiting)["status"] == "succeeded"
    assert ran(data) == [done, running, waiting]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_a_job_finished_while_the_service_was_killed_is_kept(
    pretend: Command, tmp_path: Path
) -> None:
    """The process had said its last word, and nobody had heard it."""
    data, sink = tmp_path / "data", tmp_path / "out.csv"
    with service(data, pretend) as client:
        id = posted_job(client, "fine", sink=str(sink))["id"]
        finished(client, id)
        jobs = client.get("/v1/jobs").json()
    undo(data, id)
    sink.rename(tmp_path / f".out.{id}.csv")
    with service(data, pretend) as client:
        again = client.get("/v1/jobs").json()
        assert [j | {"finished": None, "started": None} for j in again] == [
            j | {"finished": None, "started": None} for j in jobs
        ]
        assert client.get(f"/v1/jobs/{id}/results").json()["total"]["matches"] == 1
    assert sink.read_text() == "rows\n"
    assert ran(data) == [id]


def undo(data: Path, id: str) -> None:
    """Make a store believe that a job is running."""
    from sqlalchemy import text

    from api.store import open_database

    database = open_database(str(data / "sheaf.db"))
    with database.write() as session:
        session.execute(
            text("UPDATE jobs SET status='running', stage='run', done=NULL WHERE id=:id"),
            {"id": id},
        )
    database.close()


def test_a_job_that_was_claimed_and_never_begun_is_run(pretend: Command, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with service(data, pretend) as client:
        at_work(client, posted_job(client, "waits")["id"])
        id = posted_job(client, "fine")["id"]
    undo(data, id)
    with service(data, pretend) as client:
        assert finished(client, id)["status"] == "succeeded"


def test_a_process_that_comes_late_does_not_begin(pretend: Command, tmp_path: Path) -> None:
    """The service was killed when it had just started it, and the next one has been there."""
    folder = JobFolder(tmp_path / "jobs" / "job-1")
    folder.create({"source": "fine", "sink": None})
    folder.settle()
    reading, writing = os.pipe()
    alive, held = os.pipe()  # a service that is alive
    late = subprocess.run(
        [*pretend, str(folder.path), str(os.getpid()), str(writing)],
        pass_fds=[writing],
        stdin=alive,
        start_new_session=True,
    )
    for end in (reading, writing, alive, held):
        os.close(end)
    assert late.returncode == 3
    assert ran(tmp_path) == []


# Does not notice that its service has ended.
STUBBORN = """
import json, os, sys, time
from pathlib import Path
from api.jobs import queue
from api.jobs.folder import JobFolder
from api.jobs.model import Job
lock = JobFolder(Path(sys.argv[1])).enter()
os.write(int(sys.argv[3]), json.dumps({"progress": [0, 1]}).encode() + b"\\n")
time.sleep(1000)
"""


def test_a_process_that_outlives_its_service_is_ended_by_the_next(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STUBBORN]
    with killable(tmp_path, command) as (client, process):
        id = posted_job(client, "anything")["id"]
        at_work(client, id)
        worker = int((tmp_path / "jobs" / id / "lock").read_text())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert is_alive(worker)
    with service(tmp_path, command) as client:
        assert client.get(f"/v1/jobs/{id}").json()["status"] == "failed"
        assert not is_alive(worker)


def post_until_killed(
    client: httpx.Client, process: subprocess.Popen[str], calm: int, after: float
) -> list[str]:
    """The jobs that were acknowledged before the service was killed.

    That is so many seconds after so many of them: while it takes another, or runs one.
    """
    plan = posted_plan(client)["id"]
    timer = threading.Timer(after, process.kill)
    acknowledged: list[str] = []
    with contextlib.suppress(httpx.TransportError):  # it was killed before it could answer
        while True:
            if len(acknowledged) == calm:
                timer.start()
            answer = client.post("/v1/jobs", json={"plan": plan, "source": "fine"})
            acknowledged.append(answer.json()["id"])
    process.wait()
    return acknowledged


@pytest.mark.parametrize(
    ("turns", "jobs"),
    [pytest.param(2, 4, marks=pytest.mark.slow), pytest.param(25, 8, marks=pytest.mark.soak)],
)
@pytest.mark.timeout(900)
def test_a_service_killed_again_and_again_runs_each_job_once(
    pretend: Command, tmp_path: Path, turns: int, jobs: int
) -> None:
    data, posted, chance = tmp_path / "data", [], random.Random(7)
    for _ in range(turns):
        with killable(data, pretend) as (client, process):
            # Killed anywhere: which jobs are posted, run, end or wait then is a matter of chance.
            calm, after = chance.randrange(jobs), chance.random() * 0.3
            posted += post_until_killed(client, process, calm, after)
    with service(data, pretend) as client:
        over = [
            finished(client, job["id"])
            for job in client.get("/v1/jobs?limit=1000&order=asc").json()
        ]
        known = {job["id"] for job in over if job["status"] == "succeeded"}
        for id in known:
            assert client.get(f"/v1/jobs/{id}/results").json()["total"]["aggregates"] == 3
    begun = Counter(ran(data))
    failed = [job for job in over if job["status"] != "succeeded"]
    print(f"{len(posted)} acknowledged, {len(over)} known, {len(failed)} interrupted")
    assert set(posted) <= {job["id"] for job in over}
    assert set(begun.values()) == {1}
    assert known <= set(begun)
    assert len(failed) <= turns
    assert all("the service ended" in job["reason"] for job in failed)


def test_a_job_that_takes_too_much_memory_is_ended_and_says_so(
    pretend: Command, tmp_path: Path
) -> None:
    with service(tmp_path, pretend, job_memory=150_000_000) as client:
        job = finished(client, posted_job(client, "hoards")["id"])
        assert job["status"] == "failed"
        assert "may hold 0.1 GB (SHEAF_JOB_MEMORY)" in job["reason"]
        assert finished(client, posted_job(client, "fine")["id"])["status"] == "succeeded"


def test_a_service_on_postgresql_goes_on_where_it_was(
    pretend: Command, tmp_path: Path, new_postgresql: Callable[[], str]
) -> None:
    store = new_postgresql()
    with service(tmp_path, pretend, store=store) as client:
        done, running, waiting = (
            posted_job(client, source)["id"] for source in ("fine", "waits", "fine")
        )
        at_work(client, running)
        assert finished(client, done)["status"] == "succeeded"
    with service(tmp_path, pretend, store=store) as client:
        assert "was stopped" in client.get(f"/v1/jobs/{running}").json()["reason"]
        assert finished(client, waiting)["status"] == "succeeded"
        assert client.get(f"/v1/jobs/{done}/results").json()["total"]["matches"] == 1
    assert ran(tmp_path) == [done, running, waiting]
