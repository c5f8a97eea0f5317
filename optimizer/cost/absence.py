"""How many matches are free of what they negate, in a stream of independent events.

The n events of a match that spans less than a window leave n spaces: the n - 1 gaps between them,
and what is left of the window. All ways to share the window among these are equally likely. A
space of length g is free of a negated event at rate r with the chance exp(-r g), and of a negated
sequence as long as that is not complete: its events are looked for one after the other, from the
end of the space, each at its own rate. So a match goes through states, those of its first space,
those of its second one and so on, and the exponential of the matrix of their rates says how many
matches come through: for plain negations the divided differences of exp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    parts_of,
    positive_events,
)
from optimizer.statistics.statistics import KeyStatistics
from workloads.syntax import Exactly

MOST_STATES = 64  # of one space: where more sequences are negated there, they count as events
MOST_EVENTS = 1e5  # of one symbol in a window: more are as good as this many
LEAST = 1e-12  # of matches that are left: what hardly ever is can still be divided by
_HALVINGS = 6  # of the largest rate, below 1, before the exponential is found by squaring

Matrix: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated event or sequence: how many events a window holds of each component, last to first.

    `blocks[i]` are those negated between component i and the one found before it, later in time.
    """

    steps: tuple[float, ...]
    blocks: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """How often it is complete, as if it were a single event."""
        if min(self.steps) <= 0:
            return 0.0
        return 1 / sum(1 / step for step in self.steps)


Space: TypeAlias = tuple[Absence, ...]  # all that is negated in it


@lru_cache(maxsize=65_536)
def share_left(
    spaces: tuple[Space, ...], events: int, key: KeyStatistics, whole: bool = False
) -> float:
    """The share of matches of so many events that is free of what is negated in their spaces.

    Of spaces that nothing is negated in none need be given. Events of other keys do not matter.
    With `whole` there is one space, and that is the window.
    """
    if not spaces:
        return 1.0
    others = key.cardinality - 1
    parts = [(1.0, key.heaviest)]
    if others >= 1e-9 and key.heaviest < 1:
        parts.append((others, (1 - key.heaviest) / others))
    # A key's value has as many matches as the power of its share of events.
    most = max(part for _, part in parts)
    weights = [values * (part / most) ** events for values, part in parts]
    found = sum(
        weight * _share_left(spaces, 1 if whole else events, part)
        for weight, (_, part) in zip(weights, parts, strict=True)
    )
    return min(1.0, max(found / sum(weights), LEAST))


def _share_left(spaces: tuple[Space, ...], events: int, part: float) -> float:
    states = [_generator(space, part) for space in spaces]
    states += [np.zeros((1, 1))] * (max(events, len(spaces)) - len(spaces))
    size = sum(len(own) for own in states)
    rates = np.zeros((size, size))
    start = 0
    for number, own in enumerate(states, 1):
        behind = start + len(own)
        rates[start:behind, start:behind] = own
        if behind < size:
            rates[start:behind, behind] = number  # together the number of orders of the spaces
        start = behind
    return float(_exponential(rates)[0, size - len(states[-1]) :].sum())


def _generator(space: Space, part: float) -> Matrix:
    """The rates at which what is negated in a space goes from state to state, until it is there."""
    chains = [absence for absence in space if len(absence.steps) > 1]
    if math.prod(len(absence.steps) for absence in chains) > MOST_STATES:
        space, chains = tuple(Absence((absence.rate,)) for absence in space), []
    plain = sum(absence.steps[0] for absence in space if len(absence.steps) == 1)
    none = np.full((1, 1), -_expected(plain, part))
    return reduce(_side_by_side, (_chain(absence, part) for absence in chains), none)


def _chain(absence: Absence, part: float) -> Matrix:
    steps, size = absence.steps, len(absence.steps)
    blocks = absence.blocks or (0.0,) * size
    rates = np.zeros((size, size))
    for i in range(size):
        found, lost = _expected(steps[i], part), _expected(blocks[i], part) if i else 0.0
        rates[i, i] = -found - lost
        if i + 1 < size:
            rates[i, i + 1] = found
        if i:
            rates[i, i - 1] = lost
    return rates


