"""Nodes and readers of queries of one key and window."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from optimizer.ir.pattern import Neg, parts_of
from optimizer.ir.query import Query, Window
from optimizer.statistics import Statistics
from optimizer.trees.pieces import Key, Piece, Reading, pieces_of
from sharing.candidates import Kind
from sharing.detection.readers import Occurrence, Reader

FEWEST = 2  # readings that have a node


class Setting(NamedTuple):
    """What queries must have in common, besides pieces of their patterns, to share them."""

    key: tuple[str, ...]
    window: Window

    @staticmethod
    def of(query: Query) -> Setting:
        return Setting(query.key, query.window)


class Place(NamedTuple):
    """Where a node stands: the number of a reading, and which stretch of it."""

    reading: int
    piece: Piece


@dataclass(frozen=True, eq=False)
class Node:
    """A piece that several readings have; `places` are in the order of readings."""

    setting: Setting
    places: tuple[Place, ...]
    reader: Reader

    @property
    def piece(self) -> Piece:
        """The piece under the aliases of its first place."""
        return self.places[0].piece

    @cached_property
    def steps(self) -> tuple[str, ...]:
        """Its parts for people: symbols, each with what must not follow it and its conditions."""
        return steps_of(self.piece)


@dataclass(frozen=True, eq=False)
class Problem:
    """Readings with the readers of their trees, and what they may have in common."""

    readings: tuple[Reading, ...]
    roots: tuple[Reader, ...]
    nodes: tuple[Node, ...]

    def queries(self, places: Iterable[Place]) -> tuple[str, ...]:
        """The queries of some places, in order."""
        return tuple(dict.fromkeys(self.readings[place.reading].query.name for place in places))

    def id(self, node: Node, places: Sequence[Place]) -> str:
        """A name of a node for some places: the same for the same content, in every process."""
        window = [node.setting.window.size, node.setting.window.is_count]
        at = sorted((self.readings[p.reading].query.name, p.piece.first) for p in places)
        content = [node.piece.key, node.setting.key, window, at]
        digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode())
        return "share-" + digest.hexdigest()[:12]

    def kind(self, places: Sequence[Place]) -> Kind:
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


def problem_of(
    readings: Sequence[Reading], statistics: Statistics, sharing: bool = True
) -> Problem:
    """The nodes of readings of one key and window; none without `sharing`."""
    places: dict[Key, list[Place]] = {}
    found = [
        pieces_of(reading.pattern, reading.asked.conditions)
        if sharing and len(readings) > 1
        else []
        for reading in readings
    ]
    for number, pieces in enumerate(found):
        for piece in pieces:
            places.setdefault(piece.key, []).append(Place(number, piece))
    whole = {(n, p.first, p.last): p.key for n, pieces in enumerate(found) for p in pieces
             if not p.bare}  # fmt: skip
    kept = {key: at for key, at in places.items() if _is_common(at) and not _is_idle(at, whole)}
    numbers = {key: i for i, key in enumerate(kept)}

    def reader(asked: Query, pieces: Iterable[Piece]) -> Reader:
        own = [Occurrence(numbers[p.key], p) for p in pieces if p.key in numbers]
        return Reader(asked, own, statistics)

    nodes = []
    for at in kept.values():
        piece, query = at[0].piece, readings[at[0].reading].query
        inner = pieces_of(piece.pattern, piece.conditions, whole=False)
        node = reader(piece.asked(query), inner)
        nodes.append(Node(Setting.of(query), tuple(at), node))
    roots = tuple(reader(r.asked, pieces) for r, pieces in zip(readings, found, strict=True))
    return Problem(tuple(readings), roots, tuple(nodes))


def steps_of(piece: Piece) -> tuple[str, ...]:
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


def _is_common(places: Sequence[Place]) -> bool:
    return len({place.reading for place in places}) >= FEWEST


def _is_idle(places: Sequence[Place], whole: dict[tuple[int, int, int], Key]) -> bool:
    """Is a bare piece at all its places the same with its negations?"""
    if not all(place.piece.bare for place in places):
        return False
    full = [whole.get((p.reading, p.piece.first, p.piece.last)) for p in places]
    return full[0] is not None and len(set(full)) == 1


def _is_last(piece: Piece, reading: Reading) -> bool:
    positive = [part for part in parts_of(reading.pattern) if not isinstance(part, Neg)]
    return piece.last == len(positive) - 1
