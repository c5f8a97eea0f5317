"""`/v1/plans`: a plan as JSON, as text, as a picture."""

from __future__ import annotations

from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Depends, Query, Request, Response

from api.problems import responses
from api.routes.paging import LINK, Cursor, Limit, linked
from api.routes.state import store
from api.schemas import PlanOut, PlanSummary
from api.store import Store
from api.views import plan_out, plan_summary
from optimizer.physical.svg import render_svg

router = APIRouter(prefix="/v1/plans", tags=["plans"])

_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "image/svg+xml": {"schema": {"type": "string"}},
        }
    }
}


@router.get("", responses={200: LINK})
def list_plans(
    request: Request,
    response: Response,
    store: Annotated[Store, Depends(store)],
    workload: Annotated[str | None, Query(description="Only plans of this workload.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> list[PlanSummary]:
    """Plans in the order they were made."""
    page = linked(request, response, store.plans(workload, limit, cursor))
    return [plan_summary(stored) for stored in page]


@router.get(
    "/{id}",
    response_model=PlanOut,
    response_model_exclude_none=True,
    responses={**responses("not-found"), **_FORMATS},
)
def get_plan(
    id: str,
    store: Annotated[Store, Depends(store)],
    format: OneOf["json", "text", "svg"] = "json",
) -> PlanOut | Response:
    """One plan, in the format asked for."""
    stored = store.plan(id)
    match format:
        case "text":
            return Response(stored.text, media_type="text/plain; charset=utf-8")
        case "svg":
            return Response(render_svg(stored.plan), media_type="image/svg+xml")
        case "json":
            return plan_out(stored)
