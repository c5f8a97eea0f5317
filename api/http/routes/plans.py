"""`/v1/plans`: a plan as JSON, as text, as a picture."""

from __future__ import annotations

from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Query, Request, Response

from api.http.problems import responses
from api.http.routes.paging import LINK, Cursor, Limit, Order, listed
from api.http.routes.state import handed, store
from api.http.schemas import PlanOut, PlanSummary
from api.http.views import plan_body, plan_summary
from api.store import Store
from optimizer.explain.svg import render_svg

router = APIRouter(prefix="/v1/plans", tags=["plans"])

_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "image/svg+xml": {"schema": {"type": "string"}},
        }
    }
}


@router.get("", response_model=list[PlanSummary], responses={200: LINK})
def list_plans(
    request: Request,
    store: Annotated[Store, handed(store)],
    workload: Annotated[str | None, Query(description="Only plans of this workload.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    order: Order = "desc",
) -> Response:
    """Plans, the newest first or in the order they were made."""
    return listed(request, store.plans(workload, limit, cursor, order == "desc"), plan_summary)


@router.get(
    "/{id}",
    response_model=PlanOut,
    responses={**responses("not-found"), **_FORMATS},
)
def get_plan(
    id: str,
    store: Annotated[Store, handed(store)],
    format: OneOf["json", "text", "svg"] = "json",
) -> Response:
    """One plan, in the format asked for."""
    stored = store.plan(id)
    match format:
        case "text":
            return Response(stored.text, media_type="text/plain; charset=utf-8")
        case "svg":
            return Response(render_svg(stored.plan), media_type="image/svg+xml")
        case "json":
            return Response(plan_body(stored), media_type="application/json")


@router.delete("/{id}", status_code=204, responses=responses("not-found", "in-use"))
def delete_plan(id: str, store: Annotated[Store, handed(store)]) -> Response:
    """Delete a plan; refused while jobs need it, also those that are over."""
    store.delete_plan(id)
    return Response(status_code=204)
