"""What the strategies have to do with one another, on the engines that run: STRICT is within NEXT,
NEXT and LATEST within ANY, `:` is `!ANY`, and `>` is `!E` with what is asked of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.local.slices import SliceSize
from engines.results.tables import joined_results
from optimizer.bind.binder import load_bound
from tests.differential.agreement import check_live
from tests.differential.test_local import Case, events_of
from tests.differential.test_slices import check
from tests.running import run_local
from tests.strategies import Row, event_rows

STREAM: dict[str, Any] = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"}
ROWS = event_rows(sequence=True, types=("A", "B", "C"), max_size=12)
KEYS = st.sampled_from(("", "PARTITION BY k"))
PLAIN_WINDOWS = ("3 ms", "7 ms", "4 EVENTS")
WINDOWS = st.sampled_from((*PLAIN_WINDOWS, "SESSION 3 ms"))
PLAIN = st.sampled_from(PLAIN_WINDOWS)
OWN = st.sampled_from(("", "b.x > 0", "c.x < 2"))
TIED = st.sampled_from(("", "a.x < b.x", "b.x <= c.x", "a.y = b.y"))


def case(text: str, rows: list[Row]) -> Case:
    return load_bound({"name": "w", "stream": STREAM, "queries": [f"QUERY q {text}"]}), rows


def found(text: str, rows: list[Row]) -> Counter[str]:
    """The rows of a query, by one run over all events."""
    workload, _ = case(text, rows)
    results = joined_results([run_local(workload, events_of(workload, rows))])
    return Counter(map(str, [*results.matches.to_pylist(), *results.aggregates.to_pylist()]))


def where(*conditions: str) -> str:
    asked = [condition for condition in conditions if condition]
    return f"WHERE {' AND '.join(asked)}" if asked else ""


def negated(condition: str, alias: str, other: str) -> str:
    """The same of what is negated, where it speaks of a component and of those before it alone."""
    later = {"b": "c.", "c": "d."}[alias]
    return condition.replace(f"{alias}.", f"{other}.") if later not in condition else ""


@given(ROWS, st.sampled_from(("B b", "B+ b", "B? b")), OWN, TIED, KEYS, PLAIN)
@settings(max_examples=120, deadline=None)
def test_strict_is_within_next_and_next_within_any(
    rows: list[Row], middle: str, own: str, tied: str, key: str, window: str
) -> None:
    asked = where(own, "" if "+" in middle or "?" in middle else tied)
    text = f"PATTERN SEQ(A a, {middle}, C c) {asked} {key} STRATEGY {{}} RETURN a, b, c"
    strict, following, every = (
        found(f"{text.format(strategy)} WITHIN {window}", rows)
        for strategy in ("STRICT", "NEXT", "ANY")
    )
    assert strict <= following <= every


@given(ROWS, OWN, TIED, KEYS, st.sampled_from(PLAIN_WINDOWS[:2]))
@settings(max_examples=80, deadline=None)
def test_latest_is_within_any(rows: list[Row], own: str, tied: str, key: str, window: str) -> None:
    ordered = [{**row, "seq": place} for place, row in enumerate(rows)]
    text = f"PATTERN SEQ(A a, B b, C c) {where(own, tied)} {key} {{}} RETURN a, b, c"
    latest, every = (
        found(f"{text.format(strategy)} WITHIN {window}", ordered)
        for strategy in ("STRATEGY LATEST", "")
    )
    assert latest <= every


GROUPS = st.sampled_from(("", "+", "{1,2}"))
OUTPUTS = st.sampled_from(("RETURN a, b, c", "AGG COUNT(*)", "AGG COUNT(*), SUM(c.x)"))


@given(ROWS, GROUPS, OWN, KEYS, WINDOWS, OUTPUTS)
@settings(max_examples=120, deadline=None)
def test_a_strict_gap_is_a_negation_of_any_event(
    rows: list[Row], group: str, own: str, key: str, window: str, output: str
) -> None:
    ends = f"{where(own)} {key} {output} WITHIN {window}"
    marked = f"PATTERN SEQ(A a, : B{group} b, : C c) {ends}"
    plain = f"PATTERN SEQ(A a, !ANY n, B{group} b, !ANY m, C c) {ends}"
    assert found(marked, rows) == found(plain, rows)


@given(ROWS, OWN, TIED, KEYS, WINDOWS, OUTPUTS)
@settings(max_examples=120, deadline=None)
def test_the_next_that_fits_is_a_negation_of_those_that_fit(
    rows: list[Row], own: str, tied: str, key: str, window: str, output: str
) -> None:
    copied = [
        text
        for condition in (own, tied)
        for alias, other in (("b", "n"), ("c", "m"))
        if f"{alias}." in condition and (text := negated(condition, alias, other))
    ]
    ends = f"{key} {output} WITHIN {window}"
    marked = f"PATTERN SEQ(A a, > B b, > C c) {where(own, tied)} {ends}"
    plain = f"PATTERN SEQ(A a, !B n, B b, !C m, C c) {where(own, tied, *copied)} {ends}"
    assert found(marked, rows) == found(plain, rows)


MARKED = st.sampled_from(
    (
        "SEQ(A a, : B b, > C c)",
        "SEQ(A a, > B+ b, : C c)",
        "SEQ(A a, !C n, : B b, C c)",
        "SEQ(A a, B:+ b, !A n, C c)",
        "SEQ(!B n, A a, > B b, C c)",
        "SEQ(A a, > B b, C c, !A n)",
    )
)


@given(ROWS, MARKED, OWN, KEYS, PLAIN, st.sampled_from((1, 7)))
@settings(max_examples=40, deadline=None)
def test_marks_beside_negations_and_groups_in_slices(
    rows: list[Row], pattern: str, own: str, key: str, window: str, size: int
) -> None:
    text = f"PATTERN {pattern} {where(own)} {key} RETURN a, c WITHIN {window}"
    check(case(text, rows), SliceSize(size, False), 3)


@given(ROWS, MARKED, OWN, KEYS, st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=40, deadline=None)
def test_marks_beside_negations_and_groups_live(
    rows: list[Row], pattern: str, own: str, key: str, cuts: list[int]
) -> None:
    check_live(case(f"PATTERN {pattern} {where(own)} {key} RETURN a, c WITHIN 6 ms", rows), cuts)
