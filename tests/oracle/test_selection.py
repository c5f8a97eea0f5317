"""Strategies, marks and AFTER MATCH SKIP by their definition, and what follows from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.reference import matches_of, run
from optimizer.ir.query import Query
from tests.oracle.notation import rows, workload
from tests.strategies import SHAPE, queries_with_rows
from workloads import syntax as sx

Rows = list[dict[str, Any]]


def found(pattern: str, stream: str, clauses: str = "", within: str = "100 s") -> list[str]:
    """The matches of a pattern, each as the names of its events in order, sorted."""
    bound = workload(f"PATTERN {pattern} {clauses} RETURN a WITHIN {within}")
    events = rows(stream)
    matches = matches_of(bound.queries[0], bound.stream, events)
    numbers = [sorted(i for group in match.values() for i in group) for match in matches]
    return sorted(" ".join(events[i]["name"] for i in number) for number in numbers)


FLINK = "a1 c2 b3 b4"
LOOP = "c1 d2 a3 a4 a5 d6 a7 b8"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("STRICT", []), ("NEXT", ["a1 b3"]), ("ANY", ["a1 b3", "a1 b4"])],
)
def test_the_contiguity_that_flink_documents(strategy: str, expected: list[str]) -> None:
    assert found("SEQ(A a, B b)", FLINK, f"STRATEGY {strategy}") == expected


def test_a_mark_is_next_and_followed_by_of_flink() -> None:
    assert found("SEQ(A a, : B b)", FLINK) == []
    assert found("SEQ(A a, > B b)", FLINK) == ["a1 b3"]
    assert found("A a : C c > B b", FLINK) == ["a1 c2 b3"]


def test_a_group_without_gaps_is_flinks_consecutive() -> None:
    consecutive = ["c1 a3 a4 a5 b8", "c1 a3 a4 b8", "c1 a3 b8"]
    starting = [match for match in found("SEQ(C c, A:+ a, B b)", LOOP) if " a3 " in match]
    assert starting == consecutive
    assert len(found("SEQ(C c, A+ a, B b)", LOOP)) == 15


def test_next_takes_every_event_that_a_group_can_go_on_with() -> None:
    assert found("SEQ(C c, A+ a, B b)", LOOP, "STRATEGY NEXT") == ["c1 a3 a4 a5 a7 b8"]


def test_next_asks_conditions_of_what_is_bound_so_far() -> None:
    stream = "a1(x=2) b2(x=1) b3(x=2) b4(x=2)"
    assert found("SEQ(A a, B b)", stream, "WHERE a.x <= b.x STRATEGY NEXT") == ["a1 b3"]
    assert found("SEQ(A a, > B b)", stream, "WHERE a.x <= b.x") == ["a1 b3"]
    later = "a1(x=2) b2(x=1) b3(x=2) c4(x=2)"
    # What c has is not known when b is taken: b2 is, and then no c fits.
    assert found("SEQ(A a, B b, C c)", later, "WHERE b.x = c.x STRATEGY NEXT") == []


def test_an_event_that_fits_in_two_ways_gives_a_match_for_each() -> None:
    stream = "a1 b2 b3 b4"
    matches = found("SEQ(A a, B+ b, B c)", stream, "STRATEGY NEXT")
    assert matches == ["a1 b2 b3", "a1 b2 b3 b4"]


def test_simultaneous_events_are_alternatives_to_one_another() -> None:
    stream = "a1 b2 b2' c3"
    expected = ["a1 b2 c3", "a1 b2' c3"]
    assert found("SEQ(A a, B b, C c)", stream, "STRATEGY STRICT") == expected
    assert found("SEQ(A a, B b, C c)", stream, "STRATEGY NEXT") == expected
    assert found("AND(A a, B b)", "a1 b1", "STRATEGY STRICT") == []


def test_strict_is_about_the_events_of_the_partition() -> None:
    stream = "a1(k=1) a2(k=2) b3(k=1) x4(k=null) b5(k=2)"
    assert found("SEQ(A a, B b)", stream, "STRATEGY STRICT") == ["a2 b3"]
    bound = workload(
        "PATTERN SEQ(A a, B b) PARTITION BY k STRATEGY STRICT RETURN a.name, b.name WITHIN 9 s"
    )
    named = [row["match"]["a"]["name"] for row in run(bound, rows(stream))]
    assert sorted(named) == ["a1", "a2"]


@pytest.mark.parametrize("clause", ["STRATEGY STRICT", ""])
def test_equalities_make_no_partition_where_gaps_are_strict(clause: str) -> None:
    mark = "" if clause else ": "
    text = f"PATTERN SEQ(A a, {mark}B b) WHERE a.k = b.k {clause} RETURN a WITHIN 9 s"
    assert workload(text).queries[0].key == ()
    assert workload(text.replace("STRICT", "NEXT").replace(": ", "")).queries[0].key == ("k",)


@pytest.mark.parametrize("skip", ["", "AFTER MATCH SKIP TO NEXT EVENT"])
def test_skip_to_next_event_keeps_all(skip: str) -> None:
    stream = "a1 a2 b3 a4 b5"
    expected = ["a1 b3", "a2 b3", "a4 b5"]
    assert found("SEQ(A a, B b)", stream, f"STRATEGY NEXT {skip}") == expected


def test_skip_past_last_event_leaves_matches_that_do_not_overlap() -> None:
    text = "PATTERN SEQ(A a, B b) STRATEGY NEXT {} RETURN a.name, b.name WITHIN 9 s"
    events = rows("a1 a2 b3 a4 b5 a5")

    def names(skip: str) -> list[str]:
        return sorted(
            f"{row['match']['a']['name']} {row['match']['b']['name']}"
            for row in run(workload(text.format(skip)), events)
        )

    assert names("") == ["a1 b3", "a2 b3", "a4 b5"]
    assert names("AFTER MATCH SKIP PAST LAST EVENT") == ["a1 b3", "a4 b5"]


# --- what holds for every query ------------------------------------------------------------------

CHAIN = replace(
    SHAPE, operators=("SEQ",), types=("A", "B", "C"), outputs=("return",), max_components=4
)  # fmt: skip


def _matches(query: Query, case_rows: Rows, stream: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(match.items())) for match in matches_of(query, stream, case_rows))


@given(queries_with_rows(CHAIN, 7))
@settings(max_examples=80)
def test_strict_is_within_next_is_within_any(case: Any) -> None:
    bound, events = case
    (query,) = bound.queries
    strict, next_, any_ = (
        _matches(replace(query, strategy=name), events, bound.stream)
        for name in ("strict", "next", "any")
    )
    assert strict <= next_ <= any_


def _explicit(mark: sx.Mark, stream: str, where: str) -> tuple[list[str], list[str]]:
    condition = f"WHERE {where}" if where else ""
    if mark == "strict":
        negated = "SEQ(A a, !Any n, B b, !Any m, C c)"
        marked = "SEQ(A a, : B b, : C c)"
    else:
        negated = "SEQ(A a, !B n, B b, !C m, C c)"
        marked = "SEQ(A a, > B b, > C c)"
        copied = where.replace("b.", "n.") if "c." not in where else where.replace("c.", "m.")
        condition = f"WHERE {where} AND {copied}" if where else ""
    types = {"types": {name: f"type = '{name}'" for name in "ABCX"} | {"Any": "time >= 0"}}
    texts = (
        f"PATTERN {marked} {f'WHERE {where}' if where else ''} RETURN a WITHIN 20 s",
        f"PATTERN {negated} {condition} RETURN a WITHIN 20 s",
    )
    events = [{"x": None} | row for row in rows(stream)]
    results = []
    for text in texts:
        bound = workload(text, **types)
        matches = matches_of(bound.queries[0], bound.stream, events)
        numbers = [sorted(i for group in match.values() for i in group) for match in matches]
        results.append(sorted(" ".join(events[i]["name"] for i in number) for number in numbers))
    return results[0], results[1]


@given(
    st.sampled_from(["strict", "next"]),
    st.lists(st.tuples(st.sampled_from("abcx"), st.integers(0, 2), st.integers(0, 1)), max_size=8),
    st.sampled_from(["", "b.x < c.x", "a.x <= b.x"]),
)
@settings(max_examples=80)
def test_marks_are_negations(mark: sx.Mark, steps: list[tuple[str, int, int]], where: str) -> None:
    time, stream = 1, []
    for letter, x, gap in steps:
        time += gap
        stream.append(f"{letter}{time}(x={x})")
    marked, negated = _explicit(mark, " ".join(stream), where)
    assert marked == negated
