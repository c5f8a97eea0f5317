"""A job as it happens: server-sent events, from the first or from where a reader left off.

Ids are `N` for the N-th thing that happened to the job, and `N.kind.M` for its rows up to the M-th
of a kind, which come after everything else. How far a job is has no id: it is only of the moment.
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

from api.jobs.model import Job
from api.jobs.queue import Jobs
from api.result_files import read_rows
from api.rows import rows
from api.store import UnknownIdError
from api.views import job_out

ROWS = 1000  # in one event
PAUSE = 0.05  # seconds between looks at whether there is news
QUIET = 15.0  # seconds after which a remark keeps the connection open

KINDS = ("aggregates", "matches")


@dataclass(frozen=True)
class Place:
    """What a reader has seen: events up to a number, and rows of a kind up to another."""

    event: int = 0
    kind: str = KINDS[0]
    row: int = 0

    @classmethod
    def of(cls, id: str | None) -> Place:
        """The place that an id names; the beginning where it names none of ours."""
        if found := re.fullmatch(r"(\d{1,9})(?:\.(aggregates|matches)\.(\d{1,15}))?", id or ""):
            return cls(int(found[1]), found[2] or KINDS[0], int(found[3] or 0))
        return cls()


async def follow(
    jobs: Jobs, id: str, last: str | None, with_rows: bool, closing: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Events of a job until it is over and all of its rows are said, or the service stops."""
    place = Place.of(last)
    seen, news, progress, spoke = place.event, -1, None, time.monotonic()
    over: Job | None = None
    while over is None and not closing():
        if jobs.news == news:
            if time.monotonic() - spoke > QUIET:
                spoke = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(PAUSE)
            continue
        news = jobs.news
        try:
            job = await run_in_threadpool(jobs.records.get, id)
        except UnknownIdError:  # dropped in the meantime
            return
        for event in await run_in_threadpool(jobs.records.events, id, seen):
            seen = event.number
            data = {**event.data, "time": event.time.isoformat()}
            spoke = time.monotonic()
            yield sent("status", data, str(seen))
        now = jobs.progress(job)
        if now is not None and now != progress:
            progress = now
            yield sent("progress", {"done": now[0], "known": now[1]})
        over = job if job.is_over else None
    if over is None:
        return
    if with_rows and over.done is not None:
        for piece in _rows(jobs, over, place, seen):
            yield await run_in_threadpool(piece)
    yield sent("end", job_out(over, None).model_dump(mode="json"))


def _rows(jobs: Jobs, job: Job, place: Place, seen: int) -> Iterator[Callable[[], bytes]]:
    """What gives each event with rows that the reader has not seen."""
    assert job.done is not None
    for kind in KINDS[KINDS.index(place.kind) :]:
        start = place.row if kind == place.kind else 0
        total, path = job.done.total(kind), jobs.folder(job.id).rows(kind)
        for first in range(start, total, ROWS):
            stop = min(first + ROWS, total)

            def piece(
                kind: str = kind, first: int = first, stop: int = stop, path: Any = path
            ) -> bytes:
                found = rows(read_rows(path, first, stop), 0, stop - first)
                return sent(kind, {"offset": first, "rows": found}, f"{seen}.{kind}.{stop}")

            yield piece


def sent(event: str, data: Any, id: str | None = None) -> bytes:
    """An event as it goes over the wire; JSON has no line breaks in it."""
    lines = [f"event: {event}", f"data: {json.dumps(data, separators=(',', ':'))}"]
    return "\n".join([*([f"id: {id}"] if id else []), *lines, "", ""]).encode()
