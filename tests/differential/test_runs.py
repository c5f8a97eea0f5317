"""Strict sequences, whose runs are followed in one pass: rows are those of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.local.slices import SliceSize
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import alternatives, run_of
from tests.differential.agreement import check_against_the_reference, check_live
from tests.differential.test_local import Case, events_of, multiset
from tests.differential.test_slices import check
from tests.running import How, counting_plan, run_local
from tests.strategies import event_rows

STREAM: dict[str, Any] = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"}
COMPONENTS = ("A", "B", "A WHERE x > 0", "C")


@st.composite
def cases(draw: st.DrawFn, counted: bool = True) -> Case:
    """Up to three queries, which may have their windows and keys in common; often without ties."""
    queries = []
    for number in range(draw(st.integers(1, 3))):
        parts, asked = [], []
        for place in range(draw(st.integers(2, 4))):
            kind, _, condition = draw(st.sampled_from(COMPONENTS)).partition(" WHERE ")
            parts.append(f"{kind} e{place}")
            asked += [f"e{place}.{condition}"] if condition else []
        where = f"WHERE {' AND '.join(asked)}" if asked else ""
        key = draw(st.sampled_from(("", "PARTITION BY k")))
        output = draw(st.sampled_from(("COUNT(*)", "COUNT(*) HAVING COUNT(*) > 1")))
        unit = draw(st.sampled_from(("ms", "ms", "EVENTS") if counted else ("ms",)))
        slide = draw(st.sampled_from(("", "", f"SLIDE {draw(st.integers(1, 4))} {unit}")))
        queries.append(
            f"QUERY q{number} PATTERN SEQ({', '.join(parts)}) {where} {key} STRATEGY STRICT "
            f"AGG {output} WITHIN {draw(st.integers(2, 9))} {unit} {slide}"
        )
    rows = draw(event_rows(sequence=True, types=("A", "B", "C"), max_size=14))
    if draw(st.integers(0, 3)):
        rows = [{**row, "seq": place} for place, row in enumerate(rows)]
    return load_bound({"name": "w", "stream": STREAM, "queries": queries}), rows


@given(cases(), st.booleans(), st.sampled_from([How(), How(sharing=False)]))
@settings(max_examples=80, deadline=None)
def test_any_runs(case: Case, small: bool, how: How) -> None:
    check_against_the_reference(case, small, how)


@given(cases(), st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=20, deadline=None)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, False), batch_rows)


@given(cases(counted=False), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=20, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_as_a_plan_names_it(case: Case) -> None:
    """Also where another engine would take less."""
    workload, rows = case
    by_key: dict[Any, list[str]] = {}
    for query in workload.queries:
        place = query.key, query.window.is_count
        by_key.setdefault(place, []).append(query.name)
    plan = counting_plan(workload, [(names, "runs") for names in by_key.values()])
    events = events_of(workload, rows)
    found = run_local(workload, events, plan=plan)
    assert multiset(found) == multiset(run_oracle(workload, events))


def test_more_ways_than_a_number_holds() -> None:
    """Forty simultaneous events, thirteen times: 40^13 ways are past 2^62."""
    parts = ", ".join(f"A e{place}" for place in range(13))
    text = f"QUERY q PATTERN SEQ({parts}) STRATEGY STRICT AGG COUNT(*) WITHIN 20 ms"
    workload = load_bound(
        {"name": "w", "stream": {"time": "ts", "unit": "ms", "type": "kind"}, "queries": [text]}
    )
    table = pa.table({"ts": np.repeat(np.arange(13), 40), "kind": ["A"] * 13 * 40})
    events = from_table(table, workload.stream)
    found = run_local(workload, events, plan=counting_plan(workload, [(["q"], "runs")]))
    (row,) = found.aggregates.to_pylist()
    assert not row["exact"]
    assert row["count"] is None
    assert row["value"] == pytest.approx(40.0**13, rel=1e-12)


def test_what_is_a_run() -> None:
    def symbols(pattern: str) -> int:
        text = f"PATTERN {pattern} AGG COUNT(*) WITHIN 9 ms"
        (query,) = load_bound({"stream": STREAM, "queries": [text]}).queries
        return len(run_of(alternatives(query.pattern)) or ())

    assert symbols("SEQ(A a, : B b, : C c)") == 3
    assert symbols("SEQ(A a, !ANY n, B b)") == 2
    for other in (
        "A a",
        "SEQ(A a, B b)",
        "SEQ(A a, : B b, C c)",
        "SEQ(A a, : B+ b)",
        "SEQ(A a, !C c, : B b)",
        "SEQ(A a, : B b, !ANY n)",
        "SEQ(!ANY n, A a, : B b)",
        "OR(SEQ(A a, : B b), C c)",
    ):
        assert symbols(other) == 0, other
