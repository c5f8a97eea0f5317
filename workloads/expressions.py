"""Values and conditions as parsed, and what can be asked of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
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
# Functions of one value, with how many constants may follow it.
VALUE_FUNCTIONS = {
    "lower": (0, 0),
    "upper": (0, 0),
    "length": (0, 0),
    "substring": (1, 2),
    "text": (0, 0),
    "number": (0, 0),
}
TextOperator = OneOf["LIKE", "CONTAINS", "STARTS WITH", "ENDS WITH", "MATCHES", "IN CIDR"]


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
class Function:
    """`lower(operand)`, `substring(operand, 2, 3)`: a function of one value; null of a null."""

    name: str
    operand: Expression
    constants: tuple[int, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextTest:
    """`operand [NOT] CONTAINS ANY (patterns)`, or `ALL (patterns)` where `every`.

    False where the operand is null. A test with a null pattern does not hold. Without regard to
    case is `lower(operand)` with patterns in lower case; of MATCHES it is a flag of the pattern.
    """

    operator: TextOperator
    operand: Expression
    patterns: tuple[Expression, ...]
    every: bool = False
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
    | Function
    | Comparison
    | Membership
    | TextTest
    | IsNull
    | Not
    | Logical
    | Equivalence
)

CONDITIONS = (Comparison, Membership, TextTest, IsNull, Not, Logical, Equivalence)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct sub-expressions, left to right."""
    match expression:
        case Negative(operand) | Not(operand) | IsNull(operand) | Membership(operand):
            return (operand,)
        case Function(_, operand):
            return (operand,)
        case TextTest(_, operand, patterns):
            # Constants apart, which may be hundreds.
            return (operand, *(p for p in patterns if not isinstance(p, Literal)))
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


def without_aliases(expression: Expression) -> Expression:
    """A condition on one event: `process.name` is a path in it, and not a component's attribute."""
    return _mapped(expression, lambda a: f"{a.alias}.{a.name}" if a.alias else a.name)


def _mapped(expression: Expression, name: Callable[[Attribute], str]) -> Expression:
    match expression:
        case Attribute(_, _, span):
            return Attribute("", name(expression), span)
        case Logical(op, parts, span):
            return Logical(op, tuple(_mapped(p, name) for p in parts), span)
        case Negative() | Not() | IsNull() | Membership() | Function():
            return replace(expression, operand=_mapped(expression.operand, name))
        case TextTest(_, operand, patterns):
            mapped = tuple(_mapped(p, name) for p in patterns)
            return replace(expression, operand=_mapped(operand, name), patterns=mapped)
        case Arithmetic() | Comparison():
            left, right = _mapped(expression.left, name), _mapped(expression.right, name)
            return replace(expression, left=left, right=right)
        case _:
            return expression


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
        case Function(function, operand, constants, span):
            return Function(function, rename(operand, names), constants, span)
        case TextTest(test, operand, patterns, every, negated, span):
            renamed = tuple(p if isinstance(p, Literal) else rename(p, names) for p in patterns)
            return TextTest(test, rename(operand, names), renamed, every, negated, span)
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
