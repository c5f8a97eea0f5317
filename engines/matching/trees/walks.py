"""Rows of several buffers bound depth first: what the kernel takes, and buffers from what it gives.

A condition that compares a value of one part with one of another is a test, or a look-up where the
two must be equal; what ties more parts, or events of groups one by one, is left for the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engines.columns.groups import EventGroups
from engines.columns.vectors import Vector, broadcast
from engines.matching.trees.buffers import (
    Buffer,
    Column,
    EventNumbers,
    Moments,
    SelectedEvents,
)
from engines.matching.trees.closures import apart
from engines.matching.trees.conditions import (
    FEW_ROWS,
    MIRRORED,
    TESTS,
    Codes,
    Doubles,
    codes_of,
    kept,
    numbers_of,
    value,
)
from kernels.joins import cpu as joins
from kernels.walk import cpu as kernel
from optimizer.plan.join_operators import Walk
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printing import print_expression


class WalkedRows(NamedTuple):
    """Rows of a walk; how many candidates were tried for them, and partial matches bound."""

    rows: Buffer
    tried: int
    bound: int


def walked(
    walk: Walk,
    picked: SelectedEvents,
    parts: Sequence[Buffer],
    width: int,
    room: int,
    rivals: Sequence[tuple[int, int]],
) -> Iterator[WalkedRows]:
    """The rows of a walk over buffers, which are sorted by their last events.

    `rivals` are those components that may be the same event, and must not.
    """
    if not all(map(len, parts)):
        return
    ready = _Ready(walk, picked, parts, rivals)
    for found in kernel.walk_rows(ready.levels(), picked.reach(width), room):
        rows = kept(ready.rest, picked, ready.buffer(found.rows))
        for one, other in ready.grouped_rivals:
            rows = apart(rows, one, other)
        yield WalkedRows(rows, found.tried, found.bound)


class _Comparison(NamedTuple):
    """A condition between two parts; `later` is the one that is bound last, and `test` of it.

    `what` of it is compared, in words.
    """

    test: str
    later: int
    own: Vector
    earlier: int
    other: Vector
    what: str


class _Test(NamedTuple):
    """How values of a part stand to those of one bound before; `what` is one for equal values."""

    kind: int
    own: Doubles
    other: int
    values: Doubles
    what: str


@dataclass
class _LookUp:
    """The rows of a part by what another one's rows must be equal to."""

    partner: int  # a part
    group: npt.NDArray[np.int32]
    order: EventNumbers
    groups: npt.NDArray[np.int64]


