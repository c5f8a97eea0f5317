"""Running a kernel of `tests.benchmarks.rivals.kernels` over picked events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from engines.columns.groups import EventGroups, ends
from engines.matching.trees.buffers import SelectedEvents
from kernels.joins import cpu as joins
from optimizer.ir.pattern import Pattern
from optimizer.ir.query import Query
from tests.benchmarks.rivals.kernels.configurations import FoundGroups, find_by_configurations
from tests.benchmarks.rivals.kernels.given import Comparisons, Events, Gaps
from tests.benchmarks.rivals.kernels.nested import Nodes, find_nested
from tests.benchmarks.rivals.kernels.stacks import find_by_stacks
from tests.benchmarks.rivals.outline import Node, Outline, Way, outline
from tests.benchmarks.rivals.values import Doubles, sides_of
from workloads import expressions as ex
from workloads.syntax import Plus

Rows = npt.NDArray[np.int32]

_KINDS = {
    "=": joins.EQUAL,
    "!=": joins.DIFFERENT,
    "<": joins.LESS,
    "<=": joins.LESS_EQUAL,
    ">": joins.GREATER,
    ">=": joins.GREATER_EQUAL,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, eq=False)
class Matches:
    """A row of places for each match, by the components of the query's pattern.

    Where some are groups, a row has the number of a group's last member in their place, as in
    `kernels/configurations.py`. `tried` is how many events, or configurations, were tried.
    """

    pattern: Pattern
    aliases: tuple[str, ...]
    rows: Rows
    tried: int
    is_group: tuple[bool, ...]
    groups: FoundGroups | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> list[Rows | EventGroups]:
        """A column of places, or of groups of them, for each component."""
        return [
            self._group(column) if plus else np.ascontiguousarray(column)
            for column, plus in zip(self.rows.T, self.is_group, strict=True)
        ]

    def _group(self, last: Rows) -> EventGroups:
        """The groups that end with some members: from behind, one event of all at a time."""
        assert self.groups is not None
        member, before = self.groups.member, self.groups.before
        sizes = np.zeros(len(last), np.int64)
        current = last
        while (current >= 0).any():
            sizes += current >= 0
            current = np.where(current >= 0, before[current], -1)
        offsets = ends(sizes)
        rows = np.empty(offsets[-1], np.int32)
        at, current = offsets[1:] - 1, last
        while (open_ := current >= 0).any():
            rows[at[open_]] = member[current[open_]]
            at, current = at - 1, np.where(open_, before[current], -1)
        return EventGroups(offsets, rows)


def find(query: Query, picked: SelectedEvents, width: int, way: Way) -> Matches:
    """The matches of a query; raises `UnsupportedError` where the way does not take it."""
    given = outline(query, way)
    outer = given.nodes[0]
    aliases = tuple(event.alias for event in outer.events)
    plus = tuple(isinstance(event.quantifier, Plus) for event in outer.events)
    order = _bound(given, backwards=way != "configurations")
    values, tests = _tests(given, picked, order)
    events = _events(given, picked, values)
    match way:
        case "stacks":
            gaps = _gaps(given, tests, order)
            found = find_by_stacks(events, tests, gaps, len(aliases), width)
        case "configurations":
            gaps = _gaps(given, tests, order)
            all_found = find_by_configurations(
                events, tests, gaps, np.array(plus), len(aliases), width
            )
            grouped = all_found if any(plus) else None
            return Matches(given.pattern, aliases, all_found.rows, all_found.tried, plus, grouped)
        case "nested" | "nested first":
            nodes = _nodes(given.nodes)
            found = find_nested(events, tests, nodes, width, way == "nested first")
        case _:
            assert_never(way)
    return Matches(given.pattern, aliases, found.rows, found.tried, plus)


def _bound(given: Outline, backwards: bool) -> list[int]:
    """When each component is bound: those of outer nodes first, in their order or from behind."""
    rank = [0] * len(given.events)
    step = 0
    for node in given.nodes:
        numbers = range(node.first, node.first + len(node.events))
        for component in reversed(numbers) if backwards else numbers:
            rank[component] = step
            step += 1
    return rank


def _events(given: Outline, picked: SelectedEvents, values: list[Doubles]) -> Events:
    lists = [picked.of(event.symbol) for event in given.events]
    return Events(
        picked.moment,
        picked.position,
        np.concatenate(lists).astype(np.int32, copy=False),
        _starts(map(len, lists)),
        np.stack(values) if values else np.zeros((0, len(picked))),
    )


def _tests(
    given: Outline, picked: SelectedEvents, order: list[int]
) -> tuple[list[Doubles], Comparisons]:
    """The conditions, each with the component that is bound last."""
    number = given.number
    values: list[Doubles] = []
    found: list[tuple[int, int, int, int, int]] = []
    for condition in given.conditions:
        (one,), (two,) = ex.aliases(condition.left), ex.aliases(condition.right)
        first, second = number[one], number[two]
        own, their = len(values), len(values) + 1
        values += sides_of(condition, picked)
        kind: str = condition.operator
        if order[first] < order[second]:
            first, second, own, their, kind = second, first, their, own, _MIRRORED[kind]
        found.append((first, _KINDS[kind], second, own, their))
    rows = np.array(sorted(found), np.int64).reshape(-1, 5)
    starts = np.searchsorted(rows[:, 0], np.arange(len(number) + 1)).astype(np.int64)
    kinds = rows[:, 1].astype(np.int8)
    others, owns, theirs = (rows[:, i].astype(np.int32) for i in (2, 3, 4))
    return values, Comparisons(starts, kinds, others, owns, theirs)


def _gaps(given: Outline, tests: Comparisons, order: list[int]) -> Gaps:
    """Negated events, each decided where all that it depends on is bound."""
    length = len(given.nodes[0].events)
    found = []
    for node in given.nodes[1:]:
        asked = slice(tests.starts[node.first], tests.starts[node.first + 1])
        needed = {int(other) for other in tests.other[asked]}
        at_edge = node.gap in (0, length)
        needed |= {0, length - 1} if at_edge else {node.gap - 1, node.gap}
        found.append((max(needed, key=lambda c: order[c]), node.first, node.gap))
    rows = np.array(sorted(found), np.int64).reshape(-1, 3)
    starts = np.searchsorted(rows[:, 0], np.arange(length + 1)).astype(np.int64)
    return Gaps(starts, rows[:, 1].astype(np.int32), rows[:, 2].astype(np.int32))


def _nodes(nodes: tuple[Node, ...]) -> Nodes:
    numbers = range(len(nodes))
    children = [[n for n in numbers if n and nodes[n].parent == m] for m in numbers]
    return Nodes(
        _starts(len(node.events) for node in nodes),
        np.array([node.parent for node in nodes], np.int32),
        np.array([node.gap for node in nodes], np.int32),
        _starts(map(len, children)),
        np.array([n for inner in children for n in inner], np.int32),
    )


def _starts(sizes: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *sizes]).astype(np.int64)
