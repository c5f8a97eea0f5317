"""Statistics measured from events, against counting by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.limits import EventsError
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.statistics import Statistics

STREAM: dict[str, Any] = {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"}
Row = dict[str, Any]


def stream(size: int, seed: int = 1) -> list[Row]:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(0, 4, size))
    return [
        {
            "ts": int(times[i]),
            "seq": 0,
            "kind": "ABC"[int(random.integers(0, 3))],
            "k": int(random.integers(0, 3)),
            "x": int(random.integers(0, 10)),
        }
        for i in range(size)
    ]


def measured(query: str, rows: list[Row], **options: int) -> Statistics:
    workload = load_bound({"stream": STREAM, "queries": [query]})
    return measure(workload, from_table(pa.Table.from_pylist(rows), workload.stream), **options)


def share(
    rows: list[Row], fits: Callable[..., bool], asks: Callable[..., bool], many: int
) -> float:
    """Of all combinations of events that fit, those that satisfy the condition."""
    found = [asks(*some) for some in itertools.permutations(rows, many) if fits(*some)]
    return sum(found) / len(found)


def test_rates_are_events_per_second_of_the_stream() -> None:
    rows = [{"ts": t, "seq": 0, "kind": "AB"[t % 2], "k": 0, "x": 0} for t in range(0, 2001, 5)]
    found = measured("PATTERN SEQ(A, B) AGG COUNT(*) WITHIN 1 s", rows)
    assert found.rates == {"A": pytest.approx(201 / 2), "B": pytest.approx(200 / 2)}
    assert (found.events, found.span, found.ties) == (401, 2.0, 0.0)
    assert found.sample is not None
    assert found.sample.events == 401


def test_local_predicates_are_measured_alone_and_together() -> None:
    rows = stream(200)
    found = measured("PATTERN SEQ(A a, B) WHERE a.x > 3 AND a.k = 1 RETURN a WITHIN 1 s", rows)
    some = [row for row in rows if row["kind"] == "A"]
    for text, keep in {
        "A.x > 3": lambda r: r["x"] > 3,
        "A.k = 1": lambda r: r["k"] == 1,
        "A[k = 1 AND x > 3]": lambda r: r["x"] > 3 and r["k"] == 1,
    }.items():
        assert found.selectivities[text] == pytest.approx(sum(map(keep, some)) / len(some))


@pytest.mark.parametrize(("pattern", "before"), [("SEQ(A a, B b)", True), ("AND(A a, B b)", False)])
def test_a_joint_predicate_is_tried_on_the_pairs_of_one_window(pattern: str, before: bool) -> None:
    rows = stream(150)
    found = measured(f"PATTERN {pattern} WHERE a.x < b.x RETURN a WITHIN 20 ms", rows)

    def fits(a: Row, b: Row) -> bool:
        gap = b["ts"] - a["ts"]
        kinds = (a["kind"], b["kind"]) == ("A", "B")
        return kinds and (0 < gap < 20 if before else abs(gap) < 20)

    expected = share(rows, fits, lambda a, b: a["x"] < b["x"], 2)
    assert found.selectivities["A.x < B.x"] == pytest.approx(expected)


def test_only_pairs_of_one_key_are_tried() -> None:
    rows = stream(150)
    # A trend within each key, none over all of them.
    for i, row in enumerate(rows):
        row["x"] = i - 1000 * row["k"]
    query = "PATTERN SEQ(B b, A a) WHERE b.x < a.x AND [k] RETURN a WITHIN 30 ms"
    assert measured(query, rows).selectivities["A.x > B.x"] == 1.0
    free = measured(query.replace(" AND [k]", ""), rows).selectivities["A.x > B.x"]
    assert 0.4 < free < 0.9


def test_three_aliases_are_tried_together() -> None:
    rows = stream(90)
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < c.x RETURN a WITHIN 20 ms"
    found = measured(query, rows)

    def fits(a: Row, b: Row, c: Row) -> bool:
        kinds = (a["kind"], b["kind"], c["kind"]) == ("A", "B", "C")
        return kinds and a["ts"] < b["ts"] < c["ts"] < a["ts"] + 20

    expected = share(rows, fits, lambda a, b, c: a["x"] + b["x"] < c["x"], 3)
    (value,) = found.selectivities.values()
    assert value == pytest.approx(expected, abs=0.08)


def test_a_window_counted_in_events_pairs_by_rank() -> None:
    rows = [{**row, "seq": i} for i, row in enumerate(stream(120))]
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 5 EVENTS"
    ranked = sorted(rows, key=lambda r: (r["ts"], r["seq"]))
    rank = {row["seq"]: i for i, row in enumerate(ranked)}

    def fits(a: Row, b: Row) -> bool:
        return (a["kind"], b["kind"]) == ("A", "B") and 0 < rank[b["seq"]] - rank[a["seq"]] < 5

    expected = share(rows, fits, lambda a, b: a["x"] < b["x"], 2)
    assert measured(query, rows).selectivities["A.x < B.x"] == pytest.approx(expected)


def test_a_sample_of_pairs_is_near_the_truth_and_the_same_for_a_seed() -> None:
    rows = stream(3000)
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 200 ms"
    truth = measured(query, rows, max_pairs=10**9)
    sampled = measured(query, rows, max_pairs=4000, seed=3)
    assert truth.sample is not None
    assert truth.sample.pairs["A.x < B.x"] > 4000
    assert sampled.sample is not None
    assert (sampled.sample.pairs["A.x < B.x"], sampled.sample.seed) == (4000, 3)
    found = sampled.selectivities["A.x < B.x"]
    assert found == pytest.approx(truth.selectivities["A.x < B.x"], abs=0.03)
    again = measured(query, rows, max_pairs=4000, seed=3)
    assert again == sampled
    assert measured(query, rows, max_pairs=4000, seed=4).selectivities != sampled.selectivities


def test_a_long_stream_is_looked_at_in_stretches() -> None:
    rows = stream(4000)
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 50 ms"
    whole, part = measured(query, rows), measured(query, rows, max_events=800)
    assert part.sample is not None
    assert part.sample.events == 800
    assert (part.events, part.span) == (whole.events, whole.span)
    assert part.rates["A"] == pytest.approx(whole.rates["A"], rel=0.15)
    assert part.selectivities["A.x < B.x"] == pytest.approx(
        whole.selectivities["A.x < B.x"], abs=0.08
    )


def test_a_predicate_that_no_sampled_pair_satisfies_is_rare_and_not_impossible() -> None:
    rows = stream(3000)
    query = "PATTERN SEQ(A a, B b) WHERE a.x + 100 < b.x RETURN a WITHIN 200 ms"
    (sampled,) = measured(query, rows, max_pairs=100).selectivities.values()
    (complete,) = measured(query, rows, max_pairs=10**9).selectivities.values()
    assert (sampled, complete) == (0.005, 0.0)


def test_what_has_no_pairs_is_left_open() -> None:
    rows = [row for row in stream(100) if row["kind"] != "B"]
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 200 ms"
    assert measured(query, rows).selectivities == {}


def test_given_selectivities_stay() -> None:
    document = {
        "stream": STREAM,
        "statistics": {"selectivities": {"a.x < b.x": 0.75}, "rates": {"A": 0.001}},
        "queries": ["PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 200 ms"],
    }
    workload = load_bound(document)
    found = measure(workload, from_table(pa.Table.from_pylist(stream(100)), workload.stream))
    assert found.selectivities["A.x < B.x"] == 0.75
    assert found.rates["A"] > 1


def test_keys_and_ties_are_measured() -> None:
    rows = [
        {"ts": t, "seq": 0, "kind": "A", "k": k, "x": 0}
        for t, k in [(0, 1), (0, 2), (1, 1), (2, 1), (3, 3), (4, None), (5, 1), (6, 1), (7, 1)]
    ]
    found = measured("PATTERN SEQ(A a, B) WHERE [k] RETURN a WITHIN 1 s", rows)
    assert found.keys["k"].cardinality == 3
    assert found.keys["k"].heaviest == pytest.approx(6 / 8)
    assert found.ties == pytest.approx(2 / 9)


@pytest.mark.parametrize("rows", [[], [{"ts": 5, "seq": 0, "kind": "A", "k": 1, "x": 1}] * 3])
def test_events_of_one_moment_have_no_rates(rows: list[Row]) -> None:
    with pytest.raises(EventsError, match="all of one moment"):
        measured("PATTERN SEQ(A, B) AGG COUNT(*) WITHIN 1 s", rows)
