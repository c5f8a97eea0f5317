"""One pass over the events of each key for all funnels.

Funnels are a forest: a node is a prefix of one or more funnels, and its parent the prefix that is a
step shorter. Of each node the attempt is kept whose first event is the latest, which later steps
reach whenever any attempt does: its first time, and the event that it came to last. `gaps` has for
each key and node the time from the step before when the key first comes to it; `NOT_REACHED`
where it never does.
"""

from __future__ import annotations

import numba
import numpy as np

NOT_REACHED = -1


def follow_funnels(
    starts: np.ndarray,
    block: np.ndarray,
    ticks: np.ndarray,
    letter: np.ndarray,
    up: tuple[np.ndarray, np.ndarray],
    down: tuple[np.ndarray, np.ndarray],
    cleared: tuple[np.ndarray, np.ndarray],
    parent: np.ndarray,
    depth: np.ndarray,
    width: np.ndarray,
    gaps: np.ndarray,
) -> None:
    """Fill in `gaps`, for the keys whose events begin at `starts`, which has the end of the last.

    Events of one `block` are simultaneous. By `letter`, three lists have a start for each and the
    nodes: those that the event may come to, `up` with the shortest prefix first, so that events of
    one block may follow each other, and `down` with the longest first, so that they do not; and
    those at which it ends what waits since an earlier block.
    """
    nodes = len(parent)
    first, place = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    _follow(
        starts, block, ticks, letter, *up, *down, *cleared, parent, depth, width, first, place, gaps
    )


def read_in_turn(
    starts: np.ndarray,
    block: np.ndarray,
    ticks: np.ndarray,
    letter: np.ndarray,
    steps: np.ndarray,
    cleared: np.ndarray,
    sizes: np.ndarray,
    settings: np.ndarray,
    widths: np.ndarray,
    gaps: np.ndarray,
) -> None:
    """The same for funnels that an event which is out of turn ends; their nodes stand in a row.

    `steps[f, letter]` are the bits of the steps of funnel f that an event may be, and `cleared`
    those behind which it ends what waits. `settings[f]` says whether an event of no step, or of one
    that is not next, ends it; whether one of a step that was reached does; and whether simultaneous
    events do not follow each other.
    """
    most = int(sizes.max()) if len(sizes) else 1
    state = np.zeros((4, most), np.int64)
    _read(starts, block, ticks, letter, steps, cleared, sizes, settings, widths, state, gaps)


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    one, ends = np.zeros(1, np.int64), np.array([0, 1])
    codes = np.zeros(1, np.int32)
    lists = (ends, one)
    gaps = np.full((1, 1), NOT_REACHED)
    follow_funnels(ends, one, one, codes, lists, lists, lists, one - 1, one, one + 1, gaps)
    bits = np.ones((1, 1), np.uint64)
    settings = np.ones((1, 3), np.bool_)
    read_in_turn(ends, one, one, codes, bits, bits, one + 1, settings, one + 1, gaps)


