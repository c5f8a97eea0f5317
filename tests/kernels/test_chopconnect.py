"""Compiled segments, connected, count what the plain-Python whole counts."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.chopconnect import cpu as chopconnect
from kernels.chopconnect import reference as chopconnect_reference
from tests.kernels.tables import (
    MIXED,
    assert_same_rows,
    empty_rows,
    random_groups,
    random_spans,
    random_table,
)

MOVES, STAYS = 6, 3


def random_segments(random):
    sizes = random.integers(1, 4, random.integers(1, 4))
    nodes = int(sizes.sum())
    # A segment may occur twice in a query.
    paths = [tuple(random.integers(0, len(sizes), random.integers(1, 4))) for _ in range(3)]
    # Gates are before the STARTs of one segment; a path begins with its gate.
    bars = np.sort(random.integers(0, len(sizes), random.integers(0, 4)))
    paths = [(random.choice([-1, *np.flatnonzero(bars == p[0])]), *p) for p in paths]
    links = sorted({p[:n] for p in paths for n in range(3, len(p) + 1)}, key=lambda p: p[-1])
    lasts = np.array([path[-1] for path in links], np.int64)
    node = np.append(0, np.cumsum(sizes))
    # Two slots on every node: one goes on from the segment's first, one is the node's own.
    own = np.concatenate([[0, 0] + [1, 0] * (size - 1) for size in sizes])
    source = np.where(own == 1, np.arange(2 * nodes) - 2, -1)
    of_first = np.repeat(np.repeat(node[:-1], sizes), 2)  # of each slot, its segment's first node
    kind, column = random.integers(0, 4, 2 * nodes), random.integers(0, 2, 2 * nodes)
    kind[own == 1], column[own == 1] = kind[2 * of_first][own == 1], column[2 * of_first][own == 1]
    # A lane for one of the slots of the segment before, and one for each lane of the link before.
    lanes = {}
    for path in sorted(links, key=len):
        slot = 2 * (node[path[-2] + 1] - 1) + random.integers(0, 2)
        before = lanes.get(path[:-1], [])
        lanes[path] = [(kind[slot], slot, -1), *((k, -1, i) for i, (k, _, _) in enumerate(before))]
    laned = [lane for path in links for lane in lanes[path]]
    lane_table = np.array(laned, np.int64).reshape(-1, 3)
    reads = []
    for path in paths:
        slot = 2 * (node[path[-1] + 1] - 1) + random.integers(0, 2)
        reads.append([(kind[slot], slot, -1)])
        reads[-1] += [(k, -1, i) for i, (k, _, _) in enumerate(lanes.get(path, []))]
    read_table = np.array([value for row in reads for value in row], np.int64)
    return chopconnect.SegmentTables(
        node,
        np.repeat(np.arange(len(sizes)), sizes),
        *random_table(random, MOVES, nodes, 0.35),
        *random_table(random, STAYS, nodes, 0.15),
        *random_table(random, STAYS, len(bars), 0.2),
        np.searchsorted(bars, np.arange(len(sizes) + 1)),
        np.arange(0, 2 * nodes + 1, 2),
        kind,
        source,
        column,
        np.searchsorted(lasts, np.arange(len(sizes) + 1)),
        np.array([links.index(p[:-1]) if len(p) > 3 else -1 for p in links], np.int64),
        lasts,
        np.array([path[-2] for path in links], np.int64),
        np.array([path[1] for path in links], np.int64),
        np.array([path[0] for path in links], np.int64),
        np.cumsum([0, *(len(lanes[path]) for path in links)]),
        *(lane_table[:, i].copy() for i in range(3)),
        *random_table(random, MOVES, len(paths), 0.4),
        np.array([path[-1] for path in paths]),
        np.array([links.index(p) if len(p) > 2 else -1 for p in paths]),
        np.array([path[0] for path in paths]),
        np.cumsum([0, *map(len, reads)]),
        *(read_table[:, i].copy() for i in range(3)),
    )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("slide", [0, 1, 3, 25, MIXED])
@pytest.mark.parametrize("seed", range(30))
def test_connected_counts_are_those_of_the_reference(seed, slide, dual):
    random = np.random.default_rng(seed)
    groups, segments = random_groups(random, MOVES, STAYS, most=40), random_segments(random)
    spans = random_spans(random, len(segments.last), 40, slide)
    found, expected = (empty_rows(1000, dual, 3) for _ in range(2))
    rest = (groups, segments, spans, dual)
    made = chopconnect_reference.connect(*rest, expected)
    assert chopconnect.connect(*rest, found) == made
    assert_same_rows(found, expected, made)
