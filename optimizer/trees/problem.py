"""A query as the search sees it: items with rows, gaps between them, and predicates over them.

Nothing here depends on the shape of a tree. The rows of a stretch of items are the same however it
is put together, which is what makes the best trees of its parts the parts of its best tree
(ZStream theorem 5.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from optimizer.cost.absence import Absence, Space, share_left
from optimizer.cost.trees import Model
from optimizer.statistics import KeyStatistics
from optimizer.trees.tree import Closure, Side


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


# The items of a sequence, by their aliases and number of events.
Within: TypeAlias = tuple[tuple[frozenset[str], int], ...]
# In the place of a gap: what a sequence leaves of its window, or all of the window.
BESIDE, ANYWHERE = -1, -2


@dataclass(frozen=True, slots=True)
class Negation:
    """A negated pattern: what it needs to be checked, and the share of rows that it leaves.

    `survival` is that share where nothing else is negated. `absences` are looked for in a `gap` of
    the sequence whose items are `within`. `before` and `after` are the aliases of its neighbours
    where both are single items, and `reads` those that its conditions read; it can be pushed to a
    side whose neighbour has all of them.
    """

    problem: Problem
    needs: frozenset[str]
    predicates: int
    survival: float
    absences: Space = ()
    within: Within = ()
    gap: int = BESIDE
    partial: bool = False  # of some rows only: in a part of an OR
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

    def is_gate(self, side: Side, model: Model) -> bool:
        """Pushed to a neighbour, is what it rules out not even looked at?

        A right row's left rows begin behind the last that it negates. Left rows have gates that
        ascend only where these do not depend on conditions. The paper does not tell.
        """
        return model.arrivals == "poisson" and (side == "left" or not self.predicates)

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
    """A shared piece of the pattern.

    `negations` are those between its items, which are `within`, and `plain` its rows without them;
    `left_out` are those that it does not check.
    """

    given: Given
    rows: float
    events: int
    shares: Mapping[str, float]
    plain: float
    within: Within
    negations: tuple[Negation, ...] = ()
    left_out: tuple[Negation, ...] = ()

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

    `seconds` is the length of the window that rows are counted in. `one_pass`: only the latest
    rows matter, as of a negated sequence, and one pass finds them.
    """

    root: Part
    top: tuple[Negation, ...]
    model: Model
    key: KeyStatistics
    seconds: float
    one_pass: bool = False

    @property
    def rows(self) -> float:
        """The matches of one window."""
        return self.rows_after(self.top)

    def rows_after(self, top: Iterable[Negation]) -> float:
        """The rows that are left when some of the negations on top were checked."""
        inner = tuple(negations_of(self.root))
        every, aliases = (*inner, *top), self.root.aliases
        if len(every) == len(inner):
            return self.root.rows
        return self.root.rows * self.survival(every, aliases) / self.survival(inner, aliases)

    def survival(self, negations: Iterable[Negation], aliases: frozenset[str]) -> float:
        """The share of rows with these aliases that negations leave together."""
        return survival(self.model, self.key, negations, aliases)

    def let_through(
        self,
        gates: Sequence[Negation],
        below: Sequence[Negation],
        aliases: frozenset[str],
        right: frozenset[str],
    ) -> tuple[float, float]:
        """The shares of pairs that gates let through, of those that fit and of those looked at.

        `below` are the negations that were decided before. Of a pair that is looked at the left
        row's last event is in the window of the right one.
        """
        fitting, near = (
            survival(self.model, self.key, (*below, *gates), names, more)
            / survival(self.model, self.key, below, names, more)
            for names, more in ((aliases, 0), (right, 1))
        )
        return fitting, near

    def same_key(self, left: int, right: int) -> float:
        """How many of the pairs of rows with so many events have one key."""
        if not left or not right:
            return 1.0
        together = self.key.together
        apart = together(left) * together(right)
        # Of very many events none have one key, as far as numbers go; then the last one decides.
        return together(left + right) / apart if apart > 1e-250 else 1 / self.key.cardinality


def plain_rows(part: Part | Edge) -> float:
    """The rows of an item as if nothing was negated in a piece."""
    return part.plain if isinstance(part, Piece) else part.rows


def within_of(items: Iterable[Part | Edge]) -> Within:
    """The items of a sequence, with those of a piece in its place."""
    found: Within = ()
    for item in items:
        found += item.within if isinstance(item, Piece) else ((item.aliases, item.events),)
    return found


def items_of(part: Part | Edge) -> Iterator[Part]:
    """The items directly inside a part."""
    if isinstance(part, Chain | Together | Choice):
        yield from (item for item in part.items if not isinstance(item, Edge))


def negations_of(part: Part | Edge) -> Iterator[Negation]:
    """The negations between the items of a part, and inside these; not those in parts of ORs."""
    if isinstance(part, Piece):
        yield from part.negations
    if isinstance(part, Chain):
        for gap in part.gaps:
            yield from gap.negations
    if isinstance(part, Chain | Together):
        for item in part.items:
            yield from negations_of(item)


def survival(
    model: Model,
    key: KeyStatistics,
    negations: Iterable[Negation],
    aliases: frozenset[str],
    more: int = 0,
) -> float:
    """The share of rows with these aliases, and so many events more, that negations leave together.

    What is negated in one gap is added up, and long gaps make others short.
    """
    found = 1.0
    sequences: dict[Within, dict[int, list[Absence]]] = {}
    for negation in negations:
        if model.arrivals == "halves" or negation.partial or not negation.within:
            found *= negation.survival
        else:
            gaps = sequences.setdefault(negation.within, {})
            gaps.setdefault(negation.gap, []).extend(negation.absences)
    for within, gaps in sequences.items():
        events = more + sum(many for named, many in within if named <= aliases)
        if ANYWHERE in gaps:
            found *= share_left((tuple(gaps.pop(ANYWHERE)),), events, key, whole=True)
        spaces = tuple(tuple(gaps[gap]) for gap in sorted(gaps))
        found *= share_left(spaces, events, key)
    return found
