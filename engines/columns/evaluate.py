"""Expressions over columns: the value of a condition for every row at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engines.columns.vectors import (
    NULL,
    Mask,
    Vector,
    boolean,
    compare,
    compute,
    negative,
    number,
    truth,
)
from workloads import expressions as ex

Attribute = Callable[[ex.Attribute], Vector]
Call = Callable[[ex.Call], Vector]
TextCode = Callable[[str], int]


def evaluate(
    expression: ex.Expression,
    attribute: Attribute,
    text_code: TextCode,
    call: Call | None = None,
) -> Vector:
    """The value of an expression; `attribute` and `call` give those of its leaves."""

    def of(part: ex.Expression) -> Vector:
        return evaluate(part, attribute, text_code, call)

    match expression:
        case ex.Literal(value):
            return _constant(value, text_code)
        case ex.Attribute():
            return attribute(expression)
        case ex.Call():
            assert call is not None
            return call(expression)
        case ex.Negative(operand):
            return negative(of(operand))
        case ex.Arithmetic(symbol, left, right):
            return compute(symbol, of(left), of(right))
        case ex.Comparison(comparison, left, right):
            return compare(comparison, of(left), of(right))
        case ex.Membership(operand, literals, negated):
            return _membership(of(operand), [of(v) for v in literals], negated)
        case ex.IsNull(operand, negated):
            vector = of(operand)
            absent = np.zeros(vector.values.shape, bool) if vector.nulls is None else vector.nulls
            return boolean(~absent if negated else absent)
        case ex.Not(operand):
            return boolean(~truth(of(operand)))
        case ex.Logical(connective, parts):
            return _logical(connective, [truth(of(part)) for part in parts])
        case ex.Equivalence():
            raise AssertionError("an equivalence is a partition key once a query is bound")


def _constant(value: ex.Value, text_code: TextCode) -> Vector:
    match value:
        case None:
            return NULL
        case bool():
            return boolean(np.array(value))
        case str():
            return Vector("string", np.array(text_code(value), np.int64))
        case _:
            return number(value)


def _membership(operand: Vector, literals: list[Vector], negated: bool) -> Vector:
    member: Mask = np.zeros(operand.values.shape, bool)
    for literal in literals:
        member = member | compare("=", operand, literal).values
    if negated:
        member = ~member
    return boolean(member if operand.nulls is None else member & ~operand.nulls)


def _logical(connective: str, parts: list[Mask]) -> Vector:
    found = parts[0]
    for part in parts[1:]:
        found = found & part if connective == "AND" else found | part
    return boolean(found)
