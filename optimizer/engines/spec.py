"""What the planner knows of an engine, and stretches of steps that engines compute once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal as OneOf
from typing import NamedTuple, Protocol, TypeAlias

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.unit_costs import Operations
from optimizer.ir.automaton import Symbols
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query
from optimizer.statistics.statistics import Statistics

Device = OneOf["cpu", "opencl"]
Steps: TypeAlias = tuple[str, ...]  # of a stretch of pattern, as texts
Segments: TypeAlias = Mapping[str, Sequence[Steps]]  # of each query, in order
Stretch: TypeAlias = Sequence[tuple[Symbol, Symbols]]  # symbols, and what is negated after each


class Engine(Protocol):
    """What every engine says of itself.

    `LABEL` and `PHRASES` are how sentences call it, and `MEANING` is what it does, for people.
    """

    NAME: str
    LABEL: str
    MEANING: str
    PHRASES: tuple[str, ...]
    DEVICES: tuple[Device, ...]

    def refusal(self, query: Query) -> str | None:
        """Why it cannot run a query; None where it can."""

    def refusal_together(self, queries: Sequence[Query]) -> str | None:
        """Why it cannot run queries as one group, each of which it can; None where it can."""


class CountingEngine(Engine, Protocol):
    """What engines that count matches say besides.

    `TOGETHER` is why queries are counted together by it, and `FEWEST` how many a group has at least
    for which it is looked at. `CHOPPED`: it takes queries in segments that were chosen before, and
    is of no use without any. `ANY_PIECE`: it counts every piece that queries have in common once.
    `BY_WINDOW`: its counters are of one window, so that it counts once only what queries of one
    width have in common. `ROBUST`: its cost hardly depends on rates and keys, so that it may rest
    on assumed ones. `APART`: queries that it takes have nothing in common with those that it does
    not, and are looked at by themselves.
    """

    TOGETHER: str
    FEWEST: int
    CHOPPED: bool
    ANY_PIECE: bool
    BY_WINDOW: bool
    ROBUST: bool
    APART: bool

    def operations(self, group: CountedQueries, lengths: Lengths | None) -> Operations:
        """What it does in a second of stream; `lengths` are those of Chop-Connect's segments."""

    def computed_once(self, segments: Segments) -> dict[Steps, tuple[str, ...]]:
        """The pieces that it counts once for several queries, and for which; shorter ones first."""

    def counts_once(self, piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
        """For which of these queries, all of which have the piece, it can count it once."""

    def has_counter(self, start: int, end: int) -> bool:
        """Does it keep a counter for that stretch of a piece, for this alone?"""

    def counter(self, stretch: Stretch, group: CountedQueries, each: Operations) -> float:
        """What one counter takes, in nanoseconds for a second of stream; `each` are unit costs."""


class PassEngine(Engine, Protocol):
    """What engines say besides that answer queries in one pass over the events of each partition.

    They run all queries that they take: no other engine is looked at for these. Queries that go
    `together` are one group, and share the pass.
    """

    def done_once(self, queries: Sequence[Query]) -> str:
        """What the pass does once for several queries, for people."""

    def cost(self, queries: Sequence[Query], statistics: Statistics) -> float:
        """What the pass takes, in nanoseconds for a second of stream."""

    def rows(self, query: Query, statistics: Statistics) -> float | None:
        """The rows that a query gives in a second of stream; None where that is not known."""


def one_setting(queries: Sequence[Query]) -> str | None:
    """Why queries cannot run as a group that has one key, and windows of one kind."""
    differ = [
        name
        for name, values in (
            ("key", {(query.key, query.added_columns) for query in queries}),
            ("kind of window", {query.window.is_count for query in queries}),
        )
        if len(values) > 1
    ]
    return f"its queries differ in {' and '.join(differ)}" if differ else None


Shared = dict[Steps, tuple[str, ...]]


def words_of(segments: Segments) -> dict[str, Steps]:
    """The steps of each query, all segments behind one another."""
    return {
        name: tuple(step for part in parts for step in part) for name, parts in segments.items()
    }


class _Common(NamedTuple):
    """A stretch that several queries have: which, and where the first of them has it."""

    queries: tuple[str, ...]
    name: str
    position: int


def longest_common(words: Mapping[str, Sequence[str]]) -> Shared:
    """Stretches of two steps or more that several queries have, shorter ones first; without those
    that are part of a longer one for the same queries.

    By their length, and none is looked at whose parts are not common (Apriori). A stretch is known
    by the numbers of its two parts, which are a step shorter.
    """
    shared: Shared = {}
    numbers: dict[str, dict[int, Hashable]] = {
        name: dict(enumerate(word)) for name, word in words.items()
    }
    before: dict[Hashable, _Common] = {}
    size = 1
    while any(numbers.values()):
        size += 1
        level: dict[tuple[Hashable, Hashable], dict[str, list[int]]] = {}
        for name, at in numbers.items():
            for position, number in at.items():
                if position + 1 in at:
                    places = level.setdefault((number, at[position + 1]), {})
                    places.setdefault(name, []).append(position)
        numbers = {name: {} for name in words}
        found: dict[Hashable, _Common] = {}
        inner: set[Hashable] = set()
        for parts, places in level.items():
            if len(places) > 1:
                queries = tuple(places)
                inner.update(p for p in parts if p in before and before[p].queries == queries)
                name = queries[0]
                found[len(found)] = _Common(queries, name, places[name][0])
                for other, positions in places.items():
                    numbers[other] |= dict.fromkeys(positions, len(found) - 1)
        for number, piece in before.items():
            if number not in inner:
                _, name, at_ = piece
                shared[tuple(words[name][at_ : at_ + size - 1])] = piece.queries
        numbers = {name: dict(sorted(at.items())) for name, at in numbers.items()}
        before = found
    return shared


def beginnings(words: Mapping[str, Sequence[str]]) -> Shared:
    """What several queries begin with."""
    found: dict[Steps, list[str]] = {}
    for name, word in words.items():
        for end in range(1, len(word) + 1):
            found.setdefault(tuple(word[:end]), []).append(name)
    return {piece: tuple(names) for piece, names in found.items() if len(names) > 1}


def longest(shared: Mapping[Steps, tuple[str, ...]]) -> Shared:
    """Those that are no part of a longer one for the same queries."""
    parts = {
        part
        for piece, queries in shared.items()
        for part in (piece[:-1], piece[1:])
        if shared.get(part) == queries
    }
    return {piece: queries for piece, queries in shared.items() if piece not in parts}


def equal_segments(segments: Segments) -> Shared:
    """The segments that several queries are made of."""
    users: dict[Steps, list[str]] = {}
    for name, parts in segments.items():
        for part in dict.fromkeys(parts):
            users.setdefault(part, []).append(name)
    return {part: tuple(names) for part, names in users.items() if len(names) > 1}
