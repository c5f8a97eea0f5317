"""The matches of patterns over situations: names are joined one by one, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from engines.columns.layout import Rows
from engines.matching.situations.runs import Derivation, Moments, NamedRuns
from kernels.situations.cpu import (
    ALL,
    count_relations,
    find_matches,
    with_groups,
)
from optimizer.engines.situation_joins import (
    JoinSizes,
    asked_masks,
    join_order,
    tried_relations,
)
from optimizer.ir.situations import Constraint, Edge, Situation, Temporal
from workloads.situations.relations import EQUALS, converse

MOST_COUNTED = 1 << 10  # situations of a name whose relations to others are counted


@dataclass(frozen=True, eq=False)
class JoinedSituations:
    """Matches: for each name the place of its situation among the name's; and when each is certain.

    `until` is the row of the layout behind the last one that counts for a match.
    """

    named: Sequence[NamedRuns]
    chosen: Sequence[Rows]
    partition: Rows
    first_tick: Rows
    sure_tick: Rows
    sure_place: Rows  # the block at which it is certain, or behind all events of its tick
    sequenced: bool

    def __len__(self) -> int:
        return len(self.partition)

    def take(self, some: Any) -> JoinedSituations:
        return replace(
            self,
            chosen=[rows[some] for rows in self.chosen],
            partition=self.partition[some],
            first_tick=self.first_tick[some],
            sure_tick=self.sure_tick[some],
            sure_place=self.sure_place[some],
        )


class _Tables(NamedTuple):
    """What the kernels take of the situations of all names."""

    offsets: Rows
    start: Rows
    end: Rows
    sure: Rows
    tick: Rows
    number: Rows


class Join:
    """One pattern over the situations of a layout."""

    def __init__(
        self,
        situations: Sequence[Situation],
        constraints: Sequence[Constraint],
        implied: Sequence[tuple[int, int, int]],
        complete: bool,
        derivation: Derivation,
        sequenced: bool,
        width: int,
    ) -> None:
        self.complete, self.width, self.sequenced = complete, width, sequenced
        self.named = [derivation.named(situation, complete) for situation in situations]
        self.is_empty = not all(len(one.number) for one in self.named)
        self.moments = Moments.of(sequenced, self.named)
        self.tables = _tables(self.named, self.moments)
        self.masks, self.implied = _masks(len(situations), constraints, implied)
        self.alike = _alike(situations, constraints)

    @staticmethod
    def of(temporal: Temporal, width: int, derivation: Derivation, sequenced: bool) -> Join:
        """That of all names of a pattern."""
        return Join(
            temporal.situations,
            temporal.constraints,
            temporal.implied,
            temporal.emit == "complete",
            derivation,
            sequenced,
            width,
        )

    def order(self, begun: tuple[int, ...] = (), rows: int = 0) -> Rows:
        """Names in the order that takes least, by how many pairs have which relation."""
        names = len(self.named)
        if names - len(begun) < 2 and names < 3:
            if not begun:
                begun = (int(np.argmin([len(one.number) for one in self.named])),)
            return np.array([*begun, *(set(range(names)) - set(begun))])
        kept, tried = np.ones((names, names)), np.ones((names, names))
        sizes = [len(one.number) for one in self.named]
        for j in range(names):
            for k in range(j + 1, names):
                counts = self._counts(j, k)
                pairs = min(sizes[j], MOST_COUNTED) * sizes[k]
                mask = int(self.implied[j, k])
                for shares, asked in ((kept, mask), (tried, tried_relations(mask))):
                    number = _number(counts, asked) if asked != ALL else int(counts.sum())
                    shares[j, k] = shares[k, j] = number / pairs
        found = join_order(JoinSizes(sizes, kept.tolist(), tried.tolist()), begun, float(rows))
        return np.array(found.names)

    def _counts(self, j: int, k: int) -> Rows:
        tables, named = self.tables, self.named
        firsts = [int(offsets[0]) for offsets in tables.offsets]
        own = [
            slice(first, first + len(one.number)) for first, one in zip(firsts, named, strict=True)
        ]
        sides = [(tables.start[own[i]], tables.end[own[i]], tables.tick[own[i]]) for i in (j, k)]
        offsets = np.minimum(named[j].offsets, MOST_COUNTED)
        return count_relations(offsets, named[k].offsets, *sides[0], *sides[1], self.width)

    def matches(self, most: int, order: Rows, seeds: Rows, partitions: Rows) -> Iterator[Any]:
        """Situations by name, and the moment at which it is certain, of about `most` at once."""
        tables = self.tables
        given = (
            *(tables.offsets, order, seeds, partitions),
            *(tables.start, tables.end, tables.sure, tables.tick),
            *(tables.number, self.masks, self.implied, self.alike, self.moments.ticks),
            *(self.width, self.complete),
        )
        place = 0
        while place < len(partitions):
            chosen, certain, place = find_matches(*given, place, most)
            if len(certain):
                yield chosen, certain

    def seeds(self, order: Rows) -> tuple[Rows, Rows]:
        """The situations of the first name."""
        root = int(order[0])
        first = int(self.tables.offsets[root, 0])
        rows = np.arange(first, first + len(self.named[root].number))
        return rows[None, :], self.named[root].runs.partition

    def made(self, chosen: Rows, certain: Rows) -> JoinedSituations:
        tables, moments = self.tables, self.moments
        first_tick = tables.tick[chosen[0]]
        for rows in chosen[1:]:
            first_tick = np.minimum(first_tick, tables.tick[rows])
        own = [rows - tables.offsets[name, 0] for name, rows in enumerate(chosen)]
        if len(moments.ticks):
            sure_tick, sure_place = moments.ticks[certain], moments.places[certain]
        else:
            sure_tick = sure_place = certain
        partition = self.named[0].runs.partition[own[0]]
        return JoinedSituations(
            self.named, own, partition, first_tick, sure_tick, sure_place, self.sequenced
        )


def joined_situations(
    temporal: Temporal,
    width: int,
    derivation: Derivation,
    sequenced: bool,
    most: int,
) -> Iterator[JoinedSituations]:
    """The matches of a pattern in windows of so many ticks, about `most` at once."""
    join = Join.of(temporal, width, derivation, sequenced)
    if join.is_empty:
        return
    order = join.order()
    for chosen, certain in join.matches(most, order, *join.seeds(order)):
        yield join.made(chosen, certain)


def edges_of(
    temporal: Temporal, edge: Edge, derivation: Derivation, sequenced: bool
) -> JoinedSituations:
    """The starts of the situations of a pattern's one name, or the ends of those that have ended,
    each as a match of no length.
    """
    (situation,) = temporal.situations
    named = derivation.named(situation, edge == "end")
    runs = named.runs
    tick, place = (
        (runs.start_tick, runs.start_place) if edge == "start" else (runs.end_tick, runs.end_place)
    )
    chosen = np.arange(len(tick))
    return JoinedSituations([named], [chosen], runs.partition, tick, tick, place, sequenced)


def _number(counts: Rows, mask: int) -> int:
    """How many pairs have a relation of a mask."""
    bits = with_groups(mask)
    return sum(int(number) for code, number in enumerate(counts) if bits >> code & 1)


def _tables(named: Sequence[NamedRuns], moments: Moments) -> _Tables:
    bases = np.cumsum([0, *(len(one.number) for one in named)])
    offsets = np.stack([one.offsets + base for one, base in zip(named, bases[:-1], strict=True)])
    return _Tables(
        offsets,
        np.concatenate([moments.numbers(n.runs.start_tick, n.runs.start_place) for n in named]),
        np.concatenate([moments.numbers(n.runs.end_tick, n.runs.end_place) for n in named]),
        np.concatenate([moments.numbers(n.sure_tick, n.sure_place) for n in named]),
        np.concatenate([n.runs.start_tick for n in named]),
        np.concatenate([n.number for n in named]),
    )


def _masks(
    names: int, constraints: Sequence[Constraint], implied: Sequence[tuple[int, int, int]]
) -> tuple[Rows, Rows]:
    """Relations that names may have, and those that are left by all constraints."""
    masks = np.array(asked_masks(names, constraints))
    left = masks.copy()
    for i, j, mask in implied:
        left[i, j], left[j, i] = mask, converse(mask)
    return masks, left


def _alike(situations: Sequence[Situation], constraints: Sequence[Constraint]) -> Any:
    """Names that may not stand for one situation."""
    size = len(situations)
    alike = np.zeros((size, size), bool)
    for i, first in enumerate(situations):
        for j, second in enumerate(situations):
            alike[i, j] = i != j and first.definition == second.definition
    for c in constraints:
        if c.mask & EQUALS:
            alike[c.left, c.right] = alike[c.right, c.left] = False
    return alike
