"""A job as it happens: server-sent events, from the first or from where a reader left off.

Ids are `N` for the N-th thing that happened to the job, and `N.kind.M` for its rows up to the M-th
of a kind, which come after everything else. The rows of a stream come as its batches are completed:
ids are then `N.A.M`, with A aggregates and M matches sent. How far a job is has no id: it is only
of the moment.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import ServerSentEvent

from api.cli.terminal.values import rows
from api.http.views import job_out
from api.jobs.model import Job
from api.jobs.queue import Jobs
from api.jobs.result_files import read_rows
from api.jobs.rows import table_of
from api.store import UnknownIdError

ROWS_PER_MESSAGE = 1000  # in one event
EVENT_PAUSE_SECONDS = 0.05  # seconds between looks at whether there is news
ROW_POLL_SECONDS = (
    0.5  # seconds between looks for rows of a stream: a batch says it is done a bit too soon
)

ROW_KINDS = ("aggregates", "matches")


@dataclass(frozen=True)
class StreamCursor:
    """What a reader has seen: events up to a number, and rows of a kind up to another.

    Of a stream, `live` rows of each kind.
    """

    event: int = 0
    kind: str = ROW_KINDS[0]
    row: int = 0
    live: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, id: str | None) -> StreamCursor:
        """The place that an id names; the beginning where it names none of ours."""
        if found := re.fullmatch(r"(\d{1,9})\.(\d{1,15})\.(\d{1,15})", id or ""):
            return cls(int(found[1]), live=(int(found[2]), int(found[3])))
        if found := re.fullmatch(r"(\d{1,9})(?:\.(aggregates|matches)\.(\d{1,15}))?", id or ""):
            return cls(int(found[1]), found[2] or ROW_KINDS[0], int(found[3] or 0))
        return cls()


async def follow(
    jobs: Jobs, id: str, last: str | None, with_rows: bool, closing: Callable[[], bool]
) -> AsyncIterator[ServerSentEvent]:
    """Events of a job until it is over and all of its rows are said, or the service stops."""
    place = StreamCursor.of(last)
    live = _Live(jobs, place) if with_rows else None
    seen, news, progress, looked = place.event, -1, None, time.monotonic()
    over: Job | None = None
    while over is None and not closing():
        is_due = (
            live is not None and live.is_stream and time.monotonic() - looked > ROW_POLL_SECONDS
        )
        if jobs.news == news and not is_due:
            await asyncio.sleep(EVENT_PAUSE_SECONDS)
            continue
        news, looked = jobs.news, time.monotonic()
        try:
            job = await run_in_threadpool(jobs.records.get, id)
        except UnknownIdError:  # dropped in the meantime
            return
        if live is not None:
            live.is_stream = job.request.live is not None
        for event in await run_in_threadpool(jobs.records.events, id, seen):
            seen = event.number
            data = {**event.data, "time": event.time.isoformat()}
            yield sent("status", data, live.id(seen) if live is not None else str(seen))
        said = await run_in_threadpool(_progress, jobs, job)
        if said is not None and said != progress:
            progress = said
            yield sent("progress", said)
        over = job if job.is_over else None
        while live is not None and (found := await run_in_threadpool(live.next, job, seen)):
            yield found
    if over is None:
        return
    if with_rows and over.done is not None and over.request.live is None:
        for piece in _rows(jobs, over, place, seen):
            yield await run_in_threadpool(piece)
    account = await run_in_threadpool(jobs.account, over)
    yield sent("end", job_out(over, None, account).model_dump(mode="json"))


def _progress(jobs: Jobs, job: Job) -> dict[str, Any] | None:
    """How far a job is: parts of it, or what a stream has done."""
    account = jobs.account(job)
    if account is not None:
        out = job_out(job, None, account).stream
        return None if out is None or out.batch is None else out.model_dump(mode="json")
    now = jobs.progress(job)
    return None if now is None else {"done": now[0], "known": now[1]}


class _Live:
    """Goes through the rows of a stream as they come."""

    def __init__(self, jobs: Jobs, place: StreamCursor) -> None:
        self._jobs = jobs
        self._sent = dict(zip(ROW_KINDS, place.live, strict=True))
        self.is_stream = False

    def id(self, event: int) -> str:
        """Where a reader is who has had all that was sent."""
        if not self.is_stream:
            return str(event)
        return ".".join(map(str, (event, *self._sent.values())))

    def next(self, job: Job, event: int) -> ServerSentEvent | None:
        """An event with rows; None if there are no more just now, or the job is no stream."""
        found = self._jobs.rows(job) if self.is_stream else None
        if found is None:
            return None
        for kind in ROW_KINDS:
            first = self._sent[kind]
            stop = min(first + ROWS_PER_MESSAGE, found.total(kind))
            if first < stop:
                piece = rows(table_of(found, kind, None, first, stop), 0, stop - first)
                self._sent[kind] = stop
                return sent(kind, {"offset": first, "rows": piece}, self.id(event))
        return None


def _rows(
    jobs: Jobs, job: Job, place: StreamCursor, seen: int
) -> Iterator[Callable[[], ServerSentEvent]]:
    """What gives each event with rows that the reader has not seen."""
    assert job.done is not None
    for kind in ROW_KINDS[ROW_KINDS.index(place.kind) :]:
        start = place.row if kind == place.kind else 0
        total, path = job.done.total(kind), jobs.folder(job.id).rows(kind)
        for first in range(start, total, ROWS_PER_MESSAGE):
            stop = min(first + ROWS_PER_MESSAGE, total)

            def piece(
                kind: str = kind, first: int = first, stop: int = stop, path: Any = path
            ) -> ServerSentEvent:
                found = rows(read_rows(path, first, stop), 0, stop - first)
                return sent(kind, {"offset": first, "rows": found}, f"{seen}.{kind}.{stop}")

            yield piece


def sent(event: str, data: Any, id: str | None = None) -> ServerSentEvent:
    """An event with JSON that is written here: a thousand rows need no looking through."""
    return ServerSentEvent(raw_data=json.dumps(data, separators=(",", ":")), event=event, id=id)
