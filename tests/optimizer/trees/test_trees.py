"""The search for the best tree, against all trees and against costs by hand."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from kernels.joins import cpu as joins
from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import JoinCosts, looked_at, meeting
from optimizer.ir.query import Query
from optimizer.plan.compile_tree import compile_tree
from optimizer.statistics import KeyStatistics, MissingStatisticError, Statistics, with_defaults
from optimizer.trees import (
    CostedTree,
    GivenFragment,
    Latest,
    Leaf,
    NegTop,
    NSeq,
    SeqJoin,
    TreeError,
    best_tree,
    cost_of,
    print_tree,
)
from optimizer.trees.build_problem import compile_query
from optimizer.trees.cost_walk import walk_cost
from optimizer.trees.problem import Shape as TreeShape
from optimizer.trees.search import solve
from optimizer.trees.sequence_search import SequenceTables
from optimizer.trees.tree import TooEarlyError, Walk, from_document, to_document, walk
from tests.optimizer.all_trees import all_trees
from tests.optimizer.patterns import pattern, query_of, rated, shown
from tests.running import run_local
from tests.strategies import SHAPE, Shape, workloads

SCAN, HASH = JoinCosts(), JoinCosts(equality="hash")
POISSON = JoinCosts(arrivals="poisson")


# --- against all trees -------------------------------------------------------------------------


@st.composite
def random_statistics(draw: st.DrawFn, queries: tuple[Query, ...]) -> Statistics:
    """Numbers for all that queries need, of very different sizes."""
    some = st.sampled_from([0.0, 0.02, 0.3, 1.0, 2.5, 40.0])
    share = st.sampled_from([0.0, 1e-3, 0.02, 0.2, 0.5, 1.0])
    assumed = with_defaults(Statistics(), queries)
    return replace(
        assumed,
        rates={name: 1000 * draw(some) for name in assumed.rates},
        selectivities={name: draw(share) for name in assumed.selectivities},
        keys={name: draw(st.sampled_from(KEYS)) for name in assumed.keys},
    )


KEYS = [KeyStatistics(1.0, 1.0), KeyStatistics(4.0, 0.4), KeyStatistics(1000.0, 0.01)]
MODELS = st.sampled_from([SCAN, HASH, POISSON, JoinCosts(0.5, 2.0, "hash", "poisson")])
SMALL = replace(SHAPE, max_components=5, outputs=("return",), max_window=5000)
SEQUENCES = replace(SMALL, max_components=6, operators=("SEQ",), max_depth=1, constants=False)


def problems(shape: Shape) -> st.SearchStrategy[tuple[Query, Statistics, JoinCosts]]:
    return workloads(shape, max_queries=1).flatmap(
        lambda found: st.tuples(st.just(found.queries[0]), random_statistics(found.queries), MODELS)
    )


@pytest.mark.parametrize("shape", [SMALL, SEQUENCES], ids=["any", "sequences"])
@settings(max_examples=100)
@examples(data=st.data())
def test_no_tree_is_better_than_the_best_or_worse_than_the_worst(
    shape: Shape, data: st.DataObject
) -> None:
    query, statistics, model = data.draw(problems(shape))
    problem = compile_query(query, statistics, (), model)
    costs: list[float] = []
    for tree in all_trees(problem):
        try:
            root = walk_cost(problem, tree)[0]
        except TooEarlyError:
            continue
        costs.append(root.cost)
        assert root.rows == pytest.approx(problem.rows)
    assert solve(problem, "bushy").cost == pytest.approx(min(costs))
    assert solve(problem, "worst").cost == pytest.approx(max(costs))
    assert solve(problem).cost <= min(costs) * (1 + 1e-9)


@settings(max_examples=40)
@examples(st.data())
def test_filters_that_reach_further_are_placed_once_and_best(data: st.DataObject) -> None:
    query = pattern("SEQ(A, B, !X, C, !Y, D, E)", "X.x = D.x AND Y.x = B.x AND Y.y = E.y")
    statistics = data.draw(random_statistics((query,)))
    problem = compile_query(query, statistics)
    costs = [walk_cost(problem, tree)[0].cost for tree in all_trees(problem)]
    assert len(costs) == 14
    assert solve(problem).cost == pytest.approx(min(costs))
    assert solve(problem, "worst").cost == pytest.approx(max(costs))


@settings(max_examples=200)
@examples(problems(replace(SMALL, max_components=9)))
def test_what_the_search_says_is_what_its_tree_costs(
    drawn: tuple[Query, Statistics, JoinCosts],
) -> None:
    query, statistics, model = drawn
    found = {}
    for shape in get_args(TreeShape):
        try:
            found[shape] = best_tree(query, statistics, (), model, shape)
        except TreeError:
            assert shape in ("left", "right")
            continue
        again = cost_of(found[shape].tree, query, statistics, (), model)
        assert again.cost == pytest.approx(found[shape].cost)
        assert again.cardinality == pytest.approx(found[shape].cardinality)
        document = json.loads(json.dumps(to_document(found[shape].tree)))
        assert from_document(document) == found[shape].tree
    joins = {shape: tree for shape, tree in found.items() if shape not in ("any", "walk")}
    for other in joins.values():
        assert found["bushy"].cost <= other.cost * (1 + 1e-9)
        assert other.cost <= found["worst"].cost * (1 + 1e-9)
    # Of two parts a join makes nothing in between: walks of so few are had only if asked for.
    least = min((len(w.parts) for w in walk(found["walk"].tree) if isinstance(w, Walk)), default=3)
    others = [tree for shape, tree in found.items() if shape != "walk" or least > 2]
    assert all(found["any"].cost <= other.cost * (1 + 1e-9) for other in others)


# --- table 2, by hand --------------------------------------------------------------------------


def costed(
    query: Query, rates: tuple[float, ...], model: JoinCosts = SCAN, **shares: float
) -> CostedTree:
    return best_tree(query, rated(query, rates, **shares), (), model)


def test_a_sequence_costs_what_it_tries_tests_and_makes() -> None:
    found = costed(pattern("SEQ(A, B)", "A.x < B.x"), (2, 3), A_B=0.1)
    tried = 20 * 30 / 2
    assert found.cost == pytest.approx(tried + 0.25 * tried + tried * 0.1)
    assert (found.cardinality, found.seconds) == (pytest.approx(tried * 0.1), 10.0)
    assert found.per_second == pytest.approx(found.cost / 10)


def test_a_conjunction_tries_both_orders() -> None:
    found = costed(pattern("AND(A, B)", "A.x < B.x"), (2, 3), A_B=0.1)
    assert found.cost == pytest.approx(600 * 1.25 + 60)
    assert found.cardinality == pytest.approx(60)


def test_a_disjunction_fetches_its_inputs() -> None:
    found = costed(query_of("PATTERN OR(A a, B b) RETURN a WITHIN 10 s"), (2, 3))
    assert (found.cost, found.cardinality) == (100.0, 50.0)


def test_a_negation_pushed_down_finds_one_event_for_each_row() -> None:
    query = pattern("SEQ(A, !B, C)")
    statistics = rated(query, (2, 7, 3))
    found = best_tree(query, statistics)
    assert shown(found) == "(NSEQ(A ; !B) ; C)"
    assert found.cost == pytest.approx(2 * 20 + 300 + 300 * 3 / 4)
    on_top = NegTop(SeqJoin(Leaf("A"), Leaf("C")), Leaf("B"))
    assert cost_of(on_top, query, statistics).cost == pytest.approx(600 + 300 + 300 * 3 / 4)


def test_a_negation_goes_to_the_neighbour_that_its_predicates_read() -> None:
    assert shown(costed(pattern("SEQ(A, !B, C)", "B.x = C.x"), (1, 5, 9))) == "(A ; NSEQ(!B ; C))"
    assert shown(costed(pattern("SEQ(A, !B, C)", "B.x = A.x"), (9, 5, 1))) == "(NSEQ(A ; !B) ; C)"


def test_a_negation_whose_predicates_reach_further_is_a_filter() -> None:
    query = pattern("SEQ(A, !B, C, D)", "B.x = C.x AND B.y = D.y")
    found = shown(costed(query, (1, 5, 9, 9)))
    assert found == "NEG(((A ; C) ; D), !B)"


def test_negations_at_the_edges_and_in_an_and_need_the_whole_match() -> None:
    assert shown(costed(pattern("SEQ(A, B, !C)"), (1, 1, 1))) == "NEG((A ; B), !C)"
    first = query_of("PATTERN SEQ(!C, A a, B) RETURN a WITHIN 10 s")
    assert shown(costed(first, (1, 1, 1))) == "NEG((a ; B), !C)"
    assert shown(costed(pattern("AND(A, B, !C)"), (1, 1, 1))) == "NEG((A & B), !C)"


def test_a_nested_negation_whose_components_are_tied_is_found_by_a_tree_of_its_own() -> None:
    query = pattern("SEQ(A, !SEQ(B, C, D), E)", "B.x = C.x")
    plain = costed(pattern("SEQ(A, !B, E)"), (1, 1, 1))
    found = costed(query, (1, 1, 0.1, 1, 1))
    assert shown(found) == "(NSEQ(A ; !((B ; C) ; D)) ; E)"
    tied = query_of("PATTERN SEQ(B b, C, D) WHERE b.x = C.x RETURN b WITHIN 10 s")
    inner = costed(tied, (1, 0.1, 1))
    assert found.cost == pytest.approx(plain.cost + inner.cost)


def test_a_nested_negation_that_is_not_tied_takes_one_pass() -> None:
    plain = costed(pattern("SEQ(A, !B, E)"), (1, 1, 1))
    found = costed(pattern("SEQ(A, !SEQ(B, C, D), E)"), (1, 1, 0.1, 2, 1))
    assert shown(found) == "(NSEQ(A ; !LATEST(B ; C ; D)) ; E)"
    assert found.cost == pytest.approx(plain.cost + (10 + 1 + 20) + 20)


def test_what_is_negated_in_a_negation_stands_before_its_neighbour() -> None:
    query = pattern("SEQ(A, !SEQ(B, !X, C), E)")
    statistics = rated(query, (1,) * 5)
    found = best_tree(query, statistics)
    assert shown(found) == "(NSEQ(A ; !LATEST(B ; NSEQ(!X ; C))) ; E)"
    assert cost_of(found.tree, query, statistics).cost == pytest.approx(found.cost)
    assert from_document(to_document(found.tree)) == found.tree


@pytest.mark.parametrize(
    ("where", "parts"), [("", "CB"), ("", "B"), ("B.x = C.x", "BC"), ("C.x = A.x", "BC")]
)
def test_one_pass_decides_what_is_negated_in_its_order_or_nothing(where: str, parts: str) -> None:
    query = pattern("SEQ(A, !SEQ(B, C), E)", where)
    statistics = rated(query, (1,) * 4)
    tree = NegTop(SeqJoin(Leaf("A"), Leaf("E")), Latest(tuple(map(Leaf, parts))))
    with pytest.raises(TreeError, match=r"one pass does not decide|is not negated here"):
        cost_of(tree, query, statistics)
    with pytest.raises(TreeError, match=r"one pass does not decide|leaves out"):
        compile_tree(tree, query.pattern, query.conditions)


def test_a_closure_of_all_is_one_group_for_each_start_and_end() -> None:
    found = costed(pattern("SEQ(A, ALL B b, C)"), (2, 4, 3))
    pairs, between = 300, 40 / 4
    assert shown(found) == "KSEQ(A ; ALL b ; C)"
    assert found.cost == pytest.approx(pairs * between + pairs * between)
    assert found.cardinality == pytest.approx(pairs)


def test_a_closure_of_n_slides() -> None:
    found = costed(pattern("SEQ(A, B^3 b, C)"), (2, 4, 3))
    pairs, between = 300, 40 / 4
    assert found.cardinality == pytest.approx(pairs * (between - 2))
    assert found.cost == pytest.approx(pairs * between * 3 + found.cardinality * 3)


def test_conditions_on_the_events_of_a_closure_leave_fewer_to_choose_from() -> None:
    found = costed(pattern("SEQ(A, B^3 b, C)", "b.x < C.x"), (2, 4, 3), C_b=0.5)
    pairs, between = 300, 40 / 4 / 2
    assert found.cardinality == pytest.approx(pairs * (between - 2))
    assert found.cost == pytest.approx(pairs * between * 3 * 1.25 + found.cardinality * 3)
    total = costed(pattern("SEQ(A, B^3 b, C)", "sum(b.x) < C.x"), (2, 4, 3), C_b=0.5)
    assert total.cardinality == pytest.approx(pairs * (40 / 4 - 2) / 2)


def test_a_kleene_plus_has_a_row_for_every_choice() -> None:
    found = costed(pattern("SEQ(A, B+ b, C)"), (2, 0.8, 3))
    assert found.cardinality == pytest.approx(300 * (2**2 - 1))


def test_a_closure_waits_for_what_chooses_its_events() -> None:
    query = pattern("SEQ(A, ALL B b, C, D)", "b.x < D.x")
    # D is frequent: without the condition it would be joined last.
    assert shown(costed(pattern("SEQ(A, ALL B b, C, D)"), (1, 1, 1, 50))).endswith("; D)")
    assert shown(costed(query, (1, 1, 1, 50), D_b=0.5)) == "KSEQ(A ; ALL b ; (C ; D))"


def test_closures_at_the_edges_need_no_start_or_end() -> None:
    assert shown(costed(pattern("SEQ(A, B+ b)"), (1, 1))) == "KSEQ(A ; b+)"
    first = query_of("PATTERN SEQ(ALL A a, B, C) RETURN B WITHIN 10 s")
    assert shown(costed(first, (1, 1, 1))) == "KSEQ(ALL a ; (B ; C))"
    alone = query_of("PATTERN A+ a RETURN a WITHIN 10 s")
    assert shown(costed(alone, (0.5,))) == "KSEQ(a+)"


def test_predicates_are_evaluated_at_the_lowest_node_that_has_their_components() -> None:
    # Odense thesis, figure 3.3: of (1, 2), (2, 4), (4, 5) only (2, 4) belongs to root 3.
    query = pattern("SEQ(A, B, C, D, E)", "A.x < B.x AND B.x < D.x AND D.x < E.x")
    statistics = rated(query, (1,) * 5, A_B=0.5, B_D=0.1, D_E=0.25)
    tree = SeqJoin(SeqJoin(Leaf("A"), Leaf("B")), SeqJoin(Leaf("C"), SeqJoin(Leaf("D"), Leaf("E"))))
    steps = walk_cost(compile_query(query, statistics), tree)
    own = {print_tree(step.node): (step.own, step.rows) for step in steps if step.own}
    ab, de = 50 * 0.5, 50 * 0.25
    cde, root = 10 * de / 2, ab * (10 * de / 2) / 2
    assert own == {
        "(A ; B)": (pytest.approx(50 * 1.25 + ab), pytest.approx(ab)),
        "(D ; E)": (pytest.approx(50 * 1.25 + de), pytest.approx(de)),
        "(C ; (D ; E))": (pytest.approx(2 * cde), pytest.approx(cde)),
        print_tree(tree): (pytest.approx(root * 1.25 + root * 0.1), pytest.approx(root * 0.1)),
    }


def test_a_negation_can_be_pushed_to_a_stretch_that_begins_or_ends_next_to_it() -> None:
    query = pattern("SEQ(A, B, !N, C, D)", "N.x < D.x")
    statistics = rated(query, (1,) * 5, D_N=0.5)
    before, after = SeqJoin(Leaf("A"), Leaf("B")), SeqJoin(Leaf("C"), Leaf("D"))
    steps = walk_cost(
        compile_query(query, statistics), SeqJoin(before, NSeq(after, Leaf("N"), "left"))
    )
    shown = {print_tree(step.node): step.own for step in steps}
    assert shown["NSEQ(!N ; (C ; D))"] > 0
    reads_too_far, from_afar = NSeq(before, Leaf("N"), "right"), NSeq(Leaf("D"), Leaf("N"), "left")
    for wrong in (SeqJoin(reads_too_far, after), SeqJoin(before, SeqJoin(Leaf("C"), from_afar))):
        with pytest.raises(TreeError, match="cannot be pushed there"):
            walk_cost(compile_query(query, statistics), wrong)


def test_equalities_can_be_looked_up_instead_of_tried() -> None:
    query = pattern("SEQ(A, B)", "A.x = B.y")
    scanned, hashed = (costed(query, (20, 30), model, A_B=0.01) for model in (SCAN, HASH))
    tried = 200 * 300 / 2
    assert scanned.cost == pytest.approx(tried * 1.25 + tried * 0.01)
    assert hashed.cost == pytest.approx(tried * 0.01 + 300 + tried * 0.01)
    assert scanned.cardinality == hashed.cardinality


def test_a_key_keeps_events_apart() -> None:
    free = costed(pattern("SEQ(A, B, C)"), (1, 1, 1))
    query = pattern("SEQ(A, B, C)", "[k]")
    uniform, skewed = (
        best_tree(query, replace(rated(query, (1, 1, 1)), keys={"k": key}))
        for key in (KeyStatistics(10.0, 0.1), KeyStatistics(10.0, 0.7))
    )
    assert uniform.cardinality == pytest.approx(free.cardinality / 100)
    assert uniform.cardinality < skewed.cardinality < free.cardinality


def test_a_window_counted_in_events_holds_each_types_share_of_them() -> None:
    query = pattern("SEQ(A, B)", within="50 EVENTS")
    statistics = replace(rated(query, (1, 3)), events=1000, span=100.0)
    found = best_tree(query, statistics)
    assert found.cardinality == pytest.approx((50 * 0.1) * (50 * 0.3) / 2)
    assert found.seconds == pytest.approx(5.0)


def test_a_predicate_that_reaches_into_an_or_holds_for_the_other_part() -> None:
    query = pattern("SEQ(A, OR(B, C), D)", "B.x = D.x")
    found = costed(query, (1, 3, 1, 1), B_D=0.5)
    # 3 in 4 rows of the OR are of B, and half of these remain.
    assert found.cardinality == pytest.approx(10 * 40 / 2 * 10 / 2 * (1 - 3 / 4 / 2))


# --- shared pieces -----------------------------------------------------------------------------


def test_a_given_piece_is_a_leaf_that_is_paid_for_elsewhere() -> None:
    query = pattern("SEQ(A, B, C, D)")
    statistics = rated(query, (1, 50, 50, 1))
    free = best_tree(query, statistics)
    assert shown(free) == "((A ; B) ; (C ; D))"
    piece = GivenFragment("bc", frozenset({"B", "C"}))
    found = best_tree(query, statistics, [piece])
    assert shown(found) == "((A ; <bc>) ; D)"
    assert found.cardinality == pytest.approx(free.cardinality)
    inner = costed(query_of("PATTERN SEQ(B b, C) RETURN b WITHIN 10 s"), (50, 50))
    paid = best_tree(query, statistics, [replace(piece, cost=inner.cost)])
    assert paid.cost == pytest.approx(found.cost + inner.cost)
    assert paid.cost >= free.cost
    assert cost_of(found.tree, query, statistics, [piece]).cost == pytest.approx(found.cost)


def test_a_given_number_of_rows_takes_the_place_of_the_estimate() -> None:
    query = pattern("SEQ(A, B, C)")
    statistics = rated(query, (1, 1, 1))
    found = best_tree(query, statistics, [GivenFragment("ab", frozenset({"A", "B"}), 0.0, 7.0)])
    assert found.cardinality == pytest.approx(7 * 10 / 2)


def test_pieces_of_conjunctions_and_single_parts_can_be_given() -> None:
    query = pattern("SEQ(A, AND(B, C, D), OR(E, F))")
    statistics = rated(query, (1,) * 6)
    pieces = [
        GivenFragment("cd", frozenset({"C", "D"})),
        GivenFragment("ef", frozenset({"E", "F"})),
    ]
    found = best_tree(query, statistics, pieces)
    assert {"<cd>", "<ef>"} <= set(shown(found).replace("(", " ").replace(")", " ").split())
    assert found.cardinality == pytest.approx(best_tree(query, statistics).cardinality)


def test_negations_and_groups_between_the_components_belong_to_a_piece() -> None:
    query = pattern("SEQ(A, B, !X, ALL G g, C, !Y)")
    statistics = rated(query, (1,) * 6)
    found = best_tree(query, statistics, [GivenFragment("bgc", frozenset({"B", "g", "C"}))])
    assert shown(found) == "NEG((A ; <bgc>), !Y)"
    assert found.cardinality == pytest.approx(best_tree(query, statistics).cardinality)


def test_negations_that_a_piece_leaves_out_are_checked_on_top() -> None:
    query = pattern("SEQ(A, !X, B, C)")
    statistics = rated(query, (1,) * 4)
    found = best_tree(query, statistics, [GivenFragment("abc", frozenset("ABC"), negations=False)])
    assert shown(found) == "NEG(<abc>, !X)"
    assert found.cardinality == pytest.approx(best_tree(query, statistics).cardinality)


@pytest.mark.parametrize("aliases", [{"A", "C"}, {"A", "Z"}, {"B", "D"}, set("ABCDE")])
def test_what_is_no_piece_of_the_query_is_refused(aliases: set[str]) -> None:
    query = pattern("SEQ(A, B, C, D)")
    with pytest.raises(TreeError, match="'odd' is no piece of query"):
        best_tree(query, rated(query, (1,) * 4), [GivenFragment("odd", frozenset(aliases))])


def test_a_piece_that_ends_with_all_events_of_a_gap_needs_what_is_beyond() -> None:
    query = pattern("SEQ(A, B, ALL G g, C)")
    with pytest.raises(TreeError, match="'bg' is no piece"):
        best_tree(query, rated(query, (1,) * 4), [GivenFragment("bg", frozenset({"B", "g"}))])
    last = pattern("SEQ(A, B, ALL G g)")
    found = best_tree(last, rated(last, (1,) * 3), [GivenFragment("bg", frozenset({"B", "g"}))])
    assert shown(found) == "(A ; <bg>)"


def test_pieces_that_overlap_are_refused() -> None:
    query = pattern("SEQ(A, B, C, D)")
    pieces = [
        GivenFragment("ab", frozenset({"A", "B"})),
        GivenFragment("bc", frozenset({"B", "C"})),
    ]
    with pytest.raises(TreeError, match="'bc' is no piece"):
        best_tree(query, rated(query, (1,) * 4), pieces)


# --- errors, shapes and speed ------------------------------------------------------------------


def test_a_missing_rate_is_named() -> None:
    with pytest.raises(MissingStatisticError, match="rate of 'B'"):
        best_tree(pattern("SEQ(A, B)"), Statistics({"A": 1.0}))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (SeqJoin(Leaf("A"), Leaf("B")), "leaves out the negation of X"),
        (SeqJoin(Leaf("B"), Leaf("A")), "do not follow each other"),
        (SeqJoin(Leaf("A"), Leaf("X")), "X is no single component"),
        (NegTop(Leaf("A"), Leaf("X")), "too early"),
    ],
)
def test_a_tree_of_another_query_is_refused(tree: Any, message: str) -> None:
    query = pattern("SEQ(A, !X, B)")
    with pytest.raises(TreeError, match=message):
        cost_of(tree, query, rated(query, (1, 1, 1)))


def test_the_shapes_of_a_sequence() -> None:
    query = pattern("SEQ(A, B, C, D)")
    statistics = rated(query, (1, 2, 3, 4))
    shapes = {s: shown(best_tree(query, statistics, shape=s)) for s in ("left", "right")}
    assert shapes == {"left": "(((A ; B) ; C) ; D)", "right": "(A ; (B ; (C ; D)))"}


def test_many_parts_of_an_and_are_merged_greedily_and_said_to_be() -> None:
    names = [f"T{i}" for i in range(12)]
    query = pattern(f"AND({', '.join(names)})", within="1 s")
    statistics = rated(query, tuple(1 + i % 3 for i in range(12)))
    found = best_tree(query, statistics)
    assert not found.exact
    assert found.cost == pytest.approx(cost_of(found.tree, query, statistics).cost)
    assert found.cost <= best_tree(query, statistics, shape="left").cost


def twenty() -> tuple[Query, Statistics]:
    names = [f"T{i}" for i in range(20)]
    ties = " AND ".join(f"{a}.x < {b}.x" for a, b in itertools.pairwise(names))
    query = pattern(f"SEQ({', '.join(names)})", ties)
    return query, with_defaults(rated(query, tuple(1 + i % 7 for i in range(20))), [query])


def test_every_split_of_every_stretch_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    splits: list[tuple[int, int, int]] = []
    plain = SequenceTables.plain_cost

    def counted(self: SequenceTables, a: int, b: int, r: int) -> float:
        splits.append((a, b, r))
        return plain(self, a, b, r)

    monkeypatch.setattr(SequenceTables, "plain_cost", counted)
    best_tree(*twenty())
    assert len(splits) == len(set(splits)) == 20 * (20**2 - 1) // 6


def test_length_20_takes_less_than_10_ms() -> None:
    query, statistics = twenty()
    taken = []
    for _ in range(50):
        start = time.thread_time()  # of this thread alone, whatever else the machine does
        best_tree(query, statistics)
        taken.append(time.thread_time() - start)
    assert min(taken) < 0.010


# --- rows, against what streams hold -----------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        "SEQ(A a, B b)",
        "SEQ(A a, B b, C c)",
        "AND(A a, B b)",
        "AND(A a, B b, C c)",
        "AND(SEQ(A a, B b), C c)",
        "SEQ(A a, !C, B b)",
        "SEQ(AND(A a, B b), C c)",
        "SEQ(A a, OR(B b, C c))",
        "SEQ(A a, ALL C c, B b)",
        "SEQ(A a, C^2 c, B b)",
        "SEQ(A a, C+ c, B b)",
        "SEQ(A a, ALL C c)",
    ],
)
def test_poisson_estimates_are_near_what_a_random_stream_holds(parts: str) -> None:
    rates = {"A": 0.3, "B": 0.5, "C": 0.4}
    span, random = 1500, np.random.default_rng(5)
    rows = [
        {"ts": int(at), "kind": kind}
        for kind, rate in rates.items()
        for at in random.uniform(0, span * 1e6, random.poisson(rate * span))
    ]
    document = {
        "stream": {"time": "ts", "type": "kind", "unit": "us"},
        "queries": [f"PATTERN {parts} RETURN a WITHIN 6 s"],
    }
    workload = load_bound(document)
    events = from_table(pa.Table.from_pylist(rows), workload.stream)
    found = run_local(workload, events).matches.num_rows
    estimate = best_tree(workload.queries[0], Statistics(rates), (), POISSON)
    assert estimate.cardinality * span / estimate.seconds == pytest.approx(found, rel=0.2)


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2), (2, 2)])
def test_estimates_of_what_joins_look_at_are_near_what_they_do(first: int, then: int) -> None:
    """Pairs that `first` and `then` events in a row make, the joins of which are known."""
    rate, width, span, random = 0.4, 6.0, 1500, np.random.default_rng(7)
    times = np.sort(random.uniform(0, span, random.poisson(4 * rate * span)))
    position = (times * 1e6).astype(np.int64)
    kinds = random.integers(0, 4, len(times))
    sides = (range(first), range(2, 2 + then))
    left, right = (_in_a_row(position, kinds, side, int(width * 1e6)) for side in sides)
    none, whole = np.zeros(0, np.int32), np.array([0, len(left.last)])
    tests = np.zeros(0, np.int8)
    pairs = joins.count_pairs(
        position, position, left, whole, right, none, tests, int(width * 1e6), True
    )
    model = replace(POISSON, vain=1.0)
    rows = len(left.last) * len(right.last) * width / span
    assert pairs.tried == pytest.approx(rows * looked_at(model, first, then, True), rel=0.1)
    fitting = rows * meeting(model, first, then, True)
    assert pairs.counts.sum() == pytest.approx(fitting, rel=0.2)


def _in_a_row(position: np.ndarray, kinds: np.ndarray, wanted: range, width: int) -> joins.Side:
    """All events of one type, or pairs of two types in order, by their end."""
    places = [np.flatnonzero(kinds == kind) for kind in wanted]
    rows = [
        (a, b)
        for b in places[-1]
        for a in (places[0] if len(wanted) > 1 else (b,))
        if a <= b and position[b] - position[a] < width
    ]
    last = np.array([b for _, b in rows], np.int32)
    ends = last if len(wanted) == 1 else np.array([a for a, _ in rows], np.int32)
    return joins.Side(ends, last, np.zeros(0, np.int64), np.zeros((0, len(rows))))
