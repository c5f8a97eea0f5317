"""Sigma rules as queries: conditions, log sources, correlations, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from api.explaining.alerts import alert_rules
from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import bind
from tests.running import run_local
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.parser import parse_query
from workloads.syntax import KeyLabel
from workloads.workload import Workload, to_document

LOGSOURCES = {
    "product": "windows",
    "categories": {"start": [{"kind": "p", "code": [1, 2]}, {"kind": "q"}]},
    "services": {"audit": ["a", "b"]},
    "service_column": "kind",
    "unrouted": ["unseen"],
    "fields": {"Image": "image"},
    "keywords": ["image", "line"],
}


def rule(detection: dict[str, Any], category: str = "start", **others: Any) -> dict[str, Any]:
    return {
        "title": "A test",
        "logsource": {"product": "windows", "category": category},
        "detection": detection,
        **others,
    }


def workload(*rules: dict[str, Any]) -> Workload:
    return load_workload(
        {
            "name": "w",
            "stream": {"time": "ts", "sequence": "n"},
            "rules": [{"sigma": list(rules), "logsources": LOGSOURCES}],
        }
    )


def condition(detection: dict[str, Any]) -> str:
    query = workload(rule(detection)).queries[0]
    lines = query.text.splitlines()
    assert parse_query(query.text) == query
    return next(line.removeprefix("WHERE ") for line in lines if line.startswith("WHERE"))


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"Image": "C:\\A.exe"}, r"lower(text(event.image)) = 'c:\a.exe'"),
        ({"x": ["a", "B"]}, "lower(text(event.x)) IN ('a', 'b')"),
        ({"x|endswith": "\\a"}, r"lower(text(event.x)) ENDS WITH '\a'"),
        ({"x|contains": ["p", "q"]}, "lower(text(event.x)) CONTAINS ANY ('p', 'q')"),
        (
            {"x|contains|all": ["p", "q"]},
            "lower(text(event.x)) CONTAINS 'p' AND lower(text(event.x)) CONTAINS 'q'",
        ),
        ({"x|startswith|cased": "Ab"}, "text(event.x) STARTS WITH 'Ab'"),
        ({"x": "a*b?c"}, "lower(text(event.x)) LIKE 'a%b_c'"),
        ({"x": "a*100%"}, r"lower(text(event.x)) MATCHES '(?s)\Aa.*100%\z'"),
        ({"x": "*"}, "lower(text(event.x)) IS NOT NULL"),
        ({"x": ""}, "lower(text(event.x)) = ''"),
        ({"x": None}, "event.x IS NULL"),
        ({"x|exists": True}, "event.x IS NOT NULL"),
        ({"x|exists": False}, "event.x IS NULL"),
        ({"x": 7}, "text(event.x) = '7'"),
        ({"x|gte": 7}, "number(event.x) >= 7"),
        ({"x|re": "^a[0-9]+"}, "text(event.x) MATCHES '^a[0-9]+'"),
        ({"x|re|i|m": "^a"}, "text(event.x) MATCHES '(?im)^a'"),
        ({"x|re": r"a\Z\\Z\u0041"}, r"text(event.x) MATCHES 'a\z\\Z\x{0041}'"),
        ({"x|cidr": "10.0.0.0/8"}, "text(event.x) IN CIDR ('10.0.0.0/8')"),
        ({"x|fieldref": "y"}, "lower(text(event.x)) = lower(text(event.y))"),
        ({"x|windash|contains": " -e "}, None),
        ({"x|base64offset|contains": "foo"}, None),
    ],
)
def test_a_selection_is_said_as_a_condition(selection: dict[str, Any], said: str | None) -> None:
    found = condition({"s": selection, "condition": "s"})
    if said is None:  # several patterns, whose spelling is pySigma's
        assert found.startswith("lower(text(event.x)) CONTAINS ANY (")
    else:
        assert found == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1 of s*", "text(event.x) = '1' OR text(event.x) = '2'"),
        ("all of them", None),
        ("s1 and not s2", "text(event.x) = '1' AND NOT text(event.x) = '2'"),
        ("s1 AND NOT s2", "text(event.x) = '1' AND NOT text(event.x) = '2'"),
        ("ALL OF THEM", None),
    ],
)
def test_conditions_join_selections(written: str, said: str | None) -> None:
    found = condition({"s1": {"x": 1}, "s2": {"x": 2}, "condition": written})
    assert found == (said or "text(event.x) = '1' AND text(event.x) = '2'").replace(
        "text(event.x) = '1' OR text(event.x) = '2'", "text(event.x) IN ('1', '2')"
    )


ID = "11111111-2222-3333-4444-555555555550"
EVENTS: list[dict[str, Any]] = [
    {"ts": 1, "n": 1, "kind": "p", "code": 1, "image": "C:\\Evil.EXE", "line": None},
    {"ts": 2, "n": 2, "kind": "p", "code": 3, "image": "C:\\evil.exe", "line": None},
    {"ts": 3, "n": 3, "kind": "q", "code": 9, "image": None, "line": "run EVIL.exe"},
    {"ts": 4, "n": 4, "kind": "a", "code": 1, "image": "c:\\evil.exe", "line": "x"},
]


def oracle_rows(given: Workload) -> list[dict[str, Any]]:
    events = from_table(pa.Table.from_pylist(EVENTS), given.stream)
    rows = run_oracle(bind(given), events).matches.to_pylist()
    return [{**row, "match": json.loads(row["match"])} for row in rows]


def alerts(*rules: dict[str, Any]) -> list[int]:
    rows = oracle_rows(workload(*rules))
    return [row["match"]["event"]["n"] for row in rows]


def test_a_rule_sees_the_events_of_its_log_source() -> None:
    evil = {"s": {"Image|endswith": "\\evil.exe"}, "condition": "s"}
    assert alerts(rule(evil)) == [1]
    assert alerts(rule(evil, category="unseen")) == []
    audit = {**rule(evil), "logsource": {"product": "windows", "service": "audit"}}
    assert alerts(audit) == [4]


def test_not_holds_where_a_field_is_null() -> None:
    assert alerts(rule({"s": {"Image": "x"}, "condition": "not s"})) == [1, 3]


def test_keywords_are_looked_for_in_the_columns_that_are_listed() -> None:
    assert alerts(rule({"k": ["evil"], "condition": "k"})) == [1, 3]


def test_keywords_without_a_list_are_looked_for_where_other_rules_look() -> None:
    sources = {key: value for key, value in LOGSOURCES.items() if key != "keywords"}
    given = [
        rule({"k": ["evil", "odd"], "condition": "k"}, title="anywhere", fields=["line"]),
        rule({"s": {"Image|endswith": "x.exe"}, "condition": "s"}, title="image"),
        rule({"s": {"line": "none", "code": 9}, "condition": "s"}, title="line"),
    ]
    document = {"name": "w", "stream": {"time": "ts", "sequence": "n"}}
    found = load_workload({**document, "rules": [{"sigma": given, "logsources": sources}]})
    assert not found.refused
    assert [query.name for query in found.queries] == ["anywhere", "image", "line"]
    (row, *_) = [r for r in oracle_rows(found) if r["query"] == "anywhere"]
    assert set(row["match"]["event"]) == {"n", "line"}
    listed = workload(rule({"k": ["evil", "odd"], "condition": "k"}, title="anywhere"))
    assert [r["match"]["event"]["n"] for r in oracle_rows(found) if r["query"] == "anywhere"] == [
        r["match"]["event"]["n"] for r in oracle_rows(listed)
    ]
    alone = load_workload({**document, "rules": [{"sigma": [given[0], given[2]]}]})
    assert len(alone.queries) == 2
    only = {"sigma": given[:1], "logsources": sources}
    with pytest.raises(WorkloadError, match="keywords"):
        load_workload({**document, "rules": [only]})


def test_of_a_field_that_is_a_list_another_value_may_meet_each_condition() -> None:
    given = workload(rule({"s": {"line|contains|all": ["vil", "ru"]}, "condition": "s"}, "start"))
    listed = [{**event, "line": ["run", "EVIL"]} for event in EVENTS]
    for run in (run_oracle, run_local):
        rows = run(bind(given), from_table(pa.Table.from_pylist(listed), given.stream)).matches
        assert rows.num_rows == 2


def test_documents_of_a_file_may_say_what_holds_for_those_behind_them() -> None:
    shared = {**rule({"condition": "s"}), "action": "global"}
    one, two = ({"id": ID[:-1] + n, "detection": {"s": {"code": int(n)}}} for n in "12")
    again = {"action": "repeat", "id": ID[:-1] + "3", "detection": {"s": {"code": 3}}}
    reset = {"action": "reset"}
    alone = rule({"s": {"code": 4}, "condition": "s"}, id=ID[:-1] + "4")
    given = workload(shared, one, two, again, reset, alone)
    assert given.refused == ()
    asked = {str(query.name)[-1]: query.text.splitlines()[2] for query in given.queries}
    assert asked == {n: f"WHERE text(event.code) = '{n}'" for n in "1234"}


def test_filters_hold_for_the_rules_that_they_name() -> None:
    detection = {"s": {"Image|endswith": "evil.exe"}, "condition": "s"}
    given = [rule(detection, id=ID, name="evil"), rule(detection, name="other")]
    exclude = {
        "title": "not those of code 1",
        "logsource": {"product": "windows", "category": "start"},
        "filter": {"rules": ["evil"], "known": {"code": 1}, "condition": "not known"},
    }
    found = workload(*given, exclude)
    assert [str(query.name) for query in found.queries] == [ID, "other"]
    kept, other = (query.text.splitlines()[2] for query in found.queries)
    assert kept == f"{other} AND NOT text(event.code) = '1'"
    broken = workload(*given, {**exclude, "filter": {"rules": "any"}}).refused
    assert [one.format for one in broken] == ["sigma"]


def test_an_alert_says_which_rule_it_is_of() -> None:
    given = rule(
        {"s": {"code": 1}, "condition": "s"},
        id="11111111-2222-4333-8444-555555555555",
        level="high",
        tags=["attack.t1059"],
        fields=["Image"],
    )
    (row,) = oracle_rows(workload(given))
    assert row["query"] == given["id"]
    assert row["match"] == {
        "event": {"n": 1, "code": 1, "image": "C:\\Evil.EXE"},
        "rule": given["id"],
        "title": "A test",
        "level": "high",
        "tags": "attack.t1059",
    }


def test_a_rule_that_is_not_taken_is_listed_and_the_others_go_on(tmp_path: Path) -> None:
    good = rule({"s": {"x": 1}, "condition": "s"})
    refused = [
        rule({"s": {"x|re": "(?=a)b"}, "condition": "s"}, title="look ahead"),
        rule({"s": {"x|expand": "%list%"}, "condition": "s"}, title="placeholder"),
        rule({"s": {"x": 1}, "condition": "s"}, category="other", title="no route"),
        rule({"s": {"x": 1}, "condition": "s and"}, title="no condition"),
        {"title": "no rule"},
    ]
    found = workload(good, *refused)
    assert len(found.queries) == 1
    assert [(r.name, bool(r.reason)) for r in found.refused] == [
        (each["title"], True) for each in refused
    ]
    assert found.refused[0].reason.startswith("no regular expression of RE2: ")
    assert "RE2 has no look-around" in found.refused[0].reason


def test_rules_are_read_from_folders_beside_the_workload(tmp_path: Path) -> None:
    rules = tmp_path / "rules" / "inner"
    rules.mkdir(parents=True)
    text = "title: One\nlogsource: {product: windows}\ndetection: {s: {x: 1}, condition: s}\n"
    (rules / "one.yml").write_text(text)
    (rules / "broken.yml").write_text("title: [")
    (rules / "notes.txt").write_text("no rule")
    file = tmp_path / "w.yaml"
    file.write_text("stream: {time: ts}\nrules:\n- {sigma: rules/**}\n")
    found = load_workload(file)
    assert [query.name for query in found.queries] == ["One"]
    assert [Path(r.place).name for r in found.refused] == ["broken.yml"]
    assert load_workload(to_document(found)).queries == found.queries


def test_a_workload_that_is_no_file_reads_no_rules_from_paths() -> None:
    with pytest.raises(WorkloadError, match="give the rules themselves"):
        load_workload({"stream": {"time": "ts"}, "rules": [{"sigma": "/etc/**"}]})


def test_a_rule_may_stand_among_queries() -> None:
    found = load_workload(
        {
            "stream": {"time": "ts", "type": "kind"},
            "queries": [
                "PATTERN A a RETURN a WITHIN 1 s",
                {"sigma": rule({"s": {"x": 1}, "condition": "s"})},
            ],
        }
    )
    assert [query.name for query in found.queries] == ["q1", "A test"]


def correlation(kind: str, rules: list[str], **others: Any) -> dict[str, Any]:
    inner = {"type": kind, "rules": rules, "timespan": "10s", **others}
    return {"title": "Together", "correlation": inner}


def test_correlations_are_queries_of_several_events() -> None:
    first = rule({"s": {"x": 1}, "condition": "s"}, name="one")
    second = rule({"s": {"x": 2}, "condition": "s"}, name="two")
    ordered = correlation("temporal_ordered", ["one", "two"], **{"group-by": ["user"]})
    (query,) = workload(first, second, ordered).queries
    assert query.text.splitlines() == [
        "QUERY Together",
        "PATTERN SEQ(windows_start event_1, windows_start event_2)",
        "WHERE text(event_1.x) = '1' AND text(event_2.x) = '2'",
        "STRATEGY NEXT",
        "PARTITION BY user",
        "RETURN event_1.n, event_1.user, event_2.n, event_2.user, 'Together' AS title",
        "WITHIN 10 s",
    ]
    counted = correlation("event_count", ["one"], condition={"gte": 3}, generate=True)
    both = workload(first, counted).queries
    assert [query.name for query in both] == ["one", "Together"]
    assert "AGG COUNT(*) HAVING COUNT(*) >= 3" in both[1].text

    aliased = correlation(
        "temporal",
        ["one", "two"],
        **{"group-by": ["ip"], "aliases": {"ip": {"one": "source", "two": "target"}}},
    )
    (query,) = workload(first, second, aliased).queries
    assert "PARTITION BY (event_1.source, event_2.target) AS ip" in query.text
    assert "AND(windows_start event_1, windows_start event_2)" in query.text


STEPS: list[dict[str, Any]] = [
    {"ts": 0, "n": 1, "x": 1, "user": "u", "ip": "p"},
    {"ts": 1, "n": 2, "x": 1, "user": "u", "ip": "q"},
    {"ts": 2, "n": 3, "x": 1, "user": "v", "ip": "p"},
    {"ts": 3, "n": 4, "x": 2, "user": "u", "ip": "u"},
    {"ts": 4, "n": 5, "x": 2, "user": "v", "ip": "q"},
    {"ts": 5, "n": 6, "x": 3, "user": "v", "ip": "v"},
]


def test_rows_of_counts_say_which_rule_they_are_of() -> None:
    one = rule({"s": {"kind": "p"}, "condition": "s"}, name="one")
    about = {"title": "It's many", "level": "high", "tags": ["attack.t1110"], "id": ID}
    count = correlation("event_count", ["one"], condition={"gte": 1}, **{"group-by": ["kind"]})
    given = workload(one, {**count, **about})
    assert "'It''s many' AS title" in given.queries[0].text
    rows = run_oracle(bind(given), from_table(pa.Table.from_pylist(EVENTS), given.stream))
    said = {"rule": ID, "title": "It's many", "level": "high", "tags": "attack.t1110"}
    keys = [json.loads(row["key"]) for row in rows.aggregates.to_pylist()]
    assert keys == [{"kind": "p", **said}]
    found = run_local(bind(given), from_table(pa.Table.from_pylist(EVENTS), given.stream))
    assert found.aggregates.column("key").to_pylist() == rows.aggregates.column("key").to_pylist()
    (alerts_of,) = alert_rules(given)["rules"]
    assert (alerts_of["title"], alerts_of["level"]) == ("It's many", "high")
    twice = replace(given.queries[0], key_labels=(KeyLabel("x", "kind"),))
    with pytest.raises(WorkloadError, match="two parts of the key are called 'kind'"):
        bind(replace(given, queries=(twice,)))


@pytest.mark.parametrize(
    ("condition", "grouped", "expected"),
    [
        ("one and two", ["user"], [[1, 4], [2, 4], [3, 5], [6]]),
        ("one and three and not two", ["user"], []),
        ("one and two and not three", ["user"], [[1, 4], [2, 4], [3, 5]]),  # it comes later
        ("two and (one or three)", ["user"], [[1, 4], [2, 4], [3, 5], [5, 6]]),
        ({"gte": 2}, ["user"], [[1, 4], [2, 4], [3, 5], [3, 6], [5, 6]]),
        ({"eq": 3}, ["user"], [[3, 5, 6]]),
        ({"gt": 2}, ["ip"], []),
    ],
)
def test_conditions_say_which_rules_occur_together(
    condition: Any, grouped: list[str], expected: list[list[int]]
) -> None:
    ones = [
        rule({"s": {"x": x}, "condition": "s"}, name=name)
        for x, name in enumerate(("one", "two", "three"), 1)
    ]
    others = {"condition": condition, "group-by": grouped}
    named = ["one", "two", "three"] if isinstance(condition, dict) else []
    assert found_of(*ones, correlation("temporal", named, generate=False, **others)) == expected


def found_of(*rules: dict[str, Any]) -> list[list[int]]:
    """The numbers of the events of each match, which both engines find."""
    given = load_workload(
        {"name": "w", "stream": {"time": "ts", "unit": "s", "sequence": "n"},
         "rules": [{"sigma": list(rules)}]}
    )  # fmt: skip
    assert not given.refused
    events = from_table(pa.Table.from_pylist(STEPS), given.stream)
    found = []
    for run in (run_oracle, run_local):
        results = run(bind(given), events)
        texts = results.matches.column("match").to_pylist()
        rows = [
            sorted(v.get("n", -1) for v in json.loads(text).values() if isinstance(v, dict))
            for text in texts
        ]
        rows += [[row["time"], row["count"]] for row in results.aggregates.to_pylist()]
        found.append(sorted(rows))
    assert found[0] == found[1]
    return found[0]


def test_correlations_of_correlations_read_their_rows() -> None:
    one = rule({"s": {"x": 1}, "condition": "s"}, name="one")
    two = rule({"s": {"x": 2}, "condition": "s"}, name="two")
    many = correlation("event_count", ["one"], condition={"gte": 2}, **{"group-by": "user"})
    many |= {"title": "Many", "name": "many"}
    then = correlation("temporal_ordered", ["many", "two"], **{"group-by": ["user"]})
    assert found_of(then, many, two, one) == [[-1, 4]]
    loud = correlation("temporal_ordered", ["many", "two"], generate=True, **{"group-by": ["user"]})
    assert found_of(one, many, two, loud) == [[-1, 4], [1, 2], [4], [5]]
    aliases = {"user": {"two": "ip"}}
    then = correlation("temporal", ["two", "many"], aliases=aliases, **{"group-by": ["user"]})
    assert found_of(one, many, two, then) == [[-1, 4]]
    both = correlation("temporal_ordered", ["one", "two"]) | {"name": "both"}
    count = correlation("event_count", ["both"], condition={"gte": 3}) | {"title": "Count"}
    assert found_of(one, two, both, count) == [[3, 3]]


def test_groups_whose_fields_differ_by_rule_are_counted() -> None:
    one = rule({"s": {"x": 1}, "condition": "s"}, name="one")
    two = rule({"s": {"x": 2}, "condition": "s"}, name="two")
    others = {"group-by": ["who"], "aliases": {"who": {"one": "user", "two": "ip"}}}
    counted = correlation("event_count", ["one", "two"], condition={"gte": 3}, **others)
    assert found_of(one, two, counted) == [[3, 3]]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (correlation("temporal", [], condition="not one"), "holds where nothing occurs"),
        (correlation("temporal", ["one", "two"], condition={"lte": 1}), "do not occur"),
        (correlation("temporal", ["one", "two"], condition={"gte": 3}), "3 of 2 rules"),
        (correlation("temporal", ["one", "Together"]), "the rule Together"),
        (correlation("temporal", ["many", "two"], **{"group-by": ["ip"]}), "groups by ip"),
        (correlation("value_median", ["one"], condition={"gte": 3, "field": "x"}), "value_median"),
    ],
)
def test_what_no_query_says_of_correlations_is_refused(given: dict[str, Any], reason: str) -> None:
    one = rule({"s": {"x": 1}, "condition": "s"}, name="one")
    two = rule({"s": {"x": 2}, "condition": "s"}, name="two")
    many = correlation("event_count", ["one"], condition={"gte": 2}, **{"group-by": "user"})
    found = workload(one, two, many | {"title": "Many", "name": "many"}, given)
    assert [reason in r.reason for r in found.refused] == [True]


def test_a_correlation_of_a_rule_that_is_not_there_is_refused() -> None:
    found = workload(
        rule({"s": {"x": 1}, "condition": "s"}, name="one"),
        correlation("temporal", ["one", "missing"]),
    )
    assert [r.name for r in found.refused] == ["Together"]
    assert "missing" in found.refused[0].reason
