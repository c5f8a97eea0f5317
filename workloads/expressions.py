"""Values and conditions as parsed, and what can be asked of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from typing import Literal as OneOf

from workloads.errors import NOWHERE, Span

ArithmeticOperator = OneOf["+", "-", "*", "/", "%"]
ComparisonOperator = OneOf["=", "!=", "<", "<=", ">", ">="]
Found = TypeVar("Found")
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
    "slice": (1, 2),
    "text": (0, 0),
    "number": (0, 0),
}
ANY_ENTRY = "any_entry"
# Functions of several values of an event or of several, with how many they take.
JOINT_FUNCTIONS = {"concat": (1, 100), "slice": (2, 3), "index_of": (2, 3), "between": (3, 4)}
FUNCTIONS_TO_TEXTS = ("lower", "upper", "substring", "slice", "text")
TextOperator = OneOf["LIKE", "CONTAINS", "STARTS WITH", "ENDS WITH", "MATCHES", "IN CIDR"]


class Node:
    """Any expression: what has been found out of it is not found out again.

    Large rule sets are asked for the texts, names and hashes of the same conditions many times.
    """

    __slots__ = (
        "known_aliases",
        "known_attributes",
        "known_canonical",
        "known_hash",
        "known_text",
    )
    __match_args__: tuple[str, ...]
    known_aliases: frozenset[str]
    known_attributes: frozenset[str]
    known_canonical: Expression
    known_hash: int
    known_text: str

    def __hash__(self) -> int:
        try:
            return self.known_hash
        except AttributeError:
            compared = (getattr(self, name) for name in self.__match_args__ if name != "span")
            found = hash((type(self).__name__, *compared))
            return self.keep("known_hash", found)

    def keep(self, name: str, found: Found) -> Found:
        """Remember what was found out."""
        object.__setattr__(self, name, found)
        return found


@dataclass(frozen=True, slots=True)
class Literal(Node):
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
class Attribute(Node):
    """`alias.name`; in a condition of one event alone the alias is empty: `name`."""

    alias: str
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class DurationLiteral(Node):
    """`5 s` in a condition or value; a bound query has its nanoseconds instead."""

    amount: Decimal
    unit: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Nanoseconds(Node):
    """`nanoseconds(a.ts, 1000000)`: a time in nanoseconds since its origin.

    A time that is a number counts ticks of so many nanoseconds; a timestamp knows its own.
    """

    operand: Expression
    tick: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Negative(Node):
    """`-operand`"""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`left operator right`; `/` is true division, and division by zero is null."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`function(argument)`; the argument of `COUNT(*)` is None."""

    function: str
    argument: Expression | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`left operator right`; false where either side is null."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Membership(Node):
    """`operand [NOT] IN (values)`; false where the operand is null."""

    operand: Expression
    values: tuple[Literal, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Function(Node):
    """`lower(operand)`, `substring(operand, 2, 3)`: a function of one value; null of a null."""

    name: str
    operand: Expression
    constants: tuple[int, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class JointFunction(Node):
    """`concat(a.x, '|', b.y)`, `slice(a.x, 0, length(a.y))`: a function of several values.

    Null where one of them is null, a list, or not of the kind that it takes.
    """

    name: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class TextTest(Node):
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
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class EntryTest(Node):
    """`any_entry(a.calls, a.calls.name = 'x' AND NOT a.calls.done)`: one entry of a list of structs
    fits the whole condition.

    In it a field of the list is that of the entry. The list has as many entries as the longest of
    the fields that are asked for.
    """

    listed: Attribute
    condition: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__

    def has(self, name: str) -> bool:
        """Is an attribute a field of the entries?"""
        return name == self.listed.name or name.startswith(self.listed.name + ".")


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """`operand IS [NOT] NULL`"""

    operand: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`NOT operand`; two-valued: NOT of a comparison with null is true."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """`part AND part …` or `part OR part …`"""

    operator: OneOf["AND", "OR"]
    parts: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True)
class Equivalence(Node):
    """`[x, y]`: every component of the pattern has the same x and the same y."""

    attributes: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    __hash__ = Node.__hash__


Expression: TypeAlias = (
    Literal
    | Attribute
    | DurationLiteral
    | Nanoseconds
    | Negative
    | Arithmetic
    | Call
    | Function
    | JointFunction
    | Comparison
    | Membership
    | TextTest
    | EntryTest
    | IsNull
    | Not
    | Logical
    | Equivalence
)

CONDITIONS = (Comparison, Membership, TextTest, EntryTest, IsNull, Not, Logical, Equivalence)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct sub-expressions, left to right."""
    found = _CHILDREN.get(type(expression))
    return () if found is None else found(expression)


def _patterns(test: TextTest) -> Iterable[Expression]:
    """Those that are no constants, of which there may be hundreds."""
    return (pattern for pattern in test.patterns if not isinstance(pattern, Literal))


# By type: large rule sets ask this millions of times.
_CHILDREN: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    Negative: lambda e: (e.operand,),
    Not: lambda e: (e.operand,),
    IsNull: lambda e: (e.operand,),
    Membership: lambda e: (e.operand,),
    Function: lambda e: (e.operand,),
    Nanoseconds: lambda e: (e.operand,),
    JointFunction: lambda e: e.arguments,
    EntryTest: lambda e: (e.condition,),
    TextTest: lambda e: (e.operand, *_patterns(e)),
    Arithmetic: lambda e: (e.left, e.right),
    Comparison: lambda e: (e.left, e.right),
    Logical: lambda e: e.parts,
    Call: lambda e: () if e.argument is None else (e.argument,),
}


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def aliases(expression: Expression) -> frozenset[str]:
    """The aliases that an expression speaks of."""
    try:
        return expression.known_aliases
    except AttributeError:
        found = frozenset(node.alias for node in walk(expression) if isinstance(node, Attribute))
        return expression.keep("known_aliases", found)


def attributes(expression: Expression) -> frozenset[str]:
    """The attribute names that an expression reads, of whatever alias."""
    try:
        return expression.known_attributes
    except AttributeError:
        found = frozenset(node.name for node in walk(expression) if isinstance(node, Attribute))
        return expression.keep("known_attributes", found)


def speak_of_texts(conditions: Iterable[Expression]) -> bool:
    """Is there a test of texts, or a function of them, in conditions?"""
    of_texts = TextTest | Function | JointFunction
    return any(isinstance(node, of_texts) for each in conditions for node in walk(each))


def has_group_call(expression: Expression) -> bool:
    """Does it aggregate over a group, as in `sum(b.volume) > 100`, or look back in it by `prev`?"""
    return any(isinstance(node, Call) for node in walk(expression))


PREV = "prev"  # of the event of a group just before
PREVIOUS = "previous"  # of the event of a match just before: what `prev` is under STRATEGY STRICT


def prev_alias(expression: Expression) -> str | None:
    """The component whose event is compared with the one just before; None without `prev(a.x)`."""
    return next(
        (
            node.argument.alias
            for node in walk(expression)
            if isinstance(node, Call)
            and node.function in (PREV, PREVIOUS)
            and isinstance(node.argument, Attribute)
        ),
        None,
    )


def is_of_group(expression: Expression, alias: str) -> bool:
    """Does it aggregate over a group, so that the whole of it has to be known?"""
    return any(
        isinstance(node, Call) and node.function not in (PREV, PREVIOUS) and alias in aliases(node)
        for node in walk(expression)
    )


def with_previous(expression: Expression, function: str) -> Expression:
    """The same with `prev`, or with `previous`, for either."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Call) and node.function in (PREV, PREVIOUS):
            return replace(node, function=function)
        return node

    return transform(expression, change)


def has_duration(expression: Expression) -> bool:
    """Is there a duration in it, as in `b.time - a.time < 5 s`?"""
    return any(isinstance(node, DurationLiteral) for node in walk(expression))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a top-level AND; the expression itself where there is none."""
    if isinstance(expression, Logical) and expression.operator == "AND":
        return tuple(c for part in expression.parts for c in conjuncts(part))
    return (expression,)


def without_aliases(expression: Expression) -> Expression:
    """A condition on one event: `process.name` is a path in it, and not a component's attribute."""
    return with_names(expression, lambda a: f"{a.alias}.{a.name}" if a.alias else a.name)


def with_names(expression: Expression, name: Callable[[Attribute], str]) -> Expression:
    """A condition on one event with other names of its attributes."""
    match expression:
        case Attribute(_, _, span):
            return Attribute("", name(expression), span)
        case Logical(op, parts, span):
            return Logical(op, tuple(with_names(p, name) for p in parts), span)
        case Negative() | Not() | IsNull() | Membership() | Function() | Nanoseconds():
            return replace(expression, operand=with_names(expression.operand, name))
        case EntryTest(listed, condition, span):
            path = Attribute("", name(listed), listed.span)
            return EntryTest(path, with_names(condition, name), span)
        case JointFunction(_, arguments):
            named = tuple(with_names(a, name) for a in arguments)
            return replace(expression, arguments=named)
        case TextTest(_, operand, patterns):
            mapped = tuple(with_names(p, name) for p in patterns)
            return replace(expression, operand=with_names(operand, name), patterns=mapped)
        case Arithmetic() | Comparison():
            left, right = with_names(expression.left, name), with_names(expression.right, name)
            return replace(expression, left=left, right=right)
        case _:
            return expression


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Apply `change` to every node, children first."""

    def inner(part: Expression) -> Expression:
        return transform(part, change)

    changed: Expression
    match expression:
        case Negative(operand) | Not(operand) | IsNull(operand) | Membership(operand):
            changed = replace(expression, operand=inner(operand))
        case Function(_, operand) | Nanoseconds(operand):
            changed = replace(expression, operand=inner(operand))
        case EntryTest(_, condition):
            changed = replace(expression, condition=inner(condition))
        case JointFunction(_, arguments):
            changed = replace(expression, arguments=tuple(map(inner, arguments)))
        case TextTest(_, operand, patterns):
            mapped = tuple(p if isinstance(p, Literal) else inner(p) for p in patterns)
            changed = replace(expression, operand=inner(operand), patterns=mapped)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            changed = replace(expression, left=inner(left), right=inner(right))
        case Logical(_, parts):
            changed = replace(expression, parts=tuple(map(inner, parts)))
        case Call(_, argument) if argument is not None:
            changed = replace(expression, argument=inner(argument))
        case _:
            changed = expression
    return change(changed)


def without_groups(expression: Expression, absent: Collection[str]) -> Expression:
    """A value where some groups have no event: a count of them is 0, any other aggregate null."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Call) and not aliases(node).isdisjoint(absent):
            return Literal(0 if node.function == "count" else None)
        return node

    return transform(expression, change)


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
        case EntryTest(listed, condition, span):
            path = Attribute(names.get(listed.alias, listed.alias), listed.name, listed.span)
            return EntryTest(path, rename(condition, names), span)
        case JointFunction(function, arguments, span):
            return JointFunction(function, tuple(rename(a, names) for a in arguments), span)
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
        case Nanoseconds(operand, tick, span):
            return Nanoseconds(rename(operand, names), tick, span)
        case Literal() | Equivalence() | DurationLiteral():
            return expression
