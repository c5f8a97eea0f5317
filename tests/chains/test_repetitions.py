"""`(SEQ(B b, C c))+ g`: chains of matches as they are defined, what they give, what is refused."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.explain.text import render_text
from optimizer.plan.load_plan import load_plan
from optimizer.plan.plan import to_json
from sharing.planner import make_plan
from tests.differential.test_local import events_of
from tests.differential.test_slices import multiset
from tests.running import How, run_local
from tests.strategies import Row
from workloads.errors import WorkloadError

STREAM = {"time": "ts", "type": "kind", "unit": "ms"}
Pair = tuple[Row, Row]


def document(*queries: str, sequence: bool = False) -> dict[str, Any]:
    stream = {**STREAM, "sequence": "seq"} if sequence else STREAM
    return {"name": "w", "stream": stream, "queries": list(queries)}


# --- the definition, by enumeration ---------------------------------------------------------------


def pairs(rows: list[Row], sequence: bool, fits: Callable[[Row, Row], bool]) -> list[Pair]:
    def at(row: Row) -> tuple[int, ...]:
        return (row["ts"], row["seq"]) if sequence else (row["ts"],)

    of_b = [row for row in rows if row["kind"] == "B"]
    of_c = [row for row in rows if row["kind"] == "C"]
    return [(b, c) for b in of_b for c in of_c if at(b) < at(c) and fits(b, c)]


def chains(found: list[Pair], before: tuple[Pair, ...] = ()) -> Iterator[tuple[Pair, ...]]:
    """Every non-empty choice of pairs, each wholly before the next."""
    for pair in found:
        if not before or before[-1][1]["ts"] < pair[0]["ts"]:
            yield (*before, pair)
            yield from chains(found, (*before, pair))


def in_partitions(rows: list[Row], keyed: bool) -> list[list[Row]]:
    if not keyed:
        return [rows]
    return [[row for row in rows if row["k"] == k] for k in (1, 2)]


def less(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def expected(
    rows: list[Row], keyed: bool, sequence: bool, width: int, least: int, tied: bool, rising: bool
) -> Counter[str]:
    """The rows of `SEQ(A a, (SEQ(B b, C c)){least,} g, D d)`."""
    found: Counter[str] = Counter()
    for part in in_partitions(rows, keyed):
        firsts = [row for row in part if row["kind"] == "A"]
        lasts = [row for row in part if row["kind"] == "D"]
        inner = pairs(part, sequence, lambda b, c: not tied or less(b["x"], c["y"]))
        for chain in chains(inner):
            if len(chain) < least:
                continue
            neighbours = itertools.pairwise(chain)
            if rising and not all(less(c["x"], b["x"]) for (_, c), (b, _) in neighbours):
                continue
            for a in firsts:
                if tied and not all(less(a["y"], c["x"]) for _, c in chain):
                    continue
                for d in lasts:
                    whole = a["ts"] < chain[0][0]["ts"] and chain[-1][1]["ts"] < d["ts"]
                    if whole and d["ts"] - a["ts"] < width:
                        group = [{"b_x": b["x"], "c_y": c["y"]} for b, c in chain]
                        match = {"a": {"x": a["x"]}, "g": group, "d": {"x": d["x"]}}
                        found[json.dumps([a["ts"], d["ts"], match], sort_keys=True)] += 1
    return found


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Events of which most streams have chains: an A first and a D last, B and C mostly in turn."""
    middle = draw(st.lists(st.sampled_from("BCBCBCAD"), max_size=3))
    turns = ["B", "C"] * draw(st.integers(1, 3))
    place = draw(st.integers(0, len(turns)))
    value = st.sampled_from([0, 1, 2, 1, 2, None])
    time, rows = 0, []
    for kind in ["A", *turns[:place], *middle, *turns[place:], "D"]:
        time += draw(st.sampled_from([1, 1, 1, 1, 0, 2]))
        key = draw(st.sampled_from([1, 1, 1, 1, 1, 2, None]))
        number = draw(st.integers(0, 2))
        row = {"ts": time, "kind": kind, "k": key, "x": draw(value), "y": draw(value)}
        rows.append({**row, "seq": number})
    return draw(st.one_of(st.just(rows), st.permutations(rows)))


ROWS = streams()


