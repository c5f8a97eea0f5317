"""What the queries of a group compute once: pieces of pattern, and who is made of which."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.engines import counting_engine
from optimizer.engines.stretches import words_of
from optimizer.physical.groups import CountingGroup, Group
from optimizer.physical.plan import Plan
from optimizer.physical.ways import Ways

Steps = Mapping[str, Sequence[str]]  # of each query


@dataclass(frozen=True)
class Piece:
    """Steps that several queries of a group have, computed once for all of them.

    `benefit` is what that saves, where it is known, and `why` the reason for it.
    """

    steps: tuple[str, ...]
    queries: tuple[str, ...]
    benefit: float | None = None
    why: str = ""


def computed_once(plan: Plan) -> dict[int, list[Piece]]:
    """The pieces that are counted once in each group, by its number: its segments with readers.

    What one saves is what it and its parts do that are counted for the same queries.
    """
    chosen = [c for c in plan.candidates if c.id in set(plan.chosen)]
    numbers = {query: i for i, group in enumerate(plan.groups) for query in group.queries}
    found: dict[int, list[Piece]] = {}
    for operator in plan.operators:
        if operator.kind == "segment":
            steps, queries = tuple(operator.detail["steps"]), tuple(operator.detail["queries"])
            inside = [c for c in chosen if c.queries == queries and is_part(c.pattern, steps)]
            saved = sum(c.benefit for c in inside) if inside else None
            piece = Piece(steps, queries, saved, inside[0].why if inside else "")
            found.setdefault(numbers[queries[0]], []).append(piece)
    return found


def made_once(plan: Plan) -> dict[int, list[Piece]]:
    """What is joined once for several queries, by the number of their group.

    Of a join the steps are the symbols that it reads.
    """
    ways = Ways(plan)
    numbers = {query: i for i, group in enumerate(plan.groups) for query in group.queries}
    found: dict[int, list[Piece]] = {}
    for join in ways.shared_joins:
        queries = ways.queries[join.id]
        anew = (len(queries) - 1) * ways.cost_below(join)
        why = "one by one, each query would take it again"
        piece = Piece(tuple(ways.symbols_below(join)), queries, anew, why)
        found.setdefault(numbers[queries[0]], []).append(piece)
    return found


def steps_of(group: Group) -> dict[str, tuple[str, ...]]:
    """The steps of each query, as far as it is a sequence of them; else it is a step of its own."""
    return words_of(segments_of(group)) if isinstance(group, CountingGroup) else {}


def segments_of(group: CountingGroup) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The segments that each query is made of, in order."""
    return {
        name: tuple(group.segments[number] for number in numbers)
        for name, numbers in group.uses.items()
    }


@dataclass(frozen=True)
class Cover:
    """Pieces that make up queries: for each query, where which of them begins."""

    pieces: tuple[Piece, ...]
    places: Mapping[str, tuple[tuple[int, int], ...]]  # (position, number of the piece)

    def queries(self, piece: int) -> tuple[str, ...]:
        """The queries that are made of a piece here."""
        return tuple(name for name, at in self.places.items() if any(n == piece for _, n in at))

    def uncovered(self, name: str, steps: Sequence[str]) -> list[str]:
        """The steps of a query that are in none of the pieces."""
        taken: set[int] = set()
        for position, number in self.places.get(name, ()):
            taken.update(range(position, position + len(self.pieces[number].steps)))
        return [step for at, step in enumerate(steps) if at not in taken]


def cover(pieces: Sequence[Piece], steps: Steps, most: int) -> Cover:
    """At most so many pieces: the one that covers the most new steps, again and again.

    Each covers some in two queries or more. Pieces may overlap, but none lies within another of the
    same query.
    """
    free = {name: [True] * len(found) for name, found in steps.items()}

    def places(piece: Piece) -> list[tuple[str, int]]:
        """Where it covers anything new."""
        size = len(piece.steps)
        return [
            (name, at)
            for name in piece.queries
            for at in _at(piece, steps.get(name, ()))
            if any(free[name][at : at + size])
        ]

    def rated(number: int) -> tuple[int, int, int]:
        piece = pieces[number]
        size, found = len(piece.steps), places(piece)
        new = sum(sum(free[name][at : at + size]) for name, at in found)
        return -new * (len({name for name, _ in found}) > 1), -size, number

    heap = [rated(number) for number in range(len(pieces))]
    heapq.heapify(heap)
    chosen: list[Piece] = []
    at: dict[str, list[tuple[int, int]]] = {name: [] for name in steps}
    while heap and len(chosen) < most:
        before = heapq.heappop(heap)
        now = rated(before[-1])
        if not now[0]:
            continue
        if now > before:  # what covers less than it did may no longer be first
            heapq.heappush(heap, now)
            continue
        piece = pieces[now[-1]]
        for name, position in places(piece):
            at[name].append((position, len(chosen)))
            free[name][position : position + len(piece.steps)] = [False] * len(piece.steps)
        chosen.append(piece)
    return _without_parts(chosen, at)


def _without_parts(chosen: Sequence[Piece], at: Mapping[str, list[tuple[int, int]]]) -> Cover:
    """The cover without places that lie within another one of their query."""

    def span(place: tuple[int, int]) -> tuple[int, int]:
        return place[0], place[0] + len(chosen[place[1]].steps)

    places = {}
    for name, found in at.items():
        spans = [span(place) for place in found]
        places[name] = [
            place
            for place, (start, end) in zip(found, spans, strict=True)
            if not any(s <= start and end <= e and (s, e) != (start, end) for s, e in spans)
        ]
    used = sorted({number for found in places.values() for _, number in found})
    new = {number: i for i, number in enumerate(used)}
    return Cover(
        tuple(chosen[number] for number in used),
        {name: tuple(sorted((p, new[n]) for p, n in found)) for name, found in places.items()},
    )


def _at(piece: Piece, steps: Sequence[str]) -> Iterator[int]:
    size = len(piece.steps)
    for at in range(len(steps) - size + 1):
        if tuple(steps[at : at + size]) == piece.steps:
            yield at


def pieces_of(group: Group) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The queries of each piece that the group's engine computes once, shorter pieces first."""
    if len(group.queries) < 2 or not isinstance(group, CountingGroup):
        return {}
    return counting_engine(group.engine).computed_once(segments_of(group))


def is_part(steps: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Is it a stretch of the other, or all of it?"""
    return any(whole[at : at + len(steps)] == steps for at in range(len(whole) - len(steps) + 1))
