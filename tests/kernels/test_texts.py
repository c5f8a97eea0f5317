"""Texts have the numbers that the plain-Python version gives them."""

import numpy as np
import pytest

from kernels.texts import cpu as texts
from kernels.texts import reference as texts_reference


def packed(values, kind):
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(kind)
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(10))
def test_texts_have_the_numbers_of_the_reference(seed, kind):
    random = np.random.default_rng(seed)
    words = ["", "A", "B", "AB", "BA", "Größe", "a long name of a type", "a long name of a tape"]
    if seed % 2:
        words = ["", "A", "B", "AB", "BA", "A\0", "ÄÖÜ", "12345678", "123456789"]
    words += [f"T{i}" for i in range(60)]
    names = [str(w) for w in random.permutation(words)[: random.integers(0, 40)]]
    column = packed([str(w) for w in random.choice(words, random.integers(0, 200))], kind)
    given = (*column, *packed(names, np.int64), random.integers(1, 9, len(names)))
    found, expected = (np.full(len(column[0]) - 1, -1) for _ in range(2))
    texts.number_texts(*given, found)
    texts_reference.number_texts(*given, expected)
    np.testing.assert_array_equal(found, expected)
