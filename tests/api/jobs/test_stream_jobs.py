"""Stream jobs: what becomes of them when their process, or the service, ends; and one for real."""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.jobs import queue
from api.jobs.account import (
    RECENT_BATCHES,
    BatchAccount,
    JobAccount,
    read_account,
    write_account,
)
from engines.input.event_table import column_kinds, from_table
from optimizer.bind.binder import bind
from tests.api.jobs.test_jobs import killable
from tests.api.service import finished, is_problem, job_that, posted_job, until
from tests.running import run_local
from workloads.loading import load_workload

# Begins by adding a batch to the account, unless it is to fail; then does what its source says.
PRETEND = """
import json, os, sys, time
from pathlib import Path
from api.jobs.account import BatchAccount, read_account, write_account
from api.jobs.folder import Attempt
from api.jobs.worker import Heard, end_with
heard = Heard()
end_with(int(sys.argv[2]), heard.add)
attempt = Attempt(Path(sys.argv[1]))
lock = attempt.enter()
assert lock is not None
request, said = attempt.request(), os.fdopen(int(sys.argv[3]), "w")
with attempt.log.open("a") as log:
    log.write(f"ran with {request['plan']}\\n")
if request["source"] == "broken":
    attempt.end({"status": "failed", "reason": "no events", "again": False})
    sys.exit()
if request["source"] == "crashes":
    sys.exit(7)
number = int(attempt.path.name)
batch = BatchAccount(number, 0.5, 3)
write_account(attempt.job.account, read_account(attempt.job.account).add(batch))
did = {"seconds": 0.5, "state": 9, "events": 3, "aggregates": 0, "matches": 2}
print(json.dumps({"stage": "run", "batch": number, **did}), file=said, flush=True)
if request["source"] == "crashes once" and number == 1:
    sys.exit(7)
while True:
    message = heard.next()
    if message is not None and "stop" in message:
        attempt.end({"status": "succeeded"})
        break
    if message is not None:
        with attempt.log.open("a") as log:
            log.write(f"told {message['plan']['document']['name']}\\n")
    time.sleep(0.01)
"""
COMMAND = [sys.executable, "-c", PRETEND]


@contextmanager
def service(data: Path, command: list[str] | None = None, **more: Any) -> Iterator[httpx.Client]:
    settings = Settings(data=data, **{"roots": (data.parent, Path.cwd()), **more})
    app = create_app(settings, *([command] if command else []))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def posted_stream(client: httpx.Client, source: str, **more: Any) -> dict[str, Any]:
    return posted_job(client, source, mode="stream", **more)


def in_batch(client: httpx.Client, id: str, number: int) -> Any:
    return job_that(client, id, lambda job: job["stream"]["batches"] >= number)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "BACK_OFF", 0.02)
    monkeypatch.setattr("api.http.routes.jobs.check_source", lambda *given: None)


def test_a_stream_that_crashed_goes_on_and_one_that_always_does_is_given_up(tmp_path: Path) -> None:
    with service(tmp_path / "data", COMMAND, stream_restarts=2) as client:
        hopeless = finished(client, posted_stream(client, "crashes")["id"])
        assert (hopeless["status"], hopeless["stream"]["restarts"]) == ("failed", 2)
        assert "code 7" in hopeless["reason"]
        broken = finished(client, posted_stream(client, "broken")["id"])
        assert (broken["reason"], broken["stream"]["restarts"]) == ("no events", 0)

        id = posted_stream(client, "crashes once")["id"]
        job = in_batch(client, id, 2)
        assert (job["status"], job["stream"]["restarts"], job["events"]) == ("running", 1, 6)
        until(lambda: "sheaf_batch_seconds_count 2.0" in client.get("/metrics").text)
        metrics = client.get("/metrics").text.splitlines()
        assert {
            "sheaf_events_total 6.0",
            'sheaf_rows_total{kind="matches"} 4.0',
            f'sheaf_stream_state_bytes{{job="{id}"}} 9.0',
        } <= set(metrics)
        begun = time.monotonic()
        assert client.delete(f"/v1/jobs/{id}").status_code == 202
        job = finished(client, id)
        assert time.monotonic() - begun < 5
        assert (job["status"], job["events"]) == ("cancelled", 6)
        until(lambda: id not in client.get("/metrics").text)
        assert (tmp_path / "data/jobs" / id / "account.json").exists()
        assert client.delete(f"/v1/jobs/{id}?results=delete").status_code == 204


