"""Conditions between rows as kernels test them, and rows for which a negated pattern is absent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engines.columns.groups import EventGroups, aggregate, ranges
from engines.columns.vectors import EXACT_DOUBLE, Mask, Vector, broadcast, evaluate, truth
from engines.matching.trees.buffers import (
    Buffer,
    Column,
    EventNumbers,
    Moments,
    SelectedEvents,
    chunks,
    first_of,
    last_of,
    paired,
)
from kernels.joins import cpu as joins
from optimizer.plan.join_operators import Conditions, Gap, Inside
from optimizer.trees.tree import Side
from workloads import expressions as ex
from workloads.errors import UnsupportedError

Doubles = npt.NDArray[np.float64]
NO_GATE = np.zeros(0, np.int64)
NO_GROUP = np.zeros(0, np.int32)
FEW_ROWS = 32  # left rows that are not worth a look-up

TESTS = {
    "=": joins.EQUAL,
    "!=": joins.DIFFERENT,
    "<": joins.LESS,
    "<=": joins.LESS_EQUAL,
    ">": joins.GREATER,
    ">=": joins.GREATER_EQUAL,
}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def holds(condition: ex.Expression, picked: SelectedEvents, buffer: Buffer) -> Mask:
    """Where a condition holds; for each event of a group that it speaks of event by event."""
    groups = _one_by_one(condition, buffer)
    if not groups:
        found: Mask = np.broadcast_to(truth(value(condition, picked, buffer)), len(buffer))
        return found
    each, owner = buffer, np.arange(len(buffer))
    for number in groups:
        column = each.columns[number]
        assert isinstance(column, EventGroups)
        members = column.owner
        each, owner = each.take(members), owner[members]
        columns = (*each.columns[:number], column.rows, *each.columns[number + 1 :])
        each = replace(each, columns=columns)
    everywhere = np.ones(len(buffer), bool)
    everywhere[owner[~holds(condition, picked, each)]] = False
    return everywhere


def _one_by_one(condition: ex.Expression, buffer: Buffer) -> list[int]:
    """The groups whose events a condition speaks of one by one."""
    if ex.has_group_call(condition):
        return []
    numbers = sorted(int(alias) for alias in ex.aliases(condition))
    return [number for number in numbers if isinstance(buffer.columns[number], EventGroups)]


def kept(conditions: Sequence[ex.Expression], picked: SelectedEvents, buffer: Buffer) -> Buffer:
    """The rows for which conditions hold; each is asked of those that the ones before left."""
    for condition in conditions:
        if len(buffer):
            found = holds(condition, picked, buffer)
            if not found.all():
                buffer = buffer.take(np.flatnonzero(found))
    return buffer


def value(expression: ex.Expression, picked: SelectedEvents, buffer: Buffer) -> Vector:
    """The value of an expression whose aliases are the numbers of components."""

    def attribute(node: ex.Attribute) -> Vector:
        places: Any = buffer.columns[int(node.alias)]
        return picked.vector(node.name).take(places)

    def call(node: ex.Call) -> Vector:
        assert isinstance(node.argument, ex.Attribute)
        group = buffer.columns[int(node.argument.alias)]
        assert isinstance(group, EventGroups)
        return aggregate(node.function, picked.vector(node.argument.name).take(group.rows), group)

    return evaluate(expression, attribute, picked.columns.texts, call)


class JoinInputs(NamedTuple):
    """Two buffers as a kernel takes them; `order` are the left rows by group, None for as they are.

    `rest` are conditions that remain to be evaluated.
    """

    left: joins.Side
    order: EventNumbers | None
    groups: npt.NDArray[np.int64]
    right: joins.Side
    group: npt.NDArray[np.int32]
    tests: npt.NDArray[np.int8]
    rest: tuple[ex.Expression, ...]

    def row(self, rows: EventNumbers) -> EventNumbers:
        """Rows of the left buffer, from those that a kernel gives."""
        return rows if self.order is None else self.order[rows]


def prepare(
    picked: SelectedEvents,
    left: Buffer,
    right: Buffer,
    conditions: Sequence[ex.Expression],
    rivals: Sequence[tuple[int, int]] = (),
    left_gate: Moments | None = None,
    right_gate: Moments | None = None,
    swapped: bool = False,
) -> JoinInputs:
    """What a kernel needs to join two buffers.

    Conditions number the components of the left buffer first; of the right one with `swapped`.
    `rivals` are single components that may not be the same event.
    """
    equal: list[tuple[Codes, Codes]] = []
    tests: list[int] = [joins.DIFFERENT] * len(rivals)
    lefts: list[Doubles] = [_doubles(left.columns[i]) for i, _ in rivals]
    rights: list[Doubles] = [_doubles(right.columns[j]) for _, j in rivals]
    rest: list[ex.Expression] = []
    for condition in conditions:
        sides = _sides(condition, picked, left, right, swapped)
        if sides is None:
            rest.append(condition)
            continue
        test, one, other = sides
        codes = codes_of(one, other) if test == "=" and len(left) > FEW_ROWS else None
        numbers = numbers_of(one, other) if codes is None else None
        if codes is not None:
            equal.append(codes)
        elif numbers is not None:
            tests.append(TESTS[test])
            lefts.append(numbers[0])
            rights.append(numbers[1])
        else:
            rest.append(condition)
    order, groups, group = _grouped(equal, len(left))
    first, last = left.first, left.last
    if order is not None:
        last = last[order]
        first = last if left.first is left.last else left.first[order]
        lefts = [column[order] for column in lefts]
        left_gate = None if left_gate is None else left_gate[order]
    return JoinInputs(
        joins.Side(first, last, _gate(left_gate), _stacked(lefts, len(last))),
        order,
        groups,
        joins.Side(right.first, right.last, _gate(right_gate), _stacked(rights, len(right))),
        group,
        np.array(tests, np.int8),
        tuple(rest),
    )


def _sides(
    condition: ex.Expression, picked: SelectedEvents, left: Buffer, right: Buffer, swapped: bool
) -> tuple[str, Vector, Vector] | None:
    """A comparison as one of a value of the left rows with one of the right rows."""
    if not isinstance(condition, ex.Comparison):
        return None
    own, other = (right, left) if swapped else (left, right)
    many = len(own.columns)
    if not ex.has_group_call(condition) and any(
        isinstance((*own.columns, *other.columns)[int(alias)], EventGroups)
        for alias in ex.aliases(condition)
    ):
        return None
    one, two = ({int(a) < many for a in ex.aliases(e)} for e in (condition.left, condition.right))
    if not (len(one) == len(two) == 1) or one == two:
        return None
    test: str = condition.operator
    mine, its = condition.left, condition.right
    if one == {False}:
        test, mine, its = MIRRORED[test], its, mine
    shifted = {str(many + i): str(i) for i in range(len(other.columns))}
    try:
        found = broadcast(value(mine, picked, own), len(own))
        others = broadcast(value(ex.rename(its, shifted), picked, other), len(other))
    except UnsupportedError:
        return None  # an error only where there is a pair to evaluate it on
    return (MIRRORED[test], others, found) if swapped else (test, found, others)


class Codes(NamedTuple):
    """Values as integers that are equal where they are, and which of them are known."""

    values: npt.NDArray[np.int64]
    known: Mask


def numbers_of(left: Vector, right: Vector) -> tuple[Doubles, Doubles] | None:
    """Two columns as doubles that compare as they do, null as NaN; None where that would round."""
    whole = left.kind == right.kind == "int" and max(left.bound, right.bound) > EXACT_DOUBLE
    if not whole and not _alike(left, right):
        return None
    base = 0
    if whole or (left.kind == right.kind and left.kind in ("string", "time")):
        known = [v.values if v.nulls is None else v.values[~v.nulls] for v in (left, right)]
        low = min((int(values.min()) for values in known if len(values)), default=0)
        high = max((int(values.max()) for values in known if len(values)), default=0)
        base = low
        if high - low > EXACT_DOUBLE:
            return None
    found = []
    for vector in (left, right):
        values = vector.values if vector.kind == "float" else vector.values.astype(np.int64) - base
        doubles = values.astype(np.float64)
        if vector.nulls is not None:
            doubles[vector.nulls] = np.nan
        found.append(doubles)
    return found[0], found[1]


def codes_of(left: Vector, right: Vector) -> tuple[Codes, Codes] | None:
    """Two columns as integers that are equal where they are."""
    whole = {left.kind, right.kind} <= {"int", "bool"}
    if not whole and not _alike(left, right):
        return None
    doubles = "float" in (left.kind, right.kind)
    found = []
    for vector in (left, right):
        if doubles:
            # A negative zero is a zero.
            values = (vector.values.astype(np.float64) + 0.0).view(np.int64)
        else:
            values = np.ascontiguousarray(vector.values).astype(np.int64, copy=False)
        found.append(Codes(values, vector.present()))
    return found[0], found[1]


def _alike(left: Vector, right: Vector) -> bool:
    """Can the two be compared as numbers of one kind, without rounding?"""
    kinds = {left.kind, right.kind}
    if kinds <= {"int", "float", "bool"}:
        if max(left.bound, right.bound) > EXACT_DOUBLE:
            return False
        return not any(
            v.kind == "float" and bool(np.isnan(v.values[v.present()]).any()) for v in (left, right)
        )
    return kinds in ({"string"}, {"time"})


def _grouped(
    equal: list[tuple[Codes, Codes]], size: int
) -> tuple[EventNumbers | None, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The left rows by the values that equalities compare, and the group of each right row."""
    if not equal:
        return None, np.array([0, size]), NO_GROUP
    count, codes, group = joins.match_all(equal)
    order, groups = joins.group_rows(codes, count)
    return order, groups, group


