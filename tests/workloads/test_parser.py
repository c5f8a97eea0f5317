"""What is written is what is read, and what cannot be read is said where and why."""

import lark.lark
import pytest

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError
from workloads.parser import parse_condition, parse_query
from workloads.printing import print_pattern


def pattern_of(text):
    return parse_query(f"PATTERN {text} AGG COUNT(*) WITHIN 1 s").pattern


def where_of(text):
    return parse_query(f"PATTERN A a WHERE {text} RETURN a WITHIN 1 s").where


A, B, C = sx.Component("A"), sx.Component("B"), sx.Component("C")


def test_the_infix_form_parses_to_the_same_tree():
    assert pattern_of("A; !B; C") == pattern_of("SEQ(A, !B, C)")
    assert pattern_of("A & B") == pattern_of("AND(A, B)")
    assert pattern_of("A | B") == pattern_of("OR(A, B)")


def test_infix_operators_bind_and_before_or_before_sequence():
    expected = sx.Operation(
        "SEQ", (A, sx.Operation("OR", (B, sx.Operation("AND", (C, sx.Component("D"))))))
    )
    assert pattern_of("A; B | C & D") == expected


def test_quantifiers():
    assert pattern_of("A+ a") == sx.Component("A", "a", sx.Plus())
    assert pattern_of("A^5 a") == sx.Component("A", "a", sx.Exactly(5))
    assert pattern_of("ALL A a") == sx.Component("A", "a", sx.All())


def test_marks_stand_before_parts_in_both_forms():
    written = parse_query("PATTERN SEQ(A a, : B b, > C:+ c, D d) RETURN a WITHIN 1 s").pattern
    assert written.marks == (None, "strict", "next", None)
    infix = parse_query("PATTERN A a : B b > C :+ c ; D d RETURN a WITHIN 1 s").pattern
    assert infix == written


def test_strategies_and_what_comes_after_a_match():
    text = "PATTERN SEQ(A a, B b) {} RETURN a WITHIN 1 s"
    assert parse_query(text.format("strategy next")).strategy == "next"
    for group in ("B+", "B:+", "B^2", "ALL B"):
        query = parse_query(f"PATTERN {group} STRATEGY STRICT RETURN B WITHIN 1 s")
        assert query.strategy == "strict"
    skip = "STRATEGY STRICT AFTER MATCH SKIP PAST LAST EVENT"
    assert parse_query(text.format(skip)).skip == "past last event"


def test_words_of_strategies_are_names_elsewhere():
    query = parse_query(
        "PATTERN SEQ(AFTER after, Strategy b) WHERE after.skip > 1 RETURN b WITHIN 1 s"
    )
    assert [part.type for part in query.pattern.parts] == ["AFTER", "Strategy"]


def test_keywords_in_any_case_and_clauses_in_any_order():
    one = parse_query("query q pattern seq(A a, B) within 1 min return a where a.x > 1")
    two = parse_query("QUERY q PATTERN SEQ(A a, B) WHERE a.x > 1 RETURN a WITHIN 1 MIN")
    assert one == two


def test_comments_and_strings():
    where = where_of("a.x = 'it''s -- fine' -- but this is not\n AND a.y = 1")
    assert isinstance(where, ex.Logical)
    assert where.parts[0] == ex.Comparison("=", ex.Attribute("a", "x"), ex.Literal("it's -- fine"))


def test_double_quotes_are_for_names():
    component = pattern_of('"W_Completeren aanvraag" "all"')
    assert component == sx.Component("W_Completeren aanvraag", "all")


def test_a_word_of_the_language_is_a_name_after_a_dot():
    assert where_of("a.seq = a.IN") == where_of('a."seq" = a."IN"')


def test_a_chain_of_comparisons_is_their_conjunction():
    assert where_of("a.x = a.y = a.z") == where_of("(a.x = a.y AND a.y = a.z)")


def test_arithmetic_binds_as_usual():
    one = where_of("a.x + 2 * -a.y - 1 > 0")
    assert one == where_of("((a.x + (2 * (-a.y))) - 1) > 0")


def test_aggregates_keep_their_spelling():
    output = parse_query("PATTERN A a AGG count(*), Sum( a.x ) WITHIN 1 s").output
    assert isinstance(output, sx.Aggregates)
    assert output.texts == ("count(*)", "Sum( a.x )")


