"""Funnels give what their definition says, however events come and whatever runs together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun, event_chunks
from engines.local.slices import SliceSize, cut
from engines.matching.passes import funnels
from engines.program import RunContext
from engines.reference.oracle import run_oracle
from engines.results.chunks import collected
from engines.results.funnel_totals import FunnelTotals, total_chunks
from optimizer.bind.binder import load_bound
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
    "place": pa.string(),
}
STREAM: dict[str, Any] = {
    "time": "ts",
    "unit": "ms",
    "type": "kind",
    "types": {"Odd": "x = 1", "Any": "x IS NULL OR x > 0"},
}
TYPES = ["A", "A", "B", "C", "Odd", "Any"]
STRICT = ["", "", "", "STRICT", "STRICT ORDER", "STRICT INCREASE", "STRICT STRICT ORDER"]
STRICT += ["STRICT ORDER STRICT INCREASE", "STRICT STRICT INCREASE"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A funnel of some steps, of any strictness, perhaps with exclusions and groups."""
    steps = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    named = [f"{kind} a{place}" for place, kind in enumerate(steps)]
    lines = [f"FUNNEL SEQ({', '.join(named)})", draw(st.sampled_from(STRICT))]
    aliases = [f"a{place}" for place in range(len(steps))]
    for number in range(draw(st.sampled_from([0, 0, 1, 2]))):
        if len(steps) > 1:
            first = draw(st.integers(0, len(steps) - 2))
            last = draw(st.integers(first + 1, len(steps) - 1))
            kind = draw(st.sampled_from(["E", "B", "Odd"]))
            lines.append(f"EXCLUDE {kind} e{number} BETWEEN a{first} AND a{last}")
            aliases.append(f"e{number}")
    if draw(st.integers(0, 2)) == 0:
        lines.append(f"WHERE {draw(st.sampled_from(aliases))}.x = 1")
    lines.append(draw(st.sampled_from(["", "PARTITION BY k", "PARTITION BY k", "WHERE [k, x]"])))
    if lines[-1].startswith("WHERE") and any(line.startswith("WHERE a") for line in lines):
        lines.pop()
    if draw(st.integers(0, 2)) == 0:
        lines.append(f"BY {draw(st.sampled_from(['a0.place', 'a0.place, a0.x', 'a0.x']))}")
    lines.append(draw(st.sampled_from(["", "", "RETURN STEPS", "RETURN LEVELS"])))
    lines.append(f"WITHIN {draw(st.integers(1, 9))} ms{draw(st.sampled_from(['', ' INCLUSIVE']))}")
    text = " ".join(filter(None, lines))
    return text if text.count("WHERE") < 2 else text.replace("WHERE [k, x]", "PARTITION BY k")


@st.composite
def streams(draw: st.DrawFn, most: int = 12) -> pa.Table:
    """Events of few keys, several at one time, in some order."""
    size = draw(st.integers(0, most))
    rows: list[dict[str, Any]] = []
    time = draw(st.integers(-3, 3))
    for number in range(size):
        time += draw(st.sampled_from([0, 0, 1, 2, 5]))
        values = st.sampled_from([1, 2, None])
        rows.append(
            {"ts": time, "seq": number, "kind": draw(st.sampled_from("AABBCCEZ"))}
            | {"k": draw(values), "x": draw(values)}
            | {"place": draw(st.sampled_from(["n", "s", None]))}
        )
    rows = draw(st.permutations(rows))
    return pa.table({name: pa.array([r[name] for r in rows], t) for name, t in COLUMNS.items()})


def bound(texts: list[str], sequenced: bool = False) -> Any:
    stream = {**STREAM, "sequence": "seq"} if sequenced else STREAM
    return load_bound({"name": "funnels", "stream": stream, "queries": texts})


@settings(max_examples=60, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=4, unique=True), streams(), st.booleans())
def test_one_pass_gives_what_the_definition_says(
    texts: list[str], table: pa.Table, sequenced: bool
) -> None:
    workload = bound(texts, sequenced)
    events = from_table(table, workload.stream)
    expected = rows_of([run_oracle(workload, events)])
    assert rows_of([run_local(workload, events)]) == expected
    assert rows_of([run_local(workload, events, how=How(sharing=False))]) == expected


@settings(max_examples=15, deadline=None)
@given(
    st.lists(queries(), min_size=1, max_size=2, unique=True),
    streams(),
    st.integers(1, 7),
    st.sampled_from([1, 7, 4096]),
)
def test_slices_give_what_the_whole_stream_does(
    texts: list[str], table: pa.Table, slice_events: int, batch: int
) -> None:
    workload = bound(texts)
    expected = run_local(workload, from_table(table, workload.stream))
    run = SlicedRun(How().program(workload), MILLISECOND)
    pieces = cut(
        batches(table.sort_by([("ts", "ascending")]), batch),
        table.schema,
        workload.stream,
        Lateness(0, True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_events, grow=False),
        run.carried,
    )
    assert rows_of([run.run(piece) for piece in pieces]) == rows_of([expected])


@settings(max_examples=15, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=3, unique=True), streams(20))
def test_keys_in_several_parts_come_to_the_same_totals(texts: list[str], table: pa.Table) -> None:
    workload = bound([text.replace("WHERE [k, x]", "PARTITION BY k") for text in texts])
    keyed = [query for query in workload.queries if query.key]
    program = How().program(workload).of_queries(query.name for query in keyed)
    expected = rows_of([run_local(workload, from_table(table, workload.stream))])
    totals, found = FunnelTotals(), []
    for key in (1, 2):
        part = table.filter(pa.compute.equal(table.column("k"), key))
        events = from_table(part, workload.stream)
        context = RunContext(funnels=FunnelTotals())
        found.append(collected(event_chunks(program, events, context), events.time_type))
        assert context.funnels is not None
        totals.merge(context.funnels)
    events = from_table(table, workload.stream)
    found.append(collected(total_chunks(keyed, totals, events), events.time_type))
    names = {query.name for query in keyed}
    kept = {row: number for row, number in expected.items() if row[0] in names}
    assert rows_of(found) == kept


def test_few_keys_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(n % 7, n, "ABC"[n % 3], n % 5) for n in range(60)]
    table = pa.table(
        {
            "ts": [n for _, n, _, _ in rows],
            "k": [k for k, *_ in rows],
            "kind": [kind for _, _, kind, _ in rows],
            "x": [x for *_, x in rows],
        }
    )
    workload = bound(["FUNNEL SEQ(A a, B b, C c) WITHIN 40 ms PARTITION BY k BY a.x"])
    events = from_table(table, workload.stream)
    expected = rows_of([run_local(workload, events)])
    monkeypatch.setattr(funnels, "_ENTRIES", 6)
    assert rows_of([run_local(workload, events)]) == expected


def test_a_live_stream_refuses_a_funnel_with_its_reason() -> None:
    workload = bound(["FUNNEL SEQ(A a, B b) WITHIN 5 ms PARTITION BY k"])
    table = pa.table({name: pa.array([], kind) for name, kind in COLUMNS.items()})
    with pytest.raises(UnsupportedError, match="known when all events are"):
        run_live(workload, [table])