def _doubles(column: Column) -> Doubles:
    assert not isinstance(column, EventGroups)
    return column.astype(np.float64)


def _gate(gate: Moments | None) -> Moments:
    return NO_GATE if gate is None else gate


def _stacked(columns: list[Doubles], size: int) -> Doubles:
    return np.stack(columns) if columns else np.zeros((0, size))


def region(
    picked: SelectedEvents, part: Buffer, gap: Gap, width: int
) -> tuple[EventNumbers, EventNumbers]:
    """The first place of a gap of each row, and the one behind it."""
    if gap.before is None and gap.inside:
        assert part.earliest is not None
        low = part.earliest.astype(np.int32)
    elif gap.before is None:
        low = opening(picked, part, width)
    else:
        low = behind(picked, reduce(np.maximum, [last_of(part.columns[i]) for i in gap.before]))
    if gap.after is not None:
        high = before(picked, reduce(np.minimum, [first_of(part.columns[i]) for i in gap.after]))
    elif gap.inside:
        assert part.latest is not None
        high = part.latest.astype(np.int32)
    elif gap.anywhere:
        high = behind(picked, part.last)
    else:
        high = closing(picked, part, width)
    return low, high


def opening(picked: SelectedEvents, part: Buffer, width: int) -> EventNumbers:
    """The first place in the window that ends with a row."""
    return _places(picked, picked.position, picked.position[part.last] - width + 1)


