"""The pages: each looks up what it shows, and leaves the rest to its template and script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from api.cli.terminal.command_name import command_name
from api.http.pages.render import NANOSECONDS, PageRoute, page
from api.http.pages.text_changes import changed_lines
from api.http.routes.state import handed, jobs, settings, store
from api.http.settings import Settings
from api.http.views import job_out, plan_summary, workload_summary
from api.http.yaml_text import text_of
from api.jobs.model import Job
from api.jobs.queue import Jobs
from api.store import Store, StoredPlan, UnknownIdError
from optimizer.engines import situations
from optimizer.explain.access_text import access_text
from optimizer.explain.text import core_load
from workloads import bundled

router = APIRouter(route_class=PageRoute)

ON_A_PAGE = 20
MAX_LISTED = 12  # beside something else

Cursor = Annotated[str | None, Query(max_length=40)]
StoreIn = Annotated[Store, handed(store)]
JobsIn = Annotated[Jobs, handed(jobs)]

STARTING_POINTS = {
    "shop": "A shop's click stream: purchase paths, counted and found",
    "funnels": "The same stream: how far users come, and where they stay away",
    "stocks": "Prices as they tick: rises, falls, and what follows",
    "hospital": "Instruments and what must not be left out between uses",
    "driving": "Cars on the road: speeding, harsh braking and more, as situations",
    "machines": "Sensor alarms that overlap, follow and contain each other",
}
BLANK = """\
name: my_workload
stream:
  time: ts            # the column with an event's time
  unit: ms            # of whole numbers in it: s, ms, us or ns
  type: kind          # the column with an event's type
queries:
  - |
    QUERY first
    PATTERN SEQ(Login l, Payment p)
    PARTITION BY user
    AGG COUNT(*), SUM(p.amount)
    WITHIN 10 min
"""


@router.get("/")
def workloads_page(request: Request, store: StoreIn, cursor: Cursor = None) -> Response:
    found = store.workloads(ON_A_PAGE, cursor, newest=True)
    return page(
        request,
        "workloads.html",
        workloads=[workload_summary(stored) for stored in found.items],
        next=found.next,
        first=cursor is None,
        bundled=[(name, STARTING_POINTS.get(name, "")) for name in bundled.names()],
    )


@router.get("/data")
def data_page(
    request: Request,
    settings: Annotated[Settings, handed(settings)],
    path: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    return page(
        request,
        "data.html",
        chosen=path,
        roots=[str(folder) for folder in settings.roots],
        most=settings.max_body // 2**20,
    )


@router.get("/workloads/new")
def new_workload_page(
    request: Request,
    start: Annotated[str | None, Query(alias="from", max_length=100)] = None,
    events: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """An editor with a text to begin with; for a file of events the page's script asks for one."""
    text = BLANK if start is None else bundled.path(start).read_text()
    return page(
        request,
        "editor.html",
        workload=None,
        text=text,
        start=start,
        bundled=bundled.names(),
        sample=events,
    )


@router.get("/workloads/{id}")
def workload_page(
    request: Request,
    id: str,
    store: StoreIn,
    settings: Annotated[Settings, handed(settings)],
    version: Annotated[int | None, Query(ge=1, le=10**9)] = None,
) -> Response:
    stored = store.workload(id, version)
    plans = store.plans(id, MAX_LISTED, newest=True)
    return page(
        request,
        "editor.html",
        workload=workload_summary(stored),
        latest=stored.latest,
        text=text_of(stored),
        sample=None,
        versions=[workload_summary(v) for v in store.versions(id)[:MAX_LISTED]],
        plans=[plan_summary(plan) for plan in plans.items],
        more_plans=plans.next is not None,
        seconds=settings.planning_seconds,
    )


