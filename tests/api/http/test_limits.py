"""What the service refuses: paths that lead out of its roots, and work that is too much for it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import SettingError, Settings, from_environment
from api.jobs.roots import OutsideRootsError, Roots
from api.planning.process_pool import ProcessPool, TooLongError, TooMuchMemoryError
from tests.api.service import is_problem, posted_plan
from workloads.errors import SheafError


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root `in`, where we are, a folder `out` beside it, and links from the one to the other."""
    for name in ("in/sub", "out"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "e.csv").write_text("ts,kind\n1,A\n")
    (tmp_path / "in" / "file-link.csv").symlink_to(tmp_path / "out" / "e.csv")
    (tmp_path / "in" / "folder-link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "own-link").symlink_to(tmp_path / "in" / "sub")
    (tmp_path / "in" / "[odd].csv").write_text("ts,kind\n1,A\n")
    monkeypatch.chdir(tmp_path / "in")
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "sub/e.csv",
        "sub",
        "sub/*.csv",
        "**/e.csv",
        "own-link/e.csv",
        "sub/../sub/e.csv",
        "none.csv",
        "[odd].csv",
        "{}/in/sub/e.csv",
        "./a:b.csv",
    ],
)
def test_what_is_under_a_root_may_be_used(places: Path, path: str) -> None:
    Roots([places / "in"]).check(path.format(places))


@pytest.mark.parametrize(
    "path",
    [
        "../out/e.csv",
        "{}/out/e.csv",
        "/etc/passwd",
        "file-link.csv",
        "folder-link/e.csv",
        "..",
        "folder-link",
        "../*/e.csv",
        "*/../../out/e.csv",
        "sub/../../out",
        "../in-not",
        "/*/passwd",
        "a\0b",
        "x" * 5000,
        "folder-link/*.csv",
        "../{}",
        "file:///etc/passwd",
        "file:sub/e.csv",
        "s3a://bucket/e.csv",
        "table:events",
    ],
)
def test_what_leads_out_of_the_roots_may_not(places: Path, path: str) -> None:
    with pytest.raises(OutsideRootsError):
        Roots([places / "in"]).check(path.format(places))


def test_links_in_a_folder_may_not_lead_out(places: Path) -> None:
    roots = Roots([places / "in"])
    roots.check_files("sub")
    for path in (".", "*.csv", "folder-link"):
        with pytest.raises(OutsideRootsError):
            roots.check_files(path)


def at(address: str) -> httpx.Client:
    return httpx.Client(base_url=address, timeout=60)


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture
def client(pretend: list[str], places: Path, tmp_path: Path) -> Iterator[httpx.Client]:
    settings = Settings(
        data=tmp_path / "data", max_queries=5, planning_seconds=60, masters=("spark://there:7077",)
    )
    with serving(create_app(settings, pretend)) as address, at(address) as client:
        yield client


def test_jobs_and_samples_stay_under_the_roots(client: httpx.Client) -> None:
    plan = posted_plan(client)
    good = {"plan": plan["id"], "source": "sub/e.csv", "sink": "sub/out.csv"}
    assert client.post("/v1/jobs", json=good).status_code == 201
    onto = client.post("/v1/jobs", json=good | {"sink": "own-link/e.csv"})
    assert "it is the source" in is_problem(onto, 422, "invalid-request")["detail"]
    live = {"mode": "stream", "sink": None}
    for change in (
        {"source": "../out/e.csv"},
        {"sink": "folder-link/out.csv"},
        {"sink": "/x.csv"},
        {"source": "file:///etc/passwd"},
        live | {"sink": "file:///tmp"},
        live | {"stream": {"like": "file:///etc/passwd"}},
        live | {"stream": {"checkpoint": "file:///tmp"}},
    ):
        is_problem(client.post("/v1/jobs", json=good | change), 403, "path-not-allowed")
    address = f"/v1/workloads/{plan['workload']}/plans"
    for path in ("/etc/passwd", "file-link.csv"):
        for name in ("sample", "events"):
            is_problem(client.post(address, json={name: path}), 403, "path-not-allowed")


def test_a_real_job_reads_no_link_that_leads_out(places: Path, tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path / "data"))
    with serving(app) as address, at(address) as client:
        body = {"plan": posted_plan(client)["id"], "source": "*.csv", "engine": "local"}
        problem = is_problem(client.post("/v1/jobs", json=body), 403, "path-not-allowed")
        assert "leads out of the folders" in problem["detail"]


