"""NEEL's rewriting examples with the exact push-down, and the forms that queries end in."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from optimizer.ir.pattern import (
    Event,
    Neg,
    Or,
    Proj,
    Seq,
)
from optimizer.ir.query import Query
from optimizer.rewrite.body import Body, disjuncts, print_body
from optimizer.rewrite.driver import rewrite
from optimizer.rewrite.normalize import form_of, normalize
from tests.optimizer.rewriting import body_of, bound, letters, matches, query_of, with_body


def normal(text: str) -> list[str]:
    """The disjuncts of a query's normal form."""
    body = normalize(query_of(text)).body
    return [print_body(Body(part)) for part in disjuncts(body.pattern)]


def test_example_5_flattening() -> None:
    assert normal("SEQ(A e1, SEQ(B e5, !C e6, D e7))") == ["SEQ(A e1, B e5, !C e6, D e7)"]


def test_example_6_distribution() -> None:
    assert normal("SEQ(A e1, OR(B e2, SEQ(C e5, !D e6, A e7)))") == [
        "SEQ(A e1, B e2)",
        "SEQ(A e1, C e5, !D e6, A e7)",
    ]


def test_example_7_negation_push_down() -> None:
    # The paper's third part is SEQ(E1, !E2, E3, E4, E5): see the test on a c b c d.
    assert normal("SEQ(A e1, !SEQ(B e2, C e3, D e4), E e5)") == [
        "SEQ(A e1, !D e4, E e5)",
        "Proj[e1, e5] SEQ(A e1, !B e2, C e3', !C e3, D e4', !D e4, E e5)",
        "Proj[e1, e5] SEQ(A e1, !C e3, D e4', !D e4, E e5)",
    ]


def test_example_8_the_whole_procedure() -> None:
    text = "SEQ(A e1, !SEQ(B e2, C e3, D e4), SEQ(E e5, F e6, G e7))"
    assert normal(text) == [
        "SEQ(A e1, !D e4, E e5, F e6, G e7)",
        "Proj[e1, e5, e6, e7] SEQ(A e1, !B e2, C e3', !C e3, D e4', !D e4, E e5, F e6, G e7)",
        "Proj[e1, e5, e6, e7] SEQ(A e1, !C e3, D e4', !D e4, E e5, F e6, G e7)",
    ]
    found = normalize(query_of(text))
    assert found.form == "DNF"
    assert [step.rule for step in found.trace] == ["flatten", "push-down", "canonical-order"]


# --- the push-down as printed, and the exact one -------------------------------------------------


def as_printed(body: Body) -> Body:
    """`SEQ(A, !SEQ(B, C), D)` by NEEL's table IV: OR(SEQ(A, !C, D), Proj SEQ(A, !B, C, D))."""
    match body.pattern:
        case Seq((Event(_, a) as first, Neg(Seq((b, c))), Event(_, d) as last)):
            assert isinstance(b, Event)
            assert isinstance(c, Event)
            copy = Event(c.symbol, "c'")
            second = Proj(frozenset({a, d}), Seq((first, Neg(b), copy, last)))
            return Body(Or((Seq((first, Neg(c), last)), second)))
        case _:
            raise AssertionError(print_body(body))


QUERY = "SEQ(A a, !SEQ(B b, C c), D d)"


def test_the_printed_push_down_matches_where_the_negated_sequence_occurs() -> None:
    workload = bound(QUERY)
    query = workload.queries[0]
    body = Body(query.pattern, query.conditions)
    rows = letters("a c b c d")
    assert matches(workload, query, rows) == Counter()
    assert matches(workload, with_body(query, as_printed(body)), rows).total() == 1
    assert matches(workload, with_body(query, rewrite(body).body), rows) == Counter()


def words(alphabet: str, length: int) -> Iterator[str]:
    for n in range(length + 1):
        yield from map("".join, itertools.product(alphabet, repeat=n))


