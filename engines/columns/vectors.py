"""Columns of values with their nulls, and arithmetic and comparison on them.

Integers stay exact: `bound` limits their size, and where a result could leave 64 bits, or a
comparison with a double could round, the values become Python objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from workloads.errors import UnsupportedError
from workloads.expressions import COMPARE, COMPUTE

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
Kind: TypeAlias = Literal["int", "float", "string", "bool", "time", "object", "null"]

LARGEST_INT = 2**63 - 1
EXACT_DOUBLE = 2**53
_NUMBERS = ("int", "float", "bool", "object")


@dataclass(frozen=True, eq=False, slots=True)
class Vector:
    """Values of one kind; a single value stands for a column of equal ones.

    Strings are codes of the workload's dictionary and times are ticks, so that both compare as
    integers do. `nulls` is None where there are none; under a null the value means nothing.
    """

    kind: Kind
    values: Array
    nulls: Mask | None = None
    bound: int = 0  # of integers: no value is larger than this, sign apart

    def take(self, rows: npt.NDArray[np.int64]) -> Vector:
        """The values at the given places."""
        nulls = None if self.nulls is None else self.nulls[rows]
        return Vector(self.kind, self.values[rows], nulls, self.bound)

    def present(self) -> Mask:
        """Where there is a value."""
        if self.nulls is None:
            return np.ones(self.values.shape, bool)
        return ~self.nulls


def broadcast(vector: Vector, size: int) -> Vector:
    """A constant as a column; a column as it is."""
    nulls = vector.nulls
    if nulls is not None:
        nulls = np.broadcast_to(nulls, size)
    return Vector(vector.kind, np.broadcast_to(vector.values, size), nulls, vector.bound)


def boolean(values: Mask) -> Vector:
    return Vector("bool", values)


def number(value: int | float) -> Vector:
    """A constant number."""
    if isinstance(value, float):
        return Vector("float", np.array(value, np.float64))
    if abs(value) > LARGEST_INT:
        return Vector("object", np.array(value, object))
    return Vector("int", np.array(value, np.int64), None, abs(value))


NULL = Vector("null", np.zeros((), bool), np.ones((), bool))


def truth(vector: Vector) -> Mask:
    """A condition's result: false where it is null."""
    values = vector.values.astype(bool, copy=False)
    return values if vector.nulls is None else values & ~vector.nulls


def either_null(left: Vector, right: Vector) -> Mask | None:
    if left.nulls is None or right.nulls is None:
        return right.nulls if left.nulls is None else left.nulls
    return left.nulls | right.nulls


def negative(operand: Vector) -> Vector:
    if operand.kind == "null":
        return NULL
    _numeric(operand)
    if operand.kind == "int" and operand.bound > LARGEST_INT:
        operand = _objects(operand)
    values = _widened(operand)
    # The negative of a single object would leave the array.
    return Vector(
        _number_kind(operand), np.asarray(-values, values.dtype), operand.nulls, operand.bound
    )


def compute(symbol: str, left: Vector, right: Vector) -> Vector:
    """Arithmetic; null where a side is null or the divisor zero."""
    if left.kind == "null" or right.kind == "null":
        return NULL
    _numeric(left)
    _numeric(right)
    nulls = either_null(left, right)
    if symbol in "/%":
        zero = np.asarray(right.values == 0)
        if zero.any():
            nulls = zero if nulls is None else nulls | zero
            right = Vector(right.kind, np.where(zero, 1, right.values), None, max(1, right.bound))
    whole = _number_kind(left) == _number_kind(right) == "int"
    bound = _bound(symbol, left, right)
    exact = bound <= LARGEST_INT and not (
        symbol == "/" and max(left.bound, right.bound) > EXACT_DOUBLE
    )
    if "object" in (left.kind, right.kind) or (whole and not exact):
        return _by_objects(COMPUTE[symbol], left, right, nulls)
    with np.errstate(all="ignore"):
        values = COMPUTE[symbol](_widened(left), _widened(right))
    if whole and symbol != "/":
        return Vector("int", values, nulls, bound)
    return Vector("float", values, nulls)


def compare(symbol: str, left: Vector, right: Vector) -> Vector:
    """A comparison; false where a side is null."""
    return boolean(_compared(symbol, left, right))


def _compared(symbol: str, left: Vector, right: Vector) -> Mask:
    shape = np.broadcast_shapes(left.values.shape, right.values.shape)
    if left.kind == "null" or right.kind == "null":
        return np.zeros(shape, bool)
    nulls = either_null(left, right)
    if not _comparable(left, right):
        if symbol not in ("=", "!="):
            raise UnsupportedError(
                f"'{symbol}' compares a {left.kind} with a {right.kind}, which have no order"
            )
        found = np.full(shape, symbol == "!=")
    elif "object" in (left.kind, right.kind) or _would_round(left, right):
        result = _by_objects(COMPARE[symbol], left, right, nulls)
        found = result.values.astype(bool)
    else:
        found = np.asarray(COMPARE[symbol](left.values, right.values))
    return found if nulls is None else found & ~nulls


def _comparable(left: Vector, right: Vector) -> bool:
    return left.kind == right.kind or (left.kind in _NUMBERS and right.kind in _NUMBERS)


def _would_round(left: Vector, right: Vector) -> bool:
    """Is an integer that no double can hold compared with a double?"""
    kinds = {left.kind, right.kind}
    return kinds == {"int", "float"} and max(left.bound, right.bound) > EXACT_DOUBLE


def _numeric(vector: Vector) -> None:
    if vector.kind not in _NUMBERS:
        raise UnsupportedError(f"arithmetic takes numbers, and this is a {vector.kind}")


def _number_kind(vector: Vector) -> Kind:
    return "int" if vector.kind == "bool" else vector.kind


def _widened(vector: Vector) -> Array:
    return vector.values.astype(np.int64) if vector.kind == "bool" else vector.values


def _bound(symbol: str, left: Vector, right: Vector) -> int:
    first, second = (max(v.bound, 1) if v.kind == "bool" else v.bound for v in (left, right))
    match symbol:
        case "*":
            return first * second
        case "%":
            return second
        case "/":
            return 0
        case _:
            return first + second


def _objects(vector: Vector) -> Vector:
    values = vector.values
    converted = np.empty(values.shape, object)
    converted[...] = values.tolist() if values.ndim else values.item()
    return Vector("object", converted, vector.nulls)


def _by_objects(
    function: Callable[[Any, Any], Any], left: Vector, right: Vector, nulls: Mask | None
) -> Vector:
    """The same on Python objects, one by one: for integers beyond what arrays can hold."""
    first, second = np.broadcast_arrays(_objects(left).values, _objects(right).values)
    values = np.zeros(first.shape, object)
    present = np.ones(first.shape, bool) if nulls is None else ~np.broadcast_to(nulls, first.shape)
    if first.ndim:
        values[present] = [
            function(a, b) for a, b in zip(first[present], second[present], strict=True)
        ]
    elif present:
        values[()] = function(first[()], second[()])
    return Vector("object", values, nulls)