@dataclass
class _Ready:
    walk: Walk
    picked: SelectedEvents
    parts: Sequence[Buffer]
    rivals: Sequence[tuple[int, int]]
    rest: list[ex.Expression] = field(default_factory=list)
    look_ups: dict[int, _LookUp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owner = [p for p, part in enumerate(self.parts) for _ in part.columns]
        self.starts = np.cumsum([0, *(len(part.columns) for part in self.parts)]).tolist()
        self.turn = {part: level for level, part in enumerate(self.walk.order)}
        columns = [column for part in self.parts for column in part.columns]
        self.grouped_rivals = [
            pair for pair in self.rivals if any(isinstance(columns[i], EventGroups) for i in pair)
        ]
        tests: dict[int, list[_Test]] = {part: [] for part in self.turn}
        equal: dict[tuple[int, int], list[tuple[Codes, Codes]]] = {}
        for condition in self.walk.conditions:
            found = self._sides(condition)
            if found is None:
                self.rest.append(condition)
                continue
            codes = codes_of(found.own, found.other) if found.test == "=" else None
            if codes is not None:
                equal.setdefault((found.later, found.earlier), []).append(codes)
                continue
            numbers = numbers_of(found.own, found.other)
            if numbers is None:
                self.rest.append(condition)
            else:
                plain = {found.own.kind, found.other.kind} <= {"int", "float", "bool"}
                what = found.what if plain else f"condition {len(tests[found.later])}"
                test = _Test(TESTS[found.test], numbers[0], found.earlier, numbers[1], what)
                tests[found.later].append(test)
        for i, j in self.rivals:
            if (i, j) not in self.grouped_rivals:
                one, other = sorted((i, j), key=lambda c: self.turn[self.owner[c]])
                places = columns[other], columns[one]
                assert not any(isinstance(column, EventGroups) for column in places)
                own, bound = (np.asarray(column, np.float64) for column in places)
                test = _Test(joins.DIFFERENT, own, self.owner[one], bound, f"place {other}")
                tests[self.owner[other]].append(test)
        self._look_up(equal, tests)
        self.tests = tests

    def _look_up(
        self,
        equal: Mapping[tuple[int, int], list[tuple[Codes, Codes]]],
        tests: Mapping[int, list[_Test]],
    ) -> None:
        """For each part one other, with the most values, by which it is looked up; equalities
        with the rest are tests."""
        options: dict[int, list[tuple[int, int, EventNumbers, EventNumbers]]] = {}
        for (part, other), pairs in equal.items():
            count, codes, group = joins.match_all(pairs)
            options.setdefault(part, []).append((count, other, codes, group))
        for part, found in options.items():
            found.sort(key=lambda option: -option[0])
            if len(self.parts[part]) > FEW_ROWS:
                count, other, codes, group = found.pop(0)
                self.look_ups[part] = _LookUp(other, group, *joins.group_rows(codes, count))
            for _, other, codes, group in found:
                numbers = (np.where(c < 0, np.nan, c) for c in (codes, group))
                own, bound = numbers
                tests[part].append(_Test(joins.EQUAL, own, other, bound, f"code {other}"))

    def _sides(self, condition: ex.Expression) -> _Comparison | None:
        """A comparison as one of a value of one part with that of another."""
        if not isinstance(condition, ex.Comparison):
            return None
        named = [sorted(map(int, ex.aliases(side))) for side in (condition.left, condition.right)]
        owners = [{self.owner[number] for number in numbers} for numbers in named]
        if any(len(found) != 1 for found in owners) or owners[0] == owners[1]:
            return None
        one, two = (found.pop() for found in owners)
        if not ex.has_group_call(condition) and any(
            isinstance(self._column(number), EventGroups) for each in named for number in each
        ):
            return None
        try:
            left, right = self._value(one, condition.left), self._value(two, condition.right)
        except UnsupportedError:
            return None  # an error only where there is a row to evaluate it on
        test: str = condition.operator
        if self.turn[one] > self.turn[two]:
            return _Comparison(test, one, left, two, right, print_expression(condition.left))
        what = print_expression(condition.right)
        return _Comparison(MIRRORED[test], two, right, one, left, what)

    def _column(self, number: int) -> Column:
        part = self.owner[number]
        column: Column = self.parts[part].columns[number - self.starts[part]]
        return column

    def _value(self, part: int, expression: ex.Expression) -> Vector:
        start, many = self.starts[part], len(self.parts[part].columns)
        shifted = {str(start + i): str(i) for i in range(many)}
        found = value(ex.rename(expression, shifted), self.picked, self.parts[part])
        return broadcast(found, len(self.parts[part]))

    def levels(self) -> list[kernel.Level]:
        """The parts in the order in which they are bound."""
        return [self._level(level, part) for level, part in enumerate(self.walk.order)]

    def _level(self, level: int, part: int) -> kernel.Level:
        buffer, known = self.parts[part], self.walk.order[:level]
        before = max((p for p in known if p < part and self.walk.ordered), default=None)
        after = min((p for p in known if p > part and self.walk.ordered), default=None)
        look_up = self.look_ups.get(part)
        last = self._taken(part, buffer.last)
        first = last if buffer.first is buffer.last else self._taken(part, buffer.first)
        columns: dict[str, Doubles] = {}
        tests = []
        for test in self.tests[part]:
            # Tests of the same values make one range.
            own = columns.setdefault(test.what, self._taken(part, test.own))
            values = self._taken(test.other, test.values)
            tests.append(kernel.ComparedTo(test.kind, own, self.turn[test.other], values))
        return kernel.Level(
            first,
            last,
            level - 1,
            -1 if before is None else self.turn[before],
            -1 if after is None else self.turn[after],
            before == part - 1,
            after == part + 1,
            self._gate(part, buffer.earliest, inclusive=True),
            self._gate(part, buffer.latest, inclusive=False),
            -1 if look_up is None else self.turn[look_up.partner],
            kernel.NO_OFFSETS if look_up is None else look_up.groups,
            kernel.NO_PLACES if look_up is None else self._taken(look_up.partner, look_up.group),
            tuple(tests),
            emits=level == len(self.walk.order) - 1,
            is_shown=self._is_shown(part),
        )

    def _taken(self, part: int, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        look_up = self.look_ups.get(part)
        return rows if look_up is None else rows[look_up.order]

    def _gate(self, part: int, gate: Moments | None, inclusive: bool) -> EventNumbers:
        """Moments as places: the first of one, or the first behind it."""
        if gate is None or not self.walk.ordered:
            return kernel.NO_PLACES
        moment = self.picked.moment
        places = np.searchsorted(moment, gate, "left" if inclusive else "right")
        return self._taken(part, places.astype(np.int32))

    def _is_shown(self, part: int) -> bool:
        """Is a part's row its only event, and nothing else?"""
        buffer, last = self.parts[part], len(self.parts) - 1
        carried = (part == 0 and buffer.earliest is not None) or (
            part == last and buffer.latest is not None
        )
        return len(buffer.columns) == 1 and buffer.columns[0] is buffer.last and not carried

    def buffer(self, rows: EventNumbers) -> Buffer:
        """The rows that the kernel gives, level by level, as those of a buffer."""
        columns: list[Column] = []
        firsts, lasts = [], []
        earliest = latest = None
        for part, buffer in enumerate(self.parts):
            found = rows[self.turn[part]]
            if self._is_shown(part):
                columns.append(found)
                firsts.append(found)
                lasts.append(found)
                continue
            look_up = self.look_ups.get(part)
            some = buffer.take(found if look_up is None else look_up.order[found])
            columns += some.columns
            firsts.append(some.first)
            lasts.append(some.last)
            earliest = some.earliest if part == 0 else earliest
            latest = some.latest  # of the last one
        if self.walk.ordered:
            kept_latest = latest if not self._is_shown(len(self.parts) - 1) else None
            return Buffer(tuple(columns), firsts[0], lasts[-1], earliest, kept_latest)
        return Buffer(tuple(columns), reduce(np.minimum, firsts), reduce(np.maximum, lasts))
