"""One service a data folder: a second one would take the first one's jobs for dead."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from workloads.errors import SheafError


class InUseError(SheafError):
    """Another service keeps its things in the folder."""


class DataLock:
    """Held from its making to `release`, or to the end of the process, however that comes."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "lock").open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip()
            self._file.close()
            raise InUseError(
                f"another service keeps its things in {folder}"
                + (f" (process {holder})" if holder else "")
                + "; name its address with --server, or another folder with --data or SHEAF_DATA"
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        self._file.close()
