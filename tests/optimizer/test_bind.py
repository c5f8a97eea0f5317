"""Names, kinds, places and windows are checked; keys, symbols and conditions are found."""

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import Event, Symbol, events
from workloads import expressions as ex
from workloads.errors import WorkloadError

STREAM = {
    "time": "ts",
    "unit": "s",
    "type": "kind",
    "sequence": "seq",
    "attributes": {"x": "int", "y": "string", "price": "float", "flag": "bool"},
}


def bind(*queries, **stream):
    return load_bound({"stream": {**STREAM, **stream}, "queries": list(queries)}).queries


def findings(*queries, **stream):
    with pytest.raises(WorkloadError) as caught:
        bind(*queries, **stream)
    return caught.value.diagnostics


def where(condition, pattern="SEQ(A a, B b, C c)"):
    (query,) = bind(f"PATTERN {pattern} WHERE {condition} RETURN a WITHIN 1 s")
    return query


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("PATTERN SEQ(A a, B a) RETURN a WITHIN 1 s", "alias 'a' is used twice", None),
        ("PATTERN SEQ(: A a, B b) RETURN a WITHIN 1 s", "before the first part", "leave it out"),
        ("PATTERN SEQ(A a, : !B b, C c) RETURN a WITHIN 1 s", "before a negation", "next part"),
        ("PATTERN SEQ(A a, > AND(B b, C c)) RETURN a WITHIN 1 s", "begins with an AND", "single"),
        ("PATTERN SEQ(A a, : B b) STRATEGY NEXT RETURN a WITHIN 1 s", "mark ':' stands in", "one"),
        ("PATTERN SEQ(A a, B:+ b) STRATEGY NEXT RETURN a WITHIN 1 s", "':+' stands in", "'+'"),
        ("PATTERN OR(A a, B b) STRATEGY NEXT RETURN a WITHIN 1 s", "this is an OR", "each order"),
        (
            "PATTERN SEQ(A a, B b) AFTER MATCH SKIP PAST LAST EVENT RETURN a WITHIN 1 s",
            "goes with STRATEGY NEXT or STRICT, not ANY",
            "STRATEGY NEXT",
        ),
        (
            "PATTERN SEQ(A a, B b) STRATEGY NEXT AFTER MATCH SKIP PAST LAST EVENT "
            "AGG COUNT(*) WITHIN 1 s",
            "goes with RETURN",
            "count the rows",
        ),
        ("PATTERN SEQ(A, A) RETURN A WITHIN 1 s", "occurs 2 times", None),
        ("PATTERN SEQ(A a, B b) WHERE c.x = 1 RETURN a WITHIN 1 s", "unknown alias 'c'", "a, b"),
        ("PATTERN SEQ(A apple, B b) RETURN aple WITHIN 1 s", "unknown alias 'aple'", "'apple'"),
        ("PATTERN SEQ(A a, B b) WHERE A.x = 1 RETURN a WITHIN 1 s", "unknown alias 'A'", "a type"),
        ("PATTERN A a WHERE a.prise > 1 RETURN a WITHIN 1 s", "unknown attribute", "'price'"),
        ("PATTERN A a WHERE x > 1 RETURN a WITHIN 1 s", "'x' has no alias", "a.x"),
        ("PATTERN A a WHERE [xx] RETURN a WITHIN 1 s", "unknown attribute 'xx'", "'x'"),
        ("PATTERN A a WHERE a.x = 'o' RETURN a WITHIN 1 s", "number cannot be compared", "'x'"),
        ("PATTERN A a WHERE a.x IN (1, 'o') RETURN a WITHIN 1 s", "cannot be compared", None),
        ("PATTERN A a WHERE a.y + 1 = 2 RETURN a WITHIN 1 s", "'+' takes a number", None),
        ("PATTERN A a WHERE a.flag < TRUE RETURN a WITHIN 1 s", "no order", None),
        ("PATTERN A a WHERE a.x RETURN a WITHIN 1 s", "not a condition", None),
        ("PATTERN A a WHERE NOT a.x RETURN a WITHIN 1 s", "not a condition", None),
        ("PATTERN A a AGG SUM(a.y) WITHIN 1 s", "sum takes a number", None),
        ("PATTERN SEQ(A a, !B b) AGG SUM(b.x) WITHIN 1 s", "'b' is negated", None),
        ("PATTERN A a AGG MEDIAN(a.x) WITHIN 1 s", "unknown aggregate", None),
        ("PATTERN A a AGG a.x WITHIN 1 s", "AGG takes aggregates", None),
        ("PATTERN A a AGG COUNT(*) HAVING a.x > 1 WITHIN 1 s", "HAVING compares", None),
        ("PATTERN A a RETURN a WITHIN 0 s", "a window of 0 s", None),
        ("PATTERN A a RETURN a WITHIN -5 s", "a window of -5 s", None),
        ("PATTERN A a RETURN a WITHIN 0.5 EVENTS", "not a whole number of events", None),
        ("PATTERN A a RETURN a WITHIN 9999999999 day", "overflows", None),
        ("PATTERN A a AGG COUNT(*) WITHIN 5 s SLIDE 0 s", "a slide of 0 s", None),
        ("PATTERN A a AGG COUNT(*) WITHIN 5 s SLIDE 1 EVENTS", "different kinds", None),
        ("PATTERN A a RETURN a WITHIN 5 s SLIDE 1 s", "SLIDE goes with AGG", None),
        ("PATTERN !A a RETURN a WITHIN 1 s", "a negation alone", None),
        ("PATTERN OR(A a, !B b) RETURN a WITHIN 1 s", "a negation stands in an OR", None),
        ("PATTERN SEQ(!A a, !B b) RETURN a WITHIN 1 s", "no positive part", None),
        ("PATTERN SEQ(A a, !SEQ(!B b)) RETURN a WITHIN 1 s", "no positive part", None),
        ("PATTERN SEQ(A a, !AND(!B b)) RETURN a WITHIN 1 s", "negation of a negation", None),
        ("PATTERN SEQ(A a, !B b) RETURN b WITHIN 1 s", "'b' is negated", None),
        ("PATTERN A a RETURN a.x + 1 WITHIN 1 s", "needs a name", "AS"),
        ("PATTERN A a RETURN a, a.x + 1 AS a WITHIN 1 s", "returned twice", None),
        ("PATTERN A+ a RETURN a.x + 1 AS u WITHIN 1 s", "is a group", "avg"),
        ("PATTERN A a WHERE sum(a.x) > 1 RETURN a WITHIN 1 s", "single event", "A+ a"),
        ("PATTERN A+ a WHERE sum(a.x) > a.x RETURN a WITHIN 1 s", "is a group", "avg(a.x)"),
        ("PATTERN A+ a WHERE summ(a.x) > 1 RETURN a WITHIN 1 s", "unknown function", "'sum'"),
        ("PATTERN A a WHERE lowwer(a.x) = 'b' RETURN a WITHIN 1 s", "lower, upper", "'lower'"),
        ('PATTERN A a WHERE a.x = "b c" RETURN a WITHIN 1 s', "no alias", "quotes: 'b c'"),
        ("PATTERN A a WHERE [x] OR a.x = 1 RETURN a WITHIN 1 s", "inside another", None),
        (
            "PATTERN SEQ(A a, !B b, !C c, D d) WHERE b.x = c.x RETURN a WITHIN 1 s",
            "two different negations",
            None,
        ),
        (
            "PATTERN SEQ(A+ a, ALL B b) WHERE b.x < a.x RETURN a WITHIN 1 s",
            "tied event by event",
            None,
        ),
    ],
)
def test_each_mistake_has_a_clear_message(query, message, hint):
    found = findings(query)
    assert message in found[0].message
    assert found[0].line == 1
    assert hint is None or hint in (found[0].hint or "")