@router.get("/workloads/{id}/changes")
def changes_page(
    request: Request,
    id: str,
    store: StoreIn,
    before: Annotated[int | None, Query(ge=1, le=10**9)] = None,
    after: Annotated[int | None, Query(ge=1, le=10**9)] = None,
) -> Response:
    """Two versions of a workload's text, line by line; the last two if none are named."""
    new = store.workload(id, after)
    old = store.workload(id, max(1, new.version - 1) if before is None else before)
    lines = changed_lines(text_of(old), text_of(new))
    return page(
        request,
        "changes.html",
        workload=workload_summary(new),
        before=old.version,
        after=new.version,
        versions=[workload_summary(v) for v in store.versions(id)],
        lines=lines,
        removed=sum(line.kind == "removed" for line in lines or ()),
        added=sum(line.kind == "added" for line in lines or ()),
    )


@router.get("/plans")
def plans_page(
    request: Request,
    store: StoreIn,
    workload: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Cursor = None,
) -> Response:
    found = store.plans(workload, ON_A_PAGE, cursor, newest=True)
    return page(
        request,
        "plans.html",
        plans=[plan_summary(plan) for plan in found.items],
        titles=titles(found.items),
        workload=workload,
        workload_name=None if workload is None else store.workload(workload).name,
        next=found.next,
        first=cursor is None,
    )


@router.get("/plans/{id}")
def plan_page(request: Request, id: str, store: StoreIn, jobs: JobsIn) -> Response:
    stored = store.plan(id)
    others = store.plans(stored.workload, MAX_LISTED + 1, newest=True)
    run = [job for job in jobs.records.page(200, newest=True).items if job.request.plan == id]
    return page(
        request,
        "plan.html",
        plan=plan_summary(stored),
        title=title(stored),
        facts=facts(stored.document),
        others=[plan_summary(plan) for plan in others.items if plan.id != id],
        jobs=run[:MAX_LISTED],
        job_titles=job_titles(store, run[:MAX_LISTED]),
    )


