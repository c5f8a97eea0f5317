"""Value and condition expressions: plain data, shared by parsed queries and the IR.

Spans say where an expression was written; they never take part in equality, so that two
predicates are the same whenever they say the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from typing import Literal as OneOf

from workloads.errors import NOWHERE, Span

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
