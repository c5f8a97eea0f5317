"""What batches of events say of their rates, keys and conditions: cheap to look at, and to add up.

A statistic is a number of hits in an exposure: events of a symbol in seconds, or combinations of
events that satisfy a condition in a sample of them. So several batches add up to a mean, and it can
be told whether two differ by more than chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.evaluate import evaluate
from engines.columns.vectors import Vector, truth
from engines.trees.picked import Picked
from optimizer.ir.pattern import Symbol
from optimizer.statistics import Defaults, KeyStatistics, Statistics
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printer import print_expression

SAMPLE = 512  # combinations of events that a condition is tried on to plan
LEAST, SHARE = 64, 32  # those of a batch that is only looked at: one for so many events
CHANCE = 4.0  # standard errors that two observations may be apart


class Question(NamedTuple):
    """A condition on single events, its aliases, and the symbols that they stand for."""

    condition: ex.Expression
    aliases: tuple[str, ...]
    symbols: tuple[Symbol, ...]

    def __str__(self) -> str:
        names = dict(zip(self.aliases, map(str, self.symbols), strict=True))
        return print_expression(ex.rename(self.condition, names))


Asked: TypeAlias = Symbol | Question


@dataclass(frozen=True, slots=True)
class Observed:
    """So many hits in an exposure."""

    hits: float
    exposure: float

    @property
    def value(self) -> float:
        """Hits in one unit of the exposure; half a hit where there was none."""
        return max(self.hits, 0.5) / self.exposure

    def __add__(self, other: Observed) -> Observed:
        return Observed(self.hits + other.hits, self.exposure + other.exposure)

    def times(self, before: Observed, chance: float = CHANCE) -> float:
        """How many times as much as before it is, or as little; 1 for what chance may explain."""
        low, high = sorted((self.value, before.value))
        error = (self.value / self.exposure + before.value / before.exposure) ** 0.5
        return high / low if high - low > chance * error else 1.0


@dataclass(frozen=True)
class Snapshot:
    """What one batch says: the answers to what was asked of it, None where it cannot tell.

    They stand in the order of the questions, as these are slow to look up.
    """

    events: int
    seconds: float
    key: KeyStatistics
    asked: tuple[Asked, ...]
    answers: tuple[Observed | None, ...]


def look(picked: Picked, asked: tuple[Asked, ...]) -> Snapshot:
    """A snapshot of some events."""
    events = picked.columns.events
    seconds = int(events.ticks[-1] - events.ticks[0]) * events.tick / 1e9 if len(events) else 0.0
    seconds = seconds or 1.0
    sample = min(SAMPLE, max(LEAST, len(events) // SHARE))
    answers = tuple(_answer(picked, each, seconds, sample) for each in asked)
    return Snapshot(len(events), seconds, picked.spread, asked, answers)


def _answer(picked: Picked, asked: Asked, seconds: float, sample: int) -> Observed | None:
    if isinstance(asked, Symbol):
        return Observed(len(picked.of(asked)), seconds)
    return _try(picked, asked, sample)


def _try(picked: Picked, question: Question, sample: int) -> Observed | None:
    """How many of random combinations of events satisfy a condition; None where there are none.

    They need not stand in one window: that costs more to draw than a better tree saves.
    """
    drawn = {}
    for i, (alias, symbol) in enumerate(zip(question.aliases, question.symbols, strict=True)):
        places = picked.of(symbol)
        if not len(places):
            return None
        drawn[alias] = places[(_draws(i)[:sample] * len(places)).astype(np.int64)].astype(np.int64)

    def attribute(node: ex.Attribute) -> Vector:
        return picked.vector(node.name).take(drawn[node.alias])

    try:
        found = truth(evaluate(question.condition, attribute, picked.columns.text_code))
    except UnsupportedError:
        return None
    return Observed(int(np.count_nonzero(found)) * sample // found.size, sample)


@cache
def _draws(number: int) -> npt.NDArray[np.float64]:
    """Random numbers from 0 to below 1, the same for the same number."""
    return np.random.default_rng(number).random(SAMPLE)


def added_up(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The mean of several batches that were asked the same; the key is the last one's."""
    return Snapshot(
        sum(snapshot.events for snapshot in snapshots),
        sum(snapshot.seconds for snapshot in snapshots),
        snapshots[-1].key,
        snapshots[-1].asked,
        tuple(map(_sum, zip(*(snapshot.answers for snapshot in snapshots), strict=True))),
    )


def _sum(answers: tuple[Observed | None, ...]) -> Observed | None:
    found = None
    for answer in answers:
        found = answer if found is None or answer is None else found + answer
    return found


@dataclass(frozen=True)
class Running(Statistics):
    """The statistics that a snapshot gives; what it was not asked, the events at hand are.

    `used` is all that a planner wanted to know.
    """

    snapshot: Snapshot | None = None
    picked: Picked | None = None
    answers: dict[Asked, Observed | None] = field(default_factory=dict)
    used: set[Asked] = field(default_factory=set)

    @staticmethod
    def of(snapshot: Snapshot, picked: Picked) -> Running:
        return Running(
            events=snapshot.events,
            span=snapshot.seconds,
            source="running",
            snapshot=snapshot,
            picked=picked,
            answers=dict(zip(snapshot.asked, snapshot.answers, strict=True)),
        )

    def answered(self) -> Snapshot:
        """All that was asked, as one snapshot."""
        assert self.snapshot is not None
        known = {each: answer for each, answer in self.answers.items() if each in self.used}
        return replace(self.snapshot, asked=tuple(known), answers=tuple(known.values()))

    def rate(self, symbol: Symbol) -> float:
        found = self._observed(symbol)
        assert found is not None
        return max(found.hits, 1e-6) / found.exposure

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        assert self.snapshot is not None
        return self.snapshot.key

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        if ex.has_group_call(condition):
            return Defaults().selectivity(condition)  # of groups there is no sample
        names = tuple(sorted(ex.aliases(condition)))
        question = Question(condition, names, tuple(symbols[name] for name in names))
        found = self._observed(question)
        return Defaults().selectivity(condition) if found is None else found.value

    def _observed(self, asked: Asked) -> Observed | None:
        self.used.add(asked)
        if self.answers.get(asked) is None:
            assert self.snapshot is not None
            assert self.picked is not None
            self.answers[asked] = _answer(self.picked, asked, self.snapshot.seconds, SAMPLE)
        return self.answers[asked]
