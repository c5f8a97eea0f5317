"""The compiled orders of keys are what the plain-Python versions say."""

import numpy as np
import pytest

from kernels.orders import cpu, reference


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def random_codes(random, size, most):
    return random.integers(-1, most, size).astype(np.int32)


@pytest.mark.parametrize("seed", range(20))
def test_pairs_of_codes_are_numbered_as_they_come(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 40))
    given = (random_codes(random, size, 4), random_codes(random, size, 5), 4, 5)
    found, number = cpu.number_pairs(*given)
    expected, most = reference.number_pairs(*given)
    np.testing.assert_array_equal(found, expected)
    assert number == most


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_in_the_order_of_their_codes_and_in_blocks_of_simultaneous_ones(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 40))
    codes = random_codes(random, size, 6)
    order, starts = cpu.sort_by_code(codes, 6)
    same((order, starts), reference.sort_by_code(codes, 6))
    ticks = np.sort(random.integers(0, 12, size))
    sequence = np.zeros(size, np.int64)
    for tick in np.unique(ticks):
        sequence[ticks == tick] = np.sort(random.integers(0, 2, np.count_nonzero(ticks == tick)))
    for numbered in (None, sequence):
        given = (order, starts, ticks, numbered)
        same(cpu.find_blocks(*given), reference.find_blocks(*given))
    for low, high in ((0, size), (size // 3, size), (size // 4, size // 2), (size, size)):
        given = (order, starts, low, high)
        same(cpu.cut_order(*given), reference.cut_order(*given))
