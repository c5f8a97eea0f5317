"""Queries whose rows are events for other queries: `INTO Name`.

A row is an event at the time of its end. One of a match has a start, too, and may last: it is
before another event where it ends before that one starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from optimizer.ir.pattern import And, Event, Neg, Or, Pattern, Proj, Seq, Symbol, events, parts_of
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Construction,
    Query,
    SituationPattern,
    is_about_situations,
    is_cut_by_time,
    is_edge,
    is_unbounded,
)
from workloads import expressions as ex
from workloads.syntax import One

TYPE = "$type"  # of an event that a query made, where the stream has no column of types
STARTED, ENDED = "$start", "$end"  # nanoseconds from the first event that is at hand
_HIDDEN = {TYPE, STARTED, ENDED}
START = "start"  # what queries call the start of an event that a query made


def reads_produced(query: Query) -> bool:
    """Does a query read events that others make?"""
    return bool(query.reads)


@lru_cache(maxsize=64)
def _linked(queries: tuple[Query, ...]) -> tuple[tuple[str, ...], ...]:
    """The names of queries that read one another's rows, those together that any chain ties."""
    makers = {query.into: query.name for query in queries if query.into is not None}
    group = {query.name: {query.name} for query in queries}
    for query in queries:
        for name in query.reads:
            maker = makers.get(name)
            if maker is not None and group[maker] is not group[query.name]:
                joined = group[maker] | group[query.name]
                for member in joined:
                    group[member] = joined
    found: list[tuple[str, ...]] = []
    for query in queries:
        members = group[query.name]
        names = tuple(q.name for q in queries if q.name in members)
        if len(names) > 1 and names[0] == query.name:
            found.append(names)
    return tuple(found)


def chains_of(queries: Iterable[Query]) -> tuple[tuple[str, ...], ...]:
    """The names of queries that read one another's rows, chain by chain."""
    return _linked(tuple(queries))


def chained_names(queries: Iterable[Query]) -> frozenset[str]:
    """The names of all queries that make events for others, or read such."""
    return frozenset(name for chain in chains_of(queries) for name in chain)


def rounds_of(queries: Sequence[Query]) -> list[tuple[Query, ...]]:
    """The queries of chains in rounds: each reads only what those of earlier rounds make."""
    makers = {query.into: query for query in queries if query.into is not None}
    level: dict[str, int] = {}

    def of(query: Query) -> int:
        if query.name not in level:
            before = [of(makers[name]) for name in query.reads if name in makers]
            level[query.name] = 1 + max(before, default=-1)
        return level[query.name]

    count = 1 + max(map(of, queries), default=-1)
    return [tuple(q for q in queries if level[q.name] == number) for number in range(count)]


def chain_key(queries: Sequence[Query]) -> tuple[str, ...]:
    """The attributes that every query of a chain has in its key: nothing goes beyond their values.

    What a query makes has its key, so that the rows of one value are made of events of that value.
    """
    keys = [frozenset(query.key) for query in queries]
    return tuple(sorted(frozenset.intersection(*keys))) if keys else ()


def routing_keys(queries: Sequence[Query]) -> dict[str, frozenset[str]]:
    """The attributes by whose values events may be parted, by query."""
    found = {query.name: frozenset(query.key) for query in queries}
    for chain in chains_of(queries):
        common = frozenset(chain_key([query for query in queries if query.name in chain]))
        found |= dict.fromkeys(chain, common)
    return found


def names_cut_by_time(queries: Sequence[Query]) -> frozenset[str]:
    """The queries that can run over stretches of time; those of a chain only together."""
    cut = {query.name for query in queries if is_cut_by_time(query)}
    for chain in chains_of(queries):
        if not is_chain_cut_by_time(query for query in queries if query.name in chain):
            cut -= set(chain)
    return frozenset(cut)


def is_chain_cut_by_time(queries: Iterable[Query]) -> bool:
    """Can the queries of a chain run over stretches of time?

    Which of the matches are left that do not overlap depends on all before.
    """
    return all(is_cut_by_time(query) and not query.skips_past for query in queries)


