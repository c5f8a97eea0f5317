"""Statistics of a stream while it runs: those of all of it so far, and snapshots of the latest
events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeAlias
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.vectors import Vector, evaluate, truth
from engines.input.event_table import Events
from engines.limits import EventsError
from engines.matching.trees.buffers import SelectedEvents
from engines.statistics.measure import measure
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import BoundWorkload
from optimizer.statistics import Defaults, KeyStatistics, Sample, Statistics
from optimizer.statistics.statistics import key_text
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printing import print_expression
from workloads.workload import NO_STATISTICS

_EVENTS = "events of the key"  # a column beside those of the key


class RunningStatistics:
    """Statistics of a stream that comes in stretches, each looked at as it passes.

    Of each stretch at most `max_events` are sampled, and joint predicates tried on at most
    `max_pairs` pairs; keys are counted over all events. Stretches follow one another in time.
    """

    def __init__(
        self,
        workload: BoundWorkload,
        seed: int = 0,
        max_events: int = 50_000,
        max_pairs: int = 4_000,
    ) -> None:
        # What the author gave is not what was seen.
        self._workload = replace(workload.of_stream, statistics=NO_STATISTICS)
        self._seed, self._max_events, self._max_pairs = seed, max_events, max_pairs
        self._found: list[Statistics] = []
        self._events, self._span = 0, 0.0
        self._keys: dict[tuple[str, ...], pa.Table] = {}
        self._last: int | None = None

    def add(self, events: Events) -> None:
        """The next stretch of the stream."""
        if not len(events):
            return
        self._events += len(events)
        first = int(events.ticks.min()) if self._last is None else self._last
        self._last = max(first, int(events.ticks.max()))
        self._span += (self._last - first) * events.tick / 1e9
        for key in {query.key for query in self._workload.queries if query.key}:
            self._count(key, events.table)
        if events.ticks.min() < events.ticks.max():
            seed = self._seed + len(self._found)
            self._found.append(
                measure(self._workload, events, seed, self._max_events, self._max_pairs)
            )

    def _count(self, key: tuple[str, ...], table: pa.Table) -> None:
        """Events by value of the key, added to those before."""
        new = table.select(list(dict.fromkeys(key))).drop_null()
        new = new.append_column(_EVENTS, pa.repeat(pa.scalar(1, pa.int64()), len(new)))
        before = self._keys.get(key)
        both = new if before is None else pa.concat_tables([before, new])
        counted = both.group_by([*dict.fromkeys(key)]).aggregate([(_EVENTS, "sum")])
        self._keys[key] = counted.rename_columns([*dict.fromkeys(key), _EVENTS])

    def statistics(self) -> Statistics:
        """What has been seen so far; raises `EventsError` where that is no stretch of time."""
        if not self._found or not self._span:
            raise EventsError(
                "rates cannot be measured: the events are all of one moment; run over a longer "
                "stream"
            )
        samples = [found.sample for found in self._found if found.sample is not None]
        pairs: dict[str, int] = {}
        for sample in samples:
            for text, number in sample.pairs.items():
                pairs[text] = pairs.get(text, 0) + number
        seen = [sample.events for sample in samples]
        return Statistics(
            rates={
                name: sum(found.rates[name] * (found.span or 0.0) for found in self._found)
                / self._span
                for name in self._found[0].rates
            },
            selectivities=_weighted(
                [
                    (
                        found.selectivities,
                        {
                            text: float(sample.pairs.get(text, sample.events))
                            for text in found.selectivities
                        },
                    )
                    for found, sample in zip(self._found, samples, strict=True)
                ]
            ),
            keys={
                key_text(key): KeyStatistics(float(len(table)), _heaviest(table))
                for key, table in sorted(self._keys.items())
                if len(table)
            },
            ties=sum((f.ties or 0.0) * n for f, n in zip(self._found, seen, strict=True))
            / sum(seen),
            events=self._events,
            span=self._span,
            source="running",
            sample=Sample(sum(seen), self._seed, pairs),
        )


def _heaviest(table: pa.Table) -> float:
    counts = table.column(_EVENTS).to_numpy()
    return float(counts.max() / counts.sum())


def _weighted(found: list[tuple[Mapping[str, float], Mapping[str, float]]]) -> dict[str, float]:
    """By name, the mean of values by their weights; those that were found nowhere are not there."""
    total: dict[str, float] = {}
    weight: dict[str, float] = {}
    for values, weights in found:
        for name, value in values.items():
            total[name] = total.get(name, 0.0) + value * weights[name]
            weight[name] = weight.get(name, 0.0) + weights[name]
    return {name: total[name] / weight[name] for name in total if weight[name]}


SAMPLE_ROWS = 512  # combinations of events that a condition is tried on to plan
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


StatisticQuestion: TypeAlias = Symbol | Question


@dataclass(frozen=True, slots=True)
class Observation:
    """So many hits in an exposure."""

    hits: float
    exposure: float

    @property
    def value(self) -> float:
        """Hits in one unit of the exposure; half a hit where there was none."""
        return max(self.hits, 0.5) / self.exposure

    def __add__(self, other: Observation) -> Observation:
        return Observation(self.hits + other.hits, self.exposure + other.exposure)

    def times(self, before: Observation, chance: float = CHANCE) -> float:
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
    asked: tuple[StatisticQuestion, ...]
    answers: tuple[Observation | None, ...]


def look(picked: SelectedEvents, asked: tuple[StatisticQuestion, ...]) -> Snapshot:
    """A snapshot of some events."""
    events = picked.columns.events
    seconds = int(events.ticks[-1] - events.ticks[0]) * events.tick / 1e9 if len(events) else 0.0
    seconds = seconds or 1.0
    sample = min(SAMPLE_ROWS, max(LEAST, len(events) // SHARE))
    answers = tuple(_answer(picked, each, seconds, sample) for each in asked)
    return Snapshot(len(events), seconds, picked.spread, asked, answers)


def _answer(
    picked: SelectedEvents, asked: StatisticQuestion, seconds: float, sample: int
) -> Observation | None:
    if isinstance(asked, Symbol):
        return Observation(len(picked.of(asked)), seconds)
    return _try(picked, asked, sample)


def _try(picked: SelectedEvents, question: Question, sample: int) -> Observation | None:
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
        found = truth(evaluate(question.condition, attribute, picked.columns.texts))
    except UnsupportedError:
        return None
    return Observation(int(np.count_nonzero(found)) * sample // found.size, sample)


@cache
def _draws(number: int) -> npt.NDArray[np.float64]:
    """Random numbers from 0 to below 1, the same for the same number."""
    return np.random.default_rng(number).random(SAMPLE_ROWS)


def added_up(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The mean of several batches that were asked the same; the key is the last one's."""
    return Snapshot(
        sum(snapshot.events for snapshot in snapshots),
        sum(snapshot.seconds for snapshot in snapshots),
        snapshots[-1].key,
        snapshots[-1].asked,
        tuple(map(_sum, zip(*(snapshot.answers for snapshot in snapshots), strict=True))),
    )


