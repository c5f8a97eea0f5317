"""Rows of several buffers bound depth first, in a free order: no partial match is ever written.

Places, moments, positions and buffers are as in `kernels.joins`. A `Level` is a buffer, and how its
rows stand to those that are bound before them: between two of these in time, in one window, equal
by a look-up, and compared. Levels form a trie: each has a `parent`, is tried for every row that is
bound there, and where it `emits` what is bound is given as a row. What orders of several walks have
in common is bound once for all of them.

Where a level's rows begin and end is read off tables by place, or searched for among those that
are equal. Comparisons with all that is bound become one range for each value of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numba
import numpy as np

from kernels.joins.cpu import (
    DIFFERENT,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    ascends,
)

NO_PLACES = np.zeros(0, np.int32)
NO_OFFSETS = np.zeros(0, np.int64)


class ComparedTo(NamedTuple):
    """How the value of a row must stand to that of a row bound before; NaN stands to nothing."""

    kind: int
    own: np.ndarray
    level: int
    other: np.ndarray


class Level(NamedTuple):
    """A buffer, in order of its last places, or group by group of what a look-up finds equal.

    `before` and `after` are the levels bound earlier whose rows come next to its own in time; -1
    for none. `beside_before` and `beside_after`: these are its neighbours in the pattern, so that
    gates hold between them. The gates of a row are places: what is left of it must not end before
    `earliest`, and what is right of it must start before `latest`. Group g is
    `groups[g] : groups[g + 1]`, and `group` that of each row of level `partner`, negative for none.
    `is_shown`: its rows are given by their places, else by their numbers.
    """

    first: np.ndarray
    last: np.ndarray
    parent: int = -1
    before: int = -1
    after: int = -1
    beside_before: bool = False
    beside_after: bool = False
    earliest: np.ndarray = NO_PLACES
    latest: np.ndarray = NO_PLACES
    partner: int = -1
    groups: np.ndarray = NO_OFFSETS
    group: np.ndarray = NO_PLACES
    tests: tuple[ComparedTo, ...] = ()
    emits: bool = False
    is_shown: bool = True


class Reach(NamedTuple):
    """For each place the first one behind it in time, and the first that is simultaneous; the first
    in the window that ends there, and the first behind the window that starts there."""

    following: np.ndarray
    simultaneous: np.ndarray
    opening: np.ndarray
    closing: np.ndarray


class Found(NamedTuple):
    """Rows of a level that emits: one column for each level from the root to it.

    And how many candidates were tried, and partial matches bound, since the last.
    """

    level: int
    rows: np.ndarray
    tried: int
    bound: int


def reach(moment: np.ndarray, position: np.ndarray, width: int) -> Reach:
    """What stands where, by place."""
    size = moment.size
    found = Reach(*(np.empty(size, np.int32) for _ in range(4)))
    _reach(moment, position, width, *found)
    return found


def walk_rows(
    levels: Sequence[Level], reach: Reach, room: int, budget: int = 1 << 26
) -> Iterator[Found]:
    """All rows of the levels that emit, no more than `room` of one at once.

    Parents come before their children. Also when so many candidates were tried as `budget` says,
    then maybe without any row.
    """
    if not levels:
        return
    given = _flattened(levels, reach)
    state = _State.of(levels)
    paths = [_path(levels, i) for i, level in enumerate(levels) if level.emits]
    emitting = [path[-1] for path in paths]
    number = np.full(len(levels), -1, np.int64)
    number[emitting] = np.arange(len(paths))
    path = np.full((len(paths), max(map(len, paths))), -1, np.int64)
    for i, each in enumerate(paths):
        path[i, : len(each)] = each
    depth = np.array([len(each) for each in paths])
    fresh = np.empty((len(paths), path.shape[1], room), np.int32)
    sizes = np.zeros(len(paths), np.int64)
    places = np.stack(reach, axis=1)
    while state.where[0] >= 0:
        out = fresh
        tried, bound = _walk(*given, places, *state, number, path, depth, sizes, out, budget)
        if not sizes.any():
            yield Found(emitting[0], out[0, : len(paths[0]), :0], int(tried), int(bound))
        for i, many in enumerate(sizes.tolist()):
            if many:
                rows = out[i, : len(paths[i]), :many]
                if 2 * many > room:  # is given away
                    fresh = np.empty_like(out) if out is fresh else fresh
                else:
                    rows = rows.copy()
                yield Found(emitting[i], rows, int(tried), int(bound))
                tried = bound = 0
        sizes[:] = 0


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed."""
    place, moment = np.zeros(1, np.int32), np.zeros(1, np.int64)
    known = reach(moment, moment, 1)
    test = ComparedTo(LESS, np.zeros(1), 0, np.zeros(1))
    levels = (Level(place, place), Level(place, place, 0, 0, tests=(test,), emits=True))
    list(walk_rows(levels, known, 1))


