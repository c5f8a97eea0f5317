"""The plan is what runs: a job accounts for exactly the operators of its plan, whatever runs it."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi import FastAPI
from typer.testing import CliRunner

from api.cli.main import app as command_line
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.jobs.streaming import checked
from api.run_settings import RunSettings
from engines.devices import opencl_devices
from engines.execution import EventSource
from engines.input.event_table import column_kinds, from_table
from engines.reference.oracle import run_oracle
from engines.spark.stream.checkpoint import manifest_of, write_manifest
from engines.spark.stream.run import open_stream
from optimizer.bind.binder import bind
from optimizer.plan.load_plan import load_plan
from optimizer.plan.plan import VERSION, from_json, to_json
from tests.api.http.test_service import over
from tests.api.service import is_problem
from workloads.loading import load_workload

DOCUMENT: dict[str, Any] = {
    "name": "ways",
    "stream": {"time": "ts", "unit": "ms", "type": "kind", "lateness": "0 s"},
    "queries": [
        # Counted: of one window, and of several.
        "QUERY pairs PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*) WITHIN 400 ms",
        "QUERY triples PATTERN SEQ(A a, B b, D d) WHERE [user] AGG COUNT(*) WITHIN 400 ms",
        "QUERY wide PATTERN SEQ(A a, B b) AGG COUNT(*), SUM(b.x) WITHIN 600 ms SLIDE 200 ms",
        "QUERY wider PATTERN SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 800 ms SLIDE 200 ms",
        "QUERY direct PATTERN SEQ(A a, B b) PARTITION BY user STRATEGY STRICT AGG COUNT(*)"
        " WITHIN 400 ms",
        # Returned: two that have a join in common, one of two readings, and one with a negation.
        "QUERY found PATTERN SEQ(A a, C c) WHERE [user] RETURN a.x, c.x WITHIN 300 ms",
        "QUERY longer PATTERN SEQ(A a, C c, D d) WHERE [user] RETURN a.x WITHIN 300 ms",
        "QUERY either PATTERN SEQ(A a, OR(B b, C c)) WHERE [user] AND a.x > 5 RETURN a.x"
        " WITHIN 300 ms",
        "QUERY without PATTERN SEQ(A a, !B b, D d) WHERE [user] RETURN a.x, d.x WITHIN 300 ms",
        # Neither: it is bound one component after the other.
        "QUERY gathered PATTERN SEQ(A a, ALL B b) WHERE [user] AND a.x < 3 AGG COUNT(*)"
        " WITHIN 200 ms SLIDE 100 ms",
    ],
}
QUERIES = [text.split()[1] for text in DOCUMENT["queries"]]
COUNTING = (
    "product", "aseq", "pretree", "chopconnect", "panes", "folds", "sem", "fenwick", "runs",
)  # fmt: skip
# Columns that other operators make, what is counted within a counter, and what only passes rows on.
WITHOUT_TIME = ("symbol", "events", "segment", "union")
# A is so rare that one counter for each start is cheaper than the product of all events.
RARE_STARTS = {
    "rates": {"A": 0.05, "B": 400.0, "C": 300.0, "D": 300.0},
    "keys": {"user": {"cardinality": 3.0, "heaviest": 0.4}},
    "events": 100_000,
    "span": 100.0,
}
PLANS: dict[str, dict[str, Any]] = {
    "shared": {"sample": "events"},
    "separate": {"sample": "events", "sharing": False, "solver": "cpsat"},
    "rare starts": {"statistics": RARE_STARTS, "solver": "exhaustive"},
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    draw, number = np.random.default_rng(3), 600
    return pa.table(
        {
            "ts": np.arange(number) * 10,
            "kind": draw.choice(list("ABCD"), number),
            "user": draw.choice(["u", "v", "w"], number),
            "x": draw.integers(0, 10, number),
        }
    )


@pytest.fixture(scope="module")
def events(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files, for a stream to read one after the other."""
    folder = tmp_path_factory.mktemp("events")
    for place, start in enumerate((0, 300)):
        path = folder / f"{place}.parquet"
        pq.write_table(table.slice(start, 300), path)
        os.utime(path, (1_700_000_000 + place,) * 2)  # by which a stream takes them
    return folder


