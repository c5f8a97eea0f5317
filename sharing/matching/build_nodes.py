"""Which pieces readings have in common, or can read of each other: the nodes of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import Pattern, positive_events
from optimizer.ir.query import Query, Reading, Window
from optimizer.statistics import MissingStatisticError, Statistics
from optimizer.trees.build_problem import compile_query
from optimizer.trees.narrowing import reading_cost
from optimizer.trees.problem import Fragment, FragmentKey, fragments_of
from optimizer.trees.sequence_search import MAX_EXACT_ITEMS
from sharing.matching.marked import (
    Asked,
    Marking,
    Span,
    asked_of,
    bare_pieces,
    whole_pieces,
)
from sharing.matching.nodes import Node, NodePosition, NodeProblem, Occurrence, Reader
from sharing.matching.weaker import Skeleton, common_part, narrowing, skeleton_of

MAX_READERS = 500  # that compare many trees; where there are more, each compares fewer
MAX_SPLITS = 1_000_000  # in the tables of all readings
MAX_PIECES = 60_000  # stretches of all readings that are compared with each other
MAX_NODES = 2_000
MAX_VARIANTS = 24  # of one sequence of types, which are compared with each other
MAX_WINDOWS = 3  # in which one piece may be made
MIN_PARTS = 2  # readings that have a node


def problem_of(
    readings: Sequence[Reading], statistics: Statistics, sharing: bool = True
) -> NodeProblem:
    """The nodes of readings of one key; none without `sharing`."""
    sharing = sharing and len(readings) > 1
    limits = _limits([_size(reading.pattern) for reading in readings])
    found = [
        fragments_of(reading.pattern, reading.asked.conditions, longest=limits.longest)
        if sharing and _size(reading.pattern) <= limits.largest
        else []
        for reading in readings
    ]
    offers = _Offers(readings, found, statistics)
    kept = offers.all()
    complete = not sharing or (limits.is_none and offers.complete and len(kept) <= MAX_NODES)
    if len(kept) > MAX_NODES:
        kept = sorted(kept, key=lambda offer: -(len(offer.places) - 1) * (offer.piece.size - 1))
        kept = sorted(kept[:MAX_NODES], key=lambda offer: offer.number)
    quick = len(readings) + len(kept) > MAX_READERS
    served = _Served(kept, statistics)

    def reader(asked: Query, pieces: Sequence[Fragment], marking: float = 0.0) -> Reader:
        found = [*served.occurrences(asked, pieces), *served.marked(asked, pieces)]
        return Reader(asked, found, statistics, quick, marking)

    nodes = []
    for offer in kept:
        inner = fragments_of(offer.piece.pattern, offer.piece.conditions, whole=False)
        own = reader(offer.asked, inner, 0.0 if offer.marking is None else offer.marking.cost)
        nodes.append(Node(offer.piece, offer.places, own, offer.marking is not None))
    roots = tuple(reader(r.asked, pieces) for r, pieces in zip(readings, found, strict=True))
    return NodeProblem(tuple(readings), roots, tuple(nodes), complete)


@dataclass(frozen=True, eq=False)
class _Offer:
    """A piece, as a query in the window that it would be made in, and who could read it."""

    number: int
    piece: Fragment
    asked: Query
    places: tuple[NodePosition, ...]
    statistics: Statistics
    marking: Marking | None = None  # of the negations of its readers

    @cached_property
    def rows(self) -> float:
        """How many it has in a second."""
        return _rows(self.asked, self.statistics)


def _rows(asked: Query, statistics: Statistics) -> float:
    problem = compile_query(asked, statistics, (), COMPILED)
    return problem.rows / problem.seconds


@dataclass
class _Variants:
    """Pieces of the same types in the same order, by what they ask of these, and where they are."""

    pieces: dict[FragmentKey, Fragment] = field(default_factory=dict)
    places: dict[FragmentKey, list[NodePosition]] = field(default_factory=dict)

    def add(self, position: NodePosition) -> None:
        piece = position.piece
        self.pieces.setdefault(piece.key, piece)
        self.places.setdefault(piece.key, []).append(position)


class _Offers:
    """The pieces that could be made, each in some of the windows of those that could read it."""

    def __init__(
        self,
        readings: Sequence[Reading],
        found: Sequence[Sequence[Fragment]],
        statistics: Statistics,
    ) -> None:
        self._readings, self._statistics = readings, statistics
        self._classes: dict[Skeleton, _Variants] = {}
        self._whole = list(map(whole_pieces, found))
        self._bare: dict[FragmentKey, list[NodePosition]] = {}
        self._first: dict[FragmentKey, int] = {}
        for number, pieces in enumerate(found):
            for piece in pieces:
                position = NodePosition(number, piece)
                self._classes.setdefault(skeleton_of(piece), _Variants()).add(position)
                self._first.setdefault(piece.key, len(self._first))
            for bare in bare_pieces(pieces):
                self._bare.setdefault(bare.key, []).append(NodePosition(number, bare))
        self.complete = True

    def all(self) -> list[_Offer]:
        """In the order in which readings have them."""
        found: list[tuple[int, Fragment, list[NodePosition]]] = []
        for variants in self._classes.values():
            self.complete &= len(variants.pieces) <= MAX_VARIANTS
            for key, piece in variants.pieces.items():
                found.append((self._first[key], piece, self._readers(piece, variants)))
            common = self._common(variants)
            if common is not None:
                found.append((len(self._first), common, self._readers(common, variants)))
        found.sort(key=lambda each: each[0])
        offers: list[_Offer] = []
        marked = [offer for have in self._bare.values() for offer in self._marked(have)]
        covered = {(offer.piece.key, offer.places) for offer in marked}
        for _, piece, places in found:
            for window in self._windows(places):
                at = tuple(p for p in places if self._window(p).size <= window.size)
                if (
                    _is_common(at)
                    and not _is_idle(at, self._whole)
                    and (piece.key, at) not in covered
                ):
                    asked = replace(piece.asked(self._readings[at[0].reading].query), window=window)
                    offers.append(_Offer(len(offers), piece, asked, at, self._statistics))
        offers += [replace(offer, number=len(offers) + i) for i, offer in enumerate(marked)]
        return offers

    def _marked(self, have: Sequence[NodePosition]) -> Iterator[_Offer]:
        """A piece with the negations of all that have it in one window, where these differ."""
        piece = have[0].piece
        at: dict[Window, list[NodePosition]] = {}
        asked: dict[Window, dict[Asked, None]] = {}
        for place in have:
            _, tests = asked_of(place.piece, self._whole[place.reading])
            at.setdefault(self._window(place), []).append(place)
            asked.setdefault(self._window(place), {})[tests] = None
        for window, places in at.items():
            own = replace(piece.asked(self._readings[places[0].reading].query), window=window)
            marking = Marking(piece, own, tuple(asked[window]), self._statistics)
            if _is_common(places) and marking.pays:
                yield _Offer(0, piece, own, tuple(places), self._statistics, marking)

    def _readers(self, piece: Fragment, variants: _Variants) -> list[NodePosition]:
        """Where a piece stands, or one that asks for more."""
        places = list(variants.places.get(piece.key, ()))
        if len(variants.pieces) <= MAX_VARIANTS:
            for key, other in variants.pieces.items():
                if key != piece.key and narrowing(piece, other) is not None:
                    places += variants.places[key]
        return sorted(places, key=lambda place: (place.reading, place.piece.first))

    def _common(self, variants: _Variants) -> Fragment | None:
        """What all variants ask for, where none of them asks for just that."""
        if not 1 < len(variants.pieces) <= MAX_VARIANTS:
            return None
        common = common_part(list(variants.pieces.values()))
        if common.key in variants.pieces:
            return None
        place = next(iter(variants.places.values()))[0]
        try:  # nobody may have asked how often this holds
            _rows(common.asked(self._readings[place.reading].query), self._statistics)
        except MissingStatisticError:
            return None
        return common

    def _window(self, place: NodePosition) -> Window:
        return self._readings[place.reading].query.window

    def _windows(self, places: Sequence[NodePosition]) -> list[Window]:
        """Windows in which a piece may be made, the longest first."""
        sizes = {self._window(place).size: self._window(place) for place in places}
        longest = sorted(sizes, reverse=True)
        if len(longest) > MAX_WINDOWS:
            step = (len(longest) - 1) / (MAX_WINDOWS - 1)
            longest = [longest[int(i * step)] for i in range(MAX_WINDOWS)]
        return [sizes[size] for size in longest]


class _Served:
    """Which nodes stand in for the pieces of a reader, and what reading them costs."""

    def __init__(self, offers: Sequence[_Offer], statistics: Statistics) -> None:
        self._offers: dict[Skeleton, list[tuple[int, _Offer]]] = {}
        self._marked: dict[FragmentKey, list[tuple[int, Marking]]] = {}
        for number, offer in enumerate(offers):
            if offer.marking is not None:
                self._marked.setdefault(offer.piece.key, []).append((number, offer.marking))
            else:
                self._offers.setdefault(skeleton_of(offer.piece), []).append((number, offer))
        self._statistics = statistics
        self._rows: dict[tuple[FragmentKey, int], float] = {}

    def occurrences(self, asked: Query, pieces: Iterable[Fragment]) -> Iterable[Occurrence]:
        for piece in pieces:
            for number, offer in self._offers.get(skeleton_of(piece), ()):
                if offer.asked.window.size < asked.window.size:
                    continue
                exact = offer.piece.key == piece.key
                if exact and offer.asked.window == asked.window:
                    yield Occurrence(number, piece)
                    continue
                filter_ = narrowing(offer.piece, piece)
                if filter_ is None:
                    continue
                if offer.asked.window != asked.window:
                    filter_ = replace(filter_, window=offer.asked.window)
                kept = self._kept(piece, asked)
                cost = reading_cost(piece.asked(asked), filter_, offer.rows, kept)
                yield Occurrence(number, piece, filter_, cost)

    def marked(self, asked: Query, pieces: Sequence[Fragment]) -> Iterable[Occurrence]:
        """Those whose rows are taken by the mark of the piece, with all its negations."""
        whole = whole_pieces(pieces)
        for bare in bare_pieces(pieces):
            piece, tests = asked_of(bare, whole)
            for number, marking in self._marked.get(bare.key, ()):
                if tests in marking.number and marking.asked.window == asked.window:
                    yield Occurrence(number, piece, None, marking.reading(tests), tests)

    def _kept(self, piece: Fragment, asked: Query) -> float:
        place = piece.key, asked.window.size
        if place not in self._rows:
            self._rows[place] = _rows(piece.asked(asked), self._statistics)
        return self._rows[place]


class _Limits(NamedTuple):
    """The most components of a reading that shares anything, and of a piece of one, if limited."""

    largest: int
    longest: int | None

    @property
    def is_none(self) -> bool:
        return self.longest is None


def _limits(sizes: Sequence[int]) -> _Limits:
    """What is looked at of readings of so many components; a table has a third power of these."""
    largest = MAX_EXACT_ITEMS
    while largest > 2 and sum(size**3 // 6 for size in sizes if size <= largest) > MAX_SPLITS:
        largest -= 1
    some = [size for size in sizes if size <= largest]
    if sum(size**2 // 2 for size in some) > MAX_PIECES:
        return _Limits(largest, max(2, MAX_PIECES // sum(some)))
    return _Limits(largest, None if len(some) == len(sizes) else largest)


def _size(pattern: Pattern) -> int:
    return sum(1 for _ in positive_events(pattern))


def _is_common(places: Sequence[NodePosition]) -> bool:
    return len({place.reading for place in places}) >= MIN_PARTS


def _is_idle(places: Sequence[NodePosition], whole: Sequence[Mapping[Span, Fragment]]) -> bool:
    """Is a bare piece at all its places the same with its negations?"""
    if not all(place.piece.bare for place in places):
        return False
    full = [whole[place.reading].get(place.piece.span) for place in places]
    return len({None if piece is None else piece.key for piece in full}) == 1 and None not in full
