"""`/v1/jobs`: run a plan over events, follow it, fetch what came out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from fastapi.responses import PlainTextResponse

from api.cli.sinks import check_sink, is_source
from api.connections import Connections
from api.http.problems import ProblemError, responses
from api.http.routes.paging import LINK, Cursor, Limit, Order, listed
from api.http.routes.state import computing, connections, handed, jobs, roots, settings, store
from api.http.schemas import JobChange, JobChanged, JobIn, JobOut, OperatorsOut, StreamIn
from api.http.settings import Settings
from api.http.views import job_out, operators_out
from api.jobs.devices import chosen_device
from api.jobs.model import Job, LiveJobOptions, Request, Status
from api.jobs.queue import Jobs
from api.jobs.roots import NoEventsError, Roots
from api.jobs.streaming import checked
from api.jobs.webhook import check_allowed
from api.planning.process_pool import ProcessPool
from api.run_settings import LAKES, RunSettings
from api.store import Store, StoredPlan
from engines.input.event_paths import CONNECTION, EventPath, each_path, one_path, paths_by_source
from engines.limits import EventsError, StateError
from engines.results.lake_place import lake_place
from optimizer.plan.plan import VERSION
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
        "not-found",
        "path-not-allowed",
        "source-not-found",
        "invalid-request",
        "queue-full",
        "not-implemented",
    ),
)
def post_job(
    wanted: JobIn,
    http: HttpRequest,
    response: Response,
    store: Annotated[Store, handed(store)],
    jobs: Annotated[Jobs, handed(jobs)],
    roots: Annotated[Roots, handed(roots)],
    settings: Annotated[Settings, handed(settings)],
    connections: Annotated[Connections, handed(connections)],
) -> JobOut:
    """Put a job in the queue; it runs in a process of its own when its turn comes."""
    _check_master(wanted.master, settings)
    live = _live(wanted, roots)
    options = _options(wanted, settings)
    for path in each_path(wanted.source.path):
        _check_place(path, live, roots, settings, connections)
    if wanted.engine != "spark" and _is_named(wanted.source.path):
        raise ProblemError("invalid-request", "source: a connection is read with engine 'spark'")
    chosen_device(wanted.device)  # a device that is not there is said at once
    place = None if wanted.sink is None else lake_place(wanted.sink.path)
    if place is not None:
        roots.check(place.folder)
        place.check()
    if wanted.sink is not None and place is None and live is not None:
        _check_place(wanted.sink.path, live, roots, settings, connections)
    elif wanted.sink is not None and live is None:
        if place is None:
            roots.check(str(Path(wanted.sink.path).parent))
            check_sink(wanted.sink.path)
        if is_source(wanted.sink.path, wanted.source.path):
            raise ProblemError("invalid-request", "sink: it is the source, which would be lost")
    _check_webhook(wanted, settings)
    plan = store.plan(wanted.plan)
    _check_version(plan)
    check_source(wanted.source.path, live, plan.document["document"], roots)
    request = Request(
        plan=plan.id,
        workload=plan.workload,
        version=plan.version,
        source=wanted.source.path,
        sink=wanted.sink.path if wanted.sink else None,
        engine=wanted.engine,
        device=wanted.device,
        master=wanted.master,
        live=live,
        options=options,
        name=plan.name,
        webhook=wanted.webhook,
    )
    state = http.state
    job = jobs.submit(
        request, getattr(state, "idempotency_key", None), getattr(state, "subject", None)
    )
    response.headers["location"] = f"/v1/jobs/{job.id}"
    return job_out(job, None)


@router.get("", response_model=list[JobOut], responses={200: LINK})
def list_jobs(
    request: HttpRequest,
    jobs: Annotated[Jobs, handed(jobs)],
    status: Status | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    order: Order = "desc",
) -> Response:
    """Jobs, the newest first or in the order they came, all or those of one status."""

    def shown(job: Job) -> JobOut:
        return job_out(job, jobs.progress(job), jobs.account(job))

    return listed(request, jobs.records.page(limit, cursor, status, order == "desc"), shown)


@router.get("/{id}", responses=responses("not-found"))
def get_job(id: str, jobs: Annotated[Jobs, handed(jobs)]) -> JobOut:
    """One job: its status, how far it is, and why it failed if it did."""
    job = jobs.records.get(id)
    return job_out(job, jobs.progress(job), jobs.account(job))


@router.get("/{id}/operators", responses=responses("not-found"))
def get_operators(
    id: str, store: Annotated[Store, handed(store)], jobs: Annotated[Jobs, handed(jobs)]
) -> OperatorsOut:
    """The operators of the job's plan: rows in and out and CPU so far, beside what was predicted.

    A segment is counted within its counter and has no numbers of its own. What two slices or tasks
    need of stored events counts twice behind the scan.
    """
    job = jobs.records.get(id)
    operators = store.plan(job.request.plan).document["operators"]
    return operators_out(job, operators, jobs.counts(job), jobs.account(job))


@router.get(
    "/{id}/log",
    response_class=PlainTextResponse,
    responses={**responses("not-found"), **_LOG},
)
def get_log(id: str, jobs: Annotated[Jobs, handed(jobs)]) -> Response:
    """What the job's process printed, and the traceback if it failed; the last of it if long."""
    log = jobs.folder(jobs.records.get(id).id).log
    return PlainTextResponse(last_of(log, MAX_LOG) if log.exists() else "")


