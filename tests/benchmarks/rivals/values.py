"""What comparisons look at, as doubles by place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engines.columns.vectors import EXACT_DOUBLE, Vector, broadcast, evaluate
from engines.matching.trees.buffers import SelectedEvents
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printing import print_expression

Doubles = npt.NDArray[np.float64]
_NUMBERS = {"int", "float", "bool"}


def sides_of(condition: ex.Comparison, picked: SelectedEvents) -> tuple[Doubles, Doubles]:
    """Both sides for every event that is looked at, null as NaN."""
    left, right = (_value(side, picked) for side in (condition.left, condition.right))
    if left.kind != right.kind and not {left.kind, right.kind} <= _NUMBERS:
        raise UnsupportedError(
            f"{print_expression(condition)} compares a {left.kind} with a {right.kind}"
        )
    return _doubles(left, condition), _doubles(right, condition)


def _value(side: ex.Expression, picked: SelectedEvents) -> Vector:
    found = evaluate(side, lambda node: picked.vector(node.name), picked.columns.texts)
    return broadcast(found, len(picked))


def _doubles(vector: Vector, condition: ex.Comparison) -> Doubles:
    if vector.kind in ("object", "null"):
        raise UnsupportedError(f"{print_expression(condition)} compares more than numbers")
    doubles: Doubles = vector.values.astype(np.float64)
    present = vector.present()
    if np.isnan(doubles[present]).any() or (
        vector.kind != "float" and (np.abs(doubles[present]) > EXACT_DOUBLE).any()
    ):
        raise UnsupportedError(f"{print_expression(condition)} compares what no double holds")
    if vector.nulls is not None:
        doubles[vector.nulls] = np.nan
    return doubles
