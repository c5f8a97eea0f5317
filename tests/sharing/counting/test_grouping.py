"""Chopped queries hold each of their steps once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

from optimizer.bind.binder import load_bound
from optimizer.cost.engine_choice import RankedEngine, cheapest
from optimizer.ir.query import Query
from sharing.counting import grouping
from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.candidates import QuerySteps, mine
from sharing.counting.grouping import ChopError, Segment, check, chop, lengths
from sharing.planner import make_plan
from sharing.solvers.candidates import SOLVERS
from sharing.solvers.candidates.solution import conflict_graph
from tests.sharing.chains import queries, words, workloads

RATES = {"A": 1.0, "B": 2.0, "C": 0.5}


@given(workloads())
def test_segments_make_up_their_query(of: list[QuerySteps]) -> None:
    found = mine(of)
    graph = conflict_graph(found, AseqModel(RATES).benefits(found))
    chosen = SOLVERS["greedy"](graph).chosen
    chopped = chop(found, chosen)
    assert list(chopped) == [q.name for q in of]
    for q in of:
        segments = chopped[q.name]
        assert sum((q.steps[s.start : s.end] for s in segments), ()) == q.steps
        for segment in segments:
            if segment.shared is not None:
                assert q.steps[segment.start : segment.end] == found[segment.shared].steps
    served = [
        (q, s.start) for q, several in chopped.items() for s in several if s.shared is not None
    ]
    assert sorted(served) == sorted(place for i in chosen for place in found[i].places)


def test_what_lies_between_shared_segments_is_a_query_s_own() -> None:
    found = mine(queries("X A B Y Z C D", "A B C D", "E F"))
    number = {words(c.steps): i for i, c in enumerate(found)}
    ab, cd = number["A B"], number["C D"]
    chopped = chop(found, [ab, cd])
    assert chopped == {
        "q1": (Segment(0, 1), Segment(1, 2, ab), Segment(3, 2), Segment(5, 2, cd)),
        "q2": (Segment(0, 2, ab), Segment(2, 2, cd)),
        "q3": (Segment(0, 2),),
    }
    assert lengths(chopped) == {"q1": (1, 2, 2, 2), "q2": (2, 2), "q3": (2,)}


def test_candidates_in_conflict_cannot_chop() -> None:
    found = mine(queries("A B C", "A B C"))
    with pytest.raises(ChopError, match="q1 overlap at step 2"):
        chop(found, range(len(found) - 1))


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((Segment(1, 2),), "leave a gap at step 1"),
        ((Segment(0, 2),), "have 2 steps, and it has 3"),
        ((Segment(0, 2), Segment(1, 2)), "overlap at step 2"),
        ((), "have 0 steps"),
    ],
)
def test_segments_that_do_not_fit_are_refused(segments: tuple[Segment, ...], message: str) -> None:
    with pytest.raises(ChopError, match=message):
        check("q", segments, 3)


def test_many_windows_are_tried_together_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(group: Sequence[Query], *more: Any) -> list[RankedEngine]:
        tried.append(len(group))
        return cheapest(group, *more)

    monkeypatch.setattr(grouping, "cheapest", counted)
    number = 64
    document = {
        "name": "sums",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "queries": [
            f"QUERY q{i} PATTERN A a AGG SUM(a.x) WITHIN {100 + i} ms SLIDE 10 ms"
            for i in range(number)
        ],
        "statistics": {"rates": {"A": 5000.0}, "events": 1_000_000, "span": 200.0},
    }
    plan = make_plan(load_bound(document), document)
    assert {len(group.queries) for group in plan.groups} == {number}
    assert sum(tried) < 12 * number  # one after the other, it would be 32 times


@pytest.mark.parametrize("sharing", [True, False])
def test_what_the_device_has_no_kernel_for_is_counted_on_the_processor(sharing: bool) -> None:
    distinct = "PATTERN A a PARTITION BY k AGG COUNT(DISTINCT a.x) WITHIN 3 s"
    plain = "PATTERN SEQ(A a, B b) PARTITION BY k AGG COUNT(*) WITHIN 3 s"
    document = {"name": "w", "stream": {"time": "ts", "type": "type"}, "queries": [distinct, plain]}
    plan = make_plan(load_bound(document), {}, sharing=sharing, device="opencl")
    found = {query: (g.engine, g.device) for g in plan.groups for query in g.queries}
    assert found == {"q1": ("folds", "cpu"), "q2": ("product", "opencl")}
