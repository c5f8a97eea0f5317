"""A funnel's bars on the page of its job."""

from pathlib import Path

from tests.api.pages.driver import Browser
from tests.api.pages.workloads import served_job

EVENTS = """ts,kind,user,country
1,View,1,DE
3,Cart,1,DE
8,Buy,1,DE
1,View,2,DE
4,Cart,2,DE
1,View,3,DE
2,View,4,FR
"""


def test_the_page_of_a_job_draws_the_bars_of_a_funnel(page: Browser, tmp_path: Path) -> None:
    funnel = "FUNNEL SEQ(View v, Cart c, Buy b) WITHIN 1 min PARTITION BY user"
    document = {
        "name": "funnels",
        "stream": {"time": "ts", "unit": "s", "type": "kind"},
        "queries": [f"QUERY all_users {funnel}", f"QUERY by_country {funnel} BY v.country"],
    }
    with served_job(tmp_path, document, EVENTS) as job:
        page.open(job.page)
        page.until(lambda: page.count(".funnel li") == 3, "the bars of the first funnel")
        bars = "[...document.querySelectorAll('.funnel .shared')]"
        widths = page.run(f"return {bars}.map((bar) => Number(bar.getAttribute('width')))")
        assert widths == [100, 50, 25]
        assert page.texts(".funnel .step strong") == ["4", "2", "1"]
        assert page.texts(".funnel p") == [
            "50 % of the first · 50 % of v · time from v: median 2.5, 90th percentile 2.9",
            "25 % of the first · 50 % of c · time from c: median 5, 90th percentile 5",
        ]
        page.fill("#query", "by_country")
        page.until(lambda: page.count(".funnel") == 2, "a funnel for each country")
        assert page.texts(".funnel figcaption") == [
            "by_country country=DE",
            "by_country country=FR",
        ]
        page.open("about:blank")
