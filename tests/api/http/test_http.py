"""The HTTP interface, with jobs that only pretend to run; Spark is in test_service.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from optimizer.plan.plan import from_json
from tests.api.service import at_work, finished, is_problem, posted_job, posted_plan
from workloads import bundled

HALF_A_CHARACTER = json.dumps(EXAMPLE_WORKLOAD | {"name": "\ud800"})


@pytest.fixture
def fresh(pretend: list[str], tmp_path: Path) -> Iterator[httpx.Client]:
    """A service of the test's own."""
    app = create_app(Settings(data=tmp_path / "data"), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def client(pretend: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service that all tests share."""
    roots = (Path.cwd(), tmp_path_factory.getbasetemp())
    settings = Settings(data=tmp_path_factory.mktemp("data"), max_body=200_000, roots=roots)
    app = create_app(settings, pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


# --- workloads ---------------------------------------------------------------------------------


def test_a_workload_is_stored_and_can_be_fetched(client: httpx.Client) -> None:
    response = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD)
    assert response.status_code == 201
    body = response.json()
    assert response.headers["location"] == f"/v1/workloads/{body['id']}"
    assert client.get(f"/v1/workloads/{body['id']}").json() == body
    assert [query["name"] for query in body["queries"]] == ["purchases", "abandoned"]
    assert body["types"] == ["Buy", "Cart", "View"]
    assert body["document"]["queries"] == EXAMPLE_WORKLOAD["queries"]
    listed = client.get("/v1/workloads").json()
    assert [w["queries"] for w in listed if w["id"] == body["id"]] == [2]


@pytest.mark.parametrize("media", ["application/yaml", "application/x-yaml", "text/yaml"])
def test_a_workload_may_be_yaml(client: httpx.Client, media: str) -> None:
    as_json = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    response = client.post(
        "/v1/workloads",
        content=yaml.safe_dump(EXAMPLE_WORKLOAD),
        headers={"content-type": media},
    )
    assert response.status_code == 201
    assert response.json()["id"] == as_json["id"]


@pytest.mark.parametrize("name", bundled.names())
def test_bundled_workloads_are_accepted(client: httpx.Client, name: str) -> None:
    response = client.post(
        "/v1/workloads",
        content=bundled.path(name).read_bytes(),
        headers={"content-type": "application/yaml"},
    )
    assert response.status_code == 201


def test_all_errors_of_a_workload_come_together_with_line_and_column(client: httpx.Client) -> None:
    document = {
        "name": "wrong",
        "stream": {"time": "ts", "type": "kind", "types": ["A", "B"]},
        "queries": [
            "QUERY q1\nPATTERN SEQ(A a, Bee b)\nAGG COUNT(*) WITHIN 1 min",
            "QUERY q2\nPATTERN SEQ(A a, B b\nAGG COUNT(*) WITHIN 1 min",
        ],
    }
    before = client.get("/v1/workloads").json()
    response = client.post("/v1/workloads", json=document)
    problem = is_problem(response, 422, "invalid-workload")
    by_query = {finding["query"]: finding for finding in problem["diagnostics"]}
    assert by_query.keys() == {"q1", "q2"}
    assert (by_query["q1"]["line"], by_query["q1"]["column"]) == (2, 18)
    assert by_query["q1"]["message"] == "unknown type 'Bee'"
    assert by_query["q1"]["hint"]
    assert by_query["q2"]["line"] == 3
    assert client.get("/v1/workloads").json() == before


@pytest.mark.parametrize(
    ("content", "media", "status", "kind"),
    [
        (b'{"name": ', "application/json", 400, "invalid-json"),
        (b"[1, 2]", "application/json", 422, "invalid-request"),
        (b"\xff\xfe", "application/json", 400, "invalid-json"),
        (b"[" * 100_000, "application/json", 400, "invalid-json"),
        (b'{"name": ' + b"9" * 5_000 + b"}", "application/json", 400, "invalid-json"),
        (b"name: " + b"9" * 5_000, "application/yaml", 422, "invalid-workload"),
        (b"a: [", "application/yaml", 422, "invalid-workload"),
        (b"{}", "application/json", 422, "invalid-workload"),
        (HALF_A_CHARACTER.encode(), "application/json", 422, "invalid-workload"),
        (b'{"\\ud800": 1}', "application/json", 422, "invalid-workload"),
        (b"name: x", "text/csv", 415, "unsupported-media-type"),
        (b" " * 200_001, "application/json", 413, "too-large"),
    ],
)
def test_a_bad_body_is_a_problem(
    client: httpx.Client, content: bytes, media: str, status: int, kind: str
) -> None:
    response = client.post("/v1/workloads", content=content, headers={"content-type": media})
    is_problem(response, status, kind)


def test_a_body_that_hides_its_length_is_limited_too(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    response = client.post(
        "/v1/workloads", content=chunks(), headers={"content-type": "application/json"}
    )
    is_problem(response, 413, "too-large")


def test_a_changed_workload_is_a_new_version(client: httpx.Client) -> None:
    first = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": "changes"}).json()
    assert (first["version"], first["latest"]) == (1, 1)
    fewer = EXAMPLE_WORKLOAD | {"name": "changes", "queries": EXAMPLE_WORKLOAD["queries"][:1]}
    second = client.post("/v1/workloads", json=fewer).json()
    assert (second["id"], second["version"]) == (first["id"], 2)
    address = f"/v1/workloads/{first['id']}"
    assert client.put(address, json=fewer).json() == second
    back = client.put(address, json=EXAMPLE_WORKLOAD | {"name": "changes"}).json()
    assert (back["version"], back["document"]) == (3, first["document"])
    assert client.get(address).json() == back
    assert client.get(f"{address}?version=2").json() == second | {"latest": 3}
    assert [v["version"] for v in client.get(f"{address}/versions").json()] == [3, 2, 1]
    is_problem(client.get(f"{address}?version=4"), 404, "not-found")
    is_problem(client.get(f"{address}?version=0"), 422, "invalid-request")


def test_a_workload_keeps_its_name(client: httpx.Client) -> None:
    address = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).headers["location"]
    other = EXAMPLE_WORKLOAD | {"name": "other"}
    problem = is_problem(client.put(address, json=other), 422, "invalid-request")
    assert "'other'" in problem["detail"]
    is_problem(client.put("/v1/workloads/none", json=other), 404, "not-found")


@pytest.mark.parametrize("name", ["a\x00b", "ø/../x", "x" * 1000])
def test_any_name_will_do(client: httpx.Client, name: str) -> None:
    body = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": name}).json()
    assert body["name"] == name
    assert client.get(f"/v1/workloads/{body['id']}").json() == body


# --- plans -------------------------------------------------------------------------------------


def test_a_plan_is_made_and_can_be_fetched(client: httpx.Client) -> None:
    workload = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    response = client.post(
        f"/v1/workloads/{workload['id']}/plans",
        json={"solver": "cpsat", "model": "measured", "statistics": {"rates": {"View": 1.0}}},
    )
    assert response.status_code == 201
    plan = response.json()
    assert response.headers["location"] == f"/v1/plans/{plan['id']}"
    assert plan["workload"] == workload["id"]
    assert (plan["solver"], plan["model"]) == ("cpsat", "measured")
    assert plan["rates"] == {"View": 1.0, "Cart": 1.0, "Buy": 1.0}
    assert plan["assumed"] == ["rates: Cart", "rates: Buy", "keys: user"]
    assert client.get(f"/v1/plans/{plan['id']}").json() == plan
    assert [group["queries"] for group in plan["groups"]] == [["purchases"], ["abandoned"]]
    assert from_json(plan).id == plan["id"]  # it can be run from its JSON


def test_a_plan_says_which_version_it_is_of(client: httpx.Client) -> None:
    document = EXAMPLE_WORKLOAD | {"name": "planned twice"}
    id = client.post("/v1/workloads", json=document).json()["id"]
    changed = document | {"queries": EXAMPLE_WORKLOAD["queries"][:1]}
    client.post("/v1/workloads", json=changed)
    latest, first = (
        client.post(f"/v1/workloads/{id}/plans", json=body).json() for body in ({}, {"version": 1})
    )
    assert (latest["workload_version"], latest["queries"]) == (2, ["purchases"])
    assert (first["workload_version"], len(first["queries"])) == (1, 2)
    assert client.get(f"/v1/plans/{first['id']}").json() == first


def test_a_plan_needs_no_body(client: httpx.Client) -> None:
    workload = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    assert client.post(f"/v1/workloads/{workload['id']}/plans").status_code == 201


def test_a_plan_is_shown_as_text_and_as_a_picture(client: httpx.Client) -> None:
    plan = posted_plan(client)
    text = client.get(f"/v1/plans/{plan['id']}?format=text")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text.startswith(plan["id"])
    picture = client.get(f"/v1/plans/{plan['id']}", params={"format": "svg"})
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.text.startswith("<svg")


@pytest.mark.parametrize(
    "body",
    [
        {"solver": "luck"},
        {"modle": "aseq"},
        {"statistics": {"rates": {"A": -1}}},
        {"statistics": {"rates": {"A": "many"}}},
    ],
)
def test_a_bad_request_for_a_plan_is_a_problem(client: httpx.Client, body: dict[str, Any]) -> None:
    workload = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    is_problem(
        client.post(f"/v1/workloads/{workload['id']}/plans", json=body), 422, "invalid-request"
    )


# --- jobs --------------------------------------------------------------------------------------


def test_a_job_runs_and_its_results_can_be_fetched(client: httpx.Client) -> None:
    job = posted_job(client, "events.parquet")
    assert job["status"] in ("queued", "running", "succeeded")
    over = finished(client, job["id"])
    assert (over["status"], over["reason"], over["events"]) == ("succeeded", None, 7)
    assert over["rows"] == {"aggregates": 3, "matches": 1}
    results = client.get(f"/v1/jobs/{job['id']}/results").json()
    assert results["total"] == {"aggregates": 3, "matches": 1}
    assert results["aggregates"][0] == {
        "query": "purchases",
        "key": {"user": "u1"},
        "time": 10,
        "seq": None,
        "aggregate": "COUNT(*)",
        "value": 2.0,
        "count": 2,
        "exact": True,
    }
    assert results["matches"][0]["match"] == {"c": {"item": "case", "price": 9.5}}
    assert job["id"] in [j["id"] for j in client.get("/v1/jobs").json()]


def test_a_path_may_be_a_plain_text(client: httpx.Client) -> None:
    body = {"plan": posted_plan(client)["id"], "source": "events.parquet"}
    job = client.post("/v1/jobs", json=body).json()
    assert job["source"] == {"path": "events.parquet"}


def test_results_come_in_pages_and_by_query(client: httpx.Client) -> None:
    id = posted_job(client, "events.parquet")["id"]
    finished(client, id)
    page = client.get(f"/v1/jobs/{id}/results?offset=1&limit=1").json()
    assert [row["time"] for row in page["aggregates"]] == [20]
    assert page["matches"] == []
    only = client.get(f"/v1/jobs/{id}/results?query=abandoned").json()
    assert only["total"] == {"aggregates": 0, "matches": 1}
    is_problem(client.get(f"/v1/jobs/{id}/results?query=other"), 404, "not-found")
    is_problem(client.get(f"/v1/jobs/{id}/results?limit=-1"), 422, "invalid-request")


def test_a_job_that_fails_says_why(client: httpx.Client) -> None:
    id = posted_job(client, "missing")["id"]
    job = finished(client, id)
    assert (job["status"], job["reason"]) == ("failed", "there are no events at 'missing'")
    problem = is_problem(client.get(f"/v1/jobs/{id}/results"), 409, "results-not-ready")
    assert "there are no events" in problem["detail"]


def test_a_bug_fails_its_job_and_no_other(client: httpx.Client) -> None:
    first, second = posted_job(client, "bug"), posted_job(client, "fine")
    assert finished(client, first["id"])["reason"] == "ZeroDivisionError: division by zero"
    assert "it was here" in client.get(f"/v1/jobs/{first['id']}/log").text
    assert finished(client, second["id"])["status"] == "succeeded"


def test_jobs_wait_for_one_another_and_can_be_cancelled(
    fresh: httpx.Client, tmp_path: Path
) -> None:
    client = fresh
    running, waiting = posted_job(client, "waits"), posted_job(client, "never")
    assert at_work(client, running["id"])["progress"] == {"done": 1, "known": 4}
    now = client.get(f"/v1/jobs/{waiting['id']}").json()
    assert (now["status"], now["position"]) == ("queued", 1)
    is_problem(client.get(f"/v1/jobs/{running['id']}/results"), 409, "results-not-ready")

    response = client.delete(f"/v1/jobs/{waiting['id']}")
    assert (response.status_code, response.json()["status"]) == (202, "cancelled")
    assert client.delete(f"/v1/jobs/{running['id']}").status_code == 202
    over = finished(client, running["id"])
    assert (over["status"], over["reason"]) == ("cancelled", "cancelled while it ran")
    assert (tmp_path / "data/jobs/ran").read_text().split() == [running["id"]]


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"plan": "plan-none"}, 404, "not-found"),
        ({"mode": "stream", "engine": "local"}, 422, "invalid-request"),
        ({"mode": "later"}, 422, "invalid-request"),
        ({"source": {}}, 422, "invalid-request"),
        ({"sink": {"path": "out.xlsx"}}, 422, "failed"),
        ({"sink": {"path": "no/such/folder/out.csv"}}, 422, "failed"),
    ],
)
def test_a_bad_request_for_a_job_is_a_problem(
    client: httpx.Client, change: dict[str, Any], status: int, kind: str
) -> None:
    body = {"plan": posted_plan(client)["id"], "source": {"path": "x.parquet"}} | change
    is_problem(client.post("/v1/jobs", json=body), status, kind)


# --- the rest ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v1/workloads/none",
        "/v1/plans/none",
        "/v1/jobs/none",
        "/v1/jobs/none/results",
        "/v1/nothing",
        "/nothing",
    ],
)
def test_what_is_not_there_is_a_problem(client: httpx.Client, path: str) -> None:
    is_problem(client.get(path), 404, "not-found")


def test_a_wrong_method_is_a_problem(client: httpx.Client) -> None:
    response = client.put("/v1/workloads")
    is_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"]


def test_health(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}


def test_the_documentation_names_every_route_and_problem(client: httpx.Client) -> None:
    api = client.get("/openapi.json").json()
    assert {
        "/v1/workloads",
        "/v1/workloads/{id}",
        "/v1/workloads/{id}/versions",
        "/v1/workloads/{id}/explain",
        "/v1/workloads/{id}/plans",
        "/v1/plans/{id}/what-if",
        "/v1/plans/{id}/windows",
        "/v1/jobs/{id}/behind",
        "/v1/jobs/{id}/alerts",
        "/v1/connections",
        "/v1/events",
        "/v1/uploads",
        "/v1/uploads/{name}",
        "/v1/indexes",
        "/v1/indexes/{id}",
        "/v1/plans",
        "/v1/plans/{id}",
        "/v1/tasks/{id}",
        "/v1/jobs",
        "/v1/jobs/{id}",
        "/v1/jobs/{id}/cancel",
        "/v1/jobs/{id}/log",
        "/v1/jobs/{id}/operators",
        "/v1/jobs/{id}/why",
        "/v1/jobs/{id}/results",
        "/v1/jobs/{id}/events",
        "/healthz",
        "/readyz",
        "/metrics",
    } == api["paths"].keys()
    problem = api["paths"]["/v1/workloads"]["post"]["responses"]["422"]
    assert "application/problem+json" in problem["content"]
    assert "ProblemOut" in api["components"]["schemas"]


def test_nothing_is_written(client: httpx.Client, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    finished(client, posted_job(client, "events.parquet")["id"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rate", [1e100, 1e308])
def test_rates_beyond_all_numbers_are_a_problem(client: httpx.Client, rate: float) -> None:
    wide = ["QUERY q PATTERN SEQ(View v, Cart+ c, Buy b) RETURN v WITHIN 1000 day"]
    document = {**EXAMPLE_WORKLOAD, "queries": [*EXAMPLE_WORKLOAD["queries"], *wide]}
    rates = dict.fromkeys(("View", "Cart", "Buy"), rate)
    posted = client.post("/v1/workloads", json={**document, "statistics": {"rates": rates}})
    address = f"/v1/workloads/{posted.json()['id']}"
    is_problem(client.post(f"{address}/plans"), 422, "failed")
    is_problem(client.get(f"{address}/explain"), 422, "failed")
    given = client.post(f"{address}/plans", json={"statistics": {"rates": rates}})
    is_problem(given, 422, "invalid-request")


def test_statistics_of_keys_ties_and_the_whole_stream_are_taken(client: httpx.Client) -> None:
    workload = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    keys = {"user": {"cardinality": 40, "heaviest": 0.2}}
    given = {"rates": {"View": 1.0}, "keys": keys, "ties": 0.1, "events": 50, "span": 5.0}
    url = f"/v1/workloads/{workload['id']}/plans"
    plan = client.post(url, json={"statistics": given}).json()
    assert plan["assumed"] == ["rates: Cart", "rates: Buy"]
    assert plan["statistics"]["keys"] == keys
    assert (plan["statistics"]["ties"], plan["statistics"]["events"]) == (0.1, 50)
    wrong = client.post(url, json={"statistics": {"keys": {"user": {"cardinality": 0}}}})
    assert wrong.status_code == 422


@pytest.mark.parametrize("odd", ["\\ud800", "a\\u0000b"])
def test_text_that_cannot_be_stored_is_no_error_of_the_services(
    address: str, tmp_path: Path, odd: str
) -> None:
    """Half a character, and the character 0, which PostgreSQL does not take."""
    settings = Settings(data=tmp_path / "data", store=address, roots=(tmp_path,))
    (tmp_path / "events.csv").write_text("ts\n1\n")
    body = f'{{"plan": "{odd}", "source": "{tmp_path / "events.csv"}"}}'
    with serving(create_app(settings)) as at, httpx.Client(base_url=at) as client:
        headers = {"content-type": "application/json"}
        found = client.post("/v1/jobs", content=body, headers=headers)
        assert found.status_code in (404, 422), found.text
        assert client.get("/v1/plans/a%00b").status_code in (404, 422)
