"""Counters that are kept between batches change no row, whatever the cuts and restarts."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting import kept_units
from engines.counting.kept import KeptCounters
from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.local.run import run_events
from engines.program import bound_program
from engines.reference import run
from optimizer.bind.binder import load_bound
from tests import strategies
from tests.differential.test_continued import batches_of, stream
from tests.differential.test_counting import comparable, table_of
from tests.differential.test_counting_engines import CHAINS
from tests.differential.test_live import rows_of
from tests.differential.test_live_engines import (
    MILLISECOND,
    QUERIES,
    STREAM,
    by_setting,
    cases,
    counted_only,
)
from tests.differential.test_live_memory import going_on
from tests.running import counting_plan

ENGINES = ["product", "aseq", "pretree", "chopconnect"]
cut_times = st.lists(st.integers(-2, 14), min_size=2, max_size=10)
restarts = st.lists(st.booleans(), min_size=11, max_size=11)


@settings(max_examples=100, deadline=None)
@given(
    cases(CHAINS, max_size=20),
    cut_times,
    restarts,
    st.lists(st.sampled_from(ENGINES), min_size=3, max_size=3),
    st.lists(st.sampled_from(ENGINES), min_size=3, max_size=3),
    st.integers(1, 4),
)
def test_any_engines_and_changes_of_plan_give_the_rows_of_the_reference(
    case, cuts, restarted, engines, others, every
):
    workload, rows = counted_only(case[0]), case[1]
    if not rows or not workload.queries:
        return
    first, second = (
        bound_program(counting_plan(workload, by_setting(workload, some), 2), workload)
        for some in (engines, others)
    )
    table = table_of(rows, strategies.has_sequence(workload))
    found = going_on([first] * every + [second] * every, batches_of(table, cuts), restarted)
    rows_found = [row for part in found for row in part.aggregates.to_pylist()]
    assert comparable(rows_found) == comparable(run(workload, rows))


@pytest.mark.parametrize("slide", ["", " SLIDE 7 ms"])
@pytest.mark.parametrize("key", ["", "PARTITION BY k "])
@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("product", "_Reversible"),
        ("product", "KeptProduct"),
        ("aseq", "_Prefixes"),
        ("aseq", "KeptProduct"),
        ("pretree", "_Prefixes"),
    ],
)
def test_counters_are_kept_from_batch_to_batch(engine, kind, key, slide):
    queries = [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*)",
        "QUERY two PATTERN SEQ(A a, C c) AGG COUNT(*) HAVING COUNT(*) > 1",
    ]
    if kind != "_Reversible":
        queries.append("QUERY three PATTERN SEQ(A a, !D, C c) AGG COUNT(*)")
    if kind == "KeptProduct":
        queries.append("QUERY four PATTERN SEQ(A a, !D, B b, C c) AGG SUM(a.x), MAX(b.y)")
    document = {
        "stream": STREAM,
        "queries": [q.replace("AGG", f"{key}AGG") + f" WITHIN 20 ms{slide}" for q in queries],
    }
    workload = load_bound(document)
    names = [query.name for query in workload.queries]
    program = bound_program(counting_plan(workload, [(names, engine)]), workload)
    table = stream()
    whole = run_events(program, from_table(table, workload.stream)).aggregates.to_pylist()
    cuts = list(range(-5, 210, 5))
    parts = batches_of(table, cuts)
    part = getattr(kept_units, kind)
    with mock.patch.object(part, "advance", autospec=True, side_effect=part.advance) as advanced:
        found = going_on([program], parts, [False])
    assert comparable([r for p in found for r in p.aggregates.to_pylist()]) == comparable(whole)
    assert len(whole) > 50
    # Each batch but the first, that with the first letters of a kind, and those without counters.
    assert advanced.call_count > len(parts) * 0.7


def test_a_state_is_the_same_with_and_without_counters_that_are_kept():
    query = f"{QUERIES[3]} PARTITION BY k WITHIN 20 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    program = bound_program(counting_plan(workload, [(["four"], "product")]), workload)
    parts = batches_of(stream(), list(range(0, 100, 3)))[:-1]
    kept, anew = LiveRun(program, MILLISECOND), LiveRun(program, MILLISECOND)
    for table, until in parts:
        events = from_table(table, workload.stream)
        given = [run.add(events, until) for run in (kept, anew)]
        assert rows_of(given[:1]) == rows_of(given[1:])
        assert kept.held.keys() == anew.held.keys()
        assert kept.due == anew.due
        assert [s.events for s in kept.held.values()] == [s.events for s in anew.held.values()]
        anew.restore(anew.save())
    held = kept.held
    kept.restore(kept.save())
    assert kept.held.keys() == held.keys()
    assert [s.events for s in kept.held.values()] == [s.events for s in held.values()]


PATTERNS = ["SEQ(A a, B b)", "SEQ(A a, B b, C c)", "SEQ(B b, A a, C c)", "SEQ(A a, C c)"]
NEGATED = ["SEQ(A a, !D, C c)", "SEQ(A a, B b, !D, C c)"]


@st.composite
def several_windows(draw):
    """Queries of one key, most with windows and slides of their own, and engines that keep."""
    engine = draw(st.sampled_from(["product", "panes", "aseq", "pretree", "mixed"]))
    patterns = PATTERNS + NEGATED
    slides = [" SLIDE 3 ms", " SLIDE 7 ms"] + [""] * (engine != "panes")
    key = draw(st.sampled_from(["", "PARTITION BY k "]))
    queries, groups = [], {}
    for number in range(draw(st.integers(1, 4))):
        width = draw(st.sampled_from([4, 9, 20]))
        slide = draw(st.sampled_from(slides))
        pattern = draw(st.sampled_from(patterns))
        own, values = engine, ["", ", SUM(a.x), MAX(a.y)"]
        if engine == "mixed":
            own = draw(st.sampled_from(["pretree", "aseq", "sem", "chopconnect"]))
            values = ["", ", AVG(a.y), MIN(a.x)"]
            if number == 0:  # of which nothing is kept
                own, pattern = "product", "SEQ(A+ a, C c)"
                values = [", SUM(a.x)"]
        agg = f"AGG COUNT(*){draw(st.sampled_from(values))}"
        queries.append(f"QUERY q{number} PATTERN {pattern} {key}{agg} WITHIN {width} ms{slide}")
        groups.setdefault(own, []).append(f"q{number}")
    return queries, [(names, own) for own, names in groups.items()]


def long_streams(size):
    """Events with ties and gaps, of some keys that stay and some that never come back."""
    event = st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 30]), st.sampled_from("ABCDE"), st.integers(0, 2)
    )

    def rows(found):
        time, events = 0, []
        for number, (step, kind, key) in enumerate(found):
            time += step
            own = 100 + number if number % 11 == 0 else key
            events.append({"ts": time, "kind": kind, "k": own, "x": number % 7, "y": number % 3})
        return events

    return st.lists(event, min_size=size // 2, max_size=size).map(rows)


@settings(max_examples=120, deadline=None)
@given(several_windows(), long_streams(60), st.integers(1, 4), restarts, st.integers(0, 3))
def test_any_windows_and_slides_in_small_batches_give_the_rows_of_the_reference(
    case, rows, step, restarted, most_restarts
):
    queries, groups = case
    workload = load_bound({"stream": STREAM, "queries": queries})
    program = bound_program(counting_plan(workload, groups, 2), workload)
    table = table_of(rows, False)
    last = rows[-1]["ts"]
    parts = batches_of(table, list(range(-1, last + 1, step)))
    restarted = restarted if most_restarts == 0 else [False]
    found = going_on([program], parts, restarted)
    rows_found = [row for part in found for row in part.aggregates.to_pylist()]
    assert comparable(rows_found) == comparable(run(workload, rows))


def counted_in_batches(queries, groups, table, step):
    """The rows of small batches and of all events at once, and how often kept counters went on."""
    workload = load_bound({"stream": STREAM, "queries": queries})
    program = bound_program(counting_plan(workload, groups, 2), workload)
    whole = run_events(program, from_table(table, workload.stream)).aggregates.to_pylist()
    last = table.column("ts")[-1].as_py()
    advance = KeptCounters.add
    with mock.patch.object(KeptCounters, "add", autospec=True, side_effect=advance) as went_on:
        parts = batches_of(table, list(range(0, last + 1, step)))
        found = going_on([program], parts, [False])
    rows = [row for part in found for row in part.aggregates.to_pylist()]
    return comparable(rows), comparable(whole), went_on.call_count / len(parts)


SIX = [
    f"QUERY q{i} PATTERN {pattern} PARTITION BY k AGG COUNT(*) WITHIN {width} ms{slide}"
    for i, (pattern, width, slide) in enumerate(
        [
            (PATTERNS[0], 40, ""),
            (PATTERNS[1], 40, " SLIDE 7 ms"),
            (PATTERNS[1], 20, ""),
            (PATTERNS[2], 20, " SLIDE 7 ms"),
            (PATTERNS[3], 20, " SLIDE 3 ms"),
            (PATTERNS[3], 40, ""),
        ]
    )
]


@pytest.mark.parametrize("engine", ["product", "aseq", "pretree", "sem", "chopconnect"])
def test_counters_of_several_windows_and_slides_are_kept(engine):
    names = [f"q{i}" for i in range(6)]
    found, whole, went_on = counted_in_batches(SIX, [(names, engine)], stream(), 1)
    assert found == whole
    assert went_on > 0.8


def test_counters_of_panes_are_kept():
    queries = [query.replace("20 ms", "20 ms SLIDE 5 ms") for query in (SIX[1], SIX[2])]
    found, whole, went_on = counted_in_batches(queries, [(["q1", "q2"], "panes")], stream(), 1)
    assert found == whole
    assert went_on > 0.8


def test_counters_are_kept_beside_those_that_cannot_be():
    groups = [(["q0", "q1", "q2"], "product"), (["q3", "q4", "q5"], "pretree")]
    queries = SIX[:3] + [query.replace("COUNT(*)", "COUNT(*), SUM(a.x)") for query in SIX[3:]]
    found, whole, went_on = counted_in_batches(queries, groups, stream(), 1)
    assert found == whole
    assert went_on > 0.8


def test_counts_that_may_be_large_are_made_anew():
    with mock.patch.object(kept_units, "ONE_WORD", 6):
        found, whole, _ = counted_in_batches(SIX, [([f"q{i}" for i in range(6)], "product")],
                                             stream(), 1)  # fmt: skip
    assert found == whole


def test_keys_that_never_return_are_forgotten():
    size = 90_000
    table = pa.table(
        {
            "ts": range(size),
            "kind": ["ABC"[i % 3] for i in range(size)],
            "k": [i // 3 for i in range(size)],
        }
    )
    query = "QUERY q PATTERN SEQ(A a, B b, C c) PARTITION BY k AGG COUNT(*) WITHIN 400 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    program = bound_program(counting_plan(workload, [(["q"], "product")]), workload)
    live = LiveRun(program, MILLISECOND)
    held, rows = [], 0
    for start in range(0, size, 200):
        events = from_table(table.slice(start, 200), workload.stream)
        rows += live.add(events, start + 199).aggregates.num_rows
        held.append(live.memory_bytes)
    assert rows == size // 3
    assert max(held) < 10 * 2**20
    assert held[-1] < max(held) / 2
