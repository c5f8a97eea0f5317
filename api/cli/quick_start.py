"""What makes a command start and end sooner, and take less memory."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

# New objects between two looks for unreachable ones; importing makes many that stay.
COLLECT_AFTER = 50_000


def collect_seldom() -> None:
    """Look for unreachable objects less often than a program does that keeps few."""
    gc.set_threshold(COLLECT_AFTER, 20, 20)


def leave(code: int) -> None:
    """End the process once threads, exit functions and written texts are done with.

    Taking apart a million objects that the system takes back at once is a fifth of a small run.
    Where a text cannot be written, this returns, and Python says so as it ends.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def share_one_allocator() -> None:
    """Have Arrow take memory from where numpy does: what one lets go of, the other can use.

    It is asked for when pyarrow is loaded. Whoever has set it otherwise is followed.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def leave_out_pandas() -> None:
    """Have pyarrow do without pandas in this process, which it would load to ask if arrays are its.

    That takes longer than a small run. Not for Spark, whose functions are given what is of pandas.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas)
    try:
        pa.chunked_array([[0]]).to_numpy()  # looks once, and remembers
    finally:
        sys.meta_path.remove(_WithoutPandas)


class _WithoutPandas:
    """Finds that there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
