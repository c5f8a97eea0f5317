"""Syntax to text: `parse_query(print_query(q)) == q` for every query the parser can make."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import assert_never

from workloads import expressions as ex
from workloads import syntax as sx

RESERVED = frozenset(
    [
        "QUERY",
        "PATTERN",
        "WHERE",
        "PARTITION",
        "BY",
        "AGG",
        "HAVING",
        "RETURN",
        "WITHIN",
        "SLIDE",
        "SEQ",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "ALL",
        "AS",
        "TRUE",
        "FALSE",
    ]
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Binding strength of each kind of expression, as in grammar.lark.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)


def print_query(query: sx.Query) -> str:
    """The query's text, a clause a line."""
    lines = []
    if query.name is not None:
        lines.append(f"QUERY {print_name(query.name)}")
    lines.append(f"PATTERN {print_pattern(query.pattern)}")
    if query.where is not None:
        lines.append(f"WHERE {print_expression(query.where)}")
    if query.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(print_name, query.partition_by)))
    lines.append(_print_output(query.output))
    lines.append(f"WITHIN {print_duration(query.within)}")
    if query.slide is not None:
        lines[-1] += f" SLIDE {print_duration(query.slide)}"
    return "\n".join(lines) + "\n"


def print_name(name: str) -> str:
    """A name as it must be written: in double quotes unless it is a plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def print_pattern(pattern: sx.Pattern) -> str:
    match pattern:
        case sx.Component(kind, alias, quantifier):
            return print_component(kind, alias, quantifier)
        case sx.Negation(part):
            return "!" + print_pattern(part)
        case sx.Operation(operator, parts):
            return f"{operator}({', '.join(map(print_pattern, parts))})"
        case _:
            assert_never(pattern)


def print_component(kind: str, alias: str | None, quantifier: sx.Quantifier) -> str:
    text = print_name(kind)
    match quantifier:
        case sx.One():
            pass
        case sx.Plus():
            text += "+"
        case sx.Exactly(count):
            text += f"^{count}"
        case sx.All():
            text = "ALL " + text
        case _:
            assert_never(quantifier)
    return text if alias is None else f"{text} {print_name(alias)}"


def print_duration(duration: sx.Duration) -> str:
    return f"{print_decimal(duration.amount)} {duration.unit}"


def print_decimal(amount: Decimal) -> str:
    return f"{amount:f}"


def _print_output(output: sx.Aggregates | sx.Return) -> str:
    match output:
        case sx.Aggregates(items, having):
            text = "AGG " + ", ".join(map(print_aggregate, items))
            return text if having is None else f"{text} HAVING {print_aggregate(having)}"
        case sx.Return(items):
            return "RETURN " + ", ".join(map(_print_item, items))
        case _:
            assert_never(output)


def print_aggregate(expression: ex.Expression) -> str:
    """An expression with its aggregate functions in capitals, as AGG and HAVING have them."""
    return _print(expression, 0, upper=True)


def _print_item(item: sx.Item) -> str:
    value = item.value
    text = print_name(value) if isinstance(value, str) else print_expression(value)
    return text if item.name is None else f"{text} AS {print_name(item.name)}"


def print_expression(expression: ex.Expression) -> str:
    return _print(expression, 0, upper=False)


def print_literal(value: ex.Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int():
            return str(value)
        case float():
            # The grammar has no word for infinity; a number past the largest float is one.
            return repr(value).replace("inf", "1e999")
        case _:
            assert_never(value)


def _print(expression: ex.Expression, loosest: int, upper: bool) -> str:
    """The expression, in parentheses where it binds looser than its place allows."""
    text, strength = _bare(expression, upper)
    return text if strength >= loosest else f"({text})"


def _bare(expression: ex.Expression, upper: bool) -> tuple[str, int]:
    def sub(part: ex.Expression, loosest: int) -> str:
        return _print(part, loosest, upper)

    match expression:
        case ex.Literal(value):
            negative = type(value) in (int, float) and str(value).startswith("-")
            return print_literal(value), _UNARY if negative else _ATOM
        case ex.Attribute("", name):
            return print_name(name), _ATOM
        case ex.Attribute(alias, name):
            return f"{print_name(alias)}.{print_name(name)}", _ATOM
        case ex.Negative(operand):
            return "-" + _after_minus(sub(operand, _ATOM)), _UNARY
        case ex.Arithmetic(operator, left, right):
            strength = _SUM if operator in "+-" else _PRODUCT
            return f"{sub(left, strength)} {operator} {sub(right, strength + 1)}", strength
        case ex.Call(function, argument):
            # Capitals only where the parser's lower case gives the name back.
            capital = upper and function.isascii()
            name = print_name(function.upper() if capital else function)
            inner = "*" if argument is None else sub(argument, _OR)
            return f"{name}({inner})", _ATOM
        case ex.Comparison(operator, left, right):
            return f"{sub(left, _SUM)} {operator} {sub(right, _SUM)}", _COMPARE
        case ex.Membership(operand, values, negated):
            listed = ", ".join(print_literal(v.value) for v in values)
            word = "NOT IN" if negated else "IN"
            return f"{sub(operand, _SUM)} {word} ({listed})", _COMPARE
        case ex.IsNull(operand, negated):
            return f"{sub(operand, _SUM)} IS {'NOT ' if negated else ''}NULL", _COMPARE
        case ex.Not(operand):
            inner_not = isinstance(operand, ex.Not)
            return "NOT " + sub(operand, _NOT if inner_not else _COMPARE), _NOT
        case ex.Logical("AND", parts):
            return " AND ".join(sub(part, _NOT) for part in parts), _AND
        case ex.Logical(_, parts):
            return " OR ".join(sub(part, _AND) for part in parts), _OR
        case ex.Equivalence(names):
            return "[" + ", ".join(map(print_name, names)) + "]", _ATOM
        case _:
            assert_never(expression)


def _after_minus(text: str) -> str:
    """Two minus signs in a row would start a comment."""
    return " " + text if text.startswith("-") else text