@router.post(
    "/{id}/cancel",
    status_code=202,
    response_model=JobOut,
    responses={200: {"model": JobOut, "description": "It was over"}, **responses("not-found")},
)
def cancel_job(id: str, jobs: Annotated[Jobs, handed(jobs)]) -> Response:
    """Cancel a job that waits or runs (202); one that is over stays as it is (200).

    Nothing is deleted: a stream that is cancelled keeps its rows and its checkpoint.
    """
    was_over = jobs.records.get(id).is_over
    return _shown(jobs, jobs.cancel(id), 200 if was_over else 202)


@router.delete(
    "/{id}",
    status_code=204,
    responses={202: {"model": JobOut}, **responses("not-found", "job-over", "in-use")},
)
def delete_job(
    id: str,
    jobs: Annotated[Jobs, handed(jobs)],
    results: Annotated[
        OneOf["keep", "delete"],
        Query(description="`delete`: delete a job that is over, with its results."),
    ] = "keep",
) -> Response:
    """Cancel a job that waits or runs (202), or with `results=delete` delete one that is over.

    Files that were written to a sink, and a checkpoint that was named, are not deleted.
    """
    if results == "delete":
        if not jobs.delete(id):
            raise ProblemError("in-use", f"the job {id} is not over; cancel it first")
        return Response(status_code=204)
    job = jobs.records.get(id)
    if job.is_over:
        raise ProblemError(
            "job-over",
            f"the job {id} is over ({job.status}), and is kept with its results; "
            f"DELETE /v1/jobs/{id}?results=delete deletes both",
        )
    return _shown(jobs, jobs.cancel(id), 202)


def _shown(jobs: Jobs, job: Job, status: int) -> Response:
    body = job_out(job, None, jobs.account(job)).model_dump_json()
    return Response(body, status_code=status, media_type="application/json")


@router.patch(
    "/{id}",
    status_code=202,
    responses=responses("not-found", "invalid-request", "incompatible", "job-over"),
)
def patch_job(
    id: str,
    wanted: JobChange,
    store: Annotated[Store, handed(store)],
    jobs: Annotated[Jobs, handed(jobs)],
    computing: Annotated[ProcessPool, handed(computing)],
) -> JobChanged:
    """Have a stream go on with another plan, from the end of its batch.

    Queries that stay keep their state. Those that are new begin with the next events.
    """
    job, plan = jobs.records.get(id), store.plan(wanted.plan)
    if job.request.live is None:
        raise ProblemError("invalid-request", "only a stream can go on with another plan")
    if job.is_over:
        raise ProblemError("job-over", f"the job {id} is {job.status}")
    document = plan.document
    request = {**asdict(job.request), "connections": jobs.connections}
    checkpoint = str(jobs.checkpoint(job).absolute())
    try:
        said = computing.call(checked, request, document, checkpoint)
    except (StateError, UnsupportedError) as error:
        raise ProblemError("incompatible", str(error)) from error
    changed = jobs.update(id, plan.id, plan.workload, plan.version, plan.name, said)
    return JobChanged(
        job=id,
        plan=plan.id,
        workload_version=changed.request.version,
        **{name: list(names) for name, names in said.items()},
    )


def _live(wanted: JobIn, roots: Roots) -> LiveJobOptions | None:
    """How a stream is to run; None for a job over stored events."""
    if wanted.mode == "batch":
        if wanted.stream is not None:
            raise ProblemError("invalid-request", "stream: it is for mode 'stream'")
        return None
    if wanted.engine != "spark":
        raise ProblemError("invalid-request", "engine: a stream runs on 'spark'")
    given = wanted.stream or StreamIn()
    if given.finish and not given.once:
        raise ProblemError("invalid-request", "stream.finish: it needs stream.once")
    for path in (
        *((given.checkpoint.path,) if given.checkpoint else ()),
        *(each_path(given.like.path) if given.like else ()),
    ):
        roots.check(path)
    return LiveJobOptions(
        checkpoint=given.checkpoint.path if given.checkpoint else None,
        every=given.every,
        buckets=given.buckets,
        files=given.files,
        like=given.like.path if given.like else None,
        once=given.once,
        finish=given.finish,
        light=given.light,
    )