def is_chain_sliced(queries: Iterable[Query]) -> bool:
    """Can the queries of a chain run slice by slice? Those about situations of the stream's own
    events take along what tells of situations that began before.
    """
    return all(
        not query.reads and not is_unbounded(query)
        if is_about_situations(query)
        else is_chain_cut_by_time((query,))
        for query in queries
    )


def is_lasting(query: Query, event: Event) -> bool:
    """May an event of a component have a start before its end?"""
    return event.symbol.type in query.lasting


# --- what is asked of the stream alone ------------------------------------------------------------


def of_stream(workload: BoundWorkload) -> BoundWorkload:
    """The workload with what its queries ask of the stream's own events, and nothing more.

    What other queries make is not in the stream: neither are its types nor its fields.
    """
    kept = tuple(found for query in workload.queries if (found := _of_stream(query)) is not None)
    return replace(workload, queries=kept)


def queries_of_stream(queries: Iterable[Query]) -> list[Query]:
    """The same of some queries."""
    return [found for query in queries if (found := _of_stream(query)) is not None]


def _of_stream(query: Query) -> Query | None:
    if not query.reads:
        return query
    made = frozenset(query.reads)
    pattern = _pruned(query.pattern, made)
    if pattern is None:
        return None
    left = {event.alias for event in events(pattern)}
    conditions = tuple(c for c in query.conditions if ex.aliases(c) <= left)
    conditions = tuple(c for c in conditions if not ex.attributes(c) & _HIDDEN)
    output = query.output
    if isinstance(output, Aggregation):
        kept = tuple(item for item in output.items if _names(item) <= left)
        output = replace(output, items=kept, having=None)
    else:
        output = replace(output, items=tuple(i for i in output.items if _names(i) <= left))
    return replace(query, pattern=pattern, conditions=conditions, output=output, reads=())


def _names(item: object) -> set[str]:
    alias = getattr(item, "alias", None)
    if isinstance(alias, str):
        return {alias}
    value = getattr(item, "operand", None) or getattr(item, "value", None)
    return set() if value is None else set(ex.aliases(value))


def _pruned(node: Pattern, made: frozenset[str]) -> Pattern | None:
    match node:
        case Event(symbol):
            if symbol.type in made:
                return None
            asked = tuple(p for p in symbol.predicates if not ex.attributes(p) & _HIDDEN)
            if asked == symbol.predicates:
                return node
            return replace(node, symbol=Symbol(symbol.type, asked))
        case Neg(part):
            kept = _pruned(part, made)
            return None if kept is None else Neg(kept)
        case Proj(_, part):
            return _pruned(part, made)
        case Seq() | And() | Or():
            found = [kept for part in parts_of(node) if (kept := _pruned(part, made)) is not None]
            positive = [part for part in found if not isinstance(part, Neg)]
            if not positive:  # what must not be there is asked for all the same
                found = [part.part if isinstance(part, Neg) else part for part in found]
            if not found:
                return None
            return found[0] if len(found) == 1 else type(node)(tuple(found))


# --- what a query makes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProducedField:
    """A field of the events that a query makes, and where its rows have it.

    `path` leads to it in a match, or names a column of an aggregate's row; None: it is of the key.
    """

    name: str
    path: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ProducedType:
    """The events that a query makes of its rows; with `lasts` they may have a duration."""

    name: str
    query: str
    fields: tuple[ProducedField, ...]
    lasts: bool

    @property
    def names(self) -> tuple[str, ...]:
        """What its fields are called."""
        return tuple(field.name for field in self.fields)


def makes_points(query: Query) -> bool:
    """Does every row begin when it ends?"""
    if not isinstance(query.output, Construction):
        return True  # an aggregate's row has a time
    if is_edge(query):
        return True
    if isinstance(query.output, SituationPattern) or query.lasting:
        return False
    return isinstance(query.pattern, Event) and isinstance(query.pattern.quantifier, One)
