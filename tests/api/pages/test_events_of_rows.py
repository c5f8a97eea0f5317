"""What was counted is on the picture of a job's page, and a row opens the events that made it."""

from pathlib import Path

import pytest

from tests.api.pages.driver import Browser
from tests.api.pages.workloads import served_job

pytestmark = pytest.mark.slow

EVENTS = """ts,kind,user,price
1,View,1,3
3,View,1,
8,Buy,1,20
9,Buy,2,5
"""
QUERY = "PATTERN SEQ(View v, Buy b) PARTITION BY user {} WITHIN 1 min"


def test_rows_open_their_events_on_a_line_of_time(page: Browser, tmp_path: Path) -> None:
    document = {
        "name": "shop",
        "stream": {"time": "ts", "unit": "s", "type": "kind"},
        "queries": [
            f"QUERY paths {QUERY.format('AGG COUNT(*)')}",
            f"QUERY bought {QUERY.format('RETURN v, b.price')}",
        ],
    }
    with served_job(tmp_path, document, EVENTS) as job:
        page.open(job.page)
        page.until(lambda: page.count("#rows tbody tr") == 1)
        # What was counted is on the plan's picture, and in a table.
        page.until(lambda: page.count("#running-picture text.live") == 4)
        assert page.texts("#running-picture g.type text.live") == ["2", "2"]
        assert sorted(page.texts("#running-picture g.query text.live")) == ["1", "2"]
        assert page.texts("#running-queries td:first-child") == ["bought", "paths"]
        assert page.texts("#running-queries td:nth-child(2)") == ["2", "1"]
        # A job that is over has no rates.
        assert (
            page.run("return document.querySelector('#running-queries th.rate').offsetWidth") == 0
        )
        page.click("#rows .unfold")
        page.until(lambda: page.count("#rows .lanes circle title") == 4)  # of two matches
        assert page.texts(".lanes figcaption > span") == [" v ", " b "]
        assert page.texts(".behind p") == ["2 matches:"]
        page.click("#rows .unfold")
        assert page.count("#rows .behind") == 0
        page.click("#results [data-kind=matches]")
        page.until(lambda: page.count("#rows tbody tr") == 2)
        page.click("#rows tbody tr:last-child .unfold")
        page.until(lambda: page.count("#rows .behind tbody tr") == 2)
        assert page.texts(".behind tbody td:nth-child(2)") == ["3", "8"]
        assert "price 20" in page.text(".behind tbody tr:last-child")
        for width in (1280, 390):
            page.size(width, 900)
            assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
        page.open("about:blank")
