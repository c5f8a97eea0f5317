"""A fingerprint says what a pattern means: not what its parts are called or in which order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.ir.fingerprint import fingerprint, fingerprint_pattern, signature, spell
from optimizer.ir.pattern import (
    And,
    Neg,
    Or,
    Pattern,
    Seq,
    rename,
    transform,
)
from optimizer.ir.query import BoundWorkload, Query
from optimizer.rewrite.body import aliases
from tests.optimizer.rewriting import body_of, query_of
from tests.strategies import workloads
from workloads import expressions as ex


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SEQ(A a, B b)", "SEQ(A x, B y)"),
        ("SEQ(A a, A b) WHERE a.x < b.x", "SEQ(A b, A a) WHERE b.x < a.x"),
        ("AND(A a, B b)", "AND(B q, A p)"),
        ("SEQ(A a, !B b, !C c, D d)", "SEQ(A a, !C x, !B y, D d)"),
        ("OR(A a, SEQ(B b, C c))", "OR(SEQ(B x, C y), A z)"),
        ("AND(A a, A b, A c) WHERE a.x < b.x", "AND(A a, A b, A c) WHERE c.x < a.x"),
        (
            "AND(SEQ(A a, B b), SEQ(A c, B d)) WHERE a.x < b.x",
            "AND(SEQ(A a, B b), SEQ(A c, B d)) WHERE c.x < d.x",
        ),
        (
            "AND(A a, A b, A c, A d) WHERE a.x = b.x AND c.x = d.x",
            "AND(A a, A b, A c, A d) WHERE a.x = d.x AND b.x = c.x",
        ),
        ("SEQ(A a, B b) WHERE a.x > 1", "SEQ(A p, B q) WHERE 1 < p.x"),
    ],
)
def test_the_same_meaning_has_the_same_fingerprint(one: str, other: str) -> None:
    assert fingerprint(query_of(one)) == fingerprint(query_of(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SEQ(A a, B b)", "SEQ(B a, A b)"),
        ("SEQ(A a, B b)", "AND(A a, B b)"),
        ("SEQ(A a, !B b, C c)", "SEQ(A a, B b, C c)"),
        ("SEQ(A a, A b) WHERE a.x < b.x", "SEQ(A a, A b) WHERE b.x < a.x"),
        ("SEQ(A a, A b) WHERE a.x < b.x", "SEQ(A a, A b)"),
        ("SEQ(A+ a, B b)", "SEQ(A a, B b)"),
        ("SEQ(A^2 a, B b)", "SEQ(A^3 a, B b)"),
        ("A a WHERE a.x = 1", "A a WHERE a.x = 1.0"),
        ("A a WHERE a.x = 1", "A a WHERE a.x = '1'"),
        (
            "AND(SEQ(A a, B b), SEQ(A c, B d)) WHERE a.x < b.x",
            "AND(SEQ(A a, B b), SEQ(A c, B d)) WHERE a.x < d.x",
        ),
        # A ring of six and two rings of three: alike from every single component
        (
            "AND(A a, A b, A c, A d, A e, A f) WHERE a.x = b.y AND b.x = c.y AND c.x = d.y "
            "AND d.x = e.y AND e.x = f.y AND f.x = a.y",
            "AND(A a, A b, A c, A d, A e, A f) WHERE a.x = b.y AND b.x = c.y AND c.x = a.y "
            "AND d.x = e.y AND e.x = f.y AND f.x = d.y",
        ),
    ],
)
def test_another_meaning_has_another_fingerprint(one: str, other: str) -> None:
    assert fingerprint(query_of(one)) != fingerprint(query_of(other))


def test_window_and_key_count_and_the_output_does_not() -> None:
    query = query_of("SEQ(A a, B b)")
    text = "SEQ(A a, B b)"
    assert fingerprint(query) == fingerprint(query_of(text, "RETURN a WITHIN 9 ms"))
    assert fingerprint(query) != fingerprint(query_of(text, "AGG COUNT(*) WITHIN 8 ms"))
    assert fingerprint(query) != fingerprint(replace(query, key=("k",)))
    assert fingerprint(replace(query, key=("k", "l"))) == fingerprint(
        replace(query, key=("l", "k"))
    )


def test_alternatives_may_share_aliases_or_not() -> None:
    one = body_of("OR(SEQ(A a, B b), SEQ(A c, C d)) WHERE a.x < b.x AND c.x < d.x")
    two = body_of("OR(SEQ(A a, B b), SEQ(A a2, C d)) WHERE a.x < b.x AND a2.x < d.x")
    shared = rename(two.pattern, {"a2": "a"})
    conditions = tuple(ex.rename(c, {"a2": "a"}) for c in two.conditions)
    assert fingerprint_pattern(one.pattern, one.conditions) == fingerprint_pattern(
        shared, conditions
    )


def test_it_is_the_same_in_another_process() -> None:
    program = (
        "from tests.optimizer.rewriting import query_of\n"
        "from optimizer.ir.fingerprint import fingerprint\n"
        "print(fingerprint(query_of('AND(A a, !B b) WHERE a.x < b.x')))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert found.stdout.strip() == fingerprint(query_of("AND(A p, !B q) WHERE p.x < q.x"))


def test_a_spelling_names_the_components_in_its_order() -> None:
    body = body_of("AND(B b, A a) WHERE a.x < b.x")
    found = spell(body.pattern, body.conditions)
    assert found.aliases == ("a", "b")
    assert found.text == 'And(A #1, B #2)\n"#1".x < "#2".x'


def test_a_signature_keeps_the_names_of_what_is_around() -> None:
    body = body_of("SEQ(A a, !B b, !B c, D d) WHERE a.x < b.x AND d.x < c.x")
    assert isinstance(body.pattern, Seq)
    first, second = body.pattern.parts[1:3]
    assert signature(first, body.conditions) != signature(second, body.conditions)
    same = body_of("SEQ(A a, !B b, !B c, D d) WHERE a.x < b.x AND a.x < c.x")
    assert isinstance(same.pattern, Seq)
    first, second = same.pattern.parts[1:3]
    assert signature(first, same.conditions) == signature(second, same.conditions)


def shuffled(query: Query, seed: int) -> Query:
    """The query with other names, and its parts in another order where that means nothing."""
    chance = random.Random(seed)
    known = sorted(aliases(query.pattern))
    names = dict(zip(known, chance.sample([f"n{i}" for i in range(99)], len(known)), strict=True))

    def mix(node: Pattern) -> Pattern:
        if isinstance(node, And):
            return And(tuple(chance.sample(node.parts, len(node.parts))))
        if isinstance(node, Or):
            return Or(tuple(chance.sample(node.parts, len(node.parts))))
        if isinstance(node, Seq):
            parts = list(node.parts)
            for i in range(len(parts) - 1):
                if (
                    all(isinstance(part, Neg) for part in parts[i : i + 2])
                    and chance.random() < 0.5
                ):
                    parts[i], parts[i + 1] = parts[i + 1], parts[i]
            return Seq(tuple(parts))
        return node

    conditions = [ex.rename(c, names) for c in query.conditions]
    return replace(
        query,
        pattern=transform(rename(query.pattern, names), mix),
        conditions=tuple(chance.sample(conditions, len(conditions))),
    )


@settings(max_examples=150)
@given(workloads(max_queries=1), st.integers(0, 2**32))
def test_names_and_order_never_matter(workload: BoundWorkload, seed: int) -> None:
    query = workload.queries[0]
    assert fingerprint(query) == fingerprint(shuffled(query, seed))
