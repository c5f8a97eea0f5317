"""Results in every format, and jobs as they happen."""

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from api.http import event_stream as following
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.formats import MEDIA_TYPES, accepted, encoded
from api.http.settings import Settings
from api.jobs.result_files import iterate_rows, read_rows, stretch
from tests.api.service import (
    AGGREGATES,
    MATCHES,
    at_work,
    finished,
    is_problem,
    posted_job,
    until,
)


@pytest.fixture
def client(pretend: list[str], tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(Settings(data=tmp_path / "data"), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture
def results(client: httpx.Client) -> str:
    """The address of a job's results."""
    id = posted_job(client, "fine")["id"]
    finished(client, id)
    return f"/v1/jobs/{id}/results"


def read(response: httpx.Response) -> pa.Table:
    assert response.status_code == 200, response.text
    content = io.BytesIO(response.content)
    match response.headers["content-type"].split(";")[0]:
        case "text/csv":
            return pyarrow.csv.read_csv(content)
        case "application/vnd.apache.parquet":
            return pyarrow.parquet.read_table(content)
        case "application/vnd.apache.arrow.stream":
            return pa.ipc.open_stream(content).read_all()
    raise AssertionError(response.headers["content-type"])


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_results_come_in_each_format(client: httpx.Client, results: str, format: Any) -> None:
    by_name = client.get(results, params={"format": format, "kind": "aggregates"})
    by_header = client.get(
        results, params={"kind": "aggregates"}, headers={"accept": MEDIA_TYPES[format]}
    )
    assert by_header.content == by_name.content
    found = read(by_name)
    assert found.column_names == AGGREGATES.column_names
    wanted = AGGREGATES if format != "csv" else AGGREGATES.drop_columns("seq")
    assert found.select(wanted.column_names).to_pylist() == wanted.to_pylist()
    assert read(client.get(results, params={"format": format, "query": "abandoned"})).num_rows == 1
    page = {"format": format, "kind": "aggregates", "offset": 1, "limit": 1}
    assert read(client.get(results, params=page))["time"].to_pylist() == [20]
    none = {"format": format, "kind": "aggregates", "query": "abandoned"}
    assert read(client.get(results, params=none)).num_rows == 0


def test_a_file_holds_one_kind_of_rows(client: httpx.Client, results: str) -> None:
    problem = is_problem(client.get(f"{results}?format=csv"), 422, "invalid-request")
    assert "kind=matches" in problem["detail"]
    text = client.get(f"{results}?format=csv&kind=matches")
    assert text.text.splitlines()[0] == ",".join(f'"{name}"' for name in MATCHES.column_names)
    assert 'filename="job-1-' in text.headers["content-disposition"]


def test_a_format_that_is_not_there_is_a_problem(client: httpx.Client, results: str) -> None:
    is_problem(client.get(results, headers={"accept": "image/png"}), 406, "not-acceptable")
    is_problem(client.get(f"{results}?format=xlsx"), 422, "invalid-request")
    is_problem(client.get(f"{results}?limit=100001"), 422, "invalid-request")


@pytest.mark.parametrize(
    ("header", "format"),
    [
        ("*/*", "json"),
        ("text/csv", "csv"),
        ("text/*", "csv"),
        ("application/json;q=0.5, text/csv", "csv"),
        ("text/csv;q=0.2, application/vnd.apache.parquet;q=0.9", "parquet"),
        ("text/html, */*;q=0.1", "json"),
        ("text/csv;q=0", None),
        ("image/png", None),
        ("text/csv;q=many", None),
    ],
)
def test_the_accept_header_is_heard(header: str, format: str | None) -> None:
    assert accepted(header) == format


def test_rows_are_read_by_where_they_stand(tmp_path: Path) -> None:
    table = pa.table({"query": ["a"] * 25_000 + ["c"] * 10_000, "n": range(35_000)})
    path = tmp_path / "results.aggregates.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=7_000)
    rows = {"a": 25_000, "c": 10_000}
    for query, expected in (("a", (0, 25_000)), ("b", (35_000,) * 2), ("c", (25_000, 35_000))):
        assert stretch(rows, query) == expected
    for start, stop in ((0, 0), (0, 35_000), (6_999, 7_001), (24_000, 31_500), (34_999, 35_000)):
        assert read_rows(path, start, stop)["n"].to_pylist() == list(range(start, stop))
        arrow = b"".join(encoded(table.schema, iterate_rows(path, start, stop), "arrow"))
        assert pa.ipc.open_stream(arrow).read_all()["n"].to_pylist() == list(range(start, stop))


def test_times_are_written_as_iso(tmp_path: Path) -> None:
    path = tmp_path / "results.matches.parquet"
    times = pa.array([0, None, 1_500], pa.timestamp("ms", tz="UTC"))
    table = pa.table({"time": times})
    pyarrow.parquet.write_table(table, path)
    lines = b"".join(encoded(table.schema, iterate_rows(path, 0, 3), "csv")).decode().splitlines()
    assert lines == ['"time"', '"1970-01-01T00:00:00Z"', "", '"1970-01-01T00:00:01.500Z"']


# --- events --------------------------------------------------------------------------------------


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Server-sent events, as a reader takes them apart."""
    event: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and event:
            yield event
            event = {}
        elif name:
            event[name] = json.loads(value) if name == "data" else value


def all_events(client: httpx.Client, id: str, **more: Any) -> list[dict[str, Any]]:
    with client.stream("GET", f"/v1/jobs/{id}/events", **more) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events(response.iter_lines()))


def test_a_job_is_told_as_it_happens(client: httpx.Client, tmp_path: Path) -> None:
    id = posted_job(client, "waits")["id"]
    heard: list[dict[str, Any]] = []

    def listen() -> None:
        with client.stream("GET", f"/v1/jobs/{id}/events") as response:
            for event in events(response.iter_lines()):
                heard[len(heard) :] = [event]

    thread = threading.Thread(target=listen)
    thread.start()
    until(lambda: any(event["event"] == "progress" for event in heard))
    assert not any(event["event"] == "end" for event in heard)
    (tmp_path / "data/jobs/go").touch()
    thread.join(30)
    assert not thread.is_alive()
    statuses = [e["data"]["status"] for e in heard if e["event"] == "status"]
    assert (statuses[0], statuses[-1]) == ("queued", "succeeded")
    assert [e["id"] for e in heard if e["event"] == "status"] == [
        str(number) for number in range(1, len(statuses) + 1)
    ]
    assert heard[-1]["event"] == "end"
    assert heard[-1]["data"] == client.get(f"/v1/jobs/{id}").json()
    (told,) = [e for e in heard if e["event"] == "aggregates"]
    assert told["data"]["rows"] == client.get(f"/v1/jobs/{id}/results").json()["aggregates"]


def test_a_reader_goes_on_where_it_left_off(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ROWS_PER_MESSAGE", 2)
    id = posted_job(client, "fine")["id"]
    finished(client, id)
    whole = all_events(client, id)
    kinds = [event["event"] for event in whole]
    assert kinds[-4:] == ["aggregates", "aggregates", "matches", "end"]
    for position, event in enumerate(whole[:-1]):
        rest = all_events(client, id, headers={"last-event-id": event["id"]})
        assert rest == whole[position + 1 :], event["id"]
    assert all_events(client, id, headers={"last-event-id": "what?"}) == whole
    assert [e["event"] for e in all_events(client, id, params={"rows": False})][-2:] == [
        "status",
        "end",
    ]
    is_problem(client.get("/v1/jobs/none/events"), 404, "not-found")


def test_a_stopping_service_ends_its_streams(pretend: list[str], tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path / "data"), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        id = posted_job(client, "waits")["id"]
        at_work(client, id)
        with client.stream("GET", f"/v1/jobs/{id}/events") as response:
            lines = response.iter_lines()
            assert next(lines) == "event: status"
            app.state.closing.set()
            assert not any(line == "event: end" for line in lines)
