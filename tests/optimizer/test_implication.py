"""What is said to follow from a condition does, for all values of what it compares."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.reference.values import Row, true
from optimizer.bind.conditions import canonical
from optimizer.ir.implication import implies
from workloads import expressions as ex
from workloads.parser import parse_condition

VALUES = (None, -1, 0, 0.5, 1, 2, 3)
SIGNS = ("=", "!=", "<", "<=", ">", ">=")
NUMBERS = ("0", "1", "1.0", "0.5", "2")


def simple() -> st.SearchStrategy[str]:
    name, sign = st.sampled_from(("a.x", "a.y")), st.sampled_from(SIGNS)
    number = st.sampled_from(NUMBERS)
    listed = st.lists(number, min_size=1, max_size=3).map(", ".join)
    return st.one_of(
        st.tuples(name, sign, number).map(" ".join),
        st.sampled_from(SIGNS).map(lambda s: f"a.x {s} a.y"),
        st.tuples(name, st.sampled_from(("IN", "NOT IN")), listed).map(
            lambda each: f"{each[0]} {each[1]} ({each[2]})"
        ),
        st.tuples(name, st.sampled_from(("IS NULL", "IS NOT NULL"))).map(" ".join),
    )


def conditions() -> st.SearchStrategy[ex.Expression]:
    texts = st.recursive(
        simple(),
        lambda inner: st.one_of(
            inner.map(lambda text: f"NOT ({text})"),
            st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(
                lambda each: f"({each[0]}) {each[1]} ({each[2]})"
            ),
        ),
        max_leaves=3,
    )
    return texts.map(lambda text: canonical(parse_condition(text)))


@given(conditions(), conditions())
@settings(max_examples=400)
def test_what_is_implied_holds(known: ex.Expression, asked: ex.Expression) -> None:
    if implies(known, asked):
        for x, y in product(VALUES, repeat=2):
            bound = {"a": (Row((0,), 0, {"x": x, "y": y}),)}
            assert true(asked, bound) or not true(known, bound), (x, y)


@pytest.mark.parametrize(
    ("known", "asked", "follows"),
    [
        ("x > 8", "x > 5", True),
        ("x > 5", "x > 5.0", True),
        ("x > 5", "x >= 5", True),
        ("x >= 5", "x > 5", False),
        ("x = 7", "x > 5", True),
        ("x = 7", "x IN (6, 7)", True),
        ("x IN (6, 9)", "x > 5", True),
        ("x IN (5, 9)", "x > 5", False),
        ("x IN (1, 2)", "x IN (1, 2, 3)", True),
        ("x NOT IN (1, 2)", "x NOT IN (1)", True),
        ("x > 5", "x IS NOT NULL", True),
        ("NOT x <= 5", "x > 5", False),  # of null the one holds, and not the other
        ("NOT x > 5", "NOT x > 8", True),
        ("NOT x > 8", "NOT x > 5", False),
        ("kind = 'a'", "kind != 'b'", True),
        ("kind > 'b'", "kind > 'a'", False),  # true, and not decided
        ("a.x < b.x", "a.x <= b.x", True),
        ("a.x = b.x", "a.x >= b.x", True),
        ("a.x < b.x", "a.x < b.y", False),
        ("x > 1 AND y > 2", "y > 1", True),
        ("x > 1 OR y > 2", "x > 1", False),
        ("x > 1", "x > 0 OR y = 3", True),
        (f"x >= {2**53 + 1}", f"x > {float(2**53)}", False),  # beyond what doubles tell apart
    ],
)
def test_what_follows(known: str, asked: str, follows: bool) -> None:
    one, other = (canonical(parse_condition(text)) for text in (known, asked))
    assert implies(one, other) is follows
