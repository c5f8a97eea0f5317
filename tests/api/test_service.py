"""The whole way over HTTP, with jobs that Spark really runs."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from api.app import create_app
from api.embedded import serving
from api.runner import SparkRunner
from api.settings import Settings
from engines.events import from_table, read_table
from engines.local.run import run_local
from engines.results import sorted_results
from optimizer.bind import load_bound
from workloads import bundled
from workloads.generators import write_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def client(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    app = create_app(Settings(tmp_path_factory.mktemp("data")), SparkRunner(spark))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    return write_events(bundled.stream("hospital", events=2_000), folder / "e.parquet")


@pytest.fixture(scope="module")
def plan(client: httpx.Client) -> str:
    workload = client.post(
        "/v1/workloads",
        content=bundled.path("hospital").read_bytes(),
        headers={"content-type": "application/yaml"},
    ).json()
    made: dict[str, Any] = client.post(f"/v1/workloads/{workload['id']}/plans", json={}).json()
    return str(made["id"])


def run(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/v1/jobs", json=body)
    assert response.status_code == 201, response.text
    return over(client, response.json()["id"])


def over(client: httpx.Client, id: str) -> dict[str, Any]:
    while True:
        job: dict[str, Any] = client.get(f"/v1/jobs/{id}").json()
        if job["status"] in ("succeeded", "failed", "cancelled"):
            return job
        time.sleep(0.05)


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_results_are_those_of_the_local_engine(
    client: httpx.Client, plan: str, events: Path, engine: str
) -> None:
    job = run(client, {"plan": plan, "source": {"path": str(events)}, "engine": engine})
    assert (job["status"], job["events"]) == ("succeeded", 2_000), job["reason"]
    assert job["seconds"].keys() >= {"read", "run"}
    found = client.get(f"/v1/jobs/{job['id']}/results", params={"limit": 100_000}).json()

    bound = load_bound(bundled.path("hospital"))
    here = sorted_results(run_local(bound, from_table(read_table(str(events)), bound.stream)))
    for kind, table in (("aggregates", here.aggregates), ("matches", here.matches)):
        expected = table.to_pylist()
        for row in expected:
            for name in ("key", "match"):
                if row.get(name) is not None:
                    row[name] = json.loads(row[name])
        assert found[kind] == expected
        assert found["total"][kind] == len(expected) > 0


def test_results_are_written_to_the_sink(
    client: httpx.Client, plan: str, events: Path, tmp_path: Path
) -> None:
    body = {
        "plan": plan,
        "source": {"path": str(events)},
        "sink": {"path": str(tmp_path / "out.parquet")},
    }
    job = run(client, body)
    assert job["files"] == [str(tmp_path / f"out.{kind}.parquet") for kind in job["rows"]]
    for kind, path in zip(job["rows"], job["files"], strict=True):
        assert read_table(path).num_rows == job["rows"][kind]


def test_a_job_over_a_missing_file_fails_with_a_reason(client: httpx.Client, plan: str) -> None:
    job = run(client, {"plan": plan, "source": {"path": "no-such-file.parquet"}})
    assert job["status"] == "failed"
    assert "there is no file 'no-such-file.parquet'" in job["reason"]


def test_a_job_over_events_of_another_kind_fails_with_a_reason(
    client: httpx.Client, plan: str, tmp_path: Path
) -> None:
    path = write_events(bundled.stream("shop", events=10), tmp_path / "shop.parquet")
    job = run(client, {"plan": plan, "source": {"path": str(path)}})
    assert job["status"] == "failed"
    assert "no column 'step'" in job["reason"]


def test_a_running_job_is_cancelled_and_the_next_one_runs(
    client: httpx.Client, plan: str, events: Path
) -> None:
    body = {"plan": plan, "source": {"path": str(events)}}
    first = client.post("/v1/jobs", json=body).json()["id"]
    while client.get(f"/v1/jobs/{first}").json()["stage"] != "run":
        time.sleep(0.01)
    assert client.delete(f"/v1/jobs/{first}").status_code == 202
    assert over(client, first)["status"] == "cancelled"
    assert run(client, body)["status"] == "succeeded"


def test_a_plan_can_be_made_from_a_sample_of_events(client: httpx.Client, events: Path) -> None:
    document = {
        "name": "bare",
        "stream": {"time": "ts", "unit": "s", "type": "step"},
        "queries": ["PATTERN SEQ(Washing w, Operating o) AGG COUNT(*) WITHIN 1 min"],
    }
    id = client.post("/v1/workloads", json=document).json()["id"]
    body = {"sample": {"path": str(events)}}
    plan = client.post(f"/v1/workloads/{id}/plans", json=body).json()
    assert plan["rates"].keys() == {"Operating", "Washing"}
    assert plan["cost"]["unit"] == "operations per window"
