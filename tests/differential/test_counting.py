"""Counting gives what the reference gives, on workloads that share and streams with ties."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.counting.rows import counted_rows
from engines.devices import DeviceRequest, opencl_devices
from engines.input.event_table import from_table
from engines.reference import run
from engines.results.tables import sorted_results
from kernels import opencl
from optimizer.bind.binder import load_bound
from optimizer.ir.automaton import countable
from tests import strategies
from tests.running import How, run_local, unit_of
from workloads.errors import UnsupportedError

needs_opencl = pytest.mark.skipif(not opencl_devices()[0], reason=opencl_devices()[1])

# Everything that can be counted: no ties between components, no groups of n or of all.
COUNTABLE = replace(
    strategies.SHAPE,
    ties=False,
    groups=False,
    group_conditions=False,
    constants=False,
    outputs=("trigger", "slide"),
)


def table_of(rows, sequence):
    columns = {"ts": pa.int64(), "kind": pa.string()} | dict.fromkeys("kxy", pa.int64())
    if sequence:
        columns["seq"] = pa.int64()
    return pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})


def comparable(rows):
    return sorted(
        (
            (
                row["query"],
                str(row["key"]).replace(" ", "").replace('"', "'"),
                row["time"],
                row["seq"],
                row["aggregate"],
                None if row["value"] is None else round(row["value"], 9),
                row["count"],
                row["exact"],
            )
            for row in rows
        ),
        key=repr,
    )


DEVICES = ["cpu", pytest.param("opencl", marks=needs_opencl)]


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100, deadline=None)
@given(
    strategies.workloads(COUNTABLE, max_queries=4).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(
                sequence=strategies.has_sequence(found), types=COUNTABLE.types, max_size=9
            ),
        )
    )
)
def test_counting_agrees_with_the_reference(device, case):
    workload, rows = case
    workload = replace(workload, queries=tuple(q for q in workload.queries if countable(q) is None))
    events = from_table(table_of(rows, strategies.has_sequence(workload)), workload.stream)
    columns = Columns(workload, events)
    groups = {}
    for query in workload.queries:
        groups.setdefault((query.key, query.window.is_count), []).append(query)
    found, counted = [], set()
    for (key, is_count), queries in groups.items():
        arranged = ArrangedEvents(arrange(events, key, is_count, False), columns)
        request = DeviceRequest(device, insist=True)
        tables = counted_rows(unit_of(queries), arranged, request) if len(events) else []
        if tables is not None:
            counted |= {query.name for query in queries}
            found += [row for _, table in tables for row in table.to_pylist()]
    expected = [row for row in run(workload, rows) if row["query"] in counted]
    assert comparable(found) == comparable(expected)


def counts(query, events, **kw):
    workload = load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": [query]}
    )
    table = pa.table({"ts": range(len(events)), "kind": list(events)})
    return run_local(
        workload, from_table(table, workload.stream), how=How(**kw)
    ).aggregates.to_pylist()


def test_a_count_past_the_largest_integer_is_floating_point_and_says_so():
    # n events of A give 2^n - 1 non-empty groups.
    rows = counts("PATTERN A+ a AGG COUNT(*) WITHIN 1 s", "A" * 70)
    assert [row["count"] for row in rows[:63]] == [2**n - 1 for n in range(1, 64)]
    assert all(row["exact"] for row in rows[:63])
    for n, row in enumerate(rows[63:], start=64):
        assert row["count"] is None
        assert not row["exact"]
        assert row["value"] == pytest.approx(2.0**n - 1, rel=1e-12)


def test_counts_do_not_wrap_when_a_product_of_many_is_taken():
    # 40 events of each of 12 types in order: 40^12 = 2^63.9 sequences in the end.
    types = "ABCDEFGHIJKL"
    query = f"PATTERN SEQ({', '.join(types)}) AGG COUNT(*) WITHIN 1 s"
    rows = counts(query, "".join(kind * 40 for kind in types))
    assert rows[0]["count"] == 40**11
    assert rows[-1]["count"] is None
    assert rows[-1]["value"] == pytest.approx(40.0**12, rel=1e-12)


@needs_opencl
@pytest.mark.parametrize("keyed", ["", "PARTITION BY k"])
@pytest.mark.parametrize("slide", ["", "SLIDE 50 ms"])
def test_devices_agree_on_long_streams(keyed, slide, monkeypatch):
    # Short slices, so that the stream without a key is cut into many.
    monkeypatch.setattr(opencl, "MIN_SLICE_GROUPS", 100)
    rng = np.random.default_rng(7)
    n = 3000
    table = pa.table(
        {
            "ts": np.sort(rng.integers(0, n, n)),
            "kind": pa.array(list("ABCD")).take(pa.array(rng.integers(0, 4, n))),
            "k": rng.integers(0, 20, n),
            "x": rng.integers(0, 100, n),
        }
    )
    queries = [
        f"PATTERN SEQ(A a, !C c, B b) {keyed} AGG COUNT(*), SUM(a.x) WITHIN 200 ms {slide}",
        f"PATTERN SEQ(A a, B b, D+ d) {keyed} "
        f"AGG COUNT(*), MIN(b.x), MAX(d.x) WITHIN 200 ms {slide}",
    ]
    workload = load_bound(
        {"stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": queries}
    )
    events = from_table(table, workload.stream)
    found = [
        sorted_results(run_local(workload, events, how=How(device=device, insist=True))).aggregates
        for device in ("cpu", "opencl")
    ]
    assert found[0].num_rows > 100
    assert found[0].drop_columns("value").equals(found[1].drop_columns("value"))
    values = [table.column("value").to_numpy() for table in found]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_a_sliding_window_counts_what_a_fresh_one_does():
    # Long enough for the window's two stacks to turn over many times.
    stream = ("ABCAB" * 40)[:200]
    query = "PATTERN SEQ(A a, !C c, B b) AGG COUNT(*) WITHIN 20 ms"
    slid = counts(query, stream)
    assert slid == counts(query, stream, counting=False)
    assert len(slid) > 70


def test_an_infinite_minimum_is_told_from_none():
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": ["PATTERN A a AGG MIN(a.x), MAX(a.x) WITHIN 1 s"],
        }
    )
    table = pa.table({"ts": [0], "kind": ["A"], "x": [float("inf")]})
    rows = run_local(workload, from_table(table, workload.stream)).aggregates.to_pylist()
    assert [row["value"] for row in rows] == [float("inf"), float("inf")]


def test_an_error_names_the_query():
    with pytest.raises(UnsupportedError, match="query q1: a window of 500 ns"):
        counts("PATTERN A a AGG COUNT(*) WITHIN 500 ns", "A")


@pytest.mark.parametrize("device", DEVICES)
def test_a_count_past_all_doubles_is_infinite_and_not_exact(device):
    kinds = ["A", *("B" * 1100), "C"]
    table = pa.table({"ts": range(len(kinds)), "kind": kinds, "x": [0.0] * len(kinds)})
    query = "PATTERN SEQ(A a, B+ b, C c) AGG COUNT(*), SUM(a.x) WITHIN 2 s"
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    workload = load_bound({"stream": stream, "queries": [query]})
    events = from_table(table, workload.stream)
    rows = run_local(workload, events, how=How(device=device)).aggregates.to_pylist()
    assert [(row["value"], row["count"], row["exact"]) for row in rows] == [
        (float("inf"), None, False),
        (0.0, None, True),
    ]
