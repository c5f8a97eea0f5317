"""One temporary folder per process, removed at exit or, if it is killed, by a later process."""

import atexit
import contextlib
import fcntl
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

PREFIX = "sheaf-"
LOCK = "lock"


@functools.cache
def scratch_folder(before_removal: Callable[[], None]) -> Path:
    """The process's folder; at exit, `before_removal` is called and the folder removed."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # Locked before it gets its name, so that no other process ever sees it unlocked while we live;
    # the file stays open, and the lock with it, until the process ends in whatever way.
    draft = folder / "draft"
    lock = draft.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    draft.rename(folder / LOCK)

    def remove() -> None:
        before_removal()
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()

    atexit.register(remove)
    return folder


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that ended without doing so."""
    for path in parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError), path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
