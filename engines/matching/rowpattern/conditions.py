"""DEFINE's conditions in two parts: what rows decide alone, and what depends on the match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.matching.rowpattern.ordered_table import OrderedTable
from optimizer.ir.recognition import Recognition
from workloads.sql import expressions as ex


@dataclass(frozen=True)
class SplitCondition:
    """The condition of a variable: `by_row` reads only the row itself and rows at fixed offsets."""

    by_row: tuple[ex.Expression, ...] = ()
    by_match: tuple[ex.Expression, ...] = ()


def split_conditions(clause: Recognition, names: Sequence[str]) -> list[SplitCondition]:
    """The conditions of variables, in the order of their names."""
    defined = dict(clause.conditions)
    found = []
    for name in names:
        by_row: list[ex.Expression] = []
        by_match: list[ex.Expression] = []
        for part in _conjuncts(defined[name]) if name in defined else ():
            settled = _of_row(part, name, clause)
            (by_row if is_of_row(settled) else by_match).append(settled)
        found.append(SplitCondition(tuple(by_row), tuple(by_match)))
    return found


def is_of_row(condition: ex.Expression) -> bool:
    """Does it read only the row that is being mapped, and rows at fixed offsets from it?"""
    return all(
        not isinstance(node, ex.Classifier | ex.MatchNumber | ex.Aggregated)
        and not (isinstance(node, ex.RowValue) and not _is_own(node.pointer))
        for node in ex.walk(condition)
    )


def bitmaps(table: OrderedTable, conditions: Sequence[SplitCondition]) -> npt.NDArray[np.bool_]:
    """Of each variable and row, whether the part of its condition holds that rows decide."""
    found = np.ones((max(1, len(conditions)), len(table)), np.bool_)
    for place, condition in enumerate(conditions):
        for part in condition.by_row:
            found[place] &= table.holds(part)
    return found


def _conjuncts(condition: ex.Expression) -> Iterator[ex.Expression]:
    if isinstance(condition, ex.Binary) and condition.operator == "AND":
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _of_row(node: ex.Expression, variable: str, clause: Recognition) -> ex.Expression:
    """The expression, with what can only be the row that is being mapped said as such."""
    if isinstance(node, ex.RowValue | ex.Classifier):
        pointer = node.pointer
        wanted = clause.variables_of(pointer.variable)
        is_last = not pointer.from_first and pointer.logical == 0
        if is_last and (wanted is None or variable in wanted):
            if isinstance(node, ex.RowValue):
                return ex.RowValue(ex.Pointer(physical=pointer.physical), node.column, node.span)
            if pointer.physical == 0:
                return ex.Literal(variable, node.span)
        return node
    if isinstance(node, ex.Aggregated):
        return node
    return ex.rebuilt(node, lambda part: _of_row(part, variable, clause))


def _is_own(pointer: ex.Pointer) -> bool:
    return pointer == ex.Pointer(physical=pointer.physical)
