"""The whole way over HTTP, with jobs that Spark really runs."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.csv
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.jobs.process import session
from engines.input.batches import read_events
from engines.results.tables import sorted_results
from optimizer.bind.binder import load_bound
from tests.running import run_local
from workloads import bundled
from workloads.generators import write_events


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    data = tmp_path_factory.mktemp("data")
    roots = (tmp_path_factory.getbasetemp(), Path.cwd())
    app = create_app(Settings(data=data, roots=roots))
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


# Each job on Spark starts a JVM of its own, which takes seconds.
ENGINES = [pytest.param("spark", marks=pytest.mark.spark), "local"]


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_those_of_the_local_engine(
    client: httpx.Client, plan: str, events: Path, tmp_path: Path, engine: str
) -> None:
    body = {
        "plan": plan,
        "source": {"path": str(events)},
        "sink": {"path": str(tmp_path / "out.csv")},
        "engine": engine,
        "master": "local[2]",
    }
    job = run(client, body)
    assert (job["status"], job["events"]) == ("succeeded", 2_000), job["reason"]
    assert job["seconds"].keys() >= {"read", "run", "write"}
    found = client.get(f"/v1/jobs/{job['id']}/results", params={"limit": 100_000}).json()

    bound = load_bound(bundled.path("hospital"))
    here = sorted_results(run_local(bound, read_events(str(events), bound.stream)))
    for kind, table in (("aggregates", here.aggregates), ("matches", here.matches)):
        expected = table.to_pylist()
        for row in expected:
            for name in ("key", "match"):
                if row.get(name) is not None:
                    row[name] = json.loads(row[name])
        assert found[kind] == expected
        assert found["total"][kind] == job["rows"][kind] == len(expected) > 0
        written = tmp_path / f"out.{kind}.csv"
        assert pyarrow.csv.read_csv(written).num_rows == len(expected)
    operators = client.get(f"/v1/jobs/{job['id']}/operators").json()["operators"]
    queries = Counter(row["query"] for kind in ("aggregates", "matches") for row in found[kind])
    outputs = [o for o in operators if o["kind"] == "output"]
    assert {o["about"].split(":")[0]: o["rows_out"] for o in outputs} == {
        query.name: queries[query.name] for query in bound.queries
    }
    assert [o["rows_out"] for o in operators if o["kind"] == "scan"] == [2_000]
    # Behind the scan, what two tasks need is counted twice. Events are laid out once for counters,
    # once for trees, and once where ALL tells simultaneous ones apart.
    most = 2_000 if engine == "local" else 4_000
    counters = [o for o in operators if o["kind"] == "counter"]
    assert all(0 < o["rows_in"] <= most for o in counters)
    partitions = [o for o in operators if o["kind"] == "partition"]
    assert all(0 < o["rows_in"] <= 3 * most for o in partitions)
    assert job["files"] == [str(tmp_path / f"out.{kind}.csv") for kind in job["rows"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.aggregates.csv",
        "out.matches.csv",
    ]


def test_a_job_says_which_queries_were_stopped_at_a_limit(
    client: httpx.Client, events: Path
) -> None:
    document = {
        "name": "limited",
        "stream": {"time": "ts", "unit": "s", "type": "step"},
        "limits": {"partial_matches": 30},
        "queries": [
            "QUERY much PATTERN SEQ(Washing a, Checking b, Operating c) RETURN a.ts WITHIN 1 hour",
            "QUERY little PATTERN SEQ(Washing a, Operating b) WHERE [id] RETURN a.ts WITHIN 1 hour",
        ],
    }
    workload = client.post("/v1/workloads", json=document).json()
    made = client.post(f"/v1/workloads/{workload['id']}/plans", json={}).json()
    body = {"plan": made["id"], "source": {"path": str(events)}, "engine": "local"}
    job = run(client, body)
    assert job["status"] == "succeeded", job["reason"]
    assert job["stopped"].keys() == {"much"}
    assert "the limit is 30" in job["stopped"]["much"]
    rows = client.get(f"/v1/jobs/{job['id']}/results").json()["matches"]
    assert {row["query"] for row in rows} == {"little"}


def test_a_job_over_events_of_another_kind_fails_with_a_reason(
    client: httpx.Client, plan: str, tmp_path: Path
) -> None:
    path = write_events(bundled.stream("shop", events=10), tmp_path / "shop.parquet")
    job = run(client, {"plan": plan, "source": {"path": str(path)}, "engine": "local"})
    assert job["status"] == "failed"
    assert "no column 'step'" in job["reason"]
    assert "Traceback" in client.get(f"/v1/jobs/{job['id']}/log").text


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_cancelling_a_job_on_spark_ends_all_its_processes(
    client: httpx.Client, plan: str, events: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    body = {"plan": plan, "source": {"path": str(events)}, "master": "local[2]"}
    id = client.post("/v1/jobs", json=body).json()["id"]
    data = tmp_path_factory.getbasetemp()
    worker = 0
    while not (worker and session(worker)):  # the JVM, started by the job's process
        locks = list(data.glob(f"data*/jobs/{id}/lock"))
        worker = int(locks[0].read_text() or 0) if locks else 0
        time.sleep(0.01)
    assert client.delete(f"/v1/jobs/{id}").status_code == 202
    assert over(client, id)["status"] == "cancelled"
    assert session(worker) == []
    assert not list(data.glob(f"data*/jobs/{id}/tmp"))


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
    assert plan["cost"]["unit"] == "nanoseconds per second of stream"
