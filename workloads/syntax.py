"""Queries as parsed: patterns, windows and what is given of their matches."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Literal as OneOf
from typing import TypeAlias

from workloads.errors import NOWHERE, Span
from workloads.expressions import Expression
from workloads.limits import MAX_NUMBER_CHARACTERS

Operator = OneOf["SEQ", "AND", "OR"]
Strategy = OneOf["any", "next", "strict", "latest"]  # which matches of a pattern count
STRATEGIES: tuple[Strategy, ...] = ("any", "next", "strict", "latest")

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
    strategy: Strategy = "any"
    text: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    partition_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    strategy_span: Span = field(default=NOWHERE, compare=False, repr=False)
    number: int = field(default=0, compare=False, repr=False)  # its place in a workload, from 1
