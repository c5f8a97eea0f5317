"""`/v1/plans/{id}/what-if` and `/windows`: what a plan would cost with other queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from api.http.problems import ProblemError, responses
from api.http.routes.state import computing, handed, settings, store
from api.http.what_if_schemas import OtherWindow, WhatIfIn, WhatIfOut
from api.planning.process_pool import ProcessPool
from api.planning.service import SEARCH_SHARE
from api.planning.what_if import Changes, other_windows, what_if
from api.store import Store

router = APIRouter(prefix="/v1/plans", tags=["plans"])

_REFUSED = (
    *("not-found", "invalid-request", "invalid-workload", "failed"),
    *("planning-too-long", "planning-too-large", "too-many-candidates", "busy"),
)


@router.post("/{id}/what-if", responses=responses(*_REFUSED))
def post_what_if(
    id: str,
    asked: WhatIfIn,
    request: Request,
    store: Annotated[Store, handed(store)],
    computing: Annotated[ProcessPool, handed(computing)],
) -> WhatIfOut:
    """What a plan would cost, and look like, without some queries or with other windows.

    It is planned by the statistics and the costs of the plan that is asked about, as that was.
    Nothing is kept: post the changed workload to keep it.
    """
    changes = Changes(tuple(asked.without), asked.windows)
    document = dict(store.plan(id).document)
    return WhatIfOut(**computing.call(what_if, document, changes, *_bounds(request)))


@router.get("/{id}/windows", responses=responses(*_REFUSED))
def get_windows(
    id: str,
    query: Annotated[str, Query(max_length=1_000, description="A query of the plan.")],
    request: Request,
    store: Annotated[Store, handed(store)],
    computing: Annotated[ProcessPool, handed(computing)],
) -> list[OtherWindow]:
    """What a plan would cost if a query had the window of another that reads events it reads.

    At most six windows are tried, those nearest to its own; the cheapest comes first.
    """
    document = dict(store.plan(id).document)
    if query not in document["queries"]:
        raise ProblemError("not-found", f"plan '{id}' has no query '{query}'")
    found = computing.call(other_windows, document, query, *_bounds(request))
    return [OtherWindow(**each) for each in found]


def _bounds(request: Request) -> tuple[int, float]:
    """How many candidates a plan may have, and how long it may be searched for."""
    given = settings(request)
    return given.max_candidates, SEARCH_SHARE * given.planning_seconds
