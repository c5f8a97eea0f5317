"""`/v1/plans`: a plan as JSON, as text, as a picture."""

from __future__ import annotations

from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Depends, Response

from api.problems import responses
from api.routes.state import store
from api.schemas import PlanOut
from api.store import Store
from api.views import plan_out
from optimizer.physical.svg import render_svg
from optimizer.physical.text import render_text

router = APIRouter(prefix="/v1/plans", tags=["plans"])

_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "image/svg+xml": {"schema": {"type": "string"}},
        }
    }
}


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
            return Response(render_text(stored.plan), media_type="text/plain; charset=utf-8")
        case "svg":
            return Response(render_svg(stored.plan), media_type="image/svg+xml")
        case "json":
            return plan_out(stored)
