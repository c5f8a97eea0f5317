"""What every match of a query must have: stages of symbols, one stage before the next.

Stored events that cannot be part of such a chain, nor lie close enough to one to forbid a match or
to ask for a row, need not be read. What this module does not know is refused with the reason, and
is then read as a whole: a query is never pruned by a rule that was not made for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields

from optimizer.access.carried import carried_symbols
from optimizer.ir.pattern import (
    ANY,
    And,
    Event,
    GroupWithout,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    alternatives,
    events,
    last_events,
    positive_events,
    unkept,
    waits,
    walk,
)
from optimizer.ir.query import (
    Aggregation,
    Construction,
    Query,
    RowPattern,
    SituationPattern,
    Window,
    is_funnel,
)
from optimizer.ir.situations import Temporal
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import All, Exactly, One, Plus

MAX_READINGS = 64

Stage = tuple[Symbol, ...]  # symbols that all occur, in any order among themselves

# What the rules below were made for. Another field that says something is another kind of query.
_KNOWN: dict[type, frozenset[str]] = {
    Query: frozenset(
        (
            "name",
            "pattern",
            "conditions",
            "key",
            "window",
            "output",
            "slide",
            "fixed_key",
            "tied_key",
            "groups",
            "strategy",
            "skips_past",
            "into",
            "reads",
            "lasting",
            "inner",
        )
    ),
    Window: frozenset(("size", "is_count", "is_inclusive")),
    Aggregation: frozenset(("items", "having")),
    Construction: frozenset(("items", "limit", "suppress", "keep", "empty_groups")),
    SituationPattern: frozenset(("items", "limit", "suppress", "keep", "empty_groups", "clause")),
    Event: frozenset(("symbol", "alias", "quantifier", "optional")),
    Seq: frozenset(("parts",)),
    And: frozenset(("parts",)),
    Or: frozenset(("parts",)),
    Neg: frozenset(("part", "until", "between")),
    Proj: frozenset(("keep", "part")),
}
_QUANTIFIERS = (One, Plus, Exactly, All, GroupWithout)  # each of at least one event


class NotIndexedError(Exception):
    """Why all events are read for a query."""


@dataclass(frozen=True)
class Lasting:
    """What ends a condition that holds for a while: an event, or silence.

    It ends at the next event `by_next` at the latest, or where for `gap` nanoseconds there is none.
    """

    by_next: bool
    gap: int = 0


@dataclass(frozen=True)
class NeededEvents:
    """Which events the rows of a query can depend on.

    A match has a symbol of each stage of one of the `readings`, each stage wholly before the next,
    all within `window` nanoseconds, or events where they `are_ranks`. Besides these, events of the
    symbols in `near` matter where they are less than a window from an event of such a chain: they
    forbid matches, ask for rows, or are counted. Components have symbols by their `aliases`. What
    is `made` of its rows are events of that type for other queries. With `lasting`, symbols are
    conditions that hold for a while.
    """

    query: str
    readings: tuple[tuple[Stage, ...], ...]
    near: tuple[Symbol, ...]
    window: int
    aliases: tuple[tuple[str, Symbol], ...] = ()
    are_ranks: bool = False
    made: str | None = None
    lasting: Lasting | None = None

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols, each once."""
        chained = [s for reading in self.readings for stage in reading for s in stage]
        return tuple(dict.fromkeys([*chained, *self.near]))


def needed_events(query: Query, with_blocks: bool = False) -> NeededEvents:
    """Which events a query needs; raises `NotIndexedError` where it can be any.

    Windows that count events, situations and queries that read rows of others are for those who
    know all blocks of events, `with_blocks`.
    """
    check_known(query)
    if (query.into is not None or query.reads) and not with_blocks:
        raise NotIndexedError("where rows of a query are events for others, blocks of events tell")
    if query.window.is_count:
        _check_ranks(query, with_blocks)
    if isinstance(query.output, SituationPattern):
        return _situations(query, query.output.temporal, with_blocks)
    try:
        readings = alternatives(query.pattern)
    except TooLargeError as error:
        raise NotIndexedError(str(error)) from error
    if len(readings) > MAX_READINGS:
        raise NotIndexedError(f"its ORs can be read in more than {MAX_READINGS} ways")
    near: dict[Symbol, None] = {}
    staged = []
    aliases = [(event.alias, of_columns(event.symbol)) for event in events(query.pattern)]
    for reading in readings:
        if query.window.is_count and waits(reading):
            raise NotIndexedError("any event can tell, by its rank, when its matches are certain")
        free = unkept(reading)
        bound = tuple(positive_events(reading))
        asked = {event.alias: event.symbol for event in bound}
        if query.strategy != "latest":  # under which what is not in a match may displace it
            asked = carried_symbols(query, bound)
        aliases += [(alias, of_columns(symbol)) for alias, symbol in asked.items()]
        staged.append(tuple(_stages(reading, free, asked)))
        if not staged[-1]:
            raise NotIndexedError("a match of it need not have any event")
        near |= dict.fromkeys(of_columns(event.symbol) for event in _others(reading, free))
        if query.is_triggered:
            last = last_events(reading, free)
            near |= dict.fromkeys(of_columns(event.symbol) for event in last)
    near |= dict.fromkeys(_in_gaps(query))
    if query.window.is_count:
        near[ANY] = None
    chains, window = tuple(dict.fromkeys(staged)), query.window
    named = tuple(dict.fromkeys(aliases))
    return NeededEvents(
        query.name, chains, tuple(near), window.size, named, window.is_count, query.into
    )


