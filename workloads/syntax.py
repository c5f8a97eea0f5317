"""Queries as parsed: patterns, windows and what is given of their matches."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as OneOf

from workloads.errors import NOWHERE, Span
from workloads.expressions import Attribute, Expression
from workloads.limits import MAX_NUMBER_CHARACTERS
from workloads.sql.statement import Statement

if TYPE_CHECKING:
    from workloads.situations.syntax import Situations

Operator = OneOf["SEQ", "AND", "OR"]
Strategy = OneOf["any", "next", "strict", "latest"]  # which matches of a pattern count
STRATEGIES: tuple[Strategy, ...] = ("any", "next", "strict", "latest")
Mark = OneOf["strict", "next"]  # `:` and `>` before a part of a SEQ
MARKS: dict[Mark, str] = {"strict": ":", "next": ">"}
Skip = OneOf["to next event", "past last event"]  # where the next match may start

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
class ConsecutivePlus:
    """`E:+`: as `E+`, with no other event of the partition between two members."""


@dataclass(frozen=True, slots=True)
class Exactly:
    """`E^n`: n successive events, a sliding group."""

    count: int


@dataclass(frozen=True, slots=True)
class All:
    """`ALL E`: the one maximal group."""


@dataclass(frozen=True, slots=True)
class Between:
    """`E{n,m}`: every choice of n to m events, each before the next; `E{n,}`: of n or more.

    `consecutive`, as in `E:{n,m}`: with no other event of the partition between two members.
    """

    least: int
    most: int | None
    consecutive: bool = False


Quantifier: TypeAlias = One | Plus | ConsecutivePlus | Exactly | All | Between
ONE = One()


Edge = OneOf["start", "end"]
EDGES: tuple[Edge, ...] = ("start", "end")


@dataclass(frozen=True, slots=True)
class Component:
    """`[ALL] Type[+|^n|{n,m}|?|*] [alias]`: the pattern's leaf.

    An `optional` one may be bound to nothing: `E?` is an optional `E`, `E*` an optional `E+`. With
    an `edge`, as in `start(Speeding)`, its type is the name of a situation of the stream. Of
    `(SEQ(B b, C c))+ g` it has what is `repeated`, and no type. `orders.View` is of the `source`
    orders alone.
    """

    type: str
    alias: str | None = None
    quantifier: Quantifier = ONE
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    optional: bool = False
    edge: Edge | None = None
    repeated: Pattern | None = None
    source: str | None = None

    @property
    def name(self) -> str:
        """What conditions call it: its alias, or its type where it has none."""
        if self.alias is None and self.repeated is not None:
            return "chain"
        return self.alias if self.alias is not None else self.type


@dataclass(frozen=True, slots=True)
class Negation:
    """`!part`; or, last in a SEQ, what `UNTIL part` says: it ends what waits for its key."""

    part: Pattern
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    until: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """`SEQ(…)`, `AND(…)` or `OR(…)`, in whichever of the two forms it was written.

    `marks` are those before the parts of a SEQ; empty where no part has one.
    """

    operator: Operator
    parts: tuple[Pattern, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    marks: tuple[Mark | None, ...] = ()

    @property
    def marked_parts(self) -> tuple[tuple[Mark | None, Pattern], ...]:
        """The parts, each with the mark before it."""
        marks = self.marks or (None,) * len(self.parts)
        return tuple(zip(marks, self.parts, strict=True))


@dataclass(frozen=True, slots=True)
class JoinSide:
    """A component of a join and the window in which its events wait for a partner."""

    component: Component
    within: Duration


@dataclass(frozen=True, slots=True)
class Join:
    """`JOIN(P p WITHIN w1, Q q WITHIN w2)`; `outer`: `LEFT JOIN`, with left events alone too."""

    left: JoinSide
    right: JoinSide
    outer: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Pattern: TypeAlias = Component | Negation | Operation | Join


_EXACT = Context(prec=2 * MAX_NUMBER_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Duration:
    """An amount of time, such as `10 min`, or of events, such as `100 EVENTS`."""

    amount: Decimal
    unit: str  # a key of UNITS, or "EVENTS"
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    inclusive: bool = False  # events just that far apart are in one window too

    @property
    def is_count(self) -> bool:
        return self.unit == "EVENTS"

    @property
    def size(self) -> Decimal:
        """In nanoseconds, or in events; exact."""
        return self.amount if self.is_count else _EXACT.multiply(self.amount, UNITS[self.unit])


@dataclass(frozen=True, slots=True)
class Grouping:
    """`a.region AS region` of a `GROUP BY`; without `AS` the attribute's name."""

    attribute: Attribute
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregates:
    """`AGG COUNT(*), SUM(a.x) GROUP BY a.y HAVING …`; `texts` are the aggregates as written."""

    items: tuple[Expression, ...]
    having: Expression | None = None
    texts: tuple[str, ...] = field(default=(), compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    groups: tuple[Grouping, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One item of RETURN: an alias, `alias.attr`, any value with `AS name`, or `*`.

    Its value is None for `*`, which stands for every positive component.
    """

    value: Expression | str | None
    name: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Kept:
    """`FIRST 3` or `LAST 3` of a `KEEP`."""

    end: OneOf["first", "last"]
    number: int


@dataclass(frozen=True, slots=True)
class Return:
    """`RETURN a.id, b, a.x + b.x AS total LIMIT 3 SUPPRESS 10 min KEEP FIRST 5`"""

    items: tuple[Item, ...]
    limit: int | None = None  # matches that end at one moment
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    suppress: Duration | None = None
    keep: tuple[Kept, ...] = ()  # one after the other


Strictness = OneOf["deduplication", "order", "increase"]
FunnelRows = OneOf["steps", "levels"]
FUNNEL_ROWS: tuple[FunnelRows, ...] = ("steps", "levels")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`EXCLUDE E e BETWEEN a AND b`"""

    component: Component
    first: str
    last: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Funnel:
    """`FUNNEL SEQ(A a, B b) STRICT ORDER EXCLUDE E e BETWEEN a AND b BY a.country RETURN STEPS`

    Its steps are the query's pattern.
    """

    strict: tuple[Strictness, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    by: tuple[Attribute, ...] = ()
    gives: tuple[FunnelRows, ...] = FUNNEL_ROWS
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TiedKey:
    """`(a.entity_id, b.parent_id) AS entity`: a key of which each component has its own column."""

    parts: tuple[Attribute, ...]
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    optional: bool = False  # null is a value like others


@dataclass(frozen=True, slots=True)
class KeyLabel:
    """`'high' AS level`: a text that the key of each row has besides."""

    value: str
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One parsed query; without `within` nothing bounds its matches."""

    name: str | None
    pattern: Pattern
    within: Duration | None
    output: Aggregates | Return | Statement | Situations | Funnel
    where: Expression | None = None
    partition_by: tuple[str, ...] = ()
    slide: Duration | None = None
    strategy: Strategy = "any"
    tied_keys: tuple[TiedKey, ...] = ()
    key_labels: tuple[KeyLabel, ...] = ()
    session: bool = False  # `within` is the gap that ends a session
    counted_types: tuple[str, ...] = ()  # of the events that a count window counts; all if none
    from_first: bool = False
    empty_rows: bool = False
    into: str | None = None
    into_only: bool = False  # its rows are no results
    skip: Skip | None = None
    text: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    partition_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    strategy_span: Span = field(default=NOWHERE, compare=False, repr=False)
    clause_spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)
    skip_span: Span = field(default=NOWHERE, compare=False, repr=False)
    number: int = field(default=0, compare=False, repr=False)  # its place in a workload, from 1
    part_of: str | None = None  # the name of the query for which alone it is
    notation: str | None = None  # the language of its text, a key of `NOTATIONS`; None: Sheaf's

    def span_of(self, clause: str) -> Span:
        """Where a clause stands that may be left out."""
        return dict(self.clause_spans).get(clause, NOWHERE)
