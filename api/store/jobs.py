"""Jobs as they are kept: every change is one transaction, with what it tells those who follow."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from api.jobs.model import OVER, Event, Job, JobSummary, LiveJobOptions, Mode, Request, Status
from api.run_settings import RunSettings
from api.store.database import Database
from api.store.schema import EventRow, JobRow, KeyRow
from api.store.workloads import Page, UnknownIdError, behind
from workloads.errors import SheafError


class QueueFullError(SheafError):
    """As many jobs wait as may."""


class JobOverError(SheafError):
    """Something was asked of a job that is over."""


class JobRecords:
    """All jobs there have been, but for those that were dropped."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, request: Request, max_queued: int, key: str | None = None) -> Job:
        """Put a job at the end of the queue; an idempotency `key` knows of it from then on."""
        with self._database.write() as session:
            job = self._add(session, request, max_queued)
            if key is not None:
                made = update(KeyRow).where(KeyRow.key == key)
                session.execute(made.values(made=f"/v1/jobs/{job.id}"))
            return job

    def _add(self, session: Session, request: Request, max_queued: int) -> Job:
        waiting = session.scalar(
            select(func.count()).select_from(JobRow).where(JobRow.status == "queued")
        )
        if (waiting or 0) >= max_queued:
            raise QueueFullError(f"{waiting:,} jobs are waiting already; try again later")
        # A number to read in order, and chance so that no two services use the same id.
        token = secrets.token_hex(4)
        row = JobRow(
            id=token,
            plan=request.plan,
            request=asdict(request),
            status="queued",
            stage="waiting",
            created=_now(),
        )
        session.add(row)
        session.flush()
        row.id = f"job-{row.number}-{token}"
        session.add(EventRow(job=row.id, number=1, time=row.created, data=_told(row)))
        session.flush()
        return _job(row, (waiting or 0) + 1)

    def get(self, id: str) -> Job:
        with self._database.read() as session:
            row = _row(session, id)
            return _job(row, _position(session, row))

    def page(
        self,
        limit: int = 100,
        after: str | None = None,
        status: Status | None = None,
        newest: bool = False,
    ) -> Page[Job]:
        """Jobs in the order they came, or `newest` first."""
        wanted = behind(select(JobRow), JobRow.number, after, newest)
        if status is not None:
            wanted = wanted.where(JobRow.status == status)
        with self._database.read() as session:
            rows = session.scalars(wanted.limit(limit + 1)).all()
            found = _with_positions(session, rows[:limit])
        more = len(rows) > limit and limit > 0
        return Page(found, str(rows[limit - 1].number) if more else None)

    def with_status(self, status: Status) -> list[Job]:
        wanted = select(JobRow).where(JobRow.status == status).order_by(JobRow.number)
        with self._database.read() as session:
            return [_job(row) for row in session.scalars(wanted)]

    def answers(self) -> bool:
        """Whether the database is there."""
        return self._database.answers()

    def counts(self) -> dict[str, int]:
        """How many jobs there are of each status."""
        wanted = select(JobRow.status, func.count()).group_by(JobRow.status)
        with self._database.read() as session:
            return {row[0]: row[1] for row in session.execute(wanted)}

    def claim(self, modes: Sequence[Mode] = ("batch", "stream")) -> Job | None:
        """The first job of one of these modes in the queue, which runs from now on."""
        wanted = (
            select(JobRow)
            .where(JobRow.status == "queued")
            .order_by(JobRow.number)
            .with_for_update()
        )
        with self._database.write() as session:
            rows = session.scalars(wanted)
            row = next((row for row in rows if _request(row).mode in modes), None)
            if row is None:
                return None
            row.status, row.stage, row.started = "running", "starting", _now()
            _tell(session, row)
            return _job(row)

    def put_back(self, id: str) -> None:
        """Let a job wait again that was claimed and never begun."""
        with self._database.write() as session:
            row = _row(session, id)
            row.status, row.stage, row.started = "queued", "waiting", None
            _tell(session, row)

    def stage(self, id: str, stage: str) -> None:
        """Say what a running job is at; nothing for one that is being cancelled, or is over."""
        with self._database.write() as session:
            row = _row(session, id)
            if row.status == "running" and row.stage not in ("cancelling", stage):
                row.stage = stage
                _tell(session, row)

    def restarting(self, id: str, why: str, pause: float) -> None:
        """Say that a stream has ended, why, and that it will be started again."""
        with self._database.write() as session:
            row = _row(session, id)
            if row.status == "running" and row.stage != "cancelling":
                row.stage = "restarting"
                row.restarts = (row.restarts or 0) + 1
                _tell(session, row, {"reason": why, "again_in": pause})

    def change_plan(
        self, id: str, plan: str, workload: str, version: int, said: Mapping[str, Any]
    ) -> Job:
        """Have a job run another plan from now on; those who follow it hear what that means."""
        with self._database.write() as session:
            row = _row(session, id)
            if row.status in OVER or row.stage == "cancelling":
                raise JobOverError(f"the job {id} is over, or about to be")
            row.plan = plan
            row.request = {**row.request, "plan": plan, "workload": workload, "version": version}
            _tell(session, row, {"plan": plan, "version": version, **said})
            return _job(row)

    def cancel(self, id: str) -> Job:
        """Cancel a job that waits, or say that a running one is to end; others stay as they are."""
        with self._database.write() as session:
            row = _row(session, id)
            if row.status == "queued":
                row.status, row.stage, row.finished = "cancelled", "over", _now()
                row.reason = "cancelled while it waited"
                _tell(session, row)
            elif row.status == "running" and row.stage != "cancelling":
                row.stage = "cancelling"
                _tell(session, row)
            return _job(row)

    def end(
        self, id: str, status: Status, reason: str | None, done: JobSummary | None = None
    ) -> Job:
        """Say how a job ended."""
        with self._database.write() as session:
            row = _row(session, id)
            row.status, row.stage, row.finished, row.reason = status, "over", _now(), reason
            row.done = asdict(done) if done is not None else None
            _tell(session, row)
            return _job(row)

    def forget(self, id: str) -> bool:
        """Drop a job that is over; False if it is not."""
        with self._database.write() as session:
            row = _row(session, id)
            if row.status not in OVER:
                return False
            session.execute(delete(EventRow).where(EventRow.job == id))
            session.delete(row)
            return True

    def events(self, id: str, after: int = 0) -> list[Event]:
        """What happened to a job since the event of that number."""
        wanted = (
            select(EventRow)
            .where(EventRow.job == id, EventRow.number > after)
            .order_by(EventRow.number)
        )
        with self._database.read() as session:
            return [Event(row.number, row.time, row.data) for row in session.scalars(wanted)]


