"""Constants in conditions, computed once and for all.

The logic has two values: a comparison with null is false, and its NOT is true. So `NOT a < b` is
not `a >= b`, and `NOT a IN (…)` is not `a NOT IN (…)` (docs/language.md).
"""

from __future__ import annotations

import math

from optimizer.bind.conditions import canonical, canonical_node
from workloads import expressions as ex
from workloads.expressions import (
    COMPARE,
    COMPUTE,
    Expression,
    Literal,
)
from workloads.limits import MAX_NUMBER_CHARACTERS
from workloads.texts import lower, upper

_MAX_BITS = int(MAX_NUMBER_CHARACTERS * math.log2(10))
TRUE, FALSE, NULL = Literal(True), Literal(False), Literal(None)


def fold(expression: Expression) -> Expression:
    """The same condition with everything constant computed, in canonical spelling.

    Each part is brought into its spelling before what it stands in is computed: of `x IN (1, 1)`
    one value is left, which makes it `x = 1`.
    """
    match expression:
        case ex.Negative(operand):
            return _negative(fold(operand))
        case ex.Arithmetic(symbol, left, right):
            return _arithmetic(symbol, fold(left), fold(right))
        case ex.Comparison(symbol, left, right):
            return _comparison(symbol, fold(left), fold(right))
        case ex.Membership(operand, values, negated):
            return _membership(fold(operand), values, negated)
        case ex.Function(name, operand, constants):
            return _function(name, fold(operand), constants)
        case ex.EntryTest(listed, condition):
            inner = fold(condition)
            return FALSE if inner == FALSE else canonical(ex.EntryTest(listed, inner))
        case ex.JointFunction(name, arguments):
            return _joint_function(name, tuple(map(fold, arguments)))
        case ex.TextTest(_, operand):
            return _text_test(expression, fold(operand))
        case ex.IsNull(operand, negated):
            return _is_null(fold(operand), negated)
        case ex.Not(operand):
            return _not(fold(operand))
        case ex.Logical(symbol, parts):
            return _logical(symbol, [fold(part) for part in parts])
        case _:
            return canonical(expression)


def is_constant(expression: Expression) -> bool:
    """Is a folded condition TRUE or FALSE?"""
    return expression in (TRUE, FALSE)


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, Literal) and type(expression.value) in (int, float)


def _negative(operand: Expression) -> Expression:
    match operand:
        case Literal(None):
            return NULL
        case Literal(int() | float() as number) if _is_number(operand):
            return Literal(-number)
        case _:
            return ex.Negative(operand)


def _arithmetic(symbol: ex.ArithmeticOperator, left: Expression, right: Expression) -> Expression:
    whole = ex.Arithmetic(symbol, left, right)
    if NULL in (left, right) or (symbol in "/%" and _is_zero(right)):
        return NULL
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return whole
    if not (_is_number(left) and _is_number(right)):
        return whole
    try:
        result = COMPUTE[symbol](left.value, right.value)
    except OverflowError:  # integers beyond a float's range
        return whole
    # Infinity and NaN have no spelling of their own: engines meet them at run time. So they do
    # whole numbers that are longer than a text may have them.
    if isinstance(result, int):
        return Literal(result) if result.bit_length() <= _MAX_BITS else whole
    return Literal(result) if math.isfinite(result) else whole


def _is_zero(expression: Expression) -> bool:
    return isinstance(expression, Literal) and _is_number(expression) and expression.value == 0


def _comparison(symbol: ex.ComparisonOperator, left: Expression, right: Expression) -> Expression:
    if NULL in (left, right):
        return FALSE
    if isinstance(left, Literal) and isinstance(right, Literal):
        numbers = _is_number(left) and _is_number(right)
        if numbers or type(left.value) is type(right.value):
            return Literal(bool(COMPARE[symbol](left.value, right.value)))
    return canonical_node(ex.Comparison(symbol, left, right))


def _membership(operand: Expression, values: tuple[Literal, ...], negated: bool) -> Expression:
    """A null is a member of nothing, and nothing is equal to a null in the list."""
    known = tuple(v for v in values if v.value is not None)
    if operand == NULL:
        return FALSE
    if isinstance(operand, Literal):
        return Literal(any(operand.value == v.value for v in known) != negated)
    if not known:
        return ex.IsNull(operand, True) if negated else FALSE
    found = canonical_node(ex.Membership(operand, known, negated))
    if isinstance(found, ex.Membership) and len(found.values) == 1:
        return _comparison("!=" if negated else "=", operand, found.values[0])
    return found


def _function(name: str, operand: Expression, constants: tuple[int, ...]) -> Expression:
    match name, operand:
        case _, Literal(None):
            return NULL
        case "lower", Literal(str() as text):
            return Literal(lower(text))
        case "upper", Literal(str() as text):
            return Literal(upper(text))
        case "length", Literal(str() as text):
            return Literal(len(text))
        case "text", Literal(str()):
            return operand
        case _:
            return ex.Function(name, operand, constants)


def _joint_function(name: str, arguments: tuple[Expression, ...]) -> Expression:
    """A slice between constants is a function of one value."""
    if NULL in arguments:
        return NULL
    places = [a.value for a in arguments[1:] if isinstance(a, Literal)]
    numbers = tuple(value for value in places if type(value) is int and abs(value) < 2**31)
    if name == "slice" and len(numbers) == len(arguments) - 1:
        return ex.Function(name, arguments[0], numbers)
    return ex.JointFunction(name, arguments)


def _text_test(test: ex.TextTest, operand: Expression) -> Expression:
    """A test with a null does not hold."""
    if operand == NULL:
        return FALSE
    nulls = [pattern for pattern in test.patterns if pattern == NULL]
    if nulls and (test.negated or test.every or len(nulls) == len(test.patterns)):
        return FALSE
    kept = tuple(pattern for pattern in test.patterns if pattern != NULL)
    return canonical(ex.TextTest(test.operator, operand, kept, test.every, test.negated))


def _is_null(operand: Expression, negated: bool) -> Expression:
    if isinstance(operand, Literal):
        return Literal((operand.value is None) != negated)
    if isinstance(operand, ex.CONDITIONS):
        return Literal(negated)
    return ex.IsNull(operand, negated)


def _not(operand: Expression) -> Expression:
    match operand:
        case Literal(bool() as value):
            return Literal(not value)
        case ex.Not(inner):
            return inner
        case ex.IsNull(inner, negated):
            return ex.IsNull(inner, not negated)
        case _:
            return ex.Not(operand)


def _logical(symbol: str, parts: list[Expression]) -> Expression:
    neutral, absorbing = (TRUE, FALSE) if symbol == "AND" else (FALSE, TRUE)
    kept = [part for part in parts if part != neutral]
    if absorbing in kept:
        return absorbing
    if len(kept) < 2:
        return kept[0] if kept else neutral
    return canonical_node(ex.Logical("AND" if symbol == "AND" else "OR", tuple(kept)))
