"""What a workload states, what is measured, and that each door makes the same plan of both."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.cli.main import app
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.planning.plan_on_events import plan_on_events
from workloads.loading import load_workload

EVENTS = 130_000  # more than are sampled
QUERIES = [
    "QUERY counted PATTERN SEQ(A a, B b) WHERE a.x > 2 PARTITION BY user AGG COUNT(*) WITHIN 1 s",
    "QUERY found PATTERN SEQ(B b, C c) WHERE b.x < c.x PARTITION BY user RETURN b.x WITHIN 9 ms",
]
ALL: dict[str, Any] = {
    "rates": {"A": 300.0, "B": 300.0, "C": 300.0},
    "selectivities": {"A.x > 2": 0.5, "B.x < C.x": 0.4},
    "keys": {"user": {"cardinality": 50, "heaviest": 0.02}},
}
SOME: dict[str, Any] = {"rates": {"A": 300.0}}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream whose end is not like its beginning."""
    random = np.random.default_rng(1)
    kinds = np.where(np.arange(EVENTS) < EVENTS // 2, *random.choice(list("ABC"), (2, EVENTS)))
    kinds[EVENTS - 20_000 :] = "C"
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    columns = {
        "ts": np.arange(EVENTS),
        "kind": kinds,
        "user": random.integers(0, 40, EVENTS),
        "x": random.integers(0, 10, EVENTS),
    }
    pq.write_table(pa.table(columns), path)
    return path


def document(statistics: dict[str, Any] | None) -> dict[str, Any]:
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    stated = {} if statistics is None else {"statistics": statistics}
    return {"name": "t", "stream": stream, **stated, "queries": QUERIES}


@pytest.mark.parametrize("statistics", [None, SOME, ALL], ids=["none", "some", "all"])
def test_each_door_makes_the_same_plan_of_the_same_events(
    statistics: dict[str, Any] | None, events: Path, tmp_path: Path
) -> None:
    workload = tmp_path / "w.json"
    workload.write_text(json.dumps(document(statistics)))
    given = [str(workload), "--events", str(events)]
    shown = CliRunner().invoke(app, ["plan", *given])
    assert shown.exit_code == 0, shown.output
    ran = CliRunner().invoke(app, ["run", *given, "--json"])
    assert ran.exit_code == 0, ran.output
    settings = Settings(data=tmp_path / "data", roots=(events.parent,))
    with (
        serving(create_app(settings)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        posted = client.post("/v1/workloads", json=document(statistics)).json()
        asked = {"sample": {"path": str(events)}}
        served = client.post(f"/v1/workloads/{posted['id']}/plans", json=asked).json()
    ids = {
        shown.output.partition(":")[0],
        str(re.search(r'"plan": "([^"]+)"', ran.output)[1]),  # type: ignore[index]
        served["id"],
        plan_on_events(load_workload(document(statistics)), str(events)).id,
    }
    assert len(ids) == 1


def test_what_is_stated_is_taken_and_the_rest_is_measured(events: Path) -> None:
    plan = plan_on_events(load_workload(document(SOME)), str(events))
    assert plan.rates["A"] == 300.0
    kinds = pq.read_table(events).column("kind").to_pylist()
    first = kinds[: plan.statistics["sample"]["events"]]
    seconds = (len(first) - 1) / 1000
    assert plan.rates["B"] == pytest.approx(first.count("B") / seconds)
    assert plan.statistics["keys"]["user"]["cardinality"] == 40
    assert plan.assumed == ()


def test_nothing_is_measured_where_all_is_stated(events: Path) -> None:
    plan = plan_on_events(load_workload(document(ALL)), str(events))
    assert plan.rates == ALL["rates"]
    assert plan.statistics["source"] == "given"
    assert plan.statistics["keys"]["user"]["cardinality"] == 50
