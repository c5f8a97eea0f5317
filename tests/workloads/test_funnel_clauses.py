"""Funnels as they are written, printed, bound and refused."""

from __future__ import annotations

import pytest

from optimizer.bind.binder import load_bound
from optimizer.engines.funnels import done_once, forest_of
from optimizer.ir.funnels import Exclusion
from optimizer.ir.query import Funnel, Query
from workloads.errors import WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query

STREAM = {"time": "ts", "unit": "s", "type": "kind"}
WHOLE = (
    "QUERY q FUNNEL SEQ(A a, B b, C c) STRICT ORDER EXCLUDE E e BETWEEN a AND b WITHIN 7 day "
    "PARTITION BY user BY a.country"
)


def bound(*texts: str) -> tuple[Query, ...]:
    return load_bound({"stream": STREAM, "queries": list(texts)}).queries


def test_a_funnel_is_bound_as_written() -> None:
    (query,) = bound(WHOLE)
    assert isinstance(query.output, Funnel)
    clause = query.output.funnel
    assert (clause.steps, clause.strict, clause.by) == (("a", "b", "c"), ("order",), ("country",))
    assert clause.exclusions == (Exclusion("e", 0, 1),)
    assert clause.gives == ("steps", "levels")


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        "FUNNEL SEQ(A, B) STRICT STRICT INCREASE EXCLUDE E BETWEEN A AND B "
        "EXCLUDE F f BETWEEN A AND B WITHIN 3 s INCLUSIVE RETURN LEVELS WHERE A.x > 3",
        "FUNNEL SEQ(A a) WITHIN 1 s BY a.x, a.y.z RETURN STEPS",
        "FUNNEL A; B; C WITHIN 1 s",
        "QUERY strict STRICT ORDER EXCLUDE E BETWEEN A AND B WITHIN 1 s FUNNEL SEQ(A, B)",
        'FUNNEL SEQ("strict" "exclude", "between" "funnel") WITHIN 1 s',
    ],
)
def test_a_funnel_is_printed_as_it_is_read(text: str) -> None:
    query = parse_query(text)
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    "text",
    [
        "QUERY funnel PATTERN SEQ(A strict, B exclude) RETURN strict WITHIN 1 s",
        "PATTERN A funnel RETURN funnel WITHIN 1 s",
        "PATTERN SEQ(between b, funnel f) WHERE b.strict = f.exclude RETURN f WITHIN 1 s",
        "PATTERN strict STRATEGY STRICT RETURN strict WITHIN 1 s",
    ],
)
def test_words_of_funnels_are_names_elsewhere(text: str) -> None:
    query = parse_query(text)
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FUNNEL SEQ(A a, B b) STRICT ODER WITHIN 5 s", "did you mean 'ORDER'?"),
        ("FUNNEL SEQ(A a) WITHIN 5 s AGG COUNT(*)", "AGG does not go with FUNNEL"),
        ("FUNNEL SEQ(A a) WITHIN 5 s SLIDE 1 s", "SLIDE does not go with FUNNEL"),
        ("PATTERN SEQ(A a, B b) BY a.x WITHIN 5 s RETURN a", "BY goes with FUNNEL"),
        ("FUNNEL SEQ(A a) RETURN a WITHIN 3 s", "takes STEPS, LEVELS or both"),
        ("FUNNEL SEQ(A a)", "WITHIN is missing"),
        ("FUNNEL SEQ(A a) EXCLUDE E e WITHIN 3 s", "expected BETWEEN"),
        ("FUNNEL SEQ(A a, !B b, C c) WITHIN 3 s", "EXCLUDE E e BETWEEN a AND b"),
        ("FUNNEL SEQ(A a, B+ b) WITHIN 3 s", "a step of a FUNNEL is one event"),
        ("FUNNEL SEQ(A a, OR(B b, C c)) WITHIN 3 s", "a step of a FUNNEL is one event"),
        ("FUNNEL AND(A a, B b) WITHIN 3 s", "a SEQ without marks"),
        ("FUNNEL SEQ(A a, : B b) WITHIN 3 s", "a SEQ without marks"),
        ("FUNNEL SEQ(A a, B b) WITHIN SESSION 3 s", "a stretch of time"),
        ("FUNNEL SEQ(A a, B b) WITHIN 3 s PARTITION BY (a.x, b.y) AS k", "differs by component"),
        ("FUNNEL SEQ(A a, B b) EXCLUDE E e BETWEEN b AND a WITHIN 3 s", "the earlier step first"),
        ("FUNNEL SEQ(A a, B b) EXCLUDE E e BETWEEN a AND z WITHIN 3 s", "'z' is no step"),
        ("FUNNEL SEQ(A a, B b) EXCLUDE E a BETWEEN a AND b WITHIN 3 s", "'a' is used twice"),
        ("FUNNEL SEQ(A a, B b) BY b.x WITHIN 3 s", "write a.x"),
        ("FUNNEL SEQ(A a, B b) BY z.x WITHIN 3 s", "unknown alias 'z'"),
        ("FUNNEL SEQ(A a, B b) WHERE a.x < b.x WITHIN 3 s", "speaks of one step alone"),
        (f"FUNNEL SEQ({', '.join(f'A a{i}' for i in range(65))}) WITHIN 3 s", "at most 64"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_remedy(text: str, expected: str) -> None:
    with pytest.raises(WorkloadError) as error:
        bound(f"QUERY q {text}")
    found = error.value.diagnostics[0]
    assert expected in f"{found.message} | {found.hint}"


def test_an_equality_of_all_steps_is_a_key() -> None:
    (query,) = bound("QUERY q FUNNEL SEQ(A a, B b) WHERE a.k = b.k WITHIN 3 s")
    assert query.key == ("k",)


def test_a_window_longer_than_any_stream_bounds_nothing() -> None:
    (query,) = bound("QUERY q FUNNEL SEQ(A a, B b) WITHIN 6048000000000000 s")
    assert query.window.is_endless


def test_funnels_share_what_they_begin_with() -> None:
    queries = bound(
        "QUERY q1 FUNNEL SEQ(A a, B b, C c) WITHIN 3 s",
        "QUERY q2 FUNNEL SEQ(A x, B y, D z) WITHIN 3 s",
        "QUERY q3 FUNNEL SEQ(A a, B b, C c) WITHIN 4 s",  # another window: the first step alone
        "QUERY q4 FUNNEL SEQ(A a, B b, C c) EXCLUDE E e BETWEEN b AND c WITHIN 3 s",
        "QUERY q5 FUNNEL SEQ(A a, B b, C c) STRICT ORDER WITHIN 3 s",
        "QUERY q6 FUNNEL SEQ(A a, B b, C c) STRICT INCREASE WITHIN 3 s",
    )
    paths = forest_of(queries).paths
    assert paths["q1"][:2] == paths["q2"][:2]
    assert paths["q1"][2] != paths["q2"][2]
    assert paths["q3"][0] == paths["q1"][0]
    assert not set(paths["q3"][1:]) & set(paths["q1"])
    assert set(paths["q4"]) & set(paths["q1"]) == {paths["q1"][0]}
    assert not set(paths["q5"]) & set(paths["q1"])
    assert set(paths["q6"]) & set(paths["q1"]) == {paths["q1"][0]}
    assert done_once(queries) == "6 funnels in one pass, 18 steps as 13 different prefixes"
