"""`sheaf what-if`: a plan without some queries, or with other windows, here and of a service."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from api.cli.main import app
from api.client import Client
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.planning.test_what_if import DOCUMENT


def sheaf(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["what-if", *arguments])


def answer(*arguments: str) -> Any:
    result = sheaf(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    return str(path)


def test_a_workload_a_plan_of_it_and_one_of_a_service_give_one_answer(
    workload: str, tmp_path: Path, pretend: list[str]
) -> None:
    made = CliRunner().invoke(app, ["plan", workload, "--format", "json"])
    (tmp_path / "plan.json").write_text(made.stdout)
    changes = ("--without", "b", "--window", "c=5 min")
    here = answer(workload, *changes)
    assert here["windows"] == {"c": "5 min"}
    assert [query["name"] for query in here["queries"]] == ["a", "c", "e", "d"]
    assert answer(str(tmp_path / "plan.json"), *changes) == here
    settings = Settings(data=tmp_path / "data")
    with serving(create_app(settings, pretend)) as address, Client(address) as client:
        plan = client.plan(client.post_workload(DOCUMENT).id).id
        there = answer(plan, *changes, "--server", address)
        tried = answer(plan, "--windows-of", "c", "--server", address)
    assert [query["name"] for query in there["queries"]] == ["a", "c", "e", "d"]
    assert there["before"].keys() == here["before"].keys()
    assert [w["of"] for w in tried["windows"]] == [
        w["of"] for w in answer(workload, "--windows-of", "c")["windows"]
    ]


def test_it_says_what_changes(workload: str, tmp_path: Path) -> None:
    picture = tmp_path / "then.svg"
    said = sheaf(workload, "--without", "b", "--picture", str(picture))
    assert "the plan" in said.stdout
    assert "a (no longer with b)" in said.stdout
    assert picture.read_text().startswith("<svg")
    assert "as it is" in sheaf(workload, "--windows-of", "c").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--window", "c"), "write NAME=WINDOW"),
        (("--without", "f"), "no query 'f'"),
        (("--windows-of", "c", "--without", "a"), "one by one"),
    ],
)
def test_what_it_cannot_do_is_an_error(
    workload: str, arguments: tuple[str, ...], told: str
) -> None:
    refused = sheaf(workload, *arguments)
    assert refused.exit_code == 1
    assert told in str(refused.stderr) + str(refused.exception)
