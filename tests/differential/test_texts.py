"""Conditions on texts, lists and fields of structs: every engine gives what the reference gives."""

from __future__ import annotations

import json
import random
from collections import Counter

import pyarrow as pa
import pytest

from engines.input.event_table import column_kinds, from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.running import How, run_local
from workloads.errors import WorkloadError
from workloads.parser import parse_condition
from workloads.printing import print_expression

WORDS = ["PowerShell.exe", "powershell", "cmd.EXE", "C:\\Windows\\x", "Ünï%_", "", "10.1.2.3"]
WORDS += ["192.168.0.9", "fe80::1", "ab", "Abc_%", None, "12", "-3.5"]
LISTS = [None, [], ["ab", "Abc"], ["x", None], ["10.1.2.3"], ["powershell", "z"]]
SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "k": pa.string(),
        "x": pa.string(),
        "y": pa.string(),
        "n": pa.int64(),
        "args": pa.list_(pa.string()),
        "p": pa.struct({"name": pa.string(), "parent": pa.struct({"name": pa.string()})}),
        "d.e": pa.string(),
        "calls": pa.list_(pa.struct({"name": pa.string(), "size": pa.int64()})),
    }
)
OF_ONE = [
    "a.x LIKE '%e%'",
    "a.x ILIKE 'po%'",
    "a.x LIKE 'Ab__\\_%' OR a.x LIKE '' OR a.x LIKE '%\\%'",
    "a.x LIKE '%\\x' OR a.x LIKE 'C:\\%' OR a.x ILIKE '%\\windows\\%'",
    "a.x LIKE '%\\x'",
    "a.x NOT LIKE 'a%'",
    "a.x CONTAINS ANY ('ab', 'x')",
    "a.x CONTAINS ALL ('a', 'b') NOCASE",
    "a.x STARTS WITH 'C:\\'",
    "NOT a.x ENDS WITH '.exe' NOCASE",
    "a.x MATCHES '^[a-z]+$' NOCASE",
    "a.x IN CIDR ('10.0.0.0/8', 'fe80::/10')",
    "a.x NOT IN CIDR ('10.0.0.0/8')",
    "a.x = 'POWERSHELL' NOCASE",
    "a.x NOT IN ('AB', 'abc_%') NOCASE",
    "a.x < 'b' NOCASE",
    "a.x CONTAINS a.y",
    "length(a.x) > 4",
    "substring(a.x, 2, 3) = 'owe' OR substring(a.x, -1, 4) = 'ab'",
    "slice(a.x, -3) = 'ell' OR slice(a.x, 1, -1) = 'owe' OR slice(a.x, 0, 2) = 'ab'",
    "text(a.n) = '33' OR number(a.x) > 5",
    "a.args = 'ab'",
    "a.args != 'ab'",
    "NOT a.args = 'ab'",
    "a.args CONTAINS 'A' NOCASE",
    "a.args NOT LIKE 'a%'",
    "a.args IN ('x', 'z') OR a.args IS NULL",
    "lower(a.args) = 'abc' OR length(a.args) > 8",
    "a.p.name LIKE '%e%' AND a.p.parent.name IS NOT NULL",
    "a.d.e ILIKE 'ab%'",
    "concat(a.x, '|', a.n) LIKE '%l|3%' OR concat(a.y, 'b') = 'abb'",
    "lower(concat('P', a.y)) IN ('pab', 'ppowershell') OR concat(a.x, a.y) IS NULL",
    "slice(a.x, 0, length(a.x) - length(a.y)) CONTAINS a.y",
    "a.x STARTS WITH slice(a.y, 0, 1 - a.n) OR length(slice(a.x, a.n - 1)) > 9",
    "index_of(a.x, 'e') > 2 OR index_of(a.x, a.y, 1) >= 0 OR index_of(a.args, 'a') = 0",
    "between(a.x, 'o', 'e') = 'w' OR between(a.x, '', 'e', TRUE) ENDS WITH 'l'",
    "a.args ENDS WITH concat(slice(a.y, 1, a.n), '')",
    "any_entry(a.calls, a.calls.name LIKE '%e%' AND NOT a.calls.size > 1)",
    "NOT any_entry(a.calls, a.calls.name IS NULL OR a.calls.name = a.x AND a.calls.size = 1)",
    "any_entry(a.calls, NOT a.calls.name CONTAINS slice(a.x, 0, a.n))",
]
OF_TWO = [
    "a.x = b.y NOCASE",
    "a.x CONTAINS b.y",
    "a.x NOT CONTAINS b.y NOCASE",
    "b.x ENDS WITH a.y",
    "upper(a.x) = upper(b.x)",
    "a.args CONTAINS b.x",
    "a.p.parent.name = b.p.name",
    "b.args = a.x",
    "b.x ENDS WITH slice(a.x, 0, length(b.y) - 1)",
    "concat(a.x, b.y) CONTAINS 'bc' OR concat(a.n, '') = concat(b.n, '')",
    "any_entry(b.calls, b.calls.name CONTAINS slice(a.x, 0, 2) AND b.calls.size = 1)",
]


