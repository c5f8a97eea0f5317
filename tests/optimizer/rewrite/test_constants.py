"""Constants go where equalities and keys carry them, and nowhere else."""

from __future__ import annotations

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.query import FixedAttribute, Query
from optimizer.rewrite.body import Body, print_body
from optimizer.rewrite.normalize import propagate_constants
from tests.optimizer.rewriting import query_of
from tests.strategies import stream_document


def carried(text: str, rest: str = "RETURN a WITHIN 9 ms") -> str:
    found = propagate_constants(query_of(text, rest))
    return print_body(Body(found.pattern, found.conditions))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SEQ(A a, B b, C c) WHERE a.m = b.m AND b.m = 't'",
            "SEQ(A[m = 't'] a, B[m = 't'] b, C c)",
        ),
        ("SEQ(A a, B b, C c) WHERE a.m = b.n AND a.m = 7", "SEQ(A[m = 7] a, B[n = 7] b, C c)"),
        (
            "SEQ(A a, B b, C c, D d) WHERE a.m = b.m AND b.m = c.m AND c.m = 't'",
            "SEQ(A[m = 't'] a, B[m = 't'] b, C[m = 't'] c, D d)",
        ),
        # Into a negation, and into a part of an OR
        (
            "SEQ(A a, !B b, C c) WHERE a.m = b.m AND a.m = 't'",
            "SEQ(A[m = 't'] a, !B[m = 't'] b, C c)",
        ),
        (
            "SEQ(A a, OR(B b, C c)) WHERE a.m = b.m AND a.m = 't'",
            "SEQ(A[m = 't'] a, OR(B[m = 't'] b, C c))",
        ),
        # A group, each of whose events has it
        (
            "SEQ(A a, B+ b, C c) WHERE a.m = b.m AND b.m = 't'",
            "SEQ(A[m = 't'] a, B[m = 't']+ b, C c)",
        ),
    ],
)
def test_an_equality_carries_a_constant(text: str, expected: str) -> None:
    assert carried(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # Not out of a negation or a part of an OR
        "SEQ(A a, !B[m = 't'] b, C c) WHERE a.m = b.m",
        "SEQ(A a, OR(B[m = 't'] b, C c)) WHERE a.m = b.m",
        # Only along equalities of two attributes
        "SEQ(A[m = 't'] a, B b) WHERE a.m != b.m",
        "SEQ(A[m = 't'] a, B b) WHERE a.m < b.m",
        # Another attribute, other constants
        "SEQ(A[m = 't'] a, B b, C c) WHERE a.n = b.m",
        "SEQ(A[m = 's'] a, B[m = 't'] b, C c) WHERE a.m = b.m",
        # Numbers whose spelling may differ from column to column
        "SEQ(A[m = 0.5] a, B b, C c) WHERE a.m = b.m",
        "SEQ(A[m = 9007199254740993] a, B b, C c) WHERE a.m = b.m",
    ],
)
def test_nothing_else_carries_one(text: str) -> None:
    pattern, _, where = text.partition(" WHERE ")
    conditions = [where]
    while "[" in pattern:
        before, _, rest = pattern.partition("[")
        predicate, _, after = rest.partition("]")
        alias = after.split()[0].rstrip(",)")
        conditions.append(f"{alias}.{predicate}")
        pattern = before + after
    assert carried(f"{pattern} WHERE {' AND '.join(conditions)}") == text


def test_what_ends_a_match_is_left_as_it_is_where_it_triggers_an_evaluation() -> None:
    text = "SEQ(X x, A a, B b, C c) WHERE a.m = b.m AND b.m = c.m AND a.m = 't'"
    assert carried(text, "AGG COUNT(*) WITHIN 9 ms") == (
        "SEQ(X x, A[m = 't'] a, B[m = 't'] b, C c) WHERE b.m = c.m"
    )
    everywhere = "SEQ(X x, A[m = 't'] a, B[m = 't'] b, C[m = 't'] c)"
    assert carried(text, "AGG COUNT(*) WITHIN 9 ms SLIDE 1 ms") == everywhere


# --- keys ----------------------------------------------------------------------------------------


def keyed(text: str, rest: str = "AGG COUNT(*) WITHIN 9 ms") -> Query:
    document = {
        "name": "w",
        "stream": stream_document(sequence=True),
        "queries": [f"{text} {rest}"],
    }
    return propagate_constants(load_bound(document).queries[0])


def test_a_key_of_one_value_is_fixed_and_asked_of_every_component() -> None:
    found = keyed("PATTERN SEQ(A a, !B b, C c) WHERE c.m = 't' PARTITION BY m, k")
    assert print_body(Body(found.pattern)) == "SEQ(A[m = 't'] a, !B[m = 't'] b, C[m = 't'] c)"
    assert found.key == ("k",)
    assert found.fixed_key == (FixedAttribute(0, "m", "t"),)
    assert found.result_key == (("m", "t"), ("k", None))


def test_a_chain_of_equalities_that_ends_in_a_constant_is_no_key() -> None:
    found = keyed("PATTERN SEQ(A a, B b) WHERE a.m = b.m AND b.m = 't' AND [k]")
    assert (found.key, found.result_key) == (("k",), (("k", None), ("m", "t")))
    assert found.conditions == ()


def test_two_fixed_attributes_keep_their_places() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.m = 't' AND b.n = 's' PARTITION BY n, k, m"
    assert keyed(text).result_key == (("n", "s"), ("k", None), ("m", "t"))


def test_every_alternative_must_have_the_constant() -> None:
    both = "PATTERN OR(SEQ(A a, B b), C c) WHERE b.m = 't' AND c.m = 't' PARTITION BY m"
    assert keyed(both).key == ()
    one = "PATTERN OR(SEQ(A a, B b), C c) WHERE b.m = 't' PARTITION BY m"
    assert keyed(one).key == ("m",)
    other = "PATTERN OR(SEQ(A a, B b), C c) WHERE b.m = 't' AND c.m = 's' PARTITION BY m"
    assert keyed(other).key == ("m",)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, !B b, C c) WHERE b.m = 't' PARTITION BY m",  # others have matches too
        "PATTERN SEQ(A a, B b) WHERE b.m = 1 PARTITION BY m",  # 1, 1.0 or true in the results?
        "PATTERN SEQ(A a, B b) WHERE a.m = 't' AND b.m = 's' PARTITION BY m",
        "PATTERN SEQ(A a, B b) WHERE NOT a.m != 't' PARTITION BY m",  # null is in no partition
    ],
)
def test_a_key_that_may_have_other_values_stays(text: str) -> None:
    found = keyed(text)
    assert (found.key, found.fixed_key) == (("m",), ())


def test_ranks_are_counted_in_the_partition_so_its_key_stays() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.m = 't' PARTITION BY m"
    assert keyed(text, "AGG COUNT(*) WITHIN 5 EVENTS").key == ("m",)
