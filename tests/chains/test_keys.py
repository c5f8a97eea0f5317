"""Chains whose queries have keys by component, or keys that only rows of other queries have."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from engines.local.slices import SliceSize
from optimizer.bind.binder import load_bound
from tests.differential.agreement import check_against_the_reference, check_live
from tests.differential.test_local import Case
from tests.differential.test_slices import check
from tests.running import How

STREAM = {
    "time": "ts",
    "unit": "ms",
    "type": "kind",
    "attributes": {"k": "int", "x": "int", "y": "int"},
}
MADE = ["(a.k, b.x) AS id", "(a.k, b.k) AS id", "k"]
EVENTS = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 12),
        "kind": st.sampled_from("AB"),
        "k": st.sampled_from([1, 2, None]),
        "x": st.sampled_from([1, 2]),
        "y": st.sampled_from([0, 1, None]),
    }
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    made = draw(st.sampled_from(MADE))
    read = draw(st.sampled_from([made.split()[-1], "total"]))
    queries = [
        f"QUERY p PATTERN SEQ(A a, B b) PARTITION BY {made} RETURN a.y + b.y AS total INTO P "
        f"WITHIN {draw(st.sampled_from([2, 5]))} ms",
        f"QUERY q PATTERN SEQ(P p, P r) PARTITION BY {read} RETURN p.total AS t INTO Q WITHIN 9 ms",
        f"QUERY c PATTERN P p PARTITION BY {read} AGG COUNT(*), SUM(p.total) INTO R WITHIN 5 ms",
        f"QUERY d PATTERN SEQ(Q a, !P n, R b) WHERE [{read}] AGG COUNT(*) WITHIN 9 ms",
    ]
    queries = queries[: draw(st.integers(2, 4))]
    return load_bound({"stream": STREAM, "queries": queries}), draw(st.lists(EVENTS, max_size=10))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_any_chain(case: Case) -> None:
    check_against_the_reference(case, False, How())


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from([1, 3]))
def test_slices(case: Case, rows: int) -> None:
    check(case, SliceSize(rows, False), 3)


@settings(max_examples=25, deadline=None)
@given(cases(), st.lists(st.integers(-2, 14), max_size=6))
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)
