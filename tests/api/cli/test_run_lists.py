"""Columns that are lists: compared value by value, and refused where that has no meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli.main import app

EVENTS: list[dict[str, Any]] = [
    {"ts": 1, "n": 1, "k": "A", "tags": ["x", "Evil.exe"], "sizes": [1, 5]},
    {"ts": 2, "n": 2, "k": "A", "tags": ["y"], "sizes": [7]},
    {"ts": 3, "n": 3, "k": "A", "tags": [], "sizes": None},
    {"ts": 4, "n": 4, "k": "A", "tags": None, "sizes": []},
]


def run(tmp_path: Path, engine: str, **workload: Any) -> tuple[str, list[dict[str, Any]]]:
    """What is said where the run fails, or its rows."""
    events, given, out = (tmp_path / name for name in ("e.jsonl", "w.json", "o.jsonl"))
    events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    stream = {"time": "ts", "unit": "s", "type": "k", "sequence": "n"}
    given.write_text(json.dumps({"name": "w", "stream": stream, **workload}))
    options = ["--events", str(events), "--engine", engine, "--out", str(out)]
    result = CliRunner().invoke(app, ["run", str(given), *options])
    if result.exit_code:
        assert isinstance(result.exception, SystemExit), result.exception
        return result.output, []
    return "", [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("engine", ["local", "oracle"])
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("a.tags = 'y'", [2]),
        ("a.sizes > 4", [1, 2]),
        ("a.tags ENDS WITH '.exe'", [1]),
        ("lower(a.tags) = 'evil.exe'", [1]),
    ],
)
def test_a_list_is_compared_value_by_value(
    tmp_path: Path, engine: str, condition: str, found: list[int]
) -> None:
    query = f"QUERY q\nPATTERN A a\nWHERE {condition}\nRETURN a.n\nWITHIN 1 s"
    _, rows = run(tmp_path, engine, queries=[query])
    assert [row["match"]["a"]["n"] for row in rows] == found


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_rules_of_sigma_read_lists(tmp_path: Path, engine: str) -> None:
    rule = {
        "title": "r",
        "logsource": {"category": "any"},
        "detection": {"s": {"tags|contains": "EVIL"}, "condition": "s"},
    }
    _, rows = run(tmp_path, engine, rules=[{"sigma": [rule]}])
    assert [row["match"]["event"]["n"] for row in rows] == [1]


@pytest.mark.parametrize("number", [2, 30])
def test_a_run_names_the_rules_that_were_not_taken(tmp_path: Path, number: int) -> None:
    detection = {"s": {"tags|re": "(?=a)"}, "condition": "s"}
    bad = {"title": "bad", "logsource": {"category": "any"}, "detection": detection}
    good = {**bad, "title": "good", "detection": {"s": {"tags": "y"}, "condition": "s"}}
    events, given = tmp_path / "e.jsonl", tmp_path / "w.json"
    events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    stream = {"time": "ts", "unit": "s", "sequence": "n"}
    given.write_text(json.dumps({"stream": stream, "rules": [{"sigma": [good, *[bad] * number]}]}))
    result = CliRunner().invoke(app, ["run", str(given), "--events", str(events)])
    assert not result.exit_code, result.output
    assert result.stderr.count("note: sigma rule not taken: bad: ") == min(number, 20)
    assert ("10 more rules were not taken" in result.stderr) == (number == 30)


@pytest.mark.parametrize("engine", ["local", "oracle"])
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("PATTERN SEQ(A a, A b)\nPARTITION BY tags\nRETURN a.n", "not be keys"),
        ("PATTERN A a\nAGG SUM(a.sizes)", "'sizes' has type list"),
    ],
)
def test_what_lists_cannot_be_is_an_error(
    tmp_path: Path, engine: str, query: str, said: str
) -> None:
    message, _ = run(tmp_path, engine, queries=[f"QUERY q\n{query}\nWITHIN 1 s"])
    assert said in message
