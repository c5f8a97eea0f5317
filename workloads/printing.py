"""Queries, patterns and conditions as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import assert_never

from workloads.expressions import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Equivalence,
    Expression,
    Function,
    IsNull,
    Literal,
    Logical,
    Membership,
    Negative,
    Not,
    TextTest,
    Value,
)
from workloads.syntax import (
    Aggregates,
    All,
    Component,
    Duration,
    Exactly,
    Item,
    Negation,
    One,
    Operation,
    Pattern,
    Plus,
    Quantifier,
    Query,
    Return,
)

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
        "LIMIT",
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
# Names that begin a clause where one can begin.
CLAUSE_NAMES = frozenset(["STRATEGY"])
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Binding strength of each kind of expression, as in grammar.lark.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)


def print_query(query: Query) -> str:
    """The query's text, a clause a line."""
    lines = []
    if query.name is not None:
        lines.append(f"QUERY {print_name(query.name)}")
    lines.append(f"PATTERN {print_pattern(query.pattern)}")
    if query.where is not None:
        lines.append(f"WHERE {print_expression(query.where)}")
    if query.strategy != "any":
        lines.append(f"STRATEGY {query.strategy.upper()}")
    if query.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(print_path, query.partition_by)))
    lines.append(_print_output(query.output))
    lines.append(f"WITHIN {print_duration(query.within)}")
    if query.slide is not None:
        lines[-1] += f" SLIDE {print_duration(query.slide)}"
    return "\n".join(lines) + "\n"


def print_name(name: str) -> str:
    """A name as it must be written: in double quotes unless it is a plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in RESERVED | CLAUSE_NAMES:
        return name
    return '"' + name.replace('"', '""') + '"'


def print_path(name: str) -> str:
    """A column, or a field of a struct by its path."""
    return ".".join(map(print_name, name.split("."))) if _is_path(name) else print_name(name)


def _is_path(name: str) -> bool:
    return "." in name and all(name.split("."))


def print_pattern(pattern: Pattern) -> str:
    match pattern:
        case Component(kind, alias, quantifier):
            return print_component(kind, alias, quantifier)
        case Negation(part):
            return "!" + print_pattern(part)
        case Operation(operator, parts):
            return f"{operator}({', '.join(map(print_pattern, parts))})"
        case _:
            assert_never(pattern)


def print_component(kind: str, alias: str | None, quantifier: Quantifier) -> str:
    text = print_name(kind)
    match quantifier:
        case One():
            pass
        case Plus():
            text += "+"
        case Exactly(count):
            text += f"^{count}"
        case All():
            text = "ALL " + text
        case _:
            assert_never(quantifier)
    return text if alias is None else f"{text} {print_name(alias)}"


def print_duration(duration: Duration) -> str:
    return f"{print_decimal(duration.amount)} {duration.unit}"


def print_decimal(amount: Decimal) -> str:
    return f"{amount:f}"


def _print_output(output: Aggregates | Return) -> str:
    match output:
        case Aggregates(items, having):
            text = "AGG " + ", ".join(map(print_aggregate, items))
            return text if having is None else f"{text} HAVING {print_aggregate(having)}"
        case Return(items, limit):
            text = "RETURN " + ", ".join(map(_print_item, items))
            return text if limit is None else f"{text} LIMIT {limit}"
        case _:
            assert_never(output)


def print_aggregate(expression: Expression) -> str:
    """An expression with its aggregate functions in capitals, as AGG and HAVING have them."""
    return _print(expression, 0, upper=True)


def _print_item(item: Item) -> str:
    value = item.value
    text = print_name(value) if isinstance(value, str) else print_expression(value)
    return text if item.name is None else f"{text} AS {print_name(item.name)}"


def print_expression(expression: Expression) -> str:
    return _print(expression, 0, upper=False)


def print_literal(value: Value) -> str:
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


def _print(expression: Expression, loosest: int, upper: bool) -> str:
    """The expression, in parentheses where it binds looser than its place allows."""
    text, strength = _bare(expression, upper)
    return text if strength >= loosest else f"({text})"


def _bare(expression: Expression, upper: bool) -> tuple[str, int]:
    def sub(part: Expression, loosest: int) -> str:
        return _print(part, loosest, upper)

    match expression:
        case Literal(value):
            negative = type(value) in (int, float) and str(value).startswith("-")
            return print_literal(value), _UNARY if negative else _ATOM
        case Attribute("", name):
            return print_name(name), _ATOM
        case Attribute(alias, name):
            return f"{print_name(alias)}.{print_path(name)}", _ATOM
        case Negative(operand):
            return "-" + _after_minus(sub(operand, _ATOM)), _UNARY
        case Arithmetic(operator, left, right):
            strength = _SUM if operator in "+-" else _PRODUCT
            return f"{sub(left, strength)} {operator} {sub(right, strength + 1)}", strength
        case Call(function, argument):
            # Capitals only where the parser's lower case gives the name back.
            capital = upper and function.isascii()
            name = print_name(function.upper() if capital else function)
            inner = "*" if argument is None else sub(argument, _OR)
            return f"{name}({inner})", _ATOM
        case Comparison(operator, left, right):
            return f"{sub(left, _SUM)} {operator} {sub(right, _SUM)}", _COMPARE
        case Membership(operand, values, negated):
            listed = ", ".join(print_literal(v.value) for v in values)
            word = "NOT IN" if negated else "IN"
            return f"{sub(operand, _SUM)} {word} ({listed})", _COMPARE
        case Function(name, operand, constants):
            return f"{name}({', '.join([sub(operand, _OR), *map(str, constants)])})", _ATOM
        case TextTest():
            return _print_text_test(expression, sub), _COMPARE
        case IsNull(operand, negated):
            return f"{sub(operand, _SUM)} IS {'NOT ' if negated else ''}NULL", _COMPARE
        case Not(operand):
            inner_not = isinstance(operand, Not)
            return "NOT " + sub(operand, _NOT if inner_not else _COMPARE), _NOT
        case Logical("AND", parts):
            return " AND ".join(sub(part, _NOT) for part in parts), _AND
        case Logical(_, parts):
            return " OR ".join(sub(part, _AND) for part in parts), _OR
        case Equivalence(names):
            return "[" + ", ".join(map(print_path, names)) + "]", _ATOM
        case _:
            assert_never(expression)


def _print_text_test(test: TextTest, sub: Callable[[Expression, int], str]) -> str:
    operator = f"NOT {test.operator}" if test.negated else test.operator
    listed = ", ".join(
        print_literal(p.value) if isinstance(p, Literal) else sub(p, _SUM) for p in test.patterns
    )
    if test.operator == "IN CIDR":
        listed = f"({listed})"
    elif len(test.patterns) > 1:
        listed = f"{'ALL' if test.every else 'ANY'} ({listed})"
    return f"{sub(test.operand, _SUM)} {operator} {listed}"


def _after_minus(text: str) -> str:
    """Two minus signs in a row would start a comment."""
    return " " + text if text.startswith("-") else text