@pytest.fixture(scope="module")
def expected(table: pa.Table) -> Counter[str]:
    """Rows by query, by brute force."""
    bound = bind(load_workload(DOCUMENT), column_kinds(table.schema))
    results = run_oracle(bound, from_table(table, bound.stream))
    rows = Counter(results.aggregates["query"].to_pylist() + results.matches["query"].to_pylist())
    assert set(rows) == set(QUERIES)
    return rows


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, httpx.Client]]:
    folder = tmp_path_factory.mktemp("data")
    app = create_app(Settings(data=folder, roots=(tmp_path_factory.getbasetemp(),)))
    with serving(app) as address, httpx.Client(base_url=address, timeout=120) as client:
        yield app, client


@pytest.fixture(scope="module")
def client(service: tuple[FastAPI, httpx.Client]) -> httpx.Client:
    return service[1]


@pytest.fixture(scope="module")
def plans(client: httpx.Client, events: Path) -> dict[str, dict[str, Any]]:
    workload = client.post("/v1/workloads", json=DOCUMENT).json()["id"]

    def made(wanted: dict[str, Any]) -> dict[str, Any]:
        given = {**wanted, "sample": str(events)} if "sample" in wanted else wanted
        answer = client.post(f"/v1/workloads/{workload}/plans", json=given)
        assert answer.status_code == 201, answer.text
        plan: dict[str, Any] = answer.json()
        return plan

    return {name: made(wanted) for name, wanted in PLANS.items()}


def groups_of(plan: dict[str, Any], *engines: str) -> list[list[str]]:
    return sorted(group["queries"] for group in plan["groups"] if group["engine"] in engines)


def finished_job(client: httpx.Client, plan: str, events: Path, **more: Any) -> dict[str, Any]:
    body = {"plan": plan, "source": str(events), "master": "local[2]", **more}
    posted = client.post("/v1/jobs", json=body)
    assert posted.status_code == 201, posted.text
    return over(client, posted.json()["id"])


def check_account(plan: dict[str, Any], found: dict[str, Any], rows: Counter[str]) -> None:
    """Exactly the operators of a plan, in its order, each of which has run and has its counts."""
    operators = found["operators"]
    assert [o["id"] for o in operators] == [o["id"] for o in plan["operators"]]
    assert [o["kind"] for o in operators] == [o["kind"] for o in plan["operators"]]
    assert not any(o.get("unplanned") for o in operators)
    # What binds one component after the other makes the rows as well.
    stepwise = {o["id"] for o in operators if o["kind"] == "stepwise"}
    ready = {o["id"] for o in plan["operators"] if stepwise & set(o["inputs"])}
    for operator in operators:
        if operator["kind"] != "segment":
            assert operator["rows_in"] is not None, operator
            assert operator["rows_out"] is not None, operator
    # The others are not listed only: they have taken time.
    idle = [o for o in operators if not o["cpu_seconds"] and o["id"] not in ready]
    assert [o for o in idle if o["kind"] not in WITHOUT_TIME] == []
    outputs = {o["about"].split(":")[0]: o["rows_out"] for o in operators if o["kind"] == "output"}
    assert outputs == rows
    # What counts, counts what the plan says, by what it says.
    counters = [o["about"] for o in operators if o["kind"] == "counter"]
    counting = [group for group in plan["groups"] if group["engine"] in COUNTING]
    assert sorted(counters) == sorted(f"{g['engine']}: {', '.join(g['queries'])}" for g in counting)
    assert len(stepwise) == len(groups_of(plan, "stepwise")) == 1
    assert found["fallbacks"] == []
    assert found["trees"] == []


def test_the_plans_differ(plans: dict[str, dict[str, Any]]) -> None:
    shared, separate = plans["shared"], plans["separate"]
    assert len({plan["id"] for plan in plans.values()}) == 3
    for plan in plans.values():
        assert groups_of(plan, "stepwise") == [["gathered"]]
        assert not groups_of(plan, "deferred-trees")
    assert (shared["sharing"], separate["sharing"]) == (True, False)
    assert {"pairs", "triples"} in map(set, groups_of(shared, *COUNTING))
    assert {len(queries) for queries in groups_of(separate, *COUNTING, "trees")} == {1}
    assert len(separate["operators"]) > len(shared["operators"])
    engines = {name: {g["engine"] for g in plan["groups"]} for name, plan in plans.items()}
    assert engines["rare starts"] != engines["shared"]
    # What is fetched is the plan itself, to its id.
    assert {from_json(plan).id for plan in plans.values()} == {p["id"] for p in plans.values()}


