"""Where results may be written to, checked before anything is computed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from api.run_settings import ENDINGS
from workloads.errors import SheafError

if TYPE_CHECKING:
    from engines.execution import RunReport
    from engines.input.event_paths import EventPath


def check_sink(path: str | Path) -> None:
    """Refuse a path that results could not be written to."""
    from engines.results.lake_place import lake_place

    if (place := lake_place(str(path))) is not None:
        place.check()
        return
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise SheafError(
            f"results are written to {', '.join(ENDINGS)}, by the ending, or to a table in a "
            f"folder, as delta:PATH or iceberg:PATH, not to '{target.name}'"
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


def is_source(sink: str, source: EventPath) -> bool:
    """Whether results would be written over the file or folder that their events come from."""
    from engines.input.event_paths import each_path
    from engines.results.lake_place import lake_place

    place = lake_place(sink)
    sink = sink if place is None else place.folder
    return Path(sink).resolve() in {Path(path).resolve() for path in each_path(source)}


def check_webhook(address: str, out: str | None, match: str, is_live: bool) -> None:
    """Refuse an address that is none, and rows that are not there to be posted."""
    from api.jobs.webhook import check_address

    check_address(address)
    from engines.results.lake_place import lake_place

    is_table = lake_place(out or "") is not None
    if match == "struct" or is_table or not (is_live or _is_parquet(out or "")):
        raise SheafError(
            "--webhook posts rows of --out PATH.parquet (with Spark also of a folder, PATH/), with "
            "--match text"
        )


def _is_parquet(out: str) -> bool:
    """Are rows written as Parquet, in a file or in a folder of files?"""
    name = out.rstrip("/")
    return name.endswith(".parquet") or (name != out and not name.endswith(ENDINGS))


def post_rows(address: str, plan: str, report: RunReport) -> None:
    """Post the rows that a run has written; those of the same plan have the same ids again."""
    from api.jobs.webhook import Webhook

    began = time.perf_counter()
    written = map(Path, report.files)
    files = (f for p in written for f in (sorted(p.rglob("*.parquet")) if p.is_dir() else [p]))
    Webhook(address, plan).deliver(files)
    report.seconds["post"] = round(time.perf_counter() - began, 4)


def batch_post(address: str, out: str, checkpoint: str) -> Callable[[int], int]:
    """What posts the rows of a stream's batch, which may take as long as it likes.

    A stream goes on under its checkpoint, so a batch that is done again has the same ids.
    """
    from api.jobs.webhook import Webhook
    from engines.spark.stream.sink import files_of

    webhook = Webhook(address, str(Path(checkpoint).resolve()), tries=None)
    return lambda batch: webhook.deliver(files_of(Path(out), batch), str(batch))