def _side_by_side(one: Matrix, other: Matrix) -> Matrix:
    """The rates of two that go their ways independently."""
    found: Matrix = np.kron(one, np.eye(len(other))) + np.kron(np.eye(len(one)), other)
    return found


def _expected(count: float, part: float) -> float:
    return min(count * part, MOST_EVENTS)


def _exponential(rates: Matrix) -> Matrix:
    """By squaring; nothing is subtracted, so that small shares are as exact as large ones."""
    largest = max(1.0, float(np.abs(rates).max()))
    halvings = _HALVINGS + math.ceil(math.log2(largest))
    part, eye = rates / 2.0**halvings, np.eye(len(rates))
    found = eye + part @ (eye + part / 2 @ (eye + part / 3 @ (eye + part / 4)))
    for _ in range(halvings):
        found = found @ found
    return found


def in_turn(rates: Sequence[float]) -> Absence:
    """Events that come in any order: the next is any of those that are still to come."""
    left = sorted(rates)
    steps = []
    while left:
        steps.append(sum(left))
        left.pop()
    return Absence(tuple(steps))


# --- of patterns ---------------------------------------------------------------------------------

Expected = Callable[[Event], float]  # how many events of a component a window holds


def absences(pattern: Pattern, expected: Expected) -> Space | None:
    """What is absent where a pattern is negated; None for what is no sequence of events.

    A group is there when its first event is, and `E^n` when n are.
    """
    match pattern:
        case Event(_, _, Exactly(count)):
            return (Absence((expected(pattern),) * count),)
        case Event():
            return (Absence((expected(pattern),)),)
        case Or(parts):
            each = [absences(part, expected) for part in parts]
            known = [space for space in each if space is not None]
            return sum(known, ()) if len(known) == len(each) else None
        case Seq():
            return _sequence(_flat(pattern), expected)
        case And(parts):
            rates = [_rate(part, expected) for part in parts if not isinstance(part, Neg)]
            known_rates = [rate for rate in rates if rate is not None]
            whole = bool(rates) and len(known_rates) == len(rates)
            return (in_turn(known_rates),) if whole else None
        case Proj() | Neg():
            return None


def _sequence(parts: list[Pattern], expected: Expected) -> Space | None:
    steps: list[float] = []
    blocks: list[float] = []
    before = 0.0
    for part in parts:
        if isinstance(part, Neg):
            lost = _rate(part.part, expected)
            if lost is None:
                return None
            before += lost
            continue
        space = absences(part, expected)
        if space is not None and all(len(absence.steps) == 1 for absence in space):
            space = (Absence((sum(absence.rate for absence in space),)),)
        if space is None or len(space) != 1:
            return None  # one of several sequences
        own = space[0].steps[::-1]
        steps += own
        blocks += [before, *[0.0] * (len(own) - 1)]
        before = 0.0
    if not steps:
        return None
    # What is negated at an end must not come before the space ends there.
    for end, lost in ((0, blocks[0]), (-1, before)):
        if lost > 0 and steps[end] > 0:
            steps[end] *= steps[end] / (steps[end] + lost)
    # From the last to the first: what stands before a component is lost on the way to the next.
    return (Absence(tuple(steps[::-1]), (0.0, *blocks[:0:-1])),)


def _rate(pattern: Pattern, expected: Expected) -> float | None:
    space = absences(pattern, expected)
    return None if space is None else sum(absence.rate for absence in space)


def _flat(pattern: Pattern) -> list[Pattern]:
    """The parts of a SEQ, with those of SEQs and ANDs of negations in their place."""
    if isinstance(pattern, Seq) or not any(positive_events(pattern)):
        parts = () if isinstance(pattern, Neg) else parts_of(pattern)
        return [inner for part in parts for inner in _flat(part)] or [pattern]
    return [pattern]
