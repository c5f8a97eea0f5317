"""What is stored and computed, as what goes over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.jobs import Job
from api.rows import rows
from api.schemas import (
    AggregateRow,
    JobOut,
    Location,
    MatchRow,
    PlanOut,
    ProgressOut,
    QueryOut,
    ResultsOut,
    WorkloadOut,
    WorkloadSummary,
)
from api.store import StoredPlan, StoredWorkload
from optimizer.ir.pattern import events, print_pattern
from optimizer.ir.query import Aggregation, Query
from optimizer.physical.operators import print_window

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.results import Results


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


def plan_out(stored: StoredPlan) -> PlanOut:
    of = {"workload": stored.workload, "workload_version": stored.version}
    return PlanOut(**{**stored.document, **of})


def job_out(job: Job, progress: tuple[int, int] | None) -> JobOut:
    request, done = job.request, job.done
    out = JobOut(
        id=job.id,
        plan=request.plan.id,
        source=Location(path=request.source),
        sink=Location(path=request.sink) if request.sink else None,
        engine=request.engine,
        device=request.device,
        master=request.master,
        status=job.status,
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
        out.rows = _totals(done.results)
        out.files = list(done.files) or None
    return out


def results_out(
    job: str, results: Results, query: str | None, offset: int, limit: int
) -> ResultsOut:
    """One page of each kind of row; `key` and `match` as objects, timestamps in ISO 8601."""
    chosen = results if query is None else _of_query(results, query)
    return ResultsOut(
        job=job,
        total=_totals(chosen),
        offset=offset,
        limit=limit,
        aggregates=[AggregateRow(**row) for row in rows(chosen.aggregates, offset, limit)],
        matches=[MatchRow(**row) for row in rows(chosen.matches, offset, limit)],
    )


def _of_query(results: Results, query: str) -> Results:
    import pyarrow.compute as pc

    from engines.results import Results

    def only(table: pa.Table) -> pa.Table:
        return table.filter(pc.equal(table["query"], query))

    return Results(only(results.aggregates), only(results.matches))


def _totals(results: Results) -> dict[str, int]:
    return {"aggregates": results.aggregates.num_rows, "matches": results.matches.num_rows}