def closing(picked: SelectedEvents, part: Buffer, width: int) -> EventNumbers:
    """The place behind the window that starts with a row."""
    return _places(picked, picked.position, picked.position[part.first] + width)


def before(picked: SelectedEvents, places: EventNumbers) -> EventNumbers:
    """The place behind all that is before an event."""
    return _places(picked, picked.moment, picked.moment[places])


def behind(picked: SelectedEvents, places: EventNumbers) -> EventNumbers:
    """The first place of what an event is before."""
    return _places(picked, picked.moment, picked.moment[places] + 1)


def _places(
    picked: SelectedEvents, values: npt.NDArray[Any], keys: npt.NDArray[Any]
) -> EventNumbers:
    found: EventNumbers = picked.kernels.places_from(values, keys)
    return found


FoundMask = npt.NDArray[Any]


class Search(NamedTuple):
    """For each row, the rows of a negation that lie wholly between two places, under conditions.

    `chunk` is how many pairs are looked at together.
    """

    picked: SelectedEvents
    part: Buffer
    negation: Buffer
    conditions: Conditions
    chunk: int

    def latest(self, low: EventNumbers, high: EventNumbers) -> tuple[FoundMask, int]:
        """Where the last to start of them starts, -1 for none; and how many were tried."""
        return self._find(low, high, latest=True)

    def earliest(self, low: EventNumbers, high: EventNumbers) -> tuple[FoundMask, int]:
        """Where the first to end of them ends, `NOWHERE` for none; and how many were tried."""
        return self._find(low, high, latest=False)

    def _find(self, low: EventNumbers, high: EventNumbers, latest: bool) -> tuple[FoundMask, int]:
        none = -1 if latest else joins.NOWHERE
        if not len(self.part) or not len(self.negation):
            return np.full(len(self.part), none, np.int32), 0
        ready = prepare(self.picked, self.negation, self.part, self.conditions, swapped=True)
        if ready.rest:
            return self._bypairs_between(low, high, latest)
        found: tuple[FoundMask, int] = self.picked.kernels.probe(
            ready.left, ready.groups, low, high, ready.right.values, ready.group, ready.tests,
            latest,
        )  # fmt: skip
        return found

    def _bypairs_between(
        self, low: EventNumbers, high: EventNumbers, latest: bool
    ) -> tuple[FoundMask, int]:
        found = np.full(len(self.part), -1 if latest else joins.NOWHERE, np.int32)
        tried = 0
        for owner, rows in pairs_between(self.picked, self.negation, low, high, self.chunk):
            tried += len(owner)
            for condition in self.conditions:
                if len(owner):
                    columns = paired(self.part, owner, self.negation, rows)
                    pairs = Buffer(columns, self.part.first[owner], self.part.last[owner])
                    fits = holds(condition, self.picked, pairs)
                    owner, rows = owner[fits], rows[fits]
            if latest:
                np.maximum.at(found, owner, self.negation.first[rows])
            else:
                np.minimum.at(found, owner, self.negation.last[rows])
        return found, tried


