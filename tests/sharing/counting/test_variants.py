"""Variants serve some of what their candidate serves, and pay."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.candidates import QuerySteps, mine
from sharing.counting.choice import ROUNDS, with_variants
from sharing.solvers.candidates import SOLVERS
from sharing.solvers.candidates.solution import conflict_graph
from tests.sharing.chains import Given, queries, random_queries, words, workloads

MODEL = AseqModel({"A": 1.0, "B": 2.5, "C": 0.3})


@given(workloads())
def test_a_variant_has_some_places_of_its_candidate(of: list[QuerySteps]) -> None:
    found = mine(of)
    every = with_variants(found, MODEL)
    weights = MODEL.benefits(every)
    assert [c.id for c in every][: len(found)] == [c.id for c in found]
    for i in range(len(found), len(every)):
        base = every[int(every.base[i])]
        assert every.base[i] < len(found)
        assert words(every[i].steps) == words(base.steps)
        assert set(every[i].places) < set(base.places)
        assert len(every[i].queries) > 1
        assert weights[i] > 0


@given(workloads())
def test_variants_never_make_the_best_worse(of: list[QuerySteps]) -> None:
    found = mine(of)
    whole = SOLVERS["cpsat"](conflict_graph(found, MODEL.benefits(found)))
    every = with_variants(found, MODEL)
    parts = SOLVERS["cpsat"](conflict_graph(every, MODEL.benefits(every)))
    assert parts.weight >= whole.weight * (1 - 1e-9)


def test_there_are_few_variants_for_each_candidate() -> None:
    found = mine(random_queries(400, types=10))
    model = AseqModel({f"T{i}": 0.5 + 0.1 * i for i in range(10)})
    every = with_variants(found, model)
    assert len(every) > len(found)
    assert np.bincount(every.base).max() <= 2 + 2 * ROUNDS


def test_a_variant_leaves_out_where_a_heavier_candidate_is() -> None:
    """A B C, of q1 to q3, is heavier than C D, which can still serve q4 and q5."""
    of = queries("A B C D", "A B C", "A B C E", "C D", "F C D")
    found = mine(of)
    model = AseqModel(dict.fromkeys("ABCDEF", 1.0))
    every = with_variants(found, model, rounds=0)
    shown = {(words(every[i].steps), every[i].queries) for i in range(len(found), len(every))}
    assert ("C D", ("q4", "q5")) in shown
    chosen = SOLVERS["exhaustive"](conflict_graph(every, model.benefits(every))).chosen
    assert {words(every[i].steps) for i in chosen} == {"A B C", "C D"}


def test_a_variant_grows_where_what_is_heavier_is_not_chosen() -> None:
    """U V leaves out q2 for S U and q5 for V W; but S U is not chosen, as P S takes its S in q1."""
    of = queries("P S U", "S U V", "U V", "U V", "U V W", "V W", "P S")
    found = mine(of)
    model = Given({"P S": 100.0, "S U": 50.0, "V W": 40.0, "U V": 1.0})

    def variants(rounds: int) -> set[tuple[str, tuple[str, ...]]]:
        every = with_variants(found, model, rounds)
        return {(words(every[i].steps), every[i].queries) for i in range(len(found), len(every))}

    assert variants(0) == {("U V", ("q3", "q4"))}
    assert variants(1) == {("U V", ("q3", "q4")), ("U V", ("q2", "q3", "q4"))}
