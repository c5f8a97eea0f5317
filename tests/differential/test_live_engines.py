"""Live counting runs the engines of its plan, and gives what one run over all events gives."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting import live as continued
from engines.counting import rows as counting_rows
from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.local.run import run_events
from engines.program import RunContext, bound_program
from engines.reference import run
from engines.spark.stream.checkpoint import manifest_of, taken_over
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.differential.test_continued import batches_of, stream
from tests.differential.test_counting import comparable, table_of
from tests.differential.test_counting_engines import CHAINS
from tests.differential.test_panes import SLIDING
from tests.running import counting_plan

MILLISECOND = 10**6
ENGINES = ["product", "aseq", "pretree", "chopconnect"]


def cases(shape, max_size=12):
    return strategies.workloads(shape, max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=shape.types, max_size=max_size
            ),
        )
    )


cut_times = st.lists(st.integers(-2, 14), max_size=6)


@contextmanager
def noted():
    """The engines that count within, by how often they do."""
    taken = Counter()

    def noting(module, name, engine_of):
        function = getattr(module, name)

        def spy(*given, **more):
            taken[engine_of(given)] += 1
            return function(*given, **more)

        return mock.patch.object(module, name, spy)

    with (
        noting(continued, "run_product", lambda given: "product"),
        # A tree for each query is A-Seq.
        noting(continued, "tree_rows", lambda given: "pretree" if len(given) == 4 else "aseq"),
        noting(continued, "connected_rows", lambda given: "chopconnect"),
        noting(continued, "pane_counts", lambda given: "panes"),
        noting(counting_rows, "count", lambda given: "product over events that are kept"),
    ):
        yield taken


def live_rows(program, parts, context):
    """The rows of batches, with a new run that goes on from the saved state after each."""
    found = []
    live = LiveRun(program, MILLISECOND, context)
    for table, until in parts:
        found.append(live.add(from_table(table, program.workload.stream), until))
        state = live.save()
        live = LiveRun(program, MILLISECOND, context)
        live.restore(state)
    return [row for part in found for row in part.aggregates.to_pylist()]


def check(workload, plan, table, cuts):
    """Rows are those of one run, and its counters have made them."""
    program, context = bound_program(plan, workload), RunContext()
    whole = run_events(program, from_table(table, workload.stream)).aggregates.to_pylist()
    with noted() as taken:
        found = live_rows(program, batches_of(table, cuts), context)
    assert comparable(found) == comparable(whole)
    assert not context.fallbacks.sentences
    # As planned: every counter is charged, and nothing else that could count or construct.
    account, counters = context.account, {unit.operator for unit in program.units}
    kinds = {id.rpartition("-")[0]: id for id in account.nanoseconds}
    assert kinds.keys() <= {"conditions", "partition", "counter", "output", "sink"}
    assert {id for id in account.nanoseconds if id.startswith("counter-")} == counters
    assert all(account.nanoseconds[counter] > 0 for counter in counters)
    # What they gave is what the rows of queries are made of.
    made = sum(account.rows_out[counter] for counter in counters)
    assert made == sum(account.rows_in[output] for output in program.outputs.values())
    return found, taken


def by_setting(workload, engines):
    """Groups of queries of one key and engine, whatever their windows and slides."""
    groups = {}
    for query, engine in zip(workload.queries, engines, strict=False):
        place = (query.key, query.window.is_count, engine)
        groups.setdefault(place, []).append(query.name)
    return [(names, place[-1]) for place, names in groups.items()]


def counted_only(workload):
    kept = tuple(query for query in workload.queries if countable(query) is None)
    return replace(workload, queries=kept)


@settings(max_examples=40, deadline=None)
@given(
    cases(CHAINS),
    cut_times,
    st.one_of(
        st.sampled_from(ENGINES).map(lambda engine: [engine] * 3),
        st.lists(st.sampled_from(ENGINES), min_size=3, max_size=3),
    ),
    st.sampled_from([None, 1, 2]),
)
def test_any_engines_in_any_batches_give_the_rows_of_the_reference(case, cuts, engines, chop):
    workload, rows = counted_only(case[0]), case[1]
    if not rows or not workload.queries:
        return
    groups = by_setting(workload, engines)
    table = table_of(rows, strategies.has_sequence(workload))
    found, taken = check(workload, counting_plan(workload, groups, chop), table, cuts)
    assert comparable(found) == comparable(run(workload, rows))
    assert taken.keys() <= {engine for _, engine in groups}
    if found:
        assert taken


@settings(max_examples=40, deadline=None)
@given(cases(replace(SLIDING, operators=("SEQ", "OR"), max_components=3)), cut_times)
def test_panes_in_any_batches_give_the_rows_of_the_reference(case, cuts):
    workload, rows = counted_only(case[0]), case[1]
    if not rows or not workload.queries:
        return
    keys = {}
    for query in workload.queries:
        keys.setdefault(query.key, []).append(query.name)
    plan = counting_plan(workload, [(names, "panes") for names in keys.values()])
    table = table_of(rows, strategies.has_sequence(workload))
    found, taken = check(workload, plan, table, cuts)
    assert comparable(found) == comparable(run(workload, rows))
    assert taken.keys() <= {"panes"}
    if found:
        assert taken


# --- a longer stream -----------------------------------------------------------------------------

TAIL = "PARTITION BY k WITHIN 20 ms"
QUERIES = [
    "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*), SUM(a.x)",
    "QUERY two PATTERN SEQ(B b, C c, A a) AGG COUNT(*), MAX(c.y)",
    "QUERY three PATTERN SEQ(A a, !D, C c) AGG COUNT(*), MIN(c.x)",
    "QUERY four PATTERN SEQ(B b, C c, D d) AGG COUNT(*)",
]
STREAM = {"time": "ts", "unit": "ms", "type": "kind"}


@pytest.mark.parametrize("slide", ["", " SLIDE 7 ms"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_plans_engine_counts_every_batch(engine, slide):
    document = {"stream": STREAM, "queries": [f"{q} {TAIL}{slide}" for q in QUERIES]}
    workload = load_bound(document)
    plan = counting_plan(workload, [(["one", "two", "three", "four"], engine)], chop=2)
    found, taken = check(workload, plan, stream(), [50, 51, 90, 140])
    assert len(found) > 200
    assert taken == {engine: 5}


@pytest.mark.parametrize("slide", ["", " SLIDE 7 ms"])
def test_engines_of_one_key_and_window_count_over_one_state(slide):
    document = {"stream": STREAM, "queries": [f"{q} {TAIL}{slide}" for q in QUERIES]}
    workload = load_bound(document)
    groups = [(["two", "four"], "chopconnect"), (["one"], "aseq"), (["three"], "product")]
    plan = counting_plan(workload, groups, chop=2)
    live = LiveRun(bound_program(plan, workload), MILLISECOND)
    assert {name: set(names) for name, names in live.groups.items()} == {
        "two": {"one", "two", "three", "four"}
    }
    found, taken = check(workload, plan, stream(), [50, 51, 90, 140])
    assert len(found) > 200
    assert taken == {"chopconnect": 5, "aseq": 5, "product": 5}


@pytest.mark.parametrize(
    ("first", "then", "stays"),
    [
        ("product", "aseq", True),
        ("chopconnect", "product", True),
        ("panes", "product", True),
        ("aseq", "panes", True),
    ],
)
def test_a_query_goes_on_with_a_state_of_the_same_form_alone(first, then, stays, tmp_path):
    query = "QUERY q PATTERN SEQ(A a, !D, C c) PARTITION BY k AGG COUNT(*) WITHIN 20 ms SLIDE 10 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    old, new = (
        bound_program(counting_plan(workload, [(["q"], engine)]), workload)
        for engine in (first, then)
    )
    manifests = [manifest_of(p, stream().schema, MILLISECOND, 3, 2) for p in (old, new)]
    takeover = taken_over(*manifests, new, str(tmp_path))
    assert (takeover.kept, takeover.afresh) == ((("q",), ()) if stays else ((), ("q",)))


@pytest.mark.parametrize(("first", "then"), [("product", "aseq"), ("chopconnect", "product")])
def test_a_query_keeps_its_counts_when_a_plan_gives_it_another_counter(first, then):
    workload = load_bound({"stream": STREAM, "queries": [f"{q} {TAIL}" for q in QUERIES]})
    names = ["one", "two", "three", "four"]
    programs = [
        bound_program(counting_plan(workload, groups, chop=2), workload)
        for groups in ([(names, first)], [(names[:2], then), (names[2:], first)])
    ]
    whole = run_events(programs[0], from_table(stream(), workload.stream)).aggregates.to_pylist()
    found, state = [], None
    for program, (table, until) in zip(programs, batches_of(stream(), [95]), strict=True):
        live = LiveRun(program, MILLISECOND)
        if state is not None:
            live.restore(state)
        found += live.add(from_table(table, workload.stream), until).aggregates.to_pylist()
        state = live.save()
    assert comparable(found) == comparable(whole)


def test_panes_count_every_batch():
    windows = ["WITHIN 20 ms SLIDE 10 ms", "WITHIN 40 ms SLIDE 20 ms", "WITHIN 30 ms SLIDE 5 ms"]
    queries = [
        f"QUERY q{i} PATTERN SEQ(A a, !D, C c) PARTITION BY k AGG COUNT(*), MIN(c.x) {window}"
        for i, window in enumerate(windows)
    ]
    workload = load_bound({"stream": STREAM, "queries": queries})
    plan = counting_plan(workload, [(["q0", "q1", "q2"], "panes")])
    found, taken = check(workload, plan, stream(), [50, 51, 90, 140])
    assert len(found) > 200
    assert taken == {"panes": 5}
