"""A plan's page in a real browser: odd names, finding, fitting, folding, terms; and charts."""

import httpx
import pytest

from tests.api.pages.driver import Browser
from tests.api.pages.workloads import many_queries, plan_of
from tests.api.service import posted_plan

pytestmark = pytest.mark.slow


ODD_NAMES = {
    "name": "odd names",
    "stream": {"time": "ts", "type": "kind"},
    "queries": [
        'QUERY "my query" PATTERN SEQ("page view" v, "add-to-cart" c, login l)'
        ' PARTITION BY "Customer ID" AGG COUNT(*), SUM(c."amount (€)") WITHIN 10 min',
        'QUERY my PATTERN SEQ("page view" v, "add-to-cart" c)'
        ' PARTITION BY "Customer ID" AGG COUNT(*) WITHIN 10 min',
        'QUERY prices PATTERN SEQ(page p, view w) RETURN p."amount (€)" WITHIN 1 min',
        'QUERY price_drop PATTERN SEQ(view w, page p) RETURN w."amount (€)" WITHIN 2 min',
    ],
}


def test_names_with_blanks_light_up_and_queries_are_found_by_a_part_of_their_name(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = plan_of(client, ODD_NAMES)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#picture g.query") == 4)
    dim = """
      return [...document.querySelectorAll('#picture g.type, #picture g.piece, #picture g.query')]
        .filter((e) => Number(getComputedStyle(e).opacity) < 0.5)
        .map((e) => e.querySelector('text').textContent)
    """
    page.run("document.querySelector('#picture').scrollIntoView()")
    page.click("#picture g.query[data-query='my%20query']")
    page.reads("#way", 'QUERY "my query"')
    page.until(lambda: set(page.run(dim)) == {"page", "view", "prices", "price_drop"})
    said = page.reads("#way", "for this query alone")
    assert "page view, add-to-cart with my" in said
    page.click("#picture g.query[data-query='prices']")
    page.reads("#way", "nothing: it runs alone")
    page.until(lambda: {"page view", "login", "my"} <= set(page.run(dim)))  # and the shared piece
    assert len(page.run(dim)) == len(["page view", "add-to-cart", "login", "piece"]) + 3

    # What fits is listed; what was chosen before is no longer.
    page.fill("#find", "price")
    assert page.texts("#found [role=option] b") == ["prices", "price_drop"]
    assert page.run("return document.querySelector('#way').hidden")
    page.press("ArrowDown", "Enter")
    page.reads("#way", "price_drop")
    page.fill("#find", "no such")
    page.reads("#found", "No query has “no such” in its name or pattern.")
    assert page.run("return document.querySelector('#way').hidden")
    assert page.count("#picture .picked") == 0
    page.fill("#find", "QUE")  # one alone fits
    page.reads("#way", "my query")
    page.press("Escape")
    page.until(lambda: page.count("#picture .plan.lit") == 0)


def test_a_rate_can_be_given_for_a_type_with_a_blank(
    page: Browser, address: str, client: httpx.Client
) -> None:
    id = client.post("/v1/workloads", json=ODD_NAMES).json()["id"]
    page.open(f"{address}/workloads/{id}")
    page.fill("#planning [name=statistics]", "rates")
    page.fill("#planning [name=rates]", 'page view: 40\nlogin 3\n"add-to-cart" = 2.5')
    page.click("#planning button[type=submit]")
    page.until(lambda: "/plans/plan-" in page.address)
    plan = client.get(f"/v1/plans/{page.address.rsplit('/', 1)[1]}").json()
    given = {name: plan["rates"][name] for name in ("page view", "login", "add-to-cart")}
    assert given == {"page view": 40, "login": 3, "add-to-cart": 2.5}


INSIDE = """
  const svg = document.querySelector('#picture svg').getBoundingClientRect();
  const box = document.querySelector('#picture').getBoundingClientRect();
  return svg.width <= box.width + 1 && svg.height <= Math.min(box.height, innerHeight) + 1
"""


def test_the_picture_fits_the_window_and_leaves_the_wheel_to_the_page(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = plan_of(client, many_queries(30))
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#picture g.query") == 30)
    assert not page.run(INSIDE)  # at first as wide as the page, so that it can be read
    scrolls = "const p = document.querySelector('#picture'); return p.scrollHeight - p.clientHeight"
    assert page.run(scrolls) <= 0
    page.click("[data-zoom=fit]")
    assert page.run(INSIDE)
    page.click("#full")
    box = "return document.querySelector('#picture-section').getBoundingClientRect().toJSON()"
    assert (page.run(box)["width"], page.run(box)["height"]) == (1280, 900)
    assert page.run(INSIDE)
    page.press("Escape")
    assert page.run(box)["height"] != 900
    assert page.text("#full") == "Full window"
    page.size(1900, 900)  # a wide window is used
    assert page.run("return document.querySelector('#picture').clientWidth") > 1600


def test_groups_of_many_queries_fold_to_a_line_and_open_for_the_query_that_is_found(
    page: Browser, address: str, client: httpx.Client
) -> None:
    rules = many_queries(100)
    by_time = [q.replace(" AGG", " PARTITION BY ts AGG") for q in rules["queries"][50:]]
    rules["queries"][50:] = by_time
    plan = plan_of(client, rules)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#picture g.query") == 100)
    groups = page.count("#picture g.block")
    assert groups > 1
    page.click("#folds")
    assert page.count("#picture .folded") == groups
    height = "return document.querySelector('#picture svg').getBoundingClientRect().height"
    assert page.run(height) < 100 + 150 * groups
    assert all(" queries together: " in text for text in page.texts("#picture .title"))
    page.fill("#find", "rule_099")
    page.reads("#way", "Shares")
    assert page.count("#picture .folded") == groups - 1
    assert page.count("#picture .block:not(.folded) .picked") == 1
    page.run("document.querySelector('#picture .folded .title').focus()")
    page.press("Enter")
    assert page.count("#picture .folded") == groups - 2


def test_queries_are_listed_by_what_they_cost(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = plan_of(client, ODD_NAMES)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#queries tbody tr") == 4)
    costs = {
        row["name"]: row["cost"]["part"]
        for row in client.get(f"/pages/plans/{plan['id']}/queries").json()
    }
    names = "#queries tbody button"
    assert page.texts(names) == sorted(costs, key=lambda name: -costs[name])
    page.click("#queries thead th:nth-child(2) button")
    assert page.texts(names) == sorted(costs)
    page.fill("#queries-filter", "add-to-cart")
    assert page.texts(names) == ["my", "my query"]
    assert page.texts("#queries tbody td.with") == ["my query", "my"]
    page.click("#queries tbody tr:first-child button")
    page.reads("#way", "QUERY my PATTERN")
    for width in (1280, 390):
        page.size(width, 900)
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_what_if_a_query_is_switched_off_or_has_another_window(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = plan_of(client, ODD_NAMES)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#queries tbody tr") == page.count("#picture g.query") == 4)
    page.click('[aria-label="my query runs"]')
    page.reads("#what-if", "If without my query: ")
    page.until(lambda: page.count("#picture g.query") == 3)
    assert page.texts("#queries tbody tr:has([aria-label='my runs']) td.with") == ["–"]
    page.fill('[aria-label="Window of my"]', "10 mims")
    page.reads("#what-if", "unknown unit 'mims'")
    assert all("422" in said for said in page.complaints())
    page.click("#what-if button")
    page.until(lambda: page.count("#picture g.query") == 4)
    assert page.run("return document.querySelector('#what-if').hidden")
    page.click("#picture g.query[data-query='price_drop']")
    page.reads("#way", "Try those of other queries")
    page.click("#way .panel-facts button.link")
    page.reads("#way", "1 min, as of prices: the plan costs")
    page.click("#way .panel-facts button.link")
    page.reads("#what-if", "If price_drop within 1 min: ")
    assert (
        page.run("return document.querySelector('[aria-label=\"Window of price_drop\"]').value")
        == "1 min"
    )


def test_terms_say_what_they_mean_by_keyboard_too(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = posted_plan(client)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#groups .body .term"))
    page.press("Tab")
    page.run("document.querySelector('dt .term[data-term=gap]').focus()")
    page.reads("#tip", "How far the plan can be from the best one")
    page.run("document.activeElement.blur()")
    page.until(lambda: page.run("return document.querySelector('#tip').hidden"))
    page.click("dt .term[data-term=gap]")
    page.until(lambda: page.address.endswith("/glossary#gap"))
    page.reads("#gap", "How far the plan can be from the best one")


def test_points_of_different_keys_are_not_joined(page: Browser, address: str) -> None:
    page.open(f"{address}/jobs")
    series = page.run(
        """
        const { Chart } = await import(document.querySelector('script[src$="page.js"]').src
          .replace('page.js', 'chart.js'));
        const box = document.querySelector('main');
        const chart = new Chart(box, 'a chart', { dots: true });
        const points = [[0, 1], [1, 2], [2, 1]];
        const drawn = (joined) => {
          chart.draw([{ name: 'a', hue: 0, points, joined }, { name: 'b', hue: 1, points }]);
          return ['.line', '.dots'].map((css) => chart.svg.querySelectorAll(css).length);
        };
        return [drawn(false), drawn(true)];
        """
    )
    assert series == [[0, 2], [1, 2]]
