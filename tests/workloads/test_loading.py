"""Workload files: what they hold, and every mistake of theirs at once."""

import json
from decimal import Decimal

import pytest

from workloads.errors import WorkloadError
from workloads.limits import MAX_QUERIES
from workloads.loading import load_workload, read_workload

STREAM = {"time": "ts", "type": "kind"}
QUERY = "QUERY one PATTERN A a RETURN a WITHIN 1 s"
YAML = """\
name: tiny
stream:
  time: ts
  unit: s
  type: kind
  sequence: seq
  types:
    Big: "x > 5"
    Small:
  attributes: {x: int}
  lateness: 10 s
statistics:
  rates: {Big: 2.5}
  selectivities: {"a.x < b.x": 0.25}
queries:
  - |
    QUERY one
    PATTERN Big a
    RETURN a
    WITHIN 1 s
  - "QUERY two PATTERN Small s AGG COUNT(*) WITHIN 1.5 min"
"""


def findings_of(source):
    with pytest.raises(WorkloadError) as caught:
        load_workload(source)
    return [finding.message for finding in caught.value.diagnostics]


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def test_a_yaml_file(write):
    workload = load_workload(write("w.yaml", YAML))
    assert workload.name == "tiny"
    assert workload.stream.unit == "s"
    assert workload.stream.sequence == "seq"
    assert workload.stream.types["Small"] is None
    assert workload.stream.closed
    assert workload.stream.lateness == 10 * 10**9
    assert workload.statistics.rates == {"Big": 2.5}
    assert workload.statistics.selectivities == {"a.x < b.x": 0.25}
    assert [q.name for q in workload.queries] == ["one", "two"]
    assert workload.queries[1].within.amount == Decimal("1.5")


def test_a_json_file_says_the_same(write):
    import yaml

    document = yaml.safe_load(YAML)
    one = load_workload(write("w.json", json.dumps(document)))
    two = load_workload(write("w.yaml", YAML))
    assert (one.stream, one.queries, one.statistics) == (two.stream, two.queries, two.statistics)


def test_an_error_in_a_block_names_its_line_in_the_file(write):
    path = write("w.yaml", YAML.replace("PATTERN Big a", "PATTERN Big Big Big"))
    _, (finding,) = read_workload(path)
    assert finding.query == "one"
    assert finding.line == 2
    assert finding.file_line == 18


def test_all_mistakes_are_reported_together():
    found = findings_of(
        {
            "strem": 1,
            "stream": {**STREAM, "tipe": "x", "types": {"T": "x >"}, "lateness": "soon"},
            "statistics": {"rates": {"A": -1}},
            "queries": ["PATTERN", QUERY, QUERY],
        }
    )
    assert len(found) == 7
    assert "no key 'strem'" in found[0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"stream": STREAM}, "no queries"),
        ({"stream": STREAM, "queries": []}, "no queries"),
        ({"stream": STREAM, "queries": [QUERY] * (MAX_QUERIES + 1)}, "10,001 queries"),
        ({"queries": [QUERY]}, "'stream' is missing"),
        ({"stream": {"type": "k"}, "queries": [QUERY]}, "stream.time is missing"),
        ({"stream": {"time": "t"}, "queries": [QUERY]}, "neither 'type' nor 'types'"),
        ({"stream": {**STREAM, "unit": "sec"}, "queries": [QUERY]}, "stream.unit is 'sec'"),
        ({"stream": STREAM, "queries": [7]}, "query 1 is 7, not a text"),
        ({"stream": STREAM, "queries": [QUERY, QUERY]}, "has the name of query 1"),
        ({"stream": {**STREAM, "types": {"T": "x"}}, "queries": [QUERY]}, "not a condition"),
        ({"stream": {**STREAM, "attributes": {"x": "nt"}}, "queries": [QUERY]}, "unknown type"),
        ({"stream": STREAM, "queries": [QUERY], "statistics": {"rates": 1}}, "not a map"),
        ({"stream": {"time": 5, "type": "k"}, "queries": [QUERY]}, "not the name of a column"),
    ],
)
def test_each_mistake_has_a_clear_message(document, message):
    assert any(message in found for found in findings_of(document))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.yaml", "a: [", "not valid YAML"),
        ("w.json", "{", "not valid JSON"),
        ("w.yaml", "just text", "a workload is a document"),
        ("w.yaml", "", "a workload is a document"),
        ("w.json", "[" * 100_000, "nested deeper than 20 levels"),
    ],
)
def test_files_that_are_no_workloads(write, name, text, message):
    assert message in findings_of(write(name, text))[0]


def test_a_missing_file(tmp_path):
    assert "cannot read" in findings_of(tmp_path / "none.yaml")[0]


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_bytes(b"\xff\xfe\x00\x80")
    assert "UTF-8" in findings_of(path)[0]


def test_queries_without_a_name_are_numbered():
    workload = load_workload({"stream": STREAM, "queries": ["PATTERN A a RETURN a WITHIN 1 s"] * 2})
    assert [q.name for q in workload.queries] == ["q1", "q2"]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"stream": {"time": "t", "type": "k", "lateness": "\xa0"}}, "stream.lateness is"),
        ({"stream": {"time": "t", "type": "k", "lateness": "1e308 day"}}, "stream.lateness is"),
        ({"stream": {"time": "t", "type": "k", "unit": {"ms": 1}}}, "stream.unit is"),
        ({"statistics": {"rates": {"A": 10**400}}}, "not a number at least 0"),
        ({"statistics": {"keys": {"user": 10**400}}}, "not a number at least 1"),
        ({"statistics": {"events": 1e300, "span": 1e-300}}, "a rate that no number can hold"),
        ({"statistics": {"events": 0.5, "span": 1}}, "not a number at least 1"),
    ],
)
def test_values_that_no_unit_or_number_can_be_are_said(section, said):
    document = {
        "stream": {"time": "t", "type": "k"},
        "queries": ["QUERY q PATTERN SEQ(A a, B b) RETURN a WITHIN 1 s"],
        **section,
    }
    with pytest.raises(WorkloadError, match=said):
        load_workload(document)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("w.yaml", "stream: {time: ts, type: kind}\nqueries: []\nqueries: []\n", 3),
        ("w.yaml", "stream:\n  time: a\n  type: kind\n  time: b\nqueries: []\n", 4),
        ("w.json", '{"stream": {"time": "a", "time": "b"},\n "queries": []}', 1),
    ],
)
def test_a_key_that_stands_twice_is_a_mistake(tmp_path, name, text, line):
    (tmp_path / name).write_text(text)
    with pytest.raises(WorkloadError) as caught:
        load_workload(tmp_path / name)
    (twice,) = (found for found in caught.value.diagnostics if "stands twice" in found.message)
    assert (twice.file_line, bool(twice.hint)) == (line, True)
