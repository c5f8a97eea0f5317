"""What routes get handed: the app's store and its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from fastapi import Depends, Request

from api.connections import Connections
from api.http.metrics import Metrics
from api.http.settings import Settings
from api.jobs.index_builds import IndexBuilds
from api.jobs.queue import Jobs
from api.jobs.roots import Roots
from api.jobs.uploads import Uploads
from api.planning.cache import PlanCache
from api.planning.process_pool import ProcessPool
from api.planning.tasks import Tasks
from api.store import Store

T = TypeVar("T")


def handed(part: Callable[[Request], T]) -> Any:
    """A dependency on a part of the app; a plain function would be called in another thread."""

    async def given(request: Request) -> T:
        return part(request)

    return Depends(given)


def store(request: Request) -> Store:
    return cast(Store, request.app.state.store)


def jobs(request: Request) -> Jobs:
    return cast(Jobs, request.app.state.jobs)


def indexes(request: Request) -> IndexBuilds:
    return cast(IndexBuilds, request.app.state.indexes)


def settings(request: Request) -> Settings:
    return cast(Settings, request.app.state.settings)


def roots(request: Request) -> Roots:
    return cast(Roots, request.app.state.roots)


def uploads(request: Request) -> Uploads:
    return cast(Uploads, request.app.state.uploads)


def computing(request: Request) -> ProcessPool:
    return cast(ProcessPool, request.app.state.computing)


def metrics(request: Request) -> Metrics:
    return cast(Metrics, request.app.state.metrics)


def tasks(request: Request) -> Tasks:
    return cast(Tasks, request.app.state.tasks)


def remembered(request: Request) -> PlanCache:
    return cast(PlanCache, request.app.state.remembered)


def connections(request: Request) -> Connections:
    return cast(Connections, request.app.state.connections)
