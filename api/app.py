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
from api.settings import Settings, from_environment
from api.store import Store, open_database

DESCRIPTION = """\
Post a workload of event-pattern queries, look at the plan it gets, run the plan as a Spark job,
fetch the results. Errors are `application/problem+json` with a stable `type`.
"""


def create_app(settings: Settings | None = None, runner: Runner | None = None) -> FastAPI:
    """The service; `runner` does the jobs, by default in a Spark session of this process."""
    settings = settings or from_environment()
    if runner is None:
        from api.runner import SparkRunner

        runner = SparkRunner()

    settings.data.mkdir(parents=True, exist_ok=True)
    database = open_database(settings.database)
    queue = Jobs(runner)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queue.start()
        yield
        await run_in_threadpool(queue.close)
        database.close()

    app = FastAPI(
        title="Sheaf",
        version=version("sheaf"),
        summary="Runs many event-pattern queries as one.",
        description=DESCRIPTION,
        lifespan=lifespan,
    )
    app.state.store = Store(database)
    app.state.jobs = queue
    problems.install(app)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body)
    for module in (workloads, plans, jobs, health):
        app.include_router(module.router, responses=problems.responses("invalid-request"))
    return app
