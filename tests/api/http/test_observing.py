"""Metrics, logs, request ids, headers."""

import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from api.cli.commands.serve import warn_if_open
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.logs import JsonLines, request_id
from api.http.settings import Settings
from tests.api.service import finished, is_problem, posted_job, posted_plan, until


@pytest.fixture
def app(pretend: list[str], tmp_path: Path) -> FastAPI:
    return create_app(Settings(data=tmp_path / "data"), pretend)


@pytest.fixture
def client(app: FastAPI) -> Iterator[httpx.Client]:
    @app.get("/fails")
    def fails() -> None:
        raise ZeroDivisionError("a bug")

    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def measured(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


# --- metrics -------------------------------------------------------------------------------------


def test_requests_plans_and_jobs_are_counted(client: httpx.Client) -> None:
    plan = posted_plan(client)
    for source in ("fine", "missing"):
        finished(client, posted_job(client, source)["id"])
    client.get("/v1/workloads/none")
    client.get("/nothing/here")
    # Counted when the job's end has been told.
    until(lambda: measured(client).get(("sheaf_job_seconds_count", "spark")) == 2)
    found = measured(client)
    assert found["sheaf_plans_total", "greedy", plan["status"]] == 1  # then remembered
    assert found["sheaf_planning_seconds_count", "greedy"] == 1
    assert found["sheaf_sharing_ratio_count",] == 1
    assert found["sheaf_jobs", "succeeded"] == found["sheaf_jobs", "failed"] == 1
    assert found["sheaf_jobs", "running"] == 0
    assert found["sheaf_jobs_ended_total", "spark", "succeeded"] == 1
    assert found["sheaf_job_seconds_count", "spark"] == 2
    assert found["sheaf_events_total",] == 7
    assert found["sheaf_rows_total", "aggregates"] == 3
    assert found["sheaf_http_requests_total", "POST", "/v1/jobs", "201"] == 2
    assert found["sheaf_http_requests_total", "GET", "/v1/workloads/{id}", "404"] == 1
    assert found["sheaf_http_requests_total", "GET", "other", "404"] == 1


# --- logs ----------------------------------------------------------------------------------------


def test_a_request_keeps_its_id(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    given = client.get("/v1/jobs", headers={"x-request-id": "my.id-1"})
    assert given.headers["x-request-id"] == "my.id-1"
    ids = {
        client.get("/v1/jobs", headers={"x-request-id": i}).headers["x-request-id"]
        for i in ("", "with blank", "x" * 65)
    }
    assert len(ids) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", id) for id in ids)

    def lines() -> list[logging.LogRecord]:
        return [r for r in caplog.records if r.name == "sheaf.requests"]

    until(lambda: len(lines()) >= 4)  # a line is written when the answer is out
    assert [(r.method, r.path, r.status) for r in lines()] == [("GET", "/v1/jobs", 200)] * 4  # type: ignore[attr-defined]


def test_a_bug_is_a_problem_and_its_trace_is_in_the_log(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get("/fails", headers={"x-request-id": "here"})
    problem = is_problem(response, 500, "internal")
    assert "request here" in problem["detail"]
    assert "ZeroDivisionError" not in response.text
    assert any("a bug" in str(r.exc_info) for r in caplog.records)
    assert measured(client)["sheaf_http_requests_total", "GET", "/fails", "500"] == 1


def test_a_line_of_the_log_is_json() -> None:
    record = logging.makeLogRecord({"name": "n", "levelname": "INFO", "msg": "a\n%s", "args": (1,)})
    record.job = "job-1"
    record.where = Path("x")
    token = request_id.set("r1")
    line = JsonLines().format(record)
    request_id.reset(token)
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "info",
        "logger": "n",
        "message": "a\n1",
        "request": "r1",
        "job": "job-1",
        "where": "x",
    }


# --- headers -------------------------------------------------------------------------------------


def test_answers_are_safe_to_show(client: httpx.Client) -> None:
    for path in ("/v1/jobs", "/v1/nothing", "/fails", "/docs"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert ("script-src" in headers["content-security-policy"]) == (path == "/docs")


def test_head_is_get_without_a_body(client: httpx.Client) -> None:
    for path in ("/", "/v1/jobs", "/v1/jobs/none", "/metrics"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    assert measured(client)["sheaf_http_requests_total", "HEAD", "/v1/jobs/{id}", "404"] == 1


# --- the whole service ---------------------------------------------------------------------------


def test_a_service_logs_json_and_ends_gracefully(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from api.cli.main import main; main()"]
    arguments = ["serve", "--port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen([*program, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines = []
        while not lines or "Uvicorn running" not in lines[-1]["message"]:
            lines.append(json.loads(process.stderr.readline()))
        (address,) = re.findall(r"http://[\w.:]+", lines[-1]["message"])
        assert all(line["level"] == "info" for line in lines)
        assert httpx.get(f"{address}/v1/jobs").json() == []
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(timeout=30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()
    assert [line["path"] for line in rest if line["message"] == "request"] == ["/v1/jobs"]
    assert not any("trace" in line for line in rest)
    assert rest[-1]["message"].startswith("Finished server process")


@pytest.mark.parametrize(
    ("host", "tokens", "warns"),
    [("0.0.0.0", False, True), ("0.0.0.0", True, False), ("127.0.0.1", False, False)],
)
def test_a_service_that_is_open_to_others_warns(
    caplog: pytest.LogCaptureFixture, host: str, tokens: bool, warns: bool
) -> None:
    warn_if_open(host, tokens)
    assert ("without tokens" in caplog.text) == warns