@pytest.mark.parametrize(
    ("master", "status"),
    [
        ("local[2]", 201),
        ("local", 201),
        ("spark://there:7077", 201),
        ("spark://elsewhere:7077", 422),
        ("local[2]; rm", 422),
        ("", 422),
    ],
)
def test_events_go_to_no_other_spark(client: httpx.Client, master: str, status: int) -> None:
    body = {"plan": posted_plan(client)["id"], "source": "sub/e.csv", "master": master}
    assert client.post("/v1/jobs", json=body).status_code == status


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
def test_too_many_queries_are_a_problem(client: httpx.Client, media: str) -> None:
    query = "PATTERN SEQ(View v, Buy b) AGG COUNT(*) WITHIN 1 min"
    body = json.dumps(EXAMPLE_WORKLOAD | {"queries": [query] * 6})
    response = client.post("/v1/workloads", content=body, headers={"content-type": media})
    assert "6 queries" in is_problem(response, 422, "too-many-queries")["detail"]


# --- work that takes too long --------------------------------------------------------------------


def test_too_many_candidates_are_a_problem(pretend: list[str], tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", max_candidates=1)
    queries = [
        f"QUERY q{i} PATTERN SEQ(View, Cart, Buy) AGG COUNT(*) WITHIN 1 min" for i in range(2)
    ]
    with serving(create_app(settings, pretend)) as address, at(address) as client:
        posted = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"queries": queries})
        plans = f"/v1/workloads/{posted.json()['id']}/plans"
        said = is_problem(client.post(plans), 422, "too-many-candidates")
        assert "pieces in common, and the service takes 1 (SHEAF_MAX_CANDIDATES)" in said["detail"]
        assert client.get("/v1/plans").json() == []


def test_work_is_ended_when_its_time_is_up_and_the_next_is_done() -> None:
    computing = ProcessPool(0.3, processes=1)
    try:
        with pytest.raises(TooLongError, match=r"longer than 0.3 s"):
            computing.call(time.sleep, 1000)
        assert computing.call(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            computing.call(divmod, 7, 0)
    finally:
        computing.close()
    with pytest.raises(SheafError, match="stopping"):
        computing.call(divmod, 7, 2)


def test_planning_that_takes_too_long_is_a_problem(pretend: list[str], tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, planning_seconds=0.000001)
    with serving(create_app(settings, pretend)) as address, at(address) as client:
        id = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()["id"]
        response = client.post(f"/v1/workloads/{id}/plans", json={"solver": "exhaustive"})
        is_problem(response, 422, "planning-too-long")
        # Where a process has been started, all that is planned from then on has a limit.
        is_problem(client.post(f"/v1/workloads/{id}/plans"), 422, "planning-too-long")


HOARD = "import time; held = b'x' * 700_000_000; time.sleep(1000)"


def test_work_that_takes_too_much_memory_is_ended_and_the_next_is_done() -> None:
    computing = ProcessPool(60, processes=1, memory=500_000_000)
    try:
        with pytest.raises(TooMuchMemoryError, match=r"more memory than 500 MB"):
            computing.call(exec, HOARD)
        assert computing.call(divmod, 7, 2) == (3, 1)
    finally:
        computing.close()


def test_planning_that_takes_too_much_memory_is_a_problem(
    pretend: list[str], tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path, planning_memory=1_000_000)
    with serving(create_app(settings, pretend)) as address, at(address) as client:
        id = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()["id"]
        response = client.post(f"/v1/workloads/{id}/plans", json={"solver": "exhaustive"})
        is_problem(response, 422, "planning-too-large")
        assert "SHEAF_PLANNING_MEMORY" in response.json()["detail"]
        assert client.get("/v1/workloads").status_code == 200


def test_a_task_whose_planning_takes_too_much_memory_fails_with_the_reason(
    pretend: list[str], tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path, planning_memory=1_000_000)
    with serving(create_app(settings, pretend)) as address, at(address) as client:
        id = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()["id"]
        headers = {"prefer": "respond-async"}
        task = client.post(f"/v1/workloads/{id}/plans", headers=headers).json()
        end = time.monotonic() + 60
        while task["status"] in ("queued", "running") and time.monotonic() < end:
            time.sleep(0.05)
            task = client.get(f"/v1/tasks/{task['id']}").json()
        assert task["status"] == "failed"
        assert "took more memory" in task["reason"]


# --- settings ------------------------------------------------------------------------------------


def test_settings_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "DATA": str(tmp_path / "d"),
        "ROOTS": f"{tmp_path}:/",
        "JOBS_AT_ONCE": "3",
        "PLANNING_SECONDS": "1.5",
        "JOB_MEMORY": "1.5 GB",
        "PLANNING_MEMORY": "3 GB",
        "BROKERS": "a:9092 b:9092",
        "STORE": "",
    }.items():
        monkeypatch.setenv(f"SHEAF_{name}", value)
    found = from_environment(jobs_at_once=4, store=None)
    assert found.data == tmp_path / "d"
    assert found.roots == (tmp_path, Path("/"))
    assert (found.jobs_at_once, found.planning_seconds, found.store) == (4, 1.5, None)
    assert found.planning_memory == 3_000_000_000
    assert found.job_memory == 1_500_000_000
    assert found.brokers == ("a:9092", "b:9092")
    assert Settings(data=tmp_path).jobs_at_once == 1  # a service of tests or demos has its own


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JOBS_AT_ONCE", "0"),
        ("MAX_BODY", "much"),
        ("ROOTS", "/no/such/folder"),
        ("PLANNING_SECONDS", "soon"),
        ("PLANNING_SECONDS", "-1"),
        ("JOB_MEMORY", "lots"),
        ("JOB_MEMORY", "0 GB"),
    ],
)
def test_a_setting_that_means_nothing_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SHEAF_{name}", value)
    with pytest.raises(SettingError, match=f"SHEAF_{name} is '{value}': "):
        from_environment()


