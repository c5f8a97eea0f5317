"""Queries as parsed: patterns, expressions and durations, and all of them as text."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, TypeAlias, assert_never
from typing import Literal as OneOf

from workloads.errors import NOWHERE, Span
from workloads.limits import MAX_NUMBER_CHARACTERS

ArithmeticOperator = OneOf["+", "-", "*", "/", "%"]
ComparisonOperator = OneOf["=", "!=", "<", "<=", ">", ">="]
Value: TypeAlias = int | float | str | bool | None

# What the operators do to two values of which neither is null.
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}

GROUP_FUNCTIONS = ("sum", "avg", "min", "max", "count", "first", "last")


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Equality is by type as well as value: 1, 1.0 and TRUE are three constants."""

    value: Value
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


@dataclass(frozen=True, slots=True)
class Attribute:
    """`alias.name`; in a condition of one event alone the alias is empty: `name`."""

    alias: str
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-operand`"""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`; `/` is true division, and division by zero is null."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function(argument)`; the argument of `COUNT(*)` is None."""

    function: str
    argument: Expression | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; false where either side is null."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Membership:
    """`operand [NOT] IN (values)`; false where the operand is null."""

    operand: Expression
    values: tuple[Literal, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand IS [NOT] NULL`"""

    operand: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT operand`; two-valued: NOT of a comparison with null is true."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """`part AND part …` or `part OR part …`"""

    operator: OneOf["AND", "OR"]
    parts: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """`[x, y]`: every component of the pattern has the same x and the same y."""

    attributes: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expression: TypeAlias = (
    Literal
    | Attribute
    | Negative
    | Arithmetic
    | Call
    | Comparison
    | Membership
    | IsNull
    | Not
    | Logical
    | Equivalence
)

CONDITIONS = (Comparison, Membership, IsNull, Not, Logical, Equivalence)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct sub-expressions, left to right."""
    match expression:
        case Negative(operand) | Not(operand) | IsNull(operand) | Membership(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Logical(_, parts):
            return parts
        case Call(_, argument):
            return () if argument is None else (argument,)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def aliases(expression: Expression) -> frozenset[str]:
    """The aliases that an expression speaks of."""
    return frozenset(node.alias for node in walk(expression) if isinstance(node, Attribute))


def attributes(expression: Expression) -> frozenset[str]:
    """The attribute names that an expression reads, of whatever alias."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Attribute))


def has_group_call(expression: Expression) -> bool:
    """Does it aggregate over a group, as in `sum(b.volume) > 100`?"""
    return any(isinstance(node, Call) for node in walk(expression))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a top-level AND; the expression itself where there is none."""
    if isinstance(expression, Logical) and expression.operator == "AND":
        return tuple(c for part in expression.parts for c in conjuncts(part))
    return (expression,)


def rename(expression: Expression, names: dict[str, str]) -> Expression:
    """The same expression with aliases replaced."""
    match expression:
        case Attribute(alias, name, span):
            return Attribute(names.get(alias, alias), name, span)
        case Negative(operand, span):
            return Negative(rename(operand, names), span)
        case Not(operand, span):
            return Not(rename(operand, names), span)
        case IsNull(operand, negated, span):
            return IsNull(rename(operand, names), negated, span)
        case Membership(operand, values, negated, span):
            return Membership(rename(operand, names), values, negated, span)
        case Arithmetic(op, left, right, span):
            return Arithmetic(op, rename(left, names), rename(right, names), span)
        case Comparison(op, left, right, span):
            return Comparison(op, rename(left, names), rename(right, names), span)
        case Logical(op, parts, span):
            return Logical(op, tuple(rename(p, names) for p in parts), span)
        case Call(function, argument, span):
            return Call(function, None if argument is None else rename(argument, names), span)
        case Literal() | Equivalence():
            return expression


Operator = OneOf["SEQ", "AND", "OR"]

# Nanoseconds in each unit of time that a query may use; the first spelling is what is printed.
UNITS: dict[str, int] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "hour": 3600 * 10**9,
    "day": 86400 * 10**9,
}


@dataclass(frozen=True, slots=True)
class One:
    """`E`: a single event."""


@dataclass(frozen=True, slots=True)
class Plus:
    """`E+`: every non-empty choice of events, each before the next."""


@dataclass(frozen=True, slots=True)
class Exactly:
    """`E^n`: n successive events, a sliding group."""

    count: int


@dataclass(frozen=True, slots=True)
class All:
    """`ALL E`: the one maximal group."""


Quantifier: TypeAlias = One | Plus | Exactly | All
ONE = One()


@dataclass(frozen=True, slots=True)
class Component:
    """`[ALL] Type[+|^n] [alias]`: the pattern's leaf."""

    type: str
    alias: str | None = None
    quantifier: Quantifier = ONE
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def name(self) -> str:
        """What conditions call it: its alias, or its type where it has none."""
        return self.alias if self.alias is not None else self.type


@dataclass(frozen=True, slots=True)
class Negation:
    """`!part`"""

    part: Pattern
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """`SEQ(…)`, `AND(…)` or `OR(…)`, in whichever of the two forms it was written."""

    operator: Operator
    parts: tuple[Pattern, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Pattern: TypeAlias = Component | Negation | Operation


_EXACT = Context(prec=2 * MAX_NUMBER_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Duration:
    """An amount of time, such as `10 min`, or of events, such as `100 EVENTS`."""

    amount: Decimal
    unit: str  # a key of UNITS, or "EVENTS"
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def is_count(self) -> bool:
        return self.unit == "EVENTS"

    @property
    def size(self) -> Decimal:
        """In nanoseconds, or in events; exact."""
        return self.amount if self.is_count else _EXACT.multiply(self.amount, UNITS[self.unit])


@dataclass(frozen=True, slots=True)
class Aggregates:
    """`AGG COUNT(*), SUM(a.x) HAVING …`; `texts` are the aggregates as they were written."""

    items: tuple[Expression, ...]
    having: Expression | None = None
    texts: tuple[str, ...] = field(default=(), compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One item of RETURN: an alias, `alias.attr`, or any value with `AS name`."""

    value: Expression | str
    name: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Return:
    """`RETURN a.id, b, a.x + b.x AS total LIMIT 3`"""

    items: tuple[Item, ...]
    limit: int | None = None  # matches that end at one moment
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One parsed query."""

    name: str | None
    pattern: Pattern
    within: Duration
    output: Aggregates | Return
    where: Expression | None = None
    partition_by: tuple[str, ...] = ()
    slide: Duration | None = None
    text: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    partition_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    number: int = field(default=0, compare=False, repr=False)  # its place in a workload, from 1


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
            return f"{print_name(alias)}.{print_name(name)}", _ATOM
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
            return "[" + ", ".join(map(print_name, names)) + "]", _ATOM
        case _:
            assert_never(expression)


def _after_minus(text: str) -> str:
    """Two minus signs in a row would start a comment."""
    return " " + text if text.startswith("-") else text