def test_a_stream_is_not_in_the_way_of_other_jobs(tmp_path: Path, pretend: list[str]) -> None:
    with service(tmp_path / "data", COMMAND, streams_at_once=1) as client:
        first, second = (posted_stream(client, "runs")["id"] for _ in range(2))
        in_batch(client, first, 1)
        assert client.get(f"/v1/jobs/{second}").json()["status"] == "queued"
        batch = posted_job(client, "crashes")["id"]  # which is not known to be a stream
        assert finished(client, batch)["status"] == "failed"


def test_after_a_kill_of_the_service_its_streams_go_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with killable(data, COMMAND) as (client, process):
        id = posted_stream(client, "runs")["id"]
        in_batch(client, id, 1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with service(data, COMMAND) as client:
        assert in_batch(client, id, 2)["status"] == "running"
    with service(data, COMMAND) as client:  # and after it has been stopped
        in_batch(client, id, 3)
        client.delete(f"/v1/jobs/{id}")
        assert finished(client, id)["status"] == "cancelled"
    assert len(list((data / "jobs" / id / "attempts").iterdir())) == 3


def test_a_plan_of_a_running_stream_can_be_changed(tmp_path: Path) -> None:
    with service(tmp_path / "data", COMMAND) as client:
        columns = {"ts": [1], "action": ["View"], "user": ["u"], "item": ["i"], "price": [1.0]}
        pq.write_table(pa.table(columns), tmp_path / "like.parquet")
        events = tmp_path / "runs"
        events.mkdir()
        like = {"like": str(tmp_path / "like.parquet")}
        id = posted_stream(client, str(events), stream=like)["id"]
        job = in_batch(client, id, 1)
        document = client.get(f"/v1/workloads/{job['workload']}").json()["document"]
        changed = {**document, "name": "changed", "queries": document["queries"][:1]}
        plan = planned(client, changed)
        said = client.patch(f"/v1/jobs/{id}", json={"plan": plan})
        assert said.status_code == 202, said.text
        assert said.json()["afresh"] == ["purchases"]
        assert client.get(f"/v1/jobs/{id}").json()["plan"] == plan
        log = f"/v1/jobs/{id}/log"
        until(lambda: "told changed" in client.get(log).text)
        # Whoever follows hears of it; so does the next process.
        os.kill(int((tmp_path / "data/jobs" / id / "attempts/1/lock").read_text()), signal.SIGKILL)
        in_batch(client, id, 2)
        assert f"ran with {plan}" in client.get(log).text
        told = events_of(client, id, lambda event, data: data.get("stage") == "restarting")
        assert [d["afresh"] for _, _, d in told if d.get("plan") == plan] == [["purchases"]]

        counted = "QUERY q PATTERN SEQ(View v, !Buy b) RETURN v WITHIN 5 EVENTS"
        stream = {**document["stream"], "sequence": "ts"}
        bad = planned(client, {"name": "bad", "stream": stream, "queries": [counted]})
        problem = is_problem(
            client.patch(f"/v1/jobs/{id}", json={"plan": bad}), 409, "incompatible"
        )
        assert "cannot run over a live stream" in problem["detail"]
        client.delete(f"/v1/jobs/{id}")
        finished(client, id)
        is_problem(client.patch(f"/v1/jobs/{id}", json={"plan": plan}), 409, "job-over")


def planned(client: httpx.Client, document: dict[str, Any]) -> str:
    workload = client.post("/v1/workloads", json=document).json()["id"]
    id: str = client.post(f"/v1/workloads/{workload}/plans", json={}).json()["id"]
    return id


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"engine": "local"}, "a stream runs on 'spark'"),
        ({"stream": {"finish": True}}, "needs stream.once"),
        ({"mode": "batch", "stream": {}}, "it is for mode 'stream'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with service(tmp_path / "data", COMMAND) as client:
        plan = posted_job(client, "anything")["plan"]
        body = {"plan": plan, "source": "runs", "mode": "stream", **more}
        assert (
            said in is_problem(client.post("/v1/jobs", json=body), 422, "invalid-request")["detail"]
        )
        outside = {
            "plan": plan,
            "source": "runs",
            "mode": "stream",
            "stream": {"checkpoint": "/etc"},
        }
        is_problem(client.post("/v1/jobs", json=outside), 403, "path-not-allowed")
        topic = {"plan": plan, "source": "kafka://elsewhere:9092/t", "mode": "stream"}
        is_problem(client.post("/v1/jobs", json=topic), 403, "path-not-allowed")


def test_a_batch_that_runs_again_is_counted_once(tmp_path: Path) -> None:
    account = (
        JobAccount()
        .add(BatchAccount(0, 1.0, events=5, matches=1))
        .add(BatchAccount(1, 1.0, events=7))
    )
    write_account(tmp_path / "a", account)
    again = read_account(tmp_path / "a").add(BatchAccount(1, 2.0, events=7, late=1))
    assert (again.totals.batches, again.totals.events, again.totals.late) == (2, 12, 1)
    assert again.add(BatchAccount(2, 1.0)).totals.seconds == 4.0
    assert again.totals.recent == (1.0, 2.0)


def test_how_long_batches_take_is_said_of_the_last_ones(tmp_path: Path) -> None:
    account = JobAccount()
    assert account.batch_seconds(99) is None
    for number in range(RECENT_BATCHES + 100):
        account = account.add(BatchAccount(number, float(number)))
    write_account(tmp_path / "a", account)
    account = read_account(tmp_path / "a")
    assert account.totals.recent == tuple(map(float, range(100, RECENT_BATCHES + 100)))
    assert account.batch_seconds(50) == 100 + RECENT_BATCHES / 2 - 1
    assert account.batch_seconds(99) == 100 + RECENT_BATCHES * 0.99 - 1


# --- with Spark ----------------------------------------------------------------------------------

DOCUMENT = {
    "name": "clicks",
    "stream": {"time": "ts", "unit": "ms", "type": "kind", "lateness": "5 ms"},
    "queries": [
        "QUERY pairs PATTERN SEQ(A a, B b) PARTITION BY user AGG COUNT(*) WITHIN 50 ms",
        "QUERY lone PATTERN SEQ(A a, !B b) WHERE [user] RETURN a.ts WITHIN 20 ms",
    ],
}
MORE = "QUERY triples PATTERN SEQ(A a, B b, A c) PARTITION BY user AGG COUNT(*) WITHIN 50 ms"


def clicks(first: int, number: int) -> pa.Table:
    times = range(first, first + number)
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "kind": random.Random(first).choices("AB", (4, 1), k=number),
            "user": [f"u{i % 3}" for i in times],
        }
    )


