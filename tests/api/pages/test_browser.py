"""The whole way in a real browser: write, plan, look, run, watch, cancel."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from engines.documents import write_document
from tests.api.jobs.test_stream_jobs import COMMAND as PRETEND_STREAM
from tests.api.pages.driver import Browser
from tests.api.service import AGGREGATES, at_work, finished, posted_job, posted_plan
from workloads import bundled
from workloads.generators.query_groups import TICKERS, query_group

pytestmark = pytest.mark.slow

PHONE = (375, 812)
TEXT = "document.querySelector('.sheet textarea')"
QUERIES = "[...document.querySelectorAll(arguments[0])].map((e) => e.dataset.query)"


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


def plan_of(client: httpx.Client, document: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    posted = client.post("/v1/workloads", json=document)
    assert posted.status_code == 201, posted.text
    made = client.post(f"/v1/workloads/{posted.json()['id']}/plans", json=wanted)
    assert made.status_code == 201, made.text
    plan: dict[str, Any] = made.json()
    return plan


def many_queries(number: int) -> dict[str, Any]:
    """So many queries that have much in common."""
    pieces = [TICKERS[i : i + 3] for i in range(0, 18, 3)]
    queries = []
    for i in range(number):
        first, second = pieces[i % 6], pieces[(i // 6 + 1 + i) % 6]
        types = [*first, *(t for t in second if t not in first)]
        pattern = f"QUERY rule_{i:03d} PATTERN SEQ({', '.join(types)})"
        queries.append(f"{pattern} AGG COUNT(*) WITHIN {1 + i // 36 % 9} s")
    document, _ = query_group(1)
    return {**document, "name": "rules", "queries": queries}


# --- write and plan ------------------------------------------------------------------------------


def test_a_workload_is_written_mended_saved_changed_and_planned(
    page: Browser, address: str, client: httpx.Client
) -> None:
    page.open(f"{address}/")
    page.click(".card.link[href$='from=hospital']")
    page.reads("#verdict", "no errors")
    text = str(page.run(f"return {TEXT}.value"))
    assert text == bundled.path("hospital").read_text()

    page.fill(".sheet textarea", text.replace("Washing w", "Wasching w", 1))
    page.reads("#verdict", "to correct")
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "Washing w" in each)
    column = text.splitlines()[line - 1].index("Washing w") + 1
    said = page.reads("#findings li", "Wasching")
    assert f"line {line}, column {column}" in said
    assert "did you mean 'Washing'?" in said
    assert page.texts(".gutter b") == [str(line)]
    assert page.run("return document.querySelector('#editor button[type=submit]').disabled")
    page.click("#findings button")
    chosen = (
        "const t = document.activeElement; return t.value.slice(t.selectionStart, t.selectionEnd)"
    )
    assert str(page.run(chosen)).startswith("Wasching")

    page.fill(".sheet textarea", text)
    page.reads("#verdict", "no errors")
    page.click("#editor button[type=submit]")
    page.reads("h1", "version 1")
    (stored,) = client.get("/v1/workloads").json()
    assert (stored["name"], stored["version"]) == ("hospital", 1)

    # The next line begins where the one before did.
    page.run(
        f"const t = {TEXT}; const end = t.value.indexOf('\\n', t.value.indexOf('WITHIN'));"
        "t.focus(); t.setSelectionRange(end, end)"
    )
    page.press("Enter", *"-- an hour, or so")
    changed = str(page.run(f"return {TEXT}.value"))
    assert re.search(r"\n( +)WITHIN [^\n]*\n\1-- an hour, or so\n", changed)
    page.reads("#verdict", "no errors")
    page.click("#editor button[type=submit]")
    page.reads("h1", "version 2")
    assert "Version 1" in page.text("aside")

    page.click("#planning button[type=submit]")
    page.until(lambda: "/plans/plan-" in page.address)
    (plan,) = client.get("/v1/plans").json()
    assert page.address.endswith(plan["id"])
    assert plan["workload_version"] == 2


def test_a_file_is_uploaded_and_its_mistakes_are_shown(
    page: Browser, address: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(bundled.path("stocks").read_text().replace("name: stocks", "name: mine", 1))
    page.open(f"{address}/workloads/new")
    page.reads("#verdict", "no errors")
    page.type("#upload input", str(path))
    page.reads("#verdict", "46 queries")
    path.write_text("name: [")
    page.type("#upload input", str(path))
    page.reads("#verdict", "1 error to correct")
    assert "not valid YAML" in page.text("#findings")
    # Leaving would lose it: the browser asks, unless it is told not to.
    page.run("document.querySelector('.sheet textarea').value = arguments[0]", "")
    page.fill(".sheet textarea", "")
    page.run("window.addEventListener('beforeunload', (e) => e.stopImmediatePropagation(), true)")


def test_a_plan_takes_rates_and_refuses_what_is_none(
    page: Browser, address: str, client: httpx.Client
) -> None:
    posted = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()
    page.open(f"{address}/workloads/{posted['id']}")
    page.fill("#planning [name=statistics]", "rates")
    page.fill("#planning [name=rates]", "View: many")
    page.click("#planning button[type=submit]")
    page.reads("#planning .alert", "“View: many” is not a type and its events per second")
    page.fill("#planning [name=rates]", "View: 270\nCart: 1\nBuy = 2")
    page.click("#planning button[type=submit]")
    page.until(lambda: "/plans/plan-" in page.address)
    plan = client.get(f"/v1/plans/{page.address.rsplit('/', 1)[1]}").json()
    assert plan["rates"]["View"] == 270
    page.open(f"{address}/workloads/{posted['id']}")
    page.fill("#planning [name=statistics]", "sample")
    page.fill("#planning [name=sample]", "/etc/passwd")
    page.click("#planning button[type=submit]")
    page.reads("#planning .alert", "not under a folder that the service may use")
    assert [c for c in page.complaints() if "403" not in c] == []


def test_planning_says_what_it_is_at_and_can_be_stopped(
    page: Browser, address: str, client: httpx.Client
) -> None:
    id = client.post("/v1/workloads", json=many_queries(500)).json()["id"]
    page.open(f"{address}/workloads/{id}")
    page.click("#planning button[type=submit]")
    page.until(lambda: " s" in page.text("#planning [data-stage]"), "a stage and its seconds")
    page.click("#planning [name=cancel]")
    page.reads("#planning .alert", "cancelled")
    assert client.get("/v1/plans").json() == []


# --- look at a plan ------------------------------------------------------------------------------


def test_the_picture_shows_who_shares_what_and_one_querys_way(
    page: Browser, address: str, client: httpx.Client
) -> None:
    document, _ = query_group(1)
    plan = plan_of(client, document)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#picture g.query") == len(plan["queries"]))
    name = plan["queries"][2]

    page.point("#picture g.piece")
    about = page.reads("#tip", "computed once")
    label = page.run("return document.querySelector('#picture g.piece').about.split('\\n')[0]")
    readers = {
        q for c in plan["candidates"] if ", ".join(c["pattern"]) == label for q in c["queries"]
    }
    assert readers
    assert all(re.search(rf"\b{query}\b", about) for query in readers)

    page.click(f"#picture g.query[data-query='{name}']")
    page.reads("#way", name)
    lit = page.run(f"return {QUERIES}", "#picture [data-query].on")
    assert {name in found.split() for found in lit} == {True}
    others = page.run(f"return {QUERIES}", "#picture [data-query]:not(.on)")
    assert not any(name in found.split() for found in others)
    reads = {
        t for text in re.findall(r"SEQ\(([^)]*)\)", page.text("#way")) for t in text.split(", ")
    }
    types = page.run(
        "return [...document.querySelectorAll('#picture g.type.on')].map((e) => e.textContent)"
    )
    assert set(types) == reads
    page.click("#way button")
    page.until(lambda: page.count("#picture .plan.lit") == 0)

    # The same by keyboard alone.
    page.run("document.querySelector('#picture [tabindex=\"0\"]').focus()")
    here = "return document.activeElement.classList[0]"
    assert page.run(here) == "type"
    page.press("ArrowDown")
    assert page.run(here) == "type"
    while "query" not in str(page.run(here)):
        page.press("ArrowRight")
    picked = page.run("return document.activeElement.dataset.query")
    page.press("Enter")
    page.reads("#way", picked)
    assert page.run("return document.activeElement.getAttribute('aria-pressed')") == "true"
    page.press("Escape")
    page.until(lambda: page.count("#picture .plan.lit") == 0)

    page.fill("#find", name)
    page.reads("#way", name)


def test_candidates_are_sorted_filtered_and_drawn_with_their_conflicts(
    page: Browser, address: str, client: httpx.Client
) -> None:
    document, _ = query_group(1)
    plan = plan_of(client, document, model="aseq")
    candidates, chosen = plan["candidates"], set(plan["chosen"])
    assert chosen
    assert any(c["conflicts"] for c in candidates)
    page.open(f"{address}/plans/{plan['id']}")
    page.reads("#candidates .pager", f"{len(candidates)} candidates")

    def column(number: int) -> list[str]:
        return page.texts(f"#candidates tbody td:nth-child({number})")

    best = max(candidates, key=lambda c: c["benefit"])
    assert column(1)[0] == "→".join(best["pattern"])
    page.click("#candidates th:nth-child(2) button")
    assert column(2) == sorted(column(2), key=int, reverse=True)
    page.click("#candidates th:nth-child(2) button")
    assert column(2) == sorted(column(2), key=int)
    page.fill("#which", "chosen")
    assert set(column(6)) == {"chosen"}
    assert page.text("#candidates .pager").startswith(f"{len(chosen)} candidate")
    page.fill("#which", "all")
    word = best["pattern"][0].lower()
    page.fill("#filter", word)
    expected = sum(
        word in " ".join([*c["pattern"], *c["queries"], c["why"], c["kind"]]).lower()
        for c in candidates
    )
    assert page.text("#candidates .pager").split()[-2] == str(expected)

    drawn = sorted(
        (c for c in candidates if c["conflicts"]),
        key=lambda c: (-(c["id"] in chosen), -c["benefit"], -len(c["conflicts"])),
    )[:60]
    ids = {c["id"] for c in drawn}
    pairs = {frozenset((c["id"], o)) for c in drawn for o in c["conflicts"] if o in ids}
    assert page.count(".conflict g") == len(drawn)
    assert page.count(".conflict line") == len(pairs)
    assert page.count(".conflict g.chosen") == len(chosen & ids)


def test_a_plan_of_many_queries_stays_usable(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = plan_of(client, many_queries(120))
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#picture g.query") == 120)
    page.fill("#find", "rule_077")
    page.reads("#way", "rule_077")
    slow = (
        "const start = performance.now();"
        "for (const q of document.querySelectorAll('#picture g.query'))"
        " q.dispatchEvent(new MouseEvent('click', {bubbles: true}));"
        "return (performance.now() - start) / 120"
    )
    assert page.run(slow) < 50  # milliseconds from a click to light; a frame or two
    assert page.count("#candidates tbody tr") <= 25
    assert page.run("return document.querySelectorAll('*').length") < 20_000


def test_two_plans_are_compared(page: Browser, address: str, client: httpx.Client) -> None:
    document, _ = query_group(1)
    first = plan_of(client, document)
    fewer = {**document, "queries": document["queries"][:-1]}
    second = plan_of(client, fewer)
    page.open(f"{address}/plans/{second['id']}")
    page.click(".head form button")
    page.until(lambda: "/compare" in page.address)
    gone = set(first["queries"]) - set(second["queries"])
    page.until(lambda: page.count("[data-picture] svg") == 2)
    said = page.reads("#differences", "Queries only in the second")
    assert gone <= set(re.findall(r"\w+", said))
    page.click(f"[data-picture] g.query[data-query='{second['queries'][0]}']")
    page.until(lambda: page.count("[data-picture] .picked") == 2)  # in both pictures


# --- run, watch, cancel --------------------------------------------------------------------------


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


def test_a_plan_says_what_runs_each_group_and_on_what(
    page: Browser, address: str, client: httpx.Client
) -> None:
    passed = "QUERY passed PATTERN SEQ(View v, Cart c, Buy b) WHERE v.price = b.price AND "
    document = {
        **EXAMPLE_WORKLOAD,
        "queries": [
            *EXAMPLE_WORKLOAD["queries"],
            f"{passed} v.item = b.item RETURN v.item WITHIN 1 min",
            "QUERY gathered PATTERN SEQ(View v, ALL Buy b) AGG COUNT(*) WITHIN 1 min SLIDE 30 s",
        ],
    }
    plan = plan_of(client, document, sharing=False, device="opencl")
    engines = {query: g["engine"] for g in plan["groups"] for query in g["queries"]}
    assert (engines["abandoned"], engines["gathered"]) == ("deferred-trees", "stepwise")
    page.open(f"{address}/plans/{plan['id']}")
    page.reads("main", "switched off")
    page.until(lambda: page.count("#groups details"))
    page.run("document.querySelectorAll('#groups details').forEach((each) => { each.open = true })")
    script = "return [...document.querySelectorAll('#groups details')].map((e) => e.innerText)"
    shown = dict(zip(page.texts("#groups .names"), page.run(script), strict=True))
    assert "OpenCL" in shown["purchases"]
    assert engines["purchases"] in shown["purchases"]
    assert "one component after the other" in shown["gathered"]
    assert "trees chosen on the events" in shown["abandoned"]
    assert "decided on the events" in shown["abandoned"]
    assert "NEG(Cart c, !Buy b)" in shown["abandoned"]
    assert "push: events are joined as they come" in shown["abandoned"]


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
    settings = Settings(tmp_path / "own", roots=(tmp_path,))
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
        page.open("about:blank")


def test_a_real_job_runs_from_its_plan_to_its_rows(page: Browser, tmp_path: Path) -> None:
    """With the local engine, on events whose one row is plain to see; one of the lines is none."""
    lines = ["ts,kind,user,amount", "1,Login,a,0", ",Login,a,0", "2,Payment,a,5.5"]
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    settings = Settings(tmp_path / "own", roots=(tmp_path,))
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


# --- for everyone --------------------------------------------------------------------------------


def test_pages_fit_a_phone_in_both_themes(
    page: Browser, address: str, client: httpx.Client
) -> None:
    job = posted_job(client, "fine")
    finished(client, job["id"])
    plan = job["plan"]
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    # Of text against what is behind it, by WCAG: 4.5 is enough for small letters.
    contrast = """
      const rgb = (css) => {
        const [c] = [document.createElement('canvas').getContext('2d', {willReadFrequently: true})];
        c.fillStyle = css; c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data];
      };
      const light = (p) => p.slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (e) => {
        for (; e; e = e.parentElement) {
          const p = rgb(getComputedStyle(e).backgroundColor);
          if (p[3] === 255) return p;
        }
        return [255, 255, 255, 255];
      };
      const poor = [];
      for (const e of document.querySelectorAll('main *, header *')) {
        if (e.closest('svg, [hidden], :disabled, .hidden') || !e.checkVisibility()) continue;
        if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) poor.push(`${e.outerHTML.slice(0, 80)} ${ratio}`);
      }
      return poor;
    """
    for theme in ("light", "dark"):
        page.size(*PHONE)
        page.prefer(theme)
        for path, complete in (
            ("/", "main"),
            ("/workloads/new?from=shop", "#verdict.good"),
            (f"/workloads/{job['workload']}", "#verdict.good"),
            ("/plans", "main"),
            (f"/plans/{plan}", "#operators details"),
            (f"/compare?a={plan}&b={plan}", "#differences p:not(.loading)"),
            (f"/jobs/new?plan={plan}", "main"),
            ("/jobs", "main"),
            (f"/jobs/{job['id']}", "#over-time svg text"),
            ("/docs", "main"),
            ("/glossary", "main"),
        ):
            page.open(address + path)
            page.until(lambda wanted=complete: page.count(wanted), complete)
            has, may = page.run(wide)
            assert has <= may, path
            assert page.run(contrast) == [], (theme, path)


def test_the_theme_can_be_chosen_and_stays(page: Browser, address: str) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.open(f"{address}/")
    light = page.run(ground)
    page.click("#theme")
    dark = page.run(ground)
    assert dark != light
    page.open(f"{address}/jobs")
    assert page.run(ground) == dark
    page.click("#theme")
    assert page.run(ground) == light
    page.run("localStorage.clear()")
    page.prefer("dark")
    page.open(f"{address}/")
    assert page.run(ground) == dark


def test_every_control_has_a_name_and_can_be_reached(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = posted_plan(client)["id"]
    nameless = """
      return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea')]
        .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.title))
        .map((e) => e.outerHTML)
    """
    for path in ("/", "/workloads/new", f"/plans/{plan}", f"/jobs/new?plan={plan}", "/docs"):
        page.open(address + path)
        assert page.run(nameless) == [], path
        page.press("Tab")
        assert page.run("return document.activeElement.className") == "skip", path
        page.press("Enter")
        assert page.address.endswith("#main")


def test_signing_in_leads_to_the_page_that_was_asked_for(
    page: Browser, pretend: list[str], tmp_path: Path
) -> None:
    secret = "a-secret-of-runners"
    settings = Settings(
        tmp_path / "own",
        roots=(tmp_path, Path.cwd()),
        tokens=read_tokens([f"ann run {secret}"], "here"),
    )
    headers = {"authorization": f"Bearer {secret}"}
    with (
        serving(create_app(settings, pretend)) as address,
        httpx.Client(base_url=address, headers=headers, timeout=60) as client,
    ):
        id = posted_job(client, "waits")["id"]
        at_work(client, id)
        page.open(f"{address}/jobs/{id}")
        page.fill("[name=token]", "wrong")
        page.click("main button[type=submit]")
        page.reads("main .alert", "No token of this service")
        page.fill("[name=token]", secret)
        page.click("main button[type=submit]")
        page.until(lambda: page.address == f"{address}/jobs/{id}")
        page.reads("#part", "1 of 4 tasks")  # as the service sends it, with the cookie alone
        assert "ann" in page.text(".who")
        assert page.run("return document.cookie") == ""
        (cookie,) = page.cookies()
        assert cookie["httpOnly"]
        page.click("#cancel")
        page.reads("#status", "cancelled")
        page.click(".who form button")
        page.until(lambda: page.count("[name=token]"))
        assert page.cookies() == []
        page.open("about:blank")
    assert [c for c in page.complaints() if "401" not in c] == []


# --- situations ----------------------------------------------------------------------------------


def test_a_match_of_situations_is_drawn_with_the_moment_at_which_it_was_certain(
    page: Browser, tmp_path: Path
) -> None:
    events = tmp_path / "events.csv"
    events.write_text("ts,kind,x,y\n0,E,1,0\n1,E,1,1\n2,E,0,1\n3,E,0,0\n")
    document = {
        "name": "situations",
        "stream": {"time": "ts", "unit": "s", "type": "kind"},
        "queries": [
            "QUERY q DEFINE A AS x > 0, B AS y > 0 PATTERN A overlaps B RETURN A, B WITHIN 1 min"
        ],
    }
    settings = Settings(tmp_path / "real", roots=(tmp_path,))
    with serving(create_app(settings)) as real, httpx.Client(base_url=real, timeout=60) as client:
        plan = plan_of(client, document)
        body = {"plan": plan["id"], "source": {"path": str(events)}, "engine": "local"}
        job = client.post("/v1/jobs", json=body).json()
        assert finished(client, job["id"])["status"] == "succeeded"
        page.open(f"{real}/jobs/{job['id']}")
        page.until(lambda: page.count(".timeline svg"), "the situations in time")
        label = page.run("return document.querySelector('.timeline svg').ariaLabel")
        assert label == "A from 0 to 2, B from 1 on; certain at 2"
        assert page.texts(".timeline text") == ["A", "B", "certain at 2"]
        assert page.count(".timeline rect") == 2
        page.open("about:blank")
