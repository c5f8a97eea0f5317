"""A job's process: started in a session of its own, and ended with all that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from api.jobs.folder import JobFolder
from api.jobs.memory import MemoryWatch

# -P: a folder `api` where the service was started must not take the place of ours.
COMMAND = (sys.executable, "-P", "-m", "api.jobs.worker")

# What a job has no business with, and what its programs could show in a list of processes.
SECRETS = ("SHEAF_TOKENS", "SHEAF_TOKEN_FILE", "SHEAF_STORE")


class JobProcess:
    """A process that works in a job's folder.

    It holds the reading end of a pipe, on which it notices that this process has ended in
    whatever way; through another it says how far it is, a line of JSON each. It is ended where it
    and all that it started hold more than `memory` bytes.
    """

    def __init__(
        self, folder: JobFolder, command: Sequence[str] = COMMAND, memory: int | None = None
    ) -> None:
        reading, writing = os.pipe()
        environment = {k: v for k, v in os.environ.items() if k not in SECRETS}
        with folder.log.open("ab") as log, os.fdopen(writing, "wb"):
            self._process = subprocess.Popen(
                [*command, str(folder.path), str(os.getpid()), str(writing)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**environment, "TMPDIR": str(folder.tmp)},
                pass_fds=[writing],
                start_new_session=True,
            )
        self._messages: IO[bytes] = os.fdopen(reading, "rb")
        pid = self._process.pid
        self._memory = (
            None if memory is None else MemoryWatch(lambda: [pid, *session(pid)], memory, self.kill)
        )

    def messages(self) -> Iterator[bytes]:
        """Lines that it sends, until it ends."""
        with self._messages:
            yield from self._messages

    def tell(self, message: Mapping[str, Any]) -> None:
        """Say something to it; nothing if it has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it, and all that it started, at once."""
        if self._process.returncode is None:  # its number may be another's by now
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, when nothing of its session is left."""
        pid = self._process.pid
        # Not reaped yet, so that its number stays its own while others of its session are sought.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if self._memory is not None:
            self._memory.close()
        end_session(pid)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return self._process.wait()

    def why(self, code: int) -> str:
        """What a person can do about its having ended with a code and no word."""
        if self._memory is not None and self._memory.excess is not None:
            return str(self._memory)
        return why_it_ended(code)


def end_session(leader: int, patience: float = 10) -> None:
    """Kill what is left of a session: Spark's Python workers leave their process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + patience
    while (left := session(leader)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def session(leader: int) -> list[int]:
    """The live processes of a session but for its leader; none where there is no /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name is in parentheses and may have any characters in it.
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            pid, state, sid = int(path.parent.name), fields[0], int(fields[3])
            if sid == leader and pid != leader and state not in "ZX":
                found.append(pid)
    return found


def why_it_ended(code: int) -> str:
    """What a person can do about a process that ended without saying why."""
    if code == -signal.SIGKILL:
        return (
            "the job's process was killed, as happens when the machine has no memory left; "
            "run fewer jobs at once, or over fewer events"
        )
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"the job's process was ended by {name}; its log says more"
    return f"the job's process ended with code {code} before it was done; its log says more"