def table_of(seed: int, count: int = 40) -> pa.Table:
    draw = random.Random(seed)

    def event(i: int) -> dict[str, object]:
        word = lambda: draw.choice(WORDS)  # noqa: E731
        call = lambda: draw.choice([None, {"name": word(), "size": draw.choice([None, 1, 2])}])  # noqa: E731
        parent = draw.choice([None, {"name": word()}])
        return {
            "t": i // 2,
            "k": draw.choice("AB"),
            "x": word(),
            "y": word(),
            "n": draw.choice([1, 2, 33, None]),
            "args": draw.choice(LISTS),
            "p": draw.choice([None, {"name": word(), "parent": parent}]),
            "d.e": word(),
            "calls": draw.choice([None, [call() for _ in range(draw.randrange(4))]]),
        }

    return pa.Table.from_pylist([event(i) for i in range(count)], SCHEMA)


def queries() -> list[str]:
    found = ["QUERY e PATTERN E a RETURN a", "QUERY p PATTERN SEQ(A a, B b) PARTITION BY p.name"]
    found[0] += " WITHIN 1 s"
    found[1] += " RETURN a.t, b.p.parent.name WITHIN 6 s"
    found += ["QUERY w PATTERN SEQ(A a, B b) WHERE [p.parent.name] AGG COUNT(*) WITHIN 6 s"]
    for i, asked in enumerate(OF_ONE):
        found.append(f"QUERY s{i} PATTERN A a WHERE {asked} RETURN a.x, a.p.name, a WITHIN 1 s")
        found.append(f"QUERY c{i} PATTERN SEQ(A a, B b) WHERE {asked} AGG COUNT(*) WITHIN 6 s")
    for i, asked in enumerate(OF_ONE + OF_TWO):
        where = f"WHERE ({asked} OR b.n = 3)"
        found.append(f"QUERY d{i} PATTERN SEQ(A a, B+ b) {where} RETURN a.t, b WITHIN 3 s")
    for i, asked in enumerate(OF_TWO):
        found.append(f"QUERY m{i} PATTERN SEQ(A a, !B b, B c) WHERE {asked} RETURN a.t WITHIN 6 s")
        found.append(f"QUERY q{i} PATTERN SEQ(A a, B b) WHERE {asked} RETURN a.t, b WITHIN 6 s")
    return found


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())


