"""Durations in conditions and values: everything that they are computed with in nanoseconds.

`b.time - a.time < 5 s -> nanoseconds(b.time) - 5000000000 < nanoseconds(a.time)`, whole numbers
that compare exactly, whether times are timestamps or ticks of any unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal as OneOf
from typing import NamedTuple

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, Span
from workloads.printing import print_expression

Dimension = OneOf["number", "duration", "time"]
IsTime = Callable[[ex.Attribute], bool]
# Functions of groups that give one of the values.
_ENDS = ("min", "max", "first", "last", "prev", "previous")
_MIRRORED: dict[str, ex.ComparisonOperator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Measured(NamedTuple):
    value: ex.Expression
    dimension: Dimension


def without_durations(expression: ex.Expression, is_time: IsTime, tick: int) -> ex.Expression:
    """A condition, or a value that is none of time, with durations as numbers.

    `tick` are the nanoseconds of 1 where a time, or a number beside a duration, is a number.
    """
    conversion = _Conversion(is_time, tick)
    if isinstance(expression, ex.CONDITIONS):
        return conversion.condition(expression)
    found = conversion.measured(expression)
    if found.dimension != "number":
        raise QueryError(
            f"this is a {found.dimension}, and results have numbers of some unit",
            expression.span,
            f"divide it by one, as in ({print_expression(expression)}) / 1 s"
            if found.dimension == "duration"
            else "return the time and the duration each by itself",
        )
    return found.value


class _Conversion:
    def __init__(self, is_time: IsTime, tick: int) -> None:
        self._is_time, self._tick = is_time, tick

    def condition(self, condition: ex.Expression) -> ex.Expression:
        if not ex.has_duration(condition):
            return condition
        match condition:
            case ex.Logical(_, parts):
                return replace(condition, parts=tuple(map(self.condition, parts)))
            case ex.Not(operand):
                return replace(condition, operand=self.condition(operand))
            case ex.Comparison(operator, left, right, span):
                one, other = self._alike(
                    self.measured(left), self.measured(right), f"'{operator}'", span
                )
                return _apart(ex.Comparison(operator, one.value, other.value, span))
            case ex.IsNull(operand):
                return replace(condition, operand=self.measured(operand).value)
            case _:
                raise QueryError(
                    "a duration is compared with = != < <= > >=",
                    condition.span,
                    "such as b.time - a.time < 5 s",
                )

    def measured(self, value: ex.Expression) -> _Measured:
        """A value, and what it is."""
        match value:
            case ex.DurationLiteral(amount, unit, span):
                nanoseconds = sx.Duration(amount, unit).size
                if nanoseconds != int(nanoseconds):
                    raise QueryError(
                        "a fraction of a nanosecond", span, "round it to whole nanoseconds"
                    )
                return _Measured(ex.Literal(int(nanoseconds), span), "duration")
            case ex.Attribute():
                return self._time(value) if self._is_time(value) else _Measured(value, "number")
            case ex.Call(function, ex.Attribute() as argument) if self._is_time(argument):
                if function in _ENDS:
                    return self._time(value)
                return _Measured(value, "number")
            case ex.Negative(operand, span):
                inner = self.measured(operand)
                if inner.dimension == "time":
                    raise QueryError("a time has no negative", span)
                return _Measured(ex.Negative(inner.value, span), inner.dimension)
            case ex.Arithmetic("+" | "-" | "%" as operator, left, right, span):
                return self._sum(operator, self.measured(left), self.measured(right), span)
            case ex.Arithmetic(operator, left, right, span):
                return _product(operator, self.measured(left), self.measured(right), span)
            case _:
                return _Measured(value, "number")

    def _time(self, value: ex.Expression) -> _Measured:
        return _Measured(ex.Nanoseconds(value, self._tick, value.span), "time")

    def _sum(
        self, operator: ex.ArithmeticOperator, left: _Measured, right: _Measured, span: Span
    ) -> _Measured:
        dimensions = (left.dimension, right.dimension)
        match operator, dimensions:
            case _, ("number", "number"):
                dimension: Dimension = "number"
            case "-", ("time", "time"):
                dimension = "duration"
            case "+", ("duration", "time"):
                dimension = "time"
            case "+" | "-", ("time", "duration"):
                dimension = "time"
            case _, ("time", "time" | "duration") | (_, "time"):
                raise QueryError(
                    f"'{operator}' of a {left.dimension} and a {right.dimension}",
                    span,
                    "times are subtracted, and durations are added to them or subtracted",
                )
            case _:
                if left.dimension == "time":  # and a number, which is one of ticks
                    right, dimension = self._scaled(right, operator), "time"
                else:
                    left, right = self._alike(left, right, f"'{operator}'", span)
                    dimension = "duration"
        return _Measured(ex.Arithmetic(operator, left.value, right.value, span), dimension)

    def _alike(
        self, left: _Measured, right: _Measured, user: str, span: Span
    ) -> tuple[_Measured, _Measured]:
        """Two sides of one dimension: a number beside a duration is one of the stream's ticks."""
        if {left.dimension, right.dimension} == {"time", "duration"}:
            raise QueryError(
                f"{user} compares a time with a duration",
                span,
                "a difference of two times is a duration: b.time - a.time < 5 s",
            )
        if left.dimension == right.dimension:
            return left, right
        if left.dimension == "number":
            return self._scaled(left, user), right
        return left, self._scaled(right, user)

    def _scaled(self, side: _Measured, user: str) -> _Measured:
        value = side.value
        if isinstance(value, ex.Literal) and value.value is not None:
            shown = print_expression(value)
            raise QueryError(
                f"{shown} has no unit, and {user} has a duration on its other side",
                value.span,
                f"write a unit, such as {shown} s",
            )
        return _Measured(ex.Arithmetic("*", value, ex.Literal(self._tick), value.span), "duration")


def _product(
    operator: ex.ArithmeticOperator, left: _Measured, right: _Measured, span: Span
) -> _Measured:
    match operator, left.dimension, right.dimension:
        case _, "number", "number":
            dimension: Dimension = "number"
        case "*" | "/", "duration", "number":
            dimension = "duration"
        case "*", "number", "duration":
            dimension = "duration"
        case "/", "duration", "duration":
            dimension = "number"
        case _:
            raise QueryError(
                f"'{operator}' of a {left.dimension} and a {right.dimension}",
                span,
                "a duration is multiplied with a number, or divided by a number or a duration",
            )
    return _Measured(ex.Arithmetic(operator, left.value, right.value, span), dimension)


def _apart(comparison: ex.Comparison) -> ex.Comparison:
    """`b - a < 5 -> b - 5 < a`: each component on its own side, so that joins can test it."""
    match comparison:
        case ex.Comparison(operator, ex.Arithmetic("-", one, other), ex.Literal() as limit):
            pass
        case ex.Comparison(mirrored, ex.Literal() as limit, ex.Arithmetic("-", one, other)):
            operator = _MIRRORED.get(mirrored, mirrored)
        case _:
            return comparison
    first, second = ex.aliases(one), ex.aliases(other)
    if len(first) != 1 or len(second) != 1 or first == second:
        return comparison
    return ex.Comparison(operator, ex.Arithmetic("-", one, limit), other, comparison.span)
