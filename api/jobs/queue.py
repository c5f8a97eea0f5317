"""The queue: which jobs run, each in a process of its own, and what becomes of them."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from api.jobs.account import JobAccount, read_account
from api.jobs.counts import JobCounts, counts_of, read_counts
from api.jobs.folder import JobFolder, show, sweep_sink
from api.jobs.live_rows import LiveRows, RowCountCache
from api.jobs.model import Job, JobSummary, Mode, Request, Status
from api.jobs.process import COMMAND, JobProcess, why_it_ended
from api.jobs.roots import Roots
from api.jobs.rows import Rows, StoredRows
from api.store.jobs import JobRecords
from engines.limits import StateError
from engines.results.lake_place import lake_place

T = TypeVar("T")
log = logging.getLogger(__name__)

AGAIN = 2.0  # seconds after which a database that was away is tried again
TO_STOP = 5.0  # seconds that a stream is given to end by itself
BACK_OFF, LONGEST = 1.0, 60.0  # seconds before a stream is started again, doubled each time
ENDED = "ended on request; its checkpoint can be resumed"
STOPPED = "the service was stopped while the job ran; post it again"
NOT_SEEN = "the service could not see it through; its own log says why"
INTERRUPTED = "the service ended while the job ran, and the job with it; post it again"


@dataclass
class _Running:
    """A job that has been claimed; `process` is there once it has been started."""

    job: Job
    cancelled: bool = False
    process: JobProcess | None = None
    plan: str | None = None  # that the process was told
    progress: tuple[int, int] | None = None
    thread: threading.Thread | None = field(default=None, repr=False)


class Jobs:
    """Starts jobs from the queue, as many at once as may be, and sees them to their end.

    `document` gives the workload that a plan is of. `ended` hears of every job that is over, and
    `batch` of what each batch of a stream did.
    """

    def __init__(
        self,
        records: JobRecords,
        folder: Path,
        document: Callable[[str], Mapping[str, Any]],
        roots: Roots,
        at_once: int = 1,
        max_queued: int = 1000,
        command: Sequence[str] = COMMAND,
        ended: Callable[[Job], None] = lambda job: None,
        streams_at_once: int = 2,
        restarts: int = 5,
        batch: Callable[[str, Mapping[str, Any]], None] = lambda job, did: None,
        memory: int | None = None,
        max_owned: int | None = None,
        connections: Path | None = None,
    ) -> None:
        self.records = records
        self._folder, self._document, self._roots = folder, document, roots
        self._at_once, self._max_queued, self._max_owned = at_once, max_queued, max_owned
        self._command, self._ended = command, ended
        self._streams_at_once, self._restarts, self._batch = streams_at_once, restarts, batch
        self._connections = connections  # a file of them
        self._memory = memory  # bytes that each of them may hold
        self._seen = RowCountCache()
        self._changed = threading.Condition()
        self._running: dict[str, _Running] = {}
        self._stopping = False
        self._news = 0
        self._thread = threading.Thread(target=self._dispatch, name="sheaf-jobs", daemon=True)

    # --- for everyone --------------------------------------------------------------------------

    @property
    def connections(self) -> str | None:
        """The file of connections, for processes that read it themselves."""
        return None if self._connections is None else str(self._connections.absolute())

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def news(self) -> int:
        """Changes whenever something about any job does."""
        return self._news

    def submit(self, request: Request, key: str | None = None, owner: str | None = None) -> Job:
        """Put a job in the queue, once for an idempotency `key`; owners take turns there."""
        job = self.records.add(request, self._max_queued, key, owner, self._max_owned)
        self.wake()
        return job

    def wake(self) -> None:
        """Look at the queue: something in the store has changed."""
        with self._changed:
            self._news += 1
            self._changed.notify_all()

    def progress(self, job: Job) -> tuple[int, int] | None:
        """What is done and what is known of, while the job runs."""
        running = self._running.get(job.id)
        return running.progress if running else None

    def folder(self, id: str) -> JobFolder:
        return JobFolder(self._folder / id)

    def account(self, job: Job) -> JobAccount | None:
        """What a stream has done so far; None for another job."""
        return None if job.request.live is None else self._account(self.folder(job.id))

    def counts(self, job: Job) -> JobCounts | None:
        """What a job has counted so far; None before it has counted anything."""
        account = self.account(job)
        if account is not None:
            return counts_of(account)
        found = self._readable(read_counts, self.folder(job.id).counts)
        return found if job.done is None else (found or JobCounts()).at_end(job.done)

    def _account(self, folder: JobFolder) -> JobAccount:
        return self._readable(read_account, folder.account) or JobAccount()

    def _readable(self, read: Callable[[Path], T], path: Path) -> T | None:
        """What a file of a job says; None, and a line in the log, where it is damaged."""
        try:
            return read(path)
        except StateError as error:
            log.error("%s", error)
            return None

    def checkpoint(self, job: Job) -> Path:
        """Where a stream keeps its state."""
        given = None if job.request.live is None else job.request.live.checkpoint
        return self.folder(job.id).checkpoint if given is None else Path(given)

    def rows(self, job: Job) -> Rows | None:
        """A job's rows; None where it has none yet."""
        folder = self.folder(job.id)
        if job.request.live is not None:
            given = job.request.sink
            place = None if given is None else lake_place(given)
            sink = folder.sink if given is None else Path(given if place is None else place.folder)
            return LiveRows(sink, self.checkpoint(job), self._seen, is_lake=place is not None)
        return None if job.done is None else StoredRows(folder, job.done)

    def cancel(self, id: str) -> Job:
        """Cancel a job that waits or runs; one that is over stays as it is."""
        job = self.records.cancel(id)
        with self._changed:
            running = self._running.get(id)
            if running is not None:
                running.cancelled = True
                if running.process is not None and job.request.live is not None:
                    self._stop_stream(running.process)
                elif running.process is not None:
                    running.process.kill()
                self._changed.notify_all()
        self.wake()
        return job

    def delete(self, id: str) -> bool:
        """Delete a job that is over, and its results; False if it is not over."""
        if not self.records.delete(id):
            return False
        self._seen.forget(self.folder(id).sink)
        self.folder(id).remove()
        self.wake()
        return True

    # --- from start to end ---------------------------------------------------------------------

    def start(self) -> None:
        """Find out what became of jobs that ran when an earlier service ended, and begin."""
        for job in self.records.with_status("running"):
            self._recover(job)
        self._thread.start()

    def close(self) -> None:
        """End what runs and wait for it; what waits is run by the next service on this store."""
        with self._changed:
            self._stopping = True
            for running in self._running.values():
                if running.process is not None:
                    running.process.kill()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _recover(self, job: Job) -> None:
        folder = self.folder(job.id)
        if job.request.live is not None:
            for attempt in folder.attempts():
                if attempt.was_created:
                    attempt.settle()
            if job.stage == "cancelling":
                self._end(job.id, "cancelled", ENDED, self._streamed(folder))
            else:  # it goes on where it was, as soon as there is room
                self.records.put_back(job.id)
            return
        if not folder.was_created:  # claimed, and no process started
            folder.remove()
            self.records.put_back(job.id)
            return
        folder.settle()
        self._settle(job, folder, job.stage == "cancelling", INTERRUPTED)

    def _dispatch(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    break
                room = self._room()
                before = self._news
            job = self._claim(room) if room else None
            with self._changed:
                if job is not None:
                    running = _Running(job)
                    running.thread = threading.Thread(
                        target=self._run, args=(running,), name=f"sheaf-{job.id}", daemon=True
                    )
                    self._running[job.id] = running
                    self._news += 1
                    running.thread.start()
                elif self._news == before and not self._stopping:
                    self._changed.wait(5)
        for thread in [r.thread for r in list(self._running.values()) if r.thread is not None]:
            thread.join()

    def _room(self) -> tuple[Mode, ...]:
        """The kinds of jobs that may be started; a stream never ends, so it is not in the way."""
        modes = [running.job.request.mode for running in self._running.values()]
        limits: dict[Mode, int] = {"batch": self._at_once, "stream": self._streams_at_once}
        return tuple(mode for mode, limit in limits.items() if modes.count(mode) < limit)

    def _claim(self, room: tuple[Mode, ...]) -> Job | None:
        try:
            return self.records.claim(room)
        except Exception:  # the database may be away for a while; jobs wait for it
            log.exception("the queue could not be read")
            return None

    def _run(self, running: _Running) -> None:
        """See one job from its start to its end."""
        job, folder = running.job, self.folder(running.job.id)
        try:
            if job.request.live is None:
                self._supervise(running, folder)
            else:
                self._supervise_stream(running, folder)
        except Exception as error:
            log.exception("a job could not be seen to its end: %s", job.id)
            why = NOT_SEEN
            if isinstance(error, OSError):
                why = f"the service cannot write to its folders: {error.strerror}; post it again"
            if running.process is not None:
                running.process.kill()
                running.process.wait()
            if job.request.live is not None:
                self._end(job.id, "failed", why, self._streamed(folder))
            else:
                self._settle(job, folder, running.cancelled, why)
        finally:
            with self._changed:
                self._running.pop(job.id, None)
            self.wake()

    def _started(self, running: _Running, folder: JobFolder) -> None:
        """Start the process that works in a folder, unless the job is not to run any more."""
        # Whoever changed the plan, or cancelled it before it was known to run, has left word.
        job = self.records.get(running.job.id)
        folder.create(
            {
                **asdict(job.request),
                "id": job.id,
                "plan_document": dict(self._document(job.request.plan)),
                "roots": [str(folder) for folder in self._roots.folders],
                "connections": self.connections,
            }
        )
        with self._changed:
            running.cancelled |= job.stage == "cancelling"
            running.process, running.plan = None, job.request.plan
            # Under the lock, so that whoever cancels either sees the process or prevents it.
            if not running.cancelled and not self._stopping:
                running.process = JobProcess(folder, self._command, self._memory)

    def _supervise(self, running: _Running, folder: JobFolder) -> None:
        job = running.job
        self._started(running, folder)
        if running.process is None and not running.cancelled:  # the service stops: the next runs it
            folder.remove()
            self.records.put_back(job.id)
            return
        code = 0
        if running.process is not None:
            for line in running.process.messages():
                self._hear(running, line)
            code = running.process.wait()
        why = STOPPED if self._stopping else self._why(running, code)
        self._settle(job, folder, running.cancelled, why)

    def _why(self, running: _Running, code: int) -> str:
        return why_it_ended(code) if running.process is None else running.process.why(code)

    def _supervise_stream(self, running: _Running, folder: JobFolder) -> None:
        """Start a stream's process, and another where it ends that should not have."""
        job, failures = running.job, 0
        while True:
            attempt, before = folder.next_attempt(), self._account(folder).totals.batches
            self._started(running, attempt)
            code = 0
            if running.process is not None:
                self._catch_up(running)
                for line in running.process.messages():
                    self._hear(running, line)
                code = running.process.wait()
            attempt.clean()
            outcome = attempt.outcome()
            if running.cancelled:
                self._over(job, folder, "cancelled", ENDED)
                return
            if outcome is not None and outcome["status"] == "succeeded":
                self._over(job, folder, "succeeded", None)
                return
            if self._stopping:  # the next service goes on with it
                self.records.put_back(job.id)
                return
            why = self._why(running, code) if outcome is None else str(outcome["reason"])
            # A stream that got somewhere has earned a quick restart.
            got_on = self._account(folder).totals.batches > before
            failures = 1 if got_on else failures + 1
            if failures > self._restarts or not (outcome is None or outcome["again"]):
                self._over(job, folder, "failed", why)
                return
            pause = min(BACK_OFF * 2 ** (failures - 1), LONGEST)
            log.warning("stream ended", extra={"job": job.id, "reason": why, "again_in": pause})
            self.records.restarting(job.id, why, pause)
            self.wake()
            with self._changed:
                self._changed.wait_for(lambda: running.cancelled or self._stopping, pause)

    def _catch_up(self, running: _Running) -> None:
        """Tell a process of a plan that came while it was being started."""
        now = self.records.get(running.job.id).request.plan
        with self._changed:
            if now != running.plan and running.process is not None:
                running.plan = now
                running.process.tell({"plan": dict(self._document(now))})

    def update(
        self, id: str, plan: str, workload: str, version: int, name: str, said: Mapping[str, Any]
    ) -> Job:
        """Have a stream go on with another plan; `said` is what becomes of its queries.

        A stream that does not run just now, or ends before it hears of it, begins with the plan.
        """
        job = self.records.change_plan(id, plan, workload, version, name, said)
        with self._changed:
            running = self._running.get(id)
            if running is not None and running.process is not None and running.plan != plan:
                running.plan = plan
                running.process.tell({"plan": dict(self._document(plan))})
        self.wake()
        return job

    def _stop_stream(self, process: JobProcess) -> None:
        """Let a stream end between two batches, so that its rows are what it said; else kill it."""
        process.tell({"stop": True})
        timer = threading.Timer(TO_STOP, process.kill)
        timer.daemon = True
        timer.start()

    def _over(self, job: Job, folder: JobFolder, status: Status, reason: str | None) -> None:
        """Say how a stream ended; its rows stay."""
        over = self._end(job.id, status, reason, self._streamed(folder))
        log.info("job over", extra={"job": job.id, "status": status, "reason": reason})
        self._ended(over)

    def _streamed(self, folder: JobFolder) -> JobSummary:
        """What a stream has done."""
        account = self._account(folder)
        totals = account.totals
        rows = {kind: {"": getattr(totals, kind)} for kind in ("aggregates", "matches")}
        return JobSummary(
            totals.events,
            {"run": totals.seconds},
            rows,
            tuple(rows),
            by_query=account.by_query,
            skipped=totals.bad,
            notes=account.notes,
        )

    def _hear(self, running: _Running, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "stage" in message:
            try:
                self.records.stage(running.job.id, str(message["stage"]))
            except SQLAlchemyError:  # no reason to end the job
                log.exception("a job's stage could not be stored: %s", running.job.id)
        if "batch" in message:
            self._batch(running.job.id, message)
        if "progress" in message:
            done, known = message["progress"]
            running.progress = int(done), int(known)
        self.wake()

    def _settle(self, job: Job, folder: JobFolder, cancelled: bool, why: str) -> None:
        """Say how a job ended whose process is no more; `why` if it did not say so itself."""
        outcome = None if cancelled else folder.outcome()
        try:
            done = _done(job, outcome) if outcome else None
            why = why if outcome is None else str(outcome.get("reason"))
        except OSError as error:
            done, why = None, f"the results cannot be put in their place: {error.strerror}"
        if done is None:
            # Before it is said to be over: whoever hears that finds nothing half-written.
            if job.request.sink is not None:
                sweep_sink(job.request.sink, job.id)
            folder.drop_results()
        if cancelled:
            over = self._end(job.id, "cancelled", "cancelled while it ran")
        elif done is None:
            over = self._end(job.id, "failed", why)
        else:
            over = self._end(job.id, "succeeded", None, done)
        folder.clean()
        log.info("job over", extra={"job": job.id, "status": over.status, "reason": over.reason})
        self._ended(over)

    def _end(
        self, id: str, status: Status, reason: str | None, done: JobSummary | None = None
    ) -> Job:
        """Store how a job ended, as soon as the database takes it."""
        while True:
            try:
                return self.records.end(id, status, reason, done)
            except SQLAlchemyError:
                if self._stopping:  # the next service finds out from the job's folder
                    raise
                log.exception("a job's end could not be stored yet: %s", id)
                time.sleep(AGAIN)


def _done(job: Job, outcome: Mapping[str, Any]) -> JobSummary | None:
    """What a job that succeeded has done, with its files under their names; else None."""
    if outcome["status"] != "succeeded":
        return None
    return JobSummary(
        events=outcome["events"],
        seconds=outcome["seconds"],
        rows=outcome["rows"],
        kinds=tuple(outcome["kinds"]),
        files=show(outcome["files"], job.id),
        stopped=outcome.get("stopped", {}),
        dropped=outcome.get("dropped", {}),
        by_query=outcome.get("by_query", {}),
        skipped=outcome.get("skipped", 0),
        notes=tuple(outcome.get("notes", ())),
    )
