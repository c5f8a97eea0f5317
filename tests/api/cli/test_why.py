"""`sheaf why`: the answer, the counts of components, matches and misses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli.main import app

WORKLOAD = """
name: cards
stream: {time: ts, type: kind}
queries:
- |
  QUERY paid
  PATTERN SEQ(Reset r, !Login l, Payment p)
  WHERE p.amount > 500
  PARTITION BY card
  RETURN r, p.amount
  WITHIN 1 hour
- |
  QUERY often
  PATTERN SEQ(Reset r, Payment p)
  PARTITION BY card
  AGG COUNT(*) HAVING COUNT(*) > 1
  WITHIN 1 hour
- QUERY first PATTERN Payment p PARTITION BY card RETURN p SUPPRESS 1 hour WITHIN 1 s
- QUERY large PATTERN Payment p WHERE p.amount > 500 AND p.place CONTAINS 'x' RETURN p WITHIN 1 s
- name: rows
  sql: >-
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY card ORDER BY ts
    MEASURES A.amount AS x PATTERN (A A)
    DEFINE A AS A.amount > 1000)
"""
EVENTS = """ts,kind,card,amount,place
2025-03-01T10:00:00,Reset,c7,,
2025-03-01T10:10:00,Login,c7,,
2025-03-01T10:20:00,Payment,c7,900,a
2025-03-01T10:00:00,Reset,c8,,
2025-03-01T11:10:00,Payment,c8,900,a
2025-03-01T10:00:00,Reset,c9,,
2025-03-01T10:01:00,Payment,c9,20,xx
2025-03-01T12:00:00,Reset,d1,,
2025-03-01T12:01:00,Payment,d1,700,a
2025-03-01T12:02:00,Payment,d1,800,a
"""


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "e.csv").write_text(EVENTS)

    def answer(query: str, *options: str) -> Any:
        given = ["why", str(tmp_path / "w.yaml"), query, "--events", str(tmp_path / "e.csv")]
        return CliRunner().invoke(app, [*given, *options])

    return answer


def _json(found: Any) -> Any:
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    ("key", "kind", "what"),
    [
        ("c7", "negation", "!Login l"),
        ("card=c8", "window", "WITHIN 1 hour"),
        ('{"card": "c9"}', "condition", "p.amount > 500"),
    ],
)
def test_a_miss_of_a_key_says_what_failed(ask: Any, key: str, kind: str, what: str) -> None:
    found = _json(ask("paid", "--key", key, "--json"))
    assert not found["matched"]
    assert (found["misses"][0]["kind"], found["misses"][0]["what"]) == (kind, what)
    assert [event["alias"] for event in found["misses"][0]["events"]] == ["r", "p"]


def test_components_are_counted_condition_by_condition(ask: Any) -> None:
    components = _json(ask("paid", "--key", "c9", "--json"))["components"]
    assert [part["alias"] for part in components] == ["r", "l", "p"]
    payment = components[2]
    assert (payment["events_of_type"], payment["events_looked_at"]) == (5, 1)
    assert payment["conditions"] == [{"condition": "p.amount > 500", "left": 0}]


def test_a_match_is_shown_with_its_events(ask: Any) -> None:
    found = _json(ask("paid", "--key", "d1", "--json"))
    assert found["matched"]
    assert found["rows"] == 2
    events = found["matches"][0]["events"]
    assert [event["time"] for event in events] == ["2025-03-01T12:00:00", "2025-03-01T12:01:00"]
    text = ask("paid", "--key", "d1").stdout
    assert text.startswith("paid gives 2 matches (for card = d1)")


def test_a_time_narrows_the_question(ask: Any) -> None:
    found = _json(ask("paid", "--at", "2025-03-01T12:02:00", "--json"))
    assert found["rows"] == 1
    missed = _json(ask("paid", "--at", "2025-03-01T10:15:00", "--json"))
    assert not missed["matched"]
    assert missed["misses"][0]["key"] == {"card": "c7"}
    assert missed["misses"][0]["by"][0]["time"] == "2025-03-01T10:10:00"


def test_clauses_that_leave_rows_out_are_named(ask: Any) -> None:
    often = _json(ask("often", "--key", "c7", "--json"))["misses"][0]
    assert (often["what"], often["because"]) == ("HAVING COUNT(*) > 1", "COUNT(*) is 1")
    first = _json(ask("first", "--at", "2025-03-01T12:02:00", "--json"))["misses"][0]
    assert first["what"] == "SUPPRESS 1 hour"
    behind = _json(ask("often", "--key", "d1", "--json"))["matches"][0]
    assert (behind["row"]["count"], behind["matches"]) == (2, 2)


def test_a_query_of_one_event_shows_the_events_that_fail_least(ask: Any) -> None:
    found = _json(ask("large", "--json"))
    assert found["misses"][0]["what"] in ("p.place CONTAINS 'x'", "p.amount > 500")
    assert len(found["misses"]) == 3


def test_a_query_in_sql_is_answered_by_its_rows(ask: Any) -> None:
    found = ask("rows")
    assert "rows gives no row" in found.stdout
    assert "explained by its rows alone" in found.stdout


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("paidd", [], "did you mean 'paid'?"),
        ("large", ["--key", "c7"], "has no key"),
        ("paid", ["--key", '{"user": 3}'], "the key of query paid is card"),
        ("paid", ["--key", "{x"], "is no JSON"),
        ("paid", ["--at", "soon"], "'soon' is no time"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(
    ask: Any, query: str, options: list[str], message: str
) -> None:
    found = ask(query, *options)
    assert found.exit_code == 1
    assert message in found.output
