"""The HTTP service."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from api.connections import read_connections
from api.http import pages, problems
from api.http.metrics import Metrics
from api.http.middleware.admission import Admission
from api.http.middleware.body_limit import BodyLimit
from api.http.middleware.etags import Etags
from api.http.middleware.idempotency import Idempotency
from api.http.middleware.request_log import RequestLog
from api.http.middleware.tokens import Access
from api.http.middleware.traces import Traces
from api.http.routes import (
    alerts,
    events,
    health,
    indexes,
    jobs,
    named_connections,
    plans,
    results,
    tasks,
    what_if,
    why,
    workloads,
)
from api.http.settings import Settings, from_environment
from api.http.tracing import tracing_from_environment
from api.jobs.data_lock import DataLock
from api.jobs.index_builds import IndexBuilds
from api.jobs.model import Job
from api.jobs.process import COMMAND
from api.jobs.queue import Jobs
from api.jobs.roots import Roots
from api.jobs.uploads import Uploads
from api.planning.cache import PlanCache
from api.planning.process_pool import ProcessPool
from api.planning.tasks import Tasks
from api.store import Store, open_database
from api.store.jobs import JobRecords
from api.store.keys import Keys

DESCRIPTION = """\
Post a workload of event-pattern queries, look at the plan it gets, run the plan as a Spark job,
fetch the results. Errors are `application/problem+json` with a stable `type`.
"""


def create_app(settings: Settings | None = None, worker: Sequence[str] = COMMAND) -> FastAPI:
    """The service; `worker` is the command that does a job in a process of its own."""
    settings = settings or from_environment()
    connections = read_connections(settings.connections)
    jobs_folder = settings.data / "jobs"
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)  # results are nobody else's
    jobs_folder.mkdir(exist_ok=True)
    lock = DataLock(settings.data)
    try:
        database = open_database(settings.database)
    except BaseException:
        lock.release()
        raise
    store = Store(database)
    uploads = Uploads(settings.data / "uploads")
    roots = Roots((*settings.roots, uploads.folder))
    computing = ProcessPool(settings.planning_seconds, memory=settings.planning_memory)
    planning = Tasks()
    records = JobRecords(database)
    metrics = Metrics(records.counts)
    tracing = tracing_from_environment()

    def ended(job: Job) -> None:
        metrics.ended(job)
        if tracing is not None:
            tracing.job_ended(job)

    queue = Jobs(
        records,
        jobs_folder,
        lambda plan: store.plan(plan).document,
        roots,
        settings.jobs_at_once,
        settings.max_queued,
        worker,
        ended,
        settings.streams_at_once,
        settings.stream_restarts,
        metrics.batch,
        settings.job_memory,
        settings.token_queued,
        settings.connections,
    )

    builds = IndexBuilds(settings.data / "indexes")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(queue.start)
        await run_in_threadpool(builds.start)
        yield
        await run_in_threadpool(builds.close)
        await run_in_threadpool(queue.close)
        await run_in_threadpool(planning.close)
        computing.close()
        database.close()
        if tracing is not None:
            await run_in_threadpool(tracing.close)
        lock.release()

    app = FastAPI(
        title="Sheaf",
        version=version("sheaf"),
        summary="Runs many event-pattern queries as one.",
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages take their scripts from another host
        redoc_url=None,
    )
    app.state.store = store
    app.state.jobs = queue
    app.state.indexes = builds
    app.state.closing = threading.Event()  # set when the service stops: what is open is to end
    app.state.settings = settings
    app.state.connections = connections
    app.state.metrics = metrics
    app.state.roots = roots
    app.state.uploads = uploads
    app.state.computing = computing
    app.state.tasks = planning
    app.state.remembered = PlanCache()
    problems.install(app)
    # The last is the first to see a request.
    app.add_middleware(Etags)
    app.add_middleware(Idempotency, keys=Keys(database))
    app.add_middleware(BodyLimit, max_bytes=settings.max_body)
    app.add_middleware(Admission, settings=settings)
    if settings.tokens:
        app.add_middleware(Access, tokens=settings.tokens)
    app.add_middleware(pages.Session)
    app.add_middleware(RequestLog, metrics=metrics)
    if tracing is not None:
        app.add_middleware(Traces, tracing=tracing)
    parts = (
        workloads,
        plans,
        what_if,
        tasks,
        jobs,
        results,
        alerts,
        why,
        indexes,
        named_connections,
        events,
        health,
    )
    for module in parts:
        app.include_router(module.router, responses=problems.responses("invalid-request"))
    pages.install(app)
    return app
