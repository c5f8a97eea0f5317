"""What the steps of funnels come to over all keys, put together from parts that have some each.

Of each prefix the times from the step before are kept, in groups of keys: medians and other
quantiles are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.input.event_table import Events
from engines.results.chunks import AggregateChunk
from engines.results.tables import aggregate_schema, coded, coded_schema
from optimizer.engines.funnels import Forest, forest_of, funnel_of
from optimizer.ir.query import Query, is_funnel

By = tuple[str, ...]
Gaps = npt.NDArray[np.integer]
Place = tuple[str, By]  # a prefix, and the attributes by which keys are in groups
_NO_GAPS = np.zeros(0, np.int64)


@dataclass
class FunnelTotals:
    """By prefix and group: the times from the step before, and the time of the last event.

    The group of all keys is None; others are JSON objects.
    """

    gaps: dict[Place, dict[str | None, list[Gaps]]] = field(default_factory=dict)
    last: dict[Place, dict[str | None, int]] = field(default_factory=dict)

    def add(self, place: Place, group: str | None, gaps: Gaps) -> None:
        """Add keys that came to a prefix."""
        if len(gaps):
            small = gaps.astype(np.min_scalar_type(int(gaps.max())))
            self.gaps.setdefault(place, {}).setdefault(group, []).append(small)

    def see(self, place: Place, group: str | None, time: int) -> None:
        """A group has an event at that time; the place is that of its first step."""
        known = self.last.setdefault(place, {})
        known[group] = max(time, known.get(group, time))

    def merge(self, other: FunnelTotals) -> None:
        """Add the keys of another part."""
        for place, groups in other.gaps.items():
            own = self.gaps.setdefault(place, {})
            for group, parts in groups.items():
                own.setdefault(group, []).extend(parts)
        for place, times in other.last.items():
            for group, time in times.items():
                self.see(place, group, time)

    def __len__(self) -> int:
        return len(self.last)


@dataclass(frozen=True)
class _Step:
    """What a prefix comes to: keys that reach it, median and 90th percentile of the time."""

    count: int
    median: float | None
    p90: float | None


def total_chunks(
    queries: Sequence[Query], totals: FunnelTotals, events: Events
) -> Iterator[AggregateChunk]:
    """The rows of steps, query by query; `events` tell how times are written."""
    by_key: dict[tuple[str, ...], list[Query]] = {}
    for query in queries:
        if is_funnel(query):
            by_key.setdefault(query.key, []).append(query)
    known: dict[tuple[Place, str | None], _Step] = {}
    for some in by_key.values():
        texts = prefix_texts(forest := forest_of(some))
        for query in some:
            if "steps" in funnel_of(query).gives:
                yield from _rows(query, forest, texts, totals, known, events)


def prefix_texts(forest: Forest) -> list[str]:
    """What tells each prefix from others, in every process."""
    return [prefix.text for prefix in forest.prefixes]


def _rows(
    query: Query,
    forest: Forest,
    texts: list[str],
    totals: FunnelTotals,
    known: dict[tuple[Place, str | None], _Step],
    events: Events,
) -> Iterator[AggregateChunk]:
    clause = funnel_of(query)
    places = [(texts[node], clause.by) for node in forest.paths[query.name]]
    rows: list[tuple[str | None, int, str, float | None, int | None]] = []
    for group, time in totals.last.get(places[0], {}).items():
        steps = [_step(totals, place, group, known) for place in places]
        for number, step in enumerate(steps):
            name, *others = clause.aggregates(number)
            rows.append((group, time, name, float(step.count), step.count))
            if others:
                first, before = steps[0].count, steps[number - 1].count
                values = (_ratio(step.count, first), _ratio(step.count, before))
                for text, value in zip(others, (*values, step.median, step.p90), strict=True):
                    rows.append((group, time, text, value, None))
    if not rows:
        return
    groups, times, names, values_, counts = zip(*rows, strict=True)
    schema = aggregate_schema(events.time_type)
    table = pa.table(
        {
            "query": pa.array([query.name] * len(rows), pa.string()),
            "key": pa.array(groups, pa.string()),
            "time": events.times(np.array(times, np.int64)),
            "seq": pa.nulls(len(rows), pa.int64()),
            "aggregate": pa.array(names, pa.string()),
            "value": pa.array(values_, pa.float64()),
            "count": pa.array(counts, pa.int64()),
            "exact": pa.array([True] * len(rows)),
        },
        schema=schema,
    )
    yield AggregateChunk(query.name, coded(table).cast(coded_schema(schema)))


def _step(
    totals: FunnelTotals,
    place: Place,
    group: str | None,
    known: dict[tuple[Place, str | None], _Step],
) -> _Step:
    if (place, group) not in known:
        parts = totals.gaps.get(place, {}).get(group, [])
        gaps = np.concatenate(parts) if parts else _NO_GAPS
        known[place, group] = _Step(len(gaps), _quantile(gaps, 5), _quantile(gaps, 9))
    return known[place, group]


def _quantile(gaps: Gaps, tenths: int) -> float | None:
    """The value at so many tenths of the way from the least to the greatest, exactly rounded."""
    if not len(gaps):
        return None
    low, rest = divmod((len(gaps) - 1) * tenths, 10)
    high = min(low + 1, len(gaps) - 1)
    ordered = np.partition(gaps, [low, high])
    return (int(ordered[low]) * (10 - rest) + int(ordered[high]) * rest) / 10


def _ratio(count: int, of: int) -> float | None:
    return count / of if of else None
