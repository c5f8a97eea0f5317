"""Values of SQL one by one, with the three truth values: None is null, and unknown."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any

from engines.sql.functions import FUNCTIONS, remainder, written
from workloads.errors import UnsupportedError
from workloads.sql import expressions as ex

Leaf = Callable[[ex.Expression], Any]


def value(node: ex.Expression, leaf: Leaf) -> Any:
    """The value of an expression; `leaf` gives those of what reads rows."""
    match node:
        case ex.Literal(constant):
            return constant
        case ex.Interval(nanoseconds):
            return datetime.timedelta(microseconds=nanoseconds / 1000)
        case ex.Moment(text, is_date):
            return _moment(text, is_date)
        case ex.Unary("NOT", operand):
            truth = value(operand, leaf)
            return None if truth is None else not truth
        case ex.Unary(_, operand):
            number = value(operand, leaf)
            return None if number is None else _held(-number)
        case ex.Binary(("AND" | "OR") as operator, left, right):
            return _logical(operator, value(left, leaf), lambda: value(right, leaf))
        case ex.Binary(operator, left, right):
            return binary(operator, value(left, leaf), value(right, leaf))
        case ex.IsNull(operand):
            return value(operand, leaf) is None
        case ex.InList(operand, items):
            return _in(value(operand, leaf), [value(item, leaf) for item in items])
        case ex.Like(operand, pattern, nocase, escape):
            text = value(operand, leaf)
            found = _like(pattern, nocase, escape)
            return None if text is None else bool(found.fullmatch(str(text)))
        case ex.Case(conditions, values, default):
            for condition, chosen in zip(conditions, values, strict=True):
                if value(condition, leaf):
                    return value(chosen, leaf)
            return value(default, leaf)
        case ex.Cast(operand, kind):
            return cast(value(operand, leaf), kind)
        case ex.Call("TRY", (argument,)):
            return _tried(argument, leaf)
        case ex.Call(name, arguments):
            return call(name, [value(argument, leaf) for argument in arguments])
        case _:
            return leaf(node)


def _tried(node: ex.Expression, leaf: Leaf) -> Any:
    try:
        return value(node, leaf)
    except UnsupportedError:
        return None


def _logical(operator: str, left: Any, right: Callable[[], Any]) -> bool | None:
    decides = operator == "OR"  # the truth value that settles it alone
    if left is not None and bool(left) == decides:
        return decides
    other = right()
    if other is not None and bool(other) == decides:
        return decides
    return None if left is None or other is None else not decides


def binary(operator: str, left: Any, right: Any) -> Any:
    """Arithmetic, a comparison, or texts side by side; null where either is null."""
    if left is None or right is None:
        return None
    try:
        if operator in ex.COMPARISONS:
            return _compared(operator, left, right)
        match operator:
            case "+":
                return _held(left + right)
            case "-":
                return _held(left - right)
            case "*":
                return _held(left * right)
            case "/":
                return _quotient(left, right)
            case "%":
                return remainder(left, right)
            case _:
                return written(left) + written(right)
    except TypeError:
        raise UnsupportedError(
            f"{_kind(left)} {operator} {_kind(right)}: these do not go together; convert one with "
            "CAST"
        ) from None


def _held(found: Any) -> Any:
    """The result of arithmetic; whole numbers have 64 bits."""
    if isinstance(found, int) and not -(2**63) <= found < 2**63:
        raise UnsupportedError(
            f"{found} is beyond the whole numbers of 64 bits; CAST a side to DOUBLE"
        )
    return found


def _compared(operator: str, left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, datetime.date):
        left = _moment(left, not isinstance(right, datetime.datetime))
    if isinstance(right, str) and isinstance(left, datetime.date):
        right = _moment(right, not isinstance(left, datetime.datetime))
    if isinstance(left, str) != isinstance(right, str):
        raise TypeError
    if isinstance(left, datetime.date) and isinstance(right, datetime.date):
        left, right = _alike(left, right)
    match operator:
        case "=":
            return bool(left == right)
        case "<>":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """A date beside a time is the day's beginning, and what has no zone has that of the other."""
    if isinstance(left, datetime.datetime) != isinstance(right, datetime.datetime):
        midnight = datetime.time()
        if isinstance(left, datetime.datetime):
            right = datetime.datetime.combine(right, midnight)
        else:
            left = datetime.datetime.combine(left, midnight)
    if isinstance(left, datetime.datetime):
        left = left.replace(tzinfo=left.tzinfo or right.tzinfo)
        right = right.replace(tzinfo=right.tzinfo or left.tzinfo)
    return left, right


