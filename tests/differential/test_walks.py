"""Walks in every order give what the reference gives, whatever is negated, passed down or tied."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.limits import Limits
from engines.program import TreeUnit
from optimizer.ir.query import BoundWorkload
from optimizer.plan import join_operators as op
from optimizer.trees.tree import Propagation
from optimizer.trees.walk_search import WalkOrders
from tests.differential.test_local import events_of
from tests.differential.test_tree_matrix import bound
from tests.differential.test_tree_matrix import check as check_slices
from tests.differential.test_trees import (
    AGGREGATES,
    DENSE,
    LARGER,
    PLAIN_NEGATIONS,
    SMALL,
    TAKEN,
    cases,
    check,
    larger,
    matches,
    of_trees,
)
from tests.running import How
from tests.strategies import Row, Shape, event_rows

FORCED = How(detection="walk")
WAYS = st.sampled_from([None, *get_args(Propagation)])
SEEDS = st.integers(0, 2**16)
Case = tuple[BoundWorkload, list[Row]]


class in_any_order:  # noqa: N801 - used like a function
    """Walks are in orders drawn at random, whatever they cost."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        as_it_was = WalkOrders.best_of

        def drawn(self: WalkOrders, every: int) -> tuple[float, tuple[int, ...]]:
            cost, order = as_it_was(self, every)
            return cost, tuple(random.permutation(order).tolist())

        self._patch = patch.object(WalkOrders, "best_of", drawn)

    def __enter__(self) -> None:
        self._patch.start()

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def checked(case: Case, seed: int, way: Propagation | None, limits: Limits | None = None) -> None:
    how = FORCED if way is None else replace(FORCED, propagation=way)
    with in_any_order(seed):
        check(case[0], events_of(*case), replace(how, counting=False), limits)


SEQUENCES = replace(TAKEN, operators=("SEQ",), negation=False, types=("A", "B", "C"))
UNGROUPED = replace(DENSE, kleene=False, groups=False, group_conditions=False)


@pytest.mark.parametrize(
    "shape",
    [SEQUENCES, TAKEN, DENSE, UNGROUPED, PLAIN_NEGATIONS, AGGREGATES],
    ids=["sequences", "any", "dense", "ungrouped", "negations", "aggregates"],
)
def test_every_order(shape: Shape) -> None:
    @given(cases(shape), SEEDS, WAYS)
    @settings(max_examples=60)
    def each(case: Case, seed: int, way: Propagation | None) -> None:
        checked(case, seed, way)

    each()


@given(cases(DENSE), SEEDS)
@settings(max_examples=60)
def test_in_stretches(case: Case, seed: int) -> None:
    checked(case, seed, None, SMALL)


@given(cases(replace(DENSE, types=("A", "B", "C")), queries=3), SEEDS, st.booleans())
@settings(max_examples=60)
def test_several_queries(case: Case, seed: int, sharing: bool) -> None:
    with in_any_order(seed):
        how = replace(FORCED, sharing=sharing, counting=False)
        check(case[0], events_of(*case), how)


# Gates on both sides of a part, with and without conditions that choose what is negated.
GATED = [
    "SEQ(A a, !B b, C c, D d)",
    "SEQ(A a, !B b, C c, !B e, D d)",
    "SEQ(A a, !SEQ(B b, B e), C c, !B f, D d)",
    "SEQ(A a, C c, !B b, !B e, D d)",
    "SEQ(A a, !C b, C c, !A e, A d)",
    "SEQ(A a, !B b, AND(C c, A f), !B e, D d)",
]
comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


@given(
    st.sampled_from(GATED),
    st.sampled_from(["", "b.x {} a.x", "b.x {} c.x", "a.y {} d.y"]),
    comparisons,
    st.sampled_from(["", " AND [k]"]),
    st.sampled_from(["4 ms", "7 ms", "5 EVENTS"]),
    event_rows(sequence=True, max_size=11),
    st.sampled_from([1, 7, 4096]),
    SEEDS,
)
@settings(max_examples=150)
def test_gates_on_both_sides(
    pattern: str,
    condition: str,
    sign: str,
    key: str,
    window: str,
    rows: list[Row],
    slice_rows: int,
    seed: int,
) -> None:
    where = f"{condition.format(sign) or 'a.x < 9'}{key}"
    workload = bound(f"{pattern} WHERE {where} RETURN a, d WITHIN {window}")
    with in_any_order(seed):
        check_slices(workload, rows, FORCED, slice_rows)


@pytest.mark.parametrize("name", LARGER)
def test_larger_streams(name: str) -> None:
    """Against joins, on streams of hundreds of events, with look-ups."""
    workload, events = larger(name, "20 ms")
    expected = matches(of_trees(workload, events, how=How(detection="bushy")))
    for seed in range(3):
        with in_any_order(seed):
            assert matches(of_trees(workload, events, how=FORCED)) == expected


def test_walks_are_what_is_run() -> None:
    """Not that joins are compared with joins."""
    workload = bound("SEQ(A a, !B b, C c, D d) WHERE a.x < d.x RETURN a WITHIN 9 ms")
    program = FORCED.program(workload)
    (unit,) = program.units
    assert isinstance(unit, TreeUnit)
    assert unit.trees is not None
    (tree,) = unit.trees["q"]
    kinds = {type(each) for each in op.walk_operators(tree.compiled.operator)}
    assert op.Walk in kinds
    assert op.Join not in kinds
