"""Parts of patterns that several queries have: with the same relations, or with some of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from optimizer.engines.situation_joins import asked_masks
from optimizer.engines.situation_parts import PartError, SharedPart, shared_part
from optimizer.engines.situations import (
    join_cost,
    joined_once,
    part_cost,
    read_cost,
    temporal_of,
    widest,
)
from optimizer.ir.query import Query
from optimizer.ir.situations import Definition, Temporal
from optimizer.statistics.statistics import Statistics
from workloads.situations.relations import ALL

MOST_NAMES = 3  # of a part
MOST_NAMES_OF_QUERY = 8  # of which parts of three are looked for
MOST_PARTS = 20_000

Skeleton = tuple[tuple[Definition, ...], tuple[tuple[int, int], ...]]
Masks = tuple[int, ...]


@dataclass(frozen=True)
class RatedPart:
    """A part, the queries that gain by it, and what the plan costs less with it."""

    part: SharedPart
    readers: frozenset[int]  # numbers of joins
    benefit: float


@dataclass(frozen=True)
class _Place:
    """Where a join has a part: its number, its names, and the relations that it allows."""

    join: int
    places: tuple[int, ...]
    masks: Masks


def rated_parts(queries: Sequence[Query], statistics: Statistics) -> list[RatedPart]:
    """The parts that several joins of some queries have, each once for those that gain by it."""
    joins = [tuple(some) for some in joined_once(queries).values()]
    readers = [widest(some) for some in joins]
    alone = [join_cost(query, statistics) for query in readers]
    names = {query.name: query for query in queries}
    found: dict[tuple[tuple[str, ...], frozenset[int]], RatedPart] = {}
    for places in _shared_places([temporal_of(query) for query in readers]):
        at = {readers[place.join].name: place.places for place in places}
        try:
            part = shared_part(at, names)
        except PartError:
            continue  # together they allow all relations
        longest = widest([names[name] for name in at])
        _, rows = part_cost(part, longest, statistics)
        gains = {
            place.join: alone[place.join]
            - read_cost(readers[place.join], place.places, rows, statistics)
            for place in places
        }
        kept = [place for place in places if gains[place.join] > 0]
        if len(kept) < 2:
            kept = list(places)  # listed, with what it would cost
        every = {query.name: place.places for place in kept for query in joins[place.join]}
        part = shared_part({readers[p.join].name: p.places for p in kept}, names)
        longest = widest([names[name] for name in every])
        made, _ = part_cost(part, longest, statistics)
        part = SharedPart(part.definitions, part.constraints, every, part.is_same)
        numbers = frozenset(place.join for place in kept)
        benefit = sum(gains[number] for number in numbers) - made
        found.setdefault((part.texts, numbers), RatedPart(part, numbers, benefit))
    return list(found.values())


def _shared_places(patterns: Sequence[Temporal]) -> Iterator[list[_Place]]:
    """For each part that several joins have, where they have it; and where with equal relations."""
    found: dict[Skeleton, dict[int, _Place]] = {}
    for number, temporal in enumerate(patterns):
        for skeleton, places, masks in _parts(temporal):
            found.setdefault(skeleton, {}).setdefault(number, _Place(number, places, masks))
    given = 0
    for by_join in found.values():
        if len(by_join) < 2:
            continue
        every = list(by_join.values())
        by_masks: dict[Masks, list[_Place]] = {}
        for place in every:
            by_masks.setdefault(place.masks, []).append(place)
        if len(by_masks) > 1:
            yield every
        for some in by_masks.values():
            if len(some) > 1:
                yield some
        given += 1 + len(by_masks)
        if given > MOST_PARTS:
            return


def _parts(temporal: Temporal) -> Iterator[tuple[Skeleton, tuple[int, ...], Masks]]:
    """The connected parts of a pattern, names in an order that does not depend on the query."""
    number = len(temporal.situations)
    masks = asked_masks(number, temporal.constraints)
    most = MOST_NAMES if number <= MOST_NAMES_OF_QUERY else 2
    for size in range(2, min(most, number) + 1):
        for names in combinations(range(number), size):
            definitions = {place: temporal.situations[place].definition for place in names}
            if len(set(definitions.values())) < size:
                continue  # which of two alike is which, is open
            places = tuple(sorted(names, key=lambda place: repr(definitions[place])))
            tied = [
                (i, j)
                for i, j in combinations(range(size), 2)
                if masks[places[i]][places[j]] != ALL
            ]
            if len({place for pair in tied for place in pair}) < size or len(tied) < size - 1:
                continue
            skeleton = tuple(definitions[place] for place in places), tuple(tied)
            yield skeleton, places, tuple(masks[places[i]][places[j]] for i, j in tied)
