"""Conflicts against a plain test of every two candidates."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sharing.counting.candidates import Candidate, Candidates, QuerySteps, mine
from sharing.solvers.candidates.solution import ConflictGraph, conflict_graph
from tests.sharing.chains import queries, query, words, workloads


def unweighted(candidates: Candidates) -> ConflictGraph:
    return conflict_graph(candidates, np.ones(len(candidates)))


def overlap(one: Candidate, other: Candidate) -> bool:
    """Whether both would serve a step of some query."""
    return any(
        a.query == b.query
        and a.position < b.position + len(other.steps)
        and b.position < a.position + len(one.steps)
        for a in one.places
        for b in other.places
    )


@given(workloads())
def test_candidates_conflict_where_their_places_overlap(of: list[QuerySteps]) -> None:
    found = list(mine(of, ("substring", "prefix", "bitmark")))
    graph = unweighted(mine(of, ("substring", "prefix", "bitmark")))
    expected = {
        (i, j) for (i, one), (j, other) in combinations(enumerate(found), 2) if overlap(one, other)
    }
    assert {(min(e), max(e)) for e in graph.as_networkx().edges} == expected
    assert {(i, j) for i in range(len(found)) for j in graph.neighbours(i) if i < j} == expected


def test_the_thesis_example_conflicts_only_where_queries_are_shared() -> None:
    """Section 4.3.3: (A, B, C) and (B, C, D) conflict in q1 and q2, not if in other queries."""
    both = queries("A B C D", "A B C D", "B C X", "A B C", "B C D")
    apart = queries("A B C E", "A B C F", "B C D", "A B C", "B C D")
    for of, conflict in ((both, True), (apart, False)):
        found = mine(of)
        number = {words(c.steps): i for i, c in enumerate(found)}
        graph = unweighted(found).as_networkx()
        assert graph.has_edge(number["A B C"], number["B C D"]) == conflict


def test_symbols_in_common_are_no_conflict() -> None:
    found = mine(queries("A B X B C", "A B Y", "B C Z"))
    assert [words(c.steps) for c in found] == ["A B", "B C"]
    assert unweighted(found).as_networkx().number_of_edges() == 0


def test_of_the_variants_of_a_candidate_only_one_is_chosen() -> None:
    found = mine([query(f"q{i}", "A B") for i in range(4)])
    first_two = found.restricted(found.query < 2)
    last_two = found.restricted(found.query >= 2)
    every = found.followed_by(first_two).followed_by(last_two)
    assert len(every) == 3
    assert unweighted(every).as_networkx().number_of_edges() == 3


def test_equal_variants_are_kept_once() -> None:
    found = mine([query(f"q{i}", "A B") for i in range(4)])
    variant = found.restricted(found.query < 2)
    assert len(found.followed_by(variant).followed_by(variant)) == 2


def test_a_variant_of_one_query_is_none() -> None:
    found = mine(queries("A B A B", "A B"))
    assert len(found.restricted(found.query == 0)) == 0


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1]))


@given(edges)
def test_a_graph_of_edges_has_these_edges(given_edges: list[tuple[int, int]]) -> None:
    graph = ConflictGraph.of_edges([1.0] * 8, given_edges)
    expected = {(min(e), max(e)) for e in given_edges}
    assert {(min(e), max(e)) for e in graph.as_networkx().edges} == expected


@given(edges, st.sets(st.integers(0, 7)))
def test_independence_is_told(given_edges: list[tuple[int, int]], chosen: set[int]) -> None:
    graph = ConflictGraph.of_edges([1.0] * 8, given_edges)
    assert graph.independent(chosen) != any(a in chosen and b in chosen for a, b in given_edges)


@given(edges, st.sets(st.integers(0, 7)).map(sorted))
def test_a_part_of_a_graph_has_the_edges_among_its_nodes(
    given_edges: list[tuple[int, int]], chosen: list[int]
) -> None:
    graph = ConflictGraph.of_edges(range(8), given_edges)
    part = graph.only(np.array(chosen, np.int64))
    assert part.weights.tolist() == chosen
    found = {(chosen[a], chosen[b]) for a, b in part.as_networkx().edges}
    assert {(min(e), max(e)) for e in found} == {
        (min(e), max(e)) for e in given_edges if e[0] in chosen and e[1] in chosen
    }
