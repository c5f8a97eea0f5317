"""Jobs in a real browser: launch, watch, cancel, rows, operators."""

import json
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from api.jobs.account import BatchAccount, read_account, write_account
from engines.documents import write_document
from tests.api.jobs.test_stream_jobs import COMMAND as PRETEND_STREAM
from tests.api.pages.driver import Browser
from tests.api.pages.workloads import plan_of, served_job
from tests.api.service import AGGREGATES, at_work, finished, posted_job, posted_plan

pytestmark = pytest.mark.slow

PHONE = (375, 812)


def test_a_job_is_launched_watched_and_its_rows_read(
    page: Browser, address: str, client: httpx.Client, tmp_path: Path
) -> None:
    plan = posted_plan(client)
    page.open(f"{address}/plans/{plan['id']}")
    page.click("a.button[href^='/jobs/new']")
    page.until(lambda: page.count("#launch"))
    page.fill("#launch [name=source]", "/etc")
    page.click("#launch button[type=submit]")
    page.reads("#launch .alert", "not under a folder that the service may use")
    page.fill("#launch [name=source]", str(tmp_path / "waits"))
    page.click("#launch button[type=submit]")
    page.until(lambda: "/jobs/job-" in page.address)

    page.reads("#status", "running")
    page.reads("#part", "1 of 4 tasks")
    assert page.run("return document.querySelector('#bar').getAttribute('aria-valuenow')") == "25"
    jobs = tmp_path / "data" / "jobs"
    measures = [
        {"at": i, "events": 1000 * i * i, "rows": i, "seconds": 0.5, "held": 7, "until": 10 * i}
        for i in (1, 2, 3)
    ]
    measures.append({**measures[-1], "at": 1, "events": 9500})  # it began again
    (jobs / page.address.rsplit("/", 1)[1] / "measures").write_text(
        "".join(f"{line}\n".replace("'", '"') for line in measures)
    )
    page.reads("#charts", "Throughput")
    assert "500" in page.text("#charts .chart h3")  # from 9,000 events to 9,500 in a second
    assert {"1.0 s", "4.0 s"} <= set(page.texts("#charts .chart:first-child svg text"))
    assert "30" in page.reads("#numbers", "Watermark")
    with (jobs / page.address.rsplit("/", 1)[1] / "measures").open("a") as file:
        until = "2025-03-01T12:50:26.234999999+00:00"
        file.write(json.dumps({**measures[-1], "at": 2, "until": until}) + "\n")
    page.reads("#numbers", "2025-03-01 12:50:26.234 UTC")
    lines = (
        "const e = document.querySelector('#numbers .long dd'); return e.getClientRects().length"
    )
    assert page.run(lines) == 1
    tall = "return document.querySelector('#numbers .long dd').offsetHeight"
    assert page.run(tall) < 40  # a line

    counter = next(o["id"] for o in plan["operators"] if o["kind"] == "counter")
    totals = {"rows_in": {counter: 5}, "rows_out": {counter: 2}, "nanoseconds": {counter: 4e6}}
    counts = {"events": None, "rows": {"purchases": 2}, "operators": totals}
    write_document(jobs / page.address.rsplit("/", 1)[1] / "counts.json", counts)
    page.reads("#operators", "purchases: SEQ(View v, Cart c, Buy b)")
    assert page.texts("#operators tbody tr:first-child td")[:1] == ["conditions"]
    page.reads("#sums", "4 ms")
    assert "known at the end" in page.text("#sums")

    (jobs / "go").touch()
    page.reads("#status", "succeeded")
    page.reads("#rows .pager", "3 rows")
    page.until(lambda: page.texts("#operators tbody tr:first-child td")[3:5] == ["7", "7"])
    cells = page.texts("#rows tbody td")
    rows = [cells[i : i + 5] for i in range(0, len(cells), 5)]
    assert rows == [
        [r["query"], "user=u1", str(r["time"]), r["aggregate"], str(r["count"])]
        for r in AGGREGATES.to_pylist()
    ]
    page.reads("#over-time", "purchases: COUNT(*)")
    assert page.count("#over-time path.line") == 1  # all points are of one key
    page.click("button[data-kind=matches]")
    page.reads("#rows", "c.item=case")
    addresses = page.run("return [...document.querySelectorAll('#downloads a')].map((a) => a.href)")
    for download in addresses:
        assert httpx.get(download).status_code == 200
    assert [c for c in page.complaints() if "403" not in c] == []


