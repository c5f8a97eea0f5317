"""The cheapest way to part a few queries into groups, by a table over all of their subsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Members = tuple[int, ...]


def best_parts(size: int, cost: Callable[[Members], float]) -> tuple[list[Members], float]:
    """The groups of the numbers below `size` that cost the least together, and what they cost.

    `cost` is asked once for each subset, so `size` must be small. Groups come in the order of
    their first members; of equal costs, larger groups are taken.
    """
    every = range(1 << size)
    alone = [cost(tuple(_members(subset))) if subset else 0.0 for subset in every]
    least, taken = [0.0] * len(every), [0] * len(every)
    for subset in every[1:]:
        first = subset & -subset
        others = subset ^ first
        best, part = alone[subset], subset
        rest = others
        while rest:  # what is left when the group of the first member is taken
            found = alone[subset ^ rest] + least[rest]
            if found < best:
                best, part = found, subset ^ rest
            rest = (rest - 1) & others
        least[subset], taken[subset] = best, part
    left = len(every) - 1
    total = least[left]
    parts = []
    while left:
        parts.append(tuple(_members(taken[left])))
        left ^= taken[left]
    return parts, total


def _members(subset: int) -> Iterator[int]:
    while subset:
        first = subset & -subset
        yield first.bit_length() - 1
        subset ^= first
