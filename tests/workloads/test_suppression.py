"""`suppress` of a workload, an entry of rules and a rule is SUPPRESS in the queries it is for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.running import run_local
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.parser import parse_query
from workloads.printing import print_query
from workloads.workload import Workload, to_document

STREAM = {"time": "ts", "type": "kind", "sequence": "n", "attributes": {"x": "int"}}
MATCHES = "QUERY m PATTERN A a RETURN a.x WITHIN 1 ms -- the end"
TAKEN = [
    MATCHES,
    "PATTERN SEQ(A a, B b) WHERE a.x = 1 PARTITION BY x WITHIN 1 ms RETURN a",
    "PATTERN SEQ(A a, B b) RETURN a LIMIT 3 WITHIN 1 ms STRATEGY NEXT KEEP FIRST 3\n",
    'PATTERN SEQ(A a, B b) WITHIN 1 ms RETURN a.x AS "SUPPRESS"',
    "PATTERN SEQ(A a, B b) RETURN a STRATEGY LATEST UNTIL C c",
    "PATTERN A a WITHIN 3 EVENTS RETURN *",
]
LEFT = [
    "PATTERN A a AGG COUNT(*) WITHIN 1 ms",
    "PATTERN A a RETURN a SUPPRESS 3 ms WITHIN 1 ms",
    "PATTERN JOIN(A a WITHIN 1 ms, B b WITHIN 1 ms) RETURN a",
    "PATTERN SEQ(A a, B b) RETURN a WITHIN SESSION 1 ms",
    "PATTERN A a RETURN a.x INTO D WITHIN 1 ms",
    "FUNNEL SEQ(A a, B b) WITHIN 1 ms PARTITION BY x",
    "SELECT x FROM events MATCH_RECOGNIZE (PARTITION BY x ORDER BY ts, n MEASURES A.x AS x "
    "PATTERN (A B) DEFINE A AS kind = 'A')",
]
SIGMA: dict[str, Any] = {
    "title": "Odd",
    "logsource": {"product": "windows", "category": "any"},
    "detection": {"s": {"x": 1}, "condition": "s"},
}


def loaded(suppress: Any, queries: list[Any], **others: Any) -> Workload:
    document = {"name": "w", "stream": STREAM, "queries": queries, **others}
    return load_workload(document if suppress is None else {**document, "suppress": suppress})


@pytest.mark.parametrize("text", TAKEN)
def test_a_query_that_returns_matches_has_the_default_of_its_workload(text: str) -> None:
    (query,) = loaded("10 min", [text]).queries
    assert query.text == f"{text.rstrip()}\nSUPPRESS 10 min"
    assert replace(parse_query(query.text), name=query.name) == query
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize("text", LEFT)
def test_other_queries_and_those_that_say_it_are_left_as_they_are(text: str) -> None:
    assert loaded("10 min", [text]).queries == loaded(None, [text]).queries


def test_the_document_of_a_workload_gives_the_same_queries_back() -> None:
    workload = loaded("10 min", [*TAKEN, *LEFT])
    again = load_workload(to_document(workload))
    assert again.queries == workload.queries


def test_a_rule_goes_before_its_entry_and_that_before_the_workload() -> None:
    entries = [
        {"sigma": [SIGMA, {**SIGMA, "title": "Own", "suppress": "1 hour"}]},
        {"sigma": [{**SIGMA, "title": "Of entry"}], "suppress": "5 s"},
        {"sigma": [{**SIGMA, "title": "Never"}], "suppress": "none"},
        {
            "eql": [{"name": "eql", "query": "A where x == 1", "suppress": "2 day"}],
            "suppress": "1 s",
        },
    ]
    queries = loaded("10 min", [MATCHES], rules=entries).queries
    said = {
        q.name: next((w for w in q.text.splitlines() if w.startswith("SUPPRESS")), None)
        for q in queries
    }
    assert said == {
        "m": "SUPPRESS 10 min",
        "Odd": "SUPPRESS 10 min",
        "Own": "SUPPRESS 1 hour",
        "Of entry": "SUPPRESS 5 s",
        "Never": None,
        "eql": "SUPPRESS 2 day",
    }


def test_rules_among_queries_take_it_too() -> None:
    queries: list[Any] = [
        {"sigma": SIGMA, "suppress": "3 s"},
        {"name": "e", "eql": "A where x == 1", "suppress": "none"},
    ]
    found = loaded("10 min", queries).queries
    assert ["SUPPRESS 3 s" in q.text for q in found] == [True, False]
    assert "SUPPRESS" not in found[1].text


@pytest.mark.parametrize("wrong", [10, True, "10", "soon", "0 s", "-1 s", "3 events", "0.1 ns", ""])
def test_a_value_that_is_no_length_of_time_is_refused_with_a_remedy(wrong: Any) -> None:
    with pytest.raises(WorkloadError) as error:
        loaded(wrong, [MATCHES])
    (finding,) = error.value.diagnostics
    assert finding.message == f"'suppress' is {wrong!r}, not a length of time"
    assert finding.hint == "write an amount and a unit, such as 10 min, or none"


def test_the_place_of_a_wrong_value_is_said(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "stream: {time: ts, type: kind}\nsuppress: often\nqueries:\n"
        "- PATTERN A a RETURN a WITHIN 1 ms\nrules:\n- {eql: [], suppress: 7}\n"
    )
    with pytest.raises(WorkloadError) as error:
        load_workload(file)
    assert [d.file_line for d in error.value.diagnostics] == [2, 6]


def test_a_rule_with_a_wrong_value_is_listed_as_not_taken() -> None:
    wrong = {**SIGMA, "title": "Wrong", "suppress": "soon"}
    counted = {
        "title": "Many",
        "suppress": "1 min",
        "correlation": {
            "type": "event_count",
            "rules": ["odd"],
            "group-by": ["x"],
            "timespan": "1m",
            "condition": {"gte": 2},
        },
    }
    rules = [wrong, counted, {**SIGMA, "name": "odd"}, {**SIGMA, "title": "Right"}]
    workload = loaded("1 s", [MATCHES], rules=[{"sigma": rules}])
    assert [(rule.name, rule.reason) for rule in workload.refused] == [
        (
            "Wrong",
            "'suppress' is 'soon', not a length of time; write an amount and a unit, such as "
            "10 min, or none",
        ),
        (
            "Many",
            "it has 'suppress', which is for rules whose alerts are matches, not counts; write an "
            "amount and a unit, such as 10 min, or none",
        ),
    ]


def test_a_returned_name_that_suppress_has_is_an_error_of_its_query() -> None:
    text = "QUERY q PATTERN A a RETURN a.x AS suppressed WITHIN 1 ms"
    with pytest.raises(WorkloadError) as error:
        load_bound({"name": "w", "stream": STREAM, "suppress": "1 s", "queries": [text]})
    assert "query q" in str(error.value)
    assert "'suppressed' is what SUPPRESS returns" in str(error.value)


def test_alerts_of_a_rule_are_suppressed_by_every_engine() -> None:
    workload = load_bound(
        {
            "name": "w",
            "stream": {"time": "ts", "sequence": "n", "unit": "s"},
            "suppress": "10 s",
            "rules": [{"sigma": [SIGMA, {**SIGMA, "title": "All", "suppress": "none"}]}],
        }
    )
    times = [0, 3, 9, 10, 25, 26]
    table = pa.table({"ts": times, "n": list(range(6)), "x": [1, 1, 2, 1, 1, 1]})
    events = from_table(table, workload.stream)
    for result in (run_oracle(workload, events), run_local(workload, events)):
        found: dict[str, list[tuple[int, int | None]]] = {"Odd": [], "All": []}
        for row in result.matches.sort_by("time").to_pylist():
            found[row["query"]].append((row["time"], json.loads(row["match"]).get("suppressed")))
        assert found["Odd"] == [(0, 1), (10, 0), (25, 1)]
        assert found["All"] == [(time, None) for time in times if time != 9]
