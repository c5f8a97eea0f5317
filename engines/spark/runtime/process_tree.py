"""The processes below a process, and their end; nothing is found where there is no /proc."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

KILL_POLL_SECONDS = 0.01


def descendants(parent: int) -> list[int]:
    """Live processes that a process started, and those that these started."""
    children: dict[int, list[int]] = {}
    ended: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name is in parentheses and may have any characters in it.
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            pid = int(path.parent.name)
            children.setdefault(int(fields[1]), []).append(pid)
            if fields[0] in "ZX":
                ended.add(pid)
    found: list[int] = []
    left = [parent]
    while left:
        below = children.get(left.pop(), [])
        found += [pid for pid in below if pid not in ended]
        left += below
    return found


def kill_tree(pid: int) -> None:
    """Kill a process and all below it."""
    for each in (pid, *descendants(pid)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def kill_descendants(seconds: float = 5.0) -> None:
    """Kill all processes below this one, and wait until none is left, at most so long."""
    end = time.monotonic() + seconds
    while (left := descendants(os.getpid())) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(KILL_POLL_SECONDS)
