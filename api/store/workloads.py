"""Workloads in all their versions, and plans, as they are stored and fetched."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from api.store.database import Database
from api.store.schema import JobRow, PlanRow, VersionRow, WorkloadRow
from optimizer.bind.binder import bind
from optimizer.explain.text import render_text
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import Plan, from_json
from workloads.errors import SheafError
from workloads.loading import load_workload

T = TypeVar("T")
S = TypeVar("S", bound=Select[*tuple[Any, ...]])

KEPT_BOUND = 64  # workloads that stay parsed in memory
KEPT_PLANS, SMALL_PLAN = 64, 500  # plans that do so too, and operators that such a one may have


NAMED_JOBS = 3  # jobs that a refusal names


class UnknownIdError(SheafError):
    """Nothing is stored under this id."""


class NeededError(SheafError):
    """Something cannot be deleted because jobs need it."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of a list, and the cursor that the rest begins after, where there is more."""

    items: Sequence[T]
    next: str | None


@dataclass(frozen=True, eq=False)
class StoredWorkload:
    """One version of a workload; `document` is what it can be loaded from again.

    `text` is what was posted, comments and all, where that was YAML.
    """

    id: str
    name: str
    version: int
    latest: int
    created: datetime
    changed: datetime
    queries: int
    document: Mapping[str, Any]
    text: str | None = None

    @property
    def title(self) -> str:
        return title_of(self.name, self.version)

    @cached_property
    def bound(self) -> BoundWorkload:
        return bind(load_workload(self.document))


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """A plan as JSON, and the version of the workload that it is for."""

    id: str
    created: datetime
    workload: str
    version: int
    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of its workload."""
        return str(self.document["document"].get("name") or self.workload)

    @property
    def title(self) -> str:
        return title_of(self.name, self.version)

    @cached_property
    def plan(self) -> Plan:
        """The plan itself; a `PlanError` where another Sheaf made it in another form."""
        return from_json(self.document)

    @cached_property
    def text(self) -> str:
        return render_text(self.plan)


class Store:
    """Workloads and plans; everything that has been given back is on the disk.

    This process holds the database for itself: what it has read stays true until it writes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int], StoredWorkload] = OrderedDict()
        self._latest: dict[str, int] = {}  # versions, which only grow
        self._plans: OrderedDict[str, StoredPlan] = OrderedDict()
        self._changes = 0  # of plans: what was read before one is not kept after it

    def add_workload(
        self, bound: BoundWorkload, document: Mapping[str, Any], text: str | None = None
    ) -> StoredWorkload:
        """Keep a workload under its name: as a new version, unless the latest says the same.

        Another text is a new version, be it for a comment. Where the latest has no text, because
        it came as JSON, the text of the same document becomes its own.
        """
        try:
            return self._add_workload(bound, document, text)
        except IntegrityError:  # PostgreSQL, when another request added the same name or version
            return self._add_workload(bound, document, text)

    def _add_workload(
        self, bound: BoundWorkload, document: Mapping[str, Any], text: str | None
    ) -> StoredWorkload:
        id = workload_id(bound.name)
        with self._database.write() as session:
            row = session.scalar(select(WorkloadRow).where(WorkloadRow.id == id).with_for_update())
            if row is None:
                row = WorkloadRow(id=id, name=bound.name, created=_now(), latest=0)
                session.add(row)
                session.flush()
            version = session.get(VersionRow, (id, row.latest)) if row.latest else None
            same = version is not None and _text(version.document) == _text(document)
            if same and version is not None and version.text is None:
                version.text = text
            if version is None or not same or (text is not None and version.text != text):
                row.latest += 1
                version = VersionRow(
                    workload=id,
                    version=row.latest,
                    created=_now(),
                    queries=len(bound.queries),
                    document=dict(document),
                    text=text,
                )
                session.add(version)
        return self._keep(_workload(row, version), bound)

    def workloads(
        self, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[StoredWorkload]:
        """The latest version of each workload, in the order they first came, or `newest` first."""
        every = (
            select(WorkloadRow, VersionRow)
            .join(VersionRow, VersionRow.workload == WorkloadRow.id)
            .where(VersionRow.version == WorkloadRow.latest)
        )
        wanted = behind(every, WorkloadRow.number, after, newest).limit(limit + 1)
        with self._database.read() as session:
            rows = session.execute(wanted).all()
        found = [_workload(row, version) for row, version in rows[:limit]]
        more = len(rows) > limit and limit > 0
        return Page(found, str(rows[limit - 1][0].number) if more else None)

    def workload(self, id: str, version: int | None = None) -> StoredWorkload:
        """One version of a workload, by default the latest."""
        with self._lock:
            latest = self._latest.get(id, 0)
            known = self._known.get((id, latest if version is None else version))
            if known is not None and known.latest == latest:
                self._known.move_to_end((id, known.version))
                return known
        with self._database.read() as session:
            row = self._row(session, id)
            wanted = row.latest if version is None else version
            found = session.get(VersionRow, (id, wanted))
        if found is None:
            raise UnknownIdError(
                f"the workload '{id}' has no version {wanted}; its latest is {row.latest}"
            )
        return self._keep(_workload(row, found))

    def versions(self, id: str) -> list[StoredWorkload]:
        """All versions of a workload, the latest first."""
        wanted = (
            select(VersionRow).where(VersionRow.workload == id).order_by(VersionRow.version.desc())
        )
        with self._database.read() as session:
            row = self._row(session, id)
            return [_workload(row, version) for version in session.scalars(wanted)]

    def delete_workload(self, id: str) -> None:
        """Delete a workload in all its versions, and its plans; refused while jobs need them."""
        try:
            self._delete_workload(id)
        except IntegrityError:  # PostgreSQL, when a job or a plan was added in between
            self._delete_workload(id)

    def _delete_workload(self, id: str) -> None:
        with self._database.write() as session:
            row = self._row(session, id)
            plans = session.scalars(select(PlanRow.id).where(PlanRow.workload == id)).all()
            _check_unneeded(session, select(PlanRow.id).where(PlanRow.workload == id), row.name)
            session.execute(delete(PlanRow).where(PlanRow.workload == id))
            session.execute(delete(VersionRow).where(VersionRow.workload == id))
            session.delete(row)
        with self._lock:
            self._changes += 1
            self._latest.pop(id, None)
            for place in [place for place in self._known if place[0] == id]:
                del self._known[place]
            for plan in plans:
                self._plans.pop(plan, None)

    def delete_plan(self, id: str) -> None:
        """Delete a plan; refused while jobs need it."""
        try:
            self._delete_plan(id)
        except IntegrityError:  # PostgreSQL, when a job was added in between
            self._delete_plan(id)

    def _delete_plan(self, id: str) -> None:
        with self._database.write() as session:
            row = session.scalar(select(PlanRow).where(PlanRow.id == id))
            if row is None:
                raise UnknownIdError(f"there is no plan '{id}'")
            _check_unneeded(session, select(PlanRow.id).where(PlanRow.id == id), id)
            session.delete(row)
        with self._lock:
            self._changes += 1
            self._plans.pop(id, None)

    def add_plan(self, workload: StoredWorkload, plan: Mapping[str, Any]) -> StoredPlan:
        """Keep a plan, as JSON; one made again, for a later version perhaps, is kept once."""
        try:
            return self._add_plan(workload, plan)
        except IntegrityError:
            return self._add_plan(workload, plan)

    def _add_plan(self, workload: StoredWorkload, plan: Mapping[str, Any]) -> StoredPlan:
        id = plan["id"]
        with self._database.write() as session:
            version = session.get(VersionRow, (workload.id, workload.version), with_for_update=True)
            if version is None or version.created != workload.changed:
                raise UnknownIdError(f"the workload '{workload.id}' was deleted in the meantime")
            row = session.scalar(select(PlanRow).where(PlanRow.id == id).with_for_update())
            if row is None:
                row = PlanRow(id=id, workload=workload.id, created=_now(), document=dict(plan))
                session.add(row)
            row.version = workload.version
        with self._lock:
            self._changes += 1
            self._plans.pop(id, None)
        return _plan(row)

    def plan(self, id: str) -> StoredPlan:
        with self._lock:
            known = self._plans.get(id)
            if known is not None:
                self._plans.move_to_end(id)
                return known
        found = self._read_plans(lambda session: [id])
        if not found:
            raise UnknownIdError(f"there is no plan '{id}'")
        return found[0]

    def find_plan(self, id: str) -> StoredPlan | None:
        """The plan of an id; None where it has been deleted."""
        try:
            return self.plan(id)
        except UnknownIdError:
            return None

    def plans(
        self,
        workload: str | None = None,
        limit: int = 100,
        after: str | None = None,
        newest: bool = False,
    ) -> Page[StoredPlan]:
        """Plans in the order they were made, or `newest` first, of one workload or of all."""
        wanted = behind(select(PlanRow.number, PlanRow.id), PlanRow.number, after, newest)
        if workload is not None:
            wanted = wanted.where(PlanRow.workload == workload)
        following = None

        def ids(session: Session) -> list[str]:
            nonlocal following
            rows = session.execute(wanted.limit(limit + 1)).all()
            if len(rows) > limit > 0:
                following = str(rows[limit - 1].number)
            return [row.id for row in rows[:limit]]

        return Page(self._read_plans(ids), following)

    def _read_plans(self, ids: Callable[[Session], Sequence[str]]) -> list[StoredPlan]:
        """The plans of those ids that there are; small ones read before are not read again."""
        with self._lock:
            before = self._changes
        with self._database.read() as session:
            asked = ids(session)
            with self._lock:
                known = {id: self._plans[id] for id in asked if id in self._plans}
            missing = [id for id in asked if id not in known]
            if missing:
                rows = session.scalars(select(PlanRow).where(PlanRow.id.in_(missing)))
                known |= {row.id: _plan(row) for row in rows}
        found = [known[id] for id in asked if id in known]
        with self._lock:
            for plan in found if self._changes == before else ():
                if len(plan.document["operators"]) <= SMALL_PLAN:
                    self._plans[plan.id] = plan
                    self._plans.move_to_end(plan.id)
            while len(self._plans) > KEPT_PLANS:
                self._plans.popitem(last=False)
        return found

    def _row(self, session: Session, id: str) -> WorkloadRow:
        row = session.scalar(select(WorkloadRow).where(WorkloadRow.id == id))
        if row is None:
            raise UnknownIdError(f"there is no workload '{id}'")
        return row

    def _keep(self, found: StoredWorkload, bound: BoundWorkload | None = None) -> StoredWorkload:
        """The workload that is kept for its version, bound once for all who ask for it."""
        place = (found.id, found.version)
        with self._lock:
            self._latest[found.id] = max(found.latest, self._latest.get(found.id, 0))
            known = self._known.get(place)
            if known is not None and (known.latest, known.text) == (found.latest, found.text):
                self._known.move_to_end(place)
                return known
            if bound is None and known is not None:
                bound = known.__dict__.get("bound")
            if bound is not None:
                found.__dict__["bound"] = bound
            self._known[place] = found
            while len(self._known) > KEPT_BOUND:
                self._known.popitem(last=False)
        return found


def _check_unneeded(session: Session, plans: Select[str], what: str) -> None:
    """Refuse to delete what jobs need, be they over: their results say by which plan they came."""
    wanted = select(JobRow.id).where(JobRow.plan.in_(plans)).order_by(JobRow.number.desc())
    found = session.scalars(wanted.limit(NAMED_JOBS + 1)).all()
    if found:
        more = " and others" if len(found) > NAMED_JOBS else ""
        raise NeededError(
            f"{', '.join(found[:NAMED_JOBS])}{more} ran or will run '{what}'; delete these jobs "
            "first, with their results"
        )


def title_of(name: str, version: int) -> str:
    """A version of a workload as people call it."""
    return f"{name}, version {version}"


def workload_id(name: str) -> str:
    """A name as far as it goes into an address, and a digest of all of it."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug or 'workload'}-{digest[:8]}"


def behind(wanted: S, number: Any, after: str | None, newest: bool) -> S:
    """The rows that come after a cursor, in their order or, `newest` first, against it."""
    if not newest:
        return wanted.where(number > place(after)).order_by(number)
    rest = wanted if after is None else wanted.where(number < place(after))
    return rest.order_by(number.desc())


def place(cursor: str | None) -> int:
    """The number that a list goes on after."""
    if cursor is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,18}", cursor):
        raise SheafError(f"'{cursor}' is no cursor: take the one that the page before gave")
    return int(cursor)


def _workload(row: WorkloadRow, version: VersionRow) -> StoredWorkload:
    return StoredWorkload(
        id=row.id,
        name=row.name,
        version=version.version,
        latest=row.latest,
        created=row.created,
        changed=version.created,
        queries=version.queries,
        document=version.document,
        text=version.text,
    )


def _plan(row: PlanRow) -> StoredPlan:
    return StoredPlan(row.id, row.created, row.workload, row.version, row.document)


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _now() -> datetime:
    return datetime.now(UTC)
