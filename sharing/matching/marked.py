"""Pieces that are marked for readers with different negations: who asks for what, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import Neg, Seq
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees.mark_costs import MarkingCosts, marking_costs, named_piece
from optimizer.trees.marks import MarkTest, component, mark_test
from optimizer.trees.problem import Fragment

MAX_MARKED = 256  # readers of one piece with different negations: each has all of them in its tree

Asked = tuple[MarkTest, ...]  # what one reader asks for
Span = tuple[int, int]  # of a reading's components


@lru_cache(maxsize=65_536)
def tests_of(piece: Fragment) -> Asked | None:
    """The negations of a piece, each once; None where one cannot be tested for several readers."""
    if not isinstance(piece.pattern, Seq):
        return None
    names = {alias: component(i) for i, alias in enumerate(piece.bound, 1)}
    found: dict[MarkTest, None] = {}
    after = 0
    for part in piece.pattern.parts:
        if not isinstance(part, Neg):
            after += 1
            continue
        test = mark_test(after, part, piece.conditions, names)
        if test is None:
            return None
        found[test] = None
    return tuple(found)


def bare_pieces(pieces: Iterable[Fragment]) -> Iterator[Fragment]:
    """Those of a sequence in which nothing is negated."""
    for piece in pieces:
        if isinstance(piece.pattern, Seq) and not _negates(piece):
            yield piece


def whole_pieces(pieces: Iterable[Fragment]) -> dict[Span, Fragment]:
    """Those with all that a reading asks for there, by where they stand."""
    return {piece.span: piece for piece in pieces if not piece.bare}


def asked_of(bare: Fragment, whole: Mapping[Span, Fragment]) -> tuple[Fragment, Asked]:
    """What a reading takes of a piece that is marked, and with which negations.

    With all that stand there; where they cannot be tested for several, without any.
    """
    piece = whole.get(bare.span, bare)
    tests = tests_of(piece)
    return (bare, ()) if tests is None else (piece, tests)


def _negates(piece: Fragment) -> bool:
    return any(isinstance(part, Neg) for part in piece.pattern.parts)


@dataclass(frozen=True, eq=False)
class Marking:
    """What the readers of a piece ask for, those that ask alike once."""

    piece: Fragment
    asked: Query
    readers: tuple[Asked, ...]
    statistics: Statistics

    @property
    def pays(self) -> bool:
        """Do several ask for something, and not for the same?"""
        return 1 < len(self.readers) <= MAX_MARKED

    @cached_property
    def number(self) -> Mapping[Asked, int]:
        return {asked: i for i, asked in enumerate(self.readers)}

    @cached_property
    def tests(self) -> Sequence[MarkTest]:
        """Each that some reader asks for."""
        return tuple(dict.fromkeys(test for asked in self.readers for test in asked))

    @cached_property
    def costs(self) -> MarkingCosts:
        number = {test: i for i, test in enumerate(self.tests)}
        readers = [[number[test] for test in asked] for asked in self.readers]
        piece = named_piece(self.asked, self.piece.bound)
        return marking_costs(piece, self.tests, readers, self.statistics, COMPILED)

    @property
    def cost(self) -> float:
        """What marking its rows takes, in events touched in a second."""
        absent = sum(step.own for step in self.costs.absent)
        return (self.costs.cost + absent) / self.costs.seconds

    def reading(self, asked: Asked) -> float:
        """What it takes one reader to find its rows, in events touched in a second."""
        return self.costs.reading(self.number[asked], COMPILED) / self.costs.seconds
