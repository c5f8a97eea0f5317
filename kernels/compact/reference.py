"""What the kernel for matches in order gives, in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

LAST = 0


def list_matches(
    start: np.ndarray,
    moment: np.ndarray,
    position: np.ndarray,
    first: np.ndarray,
    places: np.ndarray,
    is_group: np.ndarray,
    width: int,
    limit: int,
    state: np.ndarray,
    latest: np.ndarray,
    components: np.ndarray,
    chosen: np.ndarray,
    sizes: np.ndarray,
    events: np.ndarray,
) -> int:
    """All choices of moments are made, and those kept that fit; there has to be room for all."""
    moments = [range(start[p], start[p + 1]) for p in range(len(is_group))]
    rows, filled = 0, [0] * len(is_group)
    for last in moments[-1]:
        given = 0
        for found in sorted(_choices(moments, is_group.tolist(), moment)):
            taken = [m for group in found for m in group]
            if taken[-1] != last or position[last] - position[taken[0]] >= width:
                continue
            if limit and given >= limit:
                break
            options = [places[first[m] : first[m + 1]].tolist() for m in taken]
            for events_of in itertools.product(*options):
                rest = iter(events_of)
                for p, group in enumerate(found):
                    for _ in group:
                        events[p, filled[p]] = next(rest)
                        filled[p] += 1
                    sizes[p, rows] = len(group)
                rows += 1
                given += 1
    state[LAST] = len(moments[-1])
    return rows


def _choices(
    moments: list[range], is_group: list[bool], moment: np.ndarray
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """A moment, or some, for each component, in the order of time."""
    each = [
        [
            group
            for size in range(1, (len(own) if is_group[p] else 1) + 1)
            for group in itertools.combinations(own, size)
        ]
        for p, own in enumerate(moments)
    ]
    for found in itertools.product(*each):
        taken = [int(moment[m]) for group in found for m in group]
        if all(a < b for a, b in itertools.pairwise(taken)):
            yield found
