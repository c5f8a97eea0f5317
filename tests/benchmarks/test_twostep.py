"""The compiled construction finds the matches that the plain-Python one finds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.rivals.kernels import twostep, twostep_reference
from tests.kernels.tables import assert_same_rows, empty_rows, random_groups, random_table

MOVES, STAYS = 6, 3


def random_stacks(random):
    components = int(random.integers(1, 5))
    values = int(random.integers(0, 3))
    return twostep.Stacks(
        np.array([components]),
        *random_table(random, MOVES, components, 0.5),
        *random_table(random, STAYS, components, 0.25),
        gated=random.random(STAYS) < 0.3,
        value_kind=random.integers(0, 4, values),
        value_component=random.integers(0, components, values),
        value_input=random.integers(0, 2, values),
    )


@pytest.mark.parametrize("batch", [1, 3, twostep.BATCH])
@pytest.mark.parametrize("slide", [0, 1, 3, 25])
@pytest.mark.parametrize("seed", range(30))
def test_constructed_matches_are_those_of_the_reference(seed, slide, batch, monkeypatch):
    monkeypatch.setattr(twostep, "BATCH", batch)
    random = np.random.default_rng(seed)
    groups, stacks = random_groups(random, MOVES, STAYS), random_stacks(random)
    width = int(random.integers(1, 14))
    found, expected = (empty_rows(1000, False, 2) for _ in range(2))
    rest = (groups, stacks, 3, width, slide)
    made = twostep_reference.construct(*rest, expected)
    assert twostep.construct(*rest, found) == made
    assert_same_rows(found, expected, made)
