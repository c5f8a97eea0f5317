"""What routes get handed: the app's store and its jobs."""

from __future__ import annotations

from typing import cast

from fastapi import Request

from api.jobs.queue import Jobs
from api.store import Store


def store(request: Request) -> Store:
    return cast(Store, request.app.state.store)


def jobs(request: Request) -> Jobs:
    return cast(Jobs, request.app.state.jobs)