@given(
    ROWS, st.booleans(), st.booleans(), st.sampled_from((4, 7, 10, 14, 14)), *[st.booleans()] * 3
)
@settings(max_examples=150, deadline=None)
def test_a_chain_is_each_choice_of_matches_one_wholly_before_the_next(
    rows: list[Row],
    keyed: bool,
    sequence: bool,
    width: int,
    several: bool,
    tied: bool,
    rising: bool,
) -> None:
    conditions = ["b.x < c.y AND a.y < c.x"] * tied + ["prev(c.x) < b.x"] * rising
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    query = (
        f"QUERY q PATTERN SEQ(A a, (SEQ(B b, C c)){'{2,}' if several else '+'} g, D d) {where} "
        f"{'PARTITION BY k' if keyed else ''} RETURN a.x, b.x, c.y, d.x WITHIN {width} ms"
    )
    workload = load_bound(document(query, sequence=sequence))
    events = events_of(workload, rows)
    wanted = expected(rows, keyed, sequence, width, 2 if several else 1, tied, rising)
    for results in (run_oracle(workload, events), run_local(workload, events, how=How())):
        found = Counter(
            json.dumps([row["start"], row["end"], json.loads(row["match"])], sort_keys=True)
            for row in results.matches.to_pylist()
        )
        assert found == wanted


