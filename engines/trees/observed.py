"""What batches of events say of their rates, keys and conditions: cheap to look at, and to add up.

A statistic is a number of hits in an exposure: events of a symbol in seconds, or combinations of
events that satisfy a condition in a sample of them. So several batches add up to a mean, and it can
be told whether two differ by more than chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from engines.columns.evaluate import evaluate
from engines.columns.vectors import Vector, truth
from engines.trees.picked import Picked
from optimizer.ir.pattern import Symbol
from optimizer.statistics import Defaults, KeyStatistics, Statistics
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printer import print_expression

SAMPLE = 512  # combinations of events that a condition is tried on
CHANCE = 4.0  # standard errors that two observations may be apart


class Question(NamedTuple):
    """A condition, and the symbols that its aliases stand for, in the order of their names."""

    condition: ex.Expression
    symbols: tuple[Symbol, ...]

    def __str__(self) -> str:
        names = dict(zip(sorted(ex.aliases(self.condition)), map(str, self.symbols), strict=True))
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
    """What one batch says; `answers` to what was asked of it, as far as it can tell."""

    events: int
    seconds: float
    key: KeyStatistics
    answers: Mapping[Asked, Observed]


def look(picked: Picked, asked: Iterable[Asked]) -> Snapshot:
    """A snapshot of some events."""
    events = picked.columns.events
    seconds = int(events.ticks[-1] - events.ticks[0]) * events.tick / 1e9 if len(events) else 0.0
    seconds = seconds or 1.0
    answers = {each: found for each in asked if (found := _answer(picked, each, seconds))}
    return Snapshot(len(events), seconds, picked.spread, answers)


def _answer(picked: Picked, asked: Asked, seconds: float) -> Observed | None:
    if isinstance(asked, Symbol):
        return Observed(len(picked.of(asked)), seconds)
    return _try(picked, asked)


def _try(picked: Picked, question: Question) -> Observed | None:
    """How many of random combinations of events satisfy a condition; None where there are none.

    They need not stand in one window: that costs more to draw than a better tree saves.
    """
    condition, symbols = question
    if ex.has_group_call(condition):
        return None  # of groups there is no sample
    random = np.random.default_rng(0)
    drawn = {}
    for alias, symbol in zip(sorted(ex.aliases(condition)), symbols, strict=True):
        places = picked.of(symbol)
        if not len(places):
            return None
        drawn[alias] = places[random.integers(0, len(places), SAMPLE)].astype(np.int64)

    def attribute(node: ex.Attribute) -> Vector:
        return picked.vector(node.name).take(drawn[node.alias])

    try:
        found = truth(evaluate(condition, attribute, picked.columns.text_code))
    except UnsupportedError:
        return None
    return Observed(int(np.count_nonzero(np.broadcast_to(found, SAMPLE))), SAMPLE)


def added_up(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The mean of several batches; the key is the last one's."""
    answers: dict[Asked, Observed] = {}
    for snapshot in snapshots:
        for asked, found in snapshot.answers.items():
            answers[asked] = answers[asked] + found if asked in answers else found
    return Snapshot(
        sum(snapshot.events for snapshot in snapshots),
        sum(snapshot.seconds for snapshot in snapshots),
        snapshots[-1].key,
        answers,
    )


@dataclass(frozen=True)
class Running(Statistics):
    """The statistics that a snapshot gives; what it was not asked, the events at hand are.

    `asked` is all that a planner wanted to know.
    """

    snapshot: Snapshot | None = None
    picked: Picked | None = None
    asked: dict[Asked, Observed | None] = field(default_factory=dict)

    @staticmethod
    def of(snapshot: Snapshot, picked: Picked) -> Running:
        return Running(
            events=snapshot.events,
            span=snapshot.seconds,
            source="running",
            snapshot=snapshot,
            picked=picked,
        )

    def rate(self, symbol: Symbol) -> float:
        found = self._observed(symbol)
        assert found is not None
        return max(found.hits, 1e-6) / found.exposure

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        assert self.snapshot is not None
        return self.snapshot.key

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        names = sorted(ex.aliases(condition))
        question = Question(condition, tuple(symbols[name] for name in names))
        found = self._observed(question)
        return Defaults().selectivity(condition) if found is None else found.value

    def _observed(self, asked: Asked) -> Observed | None:
        if asked not in self.asked:
            assert self.snapshot is not None
            assert self.picked is not None
            found = self.snapshot.answers.get(asked)
            self.asked[asked] = found or _answer(self.picked, asked, self.snapshot.seconds)
        return self.asked[asked]
