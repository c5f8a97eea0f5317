"""Compiled groups are those of the plain-Python version."""

import numpy as np
import pytest

from kernels.chains import cpu as chains
from kernels.chains import reference as chains_reference


@pytest.mark.parametrize("size", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(25))
def test_groups_are_those_of_the_reference(seed, size):
    random = np.random.default_rng(seed)
    position = np.cumsum(random.choice([0, 1, 1, 2, 30], random.integers(1, 30))).astype(np.int64)
    members = np.flatnonzero(random.random(len(position)) < 0.6).astype(np.int32)
    moments = position[members]
    following = np.searchsorted(moments, moments, "right")
    at = np.sort(random.integers(0, max(len(members), 1), 6 if len(members) else 0))
    stop = np.minimum(len(members), at + 1 + random.integers(0, 9, len(at)))
    given = (members, following, position)
    for width in (1, 5, 12):
        counts, sizes, stops = chains.count_chains(*given, at, stop, width, size)
        expected = [
            list(chains_reference.chains(*given, a, s, width, size))
            for a, s in zip(at.tolist(), stop.tolist(), strict=True)
        ]
        assert counts.tolist() == [len(groups) for groups in expected]
        assert sizes.tolist() == [sum(map(len, groups)) for groups in expected]
        head, offsets, places = chains.fill_chains(
            members, following, at, stops, size, int(counts.sum()), int(sizes.sum())
        )
        found = [[] for _ in at]
        for i, h in enumerate(head.tolist()):
            found[h].append(tuple(places[offsets[i] : offsets[i + 1]].tolist()))
        assert list(map(sorted, found)) == list(map(sorted, expected))


def test_counting_stops_at_many():
    members = np.arange(90, dtype=np.int32)
    position = np.arange(90)
    found = chains.count_chains(members, np.arange(1, 91), position, *np.array([[0], [90]]), 200, 0)
    assert found[0] == chains.MAX_CHAINS
    assert found[1] == chains.MAX_CHAINS
