"""Compiled joins find what the plain-Python versions find."""

import numpy as np
import pytest

from kernels.joins import cpu as joins
from kernels.joins import reference as joins_reference
from kernels.joins.cpu import NOWHERE, Side


def random_order(random):
    """Moments and positions of places: simultaneous ones, and partitions far apart."""
    steps = random.choice([0, 0, 1, 1, 2, 3, 60], random.integers(0, 40))
    position = np.cumsum(steps).astype(np.int64)
    # With sequence numbers some events of one time are not simultaneous.
    moment = np.cumsum((steps > 0) | (random.random(len(steps)) < 0.3)).astype(np.int64)
    return moment, position


def random_side(random, moment, position, width, tests, single, gates):
    """Rows in order of their last place, each less than a window wide."""
    places = np.sort(random.integers(0, max(len(moment), 1), random.integers(0, 30)))
    last = places[: 30 if len(moment) else 0].astype(np.int32)
    first = last
    if not single:
        back = random.integers(0, 5, len(last))
        first = np.maximum(last - back, 0).astype(np.int32)
        near = position[last] - position[first] < width
        first = np.where(near, first, last).astype(np.int32)
    gate = np.zeros(0, np.int64)
    if gates:
        top = int(moment.max(initial=0))
        gate = random.integers(-1, top + 2, len(last))
        if random.random() < 0.5:
            gate = np.sort(gate)
    values = random.integers(0, 3, (tests, len(last))).astype(np.float64)
    values[random.random(values.shape) < 0.2] = np.nan
    return Side(first, last, gate, values)


