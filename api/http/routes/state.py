"""What routes get handed: the app's store and its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

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


def _part(kind: type[T], name: str) -> Callable[[Request], T]:
    """What gives the part of an app that has this name in its state."""

    def part(request: Request) -> T:
        found: T = getattr(request.app.state, name)
        return found

    return part


store = _part(Store, "store")
jobs = _part(Jobs, "jobs")
indexes = _part(IndexBuilds, "indexes")
settings = _part(Settings, "settings")
roots = _part(Roots, "roots")
uploads = _part(Uploads, "uploads")
computing = _part(ProcessPool, "computing")
metrics = _part(Metrics, "metrics")
tasks = _part(Tasks, "tasks")
remembered = _part(PlanCache, "remembered")
connections = _part(Connections, "connections")
