"""Where compiled kernels are kept: beside their source, or in a folder of the user's own.

Who may not write beside the source would compile all kernels anew in every process, or could not
run at all where there is no home folder either.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

SETTING = "NUMBA_CACHE_DIR"


def use_own_folder(source: Path = Path(__file__).parent) -> None:
    """Have numba keep what it compiles in a folder of the user's, unless it may write here."""
    if os.environ.get(SETTING) or _is_writable(source / "product" / "__pycache__"):
        return
    for folder in _folders():
        if _is_ours(folder):
            os.environ[SETTING] = str(folder)
            return


def load_without_compiler() -> None:
    """Have numba load what it compiled before without its tables of all that it could compile.

    These take twice as long to load as all kernels, and compiling something loads them itself.
    """
    from numba.core import caching
    from numba.core.runtime.nrt import rtsys

    def load_overload(cache: Any, signature: Any, context: Any) -> Any:
        rtsys.initialize(context)  # arrays are allocated by it
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, context)

    caching.Cache.load_overload = load_overload  # type: ignore[method-assign]


def _folders() -> Iterator[Path]:
    with suppress(RuntimeError):  # there may be no home
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        yield Path(cache, "sheaf", "kernels")
    yield Path(tempfile.gettempdir(), f"sheaf-kernels-{os.getuid()}")


def _is_writable(folder: Path) -> bool:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(there, os.W_OK)


def _is_ours(folder: Path) -> bool:
    """Whether only this user can write to the folder, which is made: what is in it is run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others
