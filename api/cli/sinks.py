"""Where results may be written to, checked before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path

from workloads.errors import SheafError

ENDINGS = (".parquet", ".arrow", ".csv", ".jsonl")


def check_sink(path: str | Path) -> None:
    """Refuse a path that results could not be written to."""
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise SheafError(
            f"results are written to {', '.join(ENDINGS)}, by the ending, not to '{target.name}'"
        )
    if not target.parent.is_dir():
        raise SheafError(f"there is no folder '{target.parent}' to write results to")
    if os.statvfs(target.parent).f_flag & os.ST_RDONLY:
        raise SheafError(
            f"'{target}' cannot be written: its folder is on a read-only file system; choose "
            "another, or mount it for writing"
        )
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise SheafError(
            f"'{target}' cannot be written: permission denied for its folder; choose another, or "
            "allow the user who runs this to write there"
        )