def test_a_misspelt_type_is_an_error_where_the_types_are_declared():
    (finding,) = findings(
        "PATTERN SEQ(A a, Chekcing c) RETURN a WITHIN 1 s", types=["A", "Checking"]
    )
    assert finding.message == "unknown type 'Chekcing'"
    assert finding.hint == "did you mean 'Checking'?"


def test_a_count_window_needs_a_sequence():
    (finding,) = findings("PATTERN A a RETURN a WITHIN 5 EVENTS", sequence=None)
    assert "needs an order" in finding.message


def test_an_attribute_cannot_be_a_number_here_and_a_string_there():
    (finding,) = findings(
        "PATTERN A a WHERE a.u = 1 AND a.u = 'o' RETURN a WITHIN 1 s", attributes={}
    )
    assert "cannot be compared" in finding.message


def test_findings_of_all_queries_come_together():
    found = findings(
        "PATTERN A a WHERE b.x = 1 AND a.prise = 2 RETURN a WITHIN 1 s",
        "PATTERN A a RETURN a WITHIN 0 s",
        "PATTERN A a RETURN",
    )
    assert len(found) == 4


class TestKeys:
    @pytest.mark.parametrize(
        "condition",
        [
            "[x]",
            "a.x = b.x AND b.x = c.x",
            "c.x = a.x AND a.x = b.x AND b.x = c.x",
            "a.x = b.x = c.x",
        ],
    )
    def test_a_chain_over_every_component_is_a_key(self, condition):
        query = where(condition)
        assert query.key == ("x",)
        assert query.conditions == ()

    def test_a_chain_that_leaves_one_out_is_not(self):
        query = where("a.x = b.x")
        assert query.key == ()
        assert len(query.conditions) == 1

    def test_negated_components_must_be_tied_too(self):
        assert where("a.x = b.x", "SEQ(A a, !C c, B b)").key == ()
        assert where("a.x = b.x AND c.x = b.x", "SEQ(A a, !C c, B b)").key == ("x",)

    def test_each_part_of_an_or_must_be_tied(self):
        pattern = "SEQ(A a, OR(B b, C c), D d)"
        assert where("a.x = d.x AND b.x = a.x AND c.x = a.x", pattern).key == ("x",)
        assert where("a.x = b.x = d.x", pattern).key == ()

    @pytest.mark.parametrize(
        "pattern", ["SEQ(A a, OR(B b, C c), D d)", "SEQ(A a, !OR(B b, C c), D d)"]
    )
    def test_a_chain_may_go_through_a_part_of_an_or(self, pattern):
        query = where("a.x = b.x = c.x = d.x", pattern)
        assert query.key == ("x",)
        assert query.conditions == ()

    def test_a_chain_over_the_parts_of_an_or_is_a_key(self):
        assert where("a.x = b.x", "OR(A a, B b)").key == ("x",)

    def test_equalities_that_are_a_key_tie_groups_and_negations_too(self):
        assert where("a.x = b.x", "SEQ(ALL A a, ALL B b)").key == ("x",)
        query = where("a.x = b.x AND b.x = c.x", "SEQ(A a, !B b, !C c)")
        assert query.key == ("x",)

    def test_partition_by_comes_first(self):
        (query,) = bind(
            "PATTERN SEQ(A a, B b) WHERE [price] AND a.x = b.x PARTITION BY y RETURN a WITHIN 1 s"
        )
        assert query.key == ("y", "price", "x")