@pytest.mark.parametrize(
    ("text", "message", "column", "hint"),
    [
        ("PATTERN SEQ(A a, B b RETURN a WITHIN 1 s", "unexpected 'RETURN'; expected ')'", 22, None),
        ("PATTERN A a WERE a.x > 1 RETURN a WITHIN 1 s", "unexpected 'WERE'", 13, "'WHERE'"),
        ("PATTERN A a WHERE a.x > RETURN a WITHIN 1 s", "expected a value", 25, "double quotes"),
        ("PATTERN A a RETURN a WITHIN 1 sek", "unknown unit 'sek'", 31, "'sec'"),
        ("PATTERN A a WHERE a.x = 'foo RETURN a WITHIN 1 s", "unexpected character", 25, "quote"),
        ("PATTERN A^0 a RETURN a WITHIN 1 s", "group of 0", 11, None),
        ("PATTERN A^1.5 a RETURN a WITHIN 1 s", "group of 1.5", 11, None),
        ("PATTERN A a RETURN a WITHIN 1 s WITHIN 2 s", "WITHIN is given twice", 33, None),
        (
            "PATTERN A a RETURN a GROUP BY a.x WITHIN 1 s",
            "GROUP BY goes with AGG",
            22,
            "RETURN the attribute",
        ),
        ("PATTERN A a RETURN a AGG COUNT(*) WITHIN 1 s", "AGG and RETURN", 13, "two queries"),
        ("PATTERN A a WITHIN 1 s", "neither AGG nor RETURN", 1, "AGG COUNT(*)"),
        ("PATTERN A a RETURN a", "WITHIN is missing", 1, "WITHIN 10 min"),
        ("RETURN a WITHIN 1 s", "PATTERN is missing", 1, "PATTERN"),
        ("", "the query ends here", 1, None),
        ("PATTERN A a RETURN a WITHIN", "the query ends here; expected", 28, None),
        ("PATTERN A a RETURN a WITHIN 1 s ;", "unexpected ';'", 33, None),
        ("PATTERN A @ RETURN a WITHIN 1 s", "unexpected character '@'", 11, None),
        ("PATTERN A{3,2} a RETURN a WITHIN 1 s", "at least 3 and at most 2", 10, "{2,3}"),
        ("PATTERN A{0,0} a RETURN a WITHIN 1 s", "no event at all", 10, "!E"),
        ("PATTERN A{1.5,} a RETURN a WITHIN 1 s", "'1.5' is no size of a group", 11, "{n,}"),
        ("PATTERN A{2,101} a RETURN a WITHIN 1 s", "'101' is no size of a group", 13, None),
        ("PATTERN A{2;3} a RETURN a WITHIN 1 s", "expected ',' or '}'", 12, None),
        ("PATTERN SEQ(A a, B b)+ RETURN a WITHIN 1 s", "behind the bracket of an", 22, "chain"),
        ("PATTERN A a STRATEGY NEX RETURN a WITHIN 1 s", "unknown strategy", 22, "NEXT"),
        (
            "PATTERN A a AFTER MATCH SKIP PAST LAST ROW RETURN a WITHIN 1 s",
            "unknown 'AFTER MATCH SKIP PAST LAST ROW'",
            13,
            "AFTER MATCH SKIP PAST LAST EVENT",
        ),
    ],
)
def test_errors_name_the_place_the_cause_and_the_remedy(text, message, column, hint):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    finding = caught.value.diagnostic(text, "q")
    assert message in finding.message
    assert finding.column == column
    assert hint is None or hint in (finding.hint or "")


