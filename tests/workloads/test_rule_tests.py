"""`tests:` of a workload, as it is read."""

from pathlib import Path
from typing import Any

import pytest

from api.planning.service import check_document
from optimizer.bind.binder import load_bound
from workloads.errors import WorkloadError
from workloads.loading import load_workload, parse_document
from workloads.workload import to_document

QUERY = """QUERY paid
PATTERN SEQ(Reset r, !Login l, Payment p) WHERE p.amount > 500 PARTITION BY card
RETURN r, p.amount WITHIN 1 hour"""
EVENTS = [{"ts": 0, "kind": "Reset", "card": "c7"}]


def _document(*tests: Any) -> dict[str, Any]:
    return {
        "name": "cards",
        "stream": {"time": "ts", "unit": "s", "type": "kind"},
        "queries": [QUERY],
        "tests": list(tests),
    }


def _errors(*tests: Any) -> str:
    with pytest.raises(WorkloadError) as caught:
        load_bound(_document(*tests))
    return str(caught.value)


def test_a_workload_keeps_its_tests_and_plans_are_without_them() -> None:
    given = _document({"name": "none", "events": EVENTS, "expect": {"paid": "none"}})
    workload = load_workload(given)
    assert load_workload(to_document(workload, tests=True)) == workload
    assert "tests" not in to_document(workload)
    assert check_document(given)[1]["tests"] == given["tests"]


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"name": "x", "expect": {"paid": 1}}, "test 1 has no events"),
        ({"name": "x", "events": EVENTS}, "test 1 expects nothing"),
        ({"name": "x", "events": EVENTS, "expect": {"pid": 1}}, "did you mean 'paid'?"),
        ({"name": "x", "events": EVENTS, "expect": {"paid": -1}}, "expects -1, no number of rows"),
        ({"name": "x", "events": EVENTS, "expect": {"paid": True}}, "no number of rows"),
        ({"name": "x", "events": EVENTS, "expect": {"paid": [3]}}, "row 1 is 3, not a map"),
        ({"name": "x", "events": EVENTS, "expects": "none"}, "did you mean 'expect'?"),
        ({"name": "x", "events": [1], "expect": "none"}, "event 1 is 1, not a map"),
        ({"name": "x", "events": "a.csv", "expect": "none"}, "a workload that is no file"),
        ({"name": 3, "events": EVENTS, "expect": "none"}, "has the name 3"),
        ({"events": EVENTS, "expect": {"paid": {"at": 1}}}, "no key 'at'"),
        ({"events": EVENTS, "expect": {"paid": [{"crad": "c7"}]}}, "did you mean 'card'?"),
        ({"events": EVENTS, "expect": {"paid": [{"key": {"x": 1}}]}}, "has no key 'x'"),
        ({"events": EVENTS, "expect": {"paid": 1}, "only": "yes"}, "'only' is 'yes'"),
        ("no test", "test 1 is 'no test', not a map"),
    ],
)
def test_mistakes_in_tests_are_named(test: Any, message: str) -> None:
    assert message in _errors(test)


def test_two_tests_of_one_name_are_refused() -> None:
    test = {"name": "x", "events": EVENTS, "expect": "none"}
    assert "test 2 has the name of test 1" in _errors(test, test)


def test_a_finding_has_its_place_in_the_text() -> None:
    text = """
stream: {time: ts, type: kind}
queries:
- QUERY q PATTERN A a RETURN a WITHIN 1 s
tests:
- name: x
  events: []
  expect:
    p: 1
"""
    _, (finding,) = parse_document(text)
    assert (finding.line, finding.column) == (9, 5)


def test_a_file_of_events_has_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "stream: {time: ts, type: kind}\n"
        "queries: [QUERY q PATTERN A a RETURN a WITHIN 1 s]\n"
        "tests: [{events: cases/a.csv, expect: none}]\n"
    )
    with pytest.raises(WorkloadError, match="there is no file"):
        load_workload(path)
