"""What the queries of a group compute once: pieces of pattern, and who is made of which."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.physical.plan import Candidate, Group, Plan

PRODUCT = "product"  # counts every distinct piece of its queries once; other engines say which


@dataclass(frozen=True)
class Piece:
    """Steps that several queries of a group have, computed once for all of them.

    `benefit` is what the plan's model says about it, where it was a candidate, and `why` the
    candidate's own reason.
    """

    steps: tuple[str, ...]
    queries: tuple[str, ...]
    benefit: float | None = None
    why: str = ""


def computed_once(plan: Plan) -> dict[int, list[Piece]]:
    """The pieces of each group, by the group's number; groups without any are left out."""
    inside = _by_group(plan)
    found = {}
    for number, group in enumerate(plan.groups):
        if len(group.queries) < 2:
            continue
        candidates = inside.get(number, [])
        pieces = _longest(candidates) if group.engine == PRODUCT else _used(group, candidates)
        if pieces:
            found[number] = pieces
    return found


def steps_of(group: Group) -> dict[str, tuple[str, ...]]:
    """The steps of each query, as far as it is a sequence of them; else it is a step of its own."""
    segments = group.segments or ()
    return {
        name: tuple(step for number in numbers for step in segments[number])
        for name, numbers in (group.uses or {}).items()
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


def cover(pieces: Sequence[Piece], steps: Mapping[str, Sequence[str]], most: int) -> Cover:
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


def _by_group(plan: Plan) -> dict[int, list[Candidate]]:
    """The candidates whose queries are all in one group."""
    group_of = {name: i for i, group in enumerate(plan.groups) for name in group.queries}
    found: dict[int, list[Candidate]] = {}
    for candidate in plan.candidates:
        groups = {group_of.get(name, -1) for name in candidate.queries}
        if len(groups) == 1:
            found.setdefault(groups.pop(), []).append(candidate)
    return found


def _longest(candidates: Sequence[Candidate]) -> list[Piece]:
    """Those that are no part of a longer one for the same queries; of variants the widest."""
    widest: dict[tuple[str, ...], Candidate] = {}
    for candidate in candidates:
        other = widest.setdefault(candidate.pattern, candidate)
        if len(candidate.queries) > len(other.queries):
            widest[candidate.pattern] = candidate
    by_queries: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in widest.values():
        by_queries.setdefault(candidate.queries, []).append(candidate)
    return [
        Piece(one.pattern, one.queries, one.benefit, one.why)
        for same in by_queries.values()
        for one in same
        if not any(_within(one.pattern, other.pattern) for other in same)
    ]


def _within(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    size = len(one)
    return size < len(other) and any(
        other[at : at + size] == one for at in range(len(other) - size + 1)
    )


def _used(group: Group, candidates: Sequence[Candidate]) -> list[Piece]:
    """The segments that several queries are made of."""
    users: dict[int, list[str]] = {}
    for name, numbers in (group.uses or {}).items():
        for number in dict.fromkeys(numbers):
            users.setdefault(number, []).append(name)
    found = []
    for number, queries in sorted(users.items()):
        if len(queries) > 1:
            steps = (group.segments or ())[number]
            same = [c for c in candidates if c.pattern == steps and set(c.queries) == set(queries)]
            benefit, why = (same[0].benefit, same[0].why) if same else (None, "")
            found.append(Piece(steps, tuple(queries), benefit, why))
    return found
