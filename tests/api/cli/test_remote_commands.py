"""`sheaf workload`, `job` and `results`, against a service and without one."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner, Result

from api.cli.main import app
from api.client import Client
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from api.jobs.data_lock import DataLock, InUseError
from tests.api.jobs.test_stream_jobs import COMMAND as PRETEND_STREAM
from tests.api.service import until


def sheaf(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def server(tmp_path: Path, pretend: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path,)), pretend)
    with serving(app) as address:
        monkeypatch.setenv("SHEAF_SERVER", address)
        yield address


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(EXAMPLE_WORKLOAD))
    return str(path)


def answer(*arguments: str) -> Any:
    result = sheaf(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_whole_way_on_the_command_line(server: str, workload: str, tmp_path: Path) -> None:
    kept = answer("workload", "post", workload)
    assert [one["id"] for one in answer("workload", "list")] == [kept["id"]]
    assert "purchases" in sheaf("workload", "show", kept["id"]).stdout
    assert "version" in sheaf("workload", "versions", kept["id"]).stdout
    assert "SEQ(View v, Cart c, Buy b)" in sheaf("workload", "explain", kept["id"]).stdout
    with Client(server) as client:
        plan = client.plan(kept["id"]).id
    assert plan in sheaf("workload", "plans").stdout
    job = answer("job", "launch", plan, "--events", str(tmp_path / "good"), "--wait")
    assert job["status"] == "succeeded"
    assert job["id"] in sheaf("job", "list", "--status", "succeeded").stdout
    followed = sheaf("job", "follow", job["id"]).stdout.splitlines()
    assert "purchases user=u1 at 10: COUNT(*) = 2" in followed
    assert "abandoned user=u1 at 300005: c.item=case c.price=9.5" in followed
    assert (followed[0][:22], followed[-1]) == ("status: status queued,", "over: succeeded")
    told = sheaf("job", "follow", job["id"], "--no-rows", "--json").stdout.splitlines()
    assert {json.loads(line)["event"] for line in told} == {"status", "end"}
    check_operators(job["id"])
    shown = sheaf("results", job["id"]).stdout
    assert "3 aggregates" in shown
    assert "1 match" in shown
    assert len(answer("results", job["id"], "--query", "purchases")["aggregates"]) == 3
    out = tmp_path / "found.csv"
    assert sheaf("results", job["id"], "--kind", "matches", "--out", str(out)).exit_code == 0
    assert "abandoned" in out.read_text()
    assert sheaf("job", "delete", job["id"]).exit_code == 0
    assert sheaf("job", "show", job["id"]).exit_code == 1


def check_operators(job: str) -> None:
    """What the command says of operators that `tests/api/pretend.py` has accounted for."""
    lines = sheaf("job", "operators", job).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"{job}, succeeded: " in lines[0]
    assert lines[2].split() == ["CPU", "predicted", "rows", "in", "rows", "out", "predicted"]
    numbers = dict(itertools.pairwise(lines))
    output = numbers["output purchases: SEQ(View v, Cart c, Buy b)"].split()
    assert (output[:2], "3" in output) == (["2", "ms"], True)
    assert numbers["scan in the order of ts, for 2 queries"].split()[-2:] == ["7", "7"]
    assert numbers["claimed by no operator"].split() == ["20", "ms", "8%"]
    assert numbers["join not in this plan"].split() == ["2", "ms", "7", "5"]
    said = "\n".join(lines)
    assert "not as planned: aseq has no kernel for opencl" in said
    assert "batch 3: trees of abandoned changed: the rate of Cart went from 2 to 9" in said
    assert "  abandoned: (c ; (v ; b)), before ((c ; v) ; b)" in said
    assert not any(line.startswith("symbol") for line in lines)
    everything = sheaf("job", "operators", job, "--all").stdout.splitlines()
    assert any(line.startswith("symbol View") for line in everything)
    found = answer("job", "operators", job)
    assert found["trees"][0]["new"] == {"abandoned": "(c ; (v ; b))"}
    assert found["unclaimed_seconds"] == 0.02
    kinds = {operator["kind"] for operator in found["operators"]}
    assert {"scan", "conditions", "symbol", "partition", "counter", "output", "sink"} <= kinds


def test_a_stream_is_launched_looked_at_and_changed(
    workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"ts": [1], "action": ["View"], "user": ["u"], "item": ["i"], "price": [1.0]}
    pq.write_table(pa.table(columns), tmp_path / "like.parquet")
    (tmp_path / "runs").mkdir()
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path,)), PRETEND_STREAM)
    with serving(app) as address, Client(address) as client:
        monkeypatch.setenv("SHEAF_SERVER", address)
        plan = client.plan(answer("workload", "post", workload)["id"]).id
        live = ["--mode", "stream", "--like", str(tmp_path / "like.parquet"), "--files", "3"]
        job = answer("job", "launch", plan, "--events", str(tmp_path / "runs"), *live)["id"]
        until(lambda: client.job(job).events == 3)
        shown = " ".join(sheaf("job", "show", job).stdout.split())
        assert "batches 1 in 0.5 s" in shown
        fewer = {**EXAMPLE_WORKLOAD, "queries": EXAMPLE_WORKLOAD["queries"][:1]}
        other = client.plan(client.post_workload(fewer).id).id
        assert sheaf("job", "change", job, other).stdout == "purchases start afresh\n"
        assert client.job(job).plan == other
        assert sheaf("job", "cancel", job).exit_code == 0
        until(lambda: client.job(job).finished)
    request = json.loads((tmp_path / "data/jobs" / job / "attempts/1/request.json").read_text())
    assert request["live"]["files"] == 3


def test_a_job_that_fails_ends_the_command_with_its_reason(
    server: str, workload: str, tmp_path: Path
) -> None:
    kept = answer("workload", "post", workload)
    with Client(server) as client:
        plan = client.plan(kept["id"]).id
    result = sheaf("job", "launch", plan, "--events", str(tmp_path / "missing"), "--wait")
    assert result.exit_code == 1
    assert "there are no events at 'missing'" in result.stderr


def test_errors_of_a_workload_are_said_with_their_place(server: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump({**EXAMPLE_WORKLOAD, "queries": ["QUERY q PATTERN SEQ("]}))
    result = sheaf("workload", "post", str(path))
    assert result.exit_code == 1
    assert "wrong.yaml" in result.stderr
    assert "^" in result.stderr


def test_a_service_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    result = sheaf("workload", "list", "--server", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "nobody answers at http://127.0.0.1:9" in result.stderr


def test_without_a_service_the_command_keeps_things_itself(
    workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHEAF_SERVER", raising=False)
    monkeypatch.setenv("SHEAF_DATA", str(tmp_path / "kept"))
    kept = answer("workload", "post", workload)
    assert [one["id"] for one in answer("workload", "list")] == [kept["id"]]
    with DataLock(tmp_path / "kept"):
        result = sheaf("workload", "list")
    assert result.exit_code == 1
    assert "another service keeps its things" in result.stderr


def test_a_data_folder_belongs_to_one_service(tmp_path: Path) -> None:
    with DataLock(tmp_path), pytest.raises(InUseError, match=r"\(process \d+\)"):
        DataLock(tmp_path)
    DataLock(tmp_path).release()


def test_what_is_kept_is_shown_as_it_came_and_deleted_on_request(
    server: str, tmp_path: Path
) -> None:
    text = "# kept to the letter\n" + yaml.safe_dump(EXAMPLE_WORKLOAD)
    (tmp_path / "shop.yaml").write_text(text)
    kept = answer("workload", "post", str(tmp_path / "shop.yaml"))
    assert sheaf("workload", "text", kept["id"]).stdout == text
    with Client(server) as client:
        plan = client.plan(kept["id"]).id
    jobs = [
        answer("job", "launch", plan, "--events", str(tmp_path / "good"), "--wait")["id"]
        for _ in range(2)
    ]
    assert [job["id"] for job in answer("job", "list")] == jobs[::-1]
    assert [job["id"] for job in answer("job", "list", "--order", "asc")] == jobs
    assert "shop, version 1" in sheaf("job", "list").stdout
    late = sheaf("job", "cancel", jobs[0])
    assert late.exit_code == 0
    assert "is over (succeeded), and stays as it is" in late.stderr
    newest = answer("results", jobs[0], "--sort", "time", "--order", "desc", "--key", "u1")
    assert [row["time"] for row in newest["aggregates"]] == [30, 20, 10]
    refused = sheaf("workload", "delete-plan", plan)
    assert refused.exit_code == 1
    assert jobs[0] in refused.output
    for command in (
        ("job", "delete", *jobs),
        ("workload", "delete-plan", plan),
        ("workload", "delete", kept["id"]),
    ):
        assert sheaf(*command).exit_code == 0
    assert answer("job", "list") == answer("workload", "list") == []