def _path(levels: Sequence[Level], number: int) -> list[int]:
    found = [number]
    while (number := levels[number].parent) >= 0:
        found.append(number)
    return found[::-1]


class _Flat(NamedTuple):
    """Levels as arrays; those of rows one behind the other, from a level's `base` on."""

    base: np.ndarray
    first: np.ndarray
    last: np.ndarray
    single: np.ndarray
    shown: np.ndarray
    parent: np.ndarray
    child: np.ndarray
    sibling: np.ndarray
    before: np.ndarray
    after: np.ndarray
    early_after: np.ndarray  # whether the gates of the level behind bound this one
    late_before: np.ndarray
    own_early: np.ndarray  # whether its own gates are asked (1), or searched (2)
    own_late: np.ndarray
    earliest: np.ndarray  # by row, where there are any
    latest: np.ndarray
    partner: np.ndarray
    table: np.ndarray  # which of the indexes; -1 for one that is looked up
    ends: np.ndarray  # rows that end before each place
    groups_base: np.ndarray
    groups: np.ndarray
    group_base: np.ndarray
    group: np.ndarray
    slots: np.ndarray  # from one level's first value to the next one's
    slot_base: np.ndarray
    plain: np.ndarray  # whether a level has single events, at most one range, and is shown
    apart: np.ndarray  # whether the value must be another one, and has no range
    tests: np.ndarray
    test_slot: np.ndarray
    test_kind: np.ndarray
    test_level: np.ndarray
    test_base: np.ndarray
    values: np.ndarray


class _State(NamedTuple):
    """Where the walk stands: the level, and whether it is to be entered; and what is bound."""

    where: np.ndarray
    row: np.ndarray
    start: np.ndarray  # the first and the last place of the row that is bound
    end: np.ndarray
    at: np.ndarray  # the next row, and the one behind the last
    stop: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    least: np.ndarray  # of each value
    most: np.ndarray

    @staticmethod
    def of(levels: Sequence[Level]) -> _State:
        many = len(levels)
        tests = sum(len(level.tests) for level in levels) + 1
        return _State(
            np.array([0, 1]),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
            np.zeros(tests),
            np.zeros(tests),
        )


LOWER, UPPER, SAME, OTHER = range(4)  # what a test does to the range of a value


def _flattened(levels: Sequence[Level], reach: Reach) -> _Flat:
    many = len(levels)
    sizes = np.array([level.last.size for level in levels])
    base = np.concatenate([[0], np.cumsum(sizes)])
    child, sibling = np.full(many, -1), np.full(many, -1)
    latest_child: dict[int, int] = {}
    for i, level in enumerate(levels):
        if level.parent in latest_child:
            sibling[latest_child[level.parent]] = i
        elif level.parent >= 0:
            child[level.parent] = i
        latest_child[level.parent] = i
    looked_up = [level.partner >= 0 for level in levels]
    plain = [level for level, grouped in zip(levels, looked_up, strict=True) if not grouped]
    table = np.where(looked_up, -1, np.cumsum(np.logical_not(looked_up)) - 1)
    index = np.empty((max(len(plain), 1), reach.opening.size + 1), np.int32)
    known: dict[int, int] = {}
    for i, level in enumerate(levels):
        if table[i] < 0:
            continue
        # The same buffer in several places of a trie.
        if id(level.last) in known:
            table[i] = known[id(level.last)]
        else:
            known[id(level.last)] = int(table[i])
            _index(level.last, index[table[i]])
    groups, groups_base = _joined([level.groups for level in levels])
    group, group_base = _joined([level.group for level in levels])
    early, late = (
        np.concatenate([_of_size(gate, level.last.size) for gate, level in pairs])
        for pairs in (
            [(level.earliest, level) for level in levels],
            [(level.latest, level) for level in levels],
        )
    )
    gates = np.asfortranarray([_gates(levels, level) for level in levels]).astype(np.int64)
    return _Flat(
        base,
        np.concatenate([level.first for level in levels]),
        np.concatenate([level.last for level in levels]),
        np.array([level.first is level.last for level in levels]),
        np.array([level.is_shown for level in levels]),
        np.array([level.parent for level in levels]),
        child,
        sibling,
        np.array([level.before for level in levels]),
        np.array([level.after for level in levels]),
        gates[:, 0],
        gates[:, 1],
        gates[:, 2],
        gates[:, 3],
        early,
        late,
        np.array([level.partner for level in levels]),
        table,
        index,
        groups_base,
        groups.astype(np.int64),
        group_base,
        group.astype(np.int32),
        *_compared(levels),
    )


