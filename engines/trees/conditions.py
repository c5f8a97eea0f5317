"""Conditions between two buffers: what a kernel can test, and what is evaluated behind it.

A comparison of a value of the left rows with one of the right rows is tested pair by pair while
joining, and an equality is looked up: pairs that fail are never made. All else is evaluated on
columns of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engines.columns.evaluate import evaluate
from engines.columns.grouped import Groups
from engines.columns.over_groups import aggregate
from engines.columns.vectors import EXACT_DOUBLE, Mask, Vector, broadcast, truth
from engines.trees.buffers import Buffer, Column, Moments
from engines.trees.picked import Picked, Places
from kernels import joins
from workloads import expressions as ex
from workloads.errors import UnsupportedError

Doubles = npt.NDArray[np.float64]
NO_GATE = np.zeros(0, np.int64)
NO_GROUP = np.zeros(0, np.int32)
FEW = 32  # left rows that are not worth a look-up

_TESTS = {
    "=": joins.EQUAL,
    "!=": joins.DIFFERENT,
    "<": joins.LESS,
    "<=": joins.LESS_EQUAL,
    ">": joins.GREATER,
    ">=": joins.GREATER_EQUAL,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def holds(condition: ex.Expression, picked: Picked, buffer: Buffer) -> Mask:
    """Where a condition holds; for each event of a group that it speaks of event by event."""
    groups = _one_by_one(condition, buffer)
    if not groups:
        found: Mask = np.broadcast_to(truth(value(condition, picked, buffer)), len(buffer))
        return found
    each, owner = buffer, np.arange(len(buffer))
    for number in groups:
        column = each.columns[number]
        assert isinstance(column, Groups)
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
    return [number for number in numbers if isinstance(buffer.columns[number], Groups)]


def kept(conditions: Sequence[ex.Expression], picked: Picked, buffer: Buffer) -> Buffer:
    """The rows for which conditions hold; each is asked of those that the ones before left."""
    for condition in conditions:
        if len(buffer):
            found = holds(condition, picked, buffer)
            if not found.all():
                buffer = buffer.take(np.flatnonzero(found))
    return buffer


def value(expression: ex.Expression, picked: Picked, buffer: Buffer) -> Vector:
    """The value of an expression whose aliases are the numbers of components."""

    def attribute(node: ex.Attribute) -> Vector:
        places: Any = buffer.columns[int(node.alias)]
        return picked.vector(node.name).take(places)

    def call(node: ex.Call) -> Vector:
        assert isinstance(node.argument, ex.Attribute)
        group = buffer.columns[int(node.argument.alias)]
        assert isinstance(group, Groups)
        return aggregate(node.function, picked.vector(node.argument.name).take(group.rows), group)

    return evaluate(expression, attribute, picked.columns.text_code, call)


class Prepared(NamedTuple):
    """Two buffers as a kernel takes them; `order` are the left rows by group, None for as they are.

    `rest` are conditions that remain to be evaluated.
    """

    left: joins.Side
    order: Places | None
    groups: npt.NDArray[np.int64]
    right: joins.Side
    group: npt.NDArray[np.int32]
    tests: npt.NDArray[np.int8]
    rest: tuple[ex.Expression, ...]

    def row(self, rows: Places) -> Places:
        """Rows of the left buffer, from those that a kernel gives."""
        return rows if self.order is None else self.order[rows]


def prepare(
    picked: Picked,
    left: Buffer,
    right: Buffer,
    conditions: Sequence[ex.Expression],
    rivals: Sequence[tuple[int, int]] = (),
    left_gate: Moments | None = None,
    right_gate: Moments | None = None,
    swapped: bool = False,
) -> Prepared:
    """What a kernel needs to join two buffers.

    Conditions number the components of the left buffer first; of the right one with `swapped`.
    `rivals` are single components that may not be the same event.
    """
    equal: list[tuple[_Codes, _Codes]] = []
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
        codes = _codes(one, other) if test == "=" and len(left) > FEW else None
        numbers = _numbers(one, other) if codes is None else None
        if codes is not None:
            equal.append(codes)
        elif numbers is not None:
            tests.append(_TESTS[test])
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
    return Prepared(
        joins.Side(first, last, _gate(left_gate), _stacked(lefts, len(last))),
        order,
        groups,
        joins.Side(right.first, right.last, _gate(right_gate), _stacked(rights, len(right))),
        group,
        np.array(tests, np.int8),
        tuple(rest),
    )


def _sides(
    condition: ex.Expression, picked: Picked, left: Buffer, right: Buffer, swapped: bool
) -> tuple[str, Vector, Vector] | None:
    """A comparison as one of a value of the left rows with one of the right rows."""
    if not isinstance(condition, ex.Comparison):
        return None
    own, other = (right, left) if swapped else (left, right)
    many = len(own.columns)
    if not ex.has_group_call(condition) and any(
        isinstance((*own.columns, *other.columns)[int(alias)], Groups)
        for alias in ex.aliases(condition)
    ):
        return None
    one, two = ({int(a) < many for a in ex.aliases(e)} for e in (condition.left, condition.right))
    if not (len(one) == len(two) == 1) or one == two:
        return None
    test: str = condition.operator
    mine, its = condition.left, condition.right
    if one == {False}:
        test, mine, its = _MIRRORED[test], its, mine
    shifted = {str(many + i): str(i) for i in range(len(other.columns))}
    try:
        found = broadcast(value(mine, picked, own), len(own))
        others = broadcast(value(ex.rename(its, shifted), picked, other), len(other))
    except UnsupportedError:
        return None  # an error only where there is a pair to evaluate it on
    return (_MIRRORED[test], others, found) if swapped else (test, found, others)


class _Codes(NamedTuple):
    values: npt.NDArray[np.int64]
    known: Mask


def _numbers(left: Vector, right: Vector) -> tuple[Doubles, Doubles] | None:
    """Two columns as doubles that compare as they do, null as NaN; None where that would round."""
    if not _alike(left, right):
        return None
    base = 0
    if left.kind == right.kind and left.kind in ("string", "time"):
        low = min(int(v.values.min(initial=0)) for v in (left, right))
        high = max(int(v.values.max(initial=0)) for v in (left, right))
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


def _codes(left: Vector, right: Vector) -> tuple[_Codes, _Codes] | None:
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
        found.append(_Codes(values, vector.present()))
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
    equal: list[tuple[_Codes, _Codes]], size: int
) -> tuple[Places | None, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The left rows by the values that equalities compare, and the group of each right row."""
    if not equal:
        return None, np.array([0, size]), NO_GROUP
    (left, right), *others = equal
    codes, group, count = joins.match_codes(left.values, left.known, right.values, right.known)
    for left, right in others:
        more, more_group, many = joins.match_codes(
            left.values, left.known, right.values, right.known
        )
        codes, group, count = joins.match_codes(
            codes.astype(np.int64) * many + more,
            (codes >= 0) & (more >= 0),
            group.astype(np.int64) * many + more_group,
            (group >= 0) & (more_group >= 0),
        )
    order, groups = joins.group_rows(codes, count)
    return order, groups, group


def _doubles(column: Column) -> Doubles:
    assert not isinstance(column, Groups)
    return column.astype(np.float64)


def _gate(gate: Moments | None) -> Moments:
    return NO_GATE if gate is None else gate


def _stacked(columns: list[Doubles], size: int) -> Doubles:
    return np.stack(columns) if columns else np.zeros((0, size))
