"""The products on an OpenCL device are those of the plain-Python kernels, however runs are cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting import product as counting
from engines.counting.compile import compile_steps, compile_tables
from engines.devices import DeviceError, opencl_devices
from engines.input.event_table import from_table
from engines.results.tables import sorted_results
from kernels import opencl
from kernels.groups import Groups, Spans
from kernels.references import REFERENCES
from kernels.registry import KERNELS, kernel
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.kernels.test_product import (
    REVERSIBLE,
    SHAPE,
    assert_same_segments,
    in_the_middle,
    prepared_for,
    segments,
)
from tests.running import How, run_local

needs_opencl = pytest.mark.skipif(not opencl_devices()[0], reason=opencl_devices()[1])

KEYED = [replace(shape, keys=True) for shape in (SHAPE, REVERSIBLE)]
ROOM = 3000


@pytest.fixture(scope="module")
def device():
    return opencl_devices()[0][0].handle


@pytest.fixture(scope="module", autouse=True)
def _short_slices():
    """A slice for every few groups, however much of it is what the first window holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl, "MIN_SLICE_GROUPS", 2)
        patch.setattr(opencl, "MAX_WARMUP_SHARE", 0.0)
        yield


def assert_same_on(device, plan, prepared, begun, width, slide, dual):
    """Both kernels, where the queries allow it; how many rows the reference found."""
    queries = len(plan.queries)

    def rows(name, backend, tables, dual, values):
        out = segments(queries, ROOM, dual, values)
        spans = Spans(np.full(queries, width), np.full(queries, slide))
        run = REFERENCES[name] if backend == "python" else kernel(name, backend, device)
        assert run(prepared.groups, *begun, *tables, spans, dual, out)
        return out

    tables = compile_tables(plan.terms, prepared.letters)
    expected = rows("product", "python", tables, dual, plan.most_values)
    assert_same_segments(rows("product", "opencl", tables, dual, plan.most_values), expected)
    if all(term.reversible for term in plan.terms):
        steps = (compile_steps(plan.terms, prepared.letters),)
        assert_same_segments(
            rows("reversible", "opencl", steps, dual, 0),
            rows("reversible", "python", steps, dual, 0),
        )
    return int((expected.end - np.arange(queries) * ROOM).sum())


@needs_opencl
@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(KEYED).flatmap(lambda shape: strategies.workloads(shape, max_queries=3)),
    strategies.event_rows(types=SHAPE.types, max_size=16),
    st.integers(1, 12),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_a_product_is_that_of_the_reference(
    device, workload, rows, width, slide, dual, goes_on, seed
):
    by_key = {}
    for query in workload.queries:
        if countable(query) is None:
            by_key.setdefault(query.key, []).append(query)
    if not rows or slide > width:
        return
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
    for queries in by_key.values():
        plan, prepared = prepared_for(workload, queries, table, width)
        begin = counting.from_the_beginning
        if goes_on:
            begin = in_the_middle(np.random.default_rng(seed))
        begun = begin(prepared.groups)
        assert_same_on(device, plan, prepared, begun, width, slide, dual)


def stream_of(n, keys, seed=5):
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, n)),
            "kind": random.choice(list("ABCD"), n),
            "x": random.integers(0, 9, n),
            "k": random.integers(0, keys, n),
        }
    )


def workload_of(*queries):
    return load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": list(queries)}
    )


SEQUENCES = {
    "SEQ(A a, B b, C c)": "COUNT(*)",
    "SEQ(B b, A a)": "COUNT(*)",
    "OR(SEQ(A a, B b), SEQ(A c, C d))": "COUNT(*)",
}
OTHERS = {
    "SEQ(A a, !SEQ(B, D), C c)": "COUNT(*), SUM(a.x), MIN(c.x)",
    "SEQ(!D, A a, B+ b, C c, !B n)": "COUNT(*), MAX(b.x), AVG(b.x)",
}


@needs_opencl
@pytest.mark.parametrize("chunk", [opencl.CHUNK, 4000])
@pytest.mark.parametrize("slide", [0, 7])
@pytest.mark.parametrize("keyed", ["", "PARTITION BY k"])
@pytest.mark.parametrize("patterns", [SEQUENCES, OTHERS])
def test_longer_streams_have_the_products_of_the_reference(
    device, patterns, keyed, slide, chunk, monkeypatch
):
    # A small chunk takes a few slices a call.
    monkeypatch.setattr(opencl, "CHUNK", chunk)
    workload = workload_of(
        *(f"PATTERN {p} {keyed} AGG {items} WITHIN 20 ms" for p, items in patterns.items())
    )
    plan, prepared = prepared_for(workload, workload.queries, stream_of(300, 3), 20)
    begun = counting.from_the_beginning(prepared.groups)
    for dual in (False, True):
        assert assert_same_on(device, plan, prepared, begun, 20, slide, dual) > 30


@needs_opencl
@pytest.mark.parametrize("name", ["product", "reversible"])
def test_a_segment_that_is_too_small_is_told(device, name):
    workload = workload_of("PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 20 ms")
    plan, prepared = prepared_for(workload, workload.queries, stream_of(300, 3), 20)
    begun = counting.from_the_beginning(prepared.groups)
    compiled = {"product": compile_tables, "reversible": lambda *given: (compile_steps(*given),)}
    tables = compiled[name](plan.terms, prepared.letters)
    spans = Spans(np.array([20]), np.array([0]))
    out = segments(1, 3, False, 0)
    assert not kernel(name, "opencl", device)(prepared.groups, *begun, *tables, spans, False, out)