def expected(document: dict[str, Any], table: pa.Table, name: str, upto: int) -> Counter[str]:
    workload = bind(load_workload(document), column_kinds(table.schema))
    results = run_local(workload, from_table(table, workload.stream))
    return Counter(
        json.dumps([row["query"], json.loads(row["key"]), row["time"]])
        for part in (results.aggregates, results.matches)
        for row in part.to_pylist()
        if row["query"] == name and row["time"] <= upto
    )


def found(rows: list[dict[str, Any]], name: str, upto: int) -> Counter[str]:
    return Counter(
        json.dumps([row["query"], row["key"], row["time"]])
        for row in rows
        if row["query"] == name and row["time"] <= upto
    )


def events_of(client: httpx.Client, id: str, is_last: Any, last: str | None = None) -> list[Any]:
    """Server-sent events as id, event and data, until one is the last that is wanted."""
    told: list[Any] = []
    headers = {} if last is None else {"last-event-id": last}
    with client.stream("GET", f"/v1/jobs/{id}/events", headers=headers) as response:
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
                continue
            if "event" in fields:
                data = json.loads(fields["data"])
                told.append((fields.get("id"), fields["event"], data))
                if is_last(fields["event"], data):
                    return told
            fields = {}
    return told


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_stream_is_followed_changed_killed_and_stopped(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    tables = [clicks(first, 60) for first in range(0, 300, 60)]

    def arrive(number: int) -> None:
        pq.write_table(tables[number], tmp_path / "draft.parquet")
        (tmp_path / "draft.parquet").rename(events / f"{number}.parquet")

    arrive(0)
    with service(tmp_path / "data") as client:
        plan = planned(client, DOCUMENT)
        live = {"buckets": 2, "checkpoint": str(tmp_path / "checkpoint")}
        body = {
            "plan": plan,
            "source": str(events),
            "mode": "stream",
            "stream": live,
            "device": "cpu",
        }
        id = client.post("/v1/jobs", json=body).json()["id"]
        arrive(1)
        seen = events_of(client, id, lambda event, data: event == "matches")
        assert [event for _, event, _ in seen[:2]] == ["status", "status"]
        last = seen[-1][0]

        def up_to(time: int) -> Any:
            return lambda event, data: event == "progress" and (data["until"] or 0) >= time

        wanted = planned(client, {**DOCUMENT, "queries": [DOCUMENT["queries"][0], MORE]})
        answer = client.patch(f"/v1/jobs/{id}", json={"plan": wanted})
        assert answer.status_code == 202, answer.text
        said = answer.json()
        assert (said["kept"], said["afresh"], said["removed"]) == (["pairs"], ["triples"], ["lone"])
        arrive(2)
        events_of(client, id, up_to(60))
        lock = tmp_path / "data/jobs" / id / "attempts/1/lock"
        os.killpg(int(lock.read_text()), signal.SIGKILL)
        arrive(3)
        arrive(4)
        seen += events_of(client, id, up_to(230), last)
        upto = seen[-1][2]["until"]
        job = client.get(f"/v1/jobs/{id}").json()
        assert (job["status"], job["stream"]["restarts"]) == ("running", 1)
        assert job["events"] == 300
        assert {tuple(g["queries"]) for g in job["stream"]["groups"]} == {("pairs",), ("triples",)}
        begun = time.monotonic()
        client.delete(f"/v1/jobs/{id}")
        job = finished(client, id)
        assert time.monotonic() - begun < 8
        assert (job["status"], job["stream"]["restarts"]) == ("cancelled", 1)

        last = [event[0] for event in seen if event[0]][-1]
        rest = events_of(client, id, lambda event, data: False, last)
        rows = [
            row
            for _, kind, data in seen + rest
            if kind in ("aggregates", "matches")
            for row in data["rows"]
        ]
        page = client.get(f"/v1/jobs/{id}/results").json()
        assert len(rows) == page["total"]["aggregates"] + page["total"]["matches"]
        # Of both processes together, and of all queries that there have been.
        told = client.get(f"/v1/jobs/{id}/operators").json()
        assert told["plan"] == wanted
        named = {o["kind"] + " " + o["about"].split(":")[0]: o for o in told["operators"]}
        of_query = Counter(row["query"] for row in page["aggregates"] + page["matches"])
        assert told["gone"] == {"lone": of_query["lone"]}
        for name in ("pairs", "triples"):
            assert named[f"output {name}"]["rows_out"] == of_query[name] > 0
        assert named["sink aggregates"]["rows_in"] == page["total"]["aggregates"]
        assert named["scan in the order of ts"]["rows_out"] == 300
        partition = named["partition by user"]
        assert partition["rows_in"] == partition["rows_out"] + partition["state"]["events"] == 300
        whole = pa.concat_tables(tables)
        # Cut off by the end of a slow machine's patience, the last batch would be in the next job.
        seen_upto = max((row["time"] for row in rows if row["query"] == "pairs"), default=-1)
        for some in (rows, page["aggregates"]):
            assert found(some, "pairs", upto) == expected(DOCUMENT, whole, "pairs", seen_upto)
        pairs = client.get(f"/v1/jobs/{id}/results?format=csv&query=pairs").text.splitlines()
        assert (
            len(pairs) - 1
            == client.get(f"/v1/jobs/{id}/results?query=pairs&limit=0").json()["total"][
                "aggregates"
            ]
        )
    # What is left in the checkpoint can be finished; then every row is there.
    with service(tmp_path / "data") as client:
        once = {**live, "once": True, "finish": True}
        body |= {"plan": wanted, "stream": once, "sink": str(tmp_path / "rest")}
        job = client.post("/v1/jobs", json=body).json()
        done = job_that_ends(client, job["id"])
        assert done["status"] == "succeeded", done
        more = client.get(f"/v1/jobs/{job['id']}/results").json()["aggregates"]
        both = page["aggregates"] + more
        assert found(both, "pairs", 10**6) == expected(DOCUMENT, whole, "pairs", 10**6)


def job_that_ends(client: httpx.Client, id: str) -> Any:
    while True:
        job = client.get(f"/v1/jobs/{id}").json()
        if job["finished"] is not None:
            return job
        time.sleep(0.2)