HEADS = (
    "Operator",
    "What it does",
    "Queries",
    "Rows in",
    "Rows out",
    "Predicted rows",
    "CPU",
    "Predicted CPU",
    "Ratio",
)


def test_a_job_accounts_for_its_operators(
    page: Browser, address: str, client: httpx.Client
) -> None:
    job = finished(client, posted_job(client, "fine")["id"])
    found = client.get(f"/v1/jobs/{job['id']}/operators").json()
    page.open(f"{address}/jobs/{job['id']}")
    page.reads("#operators .pager", "operators")
    assert page.texts("#operators thead th") == list(HEADS)  # state is for streams

    def lines() -> list[dict[str, str]]:
        cells, width = page.texts("#operators tbody td"), len(HEADS)
        rows = [cells[i : i + width] for i in range(0, len(cells), width)]
        return [dict(zip(HEADS, row, strict=True)) for row in rows]

    counter = next(line for line in lines() if line["Operator"] == "counter")
    assert counter["What it does"].endswith(": purchases")
    assert (counter["Rows in"], counter["Rows out"], counter["CPU"]) == ("7", "5", "2 ms")
    (predicted,) = (o["predicted_seconds"] for o in found["operators"] if o["kind"] == "counter")
    shown = float(counter["Ratio"].rstrip("×").replace(",", ""))
    assert shown == pytest.approx(0.002 / predicted, rel=0.01)
    assert "joinnot in the plan" in [line["Operator"].replace(" ", "", 1) for line in lines()]

    sums = page.text("#sums")
    number = len(found["operators"])
    assert f"CPU of all operators\n{2 * number} ms" in sums
    assert "Claimed by no operator\n20 ms, 8 %" in sums
    assert "aseq has no kernel for opencl: computing on the CPU" in page.text("#fallbacks")
    assert page.texts("#trees tbody tr > *") == [
        "abandoned",
        "changed, batch 3",
        "((c ; v) ; b)",
        "(c ; (v ; b))",
        "the rate of Cart went from 2 to 9 a second; these save 40%",
    ]

    # By keyboard: symbols too, and sorted by what was predicted.
    assert not any(line["Operator"] == "symbol" for line in lines())
    page.run("document.querySelector('#columns-too').focus()")
    page.press(" ")
    page.until(lambda: any(line["Operator"] == "symbol" for line in lines()))
    page.run("document.querySelector('#operators thead th:nth-child(8) button').focus()")
    page.press("Enter")
    costs = {o["id"]: o.get("predicted_seconds") or 0 for o in found["operators"]}
    most = next(o for o in found["operators"] if costs[o["id"]] == max(costs.values()))
    page.until(lambda: lines()[0]["Operator"] == most["kind"])

    page.size(*PHONE)
    beside = "return document.querySelector('#operators tbody td:nth-child(3)').offsetWidth"
    assert page.run(beside) < PHONE[0] / 2
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    title = "getComputedStyle(document.querySelector('#operators td.n'), '::before').content"
    assert page.run(f"return {title}") == '"Queries"'


def test_a_job_is_cancelled(page: Browser, address: str, client: httpx.Client) -> None:
    id = posted_job(client, "waits")["id"]
    at_work(client, id)
    page.open(f"{address}/jobs/{id}")
    page.reads("#status", "running")
    page.click("#cancel")
    page.reads("#status", "cancelled")
    assert finished(client, id)["status"] == "cancelled"
    page.reads("#stage", "Cancelled")
    assert not page.run("return document.querySelector('#again').hidden")


