"""Which relations constraints leave possible between situations, by Allen's path consistency."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import NamedTuple

from workloads.situations.relations import ALL, NAMES, converse

_ENDS = range(6)  # three stretches have six end points: all their orders show among so many moments


class Contradiction(NamedTuple):
    """Three situations, by their places, that no three stretches of time can be."""

    first: int
    middle: int
    last: int
    left: int  # relations of the first to the middle
    right: int  # of the middle to the last
    allowed: int  # of the first to the last


def relation(first: tuple[int, int], second: tuple[int, int]) -> int:
    """The place of the relation of one stretch to another among all relations."""
    (start, end), (other_start, other_end) = first, second
    if end <= other_start:
        return 0 if end < other_start else 1
    if other_end <= start:
        return 12 if other_end < start else 11
    by_end = (end > other_end) - (end < other_end) + 1
    if start < other_start:
        return 2 + by_end
    return 5 + by_end if start == other_start else 8 + by_end


@cache
def composition() -> tuple[tuple[int, ...], ...]:
    """For relations i of A to B and j of B to C, the mask of those that A can have to C."""
    stretches = [(start, end) for start, end in product(_ENDS, _ENDS) if start < end]
    found = [[0] * len(NAMES) for _ in NAMES]
    known = {pair: relation(*pair) for pair in product(stretches, stretches)}
    for a, b in product(stretches, stretches):
        row = found[known[a, b]]
        for c in stretches:
            row[known[b, c]] |= 1 << known[a, c]
    return tuple(map(tuple, found))


def composed(left: int, right: int) -> int:
    """The relations that A can have to C, from those of A to B and of B to C."""
    mask = 0
    for i, row in enumerate(composition()):
        if left >> i & 1:
            for j, possible in enumerate(row):
                if right >> j & 1:
                    mask |= possible
            if mask == ALL:
                return mask
    return mask


def possible_relations(
    number: int, constraints: Iterable[tuple[int, int, int]]
) -> dict[tuple[int, int], int] | Contradiction:
    """The relations left between every two of so many situations, or three that exclude each other.

    A constraint is two places and a mask.
    """
    masks = {
        (i, j): ALL if i != j else 1 << NAMES.index("equals")
        for i in range(number)
        for j in range(number)
    }
    for left, right, mask in constraints:
        masks[left, right] &= mask
        masks[right, left] &= converse(mask)
        if not masks[left, right]:
            return Contradiction(left, right, right, mask, mask, 0)
    changed = True
    while changed:
        changed = False
        for i, j, k in product(range(number), repeat=3):
            if len({i, j, k}) < 3:
                continue
            left, right, allowed = masks[i, j], masks[j, k], masks[i, k]
            kept = allowed & composed(left, right)
            if kept == allowed:
                continue
            if not kept:
                return Contradiction(i, j, k, left, right, allowed)
            masks[i, k], masks[k, i], changed = kept, converse(kept), True
    return masks
