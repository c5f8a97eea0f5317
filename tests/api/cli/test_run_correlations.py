"""Correlations of values: how many different ones, their sum, their average, by group and time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli.main import app
from workloads.loading import load_workload
from workloads.parser import parse_query

EVENTS: list[dict[str, Any]] = [
    {"ts": 1, "n": 1, "kind": "in", "host": "a", "user": "u", "size": 5},
    {"ts": 2, "n": 2, "kind": "in", "host": "a", "user": "u", "size": 5},
    {"ts": 3, "n": 3, "kind": "in", "host": "b", "user": "v", "size": 50},
    {"ts": 4, "n": 4, "kind": "in", "host": "a", "user": "v", "size": None},
    {"ts": 5, "n": 5, "kind": "out", "host": "a", "user": "w", "size": 9},
    {"ts": 20, "n": 6, "kind": "in", "host": "a", "user": "x", "size": 1},
    {"ts": 21, "n": 7, "kind": "in", "host": "a", "user": None, "size": 30},
]


def rules(kind: str, of: list[str], condition: dict[str, Any]) -> dict[str, Any]:
    given: list[dict[str, Any]] = [
        {
            "title": name,
            "name": name,
            "logsource": {"category": "any"},
            "detection": {"s": {"kind": name}, "condition": "s"},
        }
        for name in ("in", "out")
    ]
    correlation = {"type": kind, "rules": of, "group-by": ["host"], "timespan": "10s"}
    given.append({"title": "c", "correlation": {**correlation, "condition": condition}})
    kept = [rule for rule in given if rule["title"] in (*of, "c")]
    stream = {"time": "ts", "unit": "s", "sequence": "n"}
    return {"name": "w", "stream": stream, "rules": [{"sigma": kept}]}


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("engine", ["local", "oracle"])
@pytest.mark.parametrize(
    ("kind", "of", "condition", "found"),
    [
        ("value_count", ["in"], {"gte": 2, "field": "user"}, [("a", 4, 2.0)]),
        ("value_count", ["in", "out"], {"gte": 3, "field": "user"}, [("a", 5, 3.0)]),
        ("value_sum", ["in"], {"gt": 9, "field": "size"},
         [("a", 2, 10.0), ("b", 3, 50.0), ("a", 4, 10.0), ("a", 21, 31.0)]),
        ("value_avg", ["in"], {"gte": 15.5, "field": "size"}, [("b", 3, 50.0), ("a", 21, 15.5)]),
    ],
)  # fmt: skip
def test_values_of_rules_are_counted_and_summed(
    tmp_path: Path,
    engine: str,
    texts: bool,
    kind: str,
    of: list[str],
    condition: dict[str, Any],
    found: list[tuple[str, int, float]],
) -> None:
    events, given, out = (tmp_path / name for name in ("e.jsonl", "w.json", "o.jsonl"))
    sizes = [event["size"] for event in EVENTS]
    if texts:  # as recorded events often have numbers
        sizes = [None if size is None else str(size) for size in sizes]
    written = [{**event, "size": size} for event, size in zip(EVENTS, sizes, strict=True)]
    events.write_text("".join(json.dumps(event) + "\n" for event in written))
    given.write_text(json.dumps(rules(kind, of, condition)))
    options = ["--events", str(events), "--engine", engine, "--out", str(out)]
    result = CliRunner().invoke(app, ["run", str(given), *options])
    assert not result.exit_code, result.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    given_rows = [(row["key"]["host"], row["time"], row["value"]) for row in rows]
    assert sorted(given_rows) == sorted(found)


def test_the_query_of_values_is_the_one_that_it_is_printed_as() -> None:
    found = load_workload(rules("value_count", ["in", "out"], {"lt": 3, "field": "user"}))
    (query,) = found.queries
    assert "COUNT(DISTINCT event.user)" in query.text
    assert parse_query(query.text) == query


@pytest.mark.parametrize("condition", [{"gte": 2}, {"gte": 2, "field": ["user", "size"]}])
def test_values_of_no_one_field_are_refused(condition: dict[str, Any]) -> None:
    found = load_workload(rules("value_count", ["in"], condition))
    assert [rule.name for rule in found.refused] == ["c"]
