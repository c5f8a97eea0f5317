"""What keeps queries with the same symbols from sharing them: to explain a plan, not to make it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from optimizer.ir.pattern import Symbol
from sharing.apriori import Level, levels, stretches
from sharing.candidates import interned
from sharing.steps import SETTING_NAMES, QuerySteps

LISTED = 100


@dataclass(frozen=True)
class Obstacle:
    """Symbols that two queries have in common, and in what they differ all the same."""

    symbols: tuple[Symbol, ...]
    queries: tuple[str, str]
    differs: tuple[str, ...]

    def __str__(self) -> str:
        symbols, first, second = ", ".join(map(str, self.symbols)), *self.queries
        return f"{symbols}: {first} and {second} do not share it: they differ in " + " and ".join(
            self.differs
        )


def obstacles(queries: Iterable[QuerySteps], limit: int = LISTED) -> tuple[Obstacle, ...]:
    """Would-be candidates, longest first, with two queries that cannot share each.

    Any two queries are named once, with the longest of what they have in common; `limit` bounds
    how many are found.
    """
    of = tuple(queries)
    if len({q.setting for q in of}) < 2 and not any(step.negated for q in of for step in q.steps):
        return ()
    symbols = interned([step.symbol for step in query.steps] for query in of)
    exact = interned([(query.setting, step) for step in query.steps] for query in of)
    owner = symbols.owner
    found: dict[tuple[int, int], Obstacle] = {}
    every = list(zip(levels(symbols), stretches(exact), strict=False))
    for level, numbers in reversed(every):
        for one, other in pairs(level, numbers[level.places], owner[level.places]):
            pair = int(owner[one]), int(owner[other])
            if len(found) == limit:
                return tuple(found.values())
            if pair not in found:
                starts = (one - int(symbols.start[pair[0]]), other - int(symbols.start[pair[1]]))
                found[pair] = _obstacle(of[pair[0]], of[pair[1]], starts, level.length)
    return tuple(found.values())


def pairs(level: Level, numbers: np.ndarray, owner: np.ndarray) -> list[tuple[int, int]]:
    """For each stretch its first place, and the next one that is not the same in another query."""
    sizes = np.diff(level.first)
    begin = np.repeat(level.first[:-1], sizes)
    other = np.flatnonzero((numbers != numbers[begin]) & (owner != owner[begin]))
    _, nearest = np.unique(begin[other], return_index=True)
    at = other[nearest]
    return list(zip(level.places[begin[at]].tolist(), level.places[at].tolist(), strict=True))


def _obstacle(one: QuerySteps, other: QuerySteps, starts: tuple[int, int], length: int) -> Obstacle:
    differs = [
        name
        for name, mine, theirs in zip(SETTING_NAMES, one.setting, other.setting, strict=True)
        if mine != theirs
    ]
    first = one.steps[starts[0] : starts[0] + length]
    second = other.steps[starts[1] : starts[1] + length]
    if first != second:
        differs.append("negations")
    return Obstacle(tuple(step.symbol for step in first), (one.name, other.name), tuple(differs))