@router.get("/compare")
def compare_page(
    request: Request,
    store: StoreIn,
    a: Annotated[str | None, Query(max_length=100)] = None,
    b: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    chosen = [store.plan(id) for id in (a, b) if id]
    found = store.plans(None, 100, newest=True)
    return page(
        request,
        "compare.html",
        a=plan_summary(chosen[0]) if a else None,
        b=plan_summary(chosen[-1]) if b else None,
        facts={plan.id: facts(plan.document) for plan in chosen},
        plans=[plan_summary(plan) for plan in found.items],
        titles=titles([*found.items, *chosen]),
        alike=len({plan.workload for plan in chosen}) <= 1,
    )


@router.get("/jobs")
def jobs_page(request: Request, store: StoreIn, jobs: JobsIn, cursor: Cursor = None) -> Response:
    found = jobs.records.page(ON_A_PAGE, cursor, newest=True)
    return page(
        request,
        "jobs.html",
        jobs=found.items,
        job_titles=job_titles(store, found.items),
        next=found.next,
        first=cursor is None,
    )


@router.get("/jobs/new")
def new_job_page(
    request: Request,
    store: StoreIn,
    settings: Annotated[Settings, handed(settings)],
    plan: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    chosen = None if plan is None else store.plan(plan)
    name = None if chosen is None else store.workload(chosen.workload).name
    found = store.plans(None, 100, newest=True).items
    return page(
        request,
        "launch.html",
        plan=None if chosen is None else plan_summary(chosen),
        plans=[plan_summary(p) for p in found],
        titles=titles([*found, *([] if chosen is None else [chosen])]),
        bundled=name if name in bundled.names() else None,
        roots=[str(folder) for folder in settings.roots],
        row_limit=settings.row_limit,
        command=command_name(),
    )


@router.get("/jobs/{id}")
def job_page(request: Request, id: str, store: StoreIn, jobs: JobsIn) -> Response:
    job = jobs.records.get(id)
    plans = store.plans(job.request.workload, ON_A_PAGE, newest=True).items
    shown = job_out(job, None, jobs.account(job))
    removed = [name for e in jobs.records.events(id) for name in e.data.get("removed", ())]
    return page(
        request,
        "job.html",
        job=job,
        notes=shown.notes,
        by_query=shown.rows_by_query or {},
        queries=kinds_by_query(store, job, removed),
        situated=about_situations(store.plan(job.request.plan).document),
        others=[plan_summary(plan) for plan in plans if plan.id != job.request.plan],
        name=workload_name(store, job),
    )


def kinds_by_query(store: Store, job: Job, removed: Iterable[str]) -> list[tuple[str, str]]:
    """The queries of a job's plan, each with what its rows are, as far as the plan says.

    Behind them are those that a stream's plan had before.
    """
    document = store.plan(job.request.plan).document
    outputs = [o.get("detail", {}) for o in document["operators"] if o["kind"] == "output"]
    kinds = {detail["query"]: detail.get("rows", "") for detail in outputs if "query" in detail}
    inner = {detail["query"] for detail in outputs if detail.get("inner")}
    now = [name for name in document["queries"] if name not in inner]
    before = [name for name in dict.fromkeys(removed) if name not in now]
    return [(name, kinds.get(name, "")) for name in (*now, *before)]


def about_situations(document: Mapping[str, Any]) -> frozenset[str]:
    """The queries of a plan whose matches are drawn as situations in time."""
    groups = [group for group in document["groups"] if group.get("engine") == situations.NAME]
    return frozenset(name for group in groups for name in group["queries"])


def title(stored: StoredPlan) -> str:
    """What people know a plan by."""
    return f"{stored.document['workload']}, version {stored.version}"


def titles(plans: Iterable[StoredPlan]) -> dict[str, str]:
    """The titles of plans by their ids."""
    return {stored.id: title(stored) for stored in plans}


def job_titles(store: Store, jobs: Iterable[Job]) -> dict[str, str]:
    """The workloads that jobs are of, by the ids of the jobs."""
    return {job.id: f"{workload_name(store, job)}, version {job.request.version}" for job in jobs}


def workload_name(store: Store, job: Job) -> str:
    """The name of a job's workload; its id where the store no longer has it."""
    try:
        return store.workload(job.request.workload, job.request.version).name
    except UnknownIdError:
        return job.request.workload


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan comes to, in numbers: costs, what sharing saves, and how far that is proven."""
    separate, shared = document["cost"]["separate"], document["cost"]["shared"]
    objective, bound = document["objective"], document["bound"]
    return {
        "objective": objective,
        "bound": bound,
        "gap": 0.0 if bound <= objective or bound == 0 else (bound - objective) / bound,
        "saved": 0.0 if separate == 0 else (separate - shared) / separate,
        "candidates": len(document["candidates"]),
        "chosen": len(document["chosen"]),
        "groups": len(document["groups"]),
        "together": sum(len(group["queries"]) > 1 for group in document["groups"]),
        "assumed": document["assumed"],
        "obstacles": document["obstacles"],
        "notes": document.get("notes", []),
        "access": access_text(document["access"]) if document.get("access") else None,
        "spread": _spread(document.get("spark", {})),
        "load": _load(document) if document["cost"]["unit"] == NANOSECONDS else None,
    }


def _load(document: Mapping[str, Any]) -> str:
    """What a plan takes of a core, at the rate of its stream."""
    scan: Mapping[str, Any] = next((o for o in document["operators"] if o["kind"] == "scan"), {})
    events = scan.get("rows") or sum(document["rates"].values())
    return core_load(document["cost"]["shared"], events)


def _spread(layout: Mapping[str, Any]) -> str:
    """How Spark spreads the events of a plan, in words."""
    spreads = {"time": "by time, as stored", "shuffle": "by a shuffle"}
    spread = spreads.get(layout.get("spread", "auto"), "as the events are stored")
    buckets = layout.get("buckets")
    return spread if buckets is None else f"{spread}, in {buckets:,} buckets of each key"