def test_on_all_small_streams_the_printed_push_down_fails_and_the_exact_one_does_not() -> None:
    workload = bound(QUERY)
    query = workload.queries[0]
    body = Body(query.pattern, query.conditions)
    printed, exact = with_body(query, as_printed(body)), with_body(query, rewrite(body).body)
    wrong = 0
    streams = [f"a{word}d" for word in words("bc", 5)]
    for word in streams:
        expected = set(matches(workload, query, letters(word)))
        assert set(matches(workload, exact, letters(word))) == expected, word
        # As sets: the printed form also gives a match once for each C that it finds.
        wrong += set(matches(workload, printed, letters(word))) != expected
    # Wrong wherever the first is a C and later a B and a C follow: 1 + 4 + 11 words.
    assert (wrong, len(streams)) == (16, 63)


def tied(word: str) -> Iterator[str]:
    """The word with every choice of neighbours at the same time."""
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        groups = word[0]
        for letter, together in zip(word[1:], cuts, strict=True):
            groups += letter if together else " " + letter
        yield "".join(f"({g})" if len(g) > 1 else g for g in groups.split(" "))


def test_the_exact_push_down_holds_for_simultaneous_events_and_gives_each_match_once() -> None:
    workload = bound(QUERY)
    query = workload.queries[0]
    exact = with_body(query, rewrite(Body(query.pattern, query.conditions)).body)
    for inner in words("bc", 3):
        for word in tied(f"a{inner}d"):
            rows = letters(word)
            assert matches(workload, query, rows) == matches(workload, exact, rows), word


# --- the negation of an AND -----------------------------------------------------------------------


CONJUNCTION = "SEQ(A a, !AND(B b, C c), D d)"


def test_as_printed_the_negation_of_an_and_gives_a_match_twice() -> None:
    workload = bound(CONJUNCTION)
    printed = bound("OR(SEQ(A a, !B b, D d), SEQ(A a2, !C c, D d2))")
    rows = letters("a d")
    assert matches(workload, workload.queries[0], rows).total() == 1
    assert matches(printed, printed.queries[0], rows).total() == 2


@pytest.mark.parametrize("text", [CONJUNCTION, "SEQ(!AND(B b, C c), D d)"])
def test_the_negation_of_an_and_is_exact_on_all_small_streams_with_simultaneous_events(
    text: str,
) -> None:
    workload = bound(text)
    query = workload.queries[0]
    found = normalize(query, stream=workload.stream)
    assert [step.rule for step in found.trace][:1] == ["negated-and"]
    for inner in words("bc", 3):
        for word in tied(f"a{inner}d"):
            rows = letters(word)
            assert matches(workload, query, rows) == matches(workload, found.rewritten, rows), word


# --- forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("A a", "DNF"),
        ("SEQ(A a, !B b, C+ c)", "DNF"),
        ("OR(A a, SEQ(B b, C c))", "DNF"),
        ("SEQ(A a, OR(B b, C c), !OR(D d, E e))", "DNF"),
        ("SEQ(A a, !SEQ(B b, C c), D d)", "DNF"),
        ("A a WHERE 1 = 2", "DNF"),
        ("AND(A a, B b)", "CNF"),
        ("AND(SEQ(A a, !B b, C c), SEQ(D d, E e))", "CNF"),
        ("AND(A a, !B b)", "nested AND/SEQ"),
        ("SEQ(A a, AND(B b, SEQ(C c, D d)))", "nested AND/SEQ"),
        ("AND(A a, OR(B b, C c))", "nested AND/SEQ"),
        ("AND(A a, !SEQ(B b, C c))", "nested negation"),
        ("SEQ(A a, !AND(B b, C c), D d)", "nested negation"),
    ],
)
def test_the_form_of_a_query(text: str, form: str) -> None:
    assert normalize(query_of(text)).form == form