@given(ROWS, st.sampled_from((4, 7, 10, 14, 14)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_chains_are_counted_at_each_last_event(rows: list[Row], width: int, keyed: bool) -> None:
    key = "PARTITION BY k" if keyed else ""
    workload = load_bound(
        document(f"QUERY q PATTERN (SEQ(B b, C c))+ {key} AGG COUNT(*) WITHIN {width} ms")
    )
    wanted: Counter[tuple[Any, int]] = Counter()
    for part in in_partitions(rows, keyed):
        all_of = [(c[0][0], c[-1][1]) for c in chains(pairs(part, False, lambda b, c: True))]
        for at in {last["ts"] for _, last in all_of}:
            count = sum(at - width < b["ts"] and c["ts"] <= at for b, c in all_of)
            if count:
                wanted[part[0]["k"] if keyed else None, at] = count
    events = events_of(workload, rows)
    found = run_local(workload, events, how=How()).aggregates.to_pylist()
    assert {
        (json.loads(row["key"])["k"] if keyed else None, row["time"]): row["count"] for row in found
    } == wanted


# --- what it is like to use -----------------------------------------------------------------------

EVENTS = [
    {"ts": time, "kind": kind, "k": 1, "x": x, "y": x, "seq": time}
    for time, kind, x in [(1, "A", 9), (2, "B", 1), (3, "C", 5), (4, "B", 6), (5, "C", 7)]
]


def test_its_rows_are_for_its_query_alone() -> None:
    query = "QUERY q PATTERN (SEQ(B b, C c)){2} g RETURN b.x, c.time, g.start WITHIN 9 ms"
    workload = load_bound(document(query))
    assert [each.name for each in workload.written] == ["q"]
    assert workload.named_types == {"B", "C"}
    rows = run_local(workload, events_of(workload, EVENTS), how=How()).matches.to_pylist()
    assert [(row["query"], json.loads(row["match"])) for row in rows] == [
        (
            "q",
            {"g": [{"b_x": 1, "c_time": 3, "start": 2}, {"b_x": 6, "c_time": 5, "start": 4}]},
        )
    ]


def test_the_same_as_a_group_of_what_another_query_makes() -> None:
    short = "QUERY q PATTERN SEQ(A a, (SEQ(B b, C c))+ p) WHERE b.x < c.x AGG COUNT(*) WITHIN 9 ms"
    made = "QUERY m PATTERN SEQ(B b, C c) WHERE b.x < c.x RETURN b.x WITHIN 9 ms INTO P"
    long = "QUERY q PATTERN SEQ(A a, P+ p) AGG COUNT(*) WITHIN 9 ms"
    one, other = load_bound(document(short)), load_bound(document(made, long))
    found = run_local(one, events_of(one, EVENTS), how=How())
    rows = run_local(other, events_of(other, EVENTS), how=How()).aggregates
    assert found.aggregates.to_pylist() == rows.to_pylist() != []


def test_a_plan_shows_it_and_is_read_again() -> None:
    said = document("QUERY q PATTERN SEQ(A a, (SEQ(B b, C c))+ g) RETURN b.x WITHIN 9 ms")
    workload = load_bound(said)
    plan = make_plan(workload, said)
    text = render_text(plan)
    assert "INTO g of q" in text
    assert load_plan(to_json(plan)) == plan


@pytest.mark.parametrize(
    ("query", "message", "caret", "remedy"),
    [
        ("(SEQ(B b, C c))+ g RETURN b", "returned as a whole", "b", "b.id"),
        ("(SEQ(B b, C c))+ g RETURN *", "RETURN * stands", "*", "b.id"),
        ("(SEQ(B b, C c))+ g RETURN b.x AS y", "a value for each", "b.x", "max(b.x) AS y"),
        ("(SEQ(B b, C c))+ g RETURN g.x", "has no 'x'", "g.x", "g.start"),
        ("(SEQ(B b, C c))* g RETURN b.x", "one or more", "(SEQ(B b, C c))* g", "{n,m}"),
        ("(SEQ(B b, C c))^2 g RETURN b.x", "one or more", "(SEQ(B b, C c))^2 g", "{n,m}"),
        ("(SEQ(B b, C? c))+ g RETURN b.x", "an optional component", "C? c", "OR"),
        ("(SEQ(B b, !C c))+ g RETURN b.x", "beyond a repetition", "!C c", "SEQ"),
        ("(AND(B b, !C c, D d))+ g RETURN b.x", "beyond a repetition", "!C c", "SEQ"),
        ("(SEQ(B b, !C c, D d))+ g RETURN c.x", "does not occur", "c.x", "INTO"),
        ("(SEQ(B+ b, C c))+ g RETURN max(b.x) AS m", "a group in each", "b.x", "INTO"),
        (
            "(SEQ((SEQ(B b, C c))+ h, D d))+ g RETURN d.x",
            "in a chain",
            "(SEQ(B b, C c))+ h",
            "INTO",
        ),
        ("(B b)+ g RETURN b.x", "a single component", "(B b)+ g", "E+ e"),
        ("SEQ(A a, > (SEQ(B b, C c))+ g) RETURN b.x", "'>' stands", "(SEQ(B b, C c))+ g", "!N"),
        ("SEQ(A a, (SEQ(B a, C c))+ g) RETURN a.x", "used twice", "B a", "alias"),
        ("(SEQ(B b, C c))+ g RETURN b.x STRATEGY NEXT", "NEXT stands", "STRATEGY NEXT", "leave"),
        ("(OR(B b, C c))+ g WHERE b.x > prev(c.x) RETURN b.x", "of an OR", "b.x", "OR"),
        ("(SEQ(B b, C c))+ g AGG COUNT(*) GROUP BY b.x", "rows are split", "b.x", "GROUP BY"),
        ("(SEQ(B b, Bb c))+ g RETURN zz.x", "unknown alias 'zz'", "zz.x", "g"),
    ],
)
def test_what_is_refused_has_its_place_and_a_remedy(
    query: str, message: str, caret: str, remedy: str
) -> None:
    text = f"QUERY q PATTERN {query} WITHIN 9 ms"
    with pytest.raises(WorkloadError) as caught:
        load_bound(document(text))
    (finding,) = caught.value.diagnostics
    shown = str(caught.value)
    assert message in finding.message
    assert remedy in str(finding.hint)
    assert "query q, line 1" in shown
    assert f"{'^' * len(caret)}\n" in shown
    assert shown.splitlines()[3].index("^") - shown.splitlines()[2].index("QUERY") in [
        at for at in range(len(text)) if text.startswith(caret, at)
    ]


def test_windows_counted_in_events_are_refused() -> None:
    said = document("QUERY q PATTERN (SEQ(B b, C c))+ g RETURN b.x WITHIN 9 EVENTS", sequence=True)
    with pytest.raises(WorkloadError, match=r"a number of events stands(.|\n)*WITHIN 10 min"):
        load_bound(said)


def test_what_is_wrong_inside_is_said_of_the_query_as_written() -> None:
    attributes = {"x": "int"}
    said = document("QUERY q PATTERN SEQ(A a, (SEQ(B b, C c))+ g) RETURN b.zz WITHIN 9 ms")
    said["stream"] = {**STREAM, "attributes": attributes}
    with pytest.raises(WorkloadError) as caught:
        load_bound(said)
    assert len(caught.value.diagnostics) == 1
    assert "query q, line 1" in str(caught.value)
    assert "zz" in str(caught.value)


def test_multisets_of_equal_pairs_stay_apart() -> None:
    rows = [{**row, "ts": 2} if row["kind"] == "B" else row for row in EVENTS]
    workload = load_bound(document("QUERY q PATTERN (SEQ(B b, C c))+ g RETURN c.x WITHIN 9 ms"))
    events = events_of(workload, rows)
    found = multiset([run_local(workload, events, how=How())])
    assert found == multiset([run_oracle(workload, events)])
    assert sum(sum(each.values()) for each in found) == 4
