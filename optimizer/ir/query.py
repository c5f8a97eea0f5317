"""Bound queries: what they look for, in which windows and partitions, and what they give."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple
from typing import Literal as OneOf

from optimizer.ir.funnels import FunnelClause
from optimizer.ir.keys import AddedKey, ComponentKey, GroupKey, key_name
from optimizer.ir.pattern import (
    Event,
    Pattern,
    Proj,
    Symbol,
    alternatives,
    events,
    has_optional,
    waits,
    walk,
)
from optimizer.ir.recognition import Recognition
from optimizer.ir.situations import Temporal
from workloads.errors import TooLargeError, UnsupportedError
from workloads.expressions import Call, Expression, aliases
from workloads.imported_rules import RefusedRule
from workloads.syntax import Kept, Strategy
from workloads.workload import NO_STATISTICS, Statistics, Stream

if TYPE_CHECKING:
    from optimizer.ir.produced import ProducedType

AggregateFunction = OneOf[
    "count",
    "count distinct",
    "sum",
    "avg",
    "min",
    "max",
    "first",
    "last",
    "var",
    "stddev",
    "var_pop",
    "stddev_pop",
]


ENDLESS = 2**62  # the size of a window that nothing bounds


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN`: a size in nanoseconds, or in events.

    With `session` it is the gap that ends a session. Of a window in events only those of the types
    `of` are counted; all where none is named.
    """

    size: int
    is_count: bool = False
    session: bool = False
    of: tuple[str, ...] = ()
    is_inclusive: bool = False  # a tick more than the size, which has a nanosecond more for it

    @property
    def is_endless(self) -> bool:
        """Is there no WITHIN, so that a match may be as long as the stream?"""
        return self.size == ENDLESS

    @property
    def is_timed(self) -> bool:
        """Is it a stretch of time, so that no more of the stream is needed at once?"""
        return not self.is_count and not self.is_endless

    def ticks(self, tick: int) -> int:
        """The size in ticks of `tick` nanoseconds each; a count stays as it is."""
        if self.is_count or self.is_endless:
            return self.size
        if self.is_inclusive:
            return whole_ticks(self.size - 1, tick, "window") + 1
        return whole_ticks(self.size, tick, "window")


def whole_ticks(nanoseconds: int, tick: int, what: str) -> int:
    """Nanoseconds as ticks of the stream's time; refuses what is not a whole number of them."""
    if nanoseconds % tick:
        raise UnsupportedError(
            f"a {what} of {nanoseconds} ns is not a whole number of the stream's time unit of "
            f"{tick} ns; use a multiple of it, or declare a finer unit"
        )
    return nanoseconds // tick


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`SUM(a.x * a.y)`; `operand` is None for `COUNT(*)`, `text` is how it was written."""

    function: AggregateFunction
    operand: Expression | None
    text: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What an aggregate query gives at each trigger or slide.

    `having` is a condition over `Call(function, operand)` and constants.
    """

    items: tuple[Aggregate, ...]
    having: Expression | None = None


@dataclass(frozen=True, slots=True)
class Funnel(Aggregation):
    """What a funnel gives; `items` are the attributes that it reads of the first step's event."""

    clause: FunnelClause | None = None

    @property
    def funnel(self) -> FunnelClause:
        assert self.clause is not None
        return self.clause


@dataclass(frozen=True, slots=True)
class ReturnAlias:
    """`RETURN a`: the whole event, or the whole group, under its alias or under `name`."""

    alias: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ReturnAttribute:
    """`RETURN a.x`: one field of the alias' object."""

    alias: str
    attribute: str


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """`RETURN a.x + b.x AS total`: a value of its own."""

    value: Expression
    name: str


@dataclass(frozen=True, slots=True)
class ReturnEvents:
    """`RETURN [a, b] AS events`: a list of whole events, of single components, in this order."""

    aliases: tuple[str, ...]
    name: str


ReturnItem = ReturnAlias | ReturnAttribute | ReturnValue | ReturnEvents


