"""A service with jobs that only pretend to run, and what tests ask of it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pyarrow as pa

from api.http.schemas import EXAMPLE_WORKLOAD
from engines.results.tables import Results, aggregate_schema, match_schema
from engines.results.writers import write_results

T = TypeVar("T")

PATIENCE = 30.0  # seconds; a busy machine may need some of them

AGGREGATES = pa.Table.from_pylist(
    [
        {
            "query": "purchases",
            "key": '{"user": "u1"}',
            "time": time,
            "seq": None,
            "aggregate": "COUNT(*)",
            "value": 2.0,
            "count": 2,
            "exact": True,
        }
        for time in (10, 20, 30)
    ],
    schema=aggregate_schema(pa.int64()),
)
MATCHES = pa.Table.from_pylist(
    [
        {
            "query": "abandoned",
            "key": '{"user": "u1"}',
            "start": 5,
            "end": 5,
            "time": 300_005,
            "match": '{"c": {"item": "case", "price": 9.5}}',
        }
    ],
    schema=match_schema(pa.int64()),
)


def write_rows(folder: Path) -> None:
    """The results that `tests/api/pretend.py` hands out."""
    write_results(Results(AGGREGATES, MATCHES), str(folder / "results.parquet"), True, True)


def until(found: Callable[[], T | None]) -> T:
    """What it gives as soon as it gives something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (value := found()) is not None and value is not False:
            return value
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def posted_plan(client: httpx.Client) -> dict[str, Any]:
    workload = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    plan: dict[str, Any] = client.post(f"/v1/workloads/{workload['id']}/plans", json={}).json()
    return plan


def posted_job(client: httpx.Client, source: str, **more: Any) -> dict[str, Any]:
    body = {"plan": posted_plan(client)["id"], "source": {"path": source}, **more}
    response = client.post("/v1/jobs", json=body)
    assert response.status_code == 201, response.text
    job: dict[str, Any] = response.json()
    return job


def job_that(client: httpx.Client, id: str, is_so: Callable[[dict[str, Any]], bool]) -> Any:
    """The job, once it is so."""

    def look() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/v1/jobs/{id}").json()
        return job if is_so(job) else None

    return until(look)


def finished(client: httpx.Client, id: str) -> Any:
    return job_that(client, id, lambda job: job["finished"] is not None)


def at_work(client: httpx.Client, id: str) -> Any:
    """The job, once its process has said that it runs."""
    return job_that(client, id, lambda job: job["progress"] is not None)


def is_problem(response: Any, status: int, kind: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["type"] == f"urn:sheaf:problem:{kind}"
    assert problem["status"] == status
    assert problem["detail"]
    return problem
