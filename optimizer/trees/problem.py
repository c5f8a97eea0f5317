"""What the search of trees solves: items, gaps and conditions of a query, and fragments that
several queries have in common.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

from optimizer.bind.conditions import canonical
from optimizer.cost.absence import Absence, Space, share_left
from optimizer.cost.unit_costs import JoinCosts
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Seq,
    Symbol,
    parts_of,
    positive_events,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Query
from optimizer.statistics import KeyStatistics
from optimizer.trees.tree import Closure, Leaf, Side, Tree
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import One, Plus


@dataclass(frozen=True, slots=True)
class GivenFragment:
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
    """A joint predicate; `equality` where it can be looked up by hash.

    `compares`: it stands between a value of one component and one of another.
    """

    aliases: frozenset[str]
    selectivity: float
    equality: bool
    compares: bool = True


# The items of a sequence, by their aliases and number of events.
Within: TypeAlias = tuple[tuple[frozenset[str], int], ...]
# In the place of a gap: what a sequence leaves of its window, or all of the window.
BESIDE, ANYWHERE = -1, -2


@dataclass(frozen=True, slots=True)
class NegatedItem:
    """A negated pattern: what it needs to be checked, and the share of rows that it leaves.

    `survival` is that share where nothing else is negated. `absences` are looked for in a `gap` of
    the sequence whose items are `within`. `before` and `after` are the aliases of its neighbours
    where both are single items, and `reads` those that its conditions read; it can be pushed to a
    side whose neighbour has all of them.
    """

    problem: TreeProblem
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

    def is_gate(self, side: Side, model: JoinCosts) -> bool:
        """Pushed to a neighbour, is what it rules out not even looked at?

        A right row's left rows begin behind the last that it negates. Left rows have gates that
        ascend only where these do not depend on conditions. The paper does not tell.
        """
        return model.arrivals == "poisson" and (side == "left" or not self.predicates)

    @property
    def aliases(self) -> frozenset[str]:
        return self.problem.root.aliases


@dataclass(frozen=True, slots=True)
class ClosureItem:
    """A closure in a gap: its candidates for each start and end, and what choosing them needs."""

    closure: Closure
    candidates: float
    made: float  # groups for each start and end
    predicates: int
    needs: frozenset[str]
    whole: bool  # only when all items of the sequence are there: ALL at an edge


@dataclass(frozen=True, slots=True)
class SequenceGap:
    """What stands between two items of a sequence."""

    groups: tuple[ClosureItem, ...] = ()
    negations: tuple[NegatedItem, ...] = ()


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
class GroupLeaf:
    """The groups of one component, made by themselves; `cost` is what making them takes.

    Their events are near each other, so they stand as one event to those of other components.
    """

    closure: Closure
    rows: float
    cost: float

    @property
    def events(self) -> int:
        return 1

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset({self.closure.alias})

    @property
    def shares(self) -> Mapping[str, float]:
        return {self.closure.alias: 1.0}


@dataclass(frozen=True, slots=True)
class Edge:
    """Nothing, where a sequence begins or ends with a closure: one row without events."""

    rows: float = 1.0
    events: int = 0
    aliases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GivenItem:
    """A shared piece of the pattern.

    `negations` are those between its items, which are `within`, and `plain` its rows without them;
    `left_out` are those that it does not check.
    """

    given: GivenFragment
    rows: float
    events: int
    shares: Mapping[str, float]
    plain: float
    within: Within
    negations: tuple[NegatedItem, ...] = ()
    left_out: tuple[NegatedItem, ...] = ()

    @property
    def aliases(self) -> frozenset[str]:
        return self.given.aliases


@dataclass(frozen=True, slots=True)
class SequenceItem:
    """Items in order; `gaps[i]` is between item i and item i + 1.

    `shares` say how many of the rows bind each alias: fewer than all inside an OR.
    """

    items: tuple[PatternPart | Edge, ...]
    gaps: tuple[SequenceGap, ...]
    predicates: tuple[Predicate, ...]
    aliases: frozenset[str]
    rows: float
    events: int
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Parts in any order."""

    items: tuple[PatternPart, ...]
    predicates: tuple[Predicate, ...]
    aliases: frozenset[str]
    rows: float
    events: int
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """One of several parts."""

    items: tuple[PatternPart, ...]
    aliases: frozenset[str]
    rows: float
    events: int
    shares: Mapping[str, float]


PatternPart: TypeAlias = Single | GroupLeaf | GivenItem | SequenceItem | Conjunction | Disjunction


