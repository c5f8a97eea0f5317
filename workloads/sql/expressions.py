"""Values and conditions of SQL, as they are written and as they are meant.

What is written has columns, calls and navigation nested in one another. Binding turns that into
what is meant: every leaf that depends on a match says by itself which row it reads (`Pointer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from workloads.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: bool | int | float | str | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Interval:
    """`INTERVAL '10' MINUTE`, a length of time."""

    nanoseconds: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Moment:
    """`TIMESTAMP '2020-01-01 10:00:00'` or a `DATE`."""

    text: str
    is_date: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A column as written, perhaps behind a variable or the name of a table."""

    path: tuple[str, ...]
    quoted: tuple[bool, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AllColumns:
    """`*`, or `A.*`."""

    qualifier: str | None = None
    quoted: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`NOT x` or `-x`"""

    operator: str
    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, `||`, a comparison, `AND` or `OR`; operators in upper case, `<>` for `!=`."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x IS NULL`"""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InList:
    """`x IN (a, b)`"""

    operand: Expression
    items: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Like:
    """`x LIKE 'a%'`; what stands behind the escape character stands for itself."""

    operand: Expression
    pattern: str
    nocase: bool = False
    escape: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN c THEN v … ELSE d END`; branches are pairs."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]
    default: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(x AS type)`; the type is one of `CAST_TYPES`."""

    operand: Expression
    type: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function as it was called; `mode` is RUNNING, FINAL or nothing."""

    name: str  # in upper case
    arguments: tuple[Expression, ...]
    distinct: bool = False
    mode: str = ""
    filtered: bool = False  # FILTER was written, and is a CASE around its value
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# --- what is meant, inside of MATCH_RECOGNIZE ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which row of a match a value is read from.

    Of the rows that are mapped to `variable` (None: to any), so far or with `final` in the whole
    match, the one that is `logical` rows from the first or the last; from it `physical` rows
    further on in the partition.
    """

    variable: str | None = None
    from_first: bool = False
    final: bool = False
    logical: int = 0
    physical: int = 0


@dataclass(frozen=True, slots=True)
class RowValue:
    """The value of a column in the row that a pointer leads to; null where it leads to none."""

    pointer: Pointer
    column: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Classifier:
    """The variable that the row is mapped to which a pointer leads to."""

    pointer: Pointer
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """`MATCH_NUMBER()`: from 1 on in each partition."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Own:
    """Inside of an aggregate: a column of each row that it goes over; None is its classifier."""

    column: str | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate of the rows that are mapped to a variable, so far or in the whole match.

    Without an argument, `COUNT(*)` or `COUNT(A.*)`.
    """

    function: str  # in upper case
    argument: Expression | None
    variable: str | None = None
    final: bool = False
    distinct: bool = False
    second: Expression | None = None  # of MAX_BY and its like
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Given:
    """A column of the rows that the clause gives, for the SELECT around it."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expression: TypeAlias = (
    Literal
    | Interval
    | Moment
    | Column
    | AllColumns
    | Unary
    | Binary
    | IsNull
    | InList
    | Like
    | Case
    | Cast
    | Call
    | RowValue
    | Classifier
    | MatchNumber
    | Own
    | Aggregated
    | Given
)

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
CAST_TYPES = ("int", "float", "string", "bool", "time", "date")


def children(node: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression."""
    found: list[Expression] = []
    for part in fields(node):
        value = getattr(node, part.name)
        if isinstance(value, tuple):
            found += [inner for inner in value if _is_expression(inner)]
        elif _is_expression(value):
            found.append(value)
    return tuple(found)


def walk(node: Expression) -> Iterator[Expression]:
    """The expression and everything below it."""
    yield node
    for part in children(node):
        yield from walk(part)


def rebuilt(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same node over changed parts."""
    changed: dict[str, Any] = {}
    for part in fields(node):
        value = getattr(node, part.name)
        if isinstance(value, tuple) and any(map(_is_expression, value)):
            changed[part.name] = tuple(change(inner) for inner in value)
        elif _is_expression(value):
            changed[part.name] = change(value)
    return replace(node, **changed) if changed else node


def _is_expression(value: Any) -> bool:
    return isinstance(value, _KINDS)


_KINDS = (
    *(Literal, Interval, Moment, Column, AllColumns, Unary, Binary, IsNull, InList, Like, Case),
    *(Cast, Call, RowValue, Classifier, MatchNumber, Own, Aggregated, Given),
)
