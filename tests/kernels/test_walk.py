"""The compiled walk finds what the plain-Python version finds, and what joins find."""

from itertools import product

import numpy as np
import pytest

from kernels.joins import reference as joins_reference
from kernels.walk import cpu as walk
from kernels.walk import reference as walk_reference
from kernels.walk.cpu import ComparedTo, Level
from tests.kernels.test_joins import random_order, random_side

NOTHING = np.zeros(0, np.int32)


def random_levels(random, moment, position, width):
    """A trie of levels of one sequence, or of parts in any order."""
    many, ordered = int(random.integers(1, 5)), random.random() < 0.7
    levels, places, paths = [], [], []
    for i in range(many):
        single = bool(random.random() < 0.6)
        side = random_side(random, moment, position, width, 0, single, False)
        size = len(side.last)
        parent = int(random.integers(max(i - 2, 0), i)) if i else -1
        above = [] if parent < 0 else [*paths[parent], parent]
        place = int(random.choice([p for p in range(7) if p not in [places[j] for j in above]]))
        before = [j for j in above if places[j] < place] if ordered else []
        after = [j for j in above if places[j] > place] if ordered else []
        before = max(before, key=lambda j: places[j], default=-1)
        after = min(after, key=lambda j: places[j], default=-1)
        gates = []
        for _ in range(2):
            gate = random.integers(0, len(moment) + 2, size).astype(np.int32)
            gate = np.sort(gate) if random.random() < 0.5 else gate
            gates.append(gate if random.random() < 0.4 else NOTHING)
        first, last = side.first, side.last
        partner, groups, group = -1, walk.NO_OFFSETS, NOTHING
        if above and random.random() < 0.4:
            partner = int(random.choice(above))
            rows, groups = joins_reference.group_rows(random.integers(-1, 3, size), 3)
            last = last[rows]
            first = last if side.first is side.last else first[rows]
            gates = [gate[rows] if len(gate) else gate for gate in gates]
            group = random.integers(-1, 3, len(levels[partner].last)).astype(np.int32)
        values = [random_values(random, len(last)) for _ in range(2)]
        tests = []
        for _ in range(random.integers(0, 4)) if above else ():
            level = int(random.choice(above))
            other = random_values(random, len(levels[level].last))
            own = values[int(random.integers(0, 2))]
            tests.append(ComparedTo(int(random.integers(0, 6)), own, level, other))
        levels.append(
            Level(
                first, last, parent, before, after,
                before >= 0 and places[before] == place - 1,
                after >= 0 and places[after] == place + 1,
                *gates, partner, groups, group, tuple(tests),
                emits=True if i == many - 1 else bool(random.random() < 0.4),
                is_shown=bool(random.random() < 0.5),
            )
        )  # fmt: skip
        places.append(place)
        paths.append(above)
    childless = set(range(many)) - {level.parent for level in levels}
    return [level._replace(emits=level.emits or i in childless) for i, level in enumerate(levels)]


def random_values(random, size):
    values = random.integers(0, 3, size).astype(np.float64)
    values[random.random(size) < 0.1] = np.nan
    values[random.random(size) < 0.1] = random.choice([np.inf, -np.inf])
    return values


def summed(found):
    """All rows of each level, in order, how many were tried and bound, and the longest part."""
    rows, tried, bound, most = {}, 0, 0, 0
    for part in found:
        if part.rows.shape[1]:
            rows.setdefault(part.level, []).extend(map(tuple, part.rows.T.tolist()))
        tried, bound = tried + part.tried, bound + part.bound
        most = max(most, part.rows.shape[1])
    return rows, tried, bound, most


@pytest.mark.parametrize("seed", range(150))
def test_rows_are_those_of_the_reference(seed):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    for width in (2, 6, 15):
        levels = random_levels(random, moment, position, width)
        known = walk.reach(moment, position, width)
        expected = walk_reference.reach(moment, position, width)
        assert all(np.array_equal(a, b) for a, b in zip(known, expected, strict=True))
        for room, budget in ((1000, 1 << 26), (3, 1 << 26), (1000, 5)):
            found = summed(walk.walk_rows(levels, known, room, budget))
            assert found[:3] == summed(walk_reference.walk_rows(levels, known, room))[:3]
            assert found[3] <= room


def test_every_order_of_a_sequence_gives_the_same_rows():
    random = np.random.default_rng(1)
    size, width = 60, 9
    position = np.cumsum(random.integers(0, 3, size)).astype(np.int64)
    kinds = random.integers(0, 3, size)
    places = [np.flatnonzero(kinds == kind).astype(np.int32) for kind in range(3)]
    expected = {
        row
        for row in product(*(some.tolist() for some in places))
        if position[row[0]] < position[row[1]] < position[row[2]] < position[row[0]] + width
    }
    assert len(expected) > 20
    known = walk.reach(position, position, width)
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        levels = []
        for i, part in enumerate(order):
            before = [j for j in range(i) if order[j] < part]
            after = [j for j in range(i) if order[j] > part]
            levels.append(
                Level(
                    places[part], places[part], i - 1,
                    max(before, key=lambda j: order[j], default=-1),
                    min(after, key=lambda j: order[j], default=-1),
                    emits=i == 2,
                )
            )  # fmt: skip
        found = np.concatenate([part.rows for part in walk.walk_rows(levels, known, 7)], axis=1)
        assert {
            tuple(found[[order.index(i) for i in range(3)], k]) for k in range(found.shape[1])
        } == expected
        assert found.shape[1] == len(expected)


def test_without_events_there_is_nothing():
    none = np.zeros(0, np.int64)
    known = walk.reach(none, none, 5)
    levels = [Level(NOTHING, NOTHING), Level(NOTHING, NOTHING, 0, 0, emits=True)]
    assert summed(walk.walk_rows(levels, known, 5)) == ({}, 0, 0, 0)
