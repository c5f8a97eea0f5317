"""What both clients do with jobs and results once they have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from typing import Literal as OneOf

import pyarrow as pa

from api.client.errors import ClientError, JobError
from api.http.row_schemas import ResultsOut
from api.http.schemas import JobOut

Kind = OneOf["aggregates", "matches"]
Order = OneOf["asc", "desc"]
Sort = OneOf["place", "time", "value"]
FORMATS = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}
READ_TIMEOUT_SECONDS = 60.0  # seconds of silence after which a stream is taken for broken


def is_over(job: JobOut) -> bool:
    return job.status in ("succeeded", "failed", "cancelled")


def succeeded(job: JobOut) -> JobOut:
    """The job; an error with its reason if it has not succeeded."""
    if job.status != "succeeded":
        raise JobError(f"{job.id} {job.status}: {job.reason or 'no reason given'}")
    return job


def page_of(found: ResultsOut, kind: Kind) -> list[Mapping[str, Any]]:
    """The rows of a kind in a page, as plain values."""
    rows = found.aggregates if kind == "aggregates" else found.matches
    return [row.model_dump() for row in rows]


def from_arrow(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def format_of(path: Path) -> str:
    if path.suffix not in FORMATS:
        raise ClientError(f"'{path}': results are written to {', '.join(FORMATS)} files")
    return FORMATS[path.suffix]


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that has its name only when it is complete."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
