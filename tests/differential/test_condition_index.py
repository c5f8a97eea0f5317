"""Many conditions on texts at once: the index gives what each condition says by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.pattern_search import PatternPlaces
from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.engines import selection
from optimizer.ir.pattern import Symbol
from optimizer.statistics import Statistics, with_defaults
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_slices import MILLISECOND, batches
from tests.running import How, run_local

COLUMNS = {
    "ts": pa.int64(),
    "kind": pa.string(),
    "x": pa.string(),
    "y": pa.string(),
    "n": pa.int64(),
    "f": pa.float64(),
    "ok": pa.bool_(),
    "at": pa.timestamp("us"),
}
TYPES = {"Short": "length(x) < 4", "Late": "ts >= 3"}
STREAM = {"time": "ts", "unit": "ms", "type": "kind", "types": TYPES}
WORDS = ["", "a", "ab", "abc", "ABC", "bcab", "xabcx", "c\\d", "10.0.0.7", "7", None]
PATTERNS = ["a", "ab", "abc", "bc", "cab", "abcx", "10.0", ""]
texts = st.sampled_from(
    ["a.x", "a.y", "lower(a.x)", "text(a.n)", "text(a.f)", "substring(a.y, 1, 2)"]
)
patterns = st.sampled_from(PATTERNS).map(lambda word: f"'{word}'")


@st.composite
def atoms(draw: st.DrawFn) -> str:
    text = draw(texts)
    kind = draw(st.integers(0, 9))
    if kind < 4:
        operator = draw(st.sampled_from(["CONTAINS", "STARTS WITH", "ENDS WITH"]))
        negated = draw(st.sampled_from(["", "NOT "]))
        many = draw(st.lists(patterns, min_size=1, max_size=3))
        among = draw(st.sampled_from(["ANY", "ALL"]))
        listed = many[0] if len(many) == 1 else f"{among} ({', '.join(many)})"
        nocase = draw(st.sampled_from(["", " NOCASE"]))
        return f"{text} {negated}{operator} {listed}{nocase}"
    if kind < 6:
        many = draw(st.lists(patterns, min_size=1, max_size=3))
        return draw(
            st.sampled_from(
                [
                    f"{text} = {many[0]}",
                    f"{text} != {many[0]}",
                    f"{text} IN ({', '.join(many)})",
                    f"{text} NOT IN ({', '.join(many)})",
                ]
            )
        )
    return draw(
        st.sampled_from(
            [
                f"{text} LIKE '%b_%'",
                f"{text} LIKE '%abc%'",
                f"{text} LIKE '_abc%'",
                f"{text} LIKE ANY ('%bca%', 'xab%cx', '10._._')",
                f"{text} LIKE ALL ('%abc%', '%bcx')",
                f"{text} NOT LIKE '%abc_'",
                f"{text} MATCHES '^[a-c]+$'",
                f"{text} IS NULL",
                "a.at IS NOT NULL",
                "a.x = a.y",
                "lower(a.x) CONTAINS a.y",
                "a.n > 3",
                "a.f <= 0.5",
                "a.ok = TRUE",
                "a.x IN CIDR ('10.0.0.0/8')",
                "number(a.y) >= 7",
                "a.x < 'b'",
                "length(a.x) = a.n",
            ]
        )
    )


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda part: f"NOT ({part})"),
        several.map(lambda parts: "(" + " AND ".join(parts) + ")"),
        several.map(lambda parts: "(" + " OR ".join(parts) + ")"),
    )


conditions = st.recursive(atoms(), combined, max_leaves=6)


@st.composite
def workloads(draw: st.DrawFn) -> Any:
    asked = draw(st.lists(conditions, min_size=1, max_size=6))
    queries = []
    for place, condition in enumerate(asked):
        kind = draw(st.sampled_from(["A", "Short", "Late"]))
        returned = "a.ts, a.x, 'seen' AS said" if place % 2 else "a"
        queries.append(f"PATTERN {kind} a WHERE {condition} RETURN {returned} WITHIN 1 ms")
        if place == 0:  # two events, of which one speaks of texts
            pattern = f"SEQ({kind} a, A b) WHERE {condition} AND b.n > 1"
            queries.append(f"PATTERN {pattern} RETURN a.x, b.n WITHIN 3 ms")
            queries.append(f"PATTERN {pattern} AGG COUNT(*) WITHIN 3 ms")
    return load_bound({"name": "w", "stream": STREAM, "queries": queries})


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 12))
    numbers = st.sampled_from([1, 3, 7, None])
    rows = [
        {
            "ts": place // 2,
            "kind": draw(st.sampled_from("AAB")),
            "x": draw(st.sampled_from(WORDS)),
            "y": draw(st.sampled_from(WORDS)),
            "n": draw(numbers),
            "f": draw(st.sampled_from([0.5, 7.0, None])),
            "ok": draw(st.sampled_from([True, False, None])),
            "at": draw(st.sampled_from([0, None])),
        }
        for place in range(size)
    ]
    return pa.table({name: pa.array([r[name] for r in rows], t) for name, t in COLUMNS.items()})


@settings(max_examples=80, deadline=None)
@given(workloads(), streams())
def test_all_conditions_together_hold_where_each_does(workload: Any, table: pa.Table) -> None:
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected


@settings(max_examples=25, deadline=None)
@given(workloads(), streams(), st.integers(1, 7), st.integers(1, 5))
def test_slices_give_what_the_whole_stream_does(
    workload: Any, table: pa.Table, slice_events: int, batch: int
) -> None:
    expected = run_oracle(workload, from_table(table, workload.stream))
    run = SlicedRun(How().program(workload), MILLISECOND)
    pieces = cut(
        batches(table, batch),
        table.schema,
        workload.stream,
        Lateness(0, True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_events, grow=False),
        run.carried,
    )
    assert rows_of([run.run(piece) for piece in pieces]) == rows_of([expected])


@settings(max_examples=15, deadline=None)
@given(workloads(), streams(), st.lists(st.integers(-2, 8), max_size=4))
def test_a_live_stream_gives_what_the_stored_one_does(
    workload: Any, table: pa.Table, cuts: list[int]
) -> None:
    expected = run_oracle(workload, from_table(table, workload.stream))
    assert rows_of(run_live(workload, batches_of(table, cuts))) == rows_of([expected])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["", "a", "aa", "aaa", "aab", "ba", "ä", "äa", None]), max_size=8),
    st.lists(st.text("abä", min_size=1, max_size=4), max_size=6, unique=True),
    st.integers(0, 3),
)
def test_texts_side_by_side_are_searched_one_by_one(
    words: list[str | None], sought: list[str], first: int
) -> None:
    texts = pa.array(words, pa.string()).slice(min(first, len(words)))
    places = PatternPlaces(texts, sought)
    tests: dict[str, Any] = {
        "CONTAINS": lambda text, word: word in text,
        "STARTS WITH": str.startswith,
        "ENDS WITH": str.endswith,
        "=": str.__eq__,
    }
    for operator, holds in tests.items():
        for word in sought:
            wanted = [
                place
                for place, text in enumerate(texts.to_pylist())
                if text is not None and holds(text, word)
            ]
            assert places.having(operator, word).tolist() == wanted


def test_a_part_of_the_events_has_its_own_instances() -> None:
    workload = load_bound(
        {"stream": STREAM, "queries": ["PATTERN A a WHERE a.x CONTAINS 'abc' RETURN a WITHIN 1 ms"]}
    )
    words = ["abc", "b", "xabc", "abc"]
    table = pa.table({"ts": [1, 2, 3, 4], "kind": ["A", "A", "B", "A"], "x": words})
    columns = Columns(workload, from_table(table, workload.stream))
    (symbol,) = {event.symbol for query in workload.queries for event in [query.pattern]}
    assert columns.instance_rows(symbol).tolist() == [0, 3]
    assert columns.part(1, 4).instance_rows(symbol).tolist() == [2]
    assert columns.number(symbol) == 2
    assert columns.part(1, 4).number(symbol) == 1
    assert columns.number(Symbol("B")) == 1


@pytest.mark.parametrize(
    ("query", "taken"),
    [
        ("PATTERN A a RETURN a WITHIN 1 ms", True),
        ("PATTERN A a WHERE a.x CONTAINS 'b' RETURN a.x WITHIN 1 ms", True),
        ("PATTERN A+ a RETURN a WITHIN 1 ms", False),
        ("PATTERN A a PARTITION BY x RETURN a WITHIN 1 ms", False),
        ("PATTERN A a WHERE a.n = 3 PARTITION BY n RETURN a WITHIN 1 ms", False),
        ("PATTERN A a RETURN a WITHIN SESSION 1 ms", False),
        ("PATTERN A a RETURN a WITHIN 1 ms SUPPRESS 5 ms", False),
        ("PATTERN A a RETURN a WITHIN 1 ms LIMIT 3", False),
        ("PATTERN A a AGG COUNT(*) WITHIN 1 ms", False),
        ("PATTERN SEQ(A a, A b) RETURN a WITHIN 1 ms", False),
    ],
)
def test_only_single_events_are_selected(query: str, taken: bool) -> None:
    (bound,) = load_bound({"stream": STREAM, "queries": [query]}).queries
    assert (selection.refusal(bound) is None) == taken


def test_a_plan_says_how_often_conditions_are_asked_for() -> None:
    queries = [
        f"PATTERN A a WHERE a.x CONTAINS 'abc' AND NOT a.y ENDS WITH '{end}' RETURN a WITHIN 1 ms"
        for end in ("b", "c")
    ]
    plan = How().plan(load_bound({"stream": STREAM, "queries": queries}))
    (tests,) = (operator for operator in plan.operators if operator.kind == "conditions")
    assert tests.detail["of_texts"] == {"conditions": 3, "asked": 4, "attributes": 2}
    assert {group.engine for group in plan.groups} == {"selection"}


def test_a_slow_stream_costs_no_more_than_its_events() -> None:
    query = "PATTERN A a WHERE a.x CONTAINS 'abc' RETURN a WITHIN 1 ms"
    queries = load_bound({"stream": STREAM, "queries": [query]}).queries
    fast, slow = (
        selection.cost(queries, with_defaults(Statistics(rates={"A": rate}), queries))
        for rate in (1000.0, 0.001)
    )
    assert slow * 1_000_000 == pytest.approx(fast)
