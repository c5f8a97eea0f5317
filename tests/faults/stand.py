"""A service with everything beside it that can fail, in processes of their own."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from api.jobs.process import session
from tests.api.databases import PostgresqlServer, postgresql_server

PATIENCE = 180.0  # seconds that something may take on a busy machine
CLUSTER = "local-cluster[2,1,1024]"
SERVE = [sys.executable, "-c", "from api.cli.main import main; main()", "serve"]


@dataclass
class Stand:
    """The service on an address that stays while it is killed and started again."""

    folder: Path
    database: PostgresqlServer | None
    port: int
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    killed: dict[str, int] = field(default_factory=dict)

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    def start(self) -> None:
        """Start the service, and wait until it answers."""
        command = [*SERVE, "--port", str(self.port), "--data", str(self.folder / "data")]
        with (self.folder / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--root", str(self.folder)],
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        self.until(lambda: self.ask("/readyz") is not None)

    def kill_service(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, path: str) -> Any:
        """What the service answers; None while it does not, or has no database."""
        with suppress(httpx.TransportError), self.client as client:
            answer = client.get(path)
            if answer.status_code < 500:
                return answer.json()
        return None

    def post(self, path: str, body: Any) -> Any:
        """What the service answers to a request that is made again until it does."""
        headers = {"idempotency-key": f"{random.getrandbits(64):x}"}

        def posted() -> Any:
            with suppress(httpx.TransportError), self.client as client:
                answer = client.post(path, json=body, headers=headers)
                if answer.status_code < 500 and answer.status_code != 409:
                    assert answer.status_code < 300, answer.text
                    return answer.json()
            return None

        return self.until(posted)

    def over(self, job: str) -> Any:
        """A job that is over; None before."""
        now = self.ask(f"/v1/jobs/{job}")
        return now if now and now["finished"] else None

    def until(self, found: Callable[[], Any]) -> Any:
        """What it gives as soon as it gives something."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if value := found():
                return value
            time.sleep(0.1)
        log = (self.folder / "service.log").read_text(errors="replace")[-3000:]
        raise AssertionError(f"it did not come about; the service said:\n{log}")

    def processes(self, job: str) -> dict[str, list[int]]:
        """The processes of a job that runs, by what they are."""
        found: dict[str, list[int]] = {}
        folder = self.folder / "data" / "jobs" / job
        attempts = sorted((folder / "attempts").glob("*"), key=lambda path: int(path.name))
        locks = [path / "lock" for path in (folder, *attempts)]
        for lock in locks[-1:]:
            with suppress(ValueError, OSError):
                leader = int(lock.read_text())
                os.kill(leader, 0)
                found["driver"] = [leader]
                for pid in session(leader):
                    found.setdefault(_kind(pid), []).append(pid)
        return found

    def kill(self, what: str, job: str) -> bool:
        """Kill something; False where there is none of it now."""
        if what == "service":
            self.kill_service()
            self.start()
        elif what == "database":
            if self.database is None:
                return False
            self.database.kill()
            time.sleep(random.random() * 2)
            self.database.start()
        else:
            some = self.processes(job).get(what)
            if not some:
                return False
            with suppress(ProcessLookupError):
                os.kill(random.choice(some), signal.SIGKILL)
        self.killed[what] = self.killed.get(what, 0) + 1
        return True


def _kind(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "gone"
    if b"CoarseGrainedExecutorBackend" in command:
        return "executor"
    if b"java" in command.split(b" ")[0]:
        return "jvm"
    return "python" if b"pyspark" in command or b"daemon" in command else "other"


@contextmanager
def stand(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Stand]:
    """A service that runs, on PostgreSQL where that is installed; nothing is left at the end.

    Its environment has what is in `more` besides.
    """
    with postgresql_server() as database, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        environment = {**os.environ, "SHEAF_MASTERS": CLUSTER, "SHEAF_STREAM_RESTARTS": "50"}
        environment |= more or {}
        if database is not None:
            environment["SHEAF_STORE"] = database.new_database()
        made = Stand(folder, database, port, environment)
        made.start()
        try:
            yield made
        finally:
            made.kill_service()
