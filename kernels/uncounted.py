"""Compiled loops over arrays that are given: references to them are not counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def uncounted(**options: Any) -> Callable[[Kernel], Kernel]:
    """A decorator as `numba.njit` is, for functions that make no array and slice none.

    Where functions are inlined into a loop, numba counts a reference to each of their arrays, again
    and again: that takes several times as long as a few additions do. Without its runtime it counts
    none, and refuses what would make an array.
    """
    njit: Any = numba.njit  # whose types do not have `_nrt`
    compiled: Callable[[Kernel], Kernel] = njit(cache=True, _nrt=False, **options)
    return compiled
