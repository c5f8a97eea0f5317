"""What makes a command start sooner, and take less memory."""

from __future__ import annotations

import gc
import os
import sys

# New objects between two looks for unreachable ones; importing makes many that stay.
COLLECT_AFTER = 50_000


def collect_seldom() -> None:
    """Look for unreachable objects less often than a program does that keeps few."""
    gc.set_threshold(COLLECT_AFTER, 20, 20)


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
