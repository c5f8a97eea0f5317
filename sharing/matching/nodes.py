"""The fragments that queries may build once (nodes), who reads them, which exclude each other, and
the trees that read them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import Neg, parts_of
from optimizer.ir.query import Query, Reading
from optimizer.statistics import Statistics
from optimizer.trees import CostedTree, GivenFragment, TreeError, best_tree, labels_of
from optimizer.trees.marks import MarkTest, marked_document
from optimizer.trees.problem import Fragment
from optimizer.trees.search import ItemRange, Stretches, stretches_of
from optimizer.trees.tree import Narrowed, Tree, renamed, symbol_labels, to_document
from sharing.counting.candidates import CandidateKind

MAX_TREE_OPTIONS = 64  # sets of nodes that are compared where no table does it
FEW_TREE_OPTIONS = 8


class Occurrence(NamedTuple):
    """Where a node stands in a reader.

    A node that asks for less than the piece there is read through a filter: `narrowed` says what
    it asks for, in the reader's names, and `filtering` is what that costs. Of a node that is marked
    for its readers, `tests` are the negations of this one.
    """

    node: int
    piece: Fragment
    narrowed: Narrowed | None = None
    filtering: float = 0.0
    tests: tuple[MarkTest, ...] | None = None


class TreeOption(NamedTuple):
    """A tree's cost without that of the nodes it reads, and which occurrences those are."""

    cost: float
    taken: tuple[int, ...]


