"""`sheaf test-rules`: what tests of a workload come to."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from api.cli.main import app
from api.rule_tests.compare import differences
from workloads.rule_tests import Expectation

WORKLOAD = """
name: cards
stream: {time: ts, unit: s, type: kind}
queries:
- |
  QUERY paid
  PATTERN SEQ(Reset r, !Login l, Payment p)
  WHERE p.amount > 500
  PARTITION BY card
  RETURN r, p.amount
  WITHIN 1 hour
- |
  QUERY resets
  PATTERN SEQ(Reset r, Reset s)
  PARTITION BY card
  AGG COUNT(*)
  WITHIN 1 hour
tests:
- name: paid after a reset
  events:
  - {ts: 0, kind: Reset, card: c7}
  - {ts: 60, kind: Payment, card: c7, amount: 900}
  expect:
    paid: [{card: c7, time: 60, p: {amount: 900}}]
    resets: none
- name: nothing at all
  events: []
  expect: none
- name: from a file
  events: resets.csv
  expect:
    resets: {count: 1, includes: [{card: a, COUNT(*): 1}], excludes: [{card: b}]}
  only: true
"""
FAILING = """- name: wrong & odd <\\x01>
  events:
  - {ts: 0, kind: Reset, card: c7}
  - {ts: 30, kind: Login, card: c7}
  - {ts: 60, kind: Payment, card: c7, amount: 900}
  expect: {paid: 1, resets: some}
- name: no times
  events: [{kind: Reset, card: c7}]
  expect: none
"""


def _run(tmp_path: Path, text: str, *options: str) -> Any:
    (tmp_path / "resets.csv").write_text("ts,kind,card\n0,Reset,a\n1,Reset,a\n5,Reset,b\n")
    (tmp_path / "w.yaml").write_text(text)
    return CliRunner().invoke(app, ["test-rules", str(tmp_path / "w.yaml"), *options])


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_tests_that_hold_pass(tmp_path: Path, engine: str) -> None:
    found = _run(tmp_path, WORKLOAD, "--engine", engine)
    assert found.exit_code == 0, found.output
    assert "3 of 3 tests passed" in found.output


def test_failing_tests_say_why_and_are_in_the_junit_file(tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    found = _run(tmp_path, WORKLOAD + FAILING, "--junit", str(out))
    assert found.exit_code == 1
    assert "paid: expected 1 row, found no row" in found.output
    assert "resets: expected some row, found none" in found.output
    suite = ElementTree.parse(out).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "1")
    states = [[child.tag for child in case] for case in suite]
    assert states == [[], [], [], ["failure"], ["error"]]


def test_outcomes_are_given_as_json_too(tmp_path: Path) -> None:
    found = _run(tmp_path, WORKLOAD + FAILING, "--json")
    states = [test["status"] for test in json.loads(found.stdout)["tests"]]
    assert states == ["passed", "passed", "passed", "failed", "error"]


def test_a_workload_without_tests_is_told_so(tmp_path: Path) -> None:
    found = _run(tmp_path, WORKLOAD.split("tests:")[0])
    assert found.exit_code == 1
    assert "has no tests" in found.output


ROWS = [
    {"query": "q", "key": {"c": 1}, "time": 5, "match": {"a": {"x": 1, "y": 2}}},
    {"query": "q", "key": {"c": 1}, "time": 9, "match": {"a": {"x": 1, "y": 3}}},
]


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (Expectation("q", rows=({"c": 1}, {"time": 5})), None),  # each has a row of its own
        (Expectation("q", rows=({"time": 5}, {"c": 1})), None),
        (Expectation("q", rows=({"a": {"x": 1}},)), "no such row was expected"),
        (Expectation("q", rows=({"time": 5}, {"time": 5})), "no row is"),
        (Expectation("q", includes=({"a": {"y": 3}},)), None),
        (Expectation("q", includes=({"a": {"z": None}},)), "no row is"),
        (Expectation("q", excludes=({"key": {"c": 1}},)), "a row is"),
        (Expectation("q", 0), "expected no row, found 2 rows"),
        (Expectation("q", least=1), None),
    ],
)
def test_rows_are_compared_by_the_fields_that_are_named(
    expected: Expectation, said: str | None
) -> None:
    found = differences(expected, ROWS)
    assert (not found) if said is None else said in " ".join(found)


def test_times_are_compared_as_moments() -> None:
    from datetime import UTC, datetime

    row = {"query": "q", "time": datetime(2025, 3, 1, 10, tzinfo=UTC)}
    same = ("2025-03-01T10:00:00", "2025-03-01 10:00Z", "2025-03-01T11:00:00+01:00")
    for text in same:
        assert not differences(Expectation("q", rows=({"time": text},)), [row])
    assert differences(Expectation("q", rows=({"time": "2025-03-01T10:00:01"},)), [row])