def _quotient(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        whole = abs(left) // abs(right)
        return whole if (left < 0) == (right < 0) else -whole
    return left / right


def _in(asked: Any, items: Sequence[Any]) -> bool | None:
    found: bool | None = False
    for item in items:
        same = binary("=", asked, item)
        if same:
            return True
        found = None if same is None else found
    return found


@lru_cache(1000)
def _like(pattern: str, nocase: bool, escape: str) -> re.Pattern[str]:
    parts, is_escaped = [], False
    for character in pattern:
        if character == escape and not is_escaped:
            is_escaped = True
            continue
        meant = None if is_escaped else {"%": ".*", "_": "."}.get(character)
        parts.append(meant or re.escape(character))
        is_escaped = False
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if nocase else 0))


def _moment(text: str, is_date: bool) -> Any:
    try:
        found = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise UnsupportedError(f"{text!r} is no time; write it as 2020-01-31 10:00:00") from None
    return found.date() if is_date else found


def _kind(given: Any) -> str:
    return {int: "integer", str: "text", float: "number", bool: "truth value"}.get(
        type(given), type(given).__name__
    )


def cast(given: Any, kind: str) -> Any:
    """A value converted to another kind."""
    if given is None:
        return None
    try:
        match kind:
            case "int":
                if isinstance(given, float):
                    return int(Decimal(given).to_integral_value(ROUND_HALF_UP))
                return int(given)
            case "float":
                return float(given)
            case "string":
                return written(given)
            case "bool":
                return (
                    given.strip().lower() in ("true", "t", "1")
                    if isinstance(given, str)
                    else bool(given)
                )
            case _:
                if isinstance(given, str):
                    return _moment(given, kind == "date")
                return given.date() if kind == "date" and hasattr(given, "hour") else given
    except (TypeError, ValueError):
        raise UnsupportedError(f"{given!r} cannot be converted to {kind}") from None


def call(name: str, arguments: Sequence[Any]) -> Any:
    """A function of values."""
    try:
        return _called(name, arguments)
    except (TypeError, ValueError, IndexError, ArithmeticError):
        shown = ", ".join(map(repr, arguments))
        raise UnsupportedError(f"{name}({shown}) has no value; check its arguments") from None


def _called(name: str, given: Sequence[Any]) -> Any:
    match name:
        case "COALESCE":
            return next((one for one in given if one is not None), None)
        case "NULLIF":
            return None if binary("=", given[0], given[1]) else given[0]
        case "IF":
            return given[1] if given[0] else (given[2] if len(given) > 2 else None)
        case "ARRAY":
            return list(given)
    if any(one is None for one in given):
        return None
    return FUNCTIONS[name](*given)


def aggregate(function: str, values: Sequence[Any], distinct: bool, others: Sequence[Any]) -> Any:
    """An aggregate of the values of some rows, in order; `others` are of a second argument."""
    if function in ("MAX_BY", "MIN_BY"):
        pairs = [(o, v) for v, o in zip(values, others, strict=True) if o is not None]
        if not pairs:
            return None
        chosen = (max if function == "MAX_BY" else min)(pairs, key=lambda pair: pair[0])
        return chosen[1]
    if function in ("ARRAY_AGG", "LIST"):
        if not values:
            return None
        return _distinct(values) if distinct else list(values)
    present = [one for one in values if one is not None]
    if distinct:
        present = _distinct(present)
    if function == "COUNT":
        return len(present)
    if function == "COUNT_IF":
        return sum(map(bool, present))
    if not present:
        return None
    return _of_present(function, present, others)


def _of_present(function: str, present: list[Any], others: Sequence[Any]) -> Any:
    match function:
        case "SUM":
            total = present[0]
            for one in present[1:]:
                total = total + one
            return _held(total)
        case "AVG":
            return _mean(present)
        case "MIN":
            return min(present)
        case "MAX":
            return max(present)
        case "BOOL_AND":
            return all(present)
        case "BOOL_OR":
            return any(present)
        case "ARBITRARY" | "ANY_VALUE":
            return present[0]
        case "STRING_AGG" | "LISTAGG":
            return (str(others[0]) if others else ",").join(map(written, present))
        case _:
            return _spread(function, [float(one) for one in present])


def _mean(present: list[Any]) -> float:
    return float(sum(present)) / len(present)


def _spread(function: str, numbers: list[float]) -> float | None:
    whole = function.endswith("_POP")
    if len(numbers) < 2 and not whole:
        return None
    mean = math.fsum(numbers) / len(numbers)
    squares = math.fsum((one - mean) ** 2 for one in numbers)
    variance = squares / (len(numbers) if whole else len(numbers) - 1)
    return math.sqrt(variance) if function.startswith("STDDEV") else variance


def _distinct(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for one in values:
        if one not in found:
            found.append(one)
    return found
