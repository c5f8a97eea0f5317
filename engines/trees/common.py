"""Trees for queries that run together: pieces that several have become nodes of all their trees.

A piece is a stretch of a SEQ with the negations and conditions inside it. Each query is offered
those that it has in common with others, at its share of their cost, and takes what makes its own
tree cheaper by the search (`optimizer.trees`). A piece that only one query takes is given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engines.trees.compile import compile_tree, plain_tree
from engines.trees.operators import Operator
from engines.trees.planning import MODEL
from optimizer.ir.pattern import Event, Neg, Pattern, Seq, positive_events
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees import (
    AndJoin,
    Closure,
    Costed,
    Given,
    KSeq,
    Leaf,
    NegTop,
    NSeq,
    SeqJoin,
    Shared,
    Tree,
    best_tree,
)
from workloads import expressions as ex
from workloads.syntax import One

OFFERS = 3  # pieces that a query is offered, the most promising ones
PIECES = 2  # that it may take
# Events that a query must touch alone for the search to save more than it costs: it takes some
# milliseconds, and an event some nanoseconds.
WORTH = 500_000


class Reading(NamedTuple):
    """One OR-free reading of a query's pattern; `asked` is the query that it makes alone."""

    query: Query
    pattern: Pattern
    asked: Query

    @staticmethod
    def of(query: Query, pattern: Pattern) -> Reading:
        named = {event.alias for event in components(pattern)}
        conditions = tuple(c for c in query.conditions if ex.aliases(c) <= named)
        return Reading(query, pattern, replace(query, pattern=pattern, conditions=conditions))


@dataclass(frozen=True)
class _Piece:
    """A stretch of a reading: its pattern, its components in order, the conditions inside it."""

    pattern: Seq
    aliases: tuple[str, ...]  # negated ones included
    positive: frozenset[str]
    conditions: tuple[ex.Expression, ...]

    @property
    def likeness(self) -> tuple[object, ...]:
        """What equal pieces agree in; cheap, and not always enough."""
        kinds = tuple((e.symbol, e.alias in self.positive) for e in components(self.pattern))
        return (kinds, len(self.conditions))


def common_trees(readings: Sequence[Reading], statistics: Statistics) -> list[Tree]:
    """A tree for each reading; all have one window and one key."""
    return _Common(statistics).trees(readings)


