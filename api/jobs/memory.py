"""What a job's processes hold in memory, and their end where that is more than they may."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MEMORY_POLL_SECONDS = 0.5  # seconds between looks
_PAGE = os.sysconf("SC_PAGE_SIZE")


def held(process: int) -> int:
    """Bytes that a process holds and shares with no other; 0 for one that is not there."""
    with suppress(OSError, IndexError, ValueError):
        resident, shared = Path(f"/proc/{process}/statm").read_text().split()[1:3]
        return (int(resident) - int(shared)) * _PAGE
    return 0


class MemoryWatch:
    """Looks now and then, and calls once when the processes hold more than they may together."""

    def __init__(
        self, processes: Callable[[], list[int]], most: int, too_much: Callable[[], None]
    ) -> None:
        self._processes, self._most, self._too_much = processes, most, too_much
        self._over = threading.Event()
        self.excess: int | None = None  # bytes that were held when it was too much
        self._thread = threading.Thread(target=self._look, name="sheaf-memory", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(MEMORY_POLL_SECONDS):
            now = sum(map(held, self._processes()))
            if now > self._most:
                self.excess = now
                self._too_much()
                return

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def __str__(self) -> str:
        return (
            f"the job held {(self.excess or 0) / 1e9:.1f} GB of memory, and may hold "
            f"{self._most / 1e9:.1f} GB (SHEAF_JOB_MEMORY); give it more, or let it run over fewer "
            "events, with shorter windows, or with a limit on partial matches"
        )
