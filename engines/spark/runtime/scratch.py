"""One temporary folder per process, removed at exit or, if it is killed, by a later process."""

import atexit
import contextlib
import fcntl
import functools
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO

PREFIX = "sheaf-"
LOCK = "lock"


@functools.cache
def scratch_folder(before_removal: Callable[[], None]) -> Path:
    """The process's folder; at exit, `before_removal` is called and the folder removed."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.gettempdir(), f"{PREFIX}{uuid.uuid4().hex[:12]}")
    locks: list[IO[str]] = []

    def remove() -> None:
        before_removal()
        shutil.rmtree(folder, ignore_errors=True)
        for lock in locks:
            lock.close()

    atexit.register(remove)  # before it is there, for this process may be interrupted
    folder.mkdir(mode=0o700)
    # Locked before it gets its name, so that no other process ever sees it unlocked while we live;
    # the file stays open, and the lock with it, until the process ends in whatever way.
    draft = folder / "draft"
    locks.append(draft.open("w"))
    fcntl.flock(locks[0], fcntl.LOCK_EX)
    draft.rename(folder / LOCK)
    return folder


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that ended without doing so."""
    for path in parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError), path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
