"""Work that may take long, in processes that can be ended: to check and plan large workloads."""

from __future__ import annotations

import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from api.jobs.process import SECRETS
from api.planning.progress import listen
from workloads.errors import SheafError

T = TypeVar("T")

INLINE_BYTES = 5_000  # bytes of a document that is worked on at once, in this process
DEFAULT_MEMORY = 2_000_000_000  # bytes that a process may hold
CANCEL_POLL_SECONDS = 0.2  # seconds between looks at whether anybody still wants the answer


class TooLongError(SheafError):
    """The work took longer than it may."""


class TooMuchMemoryError(SheafError):
    """The work took more memory than it may."""


class BusyError(SheafError):
    """All processes are at work, and stayed so."""


class CancelledError(SheafError):
    """Somebody did not want the work any more."""


@dataclass(frozen=True)
class CancelToken:
    """Who hears what the work is at, and may end it."""

    said: Callable[[str], None] = lambda stage: None
    cancelled: threading.Event = field(default_factory=threading.Event)


class ProcessPool:
    """Some processes, started when they are first needed, each of which does a call at a time.

    One that takes longer for a call than its `seconds`, or more `memory` in bytes, is ended, and
    another takes its place.
    """

    def __init__(self, seconds: float, processes: int = 2, memory: int = DEFAULT_MEMORY) -> None:
        self._seconds, self._memory = seconds, memory
        self._idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(processes):
            self._idle.put(None)
        self._lock = threading.Lock()
        self._all: set[_Process] = set()
        self._closed = False
        self._has_begun = False

    def call(
        self, work: Callable[..., T], *arguments: Any, watched: CancelToken | None = None
    ) -> T:
        """What the function gives, or raises; it is ended when it takes more than it may."""
        try:
            process = self._idle.get(timeout=self._seconds)
        except queue.Empty:
            raise BusyError("other workloads are being planned; try again later") from None
        watched = watched or CancelToken()
        try:
            if process is None or not process.is_alive:
                process = self._started()
            answer = process.ask((work, arguments), self._seconds, self._memory, watched)
            if answer is None:
                too_large = process.memory > self._memory
                self._end(process)
                process = None
                if watched.cancelled.is_set():
                    raise CancelledError("it was cancelled")
                if too_large:
                    raise TooMuchMemoryError(
                        f"it took more memory than {self._memory / 1e6:,.0f} MB "
                        "(SHEAF_PLANNING_MEMORY); take the greedy solver, or fewer queries"
                    )
                raise TooLongError(
                    f"it took longer than {self._seconds:g} s (SHEAF_PLANNING_SECONDS); take the "
                    "greedy solver, or fewer queries"
                )
        finally:
            self._idle.put(process)
        good, value = answer
        if not good:
            raise value
        return value  # type: ignore[no-any-return]

    @property
    def is_warm(self) -> bool:
        """Whether a process has been started, and imported what it needs."""
        with self._lock:
            return any(process.is_ready for process in self._all)

    @property
    def has_begun(self) -> bool:
        """Whether a process has ever been started: from then on work is done in processes.

        Also where all of them have been ended since, as one that takes too long is.
        """
        return self._has_begun

    def warm(self) -> None:
        """Start a process, so that the first call need not wait for that; returns at once."""
        threading.Thread(target=self._warm, name="sheaf-warm", daemon=True).start()

    def _warm(self) -> None:
        with suppress(SheafError):  # the service may have come to its end
            self.call(int)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            left = list(self._all)
        for process in left:
            self._end(process)

    def _started(self) -> _Process:
        with self._lock:
            if self._closed:
                raise BusyError("the service is stopping")
            process = _Process()
            self._has_begun = True
            self._all.add(process)
        return process

    def _end(self, process: _Process) -> None:
        process.end()
        with self._lock:
            self._all.discard(process)


class _Process:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {k: v for k, v in os.environ.items() if k not in SECRETS}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "api.planning.process_pool", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt on the terminal is the service's to handle
            )
        self._pipe = Connection(ours.detach())
        self.is_ready = False

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def memory(self) -> int:
        """Bytes that it holds; 0 where the system does not say."""
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()
        except OSError:
            return 0
        return int(pages[1]) * os.sysconf("SC_PAGE_SIZE")

    def ask(
        self, work: Any, seconds: float, memory: int, watched: CancelToken
    ) -> tuple[bool, Any] | None:
        """Whether it went well, and the answer; None if it takes more time or memory than this."""
        try:
            if not self.is_ready:
                self._pipe.recv_bytes()  # it has imported what it needs
                self.is_ready = True
            self._pipe.send_bytes(pickle.dumps(work))
            end = time.monotonic() + seconds
            while time.monotonic() < end and not watched.cancelled.is_set():
                if self.memory > memory:
                    return None
                if self._pipe.poll(CANCEL_POLL_SECONDS):
                    good, value = pickle.loads(self._pipe.recv_bytes())
                    if good is not None:
                        return good, value
                    watched.said(value)
            return None
        except (EOFError, OSError) as error:
            raise SheafError(
                "the process that plans has ended, as happens when the machine has no memory left; "
                "try again with fewer queries"
            ) from error

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        if self._process.stdin is not None:
            self._process.stdin.close()


def main(descriptor: int) -> None:
    """Answer calls until there is nobody to answer."""
    import api.planning.service  # noqa: F401  what all calls need
    from api.jobs.worker import end_when_alone

    end_when_alone()
    os.set_inheritable(descriptor, False)
    pipe = Connection(descriptor)
    listen(lambda stage: pipe.send_bytes(pickle.dumps((None, stage))))
    with suppress(EOFError, OSError):
        pipe.send_bytes(b"ready")
        while True:
            work, arguments = pickle.loads(pipe.recv_bytes())
            pipe.send_bytes(_answer(work, arguments))


def _answer(work: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps((True, work(*arguments)))
    except Exception as error:
        try:
            pickled = pickle.dumps((False, error))
            pickle.loads(pickled)  # some errors can be told only one way
        except Exception:
            kind = SheafError if isinstance(error, SheafError) else RuntimeError
            pickled = pickle.dumps((False, kind(f"{type(error).__name__}: {error}")))
        return pickled


if __name__ == "__main__":
    main(int(sys.argv[1]))
