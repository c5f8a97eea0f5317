"""What a job is to do, where it stands, and what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from typing import Literal as OneOf

from api.run_settings import DEFAULT, RunSettings
from engines.input.event_paths import EventPath, shown_path

Status = OneOf["queued", "running", "succeeded", "failed", "cancelled"]
Engine = OneOf["spark", "local"]
Device = OneOf["auto", "cpu", "opencl"]
RowKind = OneOf["aggregates", "matches"]
Mode = OneOf["batch", "stream"]

OVER = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class LiveJobOptions:
    """How a stream runs; `checkpoint` and the sink are in the job's folder unless named."""

    checkpoint: str | None = None
    every: float | None = None
    buckets: int | None = None
    files: int | None = None
    like: EventPath | None = None
    once: bool = False
    finish: bool = False
    light: bool = False


@dataclass(frozen=True)
class Request:
    """What a job is to do: run a plan over the events at `source`; `live` if they keep coming."""

    plan: str
    workload: str
    version: int
    source: EventPath
    sink: str | None = None
    engine: Engine = "spark"
    device: Device = "auto"
    master: str = "local[*]"
    live: LiveJobOptions | None = None
    options: RunSettings = DEFAULT
    name: str | None = None  # of the workload
    webhook: str | None = None  # an address that rows are posted to

    @property
    def mode(self) -> Mode:
        return "batch" if self.live is None else "stream"

    @property
    def source_text(self) -> str:
        """Where its events are, for people."""
        return shown_path(self.source)


@dataclass(frozen=True)
class JobSummary:
    """What a job has done; `rows` are numbers of rows by kind and query, in the files' order.

    `by_query` has all queries, also those without rows. `notes` say what is odd about the events.
    """

    events: int
    seconds: Mapping[str, float]
    rows: Mapping[str, Mapping[str, int]]
    kinds: tuple[str, ...]
    files: tuple[str, ...] = ()
    stopped: Mapping[str, str] = field(default_factory=dict)  # at a limit, by query; and why
    dropped: Mapping[str, int] = field(default_factory=dict)  # partial matches, by query
    by_query: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0  # rows that were no events
    notes: tuple[str, ...] = ()

    def total(self, kind: str) -> int:
        return sum(self.rows[kind].values())


@dataclass(frozen=True)
class Job:
    """A job's state at one moment; `position` is its place in the queue, from 1."""

    number: int
    id: str
    request: Request
    status: Status
    created: datetime
    stage: str
    reason: str | None = None
    started: datetime | None = None
    finished: datetime | None = None
    done: JobSummary | None = None
    position: int | None = None
    restarts: int = 0  # of a stream

    @property
    def is_over(self) -> bool:
        return self.status in OVER


@dataclass(frozen=True)
class Event:
    """Something that happened to a job; numbers count from 1 in each job."""

    number: int
    time: datetime
    data: Mapping[str, Any]
