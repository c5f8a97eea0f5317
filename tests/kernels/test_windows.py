"""What is compiled about windows is what the plain-Python versions say."""

import numpy as np
import pytest

from kernels.windows import cpu as windows
from kernels.windows import reference as windows_reference
from tests.kernels.tables import random_groups


@pytest.mark.parametrize("seed", range(20))
def test_the_fullest_window_of_each_letter_is_that_of_the_reference(seed):
    groups = random_groups(np.random.default_rng(seed), moves=4, stays=1)
    for width in (1, 3, 100):
        given = (groups.run, groups.position, groups.event, groups.move_letter, 4, width)
        np.testing.assert_array_equal(
            windows.most_of_letters(*given), windows_reference.most_of_letters(*given)
        )


@pytest.mark.parametrize("seed", range(20))
def test_the_boundaries_that_are_looked_at_are_those_of_the_reference(seed):
    random = np.random.default_rng(seed)
    groups = random_groups(random, moves=2, stays=1)
    since = random.integers(-3, 12, len(groups.limit))
    for width, slide in ((1, 1), (4, 3), (9, 2), (100, 7)):
        given = (groups.run, groups.limit, groups.position, since, width, slide)
        assert windows.boundaries(*given) == windows_reference.boundaries(*given)
