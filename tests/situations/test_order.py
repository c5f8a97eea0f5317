"""Names of a pattern are joined in the order that takes least."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.engines.situation_joins import JoinSizes, join_order, tried_relations
from workloads.situations.relations import AFTER, ALL, BEFORE, BIT, MEETS

shares = st.sampled_from([0.0001, 0.01, 0.2, 1.0])


@st.composite
def sizes(draw: st.DrawFn) -> JoinSizes:
    number = draw(st.integers(1, 5))
    kept, tried = ([[1.0] * number for _ in range(number)] for _ in range(2))
    for j, k in itertools.combinations(range(number), 2):
        tried[j][k] = tried[k][j] = draw(shares)
        kept[j][k] = kept[k][j] = tried[j][k] * draw(shares)
    names = draw(st.lists(st.sampled_from([1.0, 20.0, 3000.0]), min_size=number, max_size=number))
    return JoinSizes(names, kept, tried)


def cost_of(given_sizes: JoinSizes, order: tuple[int, ...], begun: int, rows: float) -> float:
    cost = partial = rows if begun else given_sizes.names[order[0]]
    for place in range(max(begun, 1), len(order)):
        cost += given_sizes.step(partial, order[:place], order[place])
        partial = given_sizes.left(partial, order[:place], order[place])
    return cost


@settings(max_examples=100, deadline=None)
@given(sizes())
def test_no_other_order_takes_less(given_sizes: JoinSizes) -> None:
    every = itertools.permutations(range(len(given_sizes.names)))
    best = min(cost_of(given_sizes, order, 0, 0.0) for order in every)
    found = join_order(given_sizes)
    assert found.cost <= best * (1 + 1e-9)
    assert abs(cost_of(given_sizes, found.names, 0, 0.0) - found.cost) <= 1e-9 * found.cost


@settings(max_examples=50, deadline=None)
@given(sizes(), st.floats(1, 100))
def test_what_is_joined_already_comes_first(given_sizes: JoinSizes, rows: float) -> None:
    begun = tuple(range(min(2, len(given_sizes.names))))
    others = range(len(begun), len(given_sizes.names))
    orders = [(*begun, *rest) for rest in itertools.permutations(others)]
    found = join_order(given_sizes, begun, rows)
    assert found.names[: len(begun)] == begun
    best = min(cost_of(given_sizes, order, len(begun), rows) for order in orders)
    assert found.cost <= best * (1 + 1e-9)


def test_what_is_tried_is_one_stretch_of_a_names_situations() -> None:
    assert tried_relations(BEFORE) == BEFORE | MEETS
    assert tried_relations(BIT["overlaps"]) == ALL & ~(BEFORE | AFTER)
    assert tried_relations(BEFORE | BIT["overlaps"]) == ALL & ~AFTER