@needs_opencl
@pytest.mark.parametrize("slide", ["", "SLIDE 30 ms"])
@pytest.mark.parametrize("keyed", ["", "PARTITION BY k"])
def test_engines_agree_on_a_workload_of_which_a_part_can_be_taken_back(keyed, slide):
    tail = f"WITHIN 100 ms {slide}"
    workload = workload_of(
        *(
            f"PATTERN {p} {keyed} AGG {items} {tail}"
            for p, items in (SEQUENCES | {"SEQ(A a, !D, B b)": "COUNT(*), MAX(b.x)"}).items()
        )
    )
    events = from_table(stream_of(20_000, 50), workload.stream)
    ways = [How(device=name, insist=True) for name in ("opencl", "cpu")]
    contexts = [way.context() for way in ways]
    found, expected = (
        sorted_results(run_local(workload, events, how=way, context=context)).aggregates
        for way, context in zip(ways, contexts, strict=True)
    )
    assert not any(context.fallbacks.sentences for context in contexts)
    assert expected.num_rows > 1000
    assert found.equals(expected)


@pytest.mark.parametrize("insist", [True, False])
@pytest.mark.parametrize("pattern", ["SEQ(A a, B b)", "SEQ(A a, !C, B b)"])
def test_a_driver_that_fails_is_reported(pattern, insist, monkeypatch):
    def fails(*given):
        raise MemoryError("no room on the card")

    failing = {name: {**KERNELS[name], "opencl": fails} for name in ("product", "reversible")}
    monkeypatch.setattr("kernels.registry.KERNELS", failing)
    monkeypatch.setattr(
        "engines.device_kernels.opencl_handle",
        lambda request: "a card" if request.device == "opencl" else None,
    )
    workload = workload_of(f"PATTERN {pattern} AGG COUNT(*) WITHIN 20 ms")
    events = from_table(stream_of(50, 3), workload.stream)
    how = How(device="opencl", insist=insist)
    if insist:
        with pytest.raises(DeviceError, match="the OpenCL device failed: no room on the card"):
            run_local(workload, events, how=how)
        return
    context = how.context()
    found = run_local(workload, events, how=how, context=context)
    assert list(context.fallbacks) == [
        "the OpenCL device failed: no room on the card: computing on the CPU instead"
    ]
    assert found.aggregates.equals(run_local(workload, events).aggregates)


def groups_of(runs):
    """Groups of one event each at the positions of each run."""
    position = np.array([p for run in runs for p in run], np.int64)
    run = np.cumsum([0, *map(len, runs)])
    limit = np.array([run[-1] + 5 for run in runs], np.int64)
    none = np.zeros(len(position), np.int64)
    return Groups(run, limit, position, none, np.arange(len(position) + 1), none, np.zeros((0, 1)))


@given(
    st.lists(st.lists(st.integers(-20, 40), min_size=1, max_size=12).map(sorted), max_size=3),
    st.integers(1, 9),
    st.integers(0, 4),
    st.integers(1, 9),
)
def test_slices_share_out_what_is_evaluated_and_hold_its_windows(runs, width, slide, pieces):
    groups = groups_of(runs)
    begun, since = counting.from_the_beginning(groups)
    found = opencl.cut(groups, begun, since, width, slide, pieces).tolist()
    for r, (first, last) in enumerate(zip(groups.run[:-1], groups.run[1:], strict=True)):
        mine = [s for s in found if first <= s[opencl.FRESH] < last]
        if slide == 0:
            own = [g for s in mine for g in range(s[opencl.FRESH], s[opencl.LAST])]
            assert own == list(range(first, last))
            for s in mine:
                low = groups.position[s[opencl.FRESH]] - width
                window = [g for g in range(first, s[opencl.FRESH]) if groups.position[g] > low]
                assert window == list(range(s[opencl.FIRST], s[opencl.FRESH]))
            continue
        positions = groups.position[first:last]
        for b in range(-24, 60):
            if b % slide or b < positions[0] or b > groups.limit[r]:
                continue
            (s,) = [s for s in mine if s[opencl.SINCE] < b <= s[opencl.LIMIT]]
            held = groups.position[s[opencl.FIRST] : s[opencl.LAST]]
            assert [p for p in held if b - width < p <= b] == [
                p for p in positions if b - width < p <= b
            ]


@needs_opencl
def test_what_was_run_is_done_where_nothing_is_taken(device):
    """What is lent to a kernel may be let go of then, however little it found."""
    pyopencl = pytest.importorskip("pyopencl")
    on = opencl.Device(device, "situations/kernel.cl")
    rows = 400_000
    starts, ticks = np.array([0, rows]), np.arange(rows)
    asked = (
        *(np.int64(rows), np.int64(rows), on.lent(starts, np.int64), np.int64(1)),
        *(on.lent(ticks, np.int64), on.lent(np.zeros(rows, np.uint8), np.uint8), np.int64(-1)),
    )
    for _ in range(100):
        on.run("derive_runs", 1, *asked, np.int32(0), *[on.room(1) for _ in range(5)])
    done = pyopencl.enqueue_marker(on._queue)
    assert on.taken(on.room(0), (0,), np.int64).size == 0
    assert done.command_execution_status == pyopencl.command_execution_status.COMPLETE
