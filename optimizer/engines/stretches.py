"""Stretches of steps that several queries have, and which of them an engine counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.engines.spec import Segments, Steps

Shared = dict[Steps, tuple[str, ...]]


def words_of(segments: Segments) -> dict[str, Steps]:
    """The steps of each query, all segments behind one another."""
    return {
        name: tuple(step for part in parts for step in part) for name, parts in segments.items()
    }


def common(words: Mapping[str, Sequence[str]]) -> Shared:
    """Stretches of two steps or more that several queries have, shorter ones first.

    By their length, and none is looked at whose parts are not common (Apriori).
    """
    shared: Shared = {}
    alive = {name: set(range(len(word))) for name, word in words.items()}
    size = 2
    while True:
        level: dict[Steps, dict[str, list[int]]] = {}
        for name, word in words.items():
            for at in sorted(alive[name]):
                if at + 1 in alive[name]:
                    places = level.setdefault(tuple(word[at : at + size]), {})
                    places.setdefault(name, []).append(at)
        alive = {name: set() for name in words}
        for piece, places in level.items():
            if len(places) > 1:
                shared[piece] = tuple(places)
                for name, positions in places.items():
                    alive[name].update(positions)
        if not any(alive.values()):
            return shared
        size += 1


def beginnings(words: Mapping[str, Sequence[str]]) -> Shared:
    """What several queries begin with."""
    found: dict[Steps, list[str]] = {}
    for name, word in words.items():
        for end in range(1, len(word) + 1):
            found.setdefault(tuple(word[:end]), []).append(name)
    return {piece: tuple(names) for piece, names in found.items() if len(names) > 1}


def longest(shared: Mapping[Steps, tuple[str, ...]]) -> Shared:
    """Those that are no part of a longer one for the same queries."""
    parts = {
        part
        for piece, queries in shared.items()
        for part in (piece[:-1], piece[1:])
        if shared.get(part) == queries
    }
    return {piece: queries for piece, queries in shared.items() if piece not in parts}


def equal_segments(segments: Segments) -> Shared:
    """The segments that several queries are made of."""
    users: dict[Steps, list[str]] = {}
    for name, parts in segments.items():
        for part in dict.fromkeys(parts):
            users.setdefault(part, []).append(name)
    return {part: tuple(names) for part, names in users.items() if len(names) > 1}
