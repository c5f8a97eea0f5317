"""The compiled baselines find what trying every combination finds."""

import numpy as np
import pytest

from tests.benchmarks.rivals.kernels import reference
from tests.benchmarks.rivals.kernels.configurations import find_by_configurations
from tests.benchmarks.rivals.kernels.given import Comparisons, Events, Gaps
from tests.benchmarks.rivals.kernels.nested import Nodes, find_nested
from tests.benchmarks.rivals.kernels.stacks import find_by_stacks


def random_events(random, components, size):
    """Events of each component, some of several, some simultaneous, some partitions apart."""
    steps = random.choice([0, 0, 1, 1, 2, 3, 60], size)
    position = np.cumsum(steps).astype(np.int64)
    moment = np.cumsum((steps > 0) | (random.random(size) < 0.3)).astype(np.int64)
    lists = [np.flatnonzero(random.random(size) < 0.3) for _ in range(components)]
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    values = random.integers(0, 3, (3, size)).astype(np.float64)
    values[random.random(values.shape) < 0.1] = np.nan
    places = np.concatenate(lists).astype(np.int32)
    return Events(moment, position, places, starts, values)


def random_tests(random, before):
    """Comparisons of each component with others: `before[c]` are those that are bound before it."""
    found = []
    for c, others in enumerate(before):
        for other in others:
            if random.random() < 0.3:
                kind = random.integers(0, 6)
                found.append((c, kind, other, random.integers(0, 3), random.integers(0, 3)))
    rows = np.array(found, np.int64).reshape(-1, 5)
    starts = np.searchsorted(rows[:, 0], np.arange(len(before) + 1))
    kind, other, own, their = (
        rows[:, i].astype(d) for i, d in ((1, np.int8), (2, np.int32), (3, np.int32), (4, np.int32))
    )
    return Comparisons(starts.astype(np.int64), kind, other, own, their)


def random_gaps(random, length, negated, tests, backwards):
    """A gap for each negated component, decided where all that it needs is bound."""
    found = []
    for c in range(length, length + negated):
        gap = int(random.integers(0, length + 1))
        needed = {int(o) for o in tests.other[tests.starts[c] : tests.starts[c + 1]]}
        needed |= {0, length - 1} if gap in (0, length) else {gap - 1, gap}
        found.append((min(needed) if backwards else max(needed), c, gap))
    rows = np.array(sorted(found), np.int64).reshape(-1, 3)
    starts = np.searchsorted(rows[:, 0], np.arange(length + 1))
    return Gaps(starts.astype(np.int64), rows[:, 1].astype(np.int32), rows[:, 2].astype(np.int32))


def listed(rows):
    return sorted(map(tuple, rows.tolist()))


@pytest.mark.parametrize("seed", range(80))
def test_stacks_find_all_matches(seed):
    random = np.random.default_rng(seed)
    length, negated = int(random.integers(1, 4)), int(random.integers(0, 3))
    events = random_events(random, length + negated, int(random.integers(0, 14)))
    before = [range(c + 1, length) for c in range(length)] + [range(length)] * negated
    tests = random_tests(random, before)
    gaps = random_gaps(random, length, negated, tests, backwards=True)
    for width in (2, 7):
        given = (events, tests, gaps, length, width)
        found, expected = find_by_stacks(*given), reference.find_by_stacks(*given)
        assert listed(found.rows) == listed(expected.rows)


@pytest.mark.parametrize("seed", range(80))
def test_configurations_find_all_matches(seed):
    random = np.random.default_rng(seed)
    length, negated = int(random.integers(1, 4)), int(random.integers(0, 3))
    events = random_events(random, length + negated, int(random.integers(0, 14)))
    tests = random_tests(random, [range(c) for c in range(length)] + [range(length)] * negated)
    gaps = random_gaps(random, length, negated, tests, backwards=False)
    plus = np.zeros(length, np.bool_)
    for width in (2, 7):
        given = (events, tests, gaps, plus, length, width)
        found, expected = find_by_configurations(*given), reference.find_by_configurations(*given)
        assert listed(found.rows) == listed(expected.rows)


