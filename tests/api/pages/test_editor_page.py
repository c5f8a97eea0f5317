"""The editor in a real browser: write, mend, save, change, plan."""

import re
from pathlib import Path

import httpx
import pytest

from api.http.schemas import EXAMPLE_WORKLOAD
from tests.api.pages.driver import Browser
from tests.api.pages.workloads import many_queries
from workloads import bundled

pytestmark = pytest.mark.slow

TEXT = "document.querySelector('.sheet textarea')"


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


def test_a_text_has_colours_words_to_go_on_with_and_a_layout(page: Browser, address: str) -> None:
    page.open(f"{address}/workloads/new?from=hospital")
    page.until(lambda: "stream" in page.texts(".colours .key"))
    page.fill(
        ".sheet textarea",
        "stream: {time: ts, type: kind, attributes: {price: float, place: string}}\n"
        "queries:\n  - |\n    QUERY q PATTERN SEQ(View v, Buy b) WHERE ",
    )
    assert page.texts(".colours .clause") == ["QUERY", "PATTERN", "WHERE"]
    page.press(*"v.")
    page.until(lambda: page.texts("#suggestions li b") == ["price", "place"])
    page.press("ArrowDown", "ArrowDown", "Enter")
    page.press(*" = 'no' wi")
    page.until(lambda: "WITHIN" in page.texts("#suggestions li b"))
    page.press("Escape", *"thin 10 s agg count(*)")
    page.click("#layout")
    laid_out = "    WHERE v.place = 'no'\n    AGG COUNT(*)\n    WITHIN 10 s"
    page.until(lambda: laid_out in str(page.run(f"return {TEXT}.value")))
    page.reads("#verdict", "1 query")
    page.run("window.addEventListener('beforeunload', (e) => e.stopImmediatePropagation(), true)")


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
