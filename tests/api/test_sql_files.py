"""A file of SQL statements is a workload: on the command line, over HTTP, in Python."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import sheaf
from api.cli.main import app as command_line
from api.client import Client
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from workloads.errors import WorkloadError

FALLS = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(x) AS f "
    "PATTERN (S D+) DEFINE D AS x < PREV(x))"
)
RISES = FALLS.replace("x < PREV", "x > PREV")
STATEMENTS = f"-- prices\n{FALLS};\n\n/* and\nback */ {RISES} ;\n"
EVENTS = "ts,k,x\n1,a,5\n2,a,3\n3,a,4\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "prices.sql").write_text(STATEMENTS)
    return tmp_path / "prices.sql"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    settings = Settings(data=tmp_path / "data", roots=(tmp_path,))
    with serving(create_app(settings)) as address:
        yield address


def test_the_command_line_takes_it(file: Path) -> None:
    found = CliRunner().invoke(command_line, ["check", str(file)])
    assert found.stdout.startswith("prices: ok, 2 queries"), found.stderr
    arguments = ["run", str(file), "--events", str(file.with_name("events.csv"))]
    found = CliRunner().invoke(command_line, arguments)
    assert "prices_1" in found.stdout
    assert "f=5" in found.stdout
    assert "f=3" in found.stdout


def test_one_statement_has_the_name_of_its_file(file: Path) -> None:
    file.write_text(FALLS)
    assert [query.name for query in sheaf.load(file).queries] == ["prices"]
    assert sheaf.load(file).stream.time == "ts"
    assert [query.name for query in sheaf.load(STATEMENTS).queries] == ["workload_1", "workload_2"]


def test_the_service_takes_it(file: Path, service: str) -> None:
    with Client(service) as client:
        posted = client.post_workload(file)
        assert posted.name == "prices"
        assert client.workload_text(posted.id).startswith("name: prices\n")
        assert client.put_workload(posted.id, file).version == posted.version
    headers = {"content-type": "application/sql"}
    sent = httpx.post(
        f"{service}/v1/workloads?name=others", content=STATEMENTS.encode(), headers=headers
    )
    assert sent.status_code == 201
    assert sent.json()["name"] == "others"
    refused = httpx.post(f"{service}/v1/workloads", content=b"SELECT 1", headers=headers)
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FALLS};{RISES.replace('BY ts', 'BY at')}", "order rows by ts and at"),
        (FALLS.replace("ORDER BY ts", ""), "no statement orders rows by a column"),
        (FALLS.replace("(S D+)", "(S D+"), "query prices, line 1, column"),
    ],
)
def test_what_keeps_it_from_being_one_is_said(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(WorkloadError, match=said):
        sheaf.load(file)
