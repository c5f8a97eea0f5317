"""`/v1/events` and `/v1/uploads`: what a file of events holds, and files that are sent."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.settings import Settings
from api.jobs import uploads
from tests.api.service import finished, is_problem

EVENTS = "ts,kind,user\n1,Login,a\n2,Payment,a\n3,Login,b\n"
READER, PLANNER = "r" * 20, "p" * 20


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    settings = Settings(data=tmp_path / "data", roots=(tmp_path / "root",))
    (tmp_path / "root").mkdir()
    with serving(create_app(settings)) as address, httpx.Client(base_url=address, timeout=60) as it:
        yield it


def test_a_file_is_uploaded_described_planned_run_and_deleted(
    client: httpx.Client, tmp_path: Path
) -> None:
    sent = client.post("/v1/uploads", params={"name": "../my clicks.csv"}, content=EVENTS)
    assert sent.status_code == 201
    path = Path(sent.json()["path"])
    assert path.parent == (tmp_path / "data" / "uploads").resolve()
    assert path.name.endswith("-my_clicks.csv")
    again = client.post("/v1/uploads", params={"name": "my clicks.csv"}, content=EVENTS)
    assert again.json() == sent.json()
    assert client.get("/v1/uploads").json() == [sent.json()]

    found = client.get("/v1/events", params={"path": str(path)}).json()
    assert [column["role"] for column in found["columns"]] == ["time", "type", "key"]
    yaml = {"content-type": "application/yaml"}
    workload = client.post("/v1/workloads", content=found["workload"], headers=yaml).json()
    assert workload["name"] == "my_clicks"
    plan = client.post(f"/v1/workloads/{workload['id']}/plans", json={}).json()
    body = {"plan": plan["id"], "source": str(path), "engine": "local"}
    job = finished(client, client.post("/v1/jobs", json=body).json()["id"])
    assert job["rows_by_query"] == {"first": 1}

    assert client.delete(f"/v1/uploads/{path.name}").status_code == 204
    is_problem(client.delete(f"/v1/uploads/{path.name}"), 404, "not-found")
    is_problem(client.get("/v1/events", params={"path": str(path)}), 422, "source-not-found")


def test_what_is_no_file_of_events_is_refused(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = "/v1/uploads"
    is_problem(client.post(post, params={"name": "a.exe"}, content=b"x"), 422, "failed")
    is_problem(client.post(post, params={"name": "a.csv"}, content=b""), 422, "failed")
    is_problem(client.get("/v1/events", params={"path": "/etc/passwd"}), 403, "path-not-allowed")
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    is_problem(client.post(post, params={"name": "a.csv"}, content=EVENTS), 422, "failed")
    assert client.get(post).json() == []


def test_who_may_only_read_plans_and_jobs_sees_no_files(tmp_path: Path) -> None:
    tokens = read_tokens([f"ron read {READER}", f"ann plan {PLANNER}"], "here")
    settings = Settings(data=tmp_path / "data", roots=(tmp_path,), tokens=tokens)
    (tmp_path / "e.csv").write_text(EVENTS)
    with serving(create_app(settings)) as address, httpx.Client(base_url=address) as client:
        for path in ("/v1/events?path=e.csv", "/v1/uploads"):
            answer = client.get(path, headers={"authorization": f"Bearer {READER}"})
            is_problem(answer, 403, "forbidden")
        ann = {"authorization": f"Bearer {PLANNER}"}
        found = client.get(f"/v1/events?path={tmp_path}/e.csv", headers=ann)
        assert found.json()["rows"] == 3
