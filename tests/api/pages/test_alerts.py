"""How often queries gave rows, by day: over HTTP, by the client, and on the page of a job."""

from pathlib import Path

import pytest

from api.client import Client, ServiceError
from tests.api.cli.test_backtest import EVENTS
from tests.api.pages.driver import Browser
from tests.api.pages.workloads import served_job

DOCUMENT = {
    "name": "cards",
    "stream": {"time": "ts", "type": "kind"},
    "queries": [
        "QUERY pairs PATTERN SEQ(Payment p, Payment q) AGG COUNT(*), SUM(p.amount) WITHIN 1 hour",
        "QUERY never PATTERN Refund r RETURN r WITHIN 1 s",
        "QUERY paid PATTERN Payment p RETURN p, 'Paid' AS title, 'low' AS level WITHIN 1 s",
    ],
}


def test_alerts_of_a_job_are_counted_by_query_and_day(page: Browser, tmp_path: Path) -> None:
    with served_job(tmp_path, DOCUMENT, EVENTS) as job, Client(job.address) as client:
        found = client.alerts(job.id)
        assert (found.alerts, found.days) == (6, ["2025-03-01", "2025-03-02", "2025-03-04"])
        paid, pairs, never = found.rules
        assert (paid.query, paid.title, paid.level) == ("paid", "Paid", "low")
        assert paid.by_day == {"2025-03-01": 1, "2025-03-02": 2, "2025-03-04": 1}
        # Of an aggregate, each window is one alert, however many aggregates are reported of it.
        assert (pairs.query, pairs.by_day) == ("pairs", {"2025-03-02": 2})
        assert (never.query, never.alerts, never.by_day) == ("never", 0, {})
        with pytest.raises(ServiceError, match="no job"):
            client.alerts("job-0-none")
        page.open(job.page)
        page.until(lambda: page.count("#alerts-box:not([hidden])") == 1, "the fold of alerts")
        page.run("document.querySelector('#alerts-box').open = true")
        page.until(lambda: page.count("#alerts tbody tr") == 3, "a row for each query")
        rows = "[...document.querySelectorAll('#alerts tbody tr')]"
        bars = page.run(f"return {rows}.map((row) => row.querySelectorAll('rect').length)")
        assert bars == [3, 1, 0]
        assert page.texts("#alerts td:nth-child(4)") == ["Paid · low", "–", "–"]
        assert page.texts("#alerts td:nth-child(5)") == ["2, 2025-03-02", "2, 2025-03-02", "–"]
        assert page.texts("#alerts-about")[0].startswith("6 alerts of 2 of 3 queries, on 3 days")
        first = f"[...{rows}[0].querySelectorAll('rect')]"
        heights = page.run(f"return {first}.map((bar) => bar.getAttribute('height'))")
        assert heights == ["12", "24", "12"]
        page.open("about:blank")