def _options(wanted: JobIn, settings: Settings) -> RunSettings:
    """The options of the run, with the service's own limit on rows where none is asked for."""
    options = wanted.settings()
    if wanted.stream is not None and wanted.stream.on_error is not None:
        options = replace(options, on_error=wanted.stream.on_error)
    sink = None if wanted.sink is None else wanted.sink.path
    options.check("stream" if wanted.mode == "stream" else wanted.engine, sink=sink)
    most = settings.row_limit
    if wanted.mode == "stream" or most is None:  # a stream gives rows for ever
        return options
    if options.row_limit is not None and options.row_limit > most:
        raise ProblemError(
            "invalid-request",
            f"row_limit: it is {options.row_limit:,}, and the service takes {most:,} at most "
            "(SHEAF_ROW_LIMIT)",
        )
    return replace(options, row_limit=options.row_limit or most)


def check_source(
    path: EventPath, live: LiveJobOptions | None, workload: Mapping[str, Any], roots: Roots
) -> None:
    """Refuse a source that has no events; a stream's folder may fill later.

    Its columns have to be known all the same: from a file like those that will come, from the
    checkpoint, or from what the workload declares.
    """
    try:
        if names := workload.get("streams"):
            places = paths_by_source(path, names)
        else:
            places = {"": one_path(path)}
    except EventsError as error:
        raise ProblemError("invalid-request", f"source: {error}") from error
    if _is_named(path):
        return
    if live is None:
        roots.check_source(path)
        return
    if live.like is not None:
        roots.check_source(live.like)
    for name, place in places.items():
        stream = workload["streams"][name] if name else workload.get("stream", {})
        _check_live(place, live, bool(stream.get("attributes")), roots)


def _is_named(path: EventPath) -> bool:
    """Is it a connection, which is looked at when the job runs?

    Raises `ProblemError` where it is one of several sources.
    """
    named = [place for place in each_path(path) if place.startswith(CONNECTION)]
    if named and not isinstance(path, str):
        raise ProblemError("invalid-request", "source: of several sources, each is files")
    return bool(named)


def _check_live(path: str, live: LiveJobOptions, declared: bool, roots: Roots) -> None:
    from engines.spark.stream.kafka import KAFKA

    if path.startswith(KAFKA):
        return
    if not Path(path).is_dir():
        raise NoEventsError(f"there is no folder '{path}'; a live stream is a folder that grows")
    if live.like is None and live.checkpoint is None and not declared:
        try:
            roots.check_source(path)
        except NoEventsError as error:
            raise NoEventsError(
                f"'{path}' has no events yet to tell their columns from; give a file of events "
                "like those that will come as stream.like, or declare the columns under attributes"
            ) from error


def _check_webhook(wanted: JobIn, settings: Settings) -> None:
    """Refuse an address that nobody has allowed, and rows that are not there to be posted."""
    from engines.spark.stream.kafka import KAFKA

    if wanted.webhook is None:
        return
    check_allowed(wanted.webhook, settings.webhooks)
    elsewhere = (KAFKA, CONNECTION, *(LAKES if wanted.mode == "stream" else ()))
    if wanted.sink is not None and wanted.sink.path.startswith(elsewhere):
        raise ProblemError(
            "invalid-request", "webhook: rows go there or to Kafka or a table, not to both"
        )
    if wanted.match == "struct":
        raise ProblemError("invalid-request", "webhook: matches are posted with match 'text'")


def _check_place(
    path: str,
    live: LiveJobOptions | None,
    roots: Roots,
    settings: Settings,
    connections: Connections,
) -> None:
    """Refuse a path outside the roots, and brokers and connections that nobody has allowed."""
    from engines.spark.stream.kafka import KAFKA, topic_of

    if path.startswith(CONNECTION):
        connections.reach(path)
        if connections.get(path).is_live != (live is not None):
            kinds = "brokers of Kafka" if live is not None else "tables and paths"
            raise ProblemError("invalid-request", f"'{path}': this mode takes {kinds}")
        return
    if not path.startswith(KAFKA):
        roots.check(path)
        return
    if live is None:
        raise ProblemError("invalid-request", "source: a topic is read with mode 'stream'")
    servers, _ = topic_of(path)
    if not set(servers.split(",")) <= set(settings.brokers):
        allowed = ", ".join(settings.brokers) or "none"
        raise ProblemError(
            "path-not-allowed",
            f"the service may use these brokers: {allowed} (set with SHEAF_BROKERS)",
        )


def _check_version(plan: StoredPlan) -> None:
    """Refuse a plan that another version of Sheaf made."""
    if plan.document["version"] != VERSION:
        raise ProblemError(
            "invalid-request",
            f"{plan.id} has version {plan.document['version']}, and this Sheaf runs {VERSION}; "
            "make it again from its workload",
        )


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
