"""`/healthz` and `/readyz`: is the process alive, and will it take jobs?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.jobs.queue import Jobs
from api.problems import ProblemError, responses
from api.routes.state import jobs

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str = Field(default="ok", examples=["ok"])


@router.get("/healthz")
def healthz() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz", responses=responses("unavailable"))
def readyz(jobs: Annotated[Jobs, Depends(jobs)]) -> Health:
    """The thread that runs jobs is there."""
    if not jobs.is_alive:
        raise ProblemError("unavailable", "the thread that runs jobs is not running")
    return Health()
