"""Compiled segments, connected, count what the plain-Python whole counts."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import chopconnect, chopconnect_reference
from tests.kernels.tables import assert_same_rows, empty_rows, random_groups, random_table

MOVES, STAYS = 6, 3


def random_segments(random):
    sizes = random.integers(1, 4, random.integers(1, 4))
    nodes = int(sizes.sum())
    # A segment may occur twice in a query.
    paths = [tuple(random.integers(0, len(sizes), random.integers(1, 4))) for _ in range(3)]
    links = sorted({p[:n] for p in paths for n in range(2, len(p) + 1)}, key=lambda p: p[-1])
    lasts = np.array([path[-1] for path in links], np.int64)
    return chopconnect.Segments(
        np.append(0, np.cumsum(sizes)),
        np.repeat(np.arange(len(sizes)), sizes),
        *random_table(random, MOVES, nodes, 0.35),
        *random_table(random, STAYS, nodes, 0.15),
        np.searchsorted(lasts, np.arange(len(sizes) + 1)),
        np.array([links.index(p[:-1]) if len(p) > 2 else -1 for p in links], np.int64),
        lasts,
        np.array([path[-2] for path in links], np.int64),
        np.array([path[0] for path in links], np.int64),
        *random_table(random, MOVES, len(paths), 0.4),
        np.array([path[-1] for path in paths]),
        np.array([links.index(p) if len(p) > 1 else -1 for p in paths]),
    )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_connected_counts_are_those_of_the_reference(seed, dual):
    random = np.random.default_rng(seed)
    groups, segments = random_groups(random, MOVES, STAYS, most=60), random_segments(random)
    width = int(random.integers(1, 40))
    found, expected = (empty_rows(1000, dual, 0) for _ in range(2))
    made = chopconnect_reference.connect(groups, segments, width, dual, expected)
    assert chopconnect.connect(groups, segments, width, dual, found) == made
    assert_same_rows(found, expected, made)
