"""`sheaf backtest`: alerts by rule and day."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
from typer.testing import CliRunner

from api.cli.main import app
from engines.results.alerts_by_day import AlertsByDay

WORKLOAD = """
name: cards
stream: {time: ts, type: kind}
queries:
- QUERY paid PATTERN Payment p RETURN p, 'Paid' AS title, 'low' AS level WITHIN 1 s
- QUERY pairs PATTERN SEQ(Payment p, Payment q) AGG COUNT(*), SUM(p.amount) WITHIN 1 hour
- QUERY never PATTERN Refund r RETURN r WITHIN 1 s
"""
EVENTS = """ts,kind,amount
2025-03-01T23:50:00,Payment,9
2025-03-02T00:10:00,Payment,9
2025-03-02T00:20:00,Payment,9
2025-03-04T00:20:00,Payment,9
"""


def test_rules_are_counted_by_day_the_noisiest_first(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "e.csv").write_text(EVENTS)
    given = ["backtest", str(tmp_path / "w.yaml"), "--events", str(tmp_path / "e.csv")]
    found = CliRunner().invoke(app, [*given, "--json"])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["days"] == ["2025-03-01", "2025-03-02", "2025-03-04"]
    assert [(rule["query"], rule["alerts"]) for rule in document["rules"]] == [
        ("paid", 4),
        ("pairs", 2),  # windows, each with two aggregates
        ("never", 0),
    ]
    paid = document["rules"][0]
    assert paid["by_day"] == {"2025-03-01": 1, "2025-03-02": 2, "2025-03-04": 1}
    assert (paid["title"], paid["level"]) == ("Paid", "low")
    text = CliRunner().invoke(app, [*given, "--top", "1"]).stdout
    assert "6 alerts of 2 of 3 rules over 4 events, on 3 days" in text
    assert "4  ▄█▄  paid (Paid · low), most on 2025-03-02: 2" in text
    assert "1 more rule" in text


def test_a_page_has_a_table_and_a_chart_of_each_rule(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("'Paid'", "'<b>Paid</b>'"))
    (tmp_path / "e.csv").write_text(EVENTS)
    given = ["backtest", str(tmp_path / "w.yaml"), "--events", str(tmp_path / "e.csv")]
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, [*given, "--page", str(page)])
    assert done.exit_code == 0, done.output
    html = page.read_text()
    assert "&lt;b&gt;Paid&lt;/b&gt;" in html
    assert "<b>" not in html
    charts = ["".join(chart.itertext()) for chart in charts_of(html)]
    assert charts == [
        "2025-03-01: 12025-03-02: 42025-03-04: 1",  # all rules
        "2025-03-01: 12025-03-02: 22025-03-04: 1",
        "2025-03-02: 2",
    ]
    heights = [float(bar.get("height", 0)) for bar in charts_of(html)[1]]
    assert heights == [14, 28, 14]
    shorter = CliRunner().invoke(app, [*given, "--page", str(page), "--top", "1"])
    assert shorter.exit_code == 0
    assert len(charts_of(page.read_text())) == 2
    assert "1 more with alerts" in page.read_text()
    (tmp_path / "e.csv").write_text(EVENTS.replace("Payment", "Login"))
    assert CliRunner().invoke(app, [*given, "--page", str(page)]).exit_code == 0
    assert "0 alerts of 0 of 3 rules" in page.read_text()
    refused = CliRunner().invoke(app, [*given, "--page", str(tmp_path / "none" / "page.html")])
    assert refused.exit_code != 0


def charts_of(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(chart) for chart in re.findall("<svg.*?</svg>", html)]


def test_days_of_whole_numbers_are_those_of_their_unit() -> None:
    counted = AlertsByDay("s")
    times = [0, 86_399, 86_400, -1, -86_400, -86_401]
    counted.add(pa.table({"query": ["q"] * 6, "time": times}))
    assert counted.of_query("q") == {-2: 1, -1: 2, 0: 2, 1: 1}
    assert counted.shown_day(-1) == "day -1"
    dates = AlertsByDay()
    dates.add(pa.table({"query": ["q"], "time": pa.array([20_000], pa.date32())}))
    assert dates.shown_day(20_000) == "2024-10-04"