def _situations(query: Query, temporal: Temporal, with_blocks: bool) -> NeededEvents:
    """Which events situations need: those of any that are less than a window apart, and their ends.

    A situation ends at the next event of its definition. That is near where it can be any event, or
    where GAP says how long to wait for it; of a key, or of a type, it may be anywhere.
    """
    if not with_blocks:
        raise NotIndexedError("where a situation begins and ends, blocks of events tell")
    parted = query.key or query.fixed_key or query.named_keys
    for definition in temporal.definitions:
        if definition.gap is None and (parted or definition.member != ANY):
            of = "its key" if parted else "its type"
            raise NotIndexedError(f"the event of {of} that ends a situation can be any; GAP bounds")
    gaps = [definition.gap for definition in temporal.definitions]
    lasting = Lasting(None in gaps, max((gap for gap in gaps if gap is not None), default=0))
    held = [(each.name, of_columns(each.definition.symbol)) for each in temporal.situations]
    stage = tuple(dict.fromkeys(symbol for _, symbol in held))
    size = query.window.size
    return NeededEvents(
        query.name, ((stage,),), (), size, tuple(held), made=query.into, lasting=lasting
    )


def _check_ranks(query: Query, with_ranks: bool) -> None:
    """Refuse windows in events whose ranks do not follow from how many events blocks have."""
    if query.into is not None or query.reads:
        raise NotIndexedError("its window counts events, and rows of queries are events too")
    if not with_ranks:
        raise NotIndexedError("its window counts events, and so it needs all of them")
    if query.key or query.fixed_key or query.named_keys:
        raise NotIndexedError("its window counts events of a key, which needs all of them")
    if query.slide is not None:
        raise NotIndexedError("it gives rows by the ranks of events, and so it needs all of them")


def check_known(query: Query) -> None:
    """Refuse queries that say more than the rules here know of."""
    if is_funnel(query):
        raise NotIndexedError("it is a funnel, and every key has a level")
    if query.special_windows is not None:
        raise NotIndexedError(query.special_windows)
    if isinstance(query.output, RowPattern):
        raise NotIndexedError("it is a MATCH_RECOGNIZE, in which every row of a partition counts")
    for value in (query, query.window, query.output, *walk(query.pattern)):
        known = _KNOWN.get(type(value))
        if known is None:
            raise NotIndexedError(f"it has a part of another kind ({type(value).__name__})")
        for field in fields(value):
            if field.name not in known and getattr(value, field.name) != _default(field):
                said = getattr(value, field.name)
                raise NotIndexedError(f"its {field.name.replace('_', ' ')} is {said}")
    for node in walk(query.pattern):
        if isinstance(node, Event) and not isinstance(node.quantifier, _QUANTIFIERS):
            raise NotIndexedError(f"'{node.alias}' may be bound to no event")


def of_columns(symbol: Symbol) -> Symbol:
    """A symbol without conditions on columns that engines add, of which files have none."""
    stored = tuple(
        p for p in symbol.predicates if not any(n.startswith("#") for n in ex.attributes(p))
    )
    return Symbol(symbol.type, stored)


def _in_gaps(query: Query) -> Iterator[Symbol]:
    """What a strategy allows in no gap between the events of a match, or not in every one."""
    match query.strategy:
        case "strict":
            yield ANY
        case "next":
            for event in positive_events(query.pattern):
                yield of_columns(query.passed_over(event).symbol)


def _default(field: object) -> object:
    made = getattr(field, "default_factory", MISSING)
    return getattr(field, "default", MISSING) if made is MISSING else made()


def _stages(
    pattern: Pattern, free: frozenset[str], symbols: Mapping[str, Symbol]
) -> Iterator[Stage]:
    """The stages of an OR-free pattern; parts of an AND are one stage, whatever is in them."""
    match pattern:
        case Event(_, alias):
            if alias not in free:
                yield (of_columns(symbols[alias]),)
        case Seq(parts):
            for part in parts:
                yield from _stages(part, free, symbols)
        case And(parts):
            found = [s for part in parts for stage in _stages(part, free, symbols) for s in stage]
            if found:
                yield tuple(dict.fromkeys(found))
        case Proj(_, part):
            yield from _stages(part, free, symbols)
        case _:
            return


def _others(pattern: Pattern, free: frozenset[str]) -> Iterator[Event]:
    """The components that decide about matches without being bound by them."""
    for node in walk(pattern):
        if isinstance(node, Neg):
            yield from events(node.part)
        elif isinstance(node, Event) and node.alias in free:
            yield node
