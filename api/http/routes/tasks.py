"""`/v1/tasks`: plans that are being made while nobody waits for the answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from api.http.problems import responses
from api.http.routes.state import handed, settings, tasks
from api.http.schemas import TaskOut
from api.http.settings import Settings
from api.http.views import task_out
from api.planning.tasks import Tasks

router = APIRouter(prefix="/v1/tasks", tags=["plans"])


@router.get("/{id}", responses=responses("not-found"))
def get_task(
    id: str,
    tasks: Annotated[Tasks, handed(tasks)],
    settings: Annotated[Settings, handed(settings)],
) -> TaskOut:
    """A workload that is being planned: what it is at, and the plan when there is one."""
    return task_out(tasks.get(id), settings.planning_seconds)


@router.delete("/{id}", status_code=202, responses=responses("not-found"))
def delete_task(
    id: str,
    tasks: Annotated[Tasks, handed(tasks)],
    settings: Annotated[Settings, handed(settings)],
) -> TaskOut:
    """Stop planning; a task that is over stays as it is."""
    return task_out(tasks.cancel(id), settings.planning_seconds)
