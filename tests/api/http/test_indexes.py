"""Indexes over HTTP: built as jobs are, told of, used, removed and cancelled."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import needed
from api.http.settings import Settings
from api.jobs import index_builds
from engines.access.index_files import FOLDER
from tests.api.service import is_problem, until

ROWS = 20_000


@pytest.fixture
def events(tmp_path: Path) -> Path:
    folder = tmp_path / "events"
    folder.mkdir()
    x = np.random.default_rng(1).integers(10, 1000, ROWS)
    x[[7000, 7010]] = 1
    table = pa.table({"ts": np.arange(ROWS), "kind": ["A"] * ROWS, "x": x})
    pq.write_table(table, folder / "e.parquet", row_group_size=2000)
    return folder


@pytest.fixture
def http(tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path,)))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def over(http: httpx.Client, id: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        told: dict[str, Any] = http.get(f"/v1/indexes/{id}").json()
        return told if told["ended"] is not None else None

    return until(found)


def test_an_index_is_built_told_of_used_by_a_job_and_removed(
    http: httpx.Client, events: Path
) -> None:
    made = http.post("/v1/indexes", json={"source": {"path": str(events)}, "on": ["x"]})
    assert made.status_code == 201
    id = made.json()["id"]
    assert made.headers["location"] == f"/v1/indexes/{id}"
    told = over(http, id)
    assert (told["status"], told["progress"]) == ("succeeded", 1.0)
    assert [(file["rows"], file["on"]) for file in told["files"]] == [(ROWS, ["x"])]
    assert [each["id"] for each in http.get("/v1/indexes").json()] == [id]
    workload = {
        "name": "w",
        "stream": {"time": "ts", "type": "kind", "unit": "ms"},
        "queries": [
            "QUERY q PATTERN SEQ(A a, A b) WHERE a.x = 1 AND b.x = 1 RETURN a.ts WITHIN 1 s"
        ],
    }
    kept = http.post("/v1/workloads", json=workload).json()["id"]
    sample = {"sample": {"path": str(events)}, "access": "index"}
    plan = http.post(f"/v1/workloads/{kept}/plans", json=sample).json()
    assert plan["access"]["row_groups"] == 1
    assert plan["access"]["of"] == 10
    assert http.delete(f"/v1/indexes/{id}").status_code == 204
    assert not (events / FOLDER).exists()
    assert is_problem(http.get(f"/v1/indexes/{id}"), 404, "not-found")


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"source": "/etc"}, 403, "path-not-allowed"),
        ({"source": {"path": "{}/nothing"}}, 422, "source-not-found"),
        ({"source": {"path": "{}/events"}, "more": 1}, 422, "invalid-request"),
    ],
)
def test_what_cannot_be_indexed_is_refused(
    http: httpx.Client, events: Path, body: dict[str, Any], status: int, problem: str
) -> None:
    if isinstance(body["source"], dict):
        body = {**body, "source": {"path": body["source"]["path"].format(events.parent)}}
    assert is_problem(http.post("/v1/indexes", json=body), status, problem)


def test_a_build_that_fails_says_why(http: httpx.Client, events: Path) -> None:
    made = http.post("/v1/indexes", json={"source": str(events), "on": ["y"]}).json()
    told = over(http, made["id"])
    assert told["status"] == "failed"
    assert "no column 'y'" in told["reason"]


def test_a_build_is_cancelled(
    http: httpx.Client, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    sleeping = (sys.executable, "-c", "import time; time.sleep(60)")
    monkeypatch.setattr(index_builds, "COMMAND", sleeping)
    id = http.post("/v1/indexes", json={"source": str(events)}).json()["id"]
    until(lambda: http.get(f"/v1/indexes/{id}").json()["status"] == "running" or None)
    answer = http.delete(f"/v1/indexes/{id}")
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    assert http.delete(f"/v1/indexes/{id}").status_code == 204


def test_a_build_that_was_under_way_goes_on_when_the_service_is_back(
    tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    settings = Settings(data=tmp_path / "data", roots=(tmp_path,))
    with monkeypatch.context() as changed:
        sleeping = (sys.executable, "-c", "import time; time.sleep(60)")
        changed.setattr(index_builds, "COMMAND", sleeping)
        with serving(create_app(settings)) as address:
            made = httpx.post(f"{address}/v1/indexes", json={"source": str(events)}).json()
    with (
        serving(create_app(settings)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        assert over(http, made["id"])["status"] == "succeeded"


def test_indexes_are_written_by_those_who_may_run_jobs() -> None:
    assert needed("POST", "/v1/indexes") == "run"
    assert needed("GET", "/v1/indexes") == "read"
