"""STRATEGY LATEST gives what its definition says, on every engine, slice and live batch."""

from __future__ import annotations

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
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_slices import MILLISECOND, batches
from tests.running import How, run_local
from workloads.errors import UnsupportedError

COLUMNS = {
    "ts": pa.int64(),
    "seq": pa.int64(),
    "kind": pa.string(),
    "k": pa.int64(),
    "x": pa.int64(),
    "y": pa.int64(),
}
STREAM = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"}
values = st.sampled_from([1, 2, None])


@st.composite
def queries(draw: st.DrawFn, bounded: bool) -> str:
    """A query with some stages, negations between them, and keys of every kind."""
    count = draw(st.integers(1, 4))
    kinds = draw(st.lists(st.sampled_from("ABC"), min_size=count, max_size=count))
    together = not bounded and count > 1 and draw(st.integers(0, 3)) == 0
    windowed = bounded or (not together and draw(st.booleans()))
    within = draw(st.integers(1, 9)) if windowed else None
    parts = []
    for place, kind in enumerate([*kinds, ""]):
        inside = not together and (0 < place < count or within is not None)
        if inside and draw(st.integers(0, 4)) == 0:
            parts.append(f"!{draw(st.sampled_from('ABU'))} n{place}")
        if kind:
            parts.append(f"{kind} a{place}")
    aliases = [part.split()[1] for part in parts]
    lines = [f"PATTERN {'AND' if together else 'SEQ'}({', '.join(parts)})"]
    if not together and draw(st.booleans()):
        lines.append("UNTIL U u")
        aliases.append("u")
    asked = [f"{draw(st.sampled_from(aliases))}.x = 1"] if draw(st.booleans()) else []
    for place in range(1, count):
        if not together and draw(st.booleans()):  # a condition that ties a stage to one before it
            other = f"a{draw(st.integers(0, place - 1))}"
            asked.append(f"a{place}.x {draw(st.sampled_from(['=', '<=', '!=']))} {other}.y")
    if asked:
        lines.append("WHERE " + " AND ".join(asked))
    keys = draw(st.sampled_from([[], ["k"]]))
    if draw(st.booleans()):
        columns = [f"{alias}.{draw(st.sampled_from('xy'))}" for alias in aliases]
        optional = draw(st.sampled_from(["", " OPTIONAL"]))
        keys = [*keys, f"({', '.join(columns)}) AS both{optional}"]
    if keys:
        lines.append(f"PARTITION BY {', '.join(keys)}")
    events = ", ".join(f"a{place}" for place in range(count))
    lines += ["STRATEGY LATEST", f"RETURN [{events}] AS events, a0.seq"]
    if within is not None:
        lines.append(f"WITHIN {within} ms{draw(st.sampled_from(['', ' INCLUSIVE']))}")
    return " ".join(lines)


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    """Events with several at one time, in some order."""
    size = draw(st.integers(0, 14))
    steps = draw(st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=size, max_size=size))
    rows: list[dict[str, Any]] = []
    time = 0
    for number, step in enumerate(steps):
        time += step
        kind = draw(st.sampled_from("AABBCU"))
        rows.append(
            {"ts": time, "seq": number, "kind": kind, "k": draw(values), "x": draw(values)}
            | {"y": draw(values)}
        )
    rows = draw(st.permutations(rows))
    return pa.table({name: pa.array([r[name] for r in rows], t) for name, t in COLUMNS.items()})


def bound(texts: list[str]) -> Any:
    return load_bound({"name": "latest", "stream": STREAM, "queries": texts})


@settings(max_examples=80, deadline=None)
@given(st.lists(queries(bounded=False), min_size=1, max_size=3, unique=True), streams())
def test_one_pass_gives_what_the_definition_says(texts: list[str], table: pa.Table) -> None:
    workload = bound(texts)
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected
    assert rows_of([run_local(workload, events, how=How(sharing=False))]) == expected


@settings(max_examples=40, deadline=None)
@given(
    st.lists(queries(bounded=False), min_size=1, max_size=2, unique=True),
    streams(),
    st.integers(1, 7),
    st.integers(1, 5),
)
def test_slices_give_what_the_whole_stream_does(
    texts: list[str], table: pa.Table, slice_events: int, batch: int
) -> None:
    workload = bound(texts)
    expected = run_local(workload, from_table(table, workload.stream))
    run = SlicedRun(How().program(workload), MILLISECOND)
    ordered = table.sort_by([("ts", "ascending"), ("seq", "ascending")])
    pieces = cut(
        batches(ordered, batch),
        table.schema,
        workload.stream,
        Lateness(0, True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_events, grow=False),
        run.carried,
    )
    assert rows_of([run.run(piece) for piece in pieces]) == rows_of([expected])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(queries(bounded=True), min_size=1, max_size=2, unique=True),
    streams(),
    st.lists(st.integers(-2, 20), max_size=5),
)
def test_a_live_stream_restarted_after_each_batch_gives_the_same(
    texts: list[str], table: pa.Table, cuts: list[int]
) -> None:
    workload = bound(texts)
    expected = run_local(workload, from_table(table, workload.stream))
    assert rows_of(run_live(workload, batches_of(table, cuts))) == rows_of([expected])


def test_simultaneous_events_of_one_key_have_no_order() -> None:
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                "QUERY q PATTERN SEQ(A a, B b) STRATEGY LATEST PARTITION BY k RETURN a WITHIN 5 ms"
            ],
        }
    )
    table = pa.table({"ts": [1, 1, 2], "kind": ["A", "B", "B"], "k": [1, 1, 1]})
    with pytest.raises(UnsupportedError, match=r"query q: two events of one key have the time 1"):
        run_local(workload, from_table(table, workload.stream))
    apart = table.set_column(2, "k", [[1, 2, 1]])
    found = run_local(workload, from_table(apart, workload.stream))
    assert found.matches.num_rows == 1


def test_a_query_without_a_window_is_no_live_query() -> None:
    workload = bound(["QUERY q PATTERN SEQ(A a, B b) STRATEGY LATEST RETURN a"])
    with pytest.raises(UnsupportedError, match="query q cannot run over a live stream: it has no"):
        run_live(workload, [])
