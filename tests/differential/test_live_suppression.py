"""SUPPRESS over a live stream gives what it gives over stored events, whatever the batches, the
restarts and the order in which events come.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.live.run import LiveRun
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.differential.test_continued import batches_of
from tests.differential.test_latest import STREAM, streams
from tests.differential.test_live import rows_of
from tests.differential.test_slices import MILLISECOND
from tests.running import How, generation_of


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query that leaves matches out; of some it is known late that they are matches."""
    pattern = draw(
        st.sampled_from(
            [
                "A a",
                "SEQ(A a, B b)",
                "SEQ(A a, B b, !C c)",
                "SEQ(A a, !C c)",
                "SEQ(A a, B? b, C c)",
                "OR(A a, SEQ(B b, C c))",
                "SEQ(A a, A+ b)",
            ]
        )
    )
    returned = [f"{alias}.x" for alias in "abc" if f" {alias}" in pattern.split("!")[0]]
    lines = [f"PATTERN {pattern} RETURN {', '.join(returned)}"]
    strategy = (
        draw(st.sampled_from(["", "NEXT", "STRICT"])) if pattern.startswith("SEQ(A a, B b") else ""
    )
    if strategy:
        lines.append(f"STRATEGY {strategy}")
        if draw(st.booleans()):
            lines.append("AFTER MATCH SKIP PAST LAST EVENT")
    elif draw(st.booleans()):
        lines.append(f"LIMIT {draw(st.integers(1, 2))}")
    if draw(st.booleans()):
        lines.append("PARTITION BY k")
    lines.append(f"SUPPRESS {draw(st.integers(1, 9))} ms")
    lines.append(f"WITHIN {draw(st.integers(1, 6))} ms")
    return " ".join(lines)


def bound(*texts: str) -> Any:
    return load_bound({"name": "live", "stream": STREAM, "queries": list(texts)})


def in_batches(workload: Any, parts: list[tuple[pa.Table, int | None]], restart: bool) -> Any:
    """The rows of each batch; with `restart` another run goes on with what is saved, as bytes."""
    program = How().program(workload)
    live, found = LiveRun(program, MILLISECOND), []
    for table, until in parts:
        found.append(live.add(from_table(table, workload.stream), until))
        if restart:
            state = live.save()
            live = LiveRun(program, MILLISECOND)
            live.restore(state)
        else:
            live.recall(live.memory())
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.lists(queries(), min_size=1, max_size=3, unique=True),
    streams(),
    st.lists(st.integers(-2, 30), max_size=9) | st.just(list(range(-2, 30))),
    st.booleans(),
)
def test_any_batches_and_restarts_give_the_rows_of_stored_events(
    texts: list[str], table: pa.Table, cuts: list[int], restart: bool
) -> None:
    workload = bound(*texts)
    expected = rows_of([run_oracle(workload, from_table(table, workload.stream))])
    assert rows_of(in_batches(workload, batches_of(table, cuts), restart)) == expected


def alerts(kinds: str) -> pa.Table:
    """An event of a kind for each letter; at a dot none."""
    shown = [(time, kind) for time, kind in enumerate(kinds) if kind != "."]
    table = {
        "ts": [t for t, _ in shown],
        "seq": [t for t, _ in shown],
        "kind": [k for _, k in shown],
    }
    return pa.table(table | {"k": [1] * len(shown), "x": [t for t, _ in shown]})


def suppressed(rows: Any) -> dict[int, list[tuple[int, int]]]:
    """By batch, the events of its matches, and how many were left out for each."""
    found = {}
    for number, part in enumerate(rows):
        given = [json.loads(text) for text in part.matches.column("match").to_pylist()]
        if given:
            found[number] = [(match["a"]["x"], match["suppressed"]) for match in given]
    return found


QUERY = "QUERY q PATTERN A a RETURN a.x SUPPRESS 10 ms WITHIN 1 ms"


def test_a_match_is_given_when_its_time_is_over_and_says_how_many_were_left_out() -> None:
    table = alerts("A.A.......A..")
    parts = [(table.filter(pc.equal(table["ts"], t)), t) for t in range(30)]
    found = suppressed(in_batches(bound(QUERY), parts, restart=True))
    assert found == {9: [(0, 1)], 19: [(10, 0)]}  # one at time 9 would be left out for the first


def test_a_bucket_has_a_turn_when_a_match_is_to_be_given_though_nothing_comes() -> None:
    table = alerts("A.A")
    bucket = Bucket({"0": generation_of(bound(QUERY))}, table.schema, MILLISECOND)
    turn = bucket.turn(None, [table], None)
    turn = bucket.turn(turn.state, [], 2)
    assert (turn.results.matches.num_rows, turn.due) == (0, 9)
    turn = bucket.turn(turn.state, [], 9)
    assert suppressed([turn.results]) == {0: [(0, 1)]}
    assert (turn.state, turn.due) == (None, None)


@settings(max_examples=60, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=3, unique=True), streams(), st.integers(-2, 20))
def test_queries_that_are_called_otherwise_and_run_by_another_plan_go_on(
    texts: list[str], table: pa.Table, moment: int
) -> None:
    old = bound(*(f"QUERY old{n} {text}" for n, text in enumerate(texts)))
    new = bound(*(f"QUERY new{n} {text}" for n, text in reversed(list(enumerate(texts)))))
    (before, until), (after, _) = batches_of(table, [moment])
    live, gone_on = (
        LiveRun(How().program(old), MILLISECOND),
        LiveRun(How(sharing=False).program(new), MILLISECOND),
    )
    found = rows_of([live.add(from_table(before, old.stream), until)])
    gone_on.restore(live.save())
    rest = rows_of([gone_on.add(from_table(after, new.stream), None)])
    expected = rows_of([run_oracle(new, from_table(table, new.stream))])
    named = {(name.replace("old", "new"), *row): n for (name, *row), n in found.items()}
    assert Counter(named) + rest == expected


def test_the_default_of_a_workload_holds_in_a_live_stream() -> None:
    query = QUERY.replace("SUPPRESS 10 ms ", "")
    workload = load_bound({"name": "w", "stream": STREAM, "suppress": "10 ms", "queries": [query]})
    table = alerts("A.A.......A..")
    assert suppressed(in_batches(workload, [(table, 10), (table.slice(0, 0), None)], True)) == {
        0: [(0, 1)],
        1: [(10, 0)],
    }