class Reader:
    """A pattern with its occurrences of nodes, which are numbered in order.

    Costs are events touched in a second. One that is `quick` compares few trees. `marking` is what
    it takes to mark its rows for those that read it.
    """

    def __init__(
        self,
        asked: Query,
        occurrences: Sequence[Occurrence],
        statistics: Statistics,
        quick: bool = False,
        marking: float = 0.0,
    ) -> None:
        self._marking = marking
        self.asked, self.occurrences = asked, tuple(occurrences)
        self.nodes = frozenset(occurrence.node for occurrence in occurrences)
        self._statistics, self._quick = statistics, quick
        self._most = FEW_TREE_OPTIONS if quick else MAX_TREE_OPTIONS
        self._trees: dict[tuple[int, ...], CostedTree] = {}
        self._costs: dict[tuple[int, ...], float] = {}
        self._best: dict[frozenset[int], TreeOption] = {}
        found = stretches_of(asked, statistics, COMPILED) if occurrences else None
        self._table = found if found is not None and found.exact else None
        self._floor = found
        self._stretch = [(o.piece.first, o.piece.last) for o in occurrences]
        self._filtering = [o.filtering for o in occurrences]
        self._seconds = 1.0 if found is None else found.seconds
        self.alone = self.best(frozenset()).cost

    def best(self, made: frozenset[int]) -> TreeOption:
        """The cheapest tree where some nodes are made already."""
        made &= self.nodes
        found = self._best.get(made)
        if found is None:
            free = {i: 0.0 for i, o in enumerate(self.occurrences) if o.node in made}
            found = self._best[made] = self.least(free)
        return found

    @cached_property
    def exact(self) -> bool:
        """Is the best tree found among all sets of occurrences, and not step by step?"""
        every = range(len(self.occurrences))
        return self._table is not None or self._listed(every, self._most) is not None

    def least(self, prices: Mapping[int, float]) -> TreeOption:
        """The cheapest tree, with what it pays, where each occurrence with a price may be had.

        Where these allow very many sets, occurrences are taken one by one as long as that helps.
        """
        if self._table is not None:
            return self._looked_up(self._table, prices)
        sets = self._listed(prices, self._most)
        if sets is None and self._quick:
            likely = () if self._floor is None else self._looked_up(self._floor, prices).taken
            sets = list(dict.fromkeys([(), likely]))
        if sets is not None:
            return min((self._paid(taken, prices) for taken in sets), key=lambda way: way.cost)
        best = self._paid((), prices)
        while True:
            more = [
                tuple(sorted((*best.taken, i)))
                for i in sorted(prices)
                if all(self._apart(i, j) for j in best.taken)
            ]
            tried = [best, *(self._paid(taken, prices) for taken in more)]
            found = min(tried, key=lambda way: way.cost)
            if found.cost >= best.cost:
                return best
            best = found

    def at_least(self, prices: Mapping[int, float]) -> TreeOption:
        """What no tree costs less than at these prices, with what would be taken for it."""
        if self._table is None and self._listed(prices, self._most) is None:
            return (
                TreeOption(0.0, ()) if self._floor is None else self._looked_up(self._floor, prices)
            )
        return self.least(prices)

    def ways(self, limit: int) -> list[TreeOption] | None:
        """All sets of nodes that a tree can read and that save something; None for more."""
        limit = min(limit, self._most) if self._quick and self._table is None else limit
        sets = self._listed(range(len(self.occurrences)), limit)
        if sets is None:
            return None
        found = [
            way for taken in sets if (way := TreeOption(self._cost(taken), taken)).cost < math.inf
        ]
        cheapest = sorted(found, key=lambda way: (len(way.taken), way.cost))
        kept: list[TreeOption] = []
        for way in cheapest:
            own = set(way.taken)
            if not any(other.cost <= way.cost and own.issuperset(other.taken) for other in kept):
                kept.append(way)
        return kept

    def tree(self, taken: Sequence[int]) -> CostedTree:
        """The best tree that reads these occurrences, each under its number."""
        found = self._trees.get(tuple(taken))
        if found is None:
            given = [
                GivenFragment(str(i), self.occurrences[i].piece.positive, negations=not piece.bare)
                for i in taken
                for piece in [self.occurrences[i].piece]
            ]
            found = best_tree(self.asked, self._statistics, given, COMPILED)
            self._trees[tuple(taken)] = found
        return found

    def _paid(self, taken: tuple[int, ...], prices: Mapping[int, float]) -> TreeOption:
        return TreeOption(self._cost(taken) + sum(prices[i] for i in taken), taken)

    def _looked_up(self, table: Stretches, prices: Mapping[int, float]) -> TreeOption:
        """The best by a table; of the occurrences at one stretch the cheapest."""
        paid = {i: price + self._filtering[i] for i, price in prices.items()}
        at: dict[ItemRange, int] = {}
        for i, price in paid.items():
            stretch = self._stretch[i]
            if stretch not in at or price < paid[at[stretch]]:
                at[stretch] = i
        found = table.cheapest({stretch: paid[i] * self._seconds for stretch, i in at.items()})
        taken = tuple(sorted(at[stretch] for stretch in found.taken))
        return TreeOption(found.cost / self._seconds + self._marking, taken)

    def _listed(self, offered: Iterable[int], most: int) -> list[tuple[int, ...]] | None:
        """All sets of these occurrences that do not overlap; None where there are more."""
        found = list(islice(self._sets(offered), most + 1))
        return None if len(found) > most else found

    def _cost(self, taken: tuple[int, ...]) -> float:
        """The cost of the best tree that reads exactly these; infinite where there is none."""
        found = self._costs.get(taken)
        if found is None:
            if self._table is not None:
                cost, read = self._table.cheapest({self._stretch[i]: 0.0 for i in taken})
                found = cost / self._seconds if len(read) == len(taken) else math.inf
            else:
                try:
                    found = self.tree(taken).per_second
                except TreeError:
                    found = math.inf
            found += sum(self._filtering[i] for i in taken) + self._marking
            self._costs[taken] = found
        return found

    def _sets(self, offered: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Sets of these occurrences that do not overlap, small ones first."""
        offered = sorted(offered)
        level: list[tuple[int, ...]] = [()]
        while level:
            yield from level
            level = [
                (*taken, i)
                for taken in level
                for i in offered
                if (not taken or i > taken[-1]) and all(self._apart(i, j) for j in taken)
            ]

    def _apart(self, i: int, j: int) -> bool:
        one, other = self.occurrences[i].piece, self.occurrences[j].piece
        return one.last < other.first or other.last < one.first


class MatchSetting(NamedTuple):
    """What queries must have in common, besides pieces of their patterns, to share them.

    Windows may differ in their length: a piece is made in the longest.
    """

    key: tuple[str, ...]
    is_count: bool
    added: tuple[str, ...] = ()  # of keys that differ by component

    @staticmethod
    def of(query: Query) -> MatchSetting:
        return MatchSetting(query.key, query.window.is_count, query.added_columns)


class NodePosition(NamedTuple):
    """Where a node stands: the number of a reading, and which stretch of it."""

    reading: int
    piece: Fragment


@dataclass(frozen=True, eq=False)
class Node:
    """A piece that several readings have, or can read; `places` are in the order of readings.

    Of a place that asks for more, a filter keeps what is its own. One that is `marked` has no
    negations, and checks those of all its readers in one pass.
    """

    piece: Fragment
    places: tuple[NodePosition, ...]
    reader: Reader
    marked: bool = False

    @property
    def asked(self) -> Query:
        """The piece as a query, in the window that it is made in."""
        return self.reader.asked

    @cached_property
    def steps(self) -> tuple[str, ...]:
        """Its parts for people: symbols, each with what must not follow it and its conditions."""
        return steps_of(self.piece)


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """Readings with the readers of their trees, and what they may have in common.

    Where that is not `complete`, nodes were left out, as there are too many.
    """

    readings: tuple[Reading, ...]
    roots: tuple[Reader, ...]
    nodes: tuple[Node, ...]
    complete: bool = True

    def queries(self, places: Iterable[NodePosition]) -> tuple[str, ...]:
        """The queries of some places, in order."""
        return tuple(dict.fromkeys(self.readings[place.reading].query.name for place in places))

    def id(self, node: Node, places: Sequence[NodePosition]) -> str:
        """A name of a node for some places: the same for the same content, in every process."""
        window = [node.asked.window.size, node.asked.window.is_count]
        at = sorted((self.readings[p.reading].query.name, p.piece.first) for p in places)
        content = [node.piece.key, node.asked.key, window, at, *(["marked"] if node.marked else [])]
        digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode())
        return "share-" + digest.hexdigest()[:12]

    def kind(self, places: Sequence[NodePosition]) -> CandidateKind:
        """What a node is for some places."""
        if any(place.piece.bare for place in places):
            return "bitmark"
        if all(place.piece.first == 0 for place in places):
            return "prefix"
        if all(_is_last(place.piece, self.readings[place.reading]) for place in places):
            return "suffix"
        return "substring"

    @cached_property
    def separate(self) -> float:
        """What the readings cost one by one."""
        return sum(root.alone for root in self.roots)

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        """The readings' and then the nodes', by number."""
        return (*self.roots, *(node.reader for node in self.nodes))

    @cached_property
    def reading(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the readers that each node stands in."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for number, reader in enumerate(self.readers):
            for node in reader.nodes:
                found[node].append(number)
        return tuple(map(tuple, found))

    def cost(self, made: Collection[int]) -> float:
        """What all cost where these nodes are made, whether anything reads them or not."""
        some = frozenset(made)
        nodes = sum(self.nodes[node].reader.best(some).cost for node in sorted(some))
        return sum(root.best(some).cost for root in self.roots) + nodes

    def saved(
        self, made: frozenset[int], changed: frozenset[int], nodes: Iterable[int]
    ) -> tuple[float, int]:
        """By how much the cost falls where only these nodes differ, and how many trees that is."""
        gained = 0.0
        touched = {number for node in nodes for number in self.reading[node]}
        touched |= {len(self.roots) + node for node in nodes}
        for number in sorted(touched):
            reader = self.readers[number]
            if self._is_active(number, made):
                gained += reader.best(made).cost
            if self._is_active(number, changed):
                gained -= reader.best(changed).cost
        return gained, len(touched)

    def _is_active(self, number: int, made: frozenset[int]) -> bool:
        return number < len(self.roots) or number - len(self.roots) in made

    def used(self, made: Collection[int]) -> frozenset[int]:
        """Those of these nodes that the best trees read, directly or through others."""
        some, found = frozenset(made), set[int]()
        open_ = list(self.roots)
        while open_:
            reader = open_.pop()
            for i in reader.best(some).taken:
                node = reader.occurrences[i].node
                if node not in found:
                    found.add(node)
                    open_.append(self.nodes[node].reader)
        return frozenset(found)


def steps_of(piece: Fragment) -> tuple[str, ...]:
    """Symbols, each with what must not follow it; conditions, by number, with the last."""
    steps: list[str] = []
    for part, text in zip(piece.pattern.parts, piece.key[0], strict=True):
        if isinstance(part, Neg):
            steps[-1] += f" {text}"
        else:
            steps.append(text)
    if piece.key[1]:
        steps[-1] += f" WHERE {' AND '.join(piece.key[1])}"
    return tuple(steps)


def _is_last(piece: Fragment, reading: Reading) -> bool:
    positive = [part for part in parts_of(reading.pattern) if not isinstance(part, Neg)]
    return piece.last == len(positive) - 1


class At(NamedTuple):
    """A place of a node: the number of a reading, and the positive part that it begins with."""

    reading: int
    first: int


@dataclass(frozen=True)
class NodePlacement:
    """A node, and the places that it serves."""

    node: int
    places: frozenset[At]


def everywhere(problem: NodeProblem) -> list[NodePlacement]:
    """Each node with all its places."""
    return [
        NodePlacement(i, frozenset(At(place.reading, place.piece.first) for place in node.places))
        for i, node in enumerate(problem.nodes)
    ]


def conflicts(problem: NodeProblem, served: Sequence[NodePlacement]) -> list[tuple[int, int]]:
    """The pairs of these, by number, that are in conflict; the smaller number first."""
    inside = [
        {(o.node, o.piece.first, o.piece.last) for o in node.reader.occurrences}
        for node in problem.nodes
    ]
    spans: dict[int, list[tuple[int, int, int, int]]] = {}
    for number, (node, places) in enumerate((s.node, s.places) for s in served):
        more = problem.nodes[node].piece.size - 1
        for reading, first in places:
            spans.setdefault(reading, []).append((first, first + more, node, number))
    found: set[tuple[int, int]] = set()
    seen: set[tuple[tuple[int, int, int, int], ...]] = set()
    for listed in spans.values():
        several = tuple(sorted(listed))
        if several in seen:  # readings of one pattern have the same conflicts
            continue
        seen.add(several)
        for i, (first, last, node, number) in enumerate(several):
            for start, end, other, another in several[i + 1 :]:
                if start > last:
                    break
                if node == other:
                    continue
                within = (other, start - first, end - first) in inside[node]
                around = (node, first - start, last - start) in inside[other]
                if not within and not around:
                    found.add((min(number, another), max(number, another)))
    return sorted(found)


SHARED = "shared"  # the mark of a subtree: the candidate that it is


class Trees:
    """The best trees over some nodes."""

    def __init__(self, problem: NodeProblem, made: Collection[int]) -> None:
        self._problem, self._made = problem, frozenset(made)
        self._known: dict[int, Tree] = {}

    def document(self, number: int, marks: Mapping[int, str]) -> dict[str, Any]:
        """The tree of a reading; the nodes in it are marked with their names."""
        reading = self._problem.readings[number]
        return self._written_out(number, {}, labels_of(reading.asked), marks)

    def served(self) -> dict[int, frozenset[At]]:
        """The places that each node serves, directly or inside another."""
        found: dict[int, set[At]] = {}

        def visit(reader: Reader, reading: int, offset: int) -> None:
            for i in reader.best(self._made).taken:
                node, piece, *_ = reader.occurrences[i]
                found.setdefault(node, set()).add(At(reading, offset + piece.first))
                visit(self._problem.nodes[node].reader, reading, offset + piece.first)

        for number, root in enumerate(self._problem.roots):
            visit(root, number, 0)
        return {node: frozenset(places) for node, places in found.items()}

    def readers(self) -> dict[int, int]:
        """How many trees read each node directly: those of readings, and of nodes that are read."""
        found: dict[int, int] = {}
        for reader in self._active():
            for i in reader.best(self._made).taken:
                node = reader.occurrences[i].node
                found[node] = found.get(node, 0) + 1
        return found

    @cached_property
    def _asked(self) -> dict[int, list[tuple[MarkTest, ...]]]:
        """What the readers of each marked node ask for; once where several ask alike."""
        found: dict[int, dict[tuple[MarkTest, ...], None]] = {}
        for reader in self._active():
            for i in reader.best(self._made).taken:
                node, *_, tests = reader.occurrences[i]
                if tests is not None:
                    found.setdefault(node, {})[tests] = None
        return {node: list(asked) for node, asked in found.items()}

    def _active(self) -> Iterator[Reader]:
        """The readings' trees, and those of the nodes that are read."""
        open_, seen = list(self._problem.roots), set[int]()
        for reader in open_:
            yield reader
            for i in reader.best(self._made).taken:
                node = reader.occurrences[i].node
                if node not in seen:
                    seen.add(node)
                    open_.append(self._problem.nodes[node].reader)

    def _written_out(
        self,
        number: int,
        names: Mapping[str, str],
        labels: Mapping[str, str],
        marks: Mapping[int, str],
    ) -> dict[str, Any]:
        """A reader's tree under a reading's aliases, with those of its nodes in their places."""
        reader = self._problem.readers[number]
        document = to_document(renamed(self._tree(number), names), labels)

        def replaced(node: Any) -> Any:
            match node:
                case {"shared": str(i), "aliases": [*_]}:
                    inner, piece, narrowed, _, tests = reader.occurrences[int(i)]
                    own = self._problem.nodes[inner].piece.aliases
                    bound = piece.aliases if tests is None else piece.bound
                    here = [names.get(alias, alias) for alias in bound]
                    there = dict(zip(own, here, strict=True))
                    again, below = len(self._problem.roots) + inner, labels
                    if narrowed is not None:
                        filter_ = renamed(narrowed, names)
                        assert isinstance(filter_, Narrowed)
                        below = {**labels, **symbol_labels(filter_)}
                    found = self._written_out(again, there, below, marks)
                    if tests is not None:
                        found = marked_document(found, here, self._asked[inner])
                    found = found | {SHARED: marks[inner]} if inner in marks else found
                    if tests is not None:
                        number = self._asked[inner].index(tests)
                        found = {"operator": "TAKEN", "parts": [found], "reader": number}
                    if narrowed is None:
                        return found
                    return to_document(filter_, labels) | {"parts": [found]}
                case {"parts": [*_]}:
                    return {key: replaced(value) for key, value in node.items()}
                case [*parts]:
                    return [replaced(part) for part in parts]
                case _:
                    return node

        made: dict[str, Any] = replaced(document)
        return made

    def _tree(self, number: int) -> Tree:
        if number not in self._known:
            reader = self._problem.readers[number]
            self._known[number] = reader.tree(reader.best(self._made).taken).tree
        return self._known[number]
