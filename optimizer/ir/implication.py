"""Which condition holds wherever another one does: a small test that is sound, and not complete.

Conditions are two-valued: a comparison with null is false, and NOT of it is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any

from workloads import expressions as ex

EXACT = 2**53  # whole numbers up to this are the same as doubles

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Of two sides: what a comparison says of them besides itself.
_WIDER: dict[str, tuple[str, ...]] = {
    "=": ("<=", ">="),
    "<": ("<=", "!="),
    ">": (">=", "!="),
}


def all_implied(asked: Iterable[ex.Expression], known: Collection[ex.Expression]) -> bool:
    """Does each of some conditions follow from one that is known to hold?"""
    return all(any(implies(one, condition) for one in known) for condition in asked)


def implies(known: ex.Expression, asked: ex.Expression) -> bool:
    """Does `asked` hold of all events of which `known` does?"""
    if known == asked:
        return True
    match known, asked:
        case _, ex.Logical("AND", parts):
            return all(implies(known, part) for part in parts)
        case ex.Logical("OR", parts), _:
            return all(implies(part, asked) for part in parts)
        case ex.Logical("AND", parts), _ if any(implies(part, asked) for part in parts):
            return True
        case _, ex.Logical("OR", parts):
            return any(implies(known, part) for part in parts)
        case ex.Not(one), ex.Not(other):
            return implies(other, one)
        case (ex.Comparison(_, left, right), ex.IsNull(operand, True)):
            return operand in (left, right)
        case (ex.Membership(inner) | ex.TextTest(_, inner), ex.IsNull(operand, True)):
            return operand == inner
        case ex.Comparison(sign, left, right), ex.Comparison(other, one, two) if (left, right) == (
            one,
            two,
        ):
            return other in _WIDER.get(sign, ())
        case _:
            return _of_values(known, asked)


def _of_values(known: ex.Expression, asked: ex.Expression) -> bool:
    """The same for comparisons of one operand with constants."""
    if isinstance(known, ex.Comparison) and isinstance(known.right, ex.Literal):
        operand, sign = known.left, known.operator
        values: tuple[ex.Literal, ...] = (known.right,)
    elif isinstance(known, ex.Membership):
        operand, sign = known.operand, "!=" if known.negated else "="
        values = known.values
    else:
        return False
    match asked:
        case ex.Comparison(other, left, ex.Literal() as value) if left == operand:
            return _implied(sign, values, other, value)
        case ex.Membership(inner, listed, negated) if inner == operand:
            if negated:
                return all(_implied(sign, values, "!=", value) for value in listed)
            return sign == "=" and all(any(_same(one, value) for value in listed) for one in values)
        case _:
            return False


def _implied(sign: str, values: tuple[ex.Literal, ...], other: str, value: ex.Literal) -> bool:
    """Does a comparison of x follow from another: with one of the values, or for != with each?"""
    if sign == "=":
        return all(_holds(one, other, value) for one in values)
    if sign == "!=":
        return other == "!=" and any(_same(one, value) for one in values)
    if not _is_number(values[0]) or not _is_number(value):
        return False
    bound: Any = values[0].value
    asked: Any = value.value
    if sign in ("<", "<="):
        if other in ("<", "<="):
            return bool(bound < asked or (bound == asked and (sign == "<" or other == "<=")))
        return other == "!=" and bool(bound < asked or (bound == asked and sign == "<"))
    if other in (">", ">="):
        return bool(bound > asked or (bound == asked and (sign == ">" or other == ">=")))
    return other == "!=" and bool(bound > asked or (bound == asked and sign == ">"))


def _holds(one: ex.Literal, sign: str, other: ex.Literal) -> bool:
    if _is_number(one) and _is_number(other):
        return _COMPARED[sign](one.value, other.value)
    if not (isinstance(one.value, str) and isinstance(other.value, str)):
        return False
    return sign in ("=", "!=") and _COMPARED[sign](one.value, other.value)


def _same(one: ex.Literal, other: ex.Literal) -> bool:
    return one == other or _holds(one, "=", other)


def _is_number(literal: ex.Literal) -> bool:
    value = literal.value
    return type(value) in (int, float) and abs(value) <= EXACT  # type: ignore[arg-type]
