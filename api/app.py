"""The HTTP service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from api import problems
from api.body_limit import BodyLimit
from api.jobs import Jobs, Runner
from api.routes import health, jobs, plans, workloads
from api.store import Store

MAX_BODY = 16 * 1024 * 1024  # a workload of 10,000 queries is some 3 MB

DESCRIPTION = """\
Post a workload of event-pattern queries, look at the plan it gets, run the plan as a Spark job,
fetch the results. Errors are `application/problem+json` with a stable `type`.
"""


def create_app(runner: Runner | None = None, max_body: int = MAX_BODY) -> FastAPI:
    """The service; `runner` does the jobs, by default in a Spark session of this process."""
    if runner is None:
        from api.runner import SparkRunner

        runner = SparkRunner()

    queue = Jobs(runner)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queue.start()
        yield
        await run_in_threadpool(queue.close)

    app = FastAPI(
        title="Sheaf",
        version=version("sheaf"),
        summary="Runs many event-pattern queries as one.",
        description=DESCRIPTION,
        lifespan=lifespan,
    )
    app.state.store = Store()
    app.state.jobs = queue
    problems.install(app)
    app.add_middleware(BodyLimit, max_bytes=max_body)
    for module in (workloads, plans, jobs, health):
        app.include_router(module.router, responses=problems.responses("invalid-request"))
    return app