class TestSymbols:
    def test_local_predicates_go_into_the_symbol(self):
        query = where("a.x > 5 AND 3 < a.x AND b.x < c.x")
        symbols = {event.alias: event.symbol for event in events(query.pattern)}
        assert symbols["a"] == Symbol(
            "A",
            (
                ex.Comparison(">", ex.Attribute("", "x"), ex.Literal(3)),
                ex.Comparison(">", ex.Attribute("", "x"), ex.Literal(5)),
            ),
        )
        assert [ex.aliases(c) for c in query.conditions] == [{"b", "c"}]

    def test_two_aliases_of_one_symbol_are_interchangeable(self):
        query = where("a.x > 5 AND b.x > 5", "SEQ(A a, A b, C c)")
        found = [event.symbol for event in events(query.pattern) if isinstance(event, Event)]
        assert found[0] == found[1]

    def test_a_group_aggregate_is_not_local(self):
        query = where("sum(b.x) > 5", "SEQ(A a, B+ b, C c)")
        assert len(query.conditions) == 1


def test_a_star_returns_every_positive_component():
    star, spelled = bind(
        "QUERY s PATTERN OR(SEQ(A a, !B b, C+ c), E e) RETURN *, a.x + 1 AS more WITHIN 1 s",
        "QUERY t PATTERN OR(SEQ(A a, !B b, C+ c), E e) RETURN a, c, e, a.x + 1 AS more WITHIN 1 s",
    )
    assert star.output == spelled.output
