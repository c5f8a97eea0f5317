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
    paths: list[tuple[int, ...]] = [(at,)]
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


def count_chains(
    members: np.ndarray,
    following: np.ndarray,
    position: np.ndarray,
    at: np.ndarray,
    stop: np.ndarray,
    width: int,
    size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.chains.cpu.count_chains`, but that all are made, and the window stops nothing."""
    found = [
        list(chains(members, following, position, int(a), int(s), width, size))
        for a, s in zip(at, stop, strict=True)
    ]
    counts = np.array([len(groups) for groups in found], np.int64)
    sizes = np.array([sum(map(len, groups)) for groups in found], np.int64)
    return counts, sizes, stop.astype(np.int64)


def fill_chains(
    members: np.ndarray,
    following: np.ndarray,
    at: np.ndarray,
    stops: np.ndarray,
    size: int,
    groups: int,
    total: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.chains.cpu.fill_chains`, in another order within a head."""
    nowhere = np.zeros(int(members.max(initial=0)) + 1, np.int64)  # what no window is left by
    found = [
        (u, group)
        for u, (a, s) in enumerate(zip(at, stops, strict=True))
        for group in chains(members, following, nowhere, int(a), int(s), 1, size)
    ]
    offsets = np.cumsum([0, *(len(group) for _, group in found)])
    places = [place for _, group in found for place in group]
    heads = [u for u, _ in found]
    return np.array(heads, np.int32), offsets.astype(np.int64), np.array(places, np.int32)
