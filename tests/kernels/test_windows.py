"""The compiled size of the fullest window is that of the plain-Python one."""

import numpy as np
import pytest

from kernels import windows, windows_reference


@pytest.mark.parametrize("seed", range(20))
def test_the_fullest_window_is_that_of_the_reference(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 40))
    partition = np.sort(random.integers(0, 3, size))
    position = random.integers(0, 30, size)
    order = np.lexsort((position, partition))
    rows = np.flatnonzero(random.random(size) < 0.7)
    for width in (1, 3, 100):
        found = windows.most_in_window(rows, partition, position[order], width)
        assert found == windows_reference.most_in_window(rows, partition, position[order], width)