@pytest.mark.parametrize("name", PLANS)
def test_a_local_job_runs_the_operators_of_its_plan(
    client: httpx.Client,
    plans: dict[str, dict[str, Any]],
    events: Path,
    expected: Counter[str],
    name: str,
) -> None:
    job = finished_job(client, plans[name]["id"], events, engine="local")
    assert job["status"] == "succeeded", job["reason"]
    found = client.get(f"/v1/jobs/{job['id']}/operators").json()
    check_account(plans[name], found, expected)
    by_kind = {o["kind"]: o for o in found["operators"]}
    assert (by_kind["scan"]["rows_in"], by_kind["scan"]["rows_out"]) == (600, 600)
    assert sum(job["rows"].values()) == expected.total()
    claimed = sum(o["cpu_seconds"] for o in found["operators"])
    assert claimed <= found["cpu_seconds"] + 0.001
    assert found["unclaimed_seconds"] == pytest.approx(found["cpu_seconds"] - claimed, abs=0.001)
    predicted = sum(o["predicted_seconds"] for o in found["operators"])
    assert found["predicted_seconds"] == pytest.approx(predicted)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_a_spark_job_runs_the_operators_of_its_plan(
    client: httpx.Client,
    plans: dict[str, dict[str, Any]],
    events: Path,
    expected: Counter[str],
    mode: str,
) -> None:
    name = "shared"
    live = {"stream": {"once": True, "finish": True, "buckets": 2, "files": 1}}
    more = live if mode == "stream" else {}
    job = finished_job(client, plans[name]["id"], events, mode=mode, engine="spark", **more)
    assert job["status"] == "succeeded", job["reason"]
    found = client.get(f"/v1/jobs/{job['id']}/operators").json()
    if mode == "stream":
        assert job["stream"]["late"] == 0
        assert job["stream"]["batches"] >= 2
        assert 0 < job["stream"]["batch_p50"] <= job["stream"]["batch_p99"]
    check_account(plans[name], found, expected)
    (scan,) = (o for o in found["operators"] if o["kind"] == "scan")
    assert (scan["rows_in"], scan["rows_out"]) == (600, 600)
    assert sum(job["rows"].values()) == expected.total()


def test_a_spark_job_without_sharing_reads_the_events_once_and_says_so(
    client: httpx.Client,
    plans: dict[str, dict[str, Any]],
    events: Path,
    expected: Counter[str],
) -> None:
    job = finished_job(client, plans["separate"]["id"], events, mode="batch", engine="spark")
    assert job["status"] == "succeeded", job["reason"]
    found = client.get(f"/v1/jobs/{job['id']}/operators").json()
    assert [o["id"] for o in found["operators"]] == [
        o["id"] for o in plans["separate"]["operators"]
    ]
    outputs = [o for o in found["operators"] if o["kind"] == "output"]
    assert {o["about"].split(":")[0]: o["rows_out"] for o in outputs} == expected
    (said,) = found["fallbacks"]
    assert "once" in said


def test_a_stream_that_goes_on_with_another_plan_keeps_state_of_the_same_form(
    plans: dict[str, dict[str, Any]], events: Path, tmp_path: Path
) -> None:
    """Counters hold symbols, except by folds and Fenwick trees; all else holds events."""

    def form(plan: dict[str, Any], query: str) -> str:
        (engine,) = (g["engine"] for g in plan["groups"] if query in g["queries"])
        return "symbols" if engine in COUNTING and engine not in ("folds", "fenwick") else "events"

    source, checkpoint = EventSource(str(events)), str(tmp_path / "checkpoint")
    options = asdict(RunSettings())
    request = {"source": str(events), "options": options, "live": {"like": None}}
    request["connections"] = None
    program, opened = open_stream(from_json(plans["shared"]), source, checkpoint)
    write_manifest(checkpoint, manifest_of(program, opened.schema, opened.tick, 2, 2))
    for name in PLANS:
        same = [q for q in QUERIES if form(plans[name], q) == form(plans["shared"], q)]
        said = checked(request, plans[name], checkpoint)
        assert sorted(said["kept"]) == sorted(same)
        assert sorted(said["afresh"]) == sorted(set(QUERIES) - set(same))
    paned = on_engine(plans["separate"], "panes")
    said = checked(request, paned, checkpoint)
    assert {"pairs", "triples", "found", "without", "gathered"} <= set(said["kept"])