@dataclass(frozen=True, slots=True)
class TreeProblem:
    """A pattern to build a tree for; `top` are the negations that need the whole match.

    `seconds` is the length of the window that rows are counted in. `one_pass`: only the latest
    rows matter, as of a negated sequence, and one pass finds them.
    """

    root: PatternPart
    top: tuple[NegatedItem, ...]
    model: JoinCosts
    key: KeyStatistics
    seconds: float
    one_pass: bool = False

    @property
    def rows(self) -> float:
        """The matches of one window."""
        return self.rows_after(self.top)

    def rows_after(self, top: Iterable[NegatedItem]) -> float:
        """The rows that are left when some of the negations on top were checked."""
        inner = tuple(negations_of(self.root))
        every, aliases = (*inner, *top), self.root.aliases
        if len(every) == len(inner):
            return self.root.rows
        return self.root.rows * self.survival(every, aliases) / self.survival(inner, aliases)

    def survival(self, negations: Iterable[NegatedItem], aliases: frozenset[str]) -> float:
        """The share of rows with these aliases that negations leave together."""
        return survival(self.model, self.key, negations, aliases)

    def let_through(
        self,
        gates: Sequence[NegatedItem],
        below: Sequence[NegatedItem],
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


def plain_rows(part: PatternPart | Edge) -> float:
    """The rows of an item as if nothing was negated in a piece."""
    return part.plain if isinstance(part, GivenItem) else part.rows


def within_of(items: Iterable[PatternPart | Edge]) -> Within:
    """The items of a sequence, with those of a piece in its place."""
    found: list[tuple[frozenset[str], int]] = []
    for item in items:
        found += item.within if isinstance(item, GivenItem) else ((item.aliases, item.events),)
    return tuple(found)


def items_of(part: PatternPart | Edge) -> Iterator[PatternPart]:
    """The items directly inside a part."""
    if isinstance(part, SequenceItem | Conjunction | Disjunction):
        yield from (item for item in part.items if not isinstance(item, Edge))


def negations_of(part: PatternPart | Edge) -> Iterator[NegatedItem]:
    """The negations between the items of a part, and inside these; not those in parts of ORs."""
    if isinstance(part, GivenItem):
        yield from part.negations
    if isinstance(part, SequenceItem):
        for gap in part.gaps:
            yield from gap.negations
    if isinstance(part, SequenceItem | Conjunction):
        for item in part.items:
            yield from negations_of(item)


def survival(
    model: JoinCosts,
    key: KeyStatistics,
    negations: Iterable[NegatedItem],
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


# `any`: joins of two and walks, whatever is cheapest; `bushy`: joins only; `walk`: walks wherever
# there can be one.
Shape = OneOf["any", "bushy", "left", "right", "walk", "worst"]
CLOSE = 1 - 1e-12  # what is cheaper by less than rounding is not cheaper


class SolvedTree(NamedTuple):
    """A tree with its cost; `exact` where no other tree of its shape is better."""

    tree: Tree
    cost: float
    exact: bool = True


NO_TREE = SolvedTree(Leaf(""), 0.0)  # in the place of an edge, which has no tree


FragmentKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A stretch of a reading, from positive part `first` to `last`, or an AND in canonical order.

    `aliases` are its components in the order of `key`, negated ones included. Two pieces with one
    `key` are the same, whatever their aliases are: what they are made of, part by part, and the
    conditions on them. `whole` where it is all that the reading binds.
    """

    pattern: Seq | And
    aliases: tuple[str, ...]
    positive: frozenset[str]
    conditions: tuple[ex.Expression, ...]
    key: FragmentKey
    first: int
    last: int
    whole: bool
    bare: bool

    @property
    def size(self) -> int:
        """How many components it binds."""
        return self.last - self.first + 1

    @property
    def span(self) -> tuple[int, int]:
        """Which components of its reading it binds: the first and the last."""
        return self.first, self.last

    @property
    def bound(self) -> tuple[str, ...]:
        """The components that it binds, in their order."""
        return tuple(event.alias for event in positive_events(self.pattern))

    def asked(self, query: Query) -> Query:
        """The piece alone, as a query of the same key and window."""
        return replace(query, pattern=self.pattern, conditions=self.conditions)


def fragments_of(
    pattern: Pattern,
    conditions: tuple[ex.Expression, ...],
    whole: bool = True,
    bare: bool = True,
    longest: int | None = None,
) -> list[Fragment]:
    """The stretches of two positive components or more, shorter ones first.

    Without `whole` all of the pattern is no piece of it; without `bare` negations belong to what
    they stand in; none has more positive components than the `longest` may have. Of an AND these
    are the stretches of its sequences, and all of it where its parts are single events.
    """
    if isinstance(pattern, Seq):
        return list(_Sequence(pattern, conditions).pieces(whole, bare, longest))
    if isinstance(pattern, And):
        return list(_of_and(pattern, conditions, whole, bare, longest))
    return []


def _of_and(
    pattern: And,
    conditions: tuple[ex.Expression, ...],
    whole: bool,
    bare: bool,
    longest: int | None,
) -> Iterator[Fragment]:
    before = 0
    for part in pattern.parts:
        if isinstance(part, Seq):
            for piece in _Sequence(part, conditions).pieces(True, bare, longest):
                first, last = piece.first + before, piece.last + before
                yield replace(piece, whole=False, first=first, last=last)
        if not isinstance(part, Neg):
            before += len(list(positive_events(part)))
    several = len(pattern.parts) > 1 and before <= (longest or before)
    if whole and several and all(map(_is_single, pattern.parts)):
        parts = tuple(sorted(pattern.parts, key=_text))
        aliases = tuple(event.alias for event in components(And(parts)))
        asked = tuple(c for c in conditions if ex.aliases(c) and ex.aliases(c) <= set(aliases))
        key = tuple(f"& {_text(part)}" for part in parts), _spelled(asked, aliases)
        own = frozenset(aliases)
        yield Fragment(And(parts), aliases, own, asked, key, 0, before - 1, True, False)


def _is_single(part: Pattern) -> bool:
    return isinstance(part, Event) and isinstance(part.quantifier, One)


def _is_group(part: Pattern) -> bool:
    """A group of any events, which can be made wherever both its neighbours are."""
    return isinstance(part, Event) and isinstance(part.quantifier, Plus)


class _Sequence:
    def __init__(self, pattern: Seq, conditions: tuple[ex.Expression, ...]) -> None:
        self._parts = _in_order(pattern)
        self._texts = list(map(_text, self._parts))
        self._places = [i for i, p in enumerate(self._parts) if not isinstance(p, Neg)]
        self._conditions = [(c, named) for c in conditions if (named := ex.aliases(c))]

    def pieces(self, whole: bool, bare: bool, longest: int | None) -> Iterator[Fragment]:
        places, parts = self._places, self._parts
        most = len(places) - 1 + whole if longest is None else min(longest, len(places) - 1 + whole)
        for size in range(2, most + 1):
            for first in range(len(places) - size + 1):
                last = first + size - 1
                inside = range(places[first], places[last] + 1)
                if not all(_is_taken(parts[i]) for i in inside):
                    continue
                if _is_group(parts[inside[0]]) or _is_group(parts[inside[-1]]):
                    continue  # bounded by what is beyond
                positive = [i for i in inside if not isinstance(parts[i], Neg)]
                spans = first, last, size == len(places)
                if len(positive) < len(inside):
                    yield from self._piece(list(inside), spans, bare=False)
                    if not bare:
                        continue
                yield from self._piece(positive, spans, bare=len(positive) < len(inside))

    def _piece(
        self, inside: list[int], spans: tuple[int, int, bool], bare: bool
    ) -> Iterator[Fragment]:
        pattern = Seq(tuple(self._parts[i] for i in inside))
        aliases = tuple(event.alias for event in components(pattern))
        positive = frozenset(event.alias for event in positive_events(pattern))
        own, closed = frozenset(aliases), frozenset(aliases) - positive
        closed |= {part.alias for part in pattern.parts if isinstance(part, Event)
                   and _is_group(part)}  # fmt: skip
        if closed and any(n & closed and not n <= own for _, n in self._conditions):
            return  # a negation or a group inside depends on what is outside
        asked = tuple(c for c, named in self._conditions if named <= own)
        texts = tuple(self._texts[i] for i in inside)
        key = (texts, _spelled(asked, aliases))
        yield Fragment(pattern, aliases, positive, asked, key, *spans, bare)


def _in_order(pattern: Seq) -> list[Pattern]:
    """The parts; negations of one gap, whose order says nothing, by what they are."""
    if not any(isinstance(part, Neg) for part in pattern.parts):
        return list(pattern.parts)
    found: list[Pattern] = []
    for negated, run in groupby(pattern.parts, lambda part: isinstance(part, Neg)):
        members = list(run)
        found += sorted(members, key=_text) if negated else members
    return found


def _is_taken(part: Pattern) -> bool:
    return isinstance(part, Neg) or _is_single(part) or _is_group(part)


def _spelled(conditions: tuple[ex.Expression, ...], aliases: tuple[str, ...]) -> tuple[str, ...]:
    """The conditions with the numbers of components for their aliases."""
    if not conditions:
        return ()
    names = {alias: f"c{i}" for i, alias in enumerate(aliases, 1)}
    return tuple(sorted({print_expression(canonical(ex.rename(c, names))) for c in conditions}))


@lru_cache(maxsize=65_536)
def _symbol(symbol: Symbol) -> str:
    """A symbol; a type of any characters is quoted, so that it cannot be taken for a pattern."""
    if symbol.type.isidentifier():
        return str(symbol)
    return json.dumps(symbol.type) + str(replace(symbol, type=""))


def _text(pattern: Pattern) -> str:
    """A pattern without its aliases, whose order is that of its components."""
    match pattern:
        case Event(symbol, _, Plus()):
            return f"{_symbol(symbol)}+"
        case Event(symbol, _, quantifier):
            mark = "" if isinstance(quantifier, One) else f" {quantifier}"
            return _symbol(symbol) + mark
        case Neg(part):
            return "!" + _text(part)
        case Or(()):
            return "NEVER"
        case _:
            inner = ", ".join(map(_text, parts_of(pattern)))
            return f"{type(pattern).__name__.upper()}({inner})"
