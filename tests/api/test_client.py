"""The Python client, sync and async, against a service; and plans that are made meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.client import (
    AsyncClient,
    Client,
    ClientError,
    JobError,
    ServiceError,
    UnreachableError,
    synchronous,
)
from api.client.events import Event, Reader
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from tests.api import synchronous_client
from tests.api.service import AGGREGATES, MATCHES, until


@pytest.fixture
def address(tmp_path: Path, pretend: list[str]) -> Iterator[str]:
    settings = Settings(data=tmp_path / "data", roots=(tmp_path,), planning_seconds=30)
    with serving(create_app(settings, pretend)) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def launched(client: Client, source: Path, **more: Any) -> str:
    workload = client.post_workload(EXAMPLE_WORKLOAD)
    return client.launch(client.plan(workload.id).id, source, **more).id


def test_a_workload_is_posted_as_document_text_or_file(client: Client, tmp_path: Path) -> None:
    text = yaml.safe_dump(EXAMPLE_WORKLOAD)
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    ids = {client.post_workload(given).id for given in (EXAMPLE_WORKLOAD, text, file, str(file))}
    assert len(ids) == 1
    assert [one.id for one in client.workloads()] == list(ids)
    assert client.workload(*ids).name == "shop"
    assert [one.version for one in client.versions(*ids)] == [1]
    assert [query.name for query in client.explain(*ids).queries] == ["purchases", "abandoned"]


def test_a_changed_workload_is_a_new_version(client: Client) -> None:
    first = client.post_workload(EXAMPLE_WORKLOAD)
    changed = {**EXAMPLE_WORKLOAD, "queries": EXAMPLE_WORKLOAD["queries"][:1]}
    assert client.put_workload(first.id, changed).version == 2
    assert len(client.workload(first.id, version=1).queries) == 2


def test_an_invalid_workload_says_where(client: Client) -> None:
    wrong = {**EXAMPLE_WORKLOAD, "queries": ["QUERY q PATTERN SEQ(View v, Cart WITHIN 1 min"]}
    with pytest.raises(ServiceError) as caught:
        client.post_workload(wrong)
    assert (caught.value.status, caught.value.kind) == (422, "invalid-workload")
    assert caught.value.diagnostics[0]["line"] == 1


def test_a_plan_draws_itself(client: Client) -> None:
    plan = client.plan(client.post_workload(EXAMPLE_WORKLOAD).id, solver="cpsat")
    assert plan.solver == "cpsat"
    assert plan.physical.queries == ("purchases", "abandoned")
    assert plan._repr_svg_().startswith("<svg")
    assert "purchases" in str(plan)
    assert 0 <= plan.saved <= 1
    assert {candidate.id for candidate in plan.shared} == set(plan.chosen)
    assert client.get_plan(plan.id) == plan
    assert [one.id for one in client.plans(plan.workload)] == [plan.id]


def test_a_plan_is_the_same_here_as_in_the_service(client: Client) -> None:
    workload = client.post_workload(EXAMPLE_WORKLOAD).id
    plan = client.plan(workload, sharing=False, device="opencl")
    assert plan.physical.id == plan.id
    assert (plan.sharing, plan.physical.sharing) == (False, False)
    assert {group.device for group in plan.groups} == {"opencl"}
    assert (plan.spark.spread, plan.spark.buckets) == ("auto", None)
    assert [one.sharing for one in client.plans(workload)] == [False]


def test_a_job_is_launched_waited_for_and_read(client: Client, tmp_path: Path) -> None:
    job = client.wait(launched(client, tmp_path / "good"), seconds=60)
    assert job.rows == {"aggregates": 3, "matches": 1}
    assert client.table(job.id, "aggregates").equals(AGGREGATES)
    assert client.table(job.id, "matches").equals(MATCHES)
    found = list(client.rows(job.id, "aggregates", page=2))
    assert [row["time"] for row in found] == [10, 20, 30]
    assert client.results(job.id, "abandoned").matches[0].match["c"]["item"] == "case"
    operators = client.operators(job.id).operators
    assert {o.about: o.rows_out for o in operators if o.kind in ("scan", "sink")} == {
        "in the order of ts": 7,
        "aggregates": 3,
        "matches": 1,
    }
    found = client.operators(job.id)
    assert (found.cpu_seconds, found.unclaimed_seconds) == (0.25, 0.02)
    assert found.fallbacks == ["aseq has no kernel for opencl: computing on the CPU instead"]
    assert (found.trees[0].what, found.trees[0].old["abandoned"]) == ("changed", "((c ; v) ; b)")
    assert [o.id for o in found.operators if o.unplanned] == ["join-0123456789ab"]
    counters = [o for o in found.operators if o.kind == "counter"]
    assert [(o.rows_in, o.rows_out, o.cpu_seconds) for o in counters] == [(7, 5, 0.002)]
    out = tmp_path / "rows.csv"
    assert client.download(job.id, out, "aggregates") == out.stat().st_size
    assert out.read_text().count("\n") == 4
    assert [one.id for one in client.jobs("succeeded")] == [job.id]
    with pytest.raises(ClientError, match=r"\.csv, \.parquet, \.arrow"):
        client.download(job.id, tmp_path / "rows.xlsx")
    client.delete_job(job.id)
    with pytest.raises(ServiceError, match="Not found: there is no job"):
        client.job(job.id)


def test_a_job_that_fails_raises_its_reason(client: Client, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there are no events at 'missing'"):
        client.wait(launched(client, tmp_path / "missing"))


def test_a_job_can_be_waited_for_only_so_long_and_cancelled(client: Client, tmp_path: Path) -> None:
    id = launched(client, tmp_path / "waits")
    with pytest.raises(JobError, match="after 0 s"):
        client.wait(id, seconds=0)
    client.cancel(id)
    with pytest.raises(JobError, match="cancelled"):
        client.wait(id)


def test_a_job_is_followed_to_its_end(client: Client, tmp_path: Path) -> None:
    happened = list(client.follow(launched(client, tmp_path / "good")))
    assert [event.name for event in happened if event.name not in ("status", "progress")] == [
        "aggregates",
        "matches",
        "end",
    ]
    rows = next(event for event in happened if event.name == "aggregates")
    rest = list(client.follow(happened[-1].data["id"], last=rows.id))
    assert [event.name for event in rest] == ["matches", "end"]


def test_the_async_client_does_the_same(address: str, tmp_path: Path) -> None:
    async def all_of_it() -> None:
        async with AsyncClient(address) as client:
            assert await client.is_ready()
            workload = await client.post_workload(EXAMPLE_WORKLOAD)
            assert [one.id async for one in client.workloads()] == [workload.id]
            assert (await client.workload(workload.id)).name == "shop"
            plan = await client.plan(workload.id)
            assert (await client.get_plan(plan.id)) == plan
            job = await client.launch(plan.id, tmp_path / "good")
            names = [event.name async for event in client.follow(job.id)]
            assert names[-3:] == ["aggregates", "matches", "end"]
            done = await client.wait(job.id)
            assert (await client.operators(done.id)).plan == plan.id
            assert (await client.table(done.id, "matches")).equals(MATCHES)
            times = [row["time"] async for row in client.rows(done.id, "aggregates", page=2)]
            assert times == [10, 20, 30]
            assert await client.download(done.id, tmp_path / "m.parquet", "matches") > 0
            with pytest.raises(ServiceError):
                await client.job("job-0-00000000")

    asyncio.run(all_of_it())


def test_the_client_that_waits_is_written_from_the_other() -> None:
    mended = "run `python -m tests.api.synchronous_client`"
    assert Path(synchronous.__file__).read_text() == synchronous_client.written(), mended


def test_nobody_at_the_address_is_said_so() -> None:
    with Client("http://127.0.0.1:9", timeout=5) as nobody:
        assert not nobody.is_ready()
        with pytest.raises(UnreachableError, match="is `sheaf serve` running there"):
            list(nobody.workloads())
    with pytest.raises(ClientError, match="no address"):
        Client("ftp://x")


def test_a_token_is_sent(tmp_path: Path, pretend: list[str]) -> None:
    tokens = read_tokens(["ada read 0123456789abcdef"], "here")
    app = create_app(Settings(data=tmp_path / "data", tokens=tokens), pretend)
    with serving(app) as address:
        with Client(address) as stranger, pytest.raises(ServiceError) as caught:
            list(stranger.workloads())
        assert caught.value.kind == "unauthorized"
        with Client(address, token="0123456789abcdef") as ada:
            assert list(ada.workloads()) == []
            with pytest.raises(ServiceError, match="needs the role 'plan'"):
                ada.post_workload(EXAMPLE_WORKLOAD)


def test_events_are_put_together_from_lines() -> None:
    reader = Reader()
    lines = [": remark", "id: 3", "event: status", 'data: {"a":', "data: 1}", "", "", "data: 2", ""]
    found = [event for line in lines for event in reader.line(line)]
    assert found == [Event("status", {"a": 1}, "3"), Event("message", 2)]


# Plans in the making


def many_queries(number: int) -> dict[str, Any]:
    queries = [
        f"QUERY q{i} PATTERN SEQ(T{i % 50} a, T{i * 7 % 50} b, T{i * 13 % 50} c)\n"
        "AGG COUNT(*) WITHIN 1 min"
        for i in range(number)
    ]
    return {"name": "many", "stream": {"time": "ts", "unit": "s", "type": "t"}, "queries": queries}


def test_a_plan_can_be_made_while_nobody_waits(client: Client) -> None:
    workload = client.post_workload(EXAMPLE_WORKLOAD)
    task = client.begin_plan(workload.id, solver="cpsat")
    assert (task.workload, task.workload_version, task.plan) == (workload.id, 1, None)
    done = until(lambda: (now := client.task(task.id)).finished and now)
    assert (done.status, done.stage, done.reason) == ("succeeded", "over", None)
    assert done.plan is not None
    assert client.get_plan(done.plan).solver == "cpsat"
    assert client.cancel_task(task.id).status == "succeeded"


def test_planning_says_what_it_is_at_and_can_be_cancelled(client: Client) -> None:
    workload = client.post_workload(many_queries(3000))
    task = client.begin_plan(workload.id, solver="cpsat")
    until(lambda: client.task(task.id).stage in ("reading the queries", "choosing what to share"))
    client.cancel_task(task.id)
    over = until(lambda: (now := client.task(task.id)).finished and now)
    assert (over.status, over.reason, over.plan) == ("cancelled", "it was cancelled", None)
    # The process that was ended is replaced.
    assert client.plan(client.post_workload(EXAMPLE_WORKLOAD).id, solver="cpsat").id


def test_planning_that_fails_says_why(client: Client, tmp_path: Path) -> None:
    workload = client.post_workload(EXAMPLE_WORKLOAD)
    (tmp_path / "nothing.parquet").write_text("no Parquet at all")
    task = client.begin_plan(workload.id, sample=tmp_path / "nothing.parquet")
    over = until(lambda: (now := client.task(task.id)).finished and now)
    assert over.status == "failed"
    assert "nothing.parquet" in str(over.reason)


def test_a_task_nobody_began_is_not_found(client: Client) -> None:
    with pytest.raises(ServiceError) as caught:
        client.task("task-0")
    assert caught.value.status == 404
