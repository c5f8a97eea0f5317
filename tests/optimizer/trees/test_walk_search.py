"""Orders of walks: the cheapest by the model, what it costs, and what it tries when it runs."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from engines.program import RunContext
from optimizer.cost.unit_costs import COMPILED
from optimizer.statistics import KeyStatistics
from optimizer.trees import Leaf, Walk, best_tree, print_tree
from optimizer.trees.problem import Predicate, Single, TreeProblem
from optimizer.trees.walk_search import WalkOrders, WalkPart
from tests.benchmarks.matching import Sought, sought
from tests.optimizer.patterns import pattern, rated

NAMES = "abcdefghijklmn"


@st.composite
def orders(draw: st.DrawFn, least: int, most: int) -> WalkOrders:
    """Parts of very different frequency, with predicates between any two of them."""
    size = draw(st.integers(least, most))
    share = st.sampled_from([1e-3, 0.02, 0.2, 0.5, 1.0])
    parts = []
    for name in NAMES[:size]:
        rows = draw(st.sampled_from([0.02, 0.3, 1.0, 2.5, 40.0]))
        parts.append(WalkPart(rows, rows, draw(st.sampled_from([1, 1, 2])), frozenset(name)))
    pairs = list(itertools.combinations(NAMES[:size], 2))
    ties = draw(st.lists(st.sampled_from(pairs), max_size=2 * size))
    predicates = [Predicate(frozenset(tie), draw(share), draw(st.booleans())) for tie in ties]
    key = draw(st.sampled_from([KeyStatistics(1.0, 1.0), KeyStatistics(100.0, 0.05)]))
    problem = TreeProblem(Single("a", 1.0), (), COMPILED, key, 1.0)
    return WalkOrders(problem, parts, predicates, ordered=draw(st.booleans()))


@settings(max_examples=60)
@examples(orders(2, 5))
def test_no_order_is_cheaper_than_the_best(found: WalkOrders) -> None:
    cost, order = found.best()
    assert cost == pytest.approx(found.cost(order))
    every = [found.cost(other) for other in itertools.permutations(range(found.size))]
    assert cost == pytest.approx(min(every))


@settings(max_examples=30)
@examples(orders(13, 14))
def test_of_many_parts_no_two_are_better_exchanged(found: WalkOrders) -> None:
    cost, order = found.best()
    assert sorted(order) == list(range(found.size))
    assert cost == pytest.approx(found.cost(order))
    for i, j in itertools.combinations(range(found.size), 2):
        other = list(order)
        other[i], other[j] = other[j], other[i]
        assert cost <= found.cost(other) * (1 + 1e-6)


def test_a_rare_last_event_is_bound_first() -> None:
    query = pattern("SEQ(A, B, C, D)", "A.x < C.x AND B.x < D.x")
    rates = rated(query, (1000.0, 1000.0, 1000.0, 1.0))
    tree = best_tree(query, rates, model=COMPILED).tree
    assert isinstance(tree, Walk)
    assert tree.parts[0] == Leaf("D")


def test_what_is_written_of_a_walk_is_the_order_in_which_it_binds() -> None:
    walk = Walk((Leaf("b"), Leaf("a"), Leaf("c")))
    assert print_tree(walk) == "WALK(b, a, c)"


# --- against what walks try ---------------------------------------------------------------------

SIZE, WIDTH = 4000, 40


def asked_at_random(random: np.random.Generator, parts: int) -> Sought:
    """A sequence of types of different frequency, some of them tied by comparisons."""
    weights = random.choice([1.0, 1.0, 2.0, 5.0, 0.2], parts)
    kinds = random.choice(parts, SIZE, p=weights / weights.sum())
    table = pa.table(
        {
            "ts": np.arange(SIZE),
            "type": [f"T{kind}" for kind in kinds],
            **{name: random.integers(0, 100, SIZE) for name in "xyz"},
        }
    )
    pairs = list(itertools.combinations(NAMES[:parts], 2))
    chosen = random.choice(len(pairs), min(len(pairs), int(random.integers(1, 4))), replace=False)
    tests = []
    for number, attribute in zip(chosen, "xyz", strict=False):
        one, other = pairs[number]
        sign = random.choice(["<", "<", ">", "="])
        more = random.choice(["", " + 50", " - 20"]) if sign != "=" else ""
        tests.append(f"{one}.{attribute}{more} {sign} {other}.{attribute}")
    events = ", ".join(f"T{i} {name}" for i, name in enumerate(NAMES[:parts]))
    where = " AND ".join(tests)
    width = int(random.choice([WIDTH // 2, WIDTH]))
    return sought(
        f"QUERY q PATTERN SEQ({events}) WHERE {where} RETURN a.ts WITHIN {width} ms", table
    )


def tried(asked: Sought, order: str) -> int:
    """How many candidates a walk in this order tries."""
    from engines.matching.trees.evaluation import TreeEvaluation

    context = RunContext()
    tree = asked.compiled(Walk(tuple(map(Leaf, order))))
    evaluation = TreeEvaluation(asked.picked, asked.width, "q", context)
    for _ in evaluation.matches(tree.compiled.operator):
        pass
    return context.counts.tried


@pytest.mark.parametrize("seed", range(24))
def test_the_order_chosen_tries_hardly_more_than_any_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = int(random.integers(3, 7))
    asked = asked_at_random(random, parts)
    chosen = asked.shaped("walk")
    assert isinstance(chosen, Walk)
    own = tried(asked, "".join(leaf.alias for leaf in chosen.parts if isinstance(leaf, Leaf)))
    every = ["".join(order) for order in itertools.permutations(NAMES[:parts])]
    if len(every) > 120:
        every = [order for order in every if random.random() < 0.25]
    assert own <= 1.3 * min(tried(asked, order) for order in every)
