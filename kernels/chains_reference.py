"""Groups of events as plain Python: every choice is made, and kept where it is one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def chains(
    members: np.ndarray,
    following: np.ndarray,
    position: np.ndarray,
    at: int,
    stop: int,
    width: int,
    size: int,
) -> Iterator[tuple[int, ...]]:
    """The groups of one head, as places."""
    paths = [(at,)]
    while paths:
        path = paths.pop()
        if not size or len(path) == size:
            yield tuple(int(members[entry]) for entry in path)
        if len(path) != size:
            first = int(following[path[-1]])
            behind = stop if not size or first >= stop else min(stop, int(following[first]))
            near = [
                entry
                for entry in range(first, behind)
                if position[members[entry]] - position[members[at]] < width
            ]
            paths += [(*path, entry) for entry in near]