def pairs_between(
    picked: SelectedEvents, negation: Buffer, low: EventNumbers, high: EventNumbers, chunk: int
) -> Iterator[tuple[FoundMask, FoundMask]]:
    """Rows, and those of a negation that lie wholly between their places, a chunk at a time."""
    start = picked.kernels.places_from(negation.last, low).astype(np.int64)
    sizes = np.maximum(picked.kernels.places_from(negation.last, high) - start, 0)
    for first, last, _ in chunks(sizes, chunk):
        owner = np.repeat(np.arange(first, last), sizes[first:last])
        rows = ranges(start[first:last], sizes[first:last])
        whole = negation.first[rows] >= low[owner]
        yield owner[whole], rows[whole]


def gates(search: Search, side: Side, width: int) -> tuple[Moments | None, Moments | None, int]:
    """What a negation to the left or right of rows leaves: the earliest moment that what is left
    of it must end at, or the latest that what is right of it can start at; and rows tried."""
    picked, part = search.picked, search.part
    # What is outside of the window rules nothing out, and is no more to look through where nothing
    # is tested; then the moments of left rows ascend with them.
    if side == "left":
        if search.conditions:
            start = opening(picked, part, width)
        else:
            start = np.zeros(len(part), np.int32)
        found, tried = search.latest(start, before(picked, part.first))
        return _moments(picked, found, latest=True), None, tried
    if search.conditions:
        end = closing(picked, part, width)
    else:
        end = np.full(len(part), len(picked), np.int32)
    found, tried = search.earliest(behind(picked, part.last), end)
    return None, _moments(picked, found, latest=False), tried


