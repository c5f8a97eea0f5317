"""`POST /v1/workloads` with a zip or a tar.gz of a workload and its rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.service import is_problem
from tests.workloads.test_archives import FILES, tarred, zipped


@pytest.fixture(scope="module")
def client(pretend: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("service")
    app = create_app(Settings(data=folder / "data", roots=(Path.cwd(), folder)), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    ("media", "body"),
    [("application/zip", zipped(FILES)), ("application/gzip", tarred(FILES))],
)
def test_an_archive_is_a_workload_with_its_rules(
    client: httpx.Client, media: str, body: bytes
) -> None:
    headers = {"content-type": media}
    answer = client.post("/v1/workloads", content=body, headers=headers)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert found["name"] == "detections"
    assert [query["name"] for query in found["queries"]] == ["A", "B", "C", "two", "one"]
    assert [rule["place"] for rule in found["refused"]] == ["rules/deep/bad.yml"]
    again = client.put(f"/v1/workloads/{found['id']}", content=body, headers=headers)
    assert again.json()["version"] == 1
    assert client.get(f"/v1/workloads/{found['id']}").json()["queries"] == found["queries"]


def test_what_is_wrong_with_an_archive_is_said(client: httpx.Client) -> None:
    headers = {"content-type": "application/zip"}
    answer = client.post("/v1/workloads", content=b"name: x", headers=headers)
    assert "neither a zip nor a tar.gz" in is_problem(answer, 422, "invalid-archive")["detail"]
    wrong = zipped({"w.yaml": "stream: {time: ts}\nrules: [{sigma: /etc/**}]"})
    answer = client.post("/v1/workloads", content=wrong, headers=headers)
    problem = is_problem(answer, 422, "invalid-workload")
    said = [finding["message"] for finding in problem["diagnostics"]]
    assert "no file of rules is at '/etc/**'" in said
