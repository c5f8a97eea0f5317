"""A query as the search sees it: items with rows, gaps between them, and predicates over them.

Nothing here depends on the shape of a tree. The rows of a stretch of items are the same however it
is put together, which is what makes the best trees of its parts the parts of its best tree
(ZStream theorem 5.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from optimizer.cost.trees import Model
from optimizer.statistics import KeyStatistics
from optimizer.trees.tree import Closure


@dataclass(frozen=True, slots=True)
class Given:
    """A piece of the pattern that is computed for several queries.

    `aliases` are the components it binds: neighbouring parts of a SEQ, some parts of an AND, or
    one part. `cost` is what this query pays for it, and `rows` its rows in a window where another
    number is known than the query's own estimate. Negations between its components are part of it;
    with `negations=False` they are not, and are checked on top.
    """

    name: str
    aliases: frozenset[str]
    cost: float = 0.0
    rows: float | None = None
    negations: bool = True


@dataclass(frozen=True, slots=True)
class Predicate:
    """A joint predicate; `equality` where it can be looked up by hash."""

    aliases: frozenset[str]
    selectivity: float
    equality: bool


@dataclass(frozen=True, slots=True)
class Negation:
    """A negated pattern: what it needs to be checked, and the share of rows that it leaves.

    `before` and `after` are the aliases of its neighbours where both are single items, and `reads`
    those that its conditions read; it can be pushed to a side whose neighbour has all of them.
    """

    problem: Problem
    needs: frozenset[str]
    predicates: int
    survival: float
    before: frozenset[str] | None = None
    after: frozenset[str] | None = None
    reads: frozenset[str] = frozenset()

    @property
    def push_left(self) -> bool:
        """Can it be pushed to the neighbour before it?"""
        return self.before is not None and self.reads <= self.before

    @property
    def push_right(self) -> bool:
        """Can it be pushed to the neighbour after it?"""
        return self.after is not None and self.reads <= self.after

    @property
    def aliases(self) -> frozenset[str]:
        return self.problem.root.aliases


@dataclass(frozen=True, slots=True)
class Group:
    """A closure in a gap: its candidates for each start and end, and what choosing them needs."""

    closure: Closure
    candidates: float
    made: float  # groups for each start and end
    predicates: int
    needs: frozenset[str]
    whole: bool  # only when all items of the sequence are there: ALL at an edge


@dataclass(frozen=True, slots=True)
class Gap:
    """What stands between two items of a sequence."""

    groups: tuple[Group, ...] = ()
    negations: tuple[Negation, ...] = ()


@dataclass(frozen=True, slots=True)
class Single:
    """The events of one component."""

    alias: str
    rows: float

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset({self.alias})

    @property
    def events(self) -> int:
        return 1

    @property
    def shares(self) -> Mapping[str, float]:
        return {self.alias: 1.0}


@dataclass(frozen=True, slots=True)
class Edge:
    """Nothing, where a sequence begins or ends with a closure: one row without events."""

    rows: float = 1.0
    events: int = 0
    aliases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Piece:
    """A shared piece of the pattern."""

    given: Given
    rows: float
    events: int
    shares: Mapping[str, float]

    @property
    def aliases(self) -> frozenset[str]:
        return self.given.aliases


@dataclass(frozen=True, slots=True)
class Chain:
    """Items in order; `gaps[i]` is between item i and item i + 1.

    `shares` say how many of the rows bind each alias: fewer than all inside an OR.
    """

    items: tuple[Part | Edge, ...]
    gaps: tuple[Gap, ...]
    predicates: tuple[Predicate, ...]
    aliases: frozenset[str]
    rows: float
    events: int
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Together:
    """Parts in any order."""

    items: tuple[Part, ...]
    predicates: tuple[Predicate, ...]
    aliases: frozenset[str]
    rows: float
    events: int
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts."""

    items: tuple[Part, ...]
    aliases: frozenset[str]
    rows: float
    events: int
    shares: Mapping[str, float]


Part: TypeAlias = Single | Piece | Chain | Together | Choice


@dataclass(frozen=True, slots=True)
class Problem:
    """A pattern to build a tree for; `top` are the negations that need the whole match.

    `seconds` is the length of the window that rows are counted in.
    """

    root: Part
    top: tuple[Negation, ...]
    model: Model
    key: KeyStatistics
    seconds: float

    @property
    def rows(self) -> float:
        """The matches of one window."""
        found = self.root.rows
        for negation in self.top:
            found *= negation.survival
        return found

    def same_key(self, left: int, right: int) -> float:
        """How many of the pairs of rows with so many events have one key."""
        if not left or not right:
            return 1.0
        together = self.key.together
        apart = together(left) * together(right)
        # Of very many events none have one key, as far as numbers go; then the last one decides.
        return together(left + right) / apart if apart > 1e-250 else 1 / self.key.cardinality


def items_of(part: Part | Edge) -> Iterator[Part]:
    """The items directly inside a part."""
    if isinstance(part, Chain | Together | Choice):
        yield from (item for item in part.items if not isinstance(item, Edge))