@numba.njit(cache=True, nogil=True)
def _follow(
    starts: np.ndarray, block: np.ndarray, ticks: np.ndarray, letter: np.ndarray,
    up_starts: np.ndarray, up: np.ndarray, down_starts: np.ndarray, down: np.ndarray,
    cleared_starts: np.ndarray, cleared: np.ndarray, parent: np.ndarray, depth: np.ndarray,
    width: np.ndarray, first: np.ndarray, place: np.ndarray, gaps: np.ndarray,
) -> None:  # fmt: skip
    """`place` is the first event of the block in which a node was last come to, -1 for none."""
    nodes = len(parent)
    deepest = 0
    for n in range(nodes):
        deepest = max(deepest, depth[n])
    for key in range(len(starts) - 1):
        end = starts[key + 1]
        for n in range(nodes):
            place[n] = -1
        i = starts[key]
        while i < end:
            behind = i + 1
            while behind < end and block[behind] == block[i]:
                behind += 1
            if behind == i + 1:
                own = letter[i]
                for x in range(down_starts[own], down_starts[own + 1]):
                    _offer(down[x], key, i, ticks, parent, width, first, place, gaps)
                for x in range(up_starts[own], up_starts[own + 1]):
                    _offer(up[x], key, i, ticks, parent, width, first, place, gaps)
            else:
                for d in range(deepest, -1, -1):
                    for e in range(i, behind):
                        for x in range(down_starts[letter[e]], down_starts[letter[e] + 1]):
                            if depth[down[x]] == d:
                                _offer(down[x], key, i, ticks, parent, width, first, place, gaps)
                for d in range(deepest + 1):
                    for e in range(i, behind):
                        for x in range(up_starts[letter[e]], up_starts[letter[e] + 1]):
                            if depth[up[x]] == d:
                                _offer(up[x], key, i, ticks, parent, width, first, place, gaps)
            for e in range(i, behind):
                for x in range(cleared_starts[letter[e]], cleared_starts[letter[e] + 1]):
                    if place[cleared[x]] != i:
                        place[cleared[x]] = -1
            i = behind


@numba.njit(cache=True, nogil=True, inline="always")
def _offer(
    n: int, key: int, i: int, ticks: np.ndarray, parent: np.ndarray, width: np.ndarray,
    first: np.ndarray, place: np.ndarray, gaps: np.ndarray,
) -> None:  # fmt: skip
    """Come to a node with the events of a block, if its prefix is there."""
    p = parent[n]
    if p < 0:
        first[n] = ticks[i]
        place[n] = i
        if gaps[key, n] < 0:
            gaps[key, n] = 0
    elif place[p] >= 0 and ticks[i] - first[p] < width[n]:
        if gaps[key, n] < 0:
            gaps[key, n] = ticks[i] - ticks[place[p]]
        first[n] = first[p]
        place[n] = i


@numba.njit(cache=True, nogil=True)
def _read(
    starts: np.ndarray, block: np.ndarray, ticks: np.ndarray, letter: np.ndarray,
    steps: np.ndarray, cleared: np.ndarray, sizes: np.ndarray, settings: np.ndarray,
    widths: np.ndarray, state: np.ndarray, gaps: np.ndarray,
) -> None:  # fmt: skip
    """`state` has `first` and `place` of each step, and what they were before the block."""
    first, place, old_first, old_place = state[0], state[1], state[2], state[3]
    node = 0
    for f in range(len(sizes)):
        size, width = sizes[f], widths[f]
        ordered, once, rising = settings[f, 0], settings[f, 1], settings[f, 2]
        for key in range(len(starts) - 1):
            end = starts[key + 1]
            for d in range(size):
                place[d] = -1
            level = 0
            i = starts[key]
            while i < end and level < size:
                behind = i + 1
                while behind < end and block[behind] == block[i]:
                    behind += 1
                stops = False
                if ordered and level > 0:
                    for e in range(i, behind):
                        stops |= steps[f, letter[e]] == 0
                for d in range(size):
                    bit = np.uint64(1) << np.uint64(d)
                    for e in range(i, behind):
                        if stops or not steps[f, letter[e]] & bit:
                            continue
                        if d > 0 and ((once and level > d) or (ordered and 0 < level < d)):
                            stops = True
                            continue
                        since, came = ticks[i], i
                        if d > 0:
                            since, came = first[d - 1], place[d - 1]
                            if rising and came == i:
                                since, came = old_first[d - 1], old_place[d - 1]
                            if came < 0 or ticks[i] - since >= width:
                                continue
                        if place[d] != i:
                            old_first[d], old_place[d] = first[d], place[d]
                        first[d], place[d] = since, i
                        if level <= d:
                            level = d + 1
                            gaps[key, node + d] = ticks[i] - ticks[came]
                if stops:
                    break
                for e in range(i, behind):
                    for d in range(size):
                        if cleared[f, letter[e]] >> np.uint64(d) & np.uint64(1) and place[d] != i:
                            place[d] = -1
                i = behind
        node += size
