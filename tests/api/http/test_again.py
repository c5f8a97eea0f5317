"""Asking again: idempotency keys, ETags, lists in pages; and the documentation's examples."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from sqlalchemy import text

from api.http import row_schemas, schemas, what_if_schemas, why_schemas
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from api.store import open_database
from tests.api.service import finished, is_problem, posted_job, posted_plan


@pytest.fixture
def client(pretend: list[str], tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(Settings(data=tmp_path / "data"), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


# --- idempotency keys ---------------------------------------------------------------------------


def keyed(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


def test_a_job_posted_again_with_its_key_is_one_job(client: httpx.Client) -> None:
    body = {"plan": posted_plan(client)["id"], "source": "fine"}
    first = client.post("/v1/jobs", json=body, headers=keyed("k1"))
    finished(client, first.json()["id"])
    again = client.post("/v1/jobs", json=body, headers=keyed("k1"))
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert client.post("/v1/jobs", json=body, headers=keyed("k2")).json() != first.json()
    assert len(client.get("/v1/jobs").json()) == 2


def test_a_key_belongs_to_one_request(client: httpx.Client) -> None:
    body = {"plan": posted_plan(client)["id"], "source": "fine"}
    client.post("/v1/jobs", json=body, headers=keyed("k1"))
    other = client.post("/v1/jobs", json=body | {"source": "other"}, headers=keyed("k1"))
    is_problem(other, 422, "key-mismatch")
    elsewhere = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD, headers=keyed("k1"))
    is_problem(elsewhere, 422, "key-mismatch")
    for key in ("", "a b", "x" * 201):
        is_problem(client.post("/v1/jobs", json=body, headers=keyed(key)), 422, "invalid-request")


def test_what_was_refused_can_be_posted_again_with_its_key(client: httpx.Client) -> None:
    body = {"plan": "plan-none", "source": "fine"}
    for _ in range(2):
        is_problem(client.post("/v1/jobs", json=body, headers=keyed("k")), 404, "not-found")


def test_a_job_posted_many_times_at_once_is_one_job(client: httpx.Client) -> None:
    body = {"plan": posted_plan(client)["id"], "source": "fine"}
    codes: list[int] = []

    def post() -> None:
        codes.append(client.post("/v1/jobs", json=body, headers=keyed("k")).status_code)

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {201, 409}
    assert 201 in codes
    assert len(client.get("/v1/jobs").json()) == 1


@pytest.mark.parametrize("was_made", [True, False])
def test_a_key_whose_service_was_killed_makes_one_job(
    pretend: list[str], tmp_path: Path, was_made: bool
) -> None:
    """The job may have been made, though nobody was told."""
    settings = Settings(data=tmp_path / "data")

    def post() -> Any:
        app = create_app(settings, pretend)
        with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
            body = {"plan": posted_plan(client)["id"], "source": "fine"}
            response = client.post("/v1/jobs", json=body, headers=keyed("k"))
            assert response.status_code == 201
            assert response.headers["location"] == f"/v1/jobs/{response.json()['id']}"
            finished(client, response.json()["id"])
            return response.json()["id"], len(client.get("/v1/jobs").json())

    first, _ = post()
    database = open_database(settings.database)
    with database.write() as session:
        session.execute(text("UPDATE idempotency_keys SET status=NULL, body=NULL"))
        if not was_made:
            session.execute(text("UPDATE idempotency_keys SET made=NULL"))
    database.close()
    second, number = post()
    assert (second == first, number) == ((True, 1) if was_made else (False, 2))


# --- ETags --------------------------------------------------------------------------------------


def test_what_is_known_is_not_sent_again(client: httpx.Client) -> None:
    plan = posted_plan(client)
    job = posted_job(client, "fine")
    finished(client, job["id"])
    for address in (
        "/v1/workloads",
        f"/v1/workloads/{plan['workload']}",
        f"/v1/plans/{plan['id']}",
        f"/v1/plans/{plan['id']}?format=svg",
        f"/v1/jobs/{job['id']}",
        f"/v1/jobs/{job['id']}/results",
        f"/v1/jobs/{job['id']}/results?format=csv&kind=matches",
    ):
        first = client.get(address)
        assert first.status_code == 200
        etag = first.headers["etag"]
        for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            again = client.get(address, headers={"if-none-match": known})
            assert (again.status_code, again.content) == (304, b""), address
            assert again.headers["etag"] == etag
        other = client.get(address, headers={"if-none-match": '"other"'})
        assert (other.status_code, other.content) == (200, first.content)


def test_an_etag_changes_with_the_answer(client: httpx.Client) -> None:
    client.post("/v1/workloads", json=EXAMPLE_WORKLOAD)
    before = client.get("/v1/workloads").headers["etag"]
    client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": "other"})
    assert client.get("/v1/workloads").headers["etag"] != before
    assert "etag" not in client.get("/v1/workloads/none").headers


# --- pages --------------------------------------------------------------------------------------


def pages(client: httpx.Client, address: str) -> list[list[Any]]:
    found = []
    response = client.get(address)
    while True:
        assert response.status_code == 200
        found.append(response.json())
        if "next" not in response.links:
            return found
        response = client.get(response.links["next"]["url"])


def test_lists_come_in_pages(client: httpx.Client) -> None:
    plan = posted_plan(client)
    for number in range(4):
        client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": f"w{number}"})
    jobs = [posted_job(client, "fine")["id"] for _ in range(5)]
    assert [len(page) for page in pages(client, "/v1/workloads?limit=2")] == [2, 2, 1]
    found = pages(client, "/v1/jobs?limit=2")
    assert [job["id"] for page in found for job in page] == jobs[::-1]
    for id in jobs:
        finished(client, id)
    assert [len(page) for page in pages(client, "/v1/jobs?status=succeeded&limit=3")] == [3, 2]
    assert pages(client, "/v1/jobs?status=queued") == [[]]
    (listed,) = pages(client, f"/v1/plans?workload={plan['workload']}")
    assert [p["id"] for p in listed] == [plan["id"]]
    assert pages(client, "/v1/plans?workload=none") == [[]]


@pytest.mark.parametrize("given", ["limit=0", "limit=1001", "cursor=x", "cursor=-1", "status=odd"])
def test_a_page_that_cannot_be_is_a_problem(client: httpx.Client, given: str) -> None:
    response = client.get(f"/v1/jobs?{given}")
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"


# --- examples -----------------------------------------------------------------------------------


def test_every_call_is_documented_with_an_example(client: httpx.Client) -> None:
    api = client.get("/openapi.json").json()
    known = api["components"]["schemas"]

    def has_example(content: dict[str, Any]) -> bool:
        schema = content.get("schema", {})
        schema = schema.get("items", schema.get("anyOf", [schema])[0])
        named = known.get(schema.get("$ref", "").rpartition("/")[2], schema)
        fields = named.get("properties", {}).values()
        return (
            "example" in content
            or "example" in named
            or (fields and all("examples" in field for field in fields))
        )

    without = []
    for path, calls in api["paths"].items():
        for method, call in calls.items():
            bodies = [call["requestBody"]] if "requestBody" in call else []
            answers = [a for status, a in call["responses"].items() if status.startswith("2")]
            for place in bodies + answers:
                contents = place.get("content", {})
                if contents and not any(map(has_example, contents.values())):
                    without.append((method, path))
    assert without == []


@pytest.mark.parametrize(
    "model",
    [
        schemas.WorkloadSummary,
        schemas.WorkloadOut,
        schemas.ExplainOut,
        schemas.PlanOut,
        schemas.PlanSummary,
        schemas.JobOut,
        row_schemas.ResultsOut,
        schemas.PlanIn,
        schemas.JobIn,
        what_if_schemas.WhatIfOut,
        what_if_schemas.OtherWindow,
        why_schemas.BehindOut,
    ],
)
def test_examples_are_what_they_show(model: type[BaseModel]) -> None:
    example: Any = model.model_config["json_schema_extra"]["example"]
    read = model.model_validate(example)
    shown = read.model_dump(mode="json", exclude_unset=True, by_alias=True)
    assert shown.keys() == example.keys()
