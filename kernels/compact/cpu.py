"""Matches of a sequence without further conditions, listed in order: each takes as long as it is.

Moments of all components stand one after the other, those of component p from `start[p]` on. With
the latest moment of each component from which the last event can still be reached, which moves on
from one last event to the next, every choice up to it leads to a match: nothing is tried in vain,
and nothing but the choices of one match is held.
"""

from __future__ import annotations

import numba
import numpy as np

# Of `state`: the last component's moment that is looked at, events chosen so far, matches that were
# given of it, whether a match is chosen and not given yet, the first moment within its window.
LAST, DEPTH, GIVEN, IS_CHOSEN, OPENING = range(5)
STATE_SIZE = 5


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
    """Write matches and give their number; fewer than there is room for, where they are all.

    Moment m has the events `places[first[m] : first[m + 1]]` of its component, and is at
    `position[m]`. `sizes[p, i]` is the number of match i's events of component p, which follow one
    another in `events[p]`. Of the matches that end at one moment, `limit` are given, and those that
    are at the same moments as the last of them; 0 is no limit. `state`, `latest`, `components` and
    `chosen` are what the next call goes on with.
    """
    return int(
        _list(
            start, moment, position, first, places, is_group, width, limit, state, latest,
            components, chosen, sizes, events,
        )
    )  # fmt: skip


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed."""
    one = np.zeros(1, np.int64)
    list_matches(
        np.array([0, 1]), one, one, np.array([0, 1]), np.zeros(1, np.int32),
        np.zeros(1, np.bool_), 1, 0, np.zeros(STATE_SIZE, np.int64), one - 1,
        np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros((1, 2), np.int32),
        np.zeros((1, 2), np.int32),
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _list(
    start: np.ndarray, moment: np.ndarray, position: np.ndarray, first: np.ndarray,
    places: np.ndarray, is_group: np.ndarray, width: int, limit: int, state: np.ndarray,
    latest: np.ndarray, components: np.ndarray, chosen: np.ndarray, sizes: np.ndarray,
    events: np.ndarray,
) -> int:  # fmt: skip
    rows = 0
    end = is_group.size - 1
    filled = np.zeros(is_group.size, np.int64)
    counts = np.zeros(is_group.size, np.int64)
    digits = np.zeros(chosen.size, np.int64)
    while start[end] + state[LAST] < start[end + 1]:
        last = start[end] + state[LAST]
        if not state[IS_CHOSEN]:
            state[DEPTH] = state[GIVEN] = 0
            if _reach(start, moment, position, width, last, state, latest):
                components[0] = 0
                chosen[0] = start[0] + state[OPENING] if end > 0 or is_group[0] else last
                state[DEPTH] = _descend(start, moment, is_group, latest, 1, components, chosen)
        while state[DEPTH] > 0:
            depth = state[DEPTH]
            many = _count(depth, first, components, chosen, counts)
            has_room = rows + many <= sizes.shape[1]
            for p in range(is_group.size):
                has_room &= filled[p] + many * counts[p] <= events.shape[1]
            if not has_room:
                state[IS_CHOSEN] = 1
                return rows
            state[IS_CHOSEN] = 0
            _give(depth, first, places, components, chosen, digits, many, filled, events)
            for p in range(is_group.size):
                sizes[p, rows : rows + many] = counts[p]
            rows += many
            state[GIVEN] += many
            if limit > 0 and state[GIVEN] >= limit:
                break
            state[DEPTH] = _advance(start, moment, is_group, latest, depth, components, chosen)
        state[LAST] += 1
    return rows


@numba.njit(cache=True, nogil=True)
def _reach(
    start: np.ndarray, moment: np.ndarray, position: np.ndarray, width: int, last: int,
    state: np.ndarray, latest: np.ndarray,
) -> bool:  # fmt: skip
    """Move on to a last event; whether any match ends there."""
    following = last
    latest[latest.size - 1] = last
    for p in range(latest.size - 2, -1, -1):
        while latest[p] + 1 < start[p + 1] and moment[latest[p] + 1] < moment[following]:
            latest[p] += 1
        if latest[p] < start[p]:
            return False
        following = latest[p]
    while start[0] + state[OPENING] <= latest[0]:
        if position[start[0] + state[OPENING]] > position[last] - width:
            return True
        state[OPENING] += 1
    return False


@numba.njit(cache=True, nogil=True)
def _descend(
    start: np.ndarray, moment: np.ndarray, is_group: np.ndarray, latest: np.ndarray, depth: int,
    components: np.ndarray, chosen: np.ndarray,
) -> int:  # fmt: skip
    """Complete what is chosen by what comes first: the next component, as early as may be."""
    end = is_group.size - 1
    while components[depth - 1] < end or chosen[depth - 1] < latest[end]:
        p, at = components[depth - 1], chosen[depth - 1]
        if p == end:
            components[depth], chosen[depth] = p, at + 1
        elif p + 1 == end and not is_group[end]:
            components[depth], chosen[depth] = end, latest[end]
        else:
            # The latest moment is behind it in any case.
            low, high = start[p + 1], latest[p + 1]
            while low < high:
                middle = (low + high) // 2
                if moment[middle] > moment[at]:
                    high = middle
                else:
                    low = middle + 1
            components[depth], chosen[depth] = p + 1, low
        depth += 1
    return depth


@numba.njit(cache=True, nogil=True)
def _advance(
    start: np.ndarray, moment: np.ndarray, is_group: np.ndarray, latest: np.ndarray, depth: int,
    components: np.ndarray, chosen: np.ndarray,
) -> int:  # fmt: skip
    """The next match in order; 0 where there is none."""
    end = is_group.size - 1
    while depth > 0:
        p, at = components[depth - 1], chosen[depth - 1]
        if at < latest[p] and (p < end or is_group[p]):
            chosen[depth - 1] = at + 1
            return _descend(start, moment, is_group, latest, depth, components, chosen)
        if depth > 1:
            before, group_at = components[depth - 2], chosen[depth - 2]
            if p == before + 1 and is_group[before] and group_at < latest[before]:
                # All that follows the group as it is has been given: one more event for it.
                components[depth - 1], chosen[depth - 1] = before, group_at + 1
                return _descend(start, moment, is_group, latest, depth, components, chosen)
        depth -= 1
    return 0


@numba.njit(cache=True, nogil=True)
def _count(
    depth: int, first: np.ndarray, components: np.ndarray, chosen: np.ndarray, counts: np.ndarray
) -> int:
    """How many matches are at the chosen moments; `counts` are the events of each component."""
    counts[:] = 0
    many = 1
    for d in range(depth):
        counts[components[d]] += 1
        many *= first[chosen[d] + 1] - first[chosen[d]]
    return many


@numba.njit(cache=True, nogil=True)
def _give(
    depth: int, first: np.ndarray, places: np.ndarray, components: np.ndarray, chosen: np.ndarray,
    digits: np.ndarray, many: int, filled: np.ndarray, events: np.ndarray,
) -> None:  # fmt: skip
    """Write the matches at the chosen moments, one for each choice of simultaneous events."""
    digits[:depth] = 0
    for _ in range(many):
        for d in range(depth):
            p = components[d]
            events[p, filled[p]] = places[first[chosen[d]] + digits[d]]
            filled[p] += 1
        d = depth - 1
        while d >= 0:
            digits[d] += 1
            if first[chosen[d]] + digits[d] < first[chosen[d] + 1]:
                break
            digits[d] = 0
            d -= 1