def groups_of(found, plus):
    """Each match as tuples of places."""
    matches = []
    for row in found.rows.tolist():
        match = []
        for value, many in zip(row, plus, strict=True):
            if not many:
                match.append((value,))
                continue
            group = []
            while value >= 0:
                group.append(int(found.member[value]))
                value = int(found.before[value])
            match.append(tuple(reversed(group)))
        matches.append(tuple(match))
    return sorted(matches)


@pytest.mark.parametrize("seed", range(60))
def test_configurations_find_all_groups(seed):
    random = np.random.default_rng(seed)
    length = int(random.integers(1, 4))
    events = random_events(random, length, int(random.integers(0, 10)))
    plus = random.random(length) < 0.5
    single = np.flatnonzero(~plus).tolist()
    tests = random_tests(
        random, [[o for o in single if o < c] if c in single else [] for c in range(length)]
    )
    gaps = random_gaps(random, length, 0, tests, backwards=False)
    for width in (2, 7):
        given = (events, tests, gaps, plus, length, width)
        found, expected = find_by_configurations(*given), reference.find_by_configurations(*given)
        assert groups_of(found, plus) == groups_of(expected, plus)


def random_nodes(random):
    """An outer sequence with up to three in it, one inside the other or side by side."""
    sizes = random.integers(1, 4, int(random.integers(1, 4)))
    parent, gap = np.zeros(len(sizes), np.int32), np.zeros(len(sizes), np.int32)
    for n in range(1, len(sizes)):
        able = [m for m in range(n) if m == 0 or sizes[m] > 1]
        parent[n] = random.choice(able)
        edge = parent[n] == 0
        gap[n] = random.integers(0 if edge else 1, sizes[parent[n]] + edge)
    children = [[n for n in range(1, len(sizes)) if parent[n] == m] for m in range(len(sizes))]
    return Nodes(
        np.cumsum([0, *sizes]).astype(np.int64),
        parent,
        gap,
        np.cumsum([0, *map(len, children)]).astype(np.int64),
        np.array([n for inner in children for n in inner], np.int32),
    )


def bound_before(nodes):
    """The components that are bound before each: later ones of its node, and all around it."""
    found = []
    for n in range(len(nodes.starts) - 1):
        around, up = [], n
        while up:
            up = int(nodes.parent[up])
            around += range(int(nodes.starts[up]), int(nodes.starts[up + 1]))
        behind = int(nodes.starts[n + 1])
        found += [[*range(c + 1, behind), *around] for c in range(int(nodes.starts[n]), behind)]
    return found


@pytest.mark.parametrize("seed", range(80))
def test_nested_execution_finds_all_matches(seed):
    random = np.random.default_rng(seed)
    nodes = random_nodes(random)
    events = random_events(random, int(nodes.starts[-1]), int(random.integers(1, 11)))
    tests = random_tests(random, bound_before(nodes))
    for width in (2, 7):
        expected = reference.find_nested(events, tests, nodes, width, False)
        for enough in (False, True):
            found = find_nested(events, tests, nodes, width, enough)
            assert listed(found.rows) == listed(expected.rows)


def test_looking_for_the_first_negated_match_tries_less():
    size = 40
    position = np.arange(size, dtype=np.int64)
    lists = [np.array([0]), np.array([size - 1]), np.arange(1, size - 1), np.arange(1, size - 1)]
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    places = np.concatenate(lists).astype(np.int32)
    events = Events(position, position, places, starts, np.zeros((0, size)))
    none = np.zeros(0, np.int32)
    tests = Comparisons(np.zeros(5, np.int64), none.astype(np.int8), none, none, none)
    nodes = Nodes(
        np.array([0, 2, 4]),
        np.array([0, 0], np.int32),
        np.array([0, 1], np.int32),
        np.array([0, 1, 1]),
        np.array([1], np.int32),
    )
    whole, first = (find_nested(events, tests, nodes, 100, enough) for enough in (False, True))
    assert len(whole.rows) == len(first.rows) == 0
    # Of 38 events each two in order, and each as the last of two; against one pair.
    assert whole.tried == 2 + 38 + 38 * 37 // 2
    assert first.tried == 4
