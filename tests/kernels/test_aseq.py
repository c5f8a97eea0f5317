"""The compiled prefix counts are those of the plain-Python ones."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.prefixes import cpu as aseq
from kernels.prefixes import reference as aseq_reference
from tests.kernels.tables import (
    MIXED,
    assert_same_rows,
    empty_rows,
    random_groups,
    random_slots,
    random_spans,
    random_table,
)

MOVES, STAYS = 6, 3
SLIDES = [0, 1, 3, 25, MIXED]  # per trigger, some longer than the window, all of these


def random_tree(random):
    nodes, queries, gates = (int(random.integers(1, n)) for n in (7, 4, 3))
    parent = np.array([random.integers(-1, node) for node in range(nodes)], np.int64)
    slot_table, of_node = random_slots(random, parent, 0.8)
    final = random.integers(0, nodes, queries)
    reads = [of_node[node][:2] for node in final]
    extended, extends = random_table(random, MOVES, nodes, 0.4)
    cleared, clears = random_table(random, STAYS, nodes, 0.2)
    gated, gate_rows = random_table(random, STAYS, gates, 0.2)
    triggered, triggers = random_table(random, MOVES, queries, 0.4)
    return aseq.PrefixTree(
        parent, extended, extends, cleared, clears, gated, gate_rows, np.array([gates]),
        np.searchsorted(slot_table[:, 0], np.arange(nodes + 1)),
        slot_table[:, 1].copy(), slot_table[:, 2].copy(), slot_table[:, 3].copy(),
        triggered, triggers, random.permutation(queries), final,
        random.integers(-1, gates, queries),
        np.cumsum([0, *map(len, reads)]), np.array([s for row in reads for s in row], np.int64),
    )  # fmt: skip


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("slide", SLIDES)
@pytest.mark.parametrize("seed", range(40))
def test_prefix_counts_are_those_of_the_reference(seed, slide, dual):
    random = np.random.default_rng(seed)
    groups, tree = random_groups(random, MOVES, STAYS), random_tree(random)
    spans = random_spans(random, len(tree.query), 20, slide)
    found, expected = (empty_rows(1000, dual, 2) for _ in range(2))
    rest = (groups, tree, spans, dual)
    made = aseq_reference.count_prefixes(*rest, expected)
    assert aseq.count_prefixes(*rest, found) == made
    assert_same_rows(found, expected, made)


@pytest.mark.parametrize("slide", [0, 2])
def test_too_little_room_is_reported(slide):
    random = np.random.default_rng(1)
    for _ in range(20):
        groups, tree = random_groups(random, MOVES, STAYS), random_tree(random)
        rest = (groups, tree, random_spans(random, len(tree.query), 9, slide), False)
        made = aseq.count_prefixes(*rest, empty_rows(1000, False, 2))
        if made:
            assert aseq.count_prefixes(*rest, empty_rows(made - 1, False, 2)) == -1
            return
    raise AssertionError("no stream had a match")
