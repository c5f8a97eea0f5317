"""A plan's page in a real browser: the picture, candidates, groups, two plans beside each other."""

import re

import httpx
import pytest

from api.http.schemas import EXAMPLE_WORKLOAD
from tests.api.pages.driver import Browser
from tests.api.pages.workloads import many_queries, plan_of
from workloads.generators.query_groups import query_group

pytestmark = pytest.mark.slow

QUERIES = "[...document.querySelectorAll(arguments[0])].map((e) => e.dataset.query)"


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