@pytest.mark.parametrize("how", [How(), How(detection="stepwise", counting=False)])
def test_engines_agree_with_the_reference(how: How) -> None:
    types = {"E": "p.name ILIKE '%e%' AND NOT args = 'ab'"}
    stream = {"time": "t", "unit": "s", "type": "k", "types": types}
    table = table_of(7)
    bound = load_bound({"stream": stream, "queries": queries()}, column_kinds(table.schema))
    events = from_table(table, bound.stream)
    wanted, found = run_oracle(bound, events), run_local(bound, events, how=how)
    assert rows_of(found.matches) == rows_of(wanted.matches)
    assert rows_of(found.aggregates) == rows_of(wanted.aggregates)
    assert len({row["query"] for row in found.matches.to_pylist()}) > 60


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("number('2') = a.n", [2]),
        ("a.n < number('2')", [1]),
        ("substring('xabx', 2, 2) = a.x", [1]),
        ("number(slice('n12', 1, 2)) + 1 = a.n", [2]),
        ("slice('xcdx', 1, 3) IN ('cd', 'e') AND a.n > 1", [2]),
        ("lower(upper('ab')) = a.x", [1]),
        ("substring('yaby', 2, 2) STARTS WITH a.x", [1]),
        ("length(substring('yaby', 2)) = a.n + 1", [2]),
        ("'xby' CONTAINS a.x", [2]),
        ("'xy' CONTAINS 'y' AND a.n > 1", [2]),
        ("NOT 'xy' LIKE 'x_' OR a.n = 1", [1]),
    ],
)
def test_functions_of_texts_that_no_event_has(condition: str, found: list[int]) -> None:
    table = pa.table({"ts": [1, 2], "kind": ["A", "A"], "n": [1, 2], "x": ["ab", "b"]})
    text = f"PATTERN A a WHERE {condition} RETURN a.n WITHIN 1 s"
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    bound = load_bound({"name": "w", "stream": stream, "queries": [text]})
    events = from_table(table, bound.stream)
    for results in (run_local(bound, events), run_oracle(bound, events)):
        matches = map(json.loads, results.matches.column("match").to_pylist())
        assert [match["a"]["n"] for match in matches] == found


def test_columns_that_are_missing_are_null_where_that_is_asked_for() -> None:
    stream = {"time": "t", "unit": "s", "type": "k", "missing_columns": "ignore"}
    query = "QUERY q PATTERN A a WHERE a.nope IS NULL AND NOT a.p.no CONTAINS 'x' RETURN a.t"
    table = table_of(1)
    bound = load_bound({"stream": stream, "queries": [query + " WITHIN 1 s"]})
    events = from_table(table, bound.stream)
    assert run_local(bound, events).matches.num_rows == table.column("k").to_pylist().count("A")
    assert rows_of(run_local(bound, events).matches) == rows_of(run_oracle(bound, events).matches)


@pytest.mark.parametrize("condition", [c.replace("a.", "") for c in OF_ONE])
def test_conditions_print_as_they_are_read(condition: str) -> None:
    read = parse_condition(condition)
    assert parse_condition(print_expression(read)) == read


def test_words_of_conditions_are_names_elsewhere() -> None:
    query = "QUERY like PATTERN SEQ(contains matches, any nocase) WHERE matches.like LIKE 'x' "
    query += "AND NOT nocase.cidr > 4 AND nocase.starts STARTS WITH 'x' RETURN matches AS like"
    stream = {"time": "t", "type": "k"}
    assert (
        load_bound({"stream": stream, "queries": [query + " WITHIN 3 s"]}).queries[0].conditions
        == ()
    )


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("a.x MATCHES '(?=x)'", "no regular expression of RE2"),
        ("a.x IN CIDR ('10.0.0.0/99')", "no network of addresses"),
        ("a.x LIKE b.x", "takes a pattern in single quotes, not a field"),
        ("a.x CONTAINS 5", "CONTAINS takes texts"),
        ("a.x STARTS 'x'", "STARTS WITH"),
        ("a.n > 1 AND a.n LIKE '1%'", "LIKE takes a string, not a number"),
        ("substring(a.x, b.n) = 'x'", "substring takes whole numbers"),
        ("lower(a.x, 2) = 'x'", "lower takes one value"),
        ("between(a.x, 'b') = 'x'", "between takes 3 to 4 values"),
        ("index_of(a.x, 'b') = 'x'", "number cannot be compared with a string"),
        ("any_entry(a.x, 5)", "takes a list and a condition"),
    ],
)
def test_mistakes_are_said(condition: str, said: str) -> None:
    query = f"QUERY q PATTERN SEQ(A a, B b) WHERE {condition} RETURN a WITHIN 3 s"
    with pytest.raises(WorkloadError, match=said):
        load_bound({"stream": {"time": "t", "type": "k"}, "queries": [query]})
