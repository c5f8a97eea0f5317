"""The options of a run through each door, and what is said where events lack what queries ask for.

Doors: the command line, HTTP with jobs that really run, both clients, the Python module, pages.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, get_args

import httpx
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import sheaf
from api.cli.main import app as command_line
from api.client import AsyncClient, Client, ServiceError
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import SettingError, Settings, from_environment
from api.jobs.account import read_account
from api.jobs.folder import Attempt
from api.jobs.streaming import StreamMonitor
from api.run_settings import OptionError, Runner, RunSettings
from api.store.jobs import _request
from api.store.schema import JobRow
from engines.columns.occurrences import Occurrences
from engines.limits import EventsError
from engines.spark.stream.job import RouteTurn, StreamProgress
from optimizer.bind.binder import load_bound
from tests.api.service import finished, is_problem

WORKLOAD: dict[str, Any] = {
    "name": "payments",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        'QUERY retried PATTERN SEQ("payment.fail" f, "payment.ok" o) PARTITION BY user '
        "RETURN f.ts, o.ts WITHIN 1 min",
        'QUERY coupon PATTERN SEQ("payment.fial" f, "payment.ok" o) PARTITION BY user '
        "AGG COUNT(*) WITHIN 1 min",
        'QUERY session PATTERN SEQ("payment.fail" f, "payment.ok" o) PARTITION BY session '
        "WHERE f.reason = 'x' AGG COUNT(*) WITHIN 1 min",
    ],
}
MISSPELT = "query coupon: no event has 'payment.fial'; did you mean 'payment.fail'?"
NO_KEY = (
    "query session: its key 'session' is null in every event of 'payment.fail', and an event "
    "without a key is in no match"
)
NO_VALUE = "query session: 'reason' is null in every event of 'payment.fail'"
NOTES = [MISSPELT, NO_KEY, NO_VALUE]
BY_QUERY = {"retried": 3, "coupon": 0, "session": 0}
HEADER = "ts,kind,user,session,reason\n"
ROWS = [
    "1,payment.fail,u1,,",
    "2,payment.ok,u1,s1,x",
    "3,login,u2,s2,",
    "4,payment.fail,u2,,",
    "5,payment.ok,u2,s2,x",
    "6,payment.ok,u1,s1,",
]


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "clean.csv"
    path.write_text(HEADER + "\n".join(ROWS) + "\n")
    return path


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    """The same events, and a row without a time."""
    path = tmp_path / "dirty.csv"
    path.write_text(HEADER + "\n".join([*ROWS[:2], ",login,u3,,", *ROWS[2:]]) + "\n")
    return path


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "payments.json"
    path.write_text(json.dumps(WORKLOAD))
    return path


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """Jobs of this one really run."""
    settings = Settings(data=tmp_path / "data", roots=(tmp_path,), row_limit=1000)
    with serving(create_app(settings)) as address:
        yield address


@pytest.fixture
def client(service: str) -> Iterator[Client]:
    with Client(service) as made:
        yield made


@pytest.fixture
def http(service: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service, timeout=60) as made:
        yield made


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command_line, [str(argument) for argument in arguments])


def report_of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stderr.strip().splitlines()[-1])
    return found


def notes_of(result: Result) -> list[str]:
    lines = result.stderr.splitlines()
    return [line.removeprefix("note: ") for line in lines if line.startswith("note: query")]


# --- what no event has ---------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--slice", "2"], ["--engine", "oracle"]])
def test_a_run_says_of_each_query_what_no_event_has(
    workload: Path, clean: Path, more: list[str]
) -> None:
    result = run("run", workload, "--events", clean, *more)
    assert result.exit_code == 0, result.stderr
    assert notes_of(result) == NOTES
    report = report_of(result)
    assert (report["notes"], report["rows_by_query"]) == (NOTES, BY_QUERY)


def test_what_comes_late_in_the_stream_is_not_missed(workload: Path, clean: Path) -> None:
    """Notes are on all events, not on the first slice."""
    late = "9,payment.fial,u1,s1,x\n10,payment.fail,u1,s1,x\n"
    clean.write_text(clean.read_text() + late)
    result = run("run", workload, "--events", clean, "--slice", "2")
    assert report_of(result)["notes"] == []


def test_an_empty_file_is_said_to_be_one(workload: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text(HEADER)
    result = run("run", workload, "--events", tmp_path / "none.csv", "--query", "coupon")
    assert report_of(result)["notes"] == [f"'{tmp_path / 'none.csv'}' has no events"]


def test_plan_and_check_say_it_before_a_run(workload: Path, clean: Path) -> None:
    text = run("plan", workload, "--events", clean)
    assert f"\nnote      {MISSPELT}\n" in text.stdout
    plan = run("plan", workload, "--events", clean, "--format", "json")
    assert json.loads(plan.stdout)["notes"] == NOTES
    assert notes_of(plan) == NOTES
    assert notes_of(run("check", workload, "--events", clean)) == NOTES
    assert notes_of(run("check", workload)) == []


def test_notes_do_not_change_which_plan_it_is(workload: Path, clean: Path) -> None:
    planned = json.loads(run("plan", workload, "--events", clean, "--format", "json").stdout)
    assert report_of(run("run", workload, "--events", clean))["plan"] == planned["id"]
    assert sheaf.Plan.read(planned).physical.notes == tuple(NOTES)


def test_the_python_module_says_it(workload: Path, clean: Path) -> None:
    plan = sheaf.plan(workload, clean)
    assert MISSPELT in " ".join(str(plan).split())
    results = sheaf.run(plan, clean)
    assert (results.report["notes"], results.report["rows_by_query"]) == (NOTES, BY_QUERY)


def test_a_job_and_its_pages_say_it(client: Client, http: httpx.Client, clean: Path) -> None:
    stored = client.post_workload(WORKLOAD)
    plan = client.plan(stored.id, sample=clean)
    assert plan.notes == NOTES
    job = client.wait(client.launch(plan.id, clean, engine="local").id)
    assert (job.notes, job.rows_by_query) == (NOTES, BY_QUERY)
    for page in (f"/plans/{plan.id}", f"/jobs/{job.id}"):
        html = unescape(http.get(page).text)
        assert [note for note in NOTES if f"<li>{note}</li>" not in html] == [], page
    assert "coupon · 0 rows" in html
    assert "retried · 3 rows" in html


# --- the same options everywhere -----------------------------------------------------------------


def test_rows_that_are_no_events_can_be_left_out_through_each_door(
    workload: Path, dirty: Path, client: Client
) -> None:
    assert "--on-error skip" in run("plan", workload, "--events", dirty).stderr
    skip = ["--events", str(dirty), "--on-error", "skip"]
    planned = run("plan", workload, *skip)
    assert "left out 1" in planned.stderr
    assert "6 of 6 events" in planned.stdout
    assert report_of(run("run", workload, *skip))["skipped"] == 1
    assert run("check", workload, *skip).exit_code == 0

    assert "6 of 6 events" in str(sheaf.plan(workload, dirty, on_error="skip"))
    assert sheaf.run(workload, dirty, on_error="skip").report["skipped"] == 1
    with pytest.raises(sheaf.SheafError, match="null"):
        sheaf.run(workload, dirty)

    stored = client.post_workload(WORKLOAD)
    with pytest.raises(ServiceError, match="null"):
        client.plan(stored.id, sample=str(dirty))
    plan = client.plan(stored.id, sample=str(dirty), on_error="skip")
    job = client.wait(client.launch(plan.id, dirty, engine="local", on_error="skip").id)
    assert (job.events, job.skipped, job.options["on_error"]) == (6, 1, "skip")
    failed = finished(client._http, client.launch(plan.id, dirty, engine="local").id)
    assert "null" in failed["reason"]


def test_a_job_takes_every_option(client: Client, http: httpx.Client, clean: Path) -> None:
    """Those of the local engine, over HTTP; the limit on partial matches is met."""
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    options = {
        "on_error": "skip",
        "disorder": "2 s",
        "slice": 2,
        "partial_limit": 1,
        "on_limit": "drop-oldest",
        "row_limit": 500,
        "threads": 2,
        "match": "struct",
    }
    clean.write_text(HEADER + "\n".join([*ROWS, "1,login,u1,s1,"]) + "\n")
    body = {"plan": plan, "source": str(clean), "engine": "local", **options}
    answer = http.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    job = finished(http, answer.json()["id"])
    assert (job["status"], job["options"]) == ("succeeded", options)
    assert (job["events"], job["skipped"]) == (6, 1)  # the last one is 5 s late


def test_the_asynchronous_client_takes_them_too(service: str, dirty: Path) -> None:
    async def launched() -> Any:
        async with AsyncClient(service) as client:
            stored = await client.post_workload(WORKLOAD)
            plan = await client.plan(stored.id, sample=dirty, on_error="skip")
            job = await client.launch(plan.id, dirty, engine="local", on_error="skip", slice=3)
            return await client.wait(job.id)

    job = asyncio.run(launched())
    assert (job.skipped, job.options["slice"], job.notes) == (1, 3, NOTES)


def test_the_command_line_launches_with_them(
    service: str, client: Client, dirty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHEAF_SERVER", service)
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    launch = ["job", "launch", plan, "--events", str(dirty), "--engine", "local", "--wait"]
    result = run(*launch, "--on-error", "skip", "--disorder", "10 s", "--row-limit", "7")
    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert "on_error skip, disorder 10 s, row_limit 7" in shown
    assert "by query retried 3, coupon 0, session 0" in shown
    assert notes_of(result) == NOTES


def test_the_form_has_all_of_them(client: Client, http: httpx.Client) -> None:
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    html = http.get(f"/jobs/new?plan={plan}").text
    for name in RunSettings.__dataclass_fields__:
        assert f'name="{name}"' in html, name
    assert 'max="1000"' in html
    (script,) = re.findall(r'src="([^"]*launch[^"]*)"', html)
    sent = http.get(script).text
    for name in RunSettings.__dataclass_fields__:
        assert f'"{name}"' in sent or f"{name}:" in sent, name


@pytest.mark.parametrize(
    ("runner", "option", "why"),
    [
        ("spark", {"slice": 5}, "Spark spreads events"),
        ("spark", {"disorder": "1 s"}, "Spark sorts"),
        ("spark", {"partial_limit": 5}, "partial matches"),
        ("stream", {"slice": 5}, "batch by batch"),
        ("stream", {"partial_limit": 5}, "partial matches"),
        ("oracle", {"on_error": "skip"}, "oracle"),
        ("oracle", {"row_limit": 5}, "all rows"),
        ("oracle", {"threads": 2}, "has one"),
        ("spark", {"threads": 2}, "as its master says"),
        ("stream", {"match": "struct"}, "matches as text"),
        ("oracle", {"match": "struct"}, "matches as text"),
        ("local", {"disorder": "soon"}, "'10 s'"),
        ("local", {"disorder": "9" * 400 + " s"}, "longer than any stream"),
        ("local", {"on_limit": "drop-oldest"}, "partial_limit"),
        ("local", {"slice": 0}, "1 or more"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_the_reason(
    runner: Runner, option: dict[str, Any], why: str
) -> None:
    with pytest.raises(OptionError, match=why):
        RunSettings(**option).check(runner)


def test_every_runner_takes_the_defaults() -> None:
    for runner in get_args(Runner):
        RunSettings().check(runner)
    RunSettings("skip", "1 s", row_limit=9).check("stream")
    RunSettings("skip", row_limit=9).check("spark")


def test_they_are_refused_at_once_over_http(
    client: Client, http: httpx.Client, clean: Path
) -> None:
    workload = client.post_workload(WORKLOAD).id
    body = {"plan": client.plan(workload).id, "source": str(clean)}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"slice": 5}, "slice is for the local engine"),
        ({"mode": "stream", "partial_limit": 5}, "partial_limit is for the local engine"),
        ({"engine": "local", "disorder": "soon"}, "'10 s'"),
        ({"engine": "local", "row_limit": 1001}, "1,000 at most (SHEAF_ROW_LIMIT)"),
    ]
    for more, said in wrong:
        problem = is_problem(http.post("/v1/jobs", json=body | more), 422, "invalid-request")
        assert said in problem["detail"]
    answer = http.post(f"/v1/workloads/{workload}/plans", json={"disorder": "soon"})
    assert "'10 s'" in is_problem(answer, 422, "invalid-request")["detail"]


def test_the_service_limits_rows_unless_it_is_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settings(data=tmp_path).row_limit == 10_000_000
    for text, limit in (("5", 5), ("none", None)):
        monkeypatch.setenv("SHEAF_ROW_LIMIT", text)
        assert from_environment(data=tmp_path).row_limit == limit
    monkeypatch.setenv("SHEAF_ROW_LIMIT", "0")
    with pytest.raises(SettingError, match="'none'"):
        from_environment()


def test_a_job_has_the_limit_of_the_service(client: Client, clean: Path) -> None:
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    assert client.launch(plan, clean, engine="local").options == {"row_limit": 1000}
    assert client.launch(plan, clean, engine="local", row_limit=7).options == {"row_limit": 7}


def test_jobs_that_an_earlier_version_stored_are_read() -> None:
    live = {"checkpoint": None, "every": None, "on_error": "skip", "once": True}
    stored = {"plan": "p", "workload": "w", "version": 1, "source": "s", "live": live}
    request = _request(JobRow(request=stored))
    assert (request.options, request.live is not None) == (RunSettings("skip"), True)


# --- sources -------------------------------------------------------------------------------------


def test_a_source_without_events_is_refused_at_once(
    client: Client, http: httpx.Client, tmp_path: Path, clean: Path
) -> None:
    (tmp_path / "empty").mkdir()
    workload = client.post_workload(WORKLOAD).id
    plan = client.plan(workload).id
    for source in ("nosuch.csv", "empty", "*.parquet", "payments.txt"):
        path = str(tmp_path / source)
        problem = is_problem(
            http.post("/v1/jobs", json={"plan": plan, "source": path}), 422, "source-not-found"
        )
        assert path in problem["detail"]
        sample = http.post(f"/v1/workloads/{workload}/plans", json={"sample": path})
        is_problem(sample, 422, "source-not-found")
    assert list(client.jobs()) == []


def test_the_folder_of_a_stream_may_be_empty_where_its_columns_are_known(
    client: Client, http: httpx.Client, tmp_path: Path, clean: Path
) -> None:
    (tmp_path / "empty").mkdir()
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    body: dict[str, Any] = {"plan": plan, "mode": "stream", "source": str(tmp_path / "empty")}
    missing = str(tmp_path / "nosuch")
    for more, said in (
        ({}, "stream.like"),
        ({"source": missing}, "there is no folder"),
        ({"stream": {"like": missing}}, "there is no file"),
    ):
        problem = is_problem(http.post("/v1/jobs", json=body | more), 422, "source-not-found")
        assert said in problem["detail"]
    from api.http.routes.jobs import check_source
    from api.jobs.model import LiveJobOptions
    from api.jobs.roots import Roots

    roots = Roots([tmp_path])
    check_source(body["source"], LiveJobOptions(like=str(clean)), WORKLOAD, roots)
    declared = {"stream": {"attributes": {"user": "string"}}}
    check_source(body["source"], LiveJobOptions(), declared, roots)


def test_events_in_memory_are_no_path_of_a_service(client: Client) -> None:
    table: Any = pa.table({"ts": [1]})
    with pytest.raises(TypeError, match=r"this is a Table: write it to a file.*to_parquet"):
        client.launch("plan-1", table)
    with pytest.raises(TypeError, match="sample is a path"):
        client.plan("w", sample=table)
    with pytest.raises(EventsError, match=r"^the events: no column 'kind'"):
        sheaf.run(WORKLOAD, table)  # this process may take it: what is missing are columns


# --- the rest ------------------------------------------------------------------------------------


def test_some_queries_of_a_workload_run_alone(workload: Path, clean: Path, tmp_path: Path) -> None:
    some = ["--query", "session", "--query", "retried"]
    report = report_of(run("run", workload, "--events", clean, *some))
    assert report["rows_by_query"] == {"retried": 3, "session": 0}
    assert report["notes"] == [NO_KEY, NO_VALUE]
    wrong = run("run", workload, "--events", clean, "--query", "cupon")
    assert "payments has no query 'cupon'; did you mean 'coupon'?" in wrong.stderr


def test_a_plan_that_is_not_there_is_said_with_what_to_do(workload: Path, clean: Path) -> None:
    result = run("run", workload, "--events", clean, "--plan", "nosuch.json")
    assert result.exit_code == 1
    assert "sheaf plan WORKLOAD --format json > nosuch.json" in result.stderr


def test_a_plan_is_made_for_a_device(workload: Path) -> None:
    plan = json.loads(run("plan", workload, "--device", "cpu", "--format", "json").stdout)
    assert {group["device"] for group in plan["groups"]} == {"cpu"}
    assert run("plan", workload, "--device", "abacus").exit_code == 2


def test_a_plan_by_a_report_says_what_measured_it(
    workload: Path, clean: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(report_of(run("run", workload, "--events", clean))))
    result = run("plan", workload, "--from", report)
    assert "known     measured by a run of 6 events" in result.stdout
    assert f"known: measured by a run of 6 events ({report})" in result.stderr


def test_results_of_both_kinds_go_to_two_files(
    service: str, client: Client, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHEAF_SERVER", service)
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    job = client.wait(client.launch(plan, clean, engine="local").id)
    result = run("results", job.id, "--out", tmp_path / "found.csv")
    assert result.exit_code == 0, result.output
    assert len((tmp_path / "found.matches.csv").read_text().splitlines()) == 4
    assert len((tmp_path / "found.aggregates.csv").read_text().splitlines()) == 1
    run("results", job.id, "--out", tmp_path / "one.csv", "--kind", "matches")
    run("results", job.id, "--out", tmp_path / "query.csv", "--query", "retried")
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "query.csv").read_text()


def test_a_stream_that_is_started_again_remembers_what_has_occurred(tmp_path: Path) -> None:
    """Its notes are on all of its events, whichever process read them, and on the plan it runs."""

    def seen(kind: str) -> dict[str, Any]:
        """What a process sees whose events are of one kind."""
        rows = [row.split(",") for row in ROWS if kind in row]
        columns = {
            name: pa.array([row[i] or None for row in rows], pa.string())
            for i, name in enumerate(HEADER.strip().split(","))
        }
        found = Occurrences(load_bound(WORKLOAD))
        found.add(pa.table(columns))
        return found.seen()

    attempt = Attempt(tmp_path / "job/attempts/1")
    attempt.path.mkdir(parents=True)
    routes = (RouteTurn(("user",), ("retried", "coupon")), RouteTurn(("session",), ("session",)))
    ok = seen("payment.ok")
    batch = StreamProgress(0, 1.0, 3, rows={"retried": 2}, routes=routes, seen=ok)
    StreamMonitor(attempt, WORKLOAD, lambda message: None, lambda: None).on_batch(batch)
    account = read_account(attempt.job.account)
    missing = "no event has 'payment.fail'; did you mean 'payment.ok'?"
    assert f"query retried: {missing}" in account.notes
    assert account.by_query == {"retried": 2, "coupon": 0, "session": 0}

    again = StreamMonitor(attempt, WORKLOAD, lambda message: None, lambda: None)
    fail = seen("payment.fail")
    again.on_batch(StreamProgress(1, 1.0, 2, rows={"retried": 1}, routes=routes, seen=fail))
    account = read_account(attempt.job.account)
    assert list(account.notes) == NOTES
    assert account.by_query == BY_QUERY


def test_a_stream_says_whether_the_times_of_its_events_make_sense(tmp_path: Path) -> None:
    """Of all batches together, also where another process read the earlier ones."""
    attempt = Attempt(tmp_path / "job/attempts/1")
    attempt.path.mkdir(parents=True)

    def notes(number: int, first: int, last: int) -> list[str]:
        seen = {"times": [first, last], "events": 2}
        batch = StreamProgress(number, 1.0, 2, seen=seen, time_type=pa.int64())
        StreamMonitor(attempt, WORKLOAD, lambda message: None, lambda: None).on_batch(batch)
        return [note for note in read_account(attempt.job.account).notes if "'ts'" in note]

    now = 1_700_000_000
    (note,) = notes(0, now, now)
    assert "all 2 events have the same time" in note
    assert notes(1, now + 60, now + 60) == []
    (note,) = notes(2, now, now * 1000)
    assert "in the years 2023 to 55,840; is `unit: s` right" in note
