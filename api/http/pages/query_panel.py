"""What a plan's page shows of one query."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from api.http.problems import ProblemError
from api.http.routes.state import handed, store
from api.store import Store
from optimizer.explain.query_text import query_facts

router = APIRouter(prefix="/pages")


@router.get("/plans/{id}/query")
def plan_query(
    id: str,
    name: Annotated[str, Query(max_length=1000)],
    store: Annotated[Store, handed(store)],
) -> dict[str, Any]:
    """What a plan does for one query: its text, its cost, and what it shares with whom."""
    plan = store.plan(id).plan
    if name not in plan.queries:
        raise ProblemError("not-found", f"plan '{id}' has no query '{name}'")
    return query_facts(plan, name)
