"""`/v1/jobs/{id}/alerts`: how many rows each query of a job gave, by day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter
from fastapi.responses import Response

from api.explaining.alerts import COLUMNS, alert_rules_of, alerts_by_rule
from api.http.alert_schemas import AlertsOut
from api.http.problems import ProblemError, responses
from api.http.routes.state import computing, handed, jobs, store
from api.jobs.queue import Jobs
from api.jobs.rows import Rows
from api.planning.process_pool import ProcessPool
from api.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get(
    "/{id}/alerts",
    response_model=AlertsOut,
    responses=responses("not-found", "results-not-ready", "busy", "failed"),
)
def get_alerts(
    id: str,
    jobs: Annotated[Jobs, handed(jobs)],
    store: Annotated[Store, handed(store)],
    computing: Annotated[ProcessPool, handed(computing)],
) -> Response:
    """How many alerts each query raised, by day: what a backtest over stored events asks for."""
    job = jobs.records.get(id)
    found = jobs.rows(job)
    if found is None:
        raise ProblemError("results-not-ready", f"the job is {job.status}")
    rules = computing.call(alert_rules_of, store.plan(job.request.plan).document["document"])
    try:
        counted = alerts_by_rule(rules, _rows(found))
    except FileNotFoundError as error:
        raise ProblemError("not-found", f"the job {id} was deleted in the meantime") from error
    answer = AlertsOut(job=id, **counted)
    return Response(answer.model_dump_json(), media_type="application/json")


def _rows(found: Rows) -> Iterator[pa.RecordBatch]:
    for kind in found.kinds(None):
        yield from found.pieces(kind, None, 0, found.total(kind), COLUMNS)