def _gates(levels: Sequence[Level], level: Level) -> tuple[int, int, int, int]:
    """Whether a level's neighbours behind and before it have gates, and what is done about its
    own: nothing, or they are asked row by row (1), or searched as they ascend (2)."""
    return (
        level.beside_after and levels[level.after].earliest.size > 0,
        level.beside_before and levels[level.before].latest.size > 0,
        _own(level, level.earliest, level.beside_before),
        _own(level, level.latest, level.beside_after),
    )


def _own(level: Level, gate: np.ndarray, beside: bool) -> int:
    if not beside or not gate.size:
        return 0
    groups = level.groups if level.partner >= 0 else np.array([0, gate.size])
    return 2 if ascends(gate, groups) else 1


def _of_size(gate: np.ndarray, size: int) -> np.ndarray:
    return gate.astype(np.int32) if gate.size else np.zeros(size, np.int32)


def _joined(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Arrays one behind the other, and where each begins."""
    return np.concatenate(parts), np.cumsum([0, *(part.size for part in parts)])[:-1]


def _compared(levels: Sequence[Level]) -> tuple[np.ndarray, ...]:
    """Tests as ranges of values: `v < x` is `v <= y` for the double y next below x."""
    arrays: list[np.ndarray] = []
    base = [0]  # of each array, and behind the last
    slots, tests = [0], [0]
    slot_base: list[int] = []
    found: list[tuple[int, int, int, int]] = []

    def add(values: np.ndarray) -> int:
        arrays.append(values)
        base.append(base[-1] + values.size)
        return base[-2]

    for level in levels:
        own: dict[tuple[int, bool], int] = {}
        for test in level.tests:
            # A value that must be different has no range, and a place of its own.
            apart = test.kind == DIFFERENT
            key = (id(test.own) if not apart else len(found), apart)
            if key not in own:
                own[key] = len(slot_base)
                slot_base.append(add(test.own))
            kind, other = _limit(test.kind, test.other)
            found.append((own[key], kind, test.level, add(other)))
        slots.append(len(slot_base))
        tests.append(len(found))
    columns = np.array(found, np.int64).reshape(-1, 4).T
    values = np.concatenate(arrays) if arrays else np.zeros(0)
    plain = np.array(
        [
            level.first is level.last
            and level.is_shown
            and level.partner < 0
            and not any(_gates(levels, level))
            and many < 2
            and not any(test.kind == DIFFERENT for test in level.tests)
            for level, many in zip(levels, np.diff(slots), strict=True)
        ]
    )
    different = np.isin(np.arange(len(slot_base)), columns[0][columns[1] == OTHER])
    return (
        np.array(slots), np.array(slot_base, np.int64), plain, different, np.array(tests),
        *columns, values,
    )  # fmt: skip


def _limit(kind: int, other: np.ndarray) -> tuple[int, np.ndarray]:
    """What a test makes of the range of a value, NaN where nothing fits."""
    if kind in (LESS, GREATER):
        towards = -np.inf if kind == LESS else np.inf
        found = np.where(other == towards, np.nan, np.nextafter(other, towards))
        return (UPPER if kind == LESS else LOWER), found
    return {LESS_EQUAL: UPPER, GREATER_EQUAL: LOWER, EQUAL: SAME, DIFFERENT: OTHER}[kind], other


@numba.njit(cache=True, nogil=True)
def _reach(
    moment: np.ndarray, position: np.ndarray, width: int, following: np.ndarray,
    simultaneous: np.ndarray, opening: np.ndarray, closing: np.ndarray,
) -> None:  # fmt: skip
    size = moment.size
    first = behind = low = high = 0
    for p in range(size):
        if moment[p] != moment[first]:
            first = p
        while behind < size and moment[behind] <= moment[p]:
            behind += 1
        while position[low] <= position[p] - width:
            low += 1
        while high < size and position[high] < position[p] + width:
            high += 1
        simultaneous[p], following[p], opening[p], closing[p] = first, behind, low, high


@numba.njit(cache=True, nogil=True)
def _index(last: np.ndarray, index: np.ndarray) -> None:
    """How many rows end before each place."""
    row = 0
    for place in range(index.size):
        while row < last.size and last[row] < place:
            row += 1
        index[place] = row


@numba.njit(cache=True, nogil=True)
def _ending_from(last: np.ndarray, low: int, high: int, place: int) -> int:
    """The first row between two that ends at a place or later."""
    while low < high:
        middle = (low + high) // 2
        if last[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low


# Arrays are passed one by one: a tuple of them handed to an inner function costs more than what
# the function does. What a level is spared of by being plain, most levels are.


@numba.njit(cache=True, nogil=True)
def _walk(
    base: np.ndarray, first: np.ndarray, last: np.ndarray, single: np.ndarray, shown: np.ndarray,
    parent: np.ndarray, child: np.ndarray, sibling: np.ndarray, before: np.ndarray,
    after: np.ndarray, early_after: np.ndarray, late_before: np.ndarray, own_early: np.ndarray,
    own_late: np.ndarray, earliest: np.ndarray, latest: np.ndarray, partner: np.ndarray,
    table: np.ndarray, ends: np.ndarray, groups_base: np.ndarray, groups: np.ndarray,
    group_base: np.ndarray, group: np.ndarray, slots: np.ndarray, slot_base: np.ndarray,
    plain: np.ndarray, apart: np.ndarray, tests: np.ndarray, test_slot: np.ndarray,
    test_kind: np.ndarray, test_level: np.ndarray, test_base: np.ndarray, values: np.ndarray,
    reach: np.ndarray, where: np.ndarray, row: np.ndarray, start: np.ndarray, end: np.ndarray,
    at: np.ndarray, stop: np.ndarray, low: np.ndarray, high: np.ndarray, lowest: np.ndarray,
    highest: np.ndarray, least: np.ndarray, most: np.ndarray, number: np.ndarray,
    path: np.ndarray, depth: np.ndarray, sizes: np.ndarray, out: np.ndarray, budget: int,
) -> tuple[int, int]:  # fmt: skip
    room = out.shape[2]
    tried = bound = 0
    d, entering = where[0], where[1] == 1
    while True:
        own, v = base[d], slots[d]
        has_range = v < slots[d + 1]
        if entering:
            entering = False
            up, p, s = parent[d], before[d], after[d]
            bottom, top = 0, base[d + 1] - own
            if up >= 0:
                from_place = reach[highest[up], 2]
                to_place = reach[lowest[up], 3]
                if p >= 0:
                    from_place = max(from_place, reach[end[p], 0])
                if s >= 0:
                    to_place = min(to_place, reach[start[s], 1])
                if plain[d]:
                    bottom, top = ends[table[d], from_place], ends[table[d], to_place]
                else:
                    low[d] = from_place
                    if early_after[d]:
                        from_place = max(from_place, earliest[base[s] + row[s]])
                    high[d] = to_place
                    if late_before[d]:
                        high[d] = min(to_place, latest[base[p] + row[p]])
                    if single[d]:
                        to_place = high[d]
                    if to_place <= from_place:
                        top = 0
                    elif table[d] >= 0:
                        bottom, top = ends[table[d], from_place], ends[table[d], to_place]
                    else:
                        g = group[group_base[d] + row[partner[d]]]
                        if g < 0:
                            top = 0
                        else:
                            begin = own + groups[groups_base[d] + g]
                            behind = own + groups[groups_base[d] + g + 1]
                            bottom = _ending_from(last, begin, behind, from_place)
                            top = _ending_from(last, bottom, behind, to_place) - own
                            bottom -= own
                    if own_early[d] == 2 and bottom < top:
                        top = _ending_from(earliest, own + bottom, own + top, end[p] + 1) - own
                    if own_late[d] == 2 and bottom < top:
                        bottom = _ending_from(latest, own + bottom, own + top, start[s] + 1) - own
                if has_range and bottom < top:
                    for i in range(v, slots[d + 1]):
                        least[i], most[i] = -np.inf, np.inf
                    for t in range(tests[d], tests[d + 1]):
                        value = values[test_base[t] + row[test_level[t]]]
                        i, kind = test_slot[t], test_kind[t]
                        if value != value:
                            top = bottom
                        elif kind == 0:
                            least[i] = max(least[i], value)
                        elif kind == 1:
                            most[i] = min(most[i], value)
                        elif kind == 2:
                            least[i] = max(least[i], value)
                            most[i] = min(most[i], value)
                        else:  # all but one
                            most[i] = value
            at[d], stop[d] = bottom, top
            if top > bottom:
                tried += top - bottom
                if tried >= budget:
                    where[0], where[1] = d, 0
                    return tried, bound
        e, down = number[d], False
        r, behind = at[d], stop[d]
        if plain[d] and e < 0:
            if has_range:
                of, under, over = slot_base[v], least[v], most[v]
                while r < behind:
                    value = values[of + r]
                    if under <= value and value <= over:
                        break
                    r += 1
            down = r < behind
        elif plain[d] and child[d] < 0 and sizes[e] + behind - r <= room:
            of, under, over = 0, 0.0, 0.0
            if has_range:
                of, under, over = slot_base[v], least[v], most[v]
            k = sizes[e]
            while r < behind:
                value = values[of + r] if has_range else 0.0
                if under <= value and value <= over:
                    for j in range(depth[e] - 1):
                        i = path[e, j]
                        out[e, j, k] = end[i] if shown[i] else row[i]
                    out[e, depth[e] - 1, k] = last[own + r]
                    k += 1
                r += 1
            sizes[e] = k
        else:
            while r < behind:
                fits = True
                if not single[d] and parent[d] >= 0:
                    fits = low[d] <= first[own + r] and first[own + r] < high[d]
                if fits and own_early[d] == 1:
                    fits = earliest[own + r] <= end[before[d]]
                if fits and own_late[d] == 1:
                    fits = latest[own + r] > start[after[d]]
                if fits:
                    for i in range(v, slots[d + 1]):
                        value = values[slot_base[i] + r]
                        if apart[i]:
                            fits = value < most[i] or value > most[i]
                        else:
                            fits = least[i] <= value and value <= most[i]
                        if not fits:
                            break
                if fits:
                    if e >= 0:
                        if sizes[e] == room:
                            at[d] = r
                            where[0], where[1] = d, 0
                            return tried, bound
                        row[d], end[d] = r, last[own + r]
                        for j in range(depth[e]):
                            i = path[e, j]
                            out[e, j, sizes[e]] = end[i] if shown[i] else row[i]
                        sizes[e] += 1
                    if child[d] >= 0:
                        down = True
                        break
                r += 1
        if down:
            bound += 1
            row[d], at[d] = r, r + 1
            start[d], end[d] = first[own + r], last[own + r]
            up = parent[d]
            if up >= 0:
                lowest[d] = min(start[d], lowest[up])
                highest[d] = max(end[d], highest[up])
            else:
                lowest[d], highest[d] = start[d], end[d]
            d, entering = child[d], True
        elif sibling[d] >= 0:
            d, entering = sibling[d], True
        elif parent[d] >= 0:
            d = parent[d]
        else:
            where[0] = -1
            return tried, bound
