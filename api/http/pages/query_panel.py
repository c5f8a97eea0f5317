"""What a plan's page shows of its queries: of one, and a row of each."""

from __future__ import annotations

from typing import Annotated, Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Query

from api.http.problems import ProblemError
from api.http.routes.state import handed, store
from api.store import Store, StoredPlan
from optimizer.explain.query_text import query_facts, query_table
from optimizer.explain.text import PlanText

router = APIRouter(prefix="/pages")

# Who uses what is worked out once for each plan that the store holds.
_TEXTS: WeakKeyDictionary[StoredPlan, PlanText] = WeakKeyDictionary()


@router.get("/plans/{id}/query")
def plan_query(
    id: str,
    name: Annotated[str, Query(max_length=1000)],
    store: Annotated[Store, handed(store)],
) -> dict[str, Any]:
    """What a plan does for one query: its text, its cost, and what it shares with whom."""
    stored = store.plan(id)
    if name not in stored.plan.queries:
        raise ProblemError("not-found", f"plan '{id}' has no query '{name}'")
    text = _TEXTS.setdefault(stored, PlanText(stored.plan))
    return query_facts(text, name)


@router.get("/plans/{id}/queries")
def plan_queries(id: str, store: Annotated[Store, handed(store)]) -> list[dict[str, Any]]:
    """What each query of a plan costs, and with how many others it shares."""
    stored = store.plan(id)
    return query_table(_TEXTS.setdefault(stored, PlanText(stored.plan)))
