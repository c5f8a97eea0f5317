"""In which order the names of a pattern over situations are joined, and what that takes.

A join goes on from partial matches by one name at a time. What it takes is, at each name, the
partial matches so far, the situations of the name that are tried with them, and what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from optimizer.ir.situations import Constraint
from workloads.situations.relations import AFTER, ALL, BEFORE, MEETS, MET_BY, converse

_MOST_EXACT = 8  # names of which all orders are compared
_TOUCHING = ALL & ~(BEFORE | AFTER)
_LOOK_UP = 2.0  # to find where to begin, beside trying one situation
Matrix = Sequence[Sequence[float]]


def tried_relations(mask: int) -> int:
    """The relations that situations have among which those of a mask are looked for.

    Situations of a name are in order, and what is tried lies in one stretch of it.
    """
    if not mask & ~(BEFORE | MEETS):
        return BEFORE | MEETS
    if not mask & ~(AFTER | MET_BY):
        return AFTER | MET_BY
    return mask & (BEFORE | AFTER) | _TOUCHING


@dataclass(frozen=True)
class JoinSizes:
    """How many situations each name has, and of the pairs of two names, which share is kept by the
    constraints on them, and which is tried to find these.
    """

    names: Sequence[float]
    kept: Matrix
    tried: Matrix

    def left(self, partial: float, joined: Sequence[int], name: int) -> float:
        """The partial matches that are left after one more name."""
        found = partial * self.names[name]
        for other in joined:
            found *= self.kept[other][name]
        return found

    def step(self, partial: float, joined: Sequence[int], name: int) -> float:
        """What joining one more name takes."""
        nearest = min(self.tried[other][name] for other in joined)
        tried = partial * self.names[name] * nearest
        return partial * _LOOK_UP + tried + self.left(partial, joined, name)


@dataclass(frozen=True)
class JoinOrder:
    """Names in the order in which they are joined, what that takes, and what comes of it."""

    names: tuple[int, ...]
    cost: float
    rows: float


def join_order(sizes: JoinSizes, begun: Sequence[int] = (), rows: float = 0.0) -> JoinOrder:
    """The cheapest order; where names are joined already, `begun` with so many rows, from there."""
    number = len(sizes.names)
    if begun:
        starts = [JoinOrder(tuple(begun), rows, rows)]
    else:
        starts = [
            JoinOrder((name,), sizes.names[name], sizes.names[name]) for name in range(number)
        ]
    if number > _MOST_EXACT:
        return min((_greedy(sizes, start) for start in starts), key=lambda o: (o.cost, o.names))
    best: dict[frozenset[int], JoinOrder] = {}
    for start in starts:
        best[frozenset(start.names)] = start
    level = dict(best)
    for _ in range(number - len(starts[0].names)):
        further: dict[frozenset[int], JoinOrder] = {}
        for before in level.values():
            for name in range(number):
                if name in before.names:
                    continue
                made = _with(sizes, before, name)
                key = frozenset(made.names)
                known = further.get(key)
                if known is None or (made.cost, made.names) < (known.cost, known.names):
                    further[key] = made
        level = further
    (found,) = level.values() if number > len(starts[0].names) else (_cheapest(starts),)
    return found


def _cheapest(starts: Sequence[JoinOrder]) -> JoinOrder:
    return min(starts, key=lambda start: start.cost)


def _with(sizes: JoinSizes, before: JoinOrder, name: int) -> JoinOrder:
    cost = before.cost + sizes.step(before.rows, before.names, name)
    return JoinOrder((*before.names, name), cost, sizes.left(before.rows, before.names, name))


def _greedy(sizes: JoinSizes, start: JoinOrder) -> JoinOrder:
    found = start
    while len(found.names) < len(sizes.names):
        best, least = found, inf
        for name in range(len(sizes.names)):
            if name not in found.names:
                made = _with(sizes, found, name)
                if made.cost < least:
                    best, least = made, made.cost
        found = best
    return found


def asked_masks(number: int, constraints: Sequence[Constraint]) -> list[list[int]]:
    """For every two names the relations that constraints allow, `ALL` where there are none."""
    masks = [[ALL] * number for _ in range(number)]
    for c in constraints:
        masks[c.left][c.right] &= c.mask
        masks[c.right][c.left] &= converse(c.mask)
    return masks
