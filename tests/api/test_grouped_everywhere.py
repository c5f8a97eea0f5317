"""GROUP BY through every door: the rows are those of the reference."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sheaf
from api.cli.main import app as command_line
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from engines.input.event_table import column_kinds, from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import bind
from tests.api.http.test_service import over
from workloads.loading import load_workload

SEQUENCE = "PATTERN SEQ(A a, B b)"
DOCUMENT: dict[str, Any] = {
    "name": "grouped",
    "stream": {"time": "ts", "unit": "ms", "type": "kind", "lateness": "0 s"},
    "queries": [
        f"QUERY last {SEQUENCE} AGG COUNT(*), SUM(b.x) GROUP BY b.user WITHIN 60 ms",
        f"QUERY first {SEQUENCE} PARTITION BY x AGG COUNT(*) GROUP BY a.user AS who"
        " HAVING COUNT(*) > 1 WITHIN 80 ms SLIDE 20 ms",
        "QUERY single PATTERN A a AGG COUNT(*), AVG(a.x) GROUP BY a.user WITHIN 60 ms SLIDE 30 ms",
        f"QUERY direct {SEQUENCE} STRATEGY STRICT AGG COUNT(*) GROUP BY b.user WITHIN 60 ms",
        f"QUERY next {SEQUENCE} STRATEGY NEXT AGG COUNT(*) GROUP BY a.user WITHIN 60 ms",
        f"QUERY compared {SEQUENCE} WHERE a.x < b.x AGG COUNT(*) GROUP BY a.user, b.user AS other"
        " WITHIN 60 ms",
    ],
}
Rows = Counter[tuple[Any, ...]]


def rows_of(table: pa.Table) -> Rows:
    """Rows, whose keys are texts of JSON."""
    columns = ("query", "time", "aggregate", "value", "count", "exact")
    return Counter(
        (json.dumps(json.loads(row["key"]), sort_keys=True), *(row[name] for name in columns))
        for row in table.to_pylist()
    )


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files, some of whose groups are null."""
    draw, number = np.random.default_rng(8), 400
    folder = tmp_path_factory.mktemp("events")
    table = pa.table(
        {
            "ts": np.cumsum(draw.integers(0, 6, number)),
            "kind": draw.choice(list("ABC"), number),
            "user": pa.array(draw.choice(["u", "v", None], number, p=[0.4, 0.4, 0.2])),
            "x": draw.integers(0, 4, number),
        }
    )
    for place, start in enumerate((0, 200)):
        path = folder / f"{place}.parquet"
        pq.write_table(table.slice(start, 200), path)
        os.utime(path, (1_700_000_000 + place,) * 2)  # by which a stream takes them
    return folder


@pytest.fixture(scope="module")
def expected(events: Path) -> Rows:
    table = ds.dataset(events).to_table()
    bound = bind(load_workload(DOCUMENT), column_kinds(table.schema))
    found = run_oracle(bound, from_table(table, bound.stream)).aggregates
    assert set(found["query"].to_pylist()) == {text.split()[1] for text in DOCUMENT["queries"]}
    return rows_of(found)


@pytest.mark.parametrize("engine", ["local", "spark", "oracle"])
def test_the_command_line(engine: str, events: Path, expected: Rows, tmp_path: Path) -> None:
    workload, out = tmp_path / "grouped.json", tmp_path / "rows.parquet"
    workload.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    arguments = ["run", workload, "--events", events, "--engine", engine, "--out", out]
    result = CliRunner().invoke(command_line, list(map(str, arguments)))
    assert result.exit_code == 0, result.stderr
    assert rows_of(pq.read_table(out)) == expected


def test_python(events: Path, expected: Rows) -> None:
    table = ds.dataset(events).to_table()
    for given in (table, events):
        found = sheaf.load(DOCUMENT).plan(given).run(given)
        assert rows_of(found.aggregates) == expected


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("data")
    app = create_app(Settings(data=folder, roots=(tmp_path_factory.getbasetemp(),)))
    with serving(app) as address, httpx.Client(base_url=address, timeout=120) as client:
        yield client


@pytest.mark.spark
@pytest.mark.parametrize(
    "way",
    [
        {"engine": "local"},
        {"engine": "spark"},
        {"mode": "stream", "stream": {"once": True, "finish": True, "buckets": 2, "files": 1}},
    ],
    ids=["local", "spark", "stream"],
)
def test_jobs(
    way: dict[str, Any], client: httpx.Client, events: Path, expected: Rows, tmp_path: Path
) -> None:
    workload = client.post("/v1/workloads", json=DOCUMENT).json()["id"]
    plan = client.post(f"/v1/workloads/{workload}/plans", json={"sample": str(events)}).json()
    sink = tmp_path / ("rows" if "mode" in way else "rows.parquet")
    body = {"plan": plan["id"], "source": str(events), "master": "local[2]", "sink": str(sink)}
    posted = client.post("/v1/jobs", json={**body, **way})
    assert posted.status_code == 201, posted.text
    job = over(client, posted.json()["id"])
    assert job["status"] == "succeeded", job["reason"]
    found = sink if sink.is_file() else sink / "aggregates"
    assert rows_of(ds.dataset(found, format="parquet").to_table()) == expected
