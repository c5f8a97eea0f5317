"""Chains of matches in an AND, negated, behind a negation and around one: as they are defined.

What is expected is enumerated from the events alone; neither engine nor reference has a part in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.chains.test_repetitions import (
    ROWS,
    STREAM,
    Pair,
    chains,
    document,
    in_partitions,
    less,
    pairs,
)
from tests.differential.agreement import check_live
from tests.differential.test_local import events_of
from tests.differential.test_slices import SliceSize, check
from tests.running import How, run_local
from tests.strategies import Row
from workloads.errors import WorkloadError

Chain = tuple[Pair, ...]
Found = tuple[int, int, list[int | None], list[int | None]]  # start, end, those outside, of b


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def lies_in(rows: list[Row], kind: str, after: int, before: int) -> bool:
    return any(after < row["ts"] < before for row in of_kind(rows, kind))


def ends(chain: Chain) -> tuple[int, int]:
    return chain[0][0]["ts"], chain[-1][1]["ts"]


def any_pair(b: Row, c: Row) -> bool:
    return True


def beside(rows: list[Row], width: int) -> Iterator[Found]:
    """AND: the other event lies anywhere in the window."""
    for chain in chains(pairs(rows, False, any_pair)):
        start, end = ends(chain)
        for a in of_kind(rows, "A"):
            first, last = min(start, a["ts"]), max(end, a["ts"])
            if last - first < width and all(less(a["x"], b["y"]) for b, _ in chain):
                yield first, last, [a["x"]], [b["x"] for b, _ in chain]


def negated(rows: list[Row], width: int) -> Iterator[Found]:
    """No chain of one or more, whose conditions hold in each repetition, lies between the two."""
    for a in of_kind(rows, "A"):
        for d in of_kind(rows, "D"):
            inner = pairs(rows, False, lambda b, c: less(b["x"], c["y"]))
            between = [p for p in inner if a["ts"] < p[0]["ts"] and p[1]["ts"] < d["ts"]]
            if a["ts"] < d["ts"] < a["ts"] + width and not any(chains(between)):
                yield a["ts"], d["ts"], [a["x"], d["x"]], []


def between(rows: list[Row], width: int) -> Iterator[Found]:
    """Nothing of D lies between the first event and the chain."""
    for chain in chains(pairs(rows, False, any_pair)):
        start, end = ends(chain)
        for a in of_kind(rows, "A"):
            clear = a["ts"] < start and not lies_in(rows, "D", a["ts"], start)
            if clear and end - a["ts"] < width:
                yield a["ts"], end, [a["x"]], [b["x"] for b, _ in chain]


def inside(rows: list[Row], width: int) -> Iterator[Found]:
    """Nothing of A or D lies within a repetition."""
    free = [
        (b, c)
        for b, c in pairs(rows, False, any_pair)
        if not lies_in(rows, "A", b["ts"], c["ts"]) and not lies_in(rows, "D", b["ts"], c["ts"])
    ]
    for chain in chains(free):
        start, end = ends(chain)
        if end - start < width:
            yield start, end, [], [b["x"] for b, _ in chain]


PLACES = {
    "AND(A a, (SEQ(B b, C c))+ g) WHERE a.x < b.y {key} RETURN a.x, b.x": beside,
    "SEQ(A a, !(SEQ(B b, C c))+ g, D d) WHERE b.x < c.y {key} RETURN a.x, d.x": negated,
    "SEQ(A a, !D n, (SEQ(B b, C c))+ g) {key} RETURN a.x, b.x": between,
    "(SEQ(B b, !A n, !D m, C c))+ g {key} RETURN b.x": inside,
}
WIDTHS = st.sampled_from((3, 5, 7, 10, 14))


@given(ROWS, st.sampled_from(list(PLACES)), st.booleans(), WIDTHS)
@settings(max_examples=150, deadline=None)
def test_a_chain_in_its_place(rows: list[Row], place: str, keyed: bool, width: int) -> None:
    text = place.format(key="PARTITION BY k" if keyed else "")
    workload = load_bound(document(f"QUERY q PATTERN {text} WITHIN {width} ms"))
    wanted = Counter(
        repr(found) for part in in_partitions(rows, keyed) for found in PLACES[place](part, width)
    )
    events = events_of(workload, rows)
    for results in (run_oracle(workload, events), run_local(workload, events, how=How())):
        found: Counter[str] = Counter()
        for row in results.matches.to_pylist():
            match = json.loads(row["match"])
            outside = [match[alias]["x"] for alias in ("a", "d") if alias in match]
            group = [each["b_x"] for each in match.get("g", ())]
            found[repr((row["start"], row["end"], outside, group))] += 1
        assert found == wanted


@given(ROWS, st.sampled_from(list(PLACES)), WIDTHS, st.sampled_from((1, 7)))
@settings(max_examples=25, deadline=None)
def test_in_slices(rows: list[Row], place: str, width: int, size: int) -> None:
    workload = load_bound(document(f"QUERY q PATTERN {place.format(key='')} WITHIN {width} ms"))
    check((workload, rows), SliceSize(size, False), 3)


@given(ROWS, st.sampled_from(list(PLACES)), WIDTHS, st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=25, deadline=None)
def test_live_with_restarts(rows: list[Row], place: str, width: int, cuts: list[int]) -> None:
    workload = load_bound(document(f"QUERY q PATTERN {place.format(key='')} WITHIN {width} ms"))
    check_live((workload, rows), cuts)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SEQ((SEQ(B b, C c))+ g, !D n) RETURN b.x", "ends with a negation"),
        ("AND(B a, (SEQ(B b, C c))+ g) RETURN a.x", "may be 'a' too"),
        ("AND(ANY a, (SEQ(B b, C c))+ g) RETURN a.x", "may be 'a' too"),
        ("AND((SEQ(A a, B e))+ h, (SEQ(B b, C c))+ g) RETURN a.x", "may be 'e' too"),
        ("AND(Big a, (SEQ(B b, C c))+ g) RETURN a.x", "may be 'a' too"),
        ("SEQ(A a, !(SEQ(B b, C c)){2,} g, D d) RETURN a.x", "stands in a negation"),
        (
            "SEQ(A a, !(SEQ(B b, C c))+ g, D d) WHERE b.x > prev(c.x) RETURN a.x",
            "stands in a negation",
        ),
    ],
)
def test_what_events_might_be_used_twice_or_is_asked_of_several_is_refused(
    query: str, message: str
) -> None:
    said = document(f"QUERY q PATTERN {query} WITHIN 9 ms")
    said["stream"] = {
        **STREAM,
        "types": {"A": None, "B": None, "C": None, "D": None, "Big": "x > 1"},
    }
    with pytest.raises(WorkloadError, match=message) as caught:
        load_bound(said)
    assert "help: " in str(caught.value)


def test_a_negated_chain_leaves_any_strategy_to_its_query() -> None:
    """As it is what it repeats, negated."""
    text = "SEQ(A a, !(SEQ(B b, C c))+, D d) {} RETURN a.x WITHIN 9 EVENTS STRATEGY NEXT"
    one = load_bound(document(f"QUERY q PATTERN {text.format('')}", sequence=True))
    other = text.replace("(SEQ(B b, C c))+", "SEQ(B b, C c)").format("")
    assert one.queries == load_bound(document(f"QUERY q PATTERN {other}", sequence=True)).queries