def _sum(answers: tuple[Observation | None, ...]) -> Observation | None:
    found = None
    for answer in answers:
        found = answer if found is None or answer is None else found + answer
    return found


@dataclass(frozen=True)
class SnapshotStatistics(Statistics):
    """The statistics that a snapshot gives; what it was not asked, the events at hand are.

    `used` is all that a planner wanted to know. Planners keep statistics, which do not keep the
    events: they are those of a slice.
    """

    snapshot: Snapshot | None = None
    picked: ReferenceType[SelectedEvents] | None = None
    answers: dict[StatisticQuestion, Observation | None] = field(default_factory=dict)
    used: set[StatisticQuestion] = field(default_factory=set)

    __eq__ = object.__eq__  # each notes what it was asked itself
    __hash__ = object.__hash__

    @staticmethod
    def of(snapshot: Snapshot, picked: SelectedEvents) -> SnapshotStatistics:
        return SnapshotStatistics(
            events=snapshot.events,
            span=snapshot.seconds,
            source="running",
            snapshot=snapshot,
            picked=ref(picked),
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

    def _observed(self, asked: StatisticQuestion) -> Observation | None:
        self.used.add(asked)
        if self.answers.get(asked) is None:
            assert self.snapshot is not None
            picked = None if self.picked is None else self.picked()
            assert picked is not None
            self.answers[asked] = _answer(picked, asked, self.snapshot.seconds, SAMPLE_ROWS)
        return self.answers[asked]