def test_an_or_below_the_root_is_no_normal_form() -> None:
    assert form_of(body_of("SEQ(A a, OR(B b, C c))").pattern) == "nested OR"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SEQ(A a, !SEQ(B b, C c), D d) WHERE b.x < c.x", "'b.x < c.x' ties two of its events"),
        ("SEQ(A a, !X x, !SEQ(B b, C c), D d)", "another negation stands in the same gap"),
        ("SEQ(A a, !SEQ(B^2 b, C c), D d)", "'b' is a group"),
        ("SEQ(A a, !SEQ(B b, !X x, C c), D d)", "it contains a negation itself"),
        ("SEQ(A a, !SEQ(B b, AND(C c, X x)), D d)", "an AND or OR stands in it"),
        ("SEQ(A a, !AND(B b, B c), D d)", "one event might be both 'b' and 'c'"),
        ("SEQ(A a, !AND(B b, C c), D d) WHERE b.x < c.x", "'b.x < c.x' ties two of its events"),
        ("SEQ(A a, !AND(B b, SEQ(C c, X x)), D d)", "more than single events stand in it"),
        ("SEQ(ALL A a, !SEQ(B b, C c), D d)", "the group 'ALL A a' reaches through its gap"),
        (
            "SEQ(A^2 a, X x, !SEQ(B b, C c), D d) WHERE a.x < c.x",
            "'a.x < c.x' would choose the events of the group 'a'",
        ),
        ("AND(A a, !SEQ(B b, C c))", "in an AND it looks at the whole window"),
        ("SEQ(AND(SEQ(A a, !SEQ(B b, C c)), X x), D d)", "it looks past the SEQ around its AND"),
    ],
)
def test_what_stays_nested_says_why(text: str, reason: str) -> None:
    found = normalize(query_of(text), stream=bound("A a").stream)
    assert found.form == "nested negation"
    assert len(found.notes) == 1
    assert found.notes[0].startswith("kept nested: !")
    assert reason in found.notes[0]


def test_an_or_of_too_many_alternatives_stays_nested() -> None:
    choices = ", ".join(f"OR(A a{i}, B b{i})" for i in range(11))
    found = normalize(query_of(f"SEQ({choices})"))
    assert found.form == "nested OR"
    assert found.notes == (
        "an OR is kept nested: written out there would be 2,048 disjuncts, and at most 1,024 are",
    )
    six = ", ".join(f"OR(A a{i}, B b{i})" for i in range(6))
    assert len(disjuncts(normalize(query_of(f"SEQ({six})")).body.pattern)) == 64


def test_a_negation_of_too_many_alternatives_stays_nested() -> None:
    choices = ", ".join(f"OR(B b{i}, C c{i})" for i in range(6))
    found = normalize(query_of(f"SEQ(A a, !SEQ({choices}), D d)"))
    assert found.trace == ()
    assert found.notes[0].endswith("more than 32 alternatives stand in it")


def test_a_push_down_into_too_many_disjuncts_stops() -> None:
    gaps = ", ".join(f"!SEQ(B b{i}, C c{i}), D d{i}" for i in range(8))
    found = normalize(query_of(f"SEQ(A a, {gaps})"))
    assert len(disjuncts(found.body.pattern)) == 128
    assert found.notes == ("kept nested: !SEQ(B b7, C c7): there would be more than 128 disjuncts",)


def test_a_query_that_never_matches_says_so() -> None:
    found = normalize(query_of("SEQ(A a, B b) WHERE a.x < NULL"))
    assert found.notes == ("it never matches",)
    assert print_body(found.body) == "NEVER"


def test_a_part_that_never_matches_stays_where_it_alone_triggers_an_evaluation() -> None:
    text = "OR(A a, SEQ(B b, C c)) WHERE b.x < NULL"
    triggered = normalize(query_of(text))
    assert print_body(triggered.body) == "OR(A a, SEQ(B[FALSE] b, C c))"
    assert triggered.notes == (
        "kept, though it never matches, for the times it triggers: SEQ(B[FALSE] b, C c)",
    )
    sliding = normalize(query_of(text, "AGG COUNT(*) WITHIN 9 ms SLIDE 1 ms"))
    assert print_body(sliding.body) == "A a"


def test_copies_never_take_a_name_that_is_in_use() -> None:
    text = """SEQ("c'" a, !SEQ(B b, C c), D "c'")"""
    assert normal(text)[1] == "Proj[a, c'] SEQ(c' a, !B b, C c'', !C c, D c')"


def test_rules_can_be_switched_off_by_name() -> None:
    query = query_of(QUERY)
    found = normalize(query, off=["push-down"])
    assert found.body.pattern == query.pattern
    assert found.notes == ("kept nested: !SEQ(B b, C c): the rule is switched off",)


def test_the_rewritten_query_differs_in_its_body_alone() -> None:
    query: Query = query_of(QUERY)
    found = normalize(query)
    assert with_body(query, found.body) == found.rewritten
    assert found.rewritten.name == query.name
