"""Groups of events, each before the next: every choice (`E+`), or so many in a row (`E^n`).

The events that can be in a group are a list of places, in order; `following` of an entry is the
first entry that is not simultaneous with it, up to the list's end. A head is where a group starts:
an entry `at`, and the entry `stop` that no member reaches. `size` is the number of members, 0 for
any. As joins do, these come in two passes: `count_chains`, and `fill_chains`.
"""

from __future__ import annotations

import numba
import numpy as np

MAX_CHAINS = np.int64(2**40)  # as far as groups are counted


def count_chains(
    members: np.ndarray,
    following: np.ndarray,
    position: np.ndarray,
    at: np.ndarray,
    stop: np.ndarray,
    width: int,
    size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each head its groups, the members of all of them, and the `stop` that a window leaves.

    `position` is that of the places; a group's members are less than `width` apart. What is more
    than `MAX_CHAINS` is given as that.
    """
    counts, sizes = np.zeros(at.size, np.int64), np.zeros(at.size, np.int64)
    stops = stop.astype(np.int64)
    _count_chains(members, following, position, at, stops, width, size, counts, sizes)
    return counts, sizes, stops


def fill_chains(
    members: np.ndarray,
    following: np.ndarray,
    at: np.ndarray,
    stops: np.ndarray,
    size: int,
    groups: int,
    total: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The groups of heads: the head of each, where its places begin and end, and all places.

    `stops` are as counted, and so are the number of groups and the total of their members.
    """
    head, offsets = np.empty(groups, np.int32), np.zeros(groups + 1, np.int64)
    places = np.empty(total, np.int32)
    deepest = size or int((stops - at).max(initial=0))
    _fill_chains(members, following, at, stops, size, deepest, head, offsets, places)
    return head, offsets, places


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    members, place = np.zeros(1, np.int32), np.zeros(1, np.int64)
    counts, sizes, stops = count_chains(members, place + 1, place, place, place + 1, 1, 0)
    fill_chains(members, place + 1, place, stops, 0, int(counts.sum()), int(sizes.sum()))


@numba.njit(nogil=True, cache=True)
def _count_chains(
    members: np.ndarray, following: np.ndarray, position: np.ndarray, at: np.ndarray,
    stops: np.ndarray, width: int, size: int, counts: np.ndarray, sizes: np.ndarray,
) -> None:  # fmt: skip
    for u in range(at.size):
        stop = stops[u]
        closing = position[members[at[u]]] + width
        entry = following[at[u]]
        groups, total, length = np.int64(1), np.int64(1), 1
        while entry < stop and position[members[entry]] < closing:
            if length == size:
                break
            # The simultaneous events of a list are in the window together.
            behind = min(following[entry], stop)
            many = behind - entry
            if size == 0:
                total = min(total * (1 + many) + groups * many, MAX_CHAINS)
                groups = min(groups * (1 + many), MAX_CHAINS)
            else:
                groups = min(groups * many, MAX_CHAINS)
            length += 1
            entry = behind
        if size == 0:
            counts[u], sizes[u] = groups, total
        elif length == size:
            counts[u], sizes[u] = groups, min(groups * size, MAX_CHAINS)
        stops[u] = max(entry, at[u] + 1)


@numba.njit(nogil=True, cache=True)
def _fill_chains(
    members: np.ndarray, following: np.ndarray, at: np.ndarray, stops: np.ndarray, size: int,
    deepest: int, head: np.ndarray, offsets: np.ndarray, places: np.ndarray,
) -> None:  # fmt: skip
    path = np.empty(deepest + 1, np.int64)
    group, written = 0, 0
    for u in range(at.size):
        stop = stops[u]
        path[0] = at[u]
        depth = 0
        while depth >= 0:
            # A path is longer first, and then goes on to its last event's next.
            if size == 0 or depth + 1 == size:
                head[group] = u
                for k in range(depth + 1):
                    places[written] = members[path[k]]
                    written += 1
                group += 1
                offsets[group] = written
            if depth + 1 != size and following[path[depth]] < stop:
                path[depth + 1] = following[path[depth]]
                depth += 1
                continue
            while depth > 0:
                behind = stop if size == 0 else min(stop, following[path[depth]])
                path[depth] += 1
                if path[depth] < behind:
                    break
                depth -= 1
            if depth == 0:
                depth = -1
