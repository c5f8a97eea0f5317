"""What is stored and computed, as what goes over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from api.cli.terminal.values import rows
from api.http.place_schemas import Events, Location
from api.http.row_schemas import AggregateRow, MatchRow, ResultsOut
from api.http.schemas import (
    CostOut,
    GroupStateOut,
    HoldingOut,
    JobOut,
    OperatorCounts,
    OperatorsOut,
    PlanOut,
    PlanSummary,
    ProgressOut,
    QueryOut,
    StreamOut,
    TaskOut,
    TreeDecision,
    WorkloadOut,
    WorkloadSummary,
)
from api.jobs.account import COUNTED, JobAccount
from api.jobs.counts import JobCounts
from api.jobs.model import Job
from api.jobs.operators import job_operators
from api.jobs.row_selection import RowSelection
from api.jobs.rows import Rows
from api.jobs.webhook import shown_address
from api.planning.tasks import Task
from api.store import StoredPlan, StoredWorkload
from api.store.workloads import title_of
from engines.input.event_paths import EventPath
from optimizer.explain.access_text import access_text
from optimizer.ir.query import Aggregation, Query
from optimizer.plan.window_texts import shown_pattern, shown_window

T = TypeVar("T", StoredWorkload, StoredPlan)


def _while_stored(view: Callable[[T], BaseModel]) -> Callable[[T], bytes]:
    """A view as JSON, made once for as long as the store holds what it is of."""
    made: WeakKeyDictionary[T, bytes] = WeakKeyDictionary()

    def body(stored: T) -> bytes:
        found = made.get(stored)
        if found is None:
            made[stored] = found = (
                view(stored).model_dump_json(exclude_none=True, by_alias=True).encode()
            )
        return found

    return body


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
    queries = stored.bound.written
    return WorkloadOut(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        latest=stored.latest,
        created=stored.created,
        changed=stored.changed,
        queries=[_query_out(query) for query in queries],
        types=sorted(stored.bound.named_types),
        document=dict(stored.document),
        text=stored.text,
    )


workload_body = _while_stored(workload_out)


def _query_out(query: Query) -> QueryOut:
    return QueryOut(
        name=query.name,
        kind="aggregate" if isinstance(query.output, Aggregation) else "detection",
        pattern=shown_pattern(query),
        key=[name for name, _ in query.result_key],
        window=shown_window(query),
    )


def plan_summary(stored: StoredPlan) -> PlanSummary:
    document = stored.document
    return PlanSummary(
        id=stored.id,
        title=stored.title,
        workload=stored.workload,
        workload_version=stored.version,
        created=stored.created,
        solver=document["solver"],
        model=document["model"],
        sharing=document.get("sharing", True),
        status=document["status"],
        queries=len(document["queries"]),
        cost=CostOut(**document["cost"]),
    )


def plan_out(stored: StoredPlan) -> PlanOut:
    of = {
        "title": stored.title,
        "workload": stored.workload,
        "workload_version": stored.version,
    }
    return PlanOut(**{**stored.document, **of})


plan_body = _while_stored(plan_out)


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


def job_out(
    job: Job, progress: tuple[int, int] | None, account: JobAccount | None = None
) -> JobOut:
    """A job; `account` is what one that is a stream has done."""
    request, done = job.request, job.done
    out = JobOut(
        id=job.id,
        title=title_of(request.name or request.workload, request.version),
        plan=request.plan,
        workload=request.workload,
        workload_version=request.version,
        source=Events(path=_source(request.source)),
        sink=Location(path=request.sink) if request.sink else None,
        webhook=shown_address(request.webhook) if request.webhook else None,
        mode=request.mode,
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
        options=request.options.stated(),
    )
    if account is not None:
        out.stream = _stream_out(account, job.restarts)
        out.events = out.stream.events
        out.rows = {"aggregates": out.stream.aggregates, "matches": out.stream.matches}
        out.rows_by_query = account.by_query or None
        out.skipped, out.notes = out.stream.bad, list(account.notes)
    elif done is not None:
        out.events = done.events
        out.seconds = dict(done.seconds)
        out.rows = {kind: done.total(kind) for kind in done.rows}
        out.files = list(done.files) or None
        out.rows_by_query = dict(done.by_query) or None
        out.skipped, out.notes = done.skipped, list(done.notes)
        out.stopped = dict(done.stopped) or None
        out.dropped = dict(done.dropped) or None
    return out


def operators_out(
    job: Job,
    operators: Sequence[Mapping[str, Any]],
    counts: JobCounts | None,
    account: JobAccount | None,
) -> OperatorsOut:
    """The operators of the job's plan with what was predicted and counted of each."""
    here = {o["detail"]["query"] for o in operators if o["kind"] == "output"}
    rows = {} if counts is None else counts.rows
    found = job_operators(operators, counts)
    report = {} if counts is None else counts.report
    measured = [each.account.cpu_seconds for each in found if each.account.cpu_seconds is not None]
    predicted = [
        each.account.predicted_seconds
        for each in found
        if each.account.predicted_seconds is not None
    ]
    return OperatorsOut(
        job=job.id,
        plan=job.request.plan,
        status=job.status,
        until=None if account is None or account.last is None else account.last.until,
        operators=[
            OperatorCounts(
                **asdict(each.account),
                state=None if each.state is None else HoldingOut(**asdict(each.state)),
            )
            for each in found
        ],
        gone={name: number for name, number in rows.items() if name not in here},
        cpu_seconds=report.get("cpu_seconds") or (sum(measured) if measured else None),
        predicted_seconds=sum(predicted) if predicted else None,
        unclaimed_seconds=report.get("unclaimed_seconds"),
        fallbacks=report.get("fallbacks") or [],
        trees=[TreeDecision(**tree) for tree in report.get("trees") or ()],
        read=report.get("read") or {},
        access=report.get("access") or {},
        access_text=access_text(report["access"]) if report.get("access") else None,
    )


def _stream_out(account: JobAccount, restarts: int) -> StreamOut:
    totals, last = account.totals, account.last
    sums = {name: getattr(totals, name) for name in ("batches", "seconds", *COUNTED)}
    out = StreamOut(**sums, restarts=restarts)
    if last is not None:
        out.batch, out.batch_seconds, out.until = last.number, last.seconds, last.until
        out.batch_p50, out.batch_p99 = account.batch_seconds(50), account.batch_seconds(99)
        out.state, out.waiting = last.state, last.waiting
        out.groups = [GroupStateOut(**group) for group in last.groups]
    return out


def results_out(job: Job, found: Rows, chosen: RowSelection, offset: int, limit: int) -> ResultsOut:
    """One page of each kind of row; `key` and `match` as objects, timestamps in ISO 8601."""
    pages, total = {}, {}
    for kind in ("aggregates", "matches"):
        table, total[kind] = chosen.page(found, kind, offset, limit)
        pages[kind] = rows(table, 0, limit)
    return ResultsOut(
        job=job.id,
        total=total,
        offset=offset,
        limit=limit,
        aggregates=[AggregateRow(**row) for row in pages["aggregates"]],
        matches=[MatchRow(**row) for row in pages["matches"]],
    )


def _source(path: EventPath) -> str | dict[str, str]:
    return path if isinstance(path, str) else dict(path)
