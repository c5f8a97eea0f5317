"""The compiled look-ups of conditions are what the plain-Python versions say."""

import numpy as np
import pytest

from kernels.predicates import cpu, reference


@pytest.mark.parametrize("seed", range(20))
def test_values_are_in_the_interval_that_the_reference_finds(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 30))
    for kind in (np.int64, np.float64):
        values = random.integers(-4, 5, size).astype(kind)
        breaks = np.unique(random.integers(-4, 5, int(random.integers(0, 6)))).astype(kind)
        if kind is np.float64 and size:
            values[:3] = [np.nan, np.inf, -np.inf][: len(values)]
        for nulls in (None, random.integers(0, 2, size).astype(bool)):
            found = cpu.find_intervals(values, breaks, nulls)
            np.testing.assert_array_equal(found, reference.find_intervals(values, breaks, nulls))


@pytest.mark.parametrize("seed", range(20))
def test_sets_and_words_are_those_of_the_reference(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 30))
    numbers = random.integers(-1, 4, size).astype(np.int32)
    merged = random.integers(0, 3, 4).astype(np.int32)
    classes = random.integers(0, 2, 5).astype(np.int32)
    start = random.integers(0, 4, size).astype(np.int32)
    words = random.integers(0, 2**64, (3, size), np.uint64)
    tables = random.integers(0, 2**64, (3, 5), np.uint64)
    made = []
    for kernels in (cpu, reference):
        sets, counts, bits = start.copy(), np.zeros(6, np.int64), words.copy()
        kernels.join_sets(sets, merged, numbers, classes, 2, counts)
        kernels.and_words(bits, numbers, tables)
        wanted = np.arange(6) % 3 == 1
        rows = [
            kernels.rows_in_sets(sets.astype(codes), wanted, np.zeros(size + 1, kind))
            for codes in (np.int32, np.int64)
            for kind in (np.int32, np.int64)
        ]
        assert rows[0].tolist() == np.flatnonzero(wanted[sets]).tolist()
        assert counts.sum() == size
        made.append((sets, counts, bits, *rows))
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)
