"""`/v1/jobs`: run a plan over events, follow it, fetch what came out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi import Request as HttpRequest
from fastapi.responses import PlainTextResponse

from api.execution import choose_how
from api.jobs.model import Request, Status
from api.jobs.queue import Jobs
from api.problems import ProblemError, responses
from api.roots import Roots
from api.routes.paging import LINK, Cursor, Limit, linked
from api.routes.state import jobs, roots, settings, store
from api.schemas import JobIn, JobOut
from api.settings import Settings
from api.sinks import check_sink
from api.store import Store
from api.views import job_out
from workloads.errors import UnsupportedError

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

LOCAL_MASTER = re.compile(r"local(\[([0-9]{1,4}|\*)\])?")
_LOG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"example": "Traceback (most recent call last): …"}}}
}
MAX_LOG = 1_000_000  # bytes


@router.post(
    "",
    status_code=201,
    responses=responses(
        "not-found", "path-not-allowed", "invalid-request", "queue-full", "not-implemented"
    ),
)
def post_job(
    wanted: JobIn,
    http: HttpRequest,
    response: Response,
    store: Annotated[Store, Depends(store)],
    jobs: Annotated[Jobs, Depends(jobs)],
    roots: Annotated[Roots, Depends(roots)],
    settings: Annotated[Settings, Depends(settings)],
) -> JobOut:
    """Put a job in the queue; it runs in a process of its own when its turn comes."""
    if wanted.mode == "stream":
        raise UnsupportedError("live streams are not built yet; use mode 'batch'")
    _check_master(wanted.master, settings)
    roots.check(wanted.source.path)
    choose_how(wanted.device)  # a device that is not there is said at once
    if wanted.sink is not None:
        roots.check(str(Path(wanted.sink.path).parent))
        check_sink(wanted.sink.path)
    plan = store.plan(wanted.plan)
    request = Request(
        plan=plan.id,
        workload=plan.workload,
        version=plan.version,
        source=wanted.source.path,
        sink=wanted.sink.path if wanted.sink else None,
        engine=wanted.engine,
        device=wanted.device,
        master=wanted.master,
    )
    job = jobs.submit(request, getattr(http.state, "idempotency_key", None))
    response.headers["location"] = f"/v1/jobs/{job.id}"
    return job_out(job, None)


@router.get("", responses={200: LINK})
def list_jobs(
    request: HttpRequest,
    response: Response,
    jobs: Annotated[Jobs, Depends(jobs)],
    status: Status | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> list[JobOut]:
    """Jobs in the order they came, all or those of one status."""
    page = linked(request, response, jobs.records.page(limit, cursor, status))
    return [job_out(job, jobs.progress(job)) for job in page]


@router.get("/{id}", responses=responses("not-found"))
def get_job(id: str, jobs: Annotated[Jobs, Depends(jobs)]) -> JobOut:
    """One job: its status, how far it is, and why it failed if it did."""
    job = jobs.records.get(id)
    return job_out(job, jobs.progress(job))


@router.get(
    "/{id}/log",
    response_class=PlainTextResponse,
    responses={**responses("not-found"), **_LOG},
)
def get_log(id: str, jobs: Annotated[Jobs, Depends(jobs)]) -> Response:
    """What the job's process printed, and the traceback if it failed; the last of it if long."""
    log = jobs.folder(jobs.records.get(id).id).log
    return PlainTextResponse(last_of(log, MAX_LOG) if log.exists() else "")


@router.delete(
    "/{id}", status_code=204, responses={202: {"model": JobOut}, **responses("not-found")}
)
def delete_job(id: str, jobs: Annotated[Jobs, Depends(jobs)]) -> Response:
    """Cancel a job that waits or runs (202), or drop one that is over, with its results (204)."""
    if jobs.forget(id):
        return Response(status_code=204)
    body = job_out(jobs.cancel(id), None).model_dump_json()
    return Response(body, status_code=202, media_type="application/json")


def _check_master(master: str, settings: Settings) -> None:
    """Refuse to send events to a Spark that nobody has allowed."""
    if not LOCAL_MASTER.fullmatch(master) and master not in settings.masters:
        allowed = ", ".join(["local[…]", *settings.masters])
        raise ProblemError(
            "invalid-request", f"master is '{master}', and may be {allowed} (SHEAF_MASTERS)"
        )


def last_of(path: Path, size: int) -> str:
    """The end of a file, which may be much longer."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read().decode(errors="replace")
