"""Cancelling keeps what there is; deleting is a call of its own, for jobs, plans and workloads."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.client import AsyncClient, Client, ServiceError
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from tests.api.service import at_work, finished, is_problem, posted_job, posted_plan


@pytest.fixture
def client(pretend: list[str], tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(Settings(data=tmp_path / "data", roots=(Path.cwd(), tmp_path)), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def test_a_cancel_that_comes_too_late_keeps_the_results(client: httpx.Client) -> None:
    id = posted_job(client, "fine")["id"]
    finished(client, id)
    late = client.post(f"/v1/jobs/{id}/cancel")
    assert (late.status_code, late.json()["status"]) == (200, "succeeded")
    for _ in range(2):
        problem = is_problem(client.delete(f"/v1/jobs/{id}"), 409, "job-over")
        assert f"DELETE /v1/jobs/{id}?results=delete" in problem["detail"]
    assert client.get(f"/v1/jobs/{id}/results").json()["total"] == {"aggregates": 3, "matches": 1}


@pytest.mark.parametrize("ways", ["post", "delete"])
def test_a_job_that_runs_is_cancelled(client: httpx.Client, ways: str) -> None:
    id = posted_job(client, "waits")["id"]
    at_work(client, id)
    kept = client.delete(f"/v1/jobs/{id}", params={"results": "delete"})
    assert "cancel it first" in is_problem(kept, 409, "in-use")["detail"]
    address = f"/v1/jobs/{id}"
    answer = client.post(f"{address}/cancel") if ways == "post" else client.delete(address)
    assert (answer.status_code, answer.json()["id"]) == (202, id)
    assert finished(client, id)["status"] == "cancelled"


def test_a_job_is_deleted_with_its_results_when_that_is_asked_for(
    client: httpx.Client, tmp_path: Path
) -> None:
    id = posted_job(client, "fine")["id"]
    finished(client, id)
    folder = tmp_path / "data" / "jobs" / id
    assert folder.is_dir()
    assert client.delete(f"/v1/jobs/{id}", params={"results": "delete"}).status_code == 204
    is_problem(client.get(f"/v1/jobs/{id}"), 404, "not-found")
    assert not folder.exists()
    odd = client.delete(f"/v1/jobs/{id}", params={"results": "yes"})
    is_problem(odd, 422, "invalid-request")


def test_plans_and_workloads_are_deleted_once_no_job_needs_them(client: httpx.Client) -> None:
    job = posted_job(client, "fine")
    plan, workload = f"/v1/plans/{job['plan']}", f"/v1/workloads/{job['workload']}"
    finished(client, job["id"])
    for address in (plan, workload):
        problem = is_problem(client.delete(address), 409, "in-use")
        assert job["id"] in problem["detail"]
    client.delete(f"/v1/jobs/{job['id']}", params={"results": "delete"})
    assert client.delete(plan).status_code == 204
    is_problem(client.get(plan), 404, "not-found")
    is_problem(client.delete(plan), 404, "not-found")
    # The workload can be planned again, though the question has been answered before.
    assert posted_plan(client)["id"] == job["plan"]
    assert client.delete(workload).status_code == 204
    for address in (workload, f"{workload}/versions", plan):
        is_problem(client.get(address), 404, "not-found")
    assert client.get("/v1/plans").json() == client.get("/v1/workloads").json() == []


def test_a_deleted_workload_starts_again_at_version_1_and_gets_plans_of_its_own(
    client: httpx.Client,
) -> None:
    first = posted_plan(client)
    client.delete(f"/v1/workloads/{first['workload']}")
    queries: Any = EXAMPLE_WORKLOAD["queries"]
    other = EXAMPLE_WORKLOAD | {"queries": queries[:1]}
    posted = client.post("/v1/workloads", json=other).json()
    assert (posted["version"], len(posted["queries"])) == (1, 1)
    again = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    address = f"/v1/workloads/{again['id']}/plans"
    assert client.post(address, json={"version": 2}).json()["id"] == first["id"]
    plan = client.post(address, json={"version": 1}).json()
    assert plan["queries"] == ["purchases"]


def test_both_clients_cancel_and_delete(client: httpx.Client) -> None:
    here = str(client.base_url)
    job = posted_job(client, "fine")
    finished(client, job["id"])
    with Client(here) as sheaf:
        assert sheaf.cancel(job["id"]).status == "succeeded"
        with pytest.raises(ServiceError, match=job["id"]):
            sheaf.delete_plan(job["plan"])
        sheaf.delete_job(job["id"])
        sheaf.delete_plan(job["plan"])
        sheaf.delete_workload(job["workload"])
    job = posted_job(client, "fine")
    finished(client, job["id"])

    async def in_the_same_words() -> None:
        async with AsyncClient(here) as sheaf:
            assert (await sheaf.cancel(job["id"])).status == "succeeded"
            await sheaf.delete_job(job["id"])
            await sheaf.delete_plan(job["plan"])
            await sheaf.delete_workload(job["workload"])

    asyncio.run(in_the_same_words())
    assert client.get("/v1/workloads").json() == []
