"""`/healthz`, `/readyz`, `/metrics`: is it alive, will it take jobs, and how does it do?"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from api.http.metrics import Metrics
from api.http.problems import ProblemError, responses
from api.http.routes.state import handed, jobs, metrics
from api.jobs.queue import Jobs

router = APIRouter(tags=["health"])


_METRICS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"example": 'sheaf_jobs{status="running"} 1.0'}}}
}


class Health(BaseModel):
    status: str = Field(default="ok", examples=["ok"])


@router.get("/healthz")
def healthz() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz", responses=responses("unavailable"))
def readyz(jobs: Annotated[Jobs, handed(jobs)]) -> Health:
    """Jobs are run, and the store answers."""
    if not jobs.is_alive:
        raise ProblemError("unavailable", "the thread that runs jobs is not running")
    if not jobs.records.answers():
        raise ProblemError("unavailable", "the store does not answer")
    return Health()


@router.get("/metrics", response_class=PlainTextResponse, responses=_METRICS)
def get_metrics(metrics: Annotated[Metrics, handed(metrics)]) -> Response:
    """What the service counts and measures, for Prometheus."""
    return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)