def test_rows_are_ordered_and_filtered_and_all_is_deleted(
    page: Browser, address: str, client: httpx.Client
) -> None:
    job = posted_job(client, "fine")
    finished(client, job["id"])
    page.open(f"{address}/jobs/{job['id']}")
    page.reads("#rows .pager", "3 rows")

    def times() -> list[str]:
        return page.texts("#rows tbody td:nth-child(3)")

    assert times() == ["10", "20", "30"]
    page.run(
        "const order = document.querySelector('#order'); order.selectedIndex = 1;"
        "order.dispatchEvent(new Event('change'));"
    )
    page.until(lambda: times() == ["30", "20", "10"])
    page.fill("#key", "u2")
    page.run("document.querySelector('#key').dispatchEvent(new Event('change'))")
    page.reads("#rows", "No rows of this key")

    page.open(f"{address}/plans/{job['plan']}")
    page.click("button[data-delete]")
    page.reads("button[data-delete]", "Delete this plan?")
    page.click("button[data-delete]")
    page.reads("#problem", job["id"][1:])  # a sentence begins with a capital
    pages = (f"jobs/{job['id']}", f"plans/{job['plan']}", f"workloads/{job['workload']}")
    for at in pages:
        page.open(f"{address}/{at}")
        page.until(lambda: page.count("button[data-delete]:not([hidden])"))
        page.click("button[data-delete]")
        page.click("button[data-delete]")
        page.until(lambda at=at: at not in page.address)
        assert client.get(f"/v1/{at}").status_code == 404
    # The refusal, and what a page had asked about a job that was deleted meanwhile.
    assert [s for s in page.complaints() if "409" not in s and "404" not in s] == []


def test_a_job_that_failed_says_why_and_what_to_do(
    page: Browser, address: str, client: httpx.Client
) -> None:
    id = posted_job(client, "missing")["id"]
    finished(client, id)
    page.open(f"{address}/jobs/{id}")
    page.reads("#problem", "There are no events at 'missing'")
    page.reads("#steps", "failed")


