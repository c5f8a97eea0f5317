"""Rows go to tables of Delta and Iceberg from the command line and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from api.cli.main import app as command_line
from api.client import Client, ServiceError
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.engines.results.test_lake_sinks import KINDS, read

WORKLOAD = {
    "name": "w",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": ["QUERY pairs PATTERN SEQ(A a, B b) RETURN b.x WITHIN 10 s"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    (tmp_path / "w.json").write_text(json.dumps(WORKLOAD))
    (tmp_path / "events.csv").write_text("ts,kind,x\n1,A,1\n2,B,2\n")
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    settings = Settings(data=folder / "data", roots=(folder,), webhooks=("http://127.0.0.1",))
    with serving(create_app(settings)) as address, Client(address) as made:
        yield made


def run(folder: Path, *arguments: str) -> Result:
    given = [str(folder / "w.json"), "--events", str(folder / "events.csv"), *arguments]
    return CliRunner().invoke(command_line, ["run", *given])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_the_command_line_writes_a_table(kind: str, engine: str, folder: Path) -> None:
    out = folder / "found"
    result = run(folder, "--out", f"{kind}:{out}", "--engine", engine)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [str(out)]
    assert [row["match"] for row in read(kind, out)] == ['{"b":{"x":2}}']


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--out", "delta:nowhere/found"], "there is no folder 'nowhere'"),
        (["--out", "delta:"], "write delta:PATH"),
        (["--out", "delta:found.parquet", "--tables"], "--tables are files of each query"),
        (["--out", "delta:found.parquet", "--webhook", "http://a"], "--webhook posts rows of"),
    ],
)
def test_what_a_table_cannot_have_is_refused(folder: Path, arguments: list[str], why: str) -> None:
    result = run(folder, *arguments)
    assert result.exit_code != 0
    assert why in " ".join(result.output.split())


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_writes_a_table(kind: str, folder: Path, client: Client) -> None:
    plan = client.plan(client.post_workload(WORKLOAD).id)
    out, events = folder / "found", folder / "events.csv"

    def launch(sink: str, **more: Any) -> Any:
        return client.launch(plan.id, str(events), f"{kind}:{sink}", **more)

    job = client.wait(launch(str(out), engine="local").id)
    assert (job.status, job.files) == ("succeeded", [str(out)])
    assert [row["match"] for row in read(kind, out)] == ['{"b":{"x":2}}']
    with pytest.raises(ServiceError, match="is not under a folder that the service may use"):
        launch("/elsewhere/found", engine="local")
    with pytest.raises(ServiceError, match="there is no folder"):
        launch(str(folder / "no" / "found"), engine="local")
    hook = "http://127.0.0.1/rows"
    with pytest.raises(ServiceError, match="to Kafka or a table, not to both"):
        launch(str(folder / "live"), mode="stream", stream={"once": True}, webhook=hook)
