"""Texts beyond every measure: refused with a place and a remedy, before they cost anything."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from optimizer.bind import binder, scope
from optimizer.bind.binder import load_bound
from workloads import limits
from workloads.errors import QueryError, WorkloadError, did_you_mean
from workloads.limits import (
    MAX_DEPTH,
    MAX_DOCUMENT_CHARACTERS,
    MAX_DOCUMENT_DEPTH,
    MAX_DOCUMENT_VALUES,
    MAX_LISTED,
    MAX_NUMBER_CHARACTERS,
)
from workloads.loading import parse_document, read_workload
from workloads.parser import parse_condition, parse_query

STREAM = "stream: {time: ts, type: kind, sequence: seq}\n"
QUERIES = "queries: ['PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 1 s']\n"


def query_finding(text):
    """The one finding of a workload with this query."""
    document = {
        "stream": {"time": "ts", "type": "kind", "sequence": "seq"},
        "queries": [text],
    }
    with pytest.raises(WorkloadError) as caught:
        load_bound(document)
    (finding,) = caught.value.diagnostics
    assert finding.hint, finding.message
    return finding


def document_finding(text):
    _, findings = parse_document(text)
    assert findings[0].hint, findings[0].message
    return findings[0]


@pytest.mark.parametrize(
    "amount",
    ["1e1000000", "1e-1000000", "1e99999999999999999999", "1e31", "9" * 5000, "0." + "1" * 5000],
)
@pytest.mark.parametrize("clause", ["WITHIN {} s", "WITHIN 1 s SLIDE {} s", "WITHIN {} EVENTS"])
def test_a_length_of_time_beyond_all_measure(amount, clause):
    text = "PATTERN SEQ(A a, B b) AGG COUNT(*) " + clause.format(amount)
    finding = query_finding(text)
    assert finding.column == text.index(amount) + 1
    assert len(finding.message) < 200


def test_a_window_is_compared_exactly():
    finding = query_finding("PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 1." + "0" * 40 + "1 ns")
    assert "not a whole number of nanoseconds" in finding.message


def test_a_number_as_long_as_they_may_be_is_taken():
    digits = "9" * MAX_NUMBER_CHARACTERS
    load_bound(
        {
            "stream": {"time": "ts", "type": "kind"},
            "queries": [f"PATTERN A a WHERE a.x < {digits} RETURN a WITHIN 1 s"],
        }
    )
    finding = query_finding(f"PATTERN A a WHERE a.x < {digits}9 RETURN a WITHIN 1 s")
    assert (finding.column, f"{MAX_NUMBER_CHARACTERS:,}" in finding.message) == (25, True)


def test_a_group_of_a_number_with_5000_digits():
    finding = query_finding("PATTERN SEQ(A^" + "9" * 5000 + " a, B b) AGG COUNT(*) WITHIN 1 s")
    assert finding.column == 15
    assert len(finding.message) < 200


DEEP = [
    "(" * 40 + "a.x" + " + 1" * 150 + ")" * 40 + " > 1",
    "NOT (" * 45 + "NOT " * 45 + "a.x > 1" + ")" * 45,
    "".join("(a.x" + " + 1" * 50 + " + " for _ in range(45)) + "1" + ")" * 45 + " > 1",
    "".join("NOT " * 45 + "(" for _ in range(45)) + "a.x > 1" + ")" * 45,
    "a.x > " + "- " * 190 + "(" + "- " * 190 + "a.x)",
]


@pytest.mark.parametrize("condition", DEEP)
def test_deep_conditions_are_taken_or_refused_with_a_place(condition):
    """Brackets and operators add up: 45 brackets of 50 operators are 2,250 deep."""
    from optimizer.explain.rewriting import explain_workload

    document = {
        "stream": {"time": "ts", "type": "kind"},
        "queries": [f"PATTERN A a WHERE {condition} RETURN a WITHIN 1 s"],
    }
    try:
        bound = load_bound(document)
    except WorkloadError as error:
        (finding,) = error.diagnostics
        assert f"{MAX_DEPTH}" in finding.message
        assert finding.column > 18
        assert finding.hint
    else:
        assert explain_workload(bound)


def test_a_condition_as_deep_as_they_may_be_is_taken():
    def where(operators):
        return "PATTERN A a WHERE a.x" + " + 1" * operators + " > 1 RETURN a WITHIN 1 s"

    from optimizer.explain.rewriting import explain_workload

    document = {"stream": {"time": "ts", "type": "kind"}, "queries": [where(MAX_DEPTH - 2)]}
    assert explain_workload(load_bound(document))
    assert str(MAX_DEPTH) in query_finding(where(MAX_DEPTH - 1)).message


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, B b) AGG " + ", ".join(["COUNT(*)"] * (MAX_LISTED + 1)) + " WITHIN 1 s",
        "PATTERN A a RETURN " + ", ".join(["a"] * (MAX_LISTED + 1)) + " WITHIN 1 s",
        "PATTERN A a WHERE [" + ", ".join(["x"] * (MAX_LISTED + 1)) + "] RETURN a WITHIN 1 s",
        "PATTERN A a PARTITION BY " + ", ".join(["x"] * (MAX_LISTED + 1)) + " RETURN a WITHIN 1 s",
    ],
)
def test_lists_have_an_end(text):
    assert f"more than {MAX_LISTED:,}" in query_finding(text).message


@pytest.mark.parametrize(
    "value",
    [
        "!!timestamp '   '",
        "!!timestamp x",
        "!!int x",
        "!!int ''",
        "!!int '-'",
        "!!float x",
        "!!float ''",
        "!!float ':'",
        "!!bool maybe",
        "!!null x",
        "!!binary ééé",
        "!!binary '='",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!python/object:os.system x",
        "!foo bar",
        "0b_",
        "0x_",
        "0x" + "f" * 6000,
        "9" * 6000,
        "1" + "_" * 6000,
        "&a [*a]",
        "*unknown",
        "{<<: 3}",
        "{<<: [1]}",
        "{? [a] : b}",
        "{? {a: b} : c}",
    ],
)
def test_odd_values_in_yaml_are_said_with_their_line(value):
    finding = document_finding(STREAM + QUERIES + "name: " + value + "\n")
    assert finding.file_line == 3
    assert len(finding.message) < 300


@pytest.mark.parametrize("value", ["2024-13-45", "2024-01-01T25:00:00Z", "2024-01-01", "=", "<<"])
def test_what_looks_like_a_date_is_a_text(value):
    workload, findings = parse_document(STREAM + QUERIES + "name: " + value + "\n")
    assert (workload.name, findings) == (value, [])


def test_keys_of_maps_are_texts():
    text = STREAM + QUERIES + "statistics: {rates: {on: 1.5, 007: 2, ~: 3, 2024-01-01: 4}}\n"
    workload, _ = parse_document(text)
    assert workload.statistics.rates == {"on": 1.5, "007": 2, "~": 3, "2024-01-01": 4}


def test_aliases_and_merges_of_yaml_are_taken():
    workload, findings = parse_document(
        "stream: {time: ts, type: kind}\n"
        "queries: [&q 'QUERY a PATTERN A a RETURN a WITHIN 1 s']\n"
        "statistics:\n"
        "  keys:\n"
        "    user: &many {cardinality: 50, heaviest: 0.5}\n"
        "    item: *many\n"
        "    shop: {<<: *many, cardinality: 3}\n"
    )
    assert findings == []
    keys = workload.statistics.keys
    assert keys["user"] == keys["item"]
    assert (keys["shop"].cardinality, keys["shop"].heaviest) == (3, 0.5)


@pytest.mark.parametrize(
    "deep",
    [
        "[" * 900 + "]" * 900,
        "[" * 100_000,
        "{a: " * 900 + "1" + "}" * 900,
        "{a: " * 50_000,
        "- " * 30_000 + "x",
        "[" * (MAX_DOCUMENT_DEPTH + 1) + "]" * (MAX_DOCUMENT_DEPTH + 1),
    ],
)
def test_deep_yaml(deep):
    finding = document_finding(STREAM + QUERIES + "name:\n  " + deep + "\n")
    assert f"deeper than {MAX_DOCUMENT_DEPTH} levels" in finding.message
    assert finding.file_line == 4


def test_keys_that_are_no_texts_are_refused_however_deep():
    assert "a key of a map" in document_finding("? " * 30_000 + "x").message


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a": ' * 50_000, "[" * 50 + "]" * 50])
def test_deep_json(tmp_path, deep):
    path = tmp_path / "w.json"
    path.write_text('{"stream": 1,\n"queries": ' + deep + "}")
    _, (finding,) = read_workload(path)
    assert f"deeper than {MAX_DOCUMENT_DEPTH} levels" in finding.message
    assert (finding.file_line, bool(finding.hint)) == (2, True)


def test_brackets_inside_texts_of_json_are_not_nesting(tmp_path):
    path = tmp_path / "w.json"
    query = 'QUERY "[[[[[[[[[[[[[[[[[[[[[[[[[[" PATTERN A a RETURN a WITHIN 1 s'
    path.write_text(json.dumps({"stream": {"time": "t", "type": "k"}, "queries": [query]}))
    assert read_workload(path)[1] == []


def test_a_number_of_json_with_5000_digits(tmp_path):
    path = tmp_path / "w.json"
    path.write_text('{"stream": 1,\n "name": ' + "9" * 5000 + "}")
    _, (finding,) = read_workload(path)
    assert f"{MAX_NUMBER_CHARACTERS:,}" in finding.message
    assert finding.hint


def test_a_billion_laughs():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    finding = document_finding("\n".join(lines))
    assert f"{MAX_DOCUMENT_VALUES:,}" in finding.message
    assert finding.file_line == 5  # a4, of 10^5 values and more


def test_a_billion_laughs_of_merges():
    lines = ["a0: &a0 {a: 1, b: 2}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    assert f"{MAX_DOCUMENT_VALUES:,}" in document_finding("\n".join(lines)).message


def test_a_document_that_is_too_long(tmp_path):
    path = tmp_path / "w.yaml"
    with path.open("wb") as file:
        file.truncate(10 * MAX_DOCUMENT_CHARACTERS)
    _, (finding,) = read_workload(path)
    assert f"{MAX_DOCUMENT_CHARACTERS:,}" in finding.message
    assert finding.hint


def nested(depth):
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return value


def cyclic():
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: nested(100_000),
        cyclic,
        lambda: 10**5000,
        lambda: {10**5000: 1},
        lambda: "\ud800",
        lambda: {"\udfff": 1},
        lambda: {"x": ["\udead"]},
    ],
)
def test_documents_of_a_program_have_the_same_limits(make):
    document = {"stream": {"time": "ts", "type": "kind"}, "queries": ["x"], "name": make()}
    _, (finding,) = read_workload(document)
    assert finding.hint
    assert str(finding.render()).encode()


def test_text_that_utf8_cannot_say(tmp_path):
    path = tmp_path / "w.json"
    path.write_text('{"stream": {"time": "t", "type": "k"},\n "queries": ["QUERY \\"\\ud800\\""]}')
    _, (finding,) = read_workload(path)
    assert "surrogate" in finding.message
    assert finding.render().encode()


@pytest.mark.parametrize("odd", ["\0", "\x1b[31m", "\x7f"])
def test_control_characters_are_said_with_their_line(odd):
    finding = document_finding(STREAM + QUERIES + f"name: a{odd}b\n")
    assert (finding.file_line, finding.column) == (3, 8)
    assert odd not in finding.render()


def test_the_page_of_the_language_names_the_limits():
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    section = page.partition("## Limits")[2]
    listed = {int(cell.replace(",", "")) for cell in re.findall(r"\| ([\d,]+) \|", section)}
    named = {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}
    del named["MAX_EXPONENT"]  # wider than what the page says of windows
    assert listed == set(named.values())


def test_suggestions_are_looked_for_only_so_often(monkeypatch):
    compared = []

    def count(name, known, alike=0.6):
        compared.append(name)

    monkeypatch.setattr(scope, "did_you_mean", count)
    pattern = ", ".join(f"Unknwon{n} a{n}" for n in range(100))
    document = {
        "stream": {"time": "ts", "types": [f"Unknown{n}" for n in range(10_000)], "type": "kind"},
        "queries": [f"PATTERN SEQ({pattern}) AGG COUNT(*) WITHIN 1 s"] * 30,
    }
    with pytest.raises(WorkloadError) as caught:
        load_bound(document)
    assert len(caught.value.diagnostics) == 3_000
    assert len(compared) <= binder.MAX_SUGGESTIONS + scope.MAX_SUGGESTIONS_OF_QUERY


def test_long_names_are_not_compared():
    assert did_you_mean("x" * 5_000, ["x" * 5_001]) is None
    assert did_you_mean("shop", ["x" * 5_000, "shops"]) == "did you mean 'shops'?"


@pytest.mark.parametrize("parse", [parse_condition, lambda text: parse_query(as_query(text))])
def test_a_text_that_would_be_too_long_when_printed_is_refused(
    parse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan keeps what is printed, and must be able to read it."""
    monkeypatch.setattr("workloads.parser.MAX_QUERY_CHARACTERS", 100_000)
    sums = [f"({'+'.join('1' * 100)}={n})" for n in range(450)]
    text = "(" + "AND".join(f"({'AND'.join(sums[i : i + 30])})" for i in range(0, 450, 30)) + ")"
    assert len(text) < 100_000
    with pytest.raises(
        QueryError, match=r"with all its spaces and brackets, is 1\S+ characters long"
    ):
        parse(text)


def as_query(condition: str) -> str:
    return f"PATTERN A a WHERE {condition} RETURN a WITHIN 1 s"
