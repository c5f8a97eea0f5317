"""From queries to a choice, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given

from sharing.counting.benefit import Floats
from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.candidates import Candidates, QuerySteps
from sharing.counting.choice import Reason, choose
from sharing.solvers.candidates import SOLVERS, Options
from tests.sharing.chains import Given, queries, random_queries, words, workloads

MODEL = AseqModel({"A": 1.0, "B": 2.5, "C": 0.3})


@dataclass(frozen=True)
class Crowded:
    """A model that is not linear: the second query saves most."""

    unit: str = "points"

    def benefits(self, candidates: Candidates) -> Floats:
        lengths, places = candidates.length.astype(np.float64), candidates.places.astype(np.float64)
        return lengths * np.sqrt(places)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", [MODEL, Crowded()])
@pytest.mark.parametrize("whole", [False, True])
def test_every_solver_chooses_for_every_model(
    solver: str, model: AseqModel | Crowded, whole: bool
) -> None:
    of = queries("A B C A B", "B C A", "A B A B", "C A B C", "B B C")
    choice = choose(of, model, solver, whole=whole)
    assert choice.graph.independent(choice.solution.chosen)
    assert choice.solution.weight == pytest.approx(
        choice.weights[list(choice.solution.chosen)].sum()
    )
    assert choice.solution.weight > 0
    assert sum(s.length for segments in choice.chopped.values() for s in segments) == 19


@given(workloads())
def test_every_candidate_has_its_reason(of: list[QuerySteps]) -> None:
    choice = choose(of, MODEL)
    chosen = set(choice.solution.chosen)
    for i, candidate in enumerate(choice.candidates):
        reason = choice.reason(i)
        assert (reason.why == "chosen") == (i in chosen)
        if reason.why == "conflict":
            assert reason.other in chosen
            assert reason.other in choice.graph.neighbours(i)
        if reason.why == "does not pay":
            assert choice.weights[i] <= 0
        if reason.why == "chosen in part":
            parts = [choice.candidates[c] for c in chosen if choice.candidates.base[c] == i]
            assert len(parts) == 1
            assert set(parts[0].places) < set(candidate.places)


def test_reasons_of_a_small_workload() -> None:
    """With one event of each type in a window, sharing l steps in k queries saves l (k - 1)."""
    of = queries("A B C D", "B C D", "B C D", "B C D", "A B", "A B X")
    choice = choose(of, AseqModel(dict.fromkeys("ABCDX", 1.0)), "cpsat")
    assert choice.solution.weight == pytest.approx(3 * 3 + 2 * 1)
    reasons = {
        (words(c.steps), len(c.queries)): choice.reason(i) for i, c in enumerate(choice.candidates)
    }
    number = {words(c.steps): i for i, c in enumerate(choice.candidates)}
    assert reasons[("B C D", 4)].why == "chosen"
    assert reasons[("A B", 3)].why == "chosen in part"
    assert reasons[("A B", 2)].why == "chosen"
    assert reasons[("C D", 4)].why == "conflict"
    assert reasons[("C D", 4)].other == number["B C D"]
    busy = choose(of, AseqModel(dict.fromkeys("ABCDX", 100.0)), "cpsat")
    assert {busy.reason(i).why for i in range(len(busy.candidates))} == {"does not pay"}


def test_the_heaviest_conflict_is_named() -> None:
    of = queries("A B C D", "A B", "C D E", "C D E", "B C")
    gains = {"A B": 5.0, "C D E": 9.0, "C D": 1.0, "D E": 2.0, "B C": 1.0}
    choice = choose(of, Given(gains), "exhaustive", whole=True)
    number = {words(c.steps): i for i, c in enumerate(choice.candidates)}
    assert set(choice.solution.chosen) == {number["A B"], number["C D E"]}
    assert choice.reason(number["D E"]) == Reason("conflict", number["C D E"])
    assert choice.reason(number["C D"]) == Reason("conflict", number["C D E"])
    assert choice.reason(number["B C"]) == Reason("conflict", number["A B"])


@pytest.mark.parametrize("model", [MODEL, Crowded()])
@pytest.mark.parametrize("whole", [False, True])
def test_an_exact_solver_begins_from_an_earlier_choice(
    model: AseqModel | Crowded, whole: bool
) -> None:
    """Without any effort it ends where it began, and a greedy choice alone would be worse."""
    of = random_queries(120, types=8)
    rates = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(8)})
    model = rates if isinstance(model, AseqModel) else model
    old = choose(of, model, "cpsat", Options(effort=0.05), whole=whole)
    chosen = [old.candidates[i] for i in old.solution.chosen]
    none = Options(effort=1e-6)
    again = choose(of, model, "cpsat", none, whole=whole, earlier=chosen)
    assert again.solution.weight >= old.solution.weight * (1 - 1e-9)
    assert choose(of, model, "cpsat", none, whole=whole).solution.weight < old.solution.weight


def test_what_an_earlier_choice_served_and_is_gone_does_no_harm() -> None:
    of = queries("A B C", "A B", "A B")
    chosen = list(choose(of, MODEL).candidates)
    for solver in ("cpsat", "exhaustive"):
        fresh = choose(of[:2], MODEL, solver)
        again = choose(of[:2], MODEL, solver, earlier=chosen)
        assert again.solution.weight == fresh.solution.weight > 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "seconds"), [(1_000, 3), (10_000, 60)])
@pytest.mark.parametrize("whole", [False, True])
def test_large_workloads_are_planned_in_time(number: int, seconds: float, whole: bool) -> None:
    of = random_queries(number)
    rates = np.random.default_rng(1).lognormal(1, 1, 50).tolist()
    began = time.process_time()
    choice = choose(of, AseqModel({f"T{i}": r for i, r in enumerate(rates)}), whole=whole)
    assert len(choice.chopped) == number
    assert time.process_time() - began < seconds
    assert 0 < choice.solution.gap < 0.5