def test_a_stream_is_told_to_go_on_with_another_plan(page: Browser, tmp_path: Path) -> None:
    columns = {"ts": [1], "action": ["View"], "user": ["u"], "item": ["i"], "price": [1.0]}
    events = tmp_path / "runs"
    events.mkdir()
    pq.write_table(pa.table(columns), tmp_path / "like.parquet")
    settings = Settings(data=tmp_path / "own", roots=(tmp_path,))
    with (
        serving(create_app(settings, PRETEND_STREAM)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        like = {"like": str(tmp_path / "like.parquet")}
        job = posted_job(client, str(events), mode="stream", stream=like)
        plan_of(client, {**EXAMPLE_WORKLOAD, "name": "of another stream"})
        fewer = plan_of(client, {**EXAMPLE_WORKLOAD, "queries": EXAMPLE_WORKLOAD["queries"][:1]})
        page.open(f"{address}/jobs/{job['id']}")
        page.reads("#part", "1 batch")
        offered = page.run(
            "return [...document.querySelectorAll('#change option')].map(o => o.value)"
        )
        assert offered == [fewer["id"]]
        page.click("#change button")
        page.reads("#change [role=status]", f"started anew: {', '.join(fewer['queries'])}")
        page.reads("#plan", fewer["id"])
        assert page.text("#version") == "2"
        page.click("#cancel")
        page.reads("#status", "cancelled")
        assert page.run("return document.querySelector('#change').hidden")
        account = tmp_path / "own" / "jobs" / job["id"] / "account.json"
        write_account(account, read_account(account).add(BatchAccount(2, 2.5)))
        page.open(f"{address}/jobs/{job['id']}")
        page.reads("#numbers", "half within 500 ms, 99 % within 2.5 s")
        page.open("about:blank")


def test_a_real_job_runs_from_its_plan_to_its_rows(page: Browser, tmp_path: Path) -> None:
    """With the local engine, on events whose one row is plain to see; one of the lines is none."""
    lines = ["ts,kind,user,amount", "1,Login,a,0", ",Login,a,0", "2,Payment,a,5.5"]
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    settings = Settings(data=tmp_path / "own", roots=(tmp_path,))
    with serving(create_app(settings)) as address:
        page.open(f"{address}/workloads/new")
        page.reads("#verdict", "no errors")
        page.click("#editor button[type=submit]")
        page.reads("h1", "version 1")
        page.click("#planning button[type=submit]")
        page.until(lambda: "/plans/plan-" in page.address)
        page.click("a.button[href^='/jobs/new']")
        page.until(lambda: page.count("#files option") == 1)
        page.fill("#launch [name=source]", str(tmp_path / "events.csv"))
        assert page.run("return document.querySelector('#launch [name=slice]').disabled")
        page.fill("#launch [name=engine]", "local")
        page.fill("#launch [name=on_error]", "skip")
        page.fill("#launch [name=slice]", "1000")
        page.click("#launch button[type=submit]")
        page.until(lambda: "/jobs/job-" in page.address)
        page.reads("#status", "succeeded")
        page.reads("#rows .pager", "2 rows")
        names, values = page.texts("#numbers dt"), page.texts("#numbers dd")
        numbers = dict(zip(names, values, strict=True)).items()
        assert page.texts("#query option") == ["all queries", "first · 2 rows"]
        assert page.run("return document.querySelector('#notes').hidden")
        rows = page.texts("#rows tbody td")
        page.open("about:blank")  # before the service is gone
    assert (
        numbers >= {"Skipped, not readable": "1 row", "On error": "skip", "Slice": "1,000"}.items()
    )
    assert rows == [
        *["first", "user=a", "2", "COUNT(*)", "1"],
        *["first", "user=a", "2", "SUM(p.amount)", "5.5"],
    ]


def test_a_match_of_situations_is_drawn_with_the_moment_at_which_it_was_certain(
    page: Browser, tmp_path: Path
) -> None:
    events = "ts,kind,x,y\n0,E,1,0\n1,E,1,1\n2,E,0,1\n3,E,0,0\n"
    document = {
        "name": "situations",
        "stream": {"time": "ts", "unit": "s", "type": "kind"},
        "queries": [
            "QUERY q DEFINE A AS x > 0, B AS y > 0 PATTERN A overlaps B RETURN A, B WITHIN 1 min"
        ],
    }
    with served_job(tmp_path, document, events) as job:
        page.open(job.page)
        page.until(lambda: page.count(".timeline svg"), "the situations in time")
        label = page.run("return document.querySelector('.timeline svg').ariaLabel")
        assert label == "A from 0 to 2, B from 1 on; certain at 2"
        assert page.texts(".timeline text") == ["A", "B", "certain at 2"]
        assert page.count(".timeline rect") == 2
        page.open("about:blank")


def test_what_is_measured_comes_once_however_slow_answers_are(
    page: Browser, address: str, client: httpx.Client
) -> None:
    job = posted_job(client, "waits")["id"]
    at_work(client, job)
    page.open(f"{address}/jobs/{job}")
    page.reads("#part", "1 of 4 tasks")
    page.run(
        "const ask = window.fetch; window.asked = {now: 0, most: 0, all: 0};"
        "window.fetch = async (url, ...more) => {"
        "  if (!String(url.url ?? url).includes('/measures')) return ask(url, ...more);"
        "  asked.now += 1; asked.all += 1; asked.most = Math.max(asked.most, asked.now);"
        "  await new Promise((done) => setTimeout(done, 5000));"
        "  try { return await ask(url, ...more); } finally { asked.now -= 1; }"
        "};"
    )
    page.until(lambda: page.run("return asked.all") >= 2, "the second look")
    assert page.run("return asked.most") == 1
