"""Planning that nobody waits for: tasks that say what they are at and can be cancelled.

They are kept in memory: a plan is there when it is stored, and a task that a restart of the service
ended is not found any more.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal as OneOf

from api.planning.process_pool import BusyError, CancelledError, CancelToken
from api.store import UnknownIdError
from workloads.errors import SheafError

Work = Callable[[CancelToken], str]
Status = OneOf["queued", "running", "succeeded", "failed", "cancelled"]
AT_ONCE = 2  # as many as there are processes to plan in
MAX_WAITING_TASKS = 100
MAX_OWNED_TASKS = 25  # that wait, of one owner who is named
MAX_KEPT_TASKS = 1000  # the latest ones


@dataclass
class Task:
    """A workload that is being planned; `plan` is the id of what came of it."""

    id: str
    workload: str
    version: int
    status: Status = "queued"
    stage: str = "waiting"
    reason: str | None = None
    plan: str | None = None
    owner: str | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: datetime | None = None
    finished: datetime | None = None
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def is_over(self) -> bool:
        return self.finished is not None


class Tasks:
    """The tasks of a service, some at a time; owners take turns, and theirs go in their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        # What waits, by owner; the one whose turn it is comes first.
        self._waiting: dict[str | None, deque[tuple[Task, Work]]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, "sheaf-planning")

    def begin(self, workload: str, version: int, work: Work, owner: str | None = None) -> Task:
        """Do the work, which gives a plan's id, as soon as it is its turn."""
        task = Task(f"task-{secrets.token_hex(6)}", workload, version, owner=owner)
        with self._lock:
            alive = [known.owner for known in self._tasks.values() if not known.is_over]
            if len(alive) >= MAX_WAITING_TASKS:
                raise BusyError(f"{len(alive)} workloads wait to be planned; try again later")
            if owner is not None and alive.count(owner) >= MAX_OWNED_TASKS:
                raise BusyError(
                    f"{alive.count(owner)} workloads of {owner} wait to be planned; try again later"
                )
            for id in [id for id, known in self._tasks.items() if known.is_over][:-MAX_KEPT_TASKS]:
                del self._tasks[id]
            self._tasks[task.id] = task
            self._waiting.setdefault(owner, deque()).append((task, work))
        self._pool.submit(self._do_next)
        return task

    def get(self, id: str) -> Task:
        with self._lock:
            if id not in self._tasks:
                raise UnknownIdError(f"there is no task '{id}', or it ended long ago")
            return self._tasks[id]

    def cancel(self, id: str) -> Task:
        """End it if it is not over; what it had stored by then stays."""
        task = self.get(id)
        task.cancelled.set()
        with self._lock:
            if task.status == "queued":
                self._end(task, "cancelled", "it was cancelled")
        return task

    def close(self) -> None:
        with self._lock:
            for task in self._tasks.values():
                task.cancelled.set()
        self._pool.shutdown(cancel_futures=True)

    def _do_next(self) -> None:
        """Do a task of the owner whose turn it is, who then waits for all others."""
        with self._lock:
            owner = next(iter(self._waiting))
            left = self._waiting.pop(owner)
            task, work = left.popleft()
            if left:
                self._waiting[owner] = left
        self._do(task, work)

    def _do(self, task: Task, work: Work) -> None:
        with self._lock:
            if task.is_over:
                return
            task.status, task.started = "running", datetime.now(UTC)

        def said(stage: str) -> None:
            task.stage = stage

        try:
            plan = work(CancelToken(said, task.cancelled))
        except CancelledError as error:
            outcome: tuple[Status, str | None] = ("cancelled", str(error))
        except SheafError as error:
            outcome = ("failed", str(error))
        except Exception as error:  # a bug must not leave a task that runs for ever
            outcome = ("failed", f"a bug of Sheaf's: {type(error).__name__}: {error}")
        else:
            task.plan = plan
            outcome = ("succeeded", None)
        with self._lock:
            self._end(task, *outcome)

    def _end(self, task: Task, status: Status, reason: str | None) -> None:
        task.reason, task.stage = reason, "over"
        task.status, task.finished = status, datetime.now(UTC)
