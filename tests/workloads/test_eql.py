"""Queries in EQL: what each construct becomes, what it gives, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import bind
from tests.running import run_local
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.parser import parse_query
from workloads.workload import Workload, to_document

STREAM = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "n"}


def workload(*texts: str, **stream: Any) -> Workload:
    queries = [{"name": f"q{i}", "eql": text} for i, text in enumerate(texts)]
    return load_workload({"name": "w", "stream": STREAM | stream, "queries": queries})


def written(text: str) -> str:
    """A query in EQL as one of Sheaf; its text says all of it."""
    query = workload(text).queries[0]
    assert parse_query(query.text) == query
    return query.text


def condition(text: str) -> str:
    lines = written(f"p where {text}").splitlines()
    return next(line.removeprefix("WHERE ") for line in lines if line.startswith("WHERE"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x == "Ab"', "text(e1.x) = 'Ab'"),
        ('x = "a"', "text(e1.x) = 'a'"),
        ('x != "a"', "text(e1.x) != 'a'"),
        ("x == null", "e1.x IS NULL"),
        ("x != null", "e1.x IS NOT NULL"),
        ("x == true", "text(e1.x) = 'true'"),
        ("x", "text(e1.x) = 'true'"),
        ("7 <= x", "number(e1.x) >= 7"),
        ("x > -1.5", "number(e1.x) > -1.5"),
        ("x + 1 > y * 2", "number(e1.x) + 1 > number(e1.y) * 2"),
        ('x : "Ab"', "lower(text(e1.x)) IN ('ab')"),
        ('x : ("Ab", "C*")', "lower(text(e1.x)) STARTS WITH 'c' OR lower(text(e1.x)) IN ('ab')"),
        ("x : 7", "number(e1.x) IN (7)"),
        ('x like "*a"', "text(e1.x) ENDS WITH 'a'"),
        ('x like~ "*A*"', "lower(text(e1.x)) CONTAINS 'a'"),
        ('x like "a*b?c"', "text(e1.x) LIKE 'a%b_c'"),
        ('x like "*"', "text(e1.x) STARTS WITH ''"),
        ('x like "?_*a"', "text(e1.x) MATCHES '(?s)^._.*a$'"),
        ('x regex "a+"', "text(e1.x) MATCHES '(?s)^(?:a+)$'"),
        ('x regex~ ("a", "b")', "text(e1.x) MATCHES ANY ('(?si)^(?:a)$', '(?si)^(?:b)$')"),
        ('x in ("a", 1)', "text(e1.x) IN ('a') OR number(e1.x) IN (1)"),
        ('x in~ ("A")', "lower(text(e1.x)) IN ('a')"),
        ('x not in ("a")', "NOT text(e1.x) IN ('a')"),
        ('not x : "a"', "NOT lower(text(e1.x)) IN ('a')"),
        ('x == "a" and (y == 1 or not z == 2)', None),
        ('cidrMatch(x, "10.0.0.0/8", "::1/128")', "text(e1.x) IN CIDR ('10.0.0.0/8', '::1/128')"),
        ('startsWith~(x, "A")', "lower(text(e1.x)) STARTS WITH 'a'"),
        ("endsWith(x, y)", "text(e1.x) ENDS WITH text(e1.y)"),
        ('stringContains(x, "a")', "text(e1.x) CONTAINS 'a'"),
        ('wildcard(x, "a*")', "text(e1.x) STARTS WITH 'a'"),
        ('match~(x, "a+")', "text(e1.x) MATCHES '(?si)^(?:a+)$'"),
        ("length(x) > 3", "length(text(e1.x)) > 3"),
        ('substring(x, -4) == ".exe"', "slice(text(e1.x), -4) = '.exe'"),
        ('substring(x, 0, -1) == "a"', "slice(text(e1.x), 0, -1) = 'a'"),
        ("number(x) + 1 == 2", "number(e1.x) + 1 = 2"),
        ('string(x) == "1"', "text(e1.x) = '1'"),
        ('arrayContains(x, "a")', "text(e1.x) IN ('a')"),
        ("modulo(x, 2) == 0", "number(e1.x) % 2 = 0"),
        ("x / 2 == 1", "(number(e1.x) - number(e1.x) % 2) / 2 = 1"),
        ("x / 2.0 == 1", "number(e1.x) / 2.0 = 1"),
        ("x == +2", "number(e1.x) = 2"),
        ('x == ?"a\\b"', "text(e1.x) = 'a\\b'"),
        ("startsWith(x, y) == false", "NOT text(e1.x) STARTS WITH text(e1.y)"),
        ('?a.b == "x"', "text(e1.a.b) = 'x'"),
        ('`a-b` == "x"', "text(e1.\"a-b\") = 'x'"),
        (r'x == "a\\b\"\u0041"', "text(e1.x) = 'a\\b\"A'"),
        ('x == """a\\b"""', "text(e1.x) = 'a\\b'"),
        ('x /* one */ == "a" // two', "text(e1.x) = 'a'"),
        ('true and x == "a"', "text(e1.x) = 'a'"),
        ("1 == 2", "e1.ts IS NULL"),
        (
            '_arraysearch(s, $e, $e.x : "a*" or $e.y == true)',
            "lower(text(e1.s.x)) STARTS WITH 'a' OR text(e1.s.y) = 'true'",
        ),
        (
            '_arraysearch(s, $e, $e.x : "a*" and not $e.y == true)',
            "any_entry(e1.s, lower(text(e1.s.x)) STARTS WITH 'a' AND NOT text(e1.s.y) = 'true')",
        ),
        ("_arraysearch(s, $e, endswith($e.x, y))", "text(e1.s.x) ENDS WITH text(e1.y)"),
        (
            'substring(x, 0, length(y) - 1) == "a"',
            "slice(text(e1.x), 0, length(text(e1.y)) - 1) = 'a'",
        ),
        (
            'stringContains~(x, concat("A", y))',
            "lower(text(e1.x)) CONTAINS lower(concat('A', e1.y))",
        ),
        ('indexOf(x, "b", 2) > 3', "index_of(text(e1.x), 'b', 2) > 3"),
        ('between(x, "(", ")", true) == "a"', "between(text(e1.x), '(', ')', TRUE) = 'a'"),
        ('not _arraysearch(s, $e, $e == "a")', "NOT text(e1.s) = 'a'"),
    ],
)
def test_conditions_are_read_as_elastic_documents_them(text: str, said: str | None) -> None:
    found = condition(text)
    if said is not None:
        assert found == said


def test_a_sequence_is_a_query_of_the_latest_partial_matches() -> None:
    text = written(
        'sequence by host with maxspan=90s [p where x == "a"] by k with runs=2 '
        "![q where true] by l [any where true] by m until [p where x == 1] by k"
    )
    assert text.splitlines() == [
        "QUERY q0",
        "PATTERN SEQ(p e1, p e2, !q e3, any e4)",
        "WHERE text(e1.x) = 'a' AND text(e2.x) = 'a' AND number(halt.x) = 1",
        "STRATEGY LATEST",
        "UNTIL p halt",
        "PARTITION BY host, (e1.k, e2.k, e3.l, e4.m, halt.k) AS k",
        "RETURN [e1, e2, e4] AS events",
        "WITHIN 90 s INCLUSIVE",
    ]


def test_a_step_reads_another_by_its_name() -> None:
    text = written(
        "sequence with maxspan=1m [p where x == 1] by k as first "
        "[q where endsWith~(y, first.a.b) and not z == first.z] by l"
    )
    assert text.splitlines()[1:4] == [
        "PATTERN SEQ(p e1, q e2)",
        "WHERE number(e1.x) = 1 AND lower(text(e2.y)) ENDS WITH lower(text(e1.a.b))"
        " AND NOT e2.z = e1.z",
        "STRATEGY LATEST",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sample [p where true] [q where true]", "a sample needs a key"),
        ("sample by x [p where true] [q where true] | head 1", "a sample takes no pipes"),
        ("sample by x [p where true] ![q where true]", "the events of a sample are single ones"),
        ("p where true | unique x", "the pipe '| unique' is not taken"),
        ("sequence [p where true] by x * 2 [q where true] by y", "a key is a field"),
        ("sequence [p where true] by x * 2 [q where true] by y * 3", "a key is a field"),
        ("sequence [p where true] by x [q where true]", "different numbers of keys"),
        ("sequence [p where true] ![q where true]", "needs 'with maxspan'"),
        ("sequence with maxspan=1s ![q where true]", "all its events are missing ones"),
        ("p where true | head x", "'| head' takes a whole number from 1"),
        ("sequence with maxspan=0s [q where true]", "a maxspan of nothing"),
        ("sequence [p where true] with runs=0 [q where true]", "with runs=0"),
        ("sequence ![p where true] as a [q where x == a.x]", "a step of one event that is there"),
        ("p where _arraysearch(s, $e, true)", "asks nothing of an entry"),
        ('p where between~(x, "a", "b") == "b"', "between~ is not taken"),
        ("p where descendant of [q where true]", "line 1, column 9: only the Elastic Endpoint's"),
        ('p where x == "child of [" and /*\n*/ not child of [q where true]', "line 2, column 8: "),
        ('p where x regex "a(?=b)"', "no regular expression of RE2"),
        ('p where cidrMatch(x, "ten")', "is no network of addresses"),
        ('p where length(x, 1) == "a"', "length takes 1 to 1 arguments"),
        ("p where $e.x == 1", "$e.x stands outside of a search in a list"),
        ('p where "a"', "a value stands where a condition is asked for"),
        ("p where x == ", "the query ends too early"),
        ("p where x == ]", "line 1, column 14: unexpected"),
        ("p where x # 1", "line 1, column 11: unexpected character '#'"),
    ],
)
def test_what_is_not_taken_is_said_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        workload(text)
    assert reason in str(refused.value)
    assert "query q0" in str(refused.value)


# --- results --------------------------------------------------------------------------------------

EVENTS = [
    {"ts": 0, "n": 1, "kind": "p", "k": "a", "names": ["a", "b"], "s": [{"x": "Q"}]},
    {"ts": 0, "n": 2, "kind": "q", "k": "a", "names": None, "s": None},
    {"ts": 500, "n": 3, "kind": "p", "k": "b", "names": ["b", "b"], "s": [{"x": "r"}, {"x": "t"}]},
    {"ts": 1000, "n": 4, "kind": "q", "k": "b", "names": [], "s": []},
    {"ts": 1500, "n": 5, "kind": "q", "k": "b", "names": ["c"], "s": None},
    {"ts": 1501, "n": 6, "kind": "q", "k": "a", "names": None, "s": [{"x": None}]},
]


def found(text: str) -> list[list[int]]:
    """The numbers of the events of each match, which both engines find."""
    table = pa.Table.from_pylist(EVENTS)
    bound = bind(workload(text))
    events = from_table(table, bound.stream)
    matches = [
        sorted(
            [event["n"] for event in json.loads(match)["events"]]
            for match in run(bound, events).matches.column("match").to_pylist()
        )
        for run in (run_oracle, run_local)
    ]
    assert matches[0] == matches[1]
    return matches[0]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("q where k == null", []),
        ('any where k == "a"', [[1], [2], [6]]),
        ("sequence by k [p where true] [q where true]", [[1, 2], [3, 4]]),
        ("sequence [p where true] [q where n > 2]", [[3, 4]]),
        ("sequence by ?none, k [p where true] [q where true]", [[1, 2], [3, 4]]),
        ("sequence by none, k [p where true] [q where true]", []),
        ("sequence [p where ?none == null] by ?none [q where n == 2] by ?nothing", [[1, 2]]),
        ("sequence [p where true] by n * 2 + 1 [q where true] by n * 2 + 1", []),
        ("sequence [p where n == 1] by ts - 1 [q where n == 2] by ts - 1", [[1, 2]]),
        ('sequence with maxspan=1s [p where k == "b"] [q where n == 5]', [[3, 5]]),
        ('sequence with maxspan=999ms [p where k == "b"] [q where n == 5]', []),
        ("sequence by k [p where true] [q where true] with runs=2", [[1, 2, 6], [3, 4, 5]]),
        ("sequence by k [p where true] ![q where n == 2] [q where n != 2]", [[3, 4]]),
        ("sequence [p where true] by names [q where true] by k", [[1, 2], [3, 4]]),
        ("sequence by k [p where true] [q where n > 2] until [q where n == 2]", [[3, 4]]),
        ("sequence by k [p where true] [q where true] | head 1", [[1, 2]]),
        ("sequence [p where true] by k [q where true] by k | tail 1", [[3, 4]]),
        ("any where true | head 4 | tail 2", [[3], [4]]),
        ("sample by k [q where true] [p where true]", [[2, 1], [4, 3]]),
        ("sample by k [any where true] [any where true] [q where n > 4]", [[1, 2, 6], [3, 4, 5]]),
        ("sample [p where true] by names [q where true] by k", [[1, 2], [1, 4]]),
        ('any where s.x : "q"', [[1]]),
        ('p where _arraysearch(s, $e, $e.x : "T")', [[3]]),
        ('p where not _arraysearch(s, $e, $e.x : "T")', [[1]]),
        ("any where arrayContains(names, k)", None),
        ('p where names : "A"', [[1]]),
        ("any where substring(k, -1) == k and length(k) == 1 and n % 2 == 0", [[2], [4], [6]]),
    ],
)
def test_results_are_those_that_elastic_documents(
    text: str, events: list[list[int]] | None
) -> None:
    if events is not None:
        assert found(text) == events


TYPED = [
    {
        "ts": i,
        "n": i,
        "kind": "p",
        "text": str(i),
        "number": i,
        "truth": i == 1,
        "list": ["a", str(i)],
    }
    for i in range(4)
]


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ('number == "3"', [3]),
        ('number : "3" or number in~ ("2")', [2, 3]),
        ('number like "3*" or startsWith(number, "1")', [1, 3]),
        ('number regex "[0-1]" and length(number) == 1', [0, 1]),
        ("text == 3 or text in (2)", [2, 3]),
        ("text + 1 == 4", [3]),
        ("number / 2 == 1", [2, 3]),  # of whole numbers a whole number
        ("number / 2.0 == 1.5", [3]),
        ('truth == "true"', [1]),
        ("truth and not truth == false", [1]),
        ("truth in (false)", [0, 2, 3]),
        ("truth == 1", []),
        ("text == true", []),
        ('list == 3 and list : "A"', [3]),
        ('cidrMatch(number, "10.0.0.0/8")', []),
    ],
)
def test_fields_are_compared_whatever_the_type_of_their_column(
    condition: str, numbers: list[int]
) -> None:
    bound = bind(workload(f"p where {condition}"), {})
    for run in (run_oracle, run_local):
        rows = run(bound, from_table(pa.Table.from_pylist(TYPED), bound.stream)).matches
        found = [json.loads(match)["events"][0]["n"] for match in rows.column("match").to_pylist()]
        assert sorted(found) == numbers


# --- files ----------------------------------------------------------------------------------------


def test_rules_come_from_files_of_each_sort(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(
        "- {key: one, query: process where x == 1}\n"
        "- {id: '2', name: Two, severity: high, tags: [a, b], query: 'any where true'}\n"
        "- {name: broken, query: 'process where'}\n"
    )
    (tmp_path / "three.toml").write_text(
        "[rule]\nrule_id = 'three'\nlanguage = 'eql'\nquery = 'file where true'\n"
    )
    (tmp_path / "kuery.toml").write_text("[rule]\nname='k'\nlanguage = 'kuery'\nquery = 'a:b'\n")
    (tmp_path / "four.eql").write_text("registry where true\n")
    file = tmp_path / "w.yaml"
    paths = ["list.yaml", "*.toml", "four.eql"]
    document = {"name": "w", "stream": {"time": "ts", "sequence": "n"}, "rules": [{"eql": paths}]}
    file.write_text(json.dumps(document))
    loaded = load_workload(file)
    assert [query.name for query in loaded.queries] == ["one", "2", "three", "four"]
    assert "'high' AS level" in loaded.queries[1].text
    reasons = [(rule.name, rule.reason) for rule in loaded.refused]
    assert ("broken", "the query ends too early") in reasons
    assert ("k", "it is written in kuery") in reasons
    again = load_workload(to_document(loaded))
    assert [query.text for query in again.queries] == [query.text for query in loaded.queries]


def test_categories_are_a_column_of_their_own_where_the_stream_has_no_types() -> None:
    document: dict[str, Any] = {"name": "w", "stream": {"time": "ts", "sequence": "n"}}
    rules = [{"eql": [{"name": "q", "query": "process where true"}]}]
    plain = load_workload(document | {"rules": rules})
    assert "event.category" in to_document(plain)["stream"]["types"]["process"]
    named = load_workload(document | {"rules": [rules[0] | {"category": "what"}]})
    assert to_document(named)["stream"]["types"]["process"] == "what = 'process'"


def test_an_unknown_key_of_an_entry_is_an_error() -> None:
    with pytest.raises(WorkloadError, match="'categry' is no key of an entry of EQL queries"):
        load_workload({"stream": STREAM, "rules": [{"eql": [], "categry": "x"}]})