@dataclass(frozen=True, slots=True)
class MatchLimit:
    """How many matches are given of those of one key that end at one moment.

    They are the first by the times of their events, component by component in this order.
    """

    number: int
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmptyGroup:
    """A group that is a list without events where it is absent.

    In a part of an `OR` that is so where the part matched: where one of the components `beside` it
    there is bound.
    """

    alias: str
    beside: frozenset[str] | None = None

    def is_empty(self, bound: Set[str]) -> bool:
        """Is it a list without events in a match that binds these components?"""
        matched = self.beside is None or not self.beside.isdisjoint(bound)
        return matched and self.alias not in bound


@dataclass(frozen=True, slots=True)
class Construction:
    """What a detection query gives for each match."""

    items: tuple[ReturnItem, ...]
    limit: MatchLimit | None = None
    suppress: int | None = None  # nanoseconds behind a match in which others of its key are not
    keep: tuple[Kept, ...] = ()  # of all matches, in the order in which they come
    empty_groups: tuple[EmptyGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The windows of a join's two sides; `outer`: left events without partner are rows too."""

    left: Window
    right: Window
    outer: bool = False

    @property
    def is_count(self) -> bool:
        """Is one of them counted in events?"""
        return self.left.is_count or self.right.is_count


@dataclass(frozen=True, slots=True)
class RowPattern(Construction):
    """What MATCH_RECOGNIZE gives; `items` are the columns that it reads.

    What it matches depends on all rows of a partition before.
    """

    clause: Recognition | None = None

    @property
    def recognition(self) -> Recognition:
        assert self.clause is not None
        return self.clause


@dataclass(frozen=True, slots=True)
class SituationPattern(Construction):
    """What a query about situations gives; `items` are the values that it reads of their events."""

    clause: Temporal | None = None

    @property
    def temporal(self) -> Temporal:
        assert self.clause is not None
        return self.clause


@dataclass(frozen=True, slots=True)
class FixedAttribute:
    """An attribute of the key that has one value in all rows, and its place in the key."""

    place: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Query:
    """One bound query.

    `conditions` are the conjuncts that tie components, aggregate over a group, or speak of none.
    A conjunct belongs to the innermost negation among its aliases' scopes, and holds where one of
    its aliases is bound to nothing (a part of an OR that did not match).

    `key` are the attributes that partition the stream. Those of `fixed_key`, in ascending order of
    place, are part of the key of each result too, but every component asks for their one value.
    `tied_key` are keys besides that differ by component; in results they come last.

    Its rows are events of the type `into`. It `reads` events of types that other queries make; of
    those that are `lasting` an event may start before it ends.
    """

    name: str
    pattern: Pattern
    conditions: tuple[Expression, ...]
    key: tuple[str, ...]
    window: Window
    output: Aggregation | Construction
    slide: int | None = None  # nanoseconds, or events for a count window
    fixed_key: tuple[FixedAttribute, ...] = ()
    strategy: Strategy = "any"  # which of the matches count
    tied_key: tuple[ComponentKey, ...] = ()
    groups: tuple[GroupKey, ...] = ()  # what its aggregates are split by, besides its key
    join: JoinWindows | None = None  # of a pattern `And` of two events; `window` is the wider
    from_first: bool = False  # windows begin with each partition's first event
    empty_rows: bool = False  # windows without a match give a row too
    # A match that overlaps an earlier one does not count: the components by whose moments matches
    # are compared that begin and end alike. Empty: all count.
    skips_past: tuple[str, ...] = ()
    into: str | None = None
    reads: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()
    inner: bool = False  # a part of another query, for which alone its rows are

    @property
    def added_keys(self) -> tuple[AddedKey, ...]:
        """The keys by component for which events are taken once for each value.

        STRATEGY LATEST, which keeps what waits by key, reads each component's column by itself.
        """
        return self.groups if self.strategy == "latest" else (*self.tied_key, *self.groups)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """The columns by which its events are parted besides its key."""
        return tuple(key.added_column for key in self.added_keys)

    def passed_over(self, event: Event) -> Event:
        """A component as it is when no event that it could take may be left out.

        Its events are then those of all groups: aggregates are split by which of them was taken.
        """
        asked = {key.membership for key in self.groups}
        left = tuple(p for p in event.symbol.predicates if p not in asked)
        return replace(event, symbol=Symbol(event.symbol.type, left))

    @property
    def is_triggered(self) -> bool:
        """Is it evaluated at each event that can end a match?"""
        return isinstance(self.output, Aggregation) and self.slide is None and not is_funnel(self)

    @property
    def has_own_clock(self) -> bool:
        """Do its windows follow another clock than the time or the rank of events?"""
        window = self.window
        return window.session or bool(window.of) or self.from_first or self.empty_rows

    @property
    def is_given_when_certain(self) -> bool:
        """May a row be certain long behind its last event, or at no time that is known before?"""
        return self.has_own_clock or (self.join is not None and self.join.is_count)

    @property
    def is_rewritten(self) -> bool:
        """May rules rewrite it? They keep every match, and not which of them count, nor what else
        there is in a window.
        """
        if isinstance(self.output, SituationPattern | Funnel):
            return False
        plain = self.strategy == "any" and self.join is None and not self.has_own_clock
        return plain and not has_optional(self.pattern)

    @property
    def special_windows(self) -> str | None:
        """What its windows are, where they are none of one width in time or in events."""
        if isinstance(self.output, Funnel):
            return "it is a funnel, of which the level of each key is asked"
        if self.join is not None:
            return "each side of its JOIN has its own window"
        if self.window.session:
            return "its windows are sessions"
        if self.window.of:
            return f"its windows count events of {', '.join(self.window.of)}"
        if self.from_first:
            return "its windows begin with each partition's first event"
        return "windows without a match give rows too" if self.empty_rows else None

    @property
    def is_timed(self) -> bool:
        """Does its window bound how far apart in time events are that matter to each other?"""
        return self.window.is_timed and not self.has_own_clock

    @property
    def result_key(self) -> tuple[tuple[str, str | None], ...]:
        """The attributes of the key as results have it, in order, each with its value if fixed."""
        found: list[tuple[str, str | None]] = [(key_name(name), None) for name in self.key]
        for fixed in self.fixed_key:
            found.insert(fixed.place, (fixed.name, fixed.value))
        return (*found, *((key.name, None) for key in self.named_keys))

    @property
    def named_keys(self) -> tuple[AddedKey, ...]:
        """What splits results under names of its own, besides attributes of all components."""
        return (*self.tied_key, *self.groups)


@dataclass(frozen=True)
class BoundWorkload:
    """The bound queries of a workload and the stream they read."""

    name: str
    stream: Stream
    queries: tuple[Query, ...]
    statistics: Statistics = NO_STATISTICS
    produced: tuple[ProducedType, ...] = ()  # the types of events that queries make
    # Rules that are not among the queries; those who only know of queries need not.
    refused: tuple[RefusedRule, ...] = field(default=(), compare=False, repr=False)

    @property
    def is_chained(self) -> bool:
        """Does a query read rows of another?"""
        return any(query.reads for query in self.queries)

    @property
    def written(self) -> tuple[Query, ...]:
        """The queries without those that are only parts of them, as `(SEQ(…))+` and `start(S)`."""
        return tuple(query for query in self.queries if not is_inner(query))

    @property
    def named_types(self) -> frozenset[str]:
        """The types that queries name, as they are written."""
        queries = [query for query in self.queries if not is_edge(query)]
        named = {event.symbol.type for query in queries for event in events(query.pattern)}
        return frozenset(named - {query.into for query in queries if query.inner})

    @property
    def of_stream(self) -> BoundWorkload:
        """The workload with what its queries ask of the stream's own events, and nothing more."""
        from optimizer.ir.produced import of_stream

        return of_stream(self) if self.is_chained else self

    def query(self, name: str) -> Query:
        """The query of that name."""
        return next(q for q in self.queries if q.name == name)


class Reading(NamedTuple):
    """One OR-free reading of a query's pattern; `asked` is the query that it makes alone."""

    query: Query
    pattern: Pattern
    asked: Query

    @staticmethod
    def of(query: Query, pattern: Pattern) -> Reading:
        named = {event.alias for event in events(pattern)}
        conditions = tuple(c for c in query.conditions if aliases(c) <= named)
        return Reading(query, pattern, replace(query, pattern=pattern, conditions=conditions))


def waits_for_window(query: Query) -> bool:
    """Can events after a match's last decide whether it is one?"""
    if not isinstance(query.output, Construction):
        return False
    if query.join is not None:
        return query.join.outer
    if query.skips_past:
        return True  # one that began earlier may end later
    if isinstance(query.output, SituationPattern):
        return False  # it ends when it is certain
    if any(isinstance(node, Proj) for node in walk(query.pattern)):
        return True
    try:
        return any(map(waits, alternatives(query.pattern)))
    except TooLargeError:
        return True  # which is said when it runs


def is_about_situations(query: Query) -> bool:
    """Has it a clause DEFINE?"""
    return isinstance(query.output, SituationPattern)


def is_row_pattern(query: Query) -> bool:
    """Is it a clause MATCH_RECOGNIZE?"""
    return isinstance(query.output, RowPattern)


def is_edge(query: Query) -> bool:
    """Does it stand for `start(S)` or `end(S)` in others?"""
    output = query.output
    return isinstance(output, SituationPattern) and output.temporal.edge is not None


def is_inner(query: Query) -> bool:
    """Is it a part of others, so that its rows are for these alone?"""
    return query.inner or is_edge(query)


def is_cut_by_time(query: Query) -> bool:
    """Do the events of some stretch before a time tell all that matches from then on depend on?

    Not of situations, not where all events are needed at once, and not where a match counts by
    those before it.
    """
    if is_about_situations(query) or is_unbounded(query):
        return False
    return query.is_timed and not query.skips_past


def is_funnel(query: Query) -> bool:
    """Does it ask how far each key comes?"""
    return isinstance(query.output, Funnel)


SUPPRESSED = Call("suppressed", None)  # how many matches were left out for one


def picks_matches(query: Query) -> bool:
    """Are only some of its matches given, by the order in which they come?"""
    output = query.output
    return isinstance(output, Construction) and bool(output.suppress is not None or output.keep)


def is_unbounded(query: Query) -> bool:
    """Does it need all events at once? The next event of a key may never come."""
    if picks_matches(query) or is_funnel(query):
        return True
    if query.window.is_endless or query.is_given_when_certain:
        return True
    return query.window.is_count and (query.slide is not None or waits_for_window(query))


def unbounded_reason(query: Query, time: str) -> str:
    """Why it needs all events of a stream at once, and what to write instead.

    `time` is the column of the stream's times.
    """
    if isinstance(query.output, RowPattern):
        why = query.output.recognition.needs_end(time) or "its rows are known with the last"
        return f"{why}, or run it over stored events, with 'sheaf run'"
    if is_funnel(query):
        return (
            "how far a key comes, and what its steps come to, is known when all events are; run "
            "it over stored events, with 'sheaf run' or a job of mode batch"
        )
    if picks_matches(query) and query.window.is_count and waits_for_window(query):
        return (
            "when a match is certain that waits in a window of events is known of no time, so that "
            "SUPPRESS cannot go by it; leave SUPPRESS or the last negation out"
        )
    if picks_matches(query):
        return (
            "which of its matches KEEP gives depends on all matches; leave it out, or run it over "
            "stored events, with 'sheaf run'"
        )
    if query.window.is_endless:
        return (
            "it has no window, so that its state would grow with the stream; add WITHIN (in EQL: "
            "with maxspan=…)"
        )
    if query.is_given_when_certain:
        limit = isinstance(query.output, Construction) and query.output.limit is not None
        word = "GROUP BY" if query.groups else "LIMIT" if limit else "INTO"
        what = query.special_windows
        return f"{what}, taken live without {word}; leave {word} out, or use a window in time"
    return (
        "its window is counted in events, and a match in it is certain only when further events "
        "have come, which may be never; use a window in time, or WITHIN n EVENTS OF (…)"
    )
