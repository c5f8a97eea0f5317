"""Several sources through every door: command line, Python, HTTP."""

import json
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

import sheaf
from api.cli.main import app
from api.client import Client
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from engines.limits import EventsError
from tests.api.service import is_problem

WORKLOAD = {
    "name": "shop",
    "streams": {
        "orders": {"time": "ts", "type": "kind", "rename": {"cust": "customer"}},
        "payments": {"time": "paid_at", "unit": "s", "types": {"Payment": "state = 'done'"}},
    },
    "queries": [
        "QUERY paid PATTERN SEQ(Order o, Payment p) WHERE [customer] AND p.amount >= o.total "
        "RETURN o.id, p.time WITHIN 10 min"
    ],
    "tests": [
        {
            "name": "a payment",
            "events": [
                {"source": "orders", "ts": 1, "kind": "Order", "cust": "a", "id": 1, "total": 5},
                {"source": "payments", "paid_at": 2, "customer": "a", "amount": 5, "state": "done"},
            ],
            "expect": {"paid": 1},
        },
        {
            "name": "refused",
            "events": [
                {"source": "orders", "ts": 1, "kind": "Order", "cust": "a", "id": 1, "total": 5},
                {"source": "payments", "paid_at": 2, "customer": "a", "amount": 5, "state": "no"},
            ],
            "expect": "none",
        },
    ],
}
ORDERS = {"ts": [1000, 2500, 9000], "kind": ["Order", "Order", "View"], "cust": ["a", "b", "a"]}
ORDERS |= {"id": [1, 2, 3], "total": [10, 20, 0]}
PAYMENTS = "paid_at,customer,amount,state\n2,a,10,done\n30,b,19,done\n95,b,25,done\n"


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, str]:
    rows = [dict(zip(ORDERS, row, strict=True)) for row in zip(*ORDERS.values(), strict=True)]
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "payments.csv").write_text(PAYMENTS)
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(WORKLOAD))
    return {"orders": f"{tmp_path}/orders.jsonl", "payments": f"{tmp_path}/payments.csv"}


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_on_the_command_line(paths: dict[str, str], tmp_path: Path) -> None:
    workload = str(tmp_path / "shop.yaml")
    events = [part for name, path in paths.items() for part in ("--events", f"{name}={path}")]
    out = str(tmp_path / "rows.jsonl")
    for engine in ("local", "oracle"):
        command("run", workload, *events, "--engine", engine, "--out", out)
        rows = [json.loads(line) for line in Path(out).read_text().splitlines()]
        assert [(row["key"], row["start"], row["end"]) for row in rows] == [
            ({"customer": "a"}, 1000, 2000),
            ({"customer": "b"}, 2500, 95_000),
        ]
    command("check", workload, *events)
    assert "2 tests" in command("test-rules", workload)
    scan = next(
        line for line in command("plan", workload, *events).splitlines() if "scan: time" in line
    )
    assert "of orders by ts, ms; payments by paid_at, s" in scan
    assert "paid gives 2 matches" in command("why", workload, "paid", *events)
    assert "2 alerts" in command("backtest", workload, *events)
    refused = CliRunner().invoke(app, ["run", workload, "--events", paths["orders"]])
    assert "say which is whose" in refused.output


def test_from_python(paths: dict[str, str]) -> None:
    document = {name: part for name, part in WORKLOAD.items() if name != "tests"}
    plan = sheaf.load(document).plan({"orders": pa.table(ORDERS), "payments": paths["payments"]})
    found = plan.run({"orders": pa.table(ORDERS), "payments": paths["payments"]})
    assert found["paid"].column("o_id").to_pylist() == [1, 2]
    assert found["paid"].column("p_time").to_pylist() == [2000, 95_000]
    with pytest.raises(EventsError, match="no events are given for 'payments'"):
        plan.run({"orders": pa.table(ORDERS)})


def test_over_http(paths: dict[str, str], tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", roots=(tmp_path,))
    with serving(create_app(settings)) as address, Client(address) as client:
        workload = client.post_workload(WORKLOAD)
        plan = client.plan(workload.id, sample=paths)
        job = client.wait(client.launch(plan.id, paths, engine="local").id)
        assert (job.status, job.source.path) == ("succeeded", paths)
        assert len(client.results(job.id).matches) == 2
        with httpx.Client(base_url=address, timeout=120) as http:
            why = http.get(f"/v1/jobs/{job.id}/why", params={"query": "paid"})
            assert why.json()["matched"] is True
            shown = http.get(f"/jobs/{job.id}").text
            assert f"payments={paths['payments']}" in shown
            for source in (paths["orders"], {"path": {"orders": paths["orders"]}}):
                body = {"plan": plan.id, "source": source, "engine": "local"}
                is_problem(http.post("/v1/jobs", json=body), 422, "invalid-request")
            outside = {"path": paths | {"orders": "/etc/hosts"}}
            body = {"plan": plan.id, "source": outside, "engine": "local"}
            is_problem(http.post("/v1/jobs", json=body), 403, "path-not-allowed")
