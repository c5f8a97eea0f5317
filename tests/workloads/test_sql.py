"""SQL in workloads: what is taken, and what is refused with its place and a reason."""

from __future__ import annotations

import pytest

from optimizer.bind.binder import load_bound
from tests.sql_workloads import bound
from workloads.errors import QueryError, WorkloadError
from workloads.loading import load_workload
from workloads.sql.lexer import statements
from workloads.sql.parser import parse_statement
from workloads.sql.rowpattern import print_row_pattern
from workloads.workload import to_document

ONE = "SELECT n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A))"
INNER = "SELECT x FROM t"
FROM = "SELECT * FROM ({}) MATCH_RECOGNIZE ({})"
CLAUSE = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts {})"


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("a  b", "A B"),
        ("A | B C", "A | B C"),
        ("(A | B)+? C{2}", "(A | B)+? C{2}"),
        ("((A))", "A"),
        ("A{,3} B{2,} C{1,1}?", "A{0,3} B{2,} C{1}?"),
        ("^ A* $", "^ A* $"),
        ("{- A+ -}", "{- A+ -}"),
        ("()", "()"),
        ('"a b" A', '"a b" A'),
        ("PERMUTE(A, B)", "A B | B A"),
        ("A (() | B)", "A (() | B)"),
        ("A??", "A??"),
        ("(A?)?", "(A?)?"),
    ],
)
def test_patterns_are_read_and_can_be_printed(written: str, printed: str) -> None:
    found = parse_statement(CLAUSE.format(f"PATTERN ({written})")).pattern
    assert print_row_pattern(found) == printed
    assert parse_statement(CLAUSE.format(f"PATTERN ({printed})")).pattern == found


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SELECT 1 FROM t", "", "without MATCH_RECOGNIZE"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts)", "(", "without PATTERN"),
        (CLAUSE.format("PATTERN (A{3,2})"), "{3,2}", "no number is from 3 to 2"),
        (CLAUSE.format("PATTERN (A**)"), "*", "two quantifiers"),
        (CLAUSE.format("PATTERN (A &)"), "&", "unexpected character"),
        (CLAUSE.format("PATTERN (A) PATTERN (B)"), "PATTERN", "stands twice"),
        (CLAUSE.format("PATTERN (A) DEFINE A AS x > 'b"), "'", "unexpected character"),
        (CLAUSE.format("PATTERN (A) DEFINE A AS x IN (SELECT 1)"), "SELECT", "subquery"),
        (CLAUSE.format("WITHIN INTERVAL '5' MOON PATTERN (A)"), "INTERVAL '5' MOON", "no length"),
        (CLAUSE.format("PATTERN (A)") + " JOIN u", "JOIN", "a join"),
        (CLAUSE.format("PATTERN (A)") + " UNION ALL SELECT 1", "UNION", "UNION of SELECTs"),
        (CLAUSE.format("PATTERN (A) DEFINE A AS EXISTS (SELECT 1)"), "EXISTS", "subquery"),
        (
            CLAUSE.format("PATTERN (A) DEFINE A AS x LIKE 'a' ESCAPE ''"),
            "x LIKE 'a' ESCAPE ''",
            "one",
        ),
        (f"SELECT x FROM ({ONE})", "x", "the SELECT inside gives no 'x'"),
        (f"SELECT * FROM ({ONE} LIMIT 1)", f"SELECT * FROM ({ONE} LIMIT 1)", "a SELECT around one"),
        (FROM.format(f"{INNER} LIMIT 1", "PATTERN (A)"), f"{INNER} LIMIT 1", "of subqueries"),
        (FROM.format(INNER, "MEASURES A.y AS y PATTERN (A)"), "A.y", "gives no 'y'"),
        (FROM.format("SELECT x + 1 FROM t", "PATTERN (A)"), "x + 1", "no name"),
        (FROM.format("SELECT 1 AS x FROM t", "PATTERN (A)"), "1", "without a column"),
        (FROM.format("SELECT x AS y FROM t", "PARTITION BY y PATTERN (A)"), "y", "renames"),
        (FROM.format(INNER, "ALL ROWS PER MATCH PATTERN (A)"), f"({INNER})", "ALL ROWS"),
    ],
)
def test_what_does_not_parse_is_named_with_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as error:
        parse_statement(text)
    assert text[error.value.span.start : error.value.span.end] == place


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("PATTERN (A) DEFINE B AS true", "B is no variable of the pattern"),
        ("PATTERN (A) DEFINE A AS true, A AS false", "defined twice"),
        ("PATTERN (A) SUBSET A = (A)", "there already"),
        ("AFTER MATCH SKIP TO LAST Z PATTERN (A)", "Z is no variable"),
        ("PATTERN (A) DEFINE A AS FINAL LAST(x) > 1", "FINAL in DEFINE"),
        ("PATTERN (A) DEFINE A AS PREV(PREV(x)) > 1", "PREV inside of PREV"),
        ("PATTERN (A) DEFINE A AS LAST(PREV(x)) > 1", "PREV inside of LAST"),
        ("PATTERN (A B) DEFINE A AS PREV(A.x + B.x) > 1", "several variables"),
        ("PATTERN (A) DEFINE A AS PREV(x, -1) > 1", "whole number from 0"),
        ("PATTERN (A) DEFINE A AS SUM(LAST(x)) > 1", "LAST inside of an aggregate"),
        ("PATTERN (A) DEFINE A AS NOSUCH(x)", "no function NOSUCH"),
        ("MEASURES FINAL CLASSIFIER() AS c PATTERN (A)", "FINAL before CLASSIFIER"),
        ("MEASURES FIRST(DISTINCT x) AS c PATTERN (A)", "DISTINCT with FIRST"),
        ("MEASURES LOWER(x) FILTER (WHERE y) AS c PATTERN (A)", "FILTER with LOWER"),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN ({- A -})", "WITH UNMATCHED ROWS"),
    ],
)
def test_what_means_nothing_is_refused(clause: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        bound(CLAUSE.format(clause))


@pytest.mark.parametrize(
    ("select", "rest", "message"),
    [
        ("NOSUCH(n)", "", "no function NOSUCH"),
        ("LAST(n)", "", "LAST outside of MATCH_RECOGNIZE"),
        ("CLASSIFIER()", "", "CLASSIFIER outside of MATCH_RECOGNIZE"),
        ("FINAL SUM(n)", "", "FINAL outside of MATCH_RECOGNIZE"),
        ("MAX_BY(n)", "", "MAX_BY takes 2 values"),
        ("n", "WHERE COUNT(*) > 1", "COUNT in WHERE"),
        ("1", "GROUP BY COUNT(*)", "COUNT in GROUP BY"),
    ],
)
def test_what_means_nothing_around_the_clause_is_refused(
    select: str, rest: str, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        bound(ONE.replace("SELECT n", f"SELECT {select}") + f" {rest}")


def test_a_column_of_what_is_no_variable_is_named_as_such() -> None:
    query = {"name": "q", "sql": CLAUSE.format("MEASURES C.x AS c PATTERN (A)")}
    document = {"name": "sql", "stream": {"time": "ts"}, "queries": [query]}
    with pytest.raises(WorkloadError, match="C is no variable of the pattern") as error:
        load_bound(document, {"ts": "int", "x": "int"})
    assert "it has A" in str(error.value)


def test_a_column_that_a_match_does_not_give_is_refused() -> None:
    with pytest.raises(WorkloadError, match="neither a measure nor a column of PARTITION BY"):
        bound("SELECT x FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))")


def test_texts_that_begin_with_select_and_maps_are_queries_and_stay_as_written() -> None:
    text = CLAUSE.format("PATTERN (A)")
    document = {
        "name": "w",
        "stream": {"time": "ts"},
        "queries": ["-- of any row\n" + text, {"name": "second", "sql": text}],
    }
    found = load_workload(document)
    assert [query.name for query in found.queries] == ["q1", "second"]
    assert to_document(found)["queries"] == [
        {"name": "q1", "sql": "-- of any row\n" + text},
        {"name": "second", "sql": text},
    ]
    assert load_workload(to_document(found)) == found


def test_a_map_without_a_text_is_refused() -> None:
    document = {"name": "w", "stream": {"time": "ts"}, "queries": [{"name": "q", "sql": 3}]}
    with pytest.raises(WorkloadError, match="a map without the text of a query"):
        load_workload(document)


def test_statements_are_told_apart_by_semicolons_outside_of_texts() -> None:
    assert statements("SELECT ';' ; -- ; no\n SELECT 2;;") == ["SELECT ';'", "SELECT 2"]
