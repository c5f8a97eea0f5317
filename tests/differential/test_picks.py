"""SUPPRESS and KEEP give what their definitions say, on every engine and slice."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.differential.test_latest import STREAM, streams
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_slices import MILLISECOND, batches
from tests.running import How, run_local
from workloads.errors import UnsupportedError, WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query that gives only some of its matches."""
    kept = draw(st.lists(st.tuples(st.sampled_from(["FIRST", "LAST"]), st.integers(1, 4))))
    suppress = draw(st.integers(1, 9)) if not kept or draw(st.booleans()) else None
    pattern = draw(
        st.sampled_from(["SEQ(A a, B b)", "SEQ(A a, B b, !C c)", "A a", "SEQ(A a, A b)"])
    )
    lines = [f"PATTERN {pattern} RETURN a.seq, a.x"]
    latest = draw(st.booleans())
    if latest:
        lines.append("STRATEGY LATEST")
        if draw(st.booleans()):
            named = [f"{alias}.x" for alias in "abc" if f" {alias}" in pattern]
            lines.append(f"PARTITION BY ({', '.join(named)}) AS both")
    elif pattern != "A a" and draw(st.booleans()):
        lines.append(f"STRATEGY {draw(st.sampled_from(['NEXT', 'STRICT']))}")
    if not kept and draw(st.booleans()):
        lines.append("PARTITION BY k" if "PARTITION" not in lines[-1] else "")
    if suppress is not None:
        lines.append(f"SUPPRESS {suppress} ms")
    if kept:
        lines.append("KEEP " + ", ".join(f"{end} {number}" for end, number in kept))
    lines.append(f"WITHIN {draw(st.integers(1, 9))} ms")
    return " ".join(filter(None, lines))


def bound(*texts: str) -> Any:
    return load_bound({"name": "picks", "stream": STREAM, "queries": list(texts)})


@settings(max_examples=80, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=3, unique=True), streams(), st.integers(1, 7))
def test_engines_and_slices_give_what_the_definition_says(
    texts: list[str], table: pa.Table, slice_events: int
) -> None:
    workload = bound(*texts)
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected
    assert rows_of([run_local(workload, events, how=How(sharing=False))]) == expected
    run = SlicedRun(How().program(workload), MILLISECOND)
    ordered = table.sort_by([("ts", "ascending"), ("seq", "ascending")])
    pieces = cut(
        batches(ordered, 3),
        table.schema,
        workload.stream,
        Lateness(0, True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_events, grow=False),
        run.carried,
    )
    assert rows_of([run.run(piece) for piece in pieces]) == expected


@given(queries())
def test_a_query_is_printed_as_it_is_read(text: str) -> None:
    query = parse_query(text)
    assert parse_query(print_query(query)) == query


TABLE = pa.table(
    {
        "ts": [0, 4, 9, 10, 11, 30],
        "seq": [1, 2, 3, 4, 5, 6],
        "kind": ["A"] * 6,
        "k": [1, 1, 1, 1, 2, 1],
    }
)


def matches(text: str) -> list[dict[str, Any]]:
    workload = bound(text)
    found = run_local(workload, from_table(TABLE, workload.stream)).matches
    return sorted(map(json.loads, found.column("match").to_pylist()), key=lambda m: m["a"]["seq"])


def test_a_match_suppresses_others_of_its_key_for_a_while_and_says_how_many() -> None:
    found = matches("PATTERN A a PARTITION BY k RETURN a.seq SUPPRESS 10 ms WITHIN 1 ms")
    assert [(m["a"]["seq"], m["suppressed"]) for m in found] == [(1, 2), (4, 0), (5, 0), (6, 0)]


def test_kept_are_matches_in_the_order_in_which_they_come() -> None:
    found = matches("PATTERN A a RETURN a.seq KEEP FIRST 4, LAST 2 WITHIN 1 ms")
    assert [m["a"]["seq"] for m in found] == [3, 4]
    found = matches("PATTERN A a RETURN a.seq SUPPRESS 10 ms KEEP LAST 2 WITHIN 1 ms")
    assert [(m["a"]["seq"], m["suppressed"]) for m in found] == [(4, 1), (6, 0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PATTERN A a AGG COUNT(*) SUPPRESS 1 ms WITHIN 1 ms", "SUPPRESS goes with RETURN"),
        ("PATTERN A a RETURN a SUPPRESS 0 ms WITHIN 1 ms", "a time of SUPPRESS of 0 ms"),
        ("PATTERN A a RETURN a SUPPRESS 3 EVENTS WITHIN 1 ms", "SUPPRESS takes a time"),
        ("PATTERN A a RETURN a KEEP MOST 3 WITHIN 1 ms", "KEEP takes FIRST or LAST, not 'MOST'"),
        ("PATTERN A a RETURN a KEEP FIRST 0 WITHIN 1 ms", "KEEP takes a whole number from 1"),
        ("PATTERN A a PARTITION BY k RETURN a KEEP LAST 1 WITHIN 1 ms", "the matches of all keys"),
        (
            "PATTERN A a RETURN a.x AS suppressed SUPPRESS 1 ms WITHIN 1 ms",
            "'suppressed' is what SUPPRESS returns",
        ),
        (
            "PATTERN JOIN(A a WITHIN 1 ms, B b WITHIN 1 ms) RETURN a SUPPRESS 1 ms",
            "SUPPRESS is not taken with JOIN and SESSION",
        ),
    ],
)
def test_what_they_do_not_take_is_said(text: str, said: str) -> None:
    with pytest.raises(WorkloadError) as error:
        bound(f"QUERY q {text}")
    assert said in str(error.value)


def test_keep_is_refused_over_live_streams() -> None:
    workload = bound("QUERY q PATTERN A a RETURN a SUPPRESS 1 ms KEEP FIRST 2 WITHIN 1 ms")
    with pytest.raises(UnsupportedError, match="query q cannot run over a live stream: which of"):
        run_live(workload, [])


@pytest.mark.parametrize(
    "clauses",
    [
        "RETURN b.x LIMIT 1",
        "STRATEGY NEXT AFTER MATCH SKIP PAST LAST EVENT RETURN b.x",
        "PARTITION BY (a.y, b.y) AS k STRATEGY STRICT AFTER MATCH SKIP PAST LAST EVENT RETURN b.x",
    ],
)
def test_what_is_written_of_simultaneous_matches_decides_before_any_is_suppressed(
    clauses: str,
) -> None:
    query = f"QUERY q PATTERN SEQ(A a, B b) {clauses} SUPPRESS 5 ms WITHIN 9 ms"
    document = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": document, "queries": [query]})
    shown = [(0, "A", 0), (1, "B", 2), (1, "B", 1), (2, "A", 0), (3, "B", 4), (3, "B", 3)]
    rows = [{"ts": time, "kind": kind, "x": x, "y": 0} for time, kind, x in shown]
    events = from_table(pa.Table.from_pylist(rows), workload.stream)
    found = run_local(workload, events).matches.to_pylist()
    assert found == run_oracle(workload, events).matches.to_pylist()
    assert [row["match"] for row in found] == ['{"b":{"x":1},"suppressed":1}']
