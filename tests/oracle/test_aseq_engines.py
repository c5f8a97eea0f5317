"""The worked examples of A-Seq (Qi's thesis, chapters 3 and 4) on the engines named after them.

The streams and numbers are those of `test_aseq.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engines.columns.columns import Columns
from engines.columns.layout import arrange
from engines.counting import aseq, chopconnect, pretree
from engines.counting.letters import CountingPlan
from engines.input.event_table import from_table
from kernels.groups import Spans
from tests.benchmarks.rivals import twostep
from tests.oracle import notation


def counts(count, *patterns, stream, within="100 s", slide=0, **given):
    """For each pattern, COUNT(*) by time."""
    workload = notation.workload(
        *(f"QUERY q{i} PATTERN {p} AGG COUNT(*) WITHIN {within}" for i, p in enumerate(patterns))
    )
    events = from_table(pa.Table.from_pylist(notation.rows(stream)), workload.stream)
    layout = arrange(events, (), False, False)
    width = workload.queries[0].window.ticks(events.tick)
    plan = CountingPlan(workload.queries)
    spans = Spans(np.full(len(patterns), width), np.full(len(patterns), slide))
    found = count(plan, Columns(workload, events), layout, spans, False, **given)
    times = found.boundary if slide else layout.ticks[found.row]
    return [
        dict(zip(times[mine].tolist(), found.counts[mine].tolist(), strict=True))
        for mine in (found.query == q for q in range(len(patterns)))
    ]


ENGINES = [aseq, pretree, chopconnect, twostep]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__[17:])
@pytest.mark.parametrize(
    ("pattern", "stream", "within", "expected"),
    [
        ("SEQ(A, B, C, D)", "a1 b2 c3 a4 c5 b6 d7", "100 s", {7: 2}),  # example 3
        ("SEQ(A, B, C, D)", "a1 b2 c3 a4 c5 b6 d7 c8 a9 d10", "7 s", {7: 2, 10: 1}),  # example 4
        ("SEQ(A, B, !C, D)", "a1 b2 c3 a4 b5 d6", "100 s", {6: 2}),  # example 5
        ("SEQ(!A, B, C, D)", "a1 b2 c3 d4 d9 b9 c10 d11", "7 s", {11: 1}),  # negation start
        ("SEQ(A, !B, C, D)", "a1 b2 a3 c4 d5", "100 s", {5: 1}),  # negation second
    ],
)
def test_examples_of_chapter_3(engine, pattern, stream, within, expected):
    assert counts(engine.count, pattern, stream=stream, within=within) == [expected]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__[17:])
def test_a_result_that_is_asked_for_between_events_has_lost_what_expired(engine):
    # Example 4: "if users require a result at this moment, the output would be 0 instead of 2".
    stream = "a1 b2 c3 a4 c5 b6 d7 c8 a9 d10"
    found = counts(engine.count, "SEQ(A, B, C, D)", stream=stream, within="7 s", slide=1)
    assert found == [{7: 2, 10: 1}]


@pytest.mark.parametrize("lengths", [(3,), (1, 2), (2, 1), (1, 1, 1)])
def test_a_negation_start_holds_for_what_is_connected(lengths):
    found = counts(
        chopconnect.count,
        "SEQ(!A, B, C, D)",
        stream="a1 b2 c3 d4 d9 b9 c10 a11 b12 d13 c14 d15",
        within="7 s",
        lengths={"q0": lengths},
    )
    assert found == [{13: 1, 15: 3}]


def test_a_negation_second_leaves_what_is_past_it():
    # The thesis purges the START; but a1 c2 had been seen when b3 came.
    for engine in ENGINES:
        assert counts(engine.count, "SEQ(A, !B, C, D)", stream="a1 c2 b3 d4") == [{4: 1}]


def test_example_7_queries_with_a_common_prefix_share_a_tree():
    patterns = ["SEQ(A, B, C, D)", "SEQ(A, B, F)", "SEQ(A, B, C, D, E, G)", "SEQ(A, B, C, D, H, I)"]
    stream = "a1 b2 f3 c4 a5 d6 b7 e8 g9 h10 i11 f12"
    separate = [counts(aseq.count, pattern, stream=stream)[0] for pattern in patterns]
    assert counts(pretree.count, *patterns, stream=stream) == separate
    assert separate == [{6: 1}, {3: 1, 12: 4}, {9: 1}, {11: 1}]


def test_example_8_connects_abc_with_de():
    found = counts(
        chopconnect.count,
        "SEQ(A, B, C)",
        "SEQ(A, B, C, D, E)",
        stream="a1 b2 c3 a4 b5 d6 c7 d8 e9",
        lengths={"q1": (3, 2)},
    )
    assert found == [{3: 1, 7: 4}, {9: 5}]


def test_example_9_expired_starts_drop_out_of_the_snapshots():
    found = counts(
        chopconnect.count,
        "SEQ(A, B, C, D, E)",
        stream="a1 b2 c3 a4 b5 d6 c7 a8 d9 e10",
        within="9 s",
        lengths={"q0": (3, 2)},
    )
    assert found == [{10: 1}]


def test_example_10_connects_three_pieces():
    found = counts(
        chopconnect.count,
        "SEQ(A, B, C, D, E)",
        "SEQ(A, B, C, D, E, F, G)",
        stream="a1 a3 b4 c5 d6 c7 d8 e9 f12 g13",
        within="11 s",
        lengths={"q0": (3, 2), "q1": (3, 2, 2)},
    )
    assert found == [{9: 6}, {13: 3}]


def test_lengths_that_do_not_make_up_the_query_are_refused():
    with pytest.raises(ValueError, match=r"segments of \(3, 1\) do not make up the 5 components"):
        counts(chopconnect.count, "SEQ(A, B, C, D, E)", stream="a1 b2", lengths={"q0": (3, 1)})


def test_snapshots_of_one_moment_outlive_the_making_of_room():
    # Two snapshots of 600 rows at x1201: the second does not fit without more room.
    stream = " ".join(f"{'a' if t <= 600 else 'b'}{t}" for t in range(1, 1201)) + " x1201"
    found = counts(
        chopconnect.count,
        "SEQ(A, X)",
        "SEQ(B, X)",
        stream=stream,
        within="2000 s",
        lengths={"q0": (1, 1), "q1": (1, 1)},
    )
    assert found == [{1201: 600}, {1201: 600}]
