"""`/v1/jobs`: run a plan over events, follow it, fetch what came out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from api.execution import choose_how
from api.jobs import Jobs, Request
from api.problems import ProblemError, responses
from api.routes.state import jobs, store
from api.schemas import JobIn, JobOut, ResultsOut
from api.sinks import check_sink
from api.store import Store
from api.views import job_out, results_out
from workloads.errors import UnsupportedError

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

MAX_ROWS = 100_000


@router.post(
    "", status_code=201, responses=responses("not-found", "invalid-request", "not-implemented")
)
def post_job(
    wanted: JobIn,
    response: Response,
    store: Annotated[Store, Depends(store)],
    jobs: Annotated[Jobs, Depends(jobs)],
) -> JobOut:
    """Put a job in the queue; it runs as soon as those before it are over."""
    if wanted.mode == "stream":
        raise UnsupportedError("live streams are not built yet; use mode 'batch'")
    choose_how(wanted.device)  # a device that is not there is said at once
    if wanted.sink is not None:
        check_sink(wanted.sink.path)
    request = Request(
        plan=store.plan(wanted.plan).plan,
        source=wanted.source.path,
        sink=wanted.sink.path if wanted.sink else None,
        engine=wanted.engine,
        device=wanted.device,
        master=wanted.master,
    )
    job = jobs.submit(request)
    response.headers["location"] = f"/v1/jobs/{job.id}"
    return job_out(job, None)


@router.get("")
def list_jobs(jobs: Annotated[Jobs, Depends(jobs)]) -> list[JobOut]:
    """All jobs, in the order they came."""
    return [job_out(job, None) for job in jobs.list()]


@router.get("/{id}", responses=responses("not-found"))
def get_job(id: str, jobs: Annotated[Jobs, Depends(jobs)]) -> JobOut:
    """One job: its status, how far it is, and why it failed if it did."""
    job = jobs.get(id)
    return job_out(job, jobs.progress(job))


@router.get("/{id}/results", responses=responses("not-found", "results-not-ready"))
def get_results(
    id: str,
    jobs: Annotated[Jobs, Depends(jobs)],
    query: Annotated[str | None, Query(description="Only rows of this query.")] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 10_000,
) -> ResultsOut:
    """What a job found, sorted by query, key and time, a page at a time."""
    job = jobs.get(id)
    if job.done is None:
        why = f": {job.reason}" if job.reason else ""
        raise ProblemError("results-not-ready", f"the job is {job.status}{why}")
    if query is not None and query not in job.request.plan.queries:
        raise ProblemError("not-found", f"the plan has no query '{query}'")
    return results_out(job.id, job.done.results, query, offset, limit)


@router.delete("/{id}", responses={202: {"model": JobOut}, **responses("not-found")})
def delete_job(id: str, jobs: Annotated[Jobs, Depends(jobs)]) -> Response:
    """Cancel a job that waits or runs (202), or drop one that is over, with its results (204)."""
    if jobs.get(id).is_over:
        jobs.forget(id)
        return Response(status_code=204)
    body = job_out(jobs.cancel(id), None).model_dump_json()
    return Response(body, status_code=202, media_type="application/json")