# --- explain -------------------------------------------------------------------------------------


def test_a_workload_is_explained(client: httpx.Client) -> None:
    queries = [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1 min",
        "QUERY two PATTERN SEQ(A a, B b, D d) AGG COUNT(*) WITHIN 1 min",
        "QUERY three PATTERN SEQ(A a, SEQ(B b, C c)) PARTITION BY k AGG COUNT(*) WITHIN 2 min",
    ]
    document: dict[str, Any] = {
        "name": "explained",
        "stream": {"time": "ts", "type": "kind"},
        "queries": queries,
    }
    posted = client.post("/v1/workloads", json=document).json()
    found = client.get(f"/v1/workloads/{posted['id']}/explain").json()
    assert (found["workload"], found["workload_version"]) == (posted["id"], 1)
    three = found["queries"][2]
    assert (three["name"], three["form"]) == ("three", "DNF")
    assert three["normalized"] == "SEQ(A a, B b, C c)"
    assert len(three["rules"]) == 1
    assert ["A", "B"] in [c["pattern"] for c in found["candidates"]]
    assert any("three" in said and "key" in said for said in found["obstacles"])


def test_work_that_can_be_ended_stays_where_it_can_be(
    tmp_path: Path, pretend: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(data=tmp_path / "data"), pretend)
    with serving(app) as address, at(address) as client:
        workload = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()["id"]
        pool: ProcessPool = app.state.computing
        assert not pool.has_begun
        pool.call(int)
        for process in list(pool._all):  # as if each had been ended for taking too long
            pool._end(process)
        assert not pool.is_warm

        def here(*_: Any) -> Any:
            raise AssertionError("a workload was worked on where that cannot be ended")

        monkeypatch.setattr("api.http.routes.workloads.explain_bound", here)
        monkeypatch.setattr("api.http.routes.workloads.is_quick", here)
        assert client.get(f"/v1/workloads/{workload}/explain").status_code == 200
        assert client.post(f"/v1/workloads/{workload}/plans", json={}).status_code == 201


def test_a_process_that_plans_can_be_ready_before_it_is_needed() -> None:
    computing = ProcessPool(30, processes=1)
    assert not computing.is_warm
    computing.warm()
    end = time.monotonic() + 60
    while not computing.is_warm and time.monotonic() < end:
        time.sleep(0.05)
    assert computing.is_warm
    assert computing.call(int, "7") == 7
    computing.close()
