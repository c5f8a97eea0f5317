"""Where results may be written to, checked before anything is computed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.errors import SheafError

if TYPE_CHECKING:
    from engines.execution import RunReport

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


def check_webhook(address: str, out: str | None, match: str) -> None:
    """Refuse an address that is none, and rows that are not there to be posted."""
    from api.jobs.webhook import check_address

    check_address(address)
    if out is None or not out.endswith(".parquet") or match == "struct":
        raise SheafError("--webhook posts rows of --out PATH.parquet, with --match text")


def post_rows(address: str, plan: str, report: RunReport) -> None:
    """Post the rows that a run has written; those of the same plan have the same ids again."""
    from api.jobs.webhook import Webhook

    began = time.perf_counter()
    Webhook(address, plan).deliver(map(Path, report.files))
    report.seconds["post"] = round(time.perf_counter() - began, 4)
