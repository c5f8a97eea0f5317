"""Jobs: one at a time from a queue, in a thread of their own, each with a state people can read."""

from __future__ import annotations

import itertools
import logging
import queue
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol
from typing import Literal as OneOf

from api.store import UnknownIdError
from optimizer.physical.plan import Plan
from workloads.errors import SheafError, WorkloadError

if TYPE_CHECKING:
    from engines.results import Results

Status = OneOf["queued", "running", "succeeded", "failed", "cancelled"]
Engine = OneOf["spark", "local"]
Device = OneOf["auto", "cpu", "opencl"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What a job is to do: run a plan over the events at `source`."""

    plan: Plan
    source: str
    sink: str | None = None
    engine: Engine = "spark"
    device: Device = "auto"
    master: str = "local[*]"


@dataclass(frozen=True)
class Done:
    """What a job has done."""

    results: Results
    events: int
    seconds: Mapping[str, float]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """A job's state at one moment."""

    id: str
    request: Request
    status: Status
    created: datetime
    stage: str = "waiting"
    reason: str | None = None
    started: datetime | None = None
    finished: datetime | None = None
    done: Done | None = None

    @property
    def is_over(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled")


class Runner(Protocol):
    """What does the work; called from the job thread, but for `cancel` and `progress`."""

    def run(self, id: str, request: Request, stage: Callable[[str], None]) -> Done:
        """Do it, saying at each stage what is under way."""

    def cancel(self, id: str) -> None:
        """Make `run` end soon, by raising or otherwise."""

    def progress(self, id: str) -> tuple[int, int] | None:
        """Tasks that are done, and tasks that are known of."""

    def close(self) -> None:
        """Give everything back."""


class CancelledError(SheafError):
    """Raised between the stages of a job that has been cancelled."""


@dataclass
class _Entry:
    job: Job
    cancelled: threading.Event = field(default_factory=threading.Event)


class Jobs:
    """The queue and every job that went through it."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._thread = threading.Thread(target=self._work, name="sheaf-jobs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Cancel what is left and wait for the thread."""
        for job in self.list():
            if not job.is_over:
                self.cancel(job.id)
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, request: Request) -> Job:
        # A number to read in order, and chance so that no two services use the same id.
        id = f"job-{next(self._numbers)}-{secrets.token_hex(4)}"
        entry = _Entry(Job(id, request, "queued", _now()))
        with self._lock:
            self._entries[id] = entry
        self._queue.put(entry)
        return entry.job

    def list(self) -> list[Job]:
        with self._lock:
            return [entry.job for entry in self._entries.values()]

    def get(self, id: str) -> Job:
        return self._entry(id).job

    def progress(self, job: Job) -> tuple[int, int] | None:
        """Tasks done and known of, while the job runs."""
        return self._runner.progress(job.id) if job.status == "running" else None

    def cancel(self, id: str) -> Job:
        """Cancel a job that waits or runs; one that is over stays as it is."""
        entry = self._entry(id)
        entry.cancelled.set()
        with self._lock:
            was = entry.job.status
            if was == "queued":
                entry.job = replace(
                    entry.job,
                    status="cancelled",
                    stage="over",
                    reason="cancelled while it waited",
                    finished=_now(),
                )
            elif was == "running":
                entry.job = replace(entry.job, stage="cancelling")
        if was == "running":
            self._runner.cancel(id)
        return entry.job

    def forget(self, id: str) -> None:
        """Drop a job that is over, and its results."""
        with self._lock:
            self._entries.pop(id, None)

    def _entry(self, id: str) -> _Entry:
        with self._lock:
            found = self._entries.get(id)
        if found is None:
            raise UnknownIdError(f"there is no job '{id}'")
        return found

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            with self._lock:
                if entry.job.status != "queued":
                    continue
                entry.job = replace(entry.job, status="running", started=_now(), stage="starting")
            self._run(entry)
        self._runner.close()

    def _run(self, entry: _Entry) -> None:
        def stage(name: str) -> None:
            if entry.cancelled.is_set():
                raise CancelledError("cancelled")
            self._change(entry, stage=name)

        try:
            done = self._runner.run(entry.job.id, entry.job.request, stage)
        except Exception as error:  # whatever it is, the job is over and the next one waits
            if entry.cancelled.is_set():
                self._end(entry, "cancelled", "cancelled while it ran")
            else:
                self._end(entry, "failed", reason_of(error))
            return
        if entry.cancelled.is_set():
            self._end(entry, "cancelled", "cancelled while it ran")
        else:
            self._end(entry, "succeeded", None, done)

    def _end(
        self, entry: _Entry, status: Status, reason: str | None, done: Done | None = None
    ) -> None:
        self._change(entry, status=status, reason=reason, done=done, stage="over", finished=_now())

    def _change(self, entry: _Entry, **changes: object) -> None:
        with self._lock:
            entry.job = replace(entry.job, **changes)  # type: ignore[arg-type]


def reason_of(error: Exception) -> str:
    """An error as the person who posted the job should read it."""
    if isinstance(error, WorkloadError):
        return "; ".join(
            f"query {d.query}: {d.message}" if d.query else d.message for d in error.diagnostics
        )
    if isinstance(error, SheafError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    log.exception("a job failed in a way that was not foreseen", exc_info=error)
    first = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first[0]}"


def _now() -> datetime:
    return datetime.now(UTC)
