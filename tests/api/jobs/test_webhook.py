"""Rows posted to an address: each arrives, whatever the receiver does, with an id of its own."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.cli.main import app
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.jobs.streaming import posts_of
from api.jobs.webhook import ROWS_PER_POST, Webhook, WebhookError, check_allowed
from tests.api.service import AGGREGATES, MATCHES, finished, is_problem

WORKLOAD = """
name: cards
stream: {time: ts, type: kind}
queries:
- QUERY paid PATTERN Payment p RETURN p, 'Paid' AS title WITHIN 1 s
- QUERY sums PATTERN Payment p AGG COUNT(*) WITHIN 1 hour
"""
EVENTS = """ts,kind,amount
2025-03-01T23:50:00,Payment,9
2025-03-02T00:10:00,Payment,8
"""


@dataclass
class Receiver:
    """What came in; answers with `says` in turn, and then that all is well."""

    says: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    posts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    address: str = ""

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for _, body in self.posts for row in body["rows"]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            receiver.posts.append((self.headers["idempotency-key"], body))
            status, headers = receiver.says.pop(0) if receiver.says else (204, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.address = f"http://127.0.0.1:{server.server_port}/hooks/secret"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield receiver
        server.shutdown()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    written = [tmp_path / "a.parquet", tmp_path / "m.parquet"]
    pq.write_table(AGGREGATES, written[0])
    pq.write_table(pa.concat_tables([MATCHES, MATCHES]), written[1])
    return written


def test_each_row_has_an_id_that_it_keeps(receiver: Receiver, files: list[Path]) -> None:
    assert Webhook(receiver.address, "job-1").deliver(files) == 5
    first = [row["id"] for row in receiver.rows]
    assert len(set(first)) == 5  # also those of two rows that are alike
    assert [row.get("time") for row in receiver.rows] == [10, 20, 30, 300_005, 300_005]
    assert receiver.rows[-1]["match"] == {"c": {"item": "case", "price": 9.5}}
    receiver.posts.clear()
    Webhook(receiver.address, "job-1").deliver(files[::-1])
    assert sorted(row["id"] for row in receiver.rows) == sorted(first)
    receiver.posts.clear()
    Webhook(receiver.address, "job-2").deliver(files)
    Webhook(receiver.address, "job-1").deliver(files, "7")
    others = [row["id"] for row in receiver.rows]
    assert not set(others) & set(first)
    assert len(set(others)) == 10


def test_many_rows_are_many_posts_and_none_is_lost(receiver: Receiver, tmp_path: Path) -> None:
    number = 2 * ROWS_PER_POST + 1
    table = pa.table({"query": ["q"] * number, "time": range(number), "match": ["{}"] * number})
    pq.write_table(table, tmp_path / "m.parquet")
    receiver.says += [(200, {}), (503, {})]
    waits: list[float] = []
    webhook = Webhook(receiver.address, "job", wait=waits.append)
    assert webhook.deliver([tmp_path / "m.parquet"]) == number
    assert len(waits) == 1
    keys = [key for key, _ in receiver.posts]
    assert keys[1] == keys[2]  # the one that was refused, again
    assert len(set(keys)) == 3
    by_id = {row["id"]: row["time"] for row in receiver.rows}
    assert sorted(by_id.values()) == list(range(number))


def test_pauses_grow_and_are_what_the_receiver_asks_for(
    receiver: Receiver, files: list[Path]
) -> None:
    receiver.says += [(503, {}), (500, {}), (502, {}), (429, {"Retry-After": "17"})]
    waits: list[float] = []
    Webhook(receiver.address, "job", wait=waits.append).deliver(files)
    assert [low <= wait <= 2 * low for low, wait in zip((0.25, 0.5, 1), waits, strict=False)] == [
        True
    ] * 3
    assert waits[3:] == [17]


def test_an_answer_that_stays_the_same_ends_it_at_once(
    receiver: Receiver, files: list[Path]
) -> None:
    for status in (400, 302):
        receiver.says.append((status, {"Location": "/elsewhere"}))
        with pytest.raises(WebhookError, match=f"answered {status}") as told:
            Webhook(receiver.address, "job", wait=pytest.fail).deliver(files)
        assert "secret" not in str(told.value)
    assert len(receiver.posts) == 2


def test_a_receiver_that_is_not_there_is_given_up_after_some_tries(files: list[Path]) -> None:
    waits: list[float] = []
    with pytest.raises(WebhookError, match=r"does not answer.*tried 3 times"):
        Webhook("http://127.0.0.1:1/x", "job", 3, waits.append).deliver(files)
    assert len(waits) == 2


def test_a_stream_tries_until_its_rows_are_taken(receiver: Receiver, files: list[Path]) -> None:
    receiver.says += [(503, {})] * 20
    waits: list[float] = []
    Webhook(receiver.address, "job", None, waits.append).deliver(files)
    assert len(waits) == 20
    assert max(waits) <= 60


def test_a_batch_of_a_stream_is_posted_with_ids_of_its_own(
    receiver: Receiver, tmp_path: Path
) -> None:
    for name in ("aggregates/000000003-00000", "matches/000000003-00001", "matches/000000004-0"):
        file = tmp_path / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(AGGREGATES if name.startswith("agg") else MATCHES, file)
    post = posts_of({"webhook": receiver.address, "id": "job-1"}, str(tmp_path))
    assert post is not None
    assert post(3) == 4
    third = {row["id"] for row in receiver.rows}
    assert post(4) == 1
    assert len({row["id"] for row in receiver.rows} - third) == 1
    assert post(3) == 4
    assert {row["id"] for row in receiver.rows[-4:]} == third
    assert posts_of({"id": "job-1"}, str(tmp_path)) is None


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("https://a.example/hooks/x", True),
        ("https://a.example/hooks", True),
        ("https://a.example/hooks-not", False),
        ("https://a.example/hooks/../admin", False),
        ("https://a.example/hooks/%2E%2e/admin", False),
        ("http://a.example/hooks/x", False),
        ("https://a.example:99/hooks/x", False),
        ("https://me@a.example/hooks/x", False),
        ("https://b.example/hooks/x", False),
        ("file:///etc/passwd", False),
        ("https://[/", False),
    ],
)
def test_only_addresses_that_the_operator_names_are_posted_to(
    address: str, is_allowed: bool
) -> None:
    allowed = ("https://a.example/hooks",)
    if is_allowed:
        check_allowed(address, allowed)
        return
    with pytest.raises(WebhookError):
        check_allowed(address, allowed)


def test_a_run_posts_the_rows_that_it_writes(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "e.csv").write_text(EVENTS)
    given = ["run", str(tmp_path / "w.yaml"), "--events", str(tmp_path / "e.csv")]
    hook = ["--webhook", receiver.address]
    done = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "o.parquet"), *hook])
    assert done.exit_code == 0, done.output
    assert sorted(row["query"] for row in receiver.rows) == ["paid", "paid", "sums", "sums"]
    assert receiver.rows[-1]["match"]["title"] == "Paid"
    refused = CliRunner().invoke(app, [*given, *hook])
    assert refused.exit_code != 0
    assert "--out PATH.parquet" in refused.output


def test_rows_of_spark_are_posted_from_a_folder(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "e.csv").write_text(EVENTS)
    given = ["run", str(tmp_path / "w.yaml"), "--events", str(tmp_path / "e.csv")]
    spark = ["--engine", "spark", "--master", "local[1]", "--webhook", receiver.address]
    receiver.says += [(503, {})]
    done = CliRunner().invoke(app, [*given, *spark, "--out", f"{tmp_path}/o/"])
    assert done.exit_code == 0, done.output
    assert receiver.posts[0] == receiver.posts[1]  # the one that failed came again, as it was
    rows = {row["id"]: row["query"] for row in receiver.rows}
    assert sorted(rows.values()) == ["paid", "paid", "sums", "sums"]
    for out in ("o.csv", "o.csv/"):
        refused = CliRunner().invoke(app, [*given, *spark, "--out", f"{tmp_path}/{out}"])
        assert "--webhook posts rows of --out PATH.parquet" in refused.output.replace("\n", " ")


def test_a_stream_posts_each_batch_until_its_rows_are_taken(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.jobs.webhook.FIRST_WAIT_SECONDS", 0.01)
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "in").mkdir()
    paths = {name: str(tmp_path / name) for name in ("in", "checkpoint", "out")}
    given = ["run", str(tmp_path / "w.yaml"), "--events", paths["in"], "--engine", "spark"]
    given += ["--master", "local[1]", "--stream", "--once", "--buckets", "1"]
    given += ["--checkpoint", paths["checkpoint"], "--out", paths["out"]]
    given += ["--webhook", receiver.address]
    (tmp_path / "in" / "1.csv").write_text(EVENTS)
    receiver.says += [(503, {}), (500, {})]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    (tmp_path / "in" / "2.csv").write_text("ts,kind,amount\n2025-03-03T00:10:00,Payment,7\n")
    receiver.says += [(429, {"Retry-After": "0"})]
    done = CliRunner().invoke(app, [*given, "--finish"])
    assert done.exit_code == 0, done.output
    assert not receiver.says
    rows = {row["id"]: (row["query"], row["time"][:10]) for row in receiver.rows}
    days = ["2025-03-01", "2025-03-02", "2025-03-03"]
    assert sorted(rows.values()) == [(q, day) for q in ("paid", "sums") for day in days]
    assert len(receiver.posts) > len({key for key, _ in receiver.posts}) >= 2


def test_a_job_posts_its_rows(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(EVENTS)
    settings = Settings(data=tmp_path / "d", roots=(tmp_path,), webhooks=(receiver.address[:-7],))
    with serving(create_app(settings)) as address, httpx.Client(base_url=address) as http:
        document = {"content-type": "application/yaml"}
        made = http.post("/v1/workloads", content=WORKLOAD, headers=document).json()
        plan = http.post(f"/v1/workloads/{made['id']}/plans", json={}).json()["id"]
        job = {"plan": plan, "source": str(tmp_path / "e.csv"), "engine": "local"}
        other = {**job, "webhook": "https://other.example/x?key=secret"}
        said = is_problem(http.post("/v1/jobs", json=other), 422, "invalid-request")
        assert "SHEAF_WEBHOOKS" in said["detail"]
        assert "secret" not in said["detail"]
        started = http.post("/v1/jobs", json={**job, "webhook": receiver.address}).json()
        assert "secret" not in started["webhook"]
        done = finished(http, started["id"])
        assert done["status"] == "succeeded", done["reason"]
    assert sorted(row["query"] for row in receiver.rows) == ["paid", "paid", "sums", "sums"]
    assert done["seconds"]["post"] >= 0
