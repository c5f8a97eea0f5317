"""Tables by letter, as kernels take them: pointers, and the rows that they point to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from optimizer.automaton import Symbols

Int64s = npt.NDArray[np.int64]


def ints(numbers: Iterable[int]) -> Int64s:
    """Numbers as an array."""
    return np.fromiter(numbers, np.int64)


def where(marks: Iterable[object]) -> list[int]:
    """The places of what is true."""
    return [i for i, mark in enumerate(marks) if mark]


def pointers(rows: Iterable[list[int]]) -> tuple[Int64s, Int64s]:
    """Rows of numbers as where each begins, and the numbers end to end."""
    lists = list(rows)
    return ints(accumulate(map(len, lists), initial=0)), ints(n for row in lists for n in row)


def by_letter(
    letters: Iterable[Symbols], found: Callable[[Symbols], list[int]]
) -> tuple[Int64s, Int64s]:
    """What each letter does."""
    return pointers(found(symbols) for symbols in letters)