# --- plans that come as files ---------------------------------------------------------------------


def sheaf(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, [str(argument) for argument in arguments])
    return result.exit_code, result.stderr


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "ways.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


def run_with(plan: dict[str, Any], workload: Path, events: Path, *more: str) -> dict[str, Any]:
    """The report of a run by a plan from a file."""
    path = workload.with_name("plan.json")
    path.write_text(json.dumps(plan))
    code, said = sheaf("run", workload, "--events", events, "--plan", path, *more)
    assert code == 0, said
    report: dict[str, Any] = json.loads(said.splitlines()[-1])
    return report


def on_engine(plan: dict[str, Any], engine: str) -> dict[str, Any]:
    """The plan with all that it counts counted by another engine, as people would edit it."""
    edited: dict[str, Any] = json.loads(json.dumps(plan))
    for group in edited["groups"]:
        if group["engine"] in COUNTING:
            group["engine"] = engine
    return edited


def test_a_plan_made_elsewhere_gives_the_same_operators(
    client: httpx.Client,
    plans: dict[str, dict[str, Any]],
    events: Path,
    workload: Path,
    expected: Counter[str],
) -> None:
    for name, plan in plans.items():
        report = run_with(plan, workload, events)
        assert report["plan"] == plan["id"], name
        assert report["rows_by_query"] == expected
        check_account(plan, report, expected)


@pytest.mark.parametrize("engine", ["product", "aseq"])
def test_a_plan_edited_to_another_engine_runs_on_that_engine(
    plans: dict[str, dict[str, Any]],
    events: Path,
    workload: Path,
    expected: Counter[str],
    engine: str,
) -> None:
    before = {group["engine"] for group in plans["separate"]["groups"]}
    edited = on_engine(plans["separate"], engine)
    assert {group["engine"] for group in edited["groups"]} != before
    report = run_with(edited, workload, events)
    assert report["plan"] != plans["separate"]["id"]
    check_account(to_json(load_plan(edited)), report, expected)
    counters = [o["about"] for o in report["operators"] if o["kind"] == "counter"]
    assert {about.split(":")[0] for about in counters} == {engine}


def test_what_cannot_run_as_a_plan_was_edited_is_refused(
    plans: dict[str, dict[str, Any]], events: Path, workload: Path
) -> None:
    path = workload.with_name("plan.json")

    def refused(edited: dict[str, Any]) -> str:
        path.write_text(json.dumps(edited))
        code, said = sheaf("run", workload, "--events", events, "--plan", path)
        assert code == 1
        return said

    operators: dict[str, Any] = json.loads(json.dumps(plans["separate"]))
    counter = next(o for o in operators["operators"] if o["kind"] == "counter")
    counter["detail"]["engine"] = "panes"
    assert "operators were edited: they follow from its groups" in refused(operators)
    unknown: dict[str, Any] = json.loads(json.dumps(plans["separate"]))
    unknown["groups"][0]["engine"] = "abacus"
    assert "has the engine 'abacus'; engines are product" in refused(unknown)
    unfit: dict[str, Any] = json.loads(json.dumps(plans["separate"]))
    for group in unfit["groups"]:
        if group["engine"] not in COUNTING:
            group["engine"] = "product"
    assert "cannot run" in refused(unfit)


# --- plans that are refused -----------------------------------------------------------------------


def missing(table: pa.Table) -> pa.Table:
    return table.drop_columns(["x"])