def grouped(random, side, other):
    """A side sorted into groups, which of them each row of the other asks for, and both."""
    if random.random() < 0.4:
        return side, np.array([0, len(side.last)]), np.zeros(0, np.int32)
    rows, groups = joins_reference.group_rows(random.integers(-1, 3, len(side.last)), 3)
    last = side.last[rows]
    first = last if side.first is side.last else side.first[rows]
    gate = side.gate[rows] if len(side.gate) else side.gate
    codes = random.integers(-1, 3, len(other.last)).astype(np.int32)
    return Side(first, last, gate, side.values[:, rows]), groups, codes


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("ordered", [True, False])
def test_pairs_are_those_of_the_reference(seed, ordered):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    tests = random.integers(0, 6, random.integers(0, 3)).astype(np.int8)
    for width in (1, 4, 12):
        chances = random.random((2, 2)) < 0.5
        sides = [random_side(random, moment, position, width, len(tests), *c) for c in chances]
        left, groups, codes = grouped(random, *sides)
        given = (moment, position, left, groups, sides[1], codes, tests, width, ordered)
        found, expected = joins.count_pairs(*given), joins_reference.count_pairs(*given)
        np.testing.assert_array_equal(found.counts, expected.counts)
        assert found.tried == expected.tried
        size = len(sides[1].last)
        for start, stop in ((0, size), (size // 3, size // 2)):
            given = (moment, position, left, sides[1], tests, width, ordered)
            pairs = joins.fill_pairs(*given, found, start, stop)
            wanted = joins_reference.fill_pairs(*given, expected, start, stop)
            np.testing.assert_array_equal(pairs, wanted)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("latest", [True, False])
def test_what_is_negated_is_found_where_the_reference_finds_it(seed, latest):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    tests = random.integers(0, 6, random.integers(0, 2)).astype(np.int8)
    side = random_side(random, moment, position, 9, len(tests), random.random() < 0.5, False)
    size = int(random.integers(0, 20))
    low = random.integers(0, len(moment) + 1, size).astype(np.int32)
    high = random.integers(0, len(moment) + 1, size).astype(np.int32)
    regions = Side(low, low, np.zeros(0, np.int64), np.zeros((len(tests), size)))
    left, groups, codes = grouped(random, side, regions)
    given = (left, groups, low, high, regions.values, codes, tests, latest)
    found, expected = joins.probe(*given), joins_reference.probe(*given)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] <= expected[1]


def test_a_negated_event_without_conditions_is_found_in_one_try():
    places = np.arange(1000, dtype=np.int32)
    side = Side(places, places, np.zeros(0, np.int64), np.zeros((0, 1000)))
    low, high = np.zeros(3, np.int32), np.array([0, 500, 1000], np.int32)
    none = np.zeros(0, np.int8)
    given = (side, np.array([0, 1000]), low, high, np.zeros((0, 3)), np.zeros(0, np.int32), none)
    for latest, wanted in ((True, [-1, 499, 999]), (False, [NOWHERE, 0, 0])):
        found, tried = joins.probe(*given, latest)
        assert found.tolist() == wanted
        assert tried == 2


def test_what_gates_that_ascend_rule_out_is_not_tried():
    places = np.arange(100, dtype=np.int32)
    moment = np.arange(100)
    none, tests = np.zeros(0, np.int64), np.zeros(0, np.int8)
    right = Side(places, places, none, np.zeros((0, 100)))
    gates = np.minimum(moment // 10 * 10 + 10, 99)  # something is negated at every tenth place
    tried = []
    for gate in (gates, np.where(moment == 50, 99, gates)):
        left = Side(places, places, gate, np.zeros((0, 100)))
        given = (moment, moment, left, np.array([0, 100]), right, np.zeros(0, np.int32), tests)
        found = joins.count_pairs(*given, 1000, True)
        assert found.counts.sum() == sum(int(g) - k for k, g in enumerate(gate))
        tried.append(found.tried)
    assert tried == [int((gates - moment).sum()), 100 * 99 // 2]


def random_rows(random, moment):
    """Rows that ascend at both ends, places to look from, and moments that rows must end behind."""
    places = [np.flatnonzero(random.random(len(moment)) < 0.5).astype(np.int32) for _ in range(2)]
    back = random.integers(0, 5, len(places[0]))
    first = np.maximum.accumulate(np.maximum(places[0] - back, 0)).astype(np.int32)
    gate = random.integers(-1, int(moment.max(initial=0)) + 2, len(places[1]))
    return first, places[0], places[1], gate if random.random() < 0.5 else np.zeros(0, np.int64)


@pytest.mark.parametrize("seed", range(60))
def test_latest_starts_are_those_of_the_reference(seed):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    given = (moment, position, *random_rows(random, moment))
    for width in (1, 4, 12, 100):
        found = joins.latest_starts(*given, width)
        np.testing.assert_array_equal(found, joins_reference.latest_starts(*given, width))


@pytest.mark.parametrize("seed", range(20))
def test_places_are_found_in_any_order_of_keys(seed):
    random = np.random.default_rng(seed)
    values = np.sort(random.integers(0, 30, random.integers(0, 40)))
    keys = random.integers(-2, 33, 25)
    for asked in (keys, np.sort(keys), np.sort(keys)[::-1].copy()):
        np.testing.assert_array_equal(
            joins.places_from(values, asked), joins_reference.places_from(values, asked)
        )


@pytest.mark.parametrize("seed", range(20))
def test_equal_values_have_equal_codes(seed):
    random = np.random.default_rng(seed)
    pool = random.integers(-(2**63), 2**63 - 1, 9)
    sides = []
    for _ in range(2):
        size = random.integers(0, 40)
        sides += [random.choice(pool, size), random.random(size) < 0.8]
    found, expected = joins.match_codes(*sides), joins_reference.match_codes(*sides)
    for codes, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(codes, wanted)
    rows, groups = joins.group_rows(found[0], found[2])
    wanted_rows, wanted_groups = joins_reference.group_rows(found[0], found[2])
    np.testing.assert_array_equal(rows, wanted_rows)
    np.testing.assert_array_equal(groups, wanted_groups)
