"""What is stored and computed, as what goes over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

from api.jobs.folder import JobFolder
from api.jobs.model import Job
from api.result_files import read_rows, stretch
from api.rows import rows
from api.schemas import (
    AggregateRow,
    CostOut,
    JobOut,
    Location,
    MatchRow,
    PlanOut,
    PlanSummary,
    ProgressOut,
    QueryOut,
    ResultsOut,
    TaskOut,
    WorkloadOut,
    WorkloadSummary,
)
from api.store import StoredPlan, StoredWorkload
from api.tasks import Task
from optimizer.ir.pattern import events, print_pattern
from optimizer.ir.query import Aggregation, Query
from optimizer.physical.operators import print_window


def workload_summary(stored: StoredWorkload) -> WorkloadSummary:
    return WorkloadSummary(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        created=stored.created,
        changed=stored.changed,
        queries=stored.queries,
    )


def workload_out(stored: StoredWorkload) -> WorkloadOut:
    queries = stored.bound.queries
    return WorkloadOut(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        latest=stored.latest,
        created=stored.created,
        changed=stored.changed,
        queries=[_query_out(query) for query in queries],
        types=sorted({event.symbol.type for query in queries for event in events(query.pattern)}),
        document=dict(stored.document),
    )


def _query_out(query: Query) -> QueryOut:
    return QueryOut(
        name=query.name,
        kind="aggregate" if isinstance(query.output, Aggregation) else "detection",
        pattern=print_pattern(query.pattern),
        key=list(query.key),
        window=print_window(query.window),
    )


def plan_summary(stored: StoredPlan) -> PlanSummary:
    document = stored.document
    return PlanSummary(
        id=stored.id,
        workload=stored.workload,
        workload_version=stored.version,
        created=stored.created,
        solver=document["solver"],
        model=document["model"],
        status=document["status"],
        queries=len(document["queries"]),
        cost=CostOut(**document["cost"]),
    )


def plan_out(stored: StoredPlan) -> PlanOut:
    of = {"workload": stored.workload, "workload_version": stored.version}
    return PlanOut(**{**stored.document, **of})


def task_out(task: Task, limit: float) -> TaskOut:
    end = task.finished or datetime.now(UTC)
    return TaskOut(
        id=task.id,
        workload=task.workload,
        workload_version=task.version,
        status=task.status,
        stage=task.stage,
        seconds=(end - task.started).total_seconds() if task.started else 0.0,
        limit=limit,
        reason=task.reason,
        plan=task.plan,
        created=task.created,
        finished=task.finished,
    )


def job_out(job: Job, progress: tuple[int, int] | None) -> JobOut:
    request, done = job.request, job.done
    out = JobOut(
        id=job.id,
        plan=request.plan,
        workload=request.workload,
        workload_version=request.version,
        source=Location(path=request.source),
        sink=Location(path=request.sink) if request.sink else None,
        engine=request.engine,
        device=request.device,
        master=request.master,
        status=job.status,
        position=job.position,
        stage=job.stage,
        reason=job.reason,
        progress=ProgressOut(done=progress[0], known=progress[1]) if progress else None,
        created=job.created,
        started=job.started,
        finished=job.finished,
    )
    if done is not None:
        out.events = done.events
        out.seconds = dict(done.seconds)
        out.rows = {kind: done.total(kind) for kind in done.rows}
        out.files = list(done.files) or None
    return out


def results_out(
    job: Job, folder: JobFolder, query: str | None, offset: int, limit: int
) -> ResultsOut:
    """One page of each kind of row; `key` and `match` as objects, timestamps in ISO 8601."""
    assert job.done is not None
    stretches = {kind: stretch(job.done.rows[kind], query) for kind in job.done.rows}
    pages = {}
    for kind, (start, stop) in stretches.items():
        first = min(start + offset, stop)
        table = read_rows(folder.rows(kind), first, min(first + limit, stop))
        pages[kind] = rows(table, 0, limit)
    return ResultsOut(
        job=job.id,
        total={kind: stop - start for kind, (start, stop) in stretches.items()},
        offset=offset,
        limit=limit,
        aggregates=[AggregateRow(**row) for row in pages["aggregates"]],
        matches=[MatchRow(**row) for row in pages["matches"]],
    )