def as_text(table: pa.Table) -> pa.Table:
    return table.set_column(3, "x", table["x"].cast(pa.string()))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [(missing, "unknown attribute 'x'"), (as_text, "x")],
    ids=["a column is missing", "a column is of another type"],
)
def test_a_plan_that_does_not_fit_the_events_is_refused(
    client: httpx.Client,
    plans: dict[str, dict[str, Any]],
    table: pa.Table,
    tmp_path: Path,
    workload: Path,
    changed: Any,
    reason: str,
) -> None:
    pq.write_table(changed(table), tmp_path / "other.parquet")
    plan = plans["shared"]
    job = finished_job(client, plan["id"], tmp_path / "other.parquet", engine="local")
    assert job["status"] == "failed"
    assert f"{plan['id']} does not fit these events: query " in job["reason"]
    assert reason in job["reason"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    code, said = sheaf("run", workload, "--events", tmp_path / "other.parquet", "--plan", path)
    assert code == 1
    assert f"{plan['id']} does not fit these events: query " in said


def test_a_plan_of_another_workload_is_refused(
    plans: dict[str, dict[str, Any]], events: Path, workload: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plans["shared"]))
    workload.write_text(json.dumps({**DOCUMENT, "queries": DOCUMENT["queries"][:2]}))
    code, said = sheaf("run", workload, "--events", events, "--plan", path)
    assert code == 1
    assert "is not a plan of this workload: the two differ in queries" in said


def test_a_plan_of_another_version_is_refused(
    service: tuple[FastAPI, httpx.Client],
    plans: dict[str, dict[str, Any]],
    events: Path,
    workload: Path,
    tmp_path: Path,
) -> None:
    app, client = service
    old = {**plans["shared"], "version": VERSION - 1, "id": "plan-0000000000ad"}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(old))
    code, said = sheaf("run", workload, "--events", events, "--plan", path)
    assert code == 1
    assert f"version {VERSION - 1}, and this Sheaf reads {VERSION}; make it again" in said
    store = app.state.store
    store.add_plan(store.workload(plans["shared"]["workload"]), old)
    answer = client.post("/v1/jobs", json={"plan": old["id"], "source": str(events)})
    problem = is_problem(answer, 422, "invalid-request")
    assert f"version {VERSION - 1}, and this Sheaf runs {VERSION}" in problem["detail"]


# --- devices --------------------------------------------------------------------------------------


@pytest.mark.skipif(not opencl_devices()[0], reason="no OpenCL device")
def test_an_engine_without_a_kernel_for_the_device_is_a_named_fallback(
    client: httpx.Client,
    plans: dict[str, dict[str, Any]],
    events: Path,
    workload: Path,
    expected: Counter[str],
) -> None:
    plan = plans["rare starts"]
    others = groups_of(plan, "aseq", "pretree", "chopconnect", "panes", "runs")
    assert others
    job = finished_job(client, plan["id"], events, engine="local", device="opencl")
    assert job["status"] == "succeeded", job["reason"]
    found = client.get(f"/v1/jobs/{job['id']}/operators").json()
    said = [text for text in found["fallbacks"] if "has no kernel for opencl" in text]
    assert len(said) == len(others)
    assert all("computing on the CPU instead" in text for text in said)
    check_account(plan, {**found, "fallbacks": []}, expected)
    report = run_with(plan, workload, events, "--device", "opencl")
    assert report["fallbacks"] == found["fallbacks"]
    assert report["device"] == "opencl"


@pytest.mark.skipif(not opencl_devices()[0], reason="no OpenCL device")
def test_a_plan_made_for_a_device_names_it(client: httpx.Client, events: Path) -> None:
    workload = client.post("/v1/workloads", json=DOCUMENT).json()["id"]
    wanted = {"sample": str(events), "device": "opencl"}
    plan = client.post(f"/v1/workloads/{workload}/plans", json=wanted).json()
    assert "opencl" in {group["device"] for group in plan["groups"]}
    counters = [o["detail"] for o in plan["operators"] if o["kind"] == "counter"]
    by_queries = {tuple(group["queries"]): group["device"] for group in plan["groups"]}
    assert all(by_queries[tuple(c["queries"])] == c["device"] for c in counters)
