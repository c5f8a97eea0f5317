"""Values of SQL column by column, by Arrow's kernels; what these do not have, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.sql.scalars import value
from workloads.errors import UnsupportedError
from workloads.sql import expressions as ex

Leaf = Callable[[ex.Expression], pa.Array]

_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ARITHMETIC = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_LEAVES = (ex.RowValue, ex.Classifier, ex.MatchNumber, ex.Aggregated, ex.Own, ex.Given)


def column(node: ex.Expression, leaf: Leaf, size: int) -> pa.Array:
    """The values of an expression in `size` rows; `leaf` gives those of what reads rows."""
    if isinstance(node, _LEAVES):
        return leaf(node)
    try:
        found = _column(node, leaf, size)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, _ByValueError):
        return _one_by_one(node, leaf, size)
    return _spread(found, size)


def truth(node: ex.Expression, leaf: Leaf, size: int) -> np.ndarray:
    """In which rows a condition is true, neither false nor unknown."""
    found = column(node, leaf, size)
    if pa.types.is_null(found.type):
        return np.zeros(size, np.bool_)
    if not pa.types.is_boolean(found.type):
        raise UnsupportedError("a condition has a value that is neither true nor false")
    return np.ascontiguousarray(np.asarray(pc.fill_null(found, False)), np.bool_)


def plain_array(values: list[Any]) -> pa.Array:
    """Values as an array, of doubles where whole numbers are among them."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if all(isinstance(one, int | float | None) for one in values):
            return pa.array([None if one is None else float(one) for one in values])
        raise UnsupportedError("a value is of different types in different rows") from None


class _ByValueError(Exception):
    """What has no kernel."""


def _spread(found: Any, size: int) -> pa.Array:
    if isinstance(found, pa.Scalar):
        return pa.nulls(size, found.type) if not found.is_valid else pa.repeat(found, size)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _column(node: ex.Expression, leaf: Leaf, size: int) -> Any:
    match node:
        case ex.Literal(constant):
            return pa.scalar(constant)
        case ex.Unary("NOT", operand):
            return pc.invert(_boolean(_column(operand, leaf, size)))
        case ex.Unary(_, operand):
            return pc.negate_checked(_column(operand, leaf, size))
        case ex.Binary("AND", left, right):
            sides = [_boolean(_column(side, leaf, size)) for side in (left, right)]
            return pc.and_kleene(*sides)
        case ex.Binary("OR", left, right):
            sides = [_boolean(_column(side, leaf, size)) for side in (left, right)]
            return pc.or_kleene(*sides)
        case ex.Binary(operator, left, right):
            first, second = _column(left, leaf, size), _column(right, leaf, size)
            return _binary(operator, first, second)
        case ex.IsNull(operand):
            return pc.is_null(_column(operand, leaf, size))
        case ex.InList(operand, items):
            asked = _column(operand, leaf, size)
            found: Any = pa.scalar(False)
            for item in items:
                same = _binary("=", asked, _column(item, leaf, size))
                found = pc.or_kleene(found, _boolean(same))
            return found
        case _ if isinstance(node, _LEAVES):
            return leaf(node)
        case _:
            return _one_by_one(node, leaf, size)


def _binary(operator: str, left: Any, right: Any) -> Any:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        kind = pa.bool_() if operator in ex.COMPARISONS else pa.int64()
        return pa.scalar(None, kind)
    numbers = _is_number(left.type) and _is_number(right.type)
    if operator in _COMPARE and (numbers or left.type == right.type):
        if pa.types.is_integer(left.type) != pa.types.is_integer(right.type):
            raise _ByValueError  # doubles do not hold all whole numbers
        return _COMPARE[operator](left, right)
    if operator in _ARITHMETIC and numbers:
        return _ARITHMETIC[operator](left, right)
    raise _ByValueError


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _boolean(found: Any) -> Any:
    return found.cast(pa.bool_()) if pa.types.is_null(found.type) else found


def _one_by_one(node: ex.Expression, leaf: Leaf, size: int) -> pa.Array:
    """Each row by itself."""
    leaves = list(dict.fromkeys(part for part in _leaves(node)))
    lists = {part: leaf(part).to_pylist() for part in leaves}
    values = []
    for row in range(size):
        here: Mapping[ex.Expression, Any] = {part: lists[part][row] for part in leaves}
        values.append(value(node, here.__getitem__))
    return plain_array(values)


def _leaves(node: ex.Expression) -> list[ex.Expression]:
    if isinstance(node, _LEAVES):
        return [node]
    return [leaf for part in ex.children(node) for leaf in _leaves(part)]