def latest_rows(picked: SelectedEvents, parts: Sequence[Buffer], width: int) -> tuple[Buffer, int]:
    """The rows of `Latest`, from single events of each part; and how many events were tried.

    One pass over each two parts: what starts latest before an event is the last that ends there.
    """
    first, last, tried = parts[0].first, parts[0].last, 0
    for part in parts[1:]:
        gate = NO_GATE if part.earliest is None else part.earliest
        found = picked.kernels.latest_starts(
            picked.moment, picked.position, first, last, part.last, gate, width
        )
        tried += len(part)
        fits = found >= 0
        first, last = found[fits], part.last[fits]
    if len(first):
        other = np.append(True, first[1:] != first[:-1])
        first, last = first[other], last[other]
    return Buffer((first, last), first, last), tried


def free(search: Search, gap: Gap, width: int) -> tuple[Buffer, int]:
    """The rows in whose gap there is nothing of a negation; and how many of its rows were tried."""
    found, tried = search.earliest(*region(search.picked, search.part, gap, width))
    return _those(search.part, found == joins.NOWHERE), tried


def followed(search: Search, width: int) -> tuple[Buffer, int]:
    """The rows that one of the others follows in their window; and how many were tried."""
    picked, part = search.picked, search.part
    found, tried = search.earliest(behind(picked, part.last), closing(picked, part, width))
    return _those(part, found < joins.NOWHERE), tried


def shortened(search: Search, gap: Gap, width: int) -> tuple[Buffer, int]:
    """Rows with the moments of the last of a negation that starts before them, and of the first
    that ends behind them; not those that every window of theirs holds. And how many were tried."""
    picked, part = search.picked, search.part
    low, high = region(picked, part, gap, width)
    if not gap.anywhere and gap.before is None:
        found, tried = search.latest(low, high)
        return part.gated(_moments(picked, found, latest=True), None), tried
    if not gap.anywhere:
        found, tried = search.earliest(low, high)
        return part.gated(None, _moments(picked, found, latest=False)), tried
    found, tried = search.latest(low, high)
    since = _moments(picked, found, latest=True)
    found, more = search.earliest(high, closing(picked, part, width))
    rows = part.gated(since, _moments(picked, found, latest=False))
    # What is simultaneous with a part of the match, or between, is in every window of it.
    return _those(rows, since < picked.moment[part.first]), tried + more


def inside(
    picked: SelectedEvents,
    part: Buffer,
    negation: Buffer | None,
    within: Inside,
    width: int,
    chunk: int,
) -> Iterator[Buffer]:
    """The rows of `Inside`; their moments are the places that their gap begins and ends at."""
    low, high = region(picked, part, within.gap, width)
    ends = low.astype(np.int64), high.astype(np.int64)
    if negation is None:
        number = np.arange(len(part), dtype=np.int32)
        yield Buffer((*part.columns, number), part.first, part.last, *ends)
        return
    own = len(part.columns)
    for owner, rows in pairs_between(picked, negation, low, high, chunk):
        columns = paired(part, owner, negation, rows)
        pairs = Buffer(
            (*columns[:own], owner.astype(np.int32), *columns[own:]),
            negation.first[rows],
            negation.last[rows],
            ends[0][owner],
            ends[1][owner],
        )
        yield kept(within.conditions, picked, pairs)


def _moments(picked: SelectedEvents, found: FoundMask, latest: bool) -> Moments:
    """The moments of places that a search gives."""
    some = found >= 0 if latest else found < joins.NOWHERE
    none = joins.NEVER if latest else joins.FOREVER
    return np.where(some, picked.moment[np.where(some, found, 0)], none)


def _those(rows: Buffer, kept_ones: Mask) -> Buffer:
    return rows if kept_ones.all() else rows.take(np.flatnonzero(kept_ones))
