"""The compiled counts of compared neighbours are those of matches made in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.fenwick import cpu as fenwick
from kernels.fenwick import reference as fenwick_reference
from kernels.prefixes.cpu import PrefixTree
from tests.kernels.tables import (
    MIXED,
    assert_same_rows,
    empty_rows,
    random_groups,
    random_slots,
    random_spans,
    random_table,
)

MOVES, STAYS, KEYS = 6, 3, 3
SLIDES = [0, 1, 3, 25, MIXED]
BLOCKS = [1, 2, 5, 64]


def random_tree(random):
    """A tree of prefixes with one root, whose queries end below it."""
    nodes, queries = int(random.integers(2, 6)), int(random.integers(1, 4))
    parent = np.array([-1, *(random.integers(0, node) for node in range(1, nodes))], np.int64)
    slot_table, of_node = random_slots(random, parent, 1.0)
    final = random.integers(1, nodes, queries)
    reads = [of_node[node][:2] for node in final]
    extended, extends = random_table(random, MOVES, nodes, 0.4)
    cleared, clears = random_table(random, STAYS, nodes, 0.15)
    triggered, triggers = random_table(random, MOVES, queries, 0.4)
    none = np.zeros(0, np.int64)
    return PrefixTree(
        parent, extended, extends, cleared, clears, none, none, np.array([0]),
        np.searchsorted(slot_table[:, 0], np.arange(nodes + 1)),
        slot_table[:, 1].copy(), slot_table[:, 2].copy(), slot_table[:, 3].copy(),
        triggered, triggers, random.permutation(queries), final, np.full(queries, -1),
        np.cumsum([0, *map(len, reads)]), np.array([s for row in reads for s in row], np.int64),
    )  # fmt: skip


def random_comparisons(random, tree, events):
    nodes = len(tree.parent)
    keys = random.integers(-2, 3, (KEYS, events)).astype(float)
    keys[random.random(keys.shape) < 0.15] = np.nan
    left = np.where(random.random(nodes) < 0.7, random.integers(0, KEYS, nodes), -1)
    left[0] = -1
    tables, table = {}, np.full(nodes, -1)
    for node in range(1, nodes):
        if tree.parent[node] > 0 and left[node] >= 0:
            place = int(tree.parent[node]), int(left[node])
            table[node] = tables.setdefault(place, len(tables))
    stores = [[t for (owner, _), t in tables.items() if owner == node] for node in range(nodes)]
    plain = {int(tree.parent[node]) for node in range(1, nodes) if left[node] < 0}
    return fenwick.Comparisons(
        keys,
        left,
        random.integers(0, KEYS, nodes),
        random.random(nodes) < 0.5,
        table,
        np.cumsum([0, *map(len, stores)]),
        np.array([t for row in stores for t in row], np.int64),
        np.array([key for _, key in tables], np.int64),
        np.array([node in plain or node in tree.final for node in range(nodes)]),
    )


def random_case(random, slide, most=20):
    groups, tree = random_groups(random, MOVES, STAYS, most=14), random_tree(random)
    comparisons = random_comparisons(random, tree, len(groups.move_letter))
    return groups, tree, comparisons, random_spans(random, len(tree.query), most, slide)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("slide", SLIDES)
@pytest.mark.parametrize("seed", range(40))
def test_counts_of_compared_neighbours_are_those_of_the_reference(seed, slide, dual):
    random = np.random.default_rng(seed)
    case = random_case(random, slide)
    found, expected = (empty_rows(1000, dual, 2) for _ in range(2))
    made = fenwick_reference.count_compared(*case, 64, dual, expected)
    block = int(random.choice(BLOCKS))
    assert fenwick.count_compared(*case, block, dual, found) == made
    assert_same_rows(found, expected, made)


@pytest.mark.parametrize("slide", [0, 2])
def test_too_little_room_is_reported(slide):
    random = np.random.default_rng(1)
    for _ in range(20):
        case = random_case(random, slide, 9)
        made = fenwick.count_compared(*case, 4, False, empty_rows(1000, False, 2))
        if made:
            assert fenwick.count_compared(*case, 4, False, empty_rows(made - 1, False, 2)) == -1
            return
    raise AssertionError("no stream had a match")