def _row(session: Session, id: str) -> JobRow:
    row = session.scalar(select(JobRow).where(JobRow.id == id))
    if row is None:
        raise UnknownIdError(f"there is no job '{id}'")
    return row


def _tell(session: Session, row: JobRow, more: Mapping[str, Any] | None = None) -> None:
    last = select(func.max(EventRow.number)).where(EventRow.job == row.id)
    number = (session.scalar(last) or 0) + 1
    session.add(
        EventRow(job=row.id, number=number, time=_now(), data={**_told(row), **(more or {})})
    )


def _told(row: JobRow) -> dict[str, Any]:
    return {"status": row.status, "stage": row.stage, "reason": row.reason}


def _position(session: Session, row: JobRow) -> int | None:
    if row.status != "queued":
        return None
    before = select(func.count()).where(JobRow.status == "queued", JobRow.number <= row.number)
    return session.scalar(before)


def _with_positions(session: Session, rows: Sequence[JobRow]) -> list[Job]:
    """Jobs in order; the first of them that waits tells where the others are."""
    waiting = [row for row in rows if row.status == "queued"]
    first = _position(session, waiting[0]) if waiting else None
    places = {row.number: (first or 1) + i for i, row in enumerate(waiting)}
    return [_job(row, places.get(row.number)) for row in rows]


def _request(row: JobRow) -> Request:
    stored = dict(row.request)
    live, options = stored.get("live"), dict(stored.get("options") or {})
    if live is not None and "on_error" in live:  # where an earlier version kept it
        live = dict(live)
        options.setdefault("on_error", live.pop("on_error"))
    stored["live"] = None if live is None else LiveJobOptions(**live)
    return Request(**{**stored, "options": RunSettings(**options)})


def _job(row: JobRow, position: int | None = None) -> Job:
    done = row.done
    return Job(
        number=row.number,
        id=row.id,
        request=_request(row),
        status=cast(Status, row.status),
        created=row.created,
        stage=row.stage,
        reason=row.reason,
        started=row.started,
        finished=row.finished,
        done=JobSummary(**done | {n: tuple(done[n]) for n in _LISTS if n in done})
        if done
        else None,
        position=position,
        restarts=row.restarts or 0,
    )


_LISTS = ("kinds", "files", "notes")


def _now() -> datetime:
    return datetime.now(UTC)
