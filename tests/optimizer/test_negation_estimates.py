"""Rows that are expected under negations, against what seeded random streams hold."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.columns.columns import Columns
from engines.device_kernels import DeviceKernels
from engines.devices import DeviceRequest
from engines.input.event_table import from_table
from engines.matching.trees.buffers import SelectedEvents
from engines.matching.trees.evaluation import TreeEvaluation
from engines.program import RunContext
from engines.statistics.measure import measure
from kernels.joins import cpu as joins
from optimizer.bind.binder import load_bound
from optimizer.cost.absence import Absence, in_turn, share_left
from optimizer.cost.counting import CountedQueries
from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import events as components
from optimizer.plan.compile_tree import compile_tree
from optimizer.statistics import KeyStatistics
from optimizer.trees import Latest, Leaf, NegTop, NSeq, SeqJoin, Tree, best_tree, steps_of
from tests.running import run_local

FORMS = {
    "event": "SEQ(A a, !B b, E e)",
    "either": "SEQ(A a, !OR(B b, C c), E e)",
    "two": "SEQ(A a, !B b, !C c, E e)",
    "four": "SEQ(A a, !B b, !C c, !F f, !G g, E e)",
    "sequence of two": "SEQ(A a, !SEQ(B b, C c), E e)",
    "sequence of three": "SEQ(A a, !SEQ(B b, C c, D d), E e)",
    "sequence of four": "SEQ(A a, !SEQ(B b, C c, D d, F f), E e)",
    "sequence and event": "SEQ(A a, !SEQ(B b, C c), !D d, E e)",
    "two sequences": "SEQ(A a, !SEQ(B b, C c), !SEQ(D d, F f), E e)",
    "nested": "SEQ(A a, !SEQ(B b, !D d, C c), E e)",
    "both of two": "SEQ(A a, !AND(B b, C c), E e)",
    "three of a kind": "SEQ(A a, !B^3 b, E e)",
    "first": "SEQ(!B b, A a, E e)",
    "last": "SEQ(A a, E e, !B b)",
    "sequence first": "SEQ(!SEQ(B b, C c), A a, E e)",
    "sequence last": "SEQ(A a, E e, !SEQ(B b, C c))",
    "first and last": "SEQ(!B b, A a, E e, !C c)",
    "anywhere": "AND(A a, E e, !B b)",
    "of four": "SEQ(A a, !B b, C c, D d, E e)",
    "in every gap": "SEQ(A a, !B b, C c, !D d, E e, !F f, G g)",
    "sequence of three items": "SEQ(A a, !SEQ(B b, C c), D d, E e)",
    "tied": "SEQ(A a, !B b, E e) WHERE b.x = a.x",
    "sequence tied": "SEQ(A a, !SEQ(B b, C c), E e) WHERE b.x = a.x AND c.x = a.x",
    "sequence tied inside": "SEQ(A a, !SEQ(B b, C c), E e) WHERE b.x = c.x",
}
KINDS = "ABCDEFG"


def random_stream(seed: int, seconds: int, skewed: bool) -> pa.Table:
    """Events at random times: of types that are alike, or of very different rates."""
    random = np.random.default_rng(seed)
    rates = random.uniform(0.3, 3.0, len(KINDS)) if skewed else np.full(len(KINDS), 1.2)
    size = int(random.poisson(rates.sum() * seconds))
    return pa.table(
        {
            "ts": np.sort(random.integers(0, seconds * 10**6, size)),
            "kind": random.choice(list(KINDS), size, p=rates / rates.sum()),
            "x": random.integers(0, 4, size),
            "k": random.choice(8, size, p=[0.3, *[0.1] * 7]),
        }
    )


def expected_and_found(pattern: str, key: str, window: str, events: pa.Table) -> tuple[float, int]:
    """Rows by the estimate, and those of a run."""
    where = f"{pattern} AND [{key}]" if "WHERE" in pattern else f"{pattern} WHERE [{key}]"
    returned = "e" if "E e" in pattern else "a"
    workload = load_bound(
        {
            "stream": {"time": "ts", "type": "kind", "unit": "us"},
            "queries": [f"PATTERN {where if key else pattern} RETURN {returned} WITHIN {window}"],
        }
    )
    loaded = from_table(events, workload.stream)
    seconds = float(np.ptp(events["ts"].to_numpy())) / 1e6
    estimate = best_tree(workload.queries[0], measure(workload, loaded), (), COMPILED)
    found = run_local(workload, loaded).matches.num_rows
    return estimate.cardinality * seconds / estimate.seconds, found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("skewed", [False, True])
def test_rows_under_negations_are_within_three_times_of_the_estimate(
    form: str, key: str, skewed: bool
) -> None:
    events = random_stream(len(form) + skewed, 1000, skewed)
    compared = 0
    for window in ("2 s", "20 s"):
        expected, found = expected_and_found(FORMS[form], key, window, events)
        if max(expected, found) >= 60:  # of fewer, three times as many may be chance
            compared += 1
            assert found / 3 <= expected <= found * 3, (window, expected, found)
    assert compared


COUNTED = {form: text for form, text in FORMS.items() if "WHERE" not in text}


@pytest.mark.parametrize("form", COUNTED)
@pytest.mark.parametrize("key", ["", " WHERE [k]"])
@pytest.mark.parametrize("slide", ["", " SLIDE 1 s"])
def test_counted_rows_under_negations_are_within_three_times_of_the_estimate(
    form: str, key: str, slide: str
) -> None:
    events = random_stream(len(form), 1000, skewed=True)
    compared = 0
    for window in ("500 ms", "3 s", "20 s"):
        query = f"PATTERN {COUNTED[form]}{key} AGG COUNT(*) WITHIN {window}{slide}"
        workload = load_bound(
            {"stream": {"time": "ts", "type": "kind", "unit": "us"}, "queries": [query]}
        )
        loaded = from_table(events, workload.stream)
        group = CountedQueries(workload.queries, measure(workload, loaded))
        expected, found = group.rows[0] * 1000, run_local(workload, loaded).aggregates.num_rows
        if max(expected, found) >= 40:
            compared += 1
            assert found / 3 <= expected <= found * 3, (window, expected, found)
    assert compared


# --- shares, against hand and chance ------------------------------------------------------------

ONE = KeyStatistics(1.0, 1.0)


def event(count: float) -> tuple[Absence, ...]:
    return (Absence((count,)),)


def test_a_share_of_one_space_is_the_mean_over_its_lengths() -> None:
    assert share_left((event(2.0),), 1, ONE) == pytest.approx(exp(-2))
    assert share_left((event(2.0),), 2, ONE) == pytest.approx((1 - exp(-2)) / 2)
    # Of three spaces one has the density 2 (1 - g).
    assert share_left((event(2.0),), 3, ONE) == pytest.approx(2 * (exp(-2) - 1 + 2) / 4)
    assert share_left((event(5000.0),), 2, ONE) == pytest.approx(1 / 5000)


def test_what_is_negated_in_one_space_adds_up() -> None:
    both = (*event(2.0), *event(3.0))
    assert share_left((both,), 2, ONE) == pytest.approx(share_left((event(5.0),), 2, ONE))
    assert share_left((event(2.0), event(3.0)), 2, ONE) == pytest.approx(exp(-2) - exp(-3))


def test_a_sequence_is_there_when_its_last_event_is() -> None:
    # Erlang: exp(-c g) (1 + c g), over all lengths of a gap.
    found = share_left(((Absence((4.0, 4.0)),),), 2, ONE)
    assert found == pytest.approx((2 - exp(-4) * (2 + 4)) / 4)
    any_order = share_left(((in_turn([4.0, 4.0]),),), 1, ONE)
    assert any_order == pytest.approx(1 - (1 - exp(-4)) ** 2)


def test_only_events_of_the_same_key_count() -> None:
    even = KeyStatistics(10.0, 0.1)
    assert share_left((event(20.0),), 2, even) == pytest.approx(share_left((event(2.0),), 2, ONE))
    heavy = KeyStatistics(11.0, 0.5)
    parts = [share_left((event(20.0 * part),), 2, ONE) for part in (0.5, 0.05)]
    mean = (parts[0] * 0.25 + parts[1] * 10 * 0.0025) / (0.25 + 10 * 0.0025)
    assert share_left((event(20.0),), 2, heavy) == pytest.approx(mean)


def test_shares_are_those_of_simulated_gaps() -> None:
    random, size = np.random.default_rng(3), 200_000
    cuts = np.sort(random.random((size, 3)))
    gaps = np.diff(cuts, prepend=0.0, append=1.0)  # four spaces
    chain, blocked = Absence((3.0, 5.0)), Absence((4.0, 6.0), (0.0, 2.0))
    free = random.exponential(1 / 3, size) + random.exponential(1 / 5, size) > gaps[:, 0]
    free &= _looked_for(random, size, blocked) > gaps[:, 1]
    free &= random.exponential(1 / 2, size) > gaps[:, 1]
    free &= random.exponential(1 / 7, size) > gaps[:, 2]
    spaces = ((chain,), (blocked, Absence((2.0,))), (Absence((7.0,)),))
    assert share_left(spaces, 4, ONE) == pytest.approx(free.mean(), rel=0.03)


def _looked_for(random: np.random.Generator, size: int, absence: Absence) -> np.ndarray:
    """How long it takes to find both events, with none of a third kind between them."""
    last, first = absence.steps
    lost = absence.blocks[1]
    taken, open_ = np.zeros(size), np.ones(size, bool)
    while open_.any():
        many = int(open_.sum())
        then = random.exponential(1 / (first + lost), many)
        taken[open_] += random.exponential(1 / last, many) + then
        open_[open_] = random.random(many) < lost / (first + lost)
    return taken


# --- what joins look at -------------------------------------------------------------------------

SECONDS, WINDOW = 6000, 4
A, B, C, D, E = map(Leaf, "abcde")
CHAIN = Latest((C, D))
PUSHED: dict[str, tuple[str, Tree]] = {
    "to the right": ("SEQ(A a, !C c, B b)", SeqJoin(A, NSeq(B, C, "left"))),
    "to the left": ("SEQ(A a, !C c, B b)", SeqJoin(NSeq(A, C, "right"), B)),
    "a sequence": ("SEQ(A a, !SEQ(C c, D d), B b)", SeqJoin(A, NSeq(B, CHAIN, "left"))),
    "a sequence to the left": (
        "SEQ(A a, !SEQ(C c, D d), B b)",
        SeqJoin(NSeq(A, CHAIN, "right"), B),
    ),
    "two": ("SEQ(A a, !C c, !D d, B b)", SeqJoin(NSeq(A, D, "right"), NSeq(B, C, "left"))),
    "below a join": ("SEQ(A a, B b, !C c, E e)", SeqJoin(SeqJoin(A, NSeq(B, C, "right")), E)),
    "of a pair": ("SEQ(A a, B b, !C c, E e)", SeqJoin(NSeq(SeqJoin(A, B), C, "right"), E)),
    "before a pair": ("SEQ(A a, !C c, B b, E e)", SeqJoin(A, SeqJoin(NSeq(B, C, "left"), E))),
    "on top": ("SEQ(A a, !C c, B b)", NegTop(SeqJoin(A, B), C)),
}


@pytest.mark.parametrize("name", PUSHED)
@pytest.mark.parametrize("key", ["", " WHERE [k]"])
def test_estimates_of_what_joins_under_negations_look_at_are_near_what_they_do(
    name: str, key: str
) -> None:
    pattern, tree = PUSHED[name]
    workload = load_bound(
        {
            "stream": {"time": "ts", "type": "kind", "unit": "us"},
            "queries": [f"PATTERN {pattern}{key} RETURN a WITHIN {WINDOW} s"],
        }
    )
    query = workload.queries[0]
    events = from_table(random_stream(11, SECONDS, skewed=False), workload.stream)
    symbols = [each.symbol for each in components(query.pattern)]
    tried = 0

    def count_pairs(*given: Any) -> joins.Pairs:
        nonlocal tried
        found = joins.count_pairs(*given)
        tried += found.tried
        return found

    kernels = DeviceKernels(DeviceRequest())
    vars(kernels)["count_pairs"] = count_pairs
    columns = Columns(workload, events)
    picked = SelectedEvents(columns, query.key, False, symbols, WINDOW * 10**6, kernels)
    context = RunContext()
    compiled = compile_tree(tree, query.pattern, query.conditions)
    evaluation = TreeEvaluation(picked, WINDOW * 10**6, "q", context)
    made = sum(len(part) for part in evaluation.matches(compiled.operator))
    looks = replace(COMPILED, vain=1.0, output=0.0)  # only what is looked at
    steps = steps_of(tree, query, measure(workload, events), (), looks)
    joined = sum(step.own for step in steps if isinstance(step.node, SeqJoin))
    assert joined * SECONDS / WINDOW == pytest.approx(tried, rel=0.15)
    assert steps[0].rows * SECONDS / WINDOW == pytest.approx(made, rel=0.15)
    # Besides, a negation takes a few looks for each row at most, and one for each event of a pass.
    others = (sum(step.own for step in steps) - joined) * SECONDS / WINDOW
    assert tried <= context.counts.tried <= tried + 2 * others
