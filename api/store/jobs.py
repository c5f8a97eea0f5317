"""Jobs as they are kept: every change is one transaction, with what it tells those who follow."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from api.jobs.model import OVER, Event, Job, JobSummary, LiveJobOptions, Mode, Request, Status
from api.run_settings import RunSettings
from api.store.database import Database
from api.store.schema import EventRow, JobRow, KeyRow, PlanRow
from api.store.workloads import Page, UnknownIdError, behind
from workloads.errors import SheafError

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class QueueFullError(SheafError):
    """As many jobs wait as may."""


class JobOverError(SheafError):
    """Something was asked of a job that is over."""


class JobRecords:
    """All jobs there have been, but for those that were deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        request: Request,
        max_queued: int,
        key: str | None = None,
        owner: str | None = None,
        max_owned: int | None = None,
    ) -> Job:
        """Put a job in the queue; an idempotency `key` knows of it from then on.

        No more than `max_owned` jobs of an `owner`, who is named, wait at a time.
        """
        try:
            with self._database.write() as session:
                job = self._add(session, request, max_queued, owner, max_owned)
                if key is not None:
                    made = update(KeyRow).where(KeyRow.key == key)
                    session.execute(made.values(made=f"/v1/jobs/{job.id}"))
                return job
        except IntegrityError as error:  # it was deleted since it was looked at
            raise UnknownIdError(f"there is no plan '{request.plan}'") from error

    def _add(
        self,
        session: Session,
        request: Request,
        max_queued: int,
        owner: str | None,
        max_owned: int | None,
    ) -> Job:
        queued = select(func.count()).select_from(JobRow).where(JobRow.status == "queued")
        waiting = session.scalar(queued) or 0
        if waiting >= max_queued:
            raise QueueFullError(f"{waiting:,} jobs are waiting already; try again later")
        if owner is not None and max_owned is not None:
            owned = session.scalar(queued.where(JobRow.owner == owner)) or 0
            if owned >= max_owned:
                raise QueueFullError(
                    f"{owned:,} jobs of {owner} are waiting already, as many as one token may have "
                    "(SHEAF_TOKEN_QUEUED); try again later"
                )
        # A number to read in order, and chance so that no two services use the same id.
        token = secrets.token_hex(4)
        row = JobRow(
            id=token,
            plan=request.plan,
            request=asdict(request),
            status="queued",
            stage="waiting",
            created=_now(),
            owner=owner,
        )
        session.add(row)
        session.flush()
        row.id = f"job-{row.number}-{token}"
        session.add(EventRow(job=row.id, number=1, time=row.created, data=_told(row)))
        session.flush()
        return _job(row, _positions(session)[row.number])

    def get(self, id: str) -> Job:
        with self._database.read() as session:
            row = _row(session, id)
            places = _positions(session) if row.status == "queued" else {}
            return _job(row, places.get(row.number))

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
            shown = rows[:limit]
            waits = any(row.status == "queued" for row in shown)
            places = _positions(session) if waits else {}
            found = [_job(row, places.get(row.number)) for row in shown]
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
        """The next job of one of these modes in the queue, which runs from now on.

        Owners take turns: the next job is of the one who has not been served for longest.
        """
        with self._database.write() as session:
            places = _positions(session)
            rows = session.scalars(
                select(JobRow).where(JobRow.status == "queued").with_for_update()
            ).all()
            ready = [row for row in rows if _request(row).mode in modes]
            row = min(ready, key=lambda row: places.get(row.number, row.number), default=None)
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
        self, id: str, plan: str, workload: str, version: int, name: str, said: Mapping[str, Any]
    ) -> Job:
        """Have a job run another plan from now on; those who follow it hear what that means."""
        with self._database.write() as session:
            row = _row(session, id)
            if session.scalar(select(PlanRow.id).where(PlanRow.id == plan)) is None:
                raise UnknownIdError(f"there is no plan '{plan}'")
            if row.status in OVER or row.stage == "cancelling":
                raise JobOverError(f"the job {id} is over, or about to be")
            row.plan = plan
            of = {"workload": workload, "version": version, "name": name}
            row.request = {**row.request, "plan": plan, **of}
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

    def delete(self, id: str) -> bool:
        """Delete a job that is over; False if it is not."""
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


def _positions(session: Session) -> dict[int, int]:
    """The places of all jobs that wait, from 1, by their numbers.

    Owners take turns, first the one whose latest start is longest ago; the jobs of one owner are
    in the order they came.
    """
    queued = select(JobRow.number, JobRow.owner).where(JobRow.status == "queued")
    waiting = session.execute(queued.order_by(JobRow.number)).all()
    if len({row.owner for row in waiting}) < 2:
        return {row.number: place for place, row in enumerate(waiting, 1)}
    starts = select(JobRow.owner, func.max(JobRow.started)).group_by(JobRow.owner)
    served = {row[0]: row[1] or BEFORE_ALL for row in session.execute(starts)}
    turns: Counter[str | None] = Counter()
    order = []
    for row in waiting:
        order.append((turns[row.owner], served[row.owner], row.number))
        turns[row.owner] += 1
    return {number: place for place, (_, _, number) in enumerate(sorted(order), 1)}


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