class _Common:
    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._best: dict[Operator, tuple[Costed, _Piece]] = {}

    def trees(self, readings: Sequence[Reading]) -> list[Tree]:
        plain = [self._tree(reading, []) for reading in readings]
        seconds = self._statistics.span or 1.0
        worth = [alone.per_second * seconds >= WORTH for alone in plain]
        offers = self._offers(readings, worth)
        readers = Counter(key for offer in offers for key in dict.fromkeys(k for k, _ in offer))
        taken = [
            self._taken(reading, alone, offer, readers)
            for reading, alone, offer in zip(readings, plain, offers, strict=True)
        ]
        used = Counter(key for chosen in taken for key in dict.fromkeys(k for k, _ in chosen))
        found = []
        for reading, alone, chosen in zip(readings, plain, taken, strict=True):
            kept = [(key, piece) for key, piece in chosen if used[key] > 1]
            tree = alone if not kept else self._tree(reading, self._given(kept, used))
            found.append(self._written_out(tree.tree, kept))
        return found

    def _offers(
        self, readings: Sequence[Reading], worth: Sequence[bool]
    ) -> list[list[tuple[Operator, _Piece]]]:
        """For each reading for which it is worth it the pieces that others have too."""
        pieces = [
            _pieces(reading) if needed else []
            for reading, needed in zip(readings, worth, strict=True)
        ]
        alike = Counter(
            likeness for mine in pieces for likeness in dict.fromkeys(p.likeness for p in mine)
        )
        found: list[list[tuple[Operator, _Piece]]] = []
        for reading, mine in zip(readings, pieces, strict=True):
            several = [p for p in mine if alike[p.likeness] > 1]
            several.sort(key=lambda p: -(alike[p.likeness] - 1) * (len(p.positive) - 1))
            offer = []
            for piece in several[:OFFERS]:
                key = compile_tree(plain_tree(piece.pattern), piece.pattern, piece.conditions)
                offer.append((key.operator, piece))
                if key.operator not in self._best:
                    asked = replace(
                        reading.query, pattern=piece.pattern, conditions=piece.conditions
                    )
                    best = best_tree(asked, self._statistics, model=MODEL)
                    self._best[key.operator] = (best, piece)
            found.append(offer)
        return found

    def _tree(self, reading: Reading, given: list[Given]) -> Costed:
        return best_tree(reading.asked, self._statistics, given, MODEL)

    def _given(
        self, pieces: list[tuple[Operator, _Piece]], readers: Counter[Operator]
    ) -> list[Given]:
        return [
            Given(str(i), piece.positive, self._best[key][0].cost / readers[key])
            for i, (key, piece) in enumerate(pieces)
        ]

    def _taken(
        self,
        reading: Reading,
        alone: Costed,
        offer: list[tuple[Operator, _Piece]],
        readers: Counter[Operator],
    ) -> list[tuple[Operator, _Piece]]:
        """The pieces that make its tree cheapest, added one by one."""
        chosen: list[tuple[Operator, _Piece]] = []
        cost = alone.cost
        for _ in range(PIECES):
            trials = [
                ([*chosen, one], self._tree(reading, self._given([*chosen, one], readers)).cost)
                for one in offer
                if readers[one[0]] > 1
                and not any(one[1].positive & other.positive for _, other in chosen)
            ]
            if not trials:
                break
            best, least = min(trials, key=lambda trial: trial[1])
            if least >= cost:
                break
            chosen, cost = best, least
        return chosen

    def _written_out(self, tree: Tree, pieces: list[tuple[Operator, _Piece]]) -> Tree:
        """The tree with the pieces' own trees in their places, under this query's aliases."""
        inner: dict[str, Tree] = {}
        for i, (key, piece) in enumerate(pieces):
            best, other = self._best[key]
            names = dict(zip(other.aliases, piece.aliases, strict=True))
            inner[str(i)] = _renamed(best.tree, names, {})
        return _renamed(tree, {}, inner)


def _pieces(reading: Reading) -> list[_Piece]:
    """The stretches of a SEQ of two components or more, but for all of them."""
    pattern = reading.pattern
    if not isinstance(pattern, Seq):
        return []
    places = [i for i, part in enumerate(pattern.parts) if not isinstance(part, Neg)]
    asked = reading.asked.conditions
    named = [ex.aliases(c) for c in asked]
    found = []
    for size in range(2, len(places)):
        for first in range(len(places) - size + 1):
            stretch = pattern.parts[places[first] : places[first + size - 1] + 1]
            if not all(isinstance(p, Neg) or _is_single(p) for p in stretch):
                continue
            part = Seq(stretch)
            aliases = tuple(event.alias for event in components(part))
            positive = frozenset(event.alias for event in positive_events(part))
            own, negated = set(aliases), set(aliases) - positive
            if any(names & negated and not names <= own for names in named):
                continue  # a negation inside depends on what is outside
            inside = tuple(
                c for c, names in zip(asked, named, strict=True) if names and names <= own
            )
            found.append(_Piece(part, aliases, positive, inside))
    return found


def _is_single(part: Pattern) -> bool:
    return isinstance(part, Event) and isinstance(part.quantifier, One)


def _renamed(tree: Tree, names: dict[str, str], inner: dict[str, Tree]) -> Tree:
    """A tree under other aliases, with trees in the place of shared pieces."""

    def of(node: Tree) -> Tree:
        return _renamed(node, names, inner)

    match tree:
        case Leaf(alias):
            return Leaf(names.get(alias, alias))
        case Shared(name):
            return inner[name]
        case SeqJoin(left, right):
            return SeqJoin(of(left), of(right))
        case AndJoin(left, right):
            return AndJoin(of(left), of(right))
        case NSeq(part, negation, side):
            return NSeq(of(part), of(negation), side)
        case NegTop(part, negation):
            return NegTop(of(part), of(negation))
        case KSeq(start, closures, end):
            named = tuple(Closure(names.get(c.alias, c.alias), c.quantifier) for c in closures)
            sides = [None if side is None else of(side) for side in (start, end)]
            return KSeq(sides[0], named, sides[1])
        case _:
            return tree
