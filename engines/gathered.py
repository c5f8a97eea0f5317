"""Statistics gathered while a workload runs, stretch after stretch of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from engines.errors import EventsError
from engines.events import Events
from engines.statistics import measure
from optimizer.ir.query import BoundWorkload
from optimizer.statistics import KeyStatistics, Sample, Statistics
from optimizer.statistics.known import key_text
from workloads.model import NO_STATISTICS

_EVENTS = "events of the key"  # a column beside those of the key


class Gathered:
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
        self._workload = replace(workload, statistics=NO_STATISTICS)
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