def test_an_error_shows_its_line_with_a_caret():
    text = "PATTERN SEQ(A a, B b)\nWHERE a.x >\nRETURN a WITHIN 1 s"
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    rendered = caught.value.diagnostic(text, "q").render()
    assert "  --> query q, line 3, column 1\n" in rendered
    assert "  3 | RETURN a WITHIN 1 s\n    | ^^^^^^" in rendered


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN " + "SEQ(" * 1000 + "A" + ")" * 1000 + " RETURN A WITHIN 1 s",
        "PATTERN A a WHERE " + "(" * 1000 + "a.x" + ")" * 1000 + " > 1 RETURN a WITHIN 1 s",
        "PATTERN A a WHERE " + "NOT " * 1000 + "a.x > 1 RETURN a WITHIN 1 s",
        "PATTERN A a WHERE a.x > " + "- " * 1000 + "1 RETURN a WITHIN 1 s",
        "PATTERN A a WHERE a.x > 1" + " + 1" * 1000 + " RETURN a WITHIN 1 s",
        "PATTERN A a WHERE a.x" + " = a.x" * 1000 + " RETURN a WITHIN 1 s",
        "PATTERN SEQ(" + ", ".join(f"A a{i}" for i in range(2000)) + ") RETURN a1 WITHIN 1 s",
        "QUERY " + "x" * 1_000_000,
        "PATTERN " + "!" * 5000 + "A RETURN A WITHIN 1 s",
        "(" * 100_000,
        "'" * 99_999,
    ],
)
def test_absurd_queries_get_an_error_and_nothing_worse(text):
    with pytest.raises(QueryError):
        parse_query(text)


def test_deep_but_legal_queries_parse():
    text = "PATTERN " + "SEQ(A, " * 0 + "SEQ(" * 49 + "A" + ")" * 49 + " RETURN A WITHIN 1 s"
    assert parse_query(text).pattern is not None
    assert where_of("(" * 49 + "a.x" + ")" * 49 + " > 1") is not None


def test_words_of_many_queries_are_told_by_one_lexer(monkeypatch):
    parse_query("DEFINE A AS x > 1 PATTERN A RETURN A WITHIN 1 s")
    made = []
    monkeypatch.setattr(lark.lark, "BasicLexer", made.append)
    for number in range(3):
        parse_query(f"DEFINE A AS x > {number} PATTERN A RETURN A WITHIN 2 s")
    assert not made


def test_a_condition_alone():
    assert parse_condition("action = 'view'") == ex.Comparison(
        "=", ex.Attribute("", "action"), ex.Literal("view")
    )


@pytest.mark.parametrize(
    ("written", "quantifier", "optional"),
    [
        ("A? a", sx.ONE, True),
        ("A* a", sx.Plus(), True),
        ("A{0,} a", sx.Plus(), True),
        ("A{1,} a", sx.Plus(), False),
        ("A{3} a", sx.Between(3, 3), False),
        ("A {2, 4} a", sx.Between(2, 4), False),
        ("A{2,} a", sx.Between(2, None), False),
        ("A{0,1} a", sx.Between(1, 1), True),
        ("A:* a", sx.ConsecutivePlus(), True),
        ("A: {3} a", sx.Between(3, 3, True), False),
        ("A:{2,} a", sx.Between(2, None, True), False),
    ],
)
def test_how_many_events_a_component_takes(
    written: str, quantifier: sx.Quantifier, optional: bool
) -> None:
    query = parse_query(f"PATTERN {written} RETURN a WITHIN 1 s")
    assert query.pattern == sx.Component("A", "a", quantifier, optional=optional)


def test_several_where_clauses_hold_together():
    two = parse_query(
        "PATTERN SEQ(A a, B b) WHERE a.x > 1 RETURN a WITHIN 1 s WHERE b.x > 2 AND [k]"
    )
    one = parse_query("PATTERN SEQ(A a, B b) WHERE a.x > 1 AND b.x > 2 AND [k] RETURN a WITHIN 1 s")
    assert two == one


def test_a_chain_of_matches_is_a_component():
    found = pattern_of("A a; (B b; !N; C c){2,} g; (AND(D d, E e))+")
    repeated = pattern_of("SEQ(B b, !N, C c)")
    assert found.parts[1] == sx.Component("", "g", sx.Between(2, None), repeated=repeated)
    assert found.parts[2].name == "chain"
    assert print_pattern(found) == "SEQ(A a, (SEQ(B b, !N, C c)){2,} g, (AND(D d, E e))+)"
    assert pattern_of(print_pattern(found)) == found


def test_edges_of_situations_are_components():
    found = pattern_of("SEQ(START(Speeding) s, !B, end(Speeding)+ e)")
    assert found.parts[0] == sx.Component("Speeding", "s", edge="start")
    assert found.parts[2] == sx.Component("Speeding", "e", sx.Plus(), edge="end")
    assert print_pattern(found) == "SEQ(start(Speeding) s, !B, end(Speeding)+ e)"
