"""The baselines as plain Python: every combination of events is tried."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tests.benchmarks.rivals.kernels.configurations import FoundGroups
from tests.benchmarks.rivals.kernels.given import Comparisons, Events, Found, Gaps
from tests.benchmarks.rivals.kernels.nested import Nodes

Chosen = dict[int, int]
TESTS: tuple[Callable[[float, float], bool], ...] = (
    operator.eq,
    lambda a, b: a < b or a > b,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)


def _places(events: Events, component: int) -> list[int]:
    first, behind = events.starts[component : component + 2]
    return [int(place) for place in events.places[first:behind]]


def _satisfied(
    events: Events, tests: Comparisons, components: Sequence[int], chosen: Chosen
) -> bool:
    return all(
        TESTS[tests.kind[t]](
            events.values[tests.own[t], chosen[c]],
            events.values[tests.their[t], chosen[int(tests.other[t])]],
        )
        for c in components
        for t in range(tests.starts[c], tests.starts[c + 1])
    )


def _in_order(events: Events, places: Sequence[int]) -> bool:
    return all(events.moment[a] < events.moment[b] for a, b in itertools.pairwise(places))


def _in_window(events: Events, places: Sequence[int], width: int) -> bool:
    return bool(events.position[places[-1]] - events.position[places[0]] < width)


def _between(
    events: Events, places: Sequence[int], match: Sequence[int], gap: int, width: int
) -> bool:
    """Do all of some places lie in a gap of a match?"""
    for place in places:
        if gap > 0 and events.moment[place] <= events.moment[match[gap - 1]]:
            return False
        if gap < len(match) and events.moment[place] >= events.moment[match[gap]]:
            return False
        if gap == 0 and events.position[place] <= events.position[match[-1]] - width:
            return False
        if gap == len(match) and events.position[place] >= events.position[match[0]] + width:
            return False
    return True


def _rows(rows: Sequence[tuple[int, ...]], length: int) -> np.ndarray:
    return np.array(rows, np.int32).reshape(len(rows), length)


def find_by_stacks(
    events: Events, tests: Comparisons, gaps: Gaps, length: int, width: int
) -> Found:
    """As `tests.benchmarks.rivals.kernels.stacks.find_by_stacks`, in another order."""
    found = []
    for places in itertools.product(*(_places(events, c) for c in range(length))):
        chosen = dict(enumerate(places))
        if (
            _in_order(events, places)
            and _in_window(events, places, width)
            and _satisfied(events, tests, range(length), chosen)
            and not any(
                _between(events, [place], places, int(gap), width)
                and _satisfied(events, tests, [int(c)], chosen | {int(c): place})
                for c, gap in zip(gaps.component, gaps.gap, strict=True)
                for place in _places(events, int(c))
            )
        ):
            found.append(places)
    return Found(_rows(found, length), 0)


def find_by_configurations(
    events: Events, tests: Comparisons, gaps: Gaps, plus: np.ndarray, length: int, width: int
) -> FoundGroups:
    """As `configurations.find_by_configurations`, in another order."""
    if not plus.any():
        rows = find_by_stacks(events, tests, gaps, length, width).rows
        return FoundGroups(rows, np.zeros(0, np.int32), np.zeros(0, np.int32), 0)
    members: list[tuple[int, int]] = []
    found = []
    choices = [
        _groups(events, _places(events, c)) if plus[c] else [(p,) for p in _places(events, c)]
        for c in range(length)
    ]
    for groups in itertools.product(*choices):
        places = [place for group in groups for place in group]
        chosen = {c: group[0] for c, group in enumerate(groups)}
        if (
            _in_order(events, places)
            and _in_window(events, places, width)
            and _satisfied(events, tests, range(length), chosen)
        ):
            row = []
            for c, group in enumerate(groups):
                if plus[c]:
                    for i, place in enumerate(group):
                        members.append((place, len(members) - 1 if i else -1))
                    row.append(len(members) - 1)
                else:
                    row.append(group[0])
            found.append(tuple(row))
    listed = _rows(members, 2)
    return FoundGroups(_rows(found, length), listed[:, 0], listed[:, 1], 0)


def _groups(events: Events, places: list[int]) -> list[tuple[int, ...]]:
    return [
        group
        for size in range(1, len(places) + 1)
        for group in itertools.combinations(places, size)
        if _in_order(events, group)
    ]


def find_nested(
    events: Events, tests: Comparisons, nodes: Nodes, width: int, enough: bool
) -> Found:
    """As `tests.benchmarks.rivals.kernels.nested.find_nested`, in another order."""
    found = [
        match
        for match in _of_node(events, tests, nodes, 0, {}, width)
        if _in_window(events, match, width)
    ]
    return Found(_rows(found, int(nodes.starts[1])), 0)


def _of_node(
    events: Events, tests: Comparisons, nodes: Nodes, node: int, around: Chosen, width: int
) -> Iterator[tuple[int, ...]]:
    """The matches of a node, wherever they are, free of what is negated in them."""
    components = range(int(nodes.starts[node]), int(nodes.starts[node + 1]))
    for places in itertools.product(*(_places(events, c) for c in components)):
        chosen = around | dict(zip(components, places, strict=True))
        if not _in_order(events, places) or not _satisfied(events, tests, components, chosen):
            continue
        inner = nodes.children[nodes.child_starts[node] : nodes.child_starts[node + 1]]
        if not any(
            _between(events, match, places, int(nodes.gap[child]), width)
            for child in inner
            for match in _of_node(events, tests, nodes, int(child), chosen, width)
        ):
            yield places
